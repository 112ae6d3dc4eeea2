"""Ties and rounding: a logit of exactly 0 is positive, and what rounding may hide is UNKNOWN, never FAIR."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.network import Activation, Network
from fairmend.prove.certify import certify
from fairmend.prove.engines.findings import WITHIN_ROUNDING, Findings
from fairmend.prove.rational import exact_classes
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.certify_cases import CONTINUOUS, RELU, affine, linear
from support.strategies import networks
from support.strategies_spec import unhurried

AGE = Spec([Feature("age", "integer", range=(0, 10), protected=True)])


@pytest.mark.parametrize("engine", ["enumerate", "branch"])
def test_a_tie_on_a_lattice_is_positive(engine):
    touching = linear(1.0, bias=0.0)  # 0 at age 0, else positive
    assert certify(touching, AGE, [[4.0]], engine).verdicts == (Verdict.FAIR,)
    assert certify(touching, AGE, [[0.0]], engine).verdicts == (Verdict.FAIR,)
    below = linear(-1.0, bias=0.0)  # 0 at age 0, so positive there, else negative
    report = certify(below, AGE, [[4.0]], engine)
    assert report.verdicts == (Verdict.UNFAIR,)
    assert report.witnesses[0].other.tolist() == [0.0]
    assert (report.witnesses[0].answer, report.witnesses[0].other_answer) == (0, 1)


@pytest.mark.parametrize("engine", ["enumerate", "branch"])
def test_of_equal_logits_the_first_class_wins_on_a_lattice(engine):
    net = Network([affine([[0.0], [-1.0], [0.0]], [1.0, 1.0, 1.0])], [])
    assert certify(net, AGE, [[4.0]], engine).verdicts == (Verdict.FAIR,)
    net = Network([affine([[0.0], [1.0]], [0.0, 0.0])], [])  # class 1, but at age 0 the first
    report = certify(net, AGE, [[4.0]], engine)
    assert report.witnesses[0].other.tolist() == [0.0]


def test_milp_leaves_a_tie_open_and_says_by_how_much():
    report = certify(linear(1.0, bias=0.0), AGE, [[4.0]], "milp")
    assert report.verdicts == (Verdict.UNKNOWN,)
    assert "within the tolerance of the solver, 1e-06" in report.reasons[0]


@pytest.mark.parametrize(
    "net",
    [
        linear(0.0, 0.0, bias=0.0),
        linear(1.0, 0.0, bias=0.0),
        Network([affine([[1.0, 0.3], [-1.0, -0.3]], [-0.5, 0.5]), affine([[1.0, 1.0]], [0.0])], [RELU]),
    ],
    ids=["everywhere", "at an end", "along a line"],
)
@pytest.mark.parametrize("engine", ["branch", "milp"])
def test_a_tie_on_a_continuous_column_ends_soon_and_is_not_called_fair(net, engine):
    report = certify(net, CONTINUOUS, np.array([[0.7, 0.5]], np.float32), engine)
    assert report.verdicts == (Verdict.UNKNOWN,)
    if engine == "branch":
        assert report.reasons == (WITHIN_ROUNDING,)


def test_a_class_that_only_rounding_gives_is_not_called_fair():
    # 1 + 2^-24 rounds to 1 in float32, so inference says 0 (positive) where the real logit is -2^-24.
    net = Network([affine([[1.0], [2.0**-24]], [0.0, 0.0]), affine([[-1.0, -1.0]], [1.0])], [RELU])
    spec = Spec([Feature("age", "integer", range=(0, 1), protected=True)])
    X = np.array([[1.0]], np.float32)
    assert net.predict(X).tolist() == [1]
    for engine in ("enumerate", "branch"):
        assert certify(net, spec, X, engine).reasons == (WITHIN_ROUNDING,)
    assert certify(net, spec, X, "milp").verdicts == (Verdict.UNKNOWN,)


def test_a_curved_network_at_a_tie_is_unknown():
    net = Network([affine([[1.0]], [0.0]), affine([[1.0]], [0.0])], [Activation("tanh")])
    for engine in ("enumerate", "branch"):
        assert certify(net, AGE, [[4.0]], engine).reasons == (WITHIN_ROUNDING,)


def test_a_candidate_that_does_not_replay_is_no_witness():
    net, X = linear(1.0, bias=0.0), np.array([[4.0]], np.float32)
    findings = Findings(net, X)
    findings.try_witnesses(np.array([0]), np.array([[5.0]], np.float32), np.array([-1.0]))
    assert not findings.unfair.any()
    findings.try_witnesses(np.array([0, 0]), np.array([[5.0], [-1.0]], np.float32), np.array([-1.0, -0.5]))
    assert findings.unfair.all()
    assert findings.result("enumerate").witnesses[0].other.tolist() == [-1.0]


def fraction_class(net, x):
    values = [Fraction(float(v)) for v in x]
    for layer, a in enumerate(net.affines):
        values = [
            sum((Fraction(float(w)) * v for w, v in zip(row, values, strict=True)), Fraction(float(b)))
            for row, b in zip(a.weight, a.bias, strict=True)
        ]
        if layer < len(net.activations):
            slope = {"relu": Fraction(0), "identity": Fraction(1)}.get(
                net.activations[layer].name, Fraction(net.activations[layer].slope)
            )
            values = [v if v >= 0 else slope * v for v in values]
    return int(values[0] >= 0) if len(values) == 1 else values.index(max(values))


@unhurried
@given(
    net=networks(activations=(RELU, Activation("leaky_relu", 0.01), Activation("identity"))),
    seed=st.integers(0, 2**32 - 1),
    coarse=st.booleans(),
)
def test_exact_classes_are_those_of_fractions(net, seed, coarse):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(3, net.inputs)).astype(net.dtype) * net.dtype.type(10.0 ** rng.integers(-30, 30))
    points[rng.random(points.shape) < 0.3] = 0.0
    if coarse:  # small whole numbers make ties
        net = net.with_affines([affine(np.rint(a.weight), np.rint(a.bias), net.dtype) for a in net.affines])
        points = rng.integers(-2, 3, points.shape).astype(net.dtype)
    assert exact_classes(net, points).tolist() == [fraction_class(net, x) for x in points]

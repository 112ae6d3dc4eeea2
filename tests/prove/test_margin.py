"""Ties and rounding: a logit of exactly 0 is positive, and what rounding may hide is UNKNOWN, never FAIR."""

import numpy as np
import pytest

from fairmend.network import Activation, Network
from fairmend.prove.certify import certify
from fairmend.prove.engines.findings import WITHIN_ROUNDING
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.certify_cases import CONTINUOUS, RELU, affine, linear

AGE = Spec([Feature("age", "integer", range=(0, 10), protected=True)])


@pytest.mark.parametrize("engine", ["enumerate", "branch", "milp"])
def test_a_tie_on_a_lattice_is_positive(engine):
    touching = linear(1.0, bias=0.0)  # 0 at age 0, else positive
    assert certify(touching, AGE, [[4.0]], engine).verdicts == (Verdict.FAIR,)
    assert certify(touching, AGE, [[0.0]], engine).verdicts == (Verdict.FAIR,)
    below = linear(-1.0, bias=0.0)  # 0 at age 0, so positive there, else negative
    report = certify(below, AGE, [[4.0]], engine)
    assert report.verdicts == (Verdict.UNFAIR,)
    assert report.witnesses[0].other.tolist() == [0.0]
    assert (report.witnesses[0].answer, report.witnesses[0].other_answer) == (0, 1)


@pytest.mark.parametrize("engine", ["enumerate", "branch", "milp"])
def test_of_equal_logits_the_first_class_wins_on_a_lattice(engine):
    net = Network([affine([[0.0], [-1.0], [0.0]], [1.0, 1.0, 1.0])], [])
    assert certify(net, AGE, [[4.0]], engine).verdicts == (Verdict.FAIR,)
    net = Network([affine([[0.0], [1.0]], [0.0, 0.0])], [])  # class 1, but at age 0 the first
    report = certify(net, AGE, [[4.0]], engine)
    assert report.witnesses[0].other.tolist() == [0.0]


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
    assert report.reasons == (WITHIN_ROUNDING,)


def test_a_class_that_only_rounding_gives_is_not_called_fair():
    # 1 + 2^-24 rounds to 1 in float32, so inference says 0 (positive) where the real logit is -2^-24.
    net = Network([affine([[1.0], [2.0**-24]], [0.0, 0.0]), affine([[-1.0, -1.0]], [1.0])], [RELU])
    spec = Spec([Feature("age", "integer", range=(0, 1), protected=True)])
    X = np.array([[1.0]], np.float32)
    assert net.predict(X).tolist() == [1]
    for engine in ("enumerate", "branch", "milp"):
        assert certify(net, spec, X, engine).reasons == (WITHIN_ROUNDING,)


def test_a_curved_network_at_a_tie_is_unknown():
    net = Network([affine([[1.0]], [0.0]), affine([[1.0]], [0.0])], [Activation("tanh")])
    for engine in ("enumerate", "branch"):
        assert certify(net, AGE, [[4.0]], engine).reasons == (WITHIN_ROUNDING,)

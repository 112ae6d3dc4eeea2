"""Bounds of scores contain the scores of all points, and the errors of inference exceed what is seen."""

import numpy as np
import pytest

from fairmend.network import Activation, Network
from fairmend.network.model import compute_scores
from fairmend.prove.certify import certify
from fairmend.prove.engines.findings import ClassFindings
from fairmend.prove.kernel_bounds import KernelBounds, require_scores
from fairmend.prove.result import Verdict
from fairmend.spec import Claim, Feature, Spec
from support.certify_cases import CONTINUOUS, RELU, affine, linear
from support.spec_cases import refused
from support.strategies import random_network

# Ties and rounding: a logit of exactly 0 is positive, and what rounding may hide is UNKNOWN, never FAIR.


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
    assert report.reasons == (ClassFindings.within_rounding,)


def test_a_class_that_only_rounding_gives_is_not_called_fair():
    # 1 + 2^-24 rounds to 1 in float32, so inference says 0 (positive) where the real logit is -2^-24.
    net = Network([affine([[1.0], [2.0**-24]], [0.0, 0.0]), affine([[-1.0, -1.0]], [1.0])], [RELU])
    spec = Spec([Feature("age", "integer", range=(0, 1), protected=True)])
    X = np.array([[1.0]], np.float32)
    assert net.predict(X).tolist() == [1]
    for engine in ("enumerate", "branch", "milp"):
        assert certify(net, spec, X, engine).reasons == (ClassFindings.within_rounding,)


def test_a_curved_network_at_a_tie_is_unknown():
    net = Network([affine([[1.0]], [0.0]), affine([[1.0]], [0.0])], [Activation("tanh")])
    for engine in ("enumerate", "branch"):
        assert certify(net, AGE, [[4.0]], engine).reasons == (ClassFindings.within_rounding,)


CLAIMS = [Claim("score", 0.1, on) for on in ("probability", "logit")]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.on)
@pytest.mark.parametrize("outputs", [1, 2, 4])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_bounds_contain_the_scores(claim, outputs, scale):
    rng = np.random.default_rng(outputs)
    net = random_network(rng, 3, [6, 5], outputs, dtype=np.float32)
    middle = rng.normal(size=(20, 3)).astype(np.float32) * np.float32(scale)
    lower, upper = middle - np.float32(0.1 * scale), middle + np.float32(0.1 * scale)
    bounds = KernelBounds(net, claim.on)
    low, high = bounds.box_scores(lower, upper)
    for _ in range(20):
        share = rng.random(middle.shape, dtype=np.float32)
        points = np.clip(lower + (upper - lower) * share, lower, upper)
        real = compute_scores(net.astype(np.float64), points, claim.on)
        computed = compute_scores(net, points, claim.on)
        assert ((low <= computed) & (computed <= high)).all()
        assert ((low <= real + 1e-12) & (real - 1e-12 <= high)).all()
        least, most = bounds.exact_scores(points)
        assert ((least <= real) & (real <= most)).all() or claim.on == "probability"
        assert (np.abs(least - real) <= 1e-10 * (1 + np.abs(real))).all()
        least, most = bounds.computed_scores(points)
        assert ((least <= computed) & (computed <= most)).all()
        wider, widest = bounds.computed_scores(points, bounds.output_error(lower, upper))
        assert ((wider <= least + 1e-12) & (most - 1e-12 <= widest)).all()


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_probabilities_and_margins_of_boxes_hold_for_their_points(outputs):
    rng = np.random.default_rng(outputs)
    net = random_network(rng, 3, [6, 5], outputs, dtype=np.float64).at_threshold(0.5)
    lower = rng.normal(size=(20, 3))
    upper = lower + 0.2
    low, high, margins = KernelBounds(net, "probability").box_probabilities(lower, upper)
    assert ((low >= 0) & (high <= 1) & (low <= high)).all()
    for _ in range(20):
        points = lower + (upper - lower) * rng.random(lower.shape)
        real = compute_scores(net, points, "probability")
        assert ((low <= real + 1e-12) & (real - 1e-12 <= high)).all()
        other = np.arange(margins.shape[1]) != net.predict(points)[:, None]
        assert (margins[other] <= 0).all()


def test_the_output_of_a_network_that_ends_in_a_sigmoid_is_not_its_raw_output():
    net = random_network(np.random.default_rng(0), 2, [4], 1)
    closed = type(net)(net.affines, net.activations, "sigmoid")
    claim = Claim("score", 1.0, "output")
    require_scores(net, claim)
    for on in ("logit", "probability"):
        require_scores(closed, Claim("score", 0.1, on))
    with refused("ends in a sigmoid", 'on = "probability" or "logit"'):
        require_scores(closed, claim)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_error_over_all_boxes_together_is_taken_only_where_margins_exceed_it(outputs):
    rng = np.random.default_rng(0)
    bounds = KernelBounds(random_network(rng, 4, [8, 6], outputs=outputs))
    lower = rng.normal(size=(12, 4)).astype(np.float32)
    upper, classes = lower + rng.random((12, 4)).astype(np.float32), np.arange(12) % max(2, outputs)
    each = bounds.margin_error(lower, upper, classes)
    together = bounds.margin_error(lower, upper, classes, np.full(12, np.inf))
    assert (together >= each * (1 - 1e-9)).all()
    margins = np.where(np.arange(12) < 6, each, 2 * together)
    mixed = bounds.margin_error(lower, upper, classes, margins)
    assert mixed[:6].tolist() == each[:6].tolist()
    assert mixed[6:].tolist() == together[6:].tolist()

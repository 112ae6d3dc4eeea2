"""The MILP engine does not take the solver's word for it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.milp import Status
from fairmend.milp.highs import Highs
from fairmend.network import Activation, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Sum
from fairmend.prove.certify import certify
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.bumps import exact_class, plant_bump
from support.certify_cases import (
    CONTINUOUS,
    KINKED,
    RELU,
    affine,
    balanced_network,
    brute_force,
    check_witnesses,
    finite_cases,
    linear,
    sliver,
)
from support.examples import examples
from support.strategies import random_network

# The encoded network is the network, and its units stay within their intervals.


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "identity"])
def test_units_stay_within_the_intervals_that_big_m_is_made_of(activation):
    rng = np.random.default_rng(0)
    spec = CONTINUOUS
    net = random_network(rng, 2, [8, 7, 6], activation=activation, dtype=np.float64)
    regions = spec.regions(spec.sample_inputs(5, rng, np.float64), np.float64)
    known = KernelBounds(net).function_intervals(regions.lower, regions.upper)
    t = rng.random((2000, 5, 2))
    points = regions.lower + t * (regions.upper - regions.lower)
    for layer, (low, high) in enumerate(known):
        until = Network(net.affines[: layer + 1], net.activations[:layer])
        values = until.logits(points.reshape(-1, 2)).reshape(2000, 5, -1)
        assert (values >= low - 1e-12).all()  # the values are rounded
        assert (values <= high + 1e-12).all()


def test_a_kink_that_is_crossed_by_very_little_is_not_stable():
    net = Network([affine([[1.0]], [-1.0], np.float64), affine([[1.0]], [0.0], np.float64)], [Activation("relu")])
    low, high = KernelBounds(net).function_intervals(np.array([[0.0]]), np.array([[1 + 1e-13]]))[0]
    assert low[0, 0] <= -1.0
    assert high[0, 0] >= 1e-13


def test_a_network_without_kinks_is_a_linear_program():
    net = Network(
        [affine([[1.0, 0.5], [0.5, 1.0]], [0.0, 0.0]), affine([[1.0, -1.0]], [0.6])], [Activation("identity")]
    )
    report = certify(net, CONTINUOUS, np.array([[0.5, 0.5], [1.0, 0.0]], np.float32), "milp")
    # f = 0.5 score - 0.5 income + 0.6 is at least 0.2 at income 0.8.
    assert report.verdicts == (Verdict.FAIR, Verdict.FAIR)


CONTINUOUS_CORNER = Spec([Feature(name, "continuous", range=(0, 1), protected=True) for name in ("a", "b")])
AGE = Spec([Feature("age", "integer", range=(0, 10), protected=True)])
X = np.array([[4.0]], np.float32)


def lying(monkeypatch, change):
    """Let HiGHS answer honestly, then change its answer."""
    honest = Highs.solve
    monkeypatch.setattr(Highs, "solve", lambda self, milp, **options: change(honest(self, milp, **options)))


LIES = {
    "a bound far too high": {"bound": 100.0, "x": None, "objective": None},
    "an optimum far too low": {"bound": -1000.0, "objective": -1000.0},
    "infeasible": {"status": Status.INFEASIBLE, "x": None, "objective": None, "bound": np.inf},
    "an error": {"status": Status.ERROR, "x": None, "objective": None, "bound": -np.inf},
    "a limit": {"status": Status.LIMIT, "x": None, "objective": None, "bound": -np.inf},
    "unbounded": {"status": Status.UNBOUNDED, "x": None, "objective": None, "bound": -np.inf},
}


@pytest.mark.parametrize("lie", LIES)
def test_no_answer_of_the_solver_makes_a_verdict(monkeypatch, lie):
    lying(monkeypatch, lambda solution: replace(solution, **LIES[lie]))
    assert certify(linear(1.0, bias=-5.5), AGE, X, "milp").verdicts == (Verdict.UNFAIR,)
    assert certify(linear(1.0, bias=1.0), AGE, X, "milp").verdicts == (Verdict.FAIR,)
    hidden = sliver(7.0, 0.5, others=0)  # negative at 7 only
    assert certify(hidden, AGE, X, "milp").verdicts == (Verdict.UNFAIR,)


def test_a_solver_that_accepts_no_model_costs_no_verdict(monkeypatch):
    def refuse(*arguments, **options):
        raise FairmendError("HiGHS does not accept the model")

    monkeypatch.setattr(Highs, "solve", refuse)
    inputs = CONTINUOUS.sample_inputs(5, np.random.default_rng(0))
    assert certify(sliver(0.73123, 1e-2), CONTINUOUS, inputs, "milp").unfair_rate == 1.0
    assert certify(sliver(1.5, 1e-2), CONTINUOUS, inputs, "milp").counts["fair"] == 5


def test_a_kink_that_is_crossed_by_very_little_counts_if_the_next_weight_is_large():
    # A kink crossed by 1e-12, times 4e12; the solver keeps its constraints to 1e-9.
    first = affine([[1.0, -1.0]], [-1.0 + 1e-12], np.float64)  # positive in one corner only
    net = Network([first, affine([[-4e12]], [1.0], np.float64)], [RELU])
    report = certify(net, CONTINUOUS_CORNER, np.array([[0.5, 0.5]]), "milp")
    assert report.verdicts != (Verdict.FAIR,)
    assert exact_class(net, np.array([1.0, 0.0])) == 0


def test_tiny_coefficients_do_not_lead_to_a_wrong_verdict():
    # HiGHS 1.15.1 returns the optimum 0 instead of -1 where the second unit's kink is encoded as one.
    net = Network([affine([[1.0], [2.0**-24]], [0.0, 0.0]), affine([[-1.0, -1.0]], [0.5])], [RELU])
    spec = Spec([Feature("age", "integer", range=(0, 1), protected=True)])
    assert certify(net, spec, np.array([[0.0]], np.float32), "milp").verdicts == (Verdict.UNFAIR,)


UNKNOWN = Verdict.UNKNOWN


@examples(40)
@finite_cases
def test_milp_agrees_with_brute_force(case, seed, outputs, data):
    spec, X = case
    net = balanced_network(seed, spec, data.draw(st.sampled_from(KINKED)), outputs, X.dtype)
    report = certify(net, spec, X, "milp")
    for verdict, true in zip(report.verdicts, brute_force(net, spec, X), strict=True):
        assert verdict in (true, UNKNOWN)  # within rounding error it may not tell
    check_witnesses(net, spec, X, report)


# The engine that relied on the solver called these bumps FAIR.
ONCE_FAIR = (66, 119, 121, 145, 165, 171, 200, 228, 237, 313, 402, 424)


@pytest.mark.parametrize("seed", [*range(16), *ONCE_FAIR])
def test_a_planted_bump_is_never_called_fair(seed):
    bump = plant_bump(np.random.default_rng([2026, seed]))
    for engine in ("branch", "milp"):
        report = certify(bump.network, bump.spec, bump.x[None], engine, time_limit=0.5)
        assert report.verdicts != (Verdict.FAIR,)


GRAPH_SPEC = Spec(
    [
        Feature("job", "integer", range=(0, 3), protected=True),
        Feature("years", "integer", range=(0, 12), tolerance=3),
        Feature("score", "integer", range=(0, 6)),
    ]
)


def graph(rng, activation):
    """An embedding of the first column beside the others, a residual block, and the input again at the head."""
    nodes = [
        Node(Input(3)),
        Node(Columns((0,)), (0,)),
        Node(Lookup(rng.normal(size=(4, 2)).astype(np.float32)), (1,)),
        Node(Columns((1, 2)), (0,)),
        Node(Concatenate(), (2, 3)),
        Node(affine(rng.normal(size=(4, 4)) / 2, rng.normal(size=4)), (4,), "first"),
        Node(activation, (5,)),
        Node(affine(rng.normal(size=(4, 4)) / 2, rng.normal(size=4)), (6,), "second"),
        Node(Sum(), (6, 7)),
        Node(activation, (8,)),
        Node(Concatenate(), (9, 3)),
        Node(affine(rng.normal(size=(1, 6)) / 2, rng.normal(size=1)), (10,), "head"),
    ]
    return Network.from_nodes(nodes)


@pytest.mark.parametrize(
    "activation",
    [
        RELU,
        Activation("leaky_relu", 2.0),
        Activation("prelu", parameters=(-0.5, 0.1, 1.0, 2.0)),
        Activation("clip", parameters=(-1.0, 2.0)),
        Activation("hardsigmoid", parameters=(1 / 6, 0.5)),
    ],
    ids=str,
)
def test_graphs_are_decided_as_by_brute_force(activation):
    rng = np.random.default_rng(3)
    for _ in range(3):
        net = graph(rng, activation)
        X = GRAPH_SPEC.sample_inputs(4, rng, np.float32)
        report = certify(net, GRAPH_SPEC, X, "milp")
        assert list(report.verdicts) == brute_force(net, GRAPH_SPEC, X)
        check_witnesses(net, GRAPH_SPEC, X, report)


def test_a_residual_graph_over_a_continuum_is_decided_as_by_the_engine_branch():
    rng = np.random.default_rng(5)
    for _ in range(3):
        nodes = [
            Node(Input(2)),
            Node(affine(rng.normal(size=(2, 2)), rng.normal(size=2), np.float64), (0,), "first"),
            Node(Activation("leaky_relu", 3.0), (1,)),
            Node(Sum(), (0, 2)),
            Node(RELU, (3,)),
            Node(affine(rng.normal(size=(1, 2)), rng.normal(size=1), np.float64), (4,), "head"),
        ]
        net = Network.from_nodes(nodes)
        inputs = CONTINUOUS.sample_inputs(3, rng, np.float64)
        reports = [certify(net, CONTINUOUS, inputs, engine) for engine in ("milp", "branch")]
        assert reports[0].verdicts == reports[1].verdicts

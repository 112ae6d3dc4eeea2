"""The MILP engine does not take the solver's word for it."""

from dataclasses import replace

import numpy as np
import pytest

from fairmend.milp import Status
from fairmend.milp.highs import Highs
from fairmend.network import Activation, Network
from fairmend.prove.certify import certify
from fairmend.prove.engines.relu_milp import unit_intervals
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.certify_cases import CONTINUOUS, RELU, affine, linear, sliver
from support.strategies import random_network

AGE = Spec([Feature("age", "integer", range=(0, 10), protected=True)])
X = np.array([[4.0]], np.float32)


def lying(monkeypatch, change):
    """Let HiGHS answer honestly, then change its answer."""
    honest = Highs.solve
    monkeypatch.setattr(Highs, "solve", lambda self, milp, **options: change(honest(self, milp, **options)))


def test_a_bound_that_points_refute_proves_nothing_and_the_point_is_a_witness(monkeypatch):
    lying(monkeypatch, lambda solution: replace(solution, bound=100.0, x=None, objective=None))
    report = certify(linear(1.0, bias=-5.5), AGE, X, "milp")
    assert report.verdicts == (Verdict.UNFAIR,)  # the ends of the range were looked at
    hidden = sliver(7.0, 0.5, others=0)  # negative at 7 only, where nobody looks; but nowhere as large as 100
    report = certify(hidden, AGE, X, "milp")
    assert report.verdicts == (Verdict.UNKNOWN,)
    assert "refuted by the network itself" in report.reasons[0]


def test_a_minimiser_that_does_not_replay_is_no_witness(monkeypatch):
    lying(monkeypatch, lambda solution: replace(solution, bound=-1000.0, objective=-1000.0))
    report = certify(linear(1.0, bias=1.0), AGE, X, "milp")
    assert report.verdicts == (Verdict.UNKNOWN,)
    assert "is not confirmed by the network's own predictions" in report.reasons[0]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status.ERROR, "the solver gave up (error)"),
        (Status.LIMIT, "time limit"),
        (Status.UNBOUNDED, "the solver gave up"),
    ],
)
def test_a_solver_that_gives_up_leaves_it_open(monkeypatch, status, reason):
    nothing = {"x": None, "objective": None, "bound": -np.inf}
    lying(monkeypatch, lambda solution: replace(solution, status=status, **nothing))
    report = certify(linear(1.0, bias=1.0), AGE, X, "milp")
    assert report.verdicts == (Verdict.UNKNOWN,)
    assert report.reasons[0].startswith(reason)


def test_tiny_coefficients_do_not_lead_to_a_wrong_verdict():
    # HiGHS 1.15.1 returns the optimum 0 instead of -1 where the second unit's kink is encoded as one.
    net = Network([affine([[1.0], [2.0**-24]], [0.0, 0.0]), affine([[-1.0, -1.0]], [0.5])], [RELU])
    spec = Spec([Feature("age", "integer", range=(0, 1), protected=True)])
    assert certify(net, spec, np.array([[0.0]], np.float32), "milp").verdicts == (Verdict.UNFAIR,)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "identity"])
def test_units_stay_within_the_intervals_that_big_m_is_made_of(activation):
    rng = np.random.default_rng(0)
    spec = CONTINUOUS
    net = random_network(rng, 2, [8, 7, 6], activation=activation, dtype=np.float64)
    regions = spec.regions(spec.sample_inputs(5, rng, np.float64), np.float64)
    known = unit_intervals(net, regions.lower, regions.upper)
    t = rng.random((2000, 5, 2))
    points = regions.lower + t * (regions.upper - regions.lower)
    for layer, (low, high) in enumerate(known):
        until = Network(net.affines[: layer + 1], net.activations[:layer])
        values = until.logits(points.reshape(-1, 2)).reshape(2000, 5, -1)
        assert (values >= low - 1e-9).all()
        assert (values <= high + 1e-9).all()


def test_a_network_without_kinks_is_a_linear_program():
    net = Network(
        [affine([[1.0, 0.5], [0.5, 1.0]], [0.0, 0.0]), affine([[1.0, -1.0]], [0.6])], [Activation("identity")]
    )
    report = certify(net, CONTINUOUS, np.array([[0.5, 0.5], [1.0, 0.0]], np.float32), "milp")
    # f = 0.5 score - 0.5 income + 0.6 is at least 0.2 at income 0.8.
    assert report.verdicts == (Verdict.FAIR, Verdict.FAIR)

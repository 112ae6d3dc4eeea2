"""The MILP engine does not take the solver's word for it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from fairmend.milp import Status
from fairmend.milp.highs import Highs
from fairmend.network import Network
from fairmend.prove.certify import certify
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.certify_cases import (
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

AGE = Spec([Feature("age", "integer", range=(0, 10), protected=True)])
X = np.array([[4.0]], np.float32)


def lying(monkeypatch, change):
    """Let HiGHS answer honestly, then change its answer."""
    honest = Highs.solve
    monkeypatch.setattr(Highs, "solve", lambda self, milp, **options: change(honest(self, milp, **options)))


def test_a_bound_that_points_refute_proves_nothing_and_the_point_is_a_witness(monkeypatch):
    lying(monkeypatch, lambda solution: replace(solution, bound=100.0, x=None, objective=None))
    report = certify(linear(1.0, bias=-5.5), AGE, X, "milp")
    assert report.verdicts == (Verdict.UNFAIR,)  # the ends of the range are tried as witnesses
    hidden = sliver(7.0, 0.5, others=0)  # negative at 7 only, which is not tried; but nowhere as large as 100
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


UNKNOWN = Verdict.UNKNOWN


@settings(deadline=None, max_examples=40)
@finite_cases
def test_milp_agrees_with_brute_force(case, seed, outputs, data):
    spec, X = case
    net = balanced_network(seed, spec, data.draw(st.sampled_from(KINKED)), outputs, X.dtype)
    report = certify(net, spec, X, "milp")
    for verdict, true in zip(report.verdicts, brute_force(net, spec, X), strict=True):
        assert verdict in (true, UNKNOWN)  # within the solver's tolerance it may not tell
    check_witnesses(net, spec, X, report)

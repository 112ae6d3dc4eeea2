"""The method is chosen by cost, and the estimate is a line that people can read."""

import itertools

import pytest

from fairmend.auditing import plan
from fairmend.auditing.plan import AuditPlan, choose_plan
from fairmend.base.errors import FairmendError
from fairmend.base.text import describe_seconds
from fairmend.spec import Feature, Spec
from support.audit_cases import AGE, GENDER, INCOME, SPEC, network, people
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people as huge_people

MONEY = Feature("money", "integer", range=(0, 10**6), scale={"min": 0, "max": 10**6}, tolerance=10_000)
NEAR = Spec([AGE, GENDER, MONEY, INCOME])
CONTINUOUS = Spec([Feature("age", "continuous", range=(0.0, 1.0), protected=True), INCOME])


def choose(spec, rows, method="auto"):
    return choose_plan(network(width=spec.width), spec, people(8, spec=spec), rows, method, per_row=4)


def test_small_neighbourhoods_are_enumerated():
    assert choose(SPEC, 1000).method == "enumerate"
    assert 58 * 2 * 3 <= choose(SPEC, 0).neighbours <= 58 * 2 * 5


@pytest.fixture
def steady(monkeypatch):
    """The processor time of a quiet machine: each look at the clock is 10 ms later."""
    monkeypatch.setattr("time.thread_time", (tick / 100 for tick in itertools.count()).__next__)


def test_large_ones_are_bounded_and_infinite_ones_too(steady):
    chosen = choose(NEAR, 22_407)
    assert chosen.method == "branch"
    assert choose(CONTINUOUS, 100).method == "branch"
    assert choose(CONTINUOUS, 100).neighbours is None


def test_a_machine_that_does_other_things_changes_no_choice(monkeypatch, steady):
    monkeypatch.setattr("time.perf_counter", itertools.count(0, 1000).__next__)
    assert choose(NEAR, 22_407).method == "branch"


def test_what_takes_too_long_is_sampled_with_an_estimate(monkeypatch):
    monkeypatch.setattr(plan._Costs, "sampling", lambda _: 1e-9)
    chosen = choose(NEAR, 10**12)
    assert chosen.method == "sample"
    assert chosen.exact_seconds > plan.EXACT_SECONDS
    assert choose(NEAR, 10**12, "exact").method == "branch"
    net, X, _ = huge_people(HUGE["three hundred one-hot features"], 2)
    chosen = choose_plan(net, HUGE["three hundred one-hot features"], X, 2)
    assert chosen.method == "sample"


def test_an_enumeration_that_exceeds_the_time_limit_is_not_made(monkeypatch):
    monkeypatch.setattr(plan, "can_branch", lambda *_: False)
    monkeypatch.setattr(plan._Costs, "enumeration", lambda _: 1.0)
    monkeypatch.setattr(plan._Costs, "sampling", lambda _: 1e-9)

    def chosen(time_limit, method="auto"):
        net = network(width=NEAR.width)
        return choose_plan(net, NEAR, people(8, spec=NEAR), 100, method, per_row=4, time_limit=time_limit)

    assert [chosen(limit).method for limit in (None, 100.0, 99.0)] == ["enumerate", "enumerate", "sample"]
    assert chosen(99.0).exact_seconds == 100.0
    assert chosen(99.0, "exact").method == "enumerate"


@pytest.mark.parametrize("method", ["enumerate", "branch", "sample"])
def test_a_method_can_be_asked_for(method):
    assert choose(SPEC, 50, method).method == method


def test_what_cannot_be_done_is_refused():
    with pytest.raises(FairmendError, match=r"cannot all be enumerated; use method branch or sample"):
        choose(CONTINUOUS, 50, "enumerate")
    with pytest.raises(FairmendError, match=r"unknown method 'exakt'; did you mean 'exact'|unknown method 'exakt'"):
        choose(SPEC, 50, "exakt")
    net, X, _ = huge_people(HUGE["three hundred one-hot features"], 2)
    with pytest.raises(FairmendError, match="too many combinations"):
        choose_plan(net, HUGE["three hundred one-hot features"], X, 2, "branch")


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        (AuditPlan("branch", 22_407, 9_440_472, 170.0), "about 3 min: 22,407 rows, 9.4 M neighbours each, by bounds"),
        (AuditPlan("enumerate", 500, 630, 4.2), "about 4 s: 500 rows, 630 neighbours each, by enumeration"),
        (AuditPlan("branch", 9, None, 0.2), "about 1 s: 9 rows, infinitely many neighbours each, by bounds"),
        (AuditPlan("sample", 0, 10**68, 3.0), "rows from a stream, 10^68 neighbours each, by sampling"),
    ],
)
def test_the_line_says_how_long_how_many_and_how(chosen, line):
    assert chosen.describe() == line


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "1 s"), (89, "89 s"), (180, "3 min"), (9000, "2.5 h"), (86_400 * 12, "12 days"), (1e12, "years")],
)
def test_durations_have_the_unit_that_fits(seconds, words):
    assert describe_seconds(seconds) == words

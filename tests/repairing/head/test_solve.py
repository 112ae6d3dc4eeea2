"""Step 2: every search finds the optimum, and what it returns satisfies every region."""

import math

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.milp import Status
from fairmend.repairing.head import features as features_module
from fairmend.repairing.head.features import Box, Linear, Points
from fairmend.repairing.head.solve import repair_head
from support.head_cases import MARGIN, check, problem
from support.paper_milp import Dual
from support.repair_cases import KINDS, random_regions, slack_of, smallest_change
from support.strategies import random_network


@pytest.mark.parametrize("seed", range(4))
def test_the_papers_dual_has_the_same_optimum(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 4, [5, 4], dtype=np.float64)
    regions = random_regions(rng, 4, 2, 6, width=1.0)
    linear, dual = Linear.from_network(network, regions), Dual.from_network(network, regions)
    head = network.head
    found = repair_head(head.weight, head.bias, linear, margin=1e-4, delta_limit=3.0)
    solution, _, _ = dual.solve(head.weight, head.bias, margin=1e-4, delta_limit=3.0)
    assert solution.status is Status.OPTIMAL
    assert found.objective == pytest.approx(solution.objective, abs=1e-5)


def test_the_dual_refuses_unions_of_boxes():
    rng = np.random.default_rng(0)
    with pytest.raises(FairmendError, match="one box for each input"):
        Dual.from_network(random_network(rng, 3, [2]), random_regions(rng, 3, 1, 2, pieces=2))


PROBLEMS = [
    (seed, kind, outputs, dimension, count)
    for kind in KINDS
    for outputs in (1, 3)
    for seed, (dimension, count) in enumerate([(2, 5), (3, 6), (4, 5), (2, 6)])
]
each_problem = pytest.mark.parametrize(("seed", "kind", "outputs", "dimension", "count"), PROBLEMS)


@each_problem
def test_every_search_finds_the_optimum_of_the_brute_force(seed, kind, outputs, dimension, count):
    weight, bias, features = problem(seed, kind, outputs, count, dimension)
    optimum = smallest_change(weight, bias, features, MARGIN)
    for search in ("branch", "milp"):
        found = repair_head(weight, bias, features, margin=MARGIN, search=search)
        check(weight, bias, features, found)
        assert found.objective == pytest.approx(optimum, abs=1e-6)
        assert found.gap <= 1e-6


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "outputs"), [("linear", 1), ("points", 2)])
def test_searches_agree_where_brute_force_is_too_slow(seed, kind, outputs):
    weight, bias, features = problem(20 + seed, kind, outputs, 12, 5, pieces=2)
    branch = repair_head(weight, bias, features, margin=MARGIN)
    milp = repair_head(weight, bias, features, margin=MARGIN, search="milp")
    for found in (branch, milp):
        check(weight, bias, features, found)
    assert branch.objective == pytest.approx(milp.objective, abs=1e-6)


@pytest.mark.parametrize("search", ["branch", "milp"])
def test_symbolic_never_costs_more_than_concrete(search):
    rng = np.random.default_rng(3)
    network, regions = random_network(rng, 4, [6]), random_regions(rng, 4, 2, 8, width=1.5)
    costs = [
        repair_head(
            network.head.weight, network.head.bias, kind.from_network(network, regions), search=search
        ).objective
        for kind in (Linear, Box)
    ]
    assert costs[0] <= costs[1] + 1e-7


@pytest.mark.parametrize("search", ["branch", "milp"])
def test_nothing_violated_is_no_change_and_no_solve(search):
    h = np.array([[1.0, 0.0], [-1.0, 0.0]])
    features = Points(h, h, np.arange(2), 2)
    found = repair_head(np.array([[1.0, 0.0]]), np.zeros(1), features, margin=1.0, search=search)
    assert found.solves == found.objective == found.bound == found.gap == found.regions_in_play == 0
    assert found.classes.tolist() == [1, 0]
    assert not found.weight.any()
    assert not found.bias.any()


@pytest.mark.parametrize("search", ["branch", "milp"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_each_region_has_its_own_margin(search, outputs):
    weight, bias, features = problem(5, "linear", outputs, 6, 3)
    margins = np.array([1e-4, 0.5, 1e-3, 0.2, 1e-6, 1.0])
    found = repair_head(weight, bias, features, margin=margins, search=search)
    check(weight, bias, features, found, margins)
    assert found.objective == pytest.approx(smallest_change(weight, bias, features, margins), abs=1e-6)


@pytest.mark.parametrize("search", ["branch", "milp"])
@pytest.mark.parametrize("margin", [1e-8, 1e-9, 1e-12])
def test_a_margin_below_the_tolerance_still_keeps_ties_out(search, margin):
    for seed in range(8):
        weight, bias, features = problem(30 + seed, "box", 1, 5, 2)
        found = repair_head(weight, bias, features, margin=margin, search=search)
        assert (slack_of(weight + found.weight, bias + found.bias, features).max(axis=1) > 0).all()


@pytest.mark.parametrize("search", ["branch", "milp"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_no_parameter_changes_by_more_than_the_limit(search, outputs):
    tight = 0
    for seed in range(6):
        weight, bias, features = problem(40 + seed, "box", outputs, 4, 3)
        free = repair_head(weight, bias, features, margin=MARGIN)
        limit = 0.7 * max(np.abs(free.weight).max(), np.abs(free.bias).max())
        optimum = smallest_change(weight, bias, features, MARGIN, limit)
        if not math.isfinite(optimum):
            with pytest.raises(FairmendError, match="delta_limit"):
                repair_head(weight, bias, features, margin=MARGIN, delta_limit=limit, search=search)
            continue
        found = repair_head(weight, bias, features, margin=MARGIN, delta_limit=limit, search=search)
        check(weight, bias, features, found)
        assert max(np.abs(found.weight).max(), np.abs(found.bias).max()) <= limit + 1e-8
        assert found.objective == pytest.approx(optimum, abs=1e-6)
        tight += 1
    assert tight


@pytest.mark.parametrize("search", ["branch", "milp"])
def test_an_impossible_limit_says_so(search):
    h = np.array([[1.0], [-1.0]])
    features = Points(h, h, np.zeros(2, dtype=np.int64), 1)
    with pytest.raises(FairmendError, match=r"within 0\.001 gives each of the 1 regions one prediction.*delta_limit"):
        repair_head(np.array([[5.0]]), np.zeros(1), features, delta_limit=0.001, search=search)


@pytest.mark.parametrize("search", ["branch", "milp"])
@pytest.mark.parametrize("options", [{"time_limit": 1e-9}, {"time_limit": 0}, {"gap": 0.5}, {"gap": 0.05}])
def test_an_early_stop_is_feasible_and_its_gap_honest(search, options):
    for seed in range(4):
        weight, bias, features = problem(60 + seed, "linear", 1, 7, 3)
        optimum = repair_head(weight, bias, features, margin=MARGIN).objective
        found = repair_head(weight, bias, features, margin=MARGIN, search=search, **options)
        check(weight, bias, features, found)
        assert found.bound <= optimum + 1e-7
        assert found.objective >= optimum - 1e-7
        if "gap" in options:
            assert found.gap <= options["gap"] + 1e-9


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_vertices_that_are_found_one_by_one_give_the_same_optimum(flat, outputs, monkeypatch):
    for seed in range(3):
        weight, bias, features = problem(80 + seed, "linear", outputs, 6, 3, varying=8, spread=0.8)
        if flat:  # all lower slopes 0: the corners share ``below`` and differ in ``above`` alone
            lower, upper = features.lower.copy(), features.upper.copy()
            upper[0] += np.abs(lower[1:]).sum(axis=0)
            lower[1:] = 0
            features = Linear(lower, upper, features.owner, features.count)
        lazy = {
            search: repair_head(weight, bias, features, margin=MARGIN, search=search) for search in ("branch", "milp")
        }
        assert not features.vertices(0, weight[0], weight[0]).complete
        with monkeypatch.context() as patch:
            patch.setattr(features_module, "ALL_VERTICES_UP_TO", 10_000)
            listed = repair_head(weight, bias, features, margin=MARGIN)
        assert listed.objective > 0
        for found in lazy.values():
            check(weight, bias, features, found)
            assert found.objective == pytest.approx(listed.objective, abs=1e-6)
            assert found.gap <= 1e-5


def test_many_points_in_a_region_are_found_one_by_one_too():
    weight, bias, features = problem(90, "points", 1, 5, 3, pieces=30, width=0.2)
    branch = repair_head(weight, bias, features, margin=MARGIN)
    milp = repair_head(weight, bias, features, margin=MARGIN, search="milp")
    for found in (branch, milp):
        check(weight, bias, features, found)
    assert branch.objective == pytest.approx(milp.objective, abs=1e-6)
    assert branch.objective == pytest.approx(smallest_change(weight, bias, features, MARGIN), abs=1e-6)


def test_there_is_always_a_change_without_a_limit():
    everything = Box(np.full((1, 3), -1e3), np.full((1, 3), 1e3), np.zeros(1, dtype=np.int64), 1)
    for outputs in (1, 2, 4):
        weight = np.random.default_rng(outputs).normal(size=(outputs, 3))
        found = repair_head(weight, np.zeros(outputs), everything, margin=MARGIN)
        check(weight, np.zeros(outputs), everything, found)


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e5])
def test_features_of_any_size_are_repaired(scale):
    for seed in range(3):
        weight, bias, features = problem(100 + seed, "box", 1, 6, 3)
        scaled = Box(features.below * scale, features.above * scale, features.owner, features.count)
        branch = repair_head(weight, bias, scaled, margin=MARGIN)
        slack = slack_of(weight + branch.weight, bias + branch.bias, scaled).max(axis=1)
        assert (slack >= MARGIN - 1e-7).all()
        optimum = smallest_change(weight, bias, scaled, MARGIN)
        assert branch.objective == pytest.approx(optimum, rel=1e-5, abs=1e-6)
        assert branch.bound <= optimum * (1 + 1e-6) + 1e-7


def test_the_arguments_are_left_alone():
    weight, bias, features = problem(1, "linear")
    before = weight.copy(), bias.copy(), features.lower.copy()
    margins = np.full(features.count, MARGIN)
    repair_head(weight, bias, features, margin=margins)
    for old, new in zip(before, (weight, bias, features.lower), strict=True):
        np.testing.assert_array_equal(old, new)
    assert (margins == MARGIN).all()


@pytest.mark.parametrize("search", ["branch", "milp"])
def test_two_runs_give_the_same_change(search):
    weight, bias, features = problem(2, "linear", 3, 6)
    first, second = (repair_head(weight, bias, features, margin=MARGIN, search=search) for _ in range(2))
    np.testing.assert_array_equal(first.weight, second.weight)
    np.testing.assert_array_equal(first.bias, second.bias)


@pytest.mark.parametrize("search", ["branch", "milp"])
def test_progress_counts_satisfied_regions(search):
    weight, bias, features = problem(3, "box", 1, 6)
    seen = []
    repair_head(weight, bias, features, margin=MARGIN, search=search, progress=lambda *what: seen.append(what))
    assert seen
    assert all(stage == "solve" and 0 <= done <= total == 6 for stage, done, total in seen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0}, "margin is 0"),
        ({"margin": -1.0}, "give a number above 0"),
        ({"margin": math.nan}, "give a number above 0"),
        ({"margin": np.array([1e-6] * 5 + [0.0])}, "give a number above 0"),
        ({"search": "guess"}, "search 'guess'"),
        ({"search": "branch", "solver": "scip"}, "use 'branch' with 'highs'"),
        ({"solver": "cplex"}, "unknown solver 'cplex'"),
    ],
)
def test_bad_arguments_say_what_is_wrong(options, message):
    weight, bias, features = problem(0)
    with pytest.raises(FairmendError, match=message):
        repair_head(weight, bias, features, **options)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(
    ("seed", "kind", "outputs"), [(0, "box", 1), (1, "linear", 2), (2, "points", 1), (3, "box", 3)]
)
def test_a_head_without_a_bias_has_the_optimum_of_the_brute_force(seed, kind, outputs, shifted):
    """``shifted``: a norm before the head makes its bias follow from its weights."""
    weight, bias, features = problem(seed, kind, outputs, count=4, dimension=3)
    shift = np.array([0.5, -1.0, 0.25]) * shifted
    optimum = smallest_change(weight, bias, features, MARGIN, bias_shift=shift)
    for search in ("branch", "milp"):
        if math.isinf(optimum):
            with pytest.raises(FairmendError, match="which has no bias"):
                repair_head(weight, bias, features, bias_shift=shift, margin=MARGIN, search=search)
            continue
        found = repair_head(weight, bias, features, bias_shift=shift, margin=MARGIN, search=search)
        check(weight, bias, features, found)
        assert found.objective == pytest.approx(optimum, abs=1e-6)
        np.testing.assert_allclose(found.bias, found.weight @ shift, atol=1e-8)


@pytest.mark.parametrize("search", ["branch", "milp"])
def test_no_weights_decide_about_features_that_are_all_0_without_a_bias(search):
    features = Points(np.zeros((1, 2)), np.zeros((1, 2)), np.arange(1), 1)
    head = np.ones((1, 2)), np.zeros(1), features
    assert repair_head(*head, margin=0.1, search=search).objective == pytest.approx(0.1)
    with pytest.raises(FairmendError, match=r"give it a bias .* or use method auto"):
        repair_head(*head, bias_shift=np.zeros(2), margin=0.1, search=search)

"""Feature sets: exact where they say so, sound everywhere, and each no looser than the next."""

import math

import numpy as np
import pytest
import torch

from fairmend import FairmendError, Feature, Spec
from fairmend.milp import LinearProgram, Status
from fairmend.network import Activation, Affine, Network
from fairmend.repairing.head import features as module
from fairmend.repairing.head.features import Box, Linear, Points, symbolic_bounds
from support.graphs import residual_network
from support.repair_cases import KINDS, random_features, random_regions, sampled
from support.strategies import ACTIVATIONS, random_network

HIDDEN = ([3], [4, 3], [3, 4, 2])
CASES = [(seed, activation, hidden) for seed, activation in enumerate(ACTIVATIONS) for hidden in HIDDEN]
each_case = pytest.mark.parametrize(("seed", "activation", "hidden"), CASES, ids=str)


def finite_spec():
    return Spec(
        [
            Feature("age", "integer", range=(0, 4), protected=True, scale={"mean": 2, "std": 1.5}),
            Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
            Feature("hours", "integer", range=(0, 6), tolerance=1),
            Feature("score", "continuous", range=(-1, 1)),
        ]
    )


def split(w):
    return np.maximum(w, 0), np.maximum(-w, 0)


def polytope_minimum(features, w):
    """The LP minimum of w·h over the symbolic polytope of each region, in the variables (h, x)."""
    lower, upper = features.lower, features.upper
    varying, d = len(lower) - 1, features.dimension
    minima = np.full(features.count, math.inf)
    free, columns = np.full(d, math.inf), np.arange(d + varying)
    for piece, region in enumerate(features.owner):
        program = LinearProgram(
            np.concatenate([w, np.zeros(varying)]),
            np.concatenate([-free, -np.ones(varying)]),
            np.concatenate([free, np.ones(varying)]),
        )
        program.add_rows(columns, np.hstack([np.eye(d), -lower[1:, piece].T]), lower[0, piece], free)
        program.add_rows(columns, np.hstack([np.eye(d), -upper[1:, piece].T]), -free, upper[0, piece])
        solution = program.solve()
        assert solution.status is Status.OPTIMAL
        minima[region] = min(minima[region], solution.objective)
    return minima


@each_case
def test_linear_lowest_is_the_lp_minimum_over_the_symbolic_polytope(seed, activation, hidden):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 5, hidden, activation=activation)
    features = Linear.from_network(network, random_regions(rng, 5, 1 + seed % 3, 3, pieces=1 + seed % 2, width=2.0))
    for w in (rng.normal(size=hidden[-1]), np.zeros(hidden[-1]), -np.ones(hidden[-1])):
        np.testing.assert_allclose(features.lowest(*split(w)), polytope_minimum(features, w), atol=1e-7)


@each_case
def test_no_split_of_the_weights_beats_the_complementary_one(seed, activation, hidden):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 4, hidden, activation=activation)
    regions = random_regions(rng, 4, 2, 4, width=2.0)
    for kind in (Linear, Box):
        features = kind.from_network(network, regions)
        w, more = rng.normal(size=hidden[-1]), rng.uniform(0, 1, size=hidden[-1])
        p, n = split(w)
        assert (features.lowest(p + more, n + more) <= features.lowest(p, n) + 1e-9).all()


@each_case
def test_every_set_encloses_what_the_network_gives(seed, activation, hidden):
    rng = np.random.default_rng(100 + seed)
    network = random_network(rng, 4, hidden, activation=activation).astype(np.float64)
    regions = random_regions(rng, 4, 3, 4, pieces=2, width=3.0)
    points, owner = sampled(regions, rng)
    h = network.features(points)
    linear, box = Linear.from_network(network, regions), Box.from_network(network, regions)
    for _ in range(5):
        w = rng.normal(size=hidden[-1])
        seen = np.full(regions.count, math.inf)
        np.minimum.at(seen, owner, h @ w)
        tight, loose = linear.lowest(*split(w)), box.lowest(*split(w))
        assert (tight <= seen + 1e-9).all()
        assert (loose <= tight + 1e-9).all()
    for features in (linear, box):
        largest = np.zeros(regions.count)
        np.maximum.at(largest, owner, np.abs(h).max(axis=1))
        assert (features.magnitude() >= largest - 1e-9).all()


@each_case
def test_points_are_exact_and_the_tightest_of_the_three(seed, activation, hidden):
    rng = np.random.default_rng(200 + seed)
    spec = finite_spec()
    network = random_network(rng, spec.width, hidden, activation=activation)
    X = spec.sample_inputs(4, rng)
    exact = Points.from_network(network, spec, X)
    regions = spec.regions(X)
    linear, box = Linear.from_network(network, regions), Box.from_network(network, regions)
    assert exact.count == linear.count == 4
    rows, points = next(spec.points(X))
    assert len(exact.owner) == len(points)
    h = network.astype(np.float64).features(points)
    for _ in range(3):
        w = rng.normal(size=hidden[-1])
        brute = np.array([(h[rows == row] @ w).min() for row in range(4)])
        np.testing.assert_allclose(exact.lowest(*split(w)), brute, rtol=1e-12, atol=1e-12)
        assert (exact.lowest(*split(w)) >= linear.lowest(*split(w)) - 1e-9).all()
        assert (linear.lowest(*split(w)) >= box.lowest(*split(w)) - 1e-9).all()
    np.testing.assert_allclose(exact.magnitude(), [np.abs(h[rows == row]).max() for row in range(4)])


def test_a_one_hot_union_is_tighter_than_the_box_around_it():
    spec = Spec([Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True)])
    network = Network([Affine(np.eye(3), np.zeros(3)), Affine(np.ones((1, 3)), np.zeros(1))], [Activation("relu")])
    features = Linear.from_network(network, spec.regions(np.eye(3)[:1], np.float64))
    assert len(features.owner) == 3
    assert features.lowest(np.ones(3), np.zeros(3)).tolist() == [1.0]  # the box's corner (0, 0, 0) is no person


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("varying", [1, 2, 3])
@pytest.mark.parametrize("limit", [0, 16])
def test_vertices_contain_the_minimiser(kind, varying, limit, monkeypatch):
    monkeypatch.setattr(module, "ALL_VERTICES_UP_TO", limit)
    rng = np.random.default_rng(varying)
    features = random_features(rng, kind, 4, 3, varying=varying, pieces=2)
    for _ in range(4):
        p, n = split(rng.normal(size=3))
        lowest = features.lowest(p, n)
        for region in range(4):
            below, above, complete = features.vertices(region, p, n)
            values = below @ p - above @ n
            assert values.min() == pytest.approx(lowest[region], abs=1e-12)
            assert complete or len(values) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_complete_list_of_vertices_serves_every_weight(kind):
    rng = np.random.default_rng(7)
    features = random_features(rng, kind, 3, 4, varying=2, pieces=2)
    for region in range(3):
        below, above, complete = features.vertices(region, np.zeros(4), np.zeros(4))
        assert complete
        for _ in range(10):
            p, n = split(rng.normal(size=4))
            assert (below @ p - above @ n).min() == pytest.approx(features.lowest(p, n)[region], abs=1e-12)


def test_regions_may_have_unequal_numbers_of_pieces():
    rng = np.random.default_rng(3)
    owner = np.array([0, 1, 1, 1, 2, 3, 3])
    h = rng.normal(size=(7, 2))
    features = Points(h, h, owner, 4)
    w = rng.normal(size=2)
    expected = [(h[owner == region] @ w).min() for region in range(4)]
    np.testing.assert_allclose(features.lowest(*split(w)), expected)
    assert [len(features.vertices(region, *split(w)).below) for region in range(4)] == [1, 3, 1, 2]


def test_points_of_a_float64_network_are_not_rounded_to_float32():
    spec = Spec([Feature("x", "continuous", range=(0, 1)), Feature("a", "integer", range=(0, 1), protected=True)])
    network = Network(
        [Affine(np.array([[1e9, 2.0]]), np.array([-1e8 - 1])), Affine(np.ones((1, 1)), np.zeros(1))],
        [Activation("identity")],
    )
    X = np.array([[0.1, 0.0]])
    np.testing.assert_allclose(Points.from_network(network, spec, X).below[:, 0], [-1, 1], atol=1e-6)
    forms = Linear.from_network(network, spec.regions(X, np.float64)).concretise()
    np.testing.assert_allclose(np.concatenate(forms)[:, 0], [-1, 1], atol=1e-6)


def test_too_many_points_are_refused_before_any_is_made(monkeypatch):
    monkeypatch.setattr(module, "MOST_POINTS", 10)
    spec = Spec([Feature("age", "integer", range=(0, 5), protected=True)])
    network = random_network(np.random.default_rng(0), 1, [2])
    with pytest.raises(FairmendError, match="12 points, more than 10"):
        Points.from_network(network, spec, [[0.0], [1.0]])


def test_points_of_a_continuous_neighbourhood_are_refused():
    spec = Spec([Feature("age", "continuous", range=(0, 5), protected=True)])
    with pytest.raises(FairmendError, match="continuous"):
        Points.from_network(random_network(np.random.default_rng(0), 1, [2]), spec, [[0.0]])


def test_the_features_of_a_linear_model_are_its_inputs_exactly():
    rng = np.random.default_rng(5)
    network, regions = random_network(rng, 4, []), random_regions(rng, 4, 2, 3)
    lower, upper = symbolic_bounds(network, regions)
    np.testing.assert_array_equal(lower, upper)
    box = Box.from_network(network, regions)
    np.testing.assert_allclose(box.below, regions.lower, atol=1e-12)
    np.testing.assert_allclose(box.above, regions.upper, atol=1e-12)


def test_regions_that_are_points_give_the_features_themselves():
    rng = np.random.default_rng(6)
    network, regions = random_network(rng, 4, [5, 3]), random_regions(rng, 4, 0, 6)
    w = rng.normal(size=3)
    h = network.astype(np.float64).features(regions.lower)
    for kind in (Linear, Box):
        np.testing.assert_allclose(kind.from_network(network, regions).lowest(*split(w)), h @ w, atol=1e-12)


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    rng = np.random.default_rng(8)
    Linear.from_network(random_network(rng, 3, [4]), random_regions(rng, 3, 1, 2))
    assert torch.get_num_threads() == before


def test_symbolic_bounds_of_a_graph_hold_and_its_inputs_are_exact():
    rng = np.random.default_rng(0)
    network = residual_network(rng, 5)
    regions = random_regions(rng, 5, 2, 4)
    lower, upper = Linear.from_network(network, regions).concretise()
    points, owner = sampled(regions, rng)
    h = network.astype(np.float64).features(points)
    assert (h >= lower[owner] - 1e-5).all()
    assert (h <= upper[owner] + 1e-5).all()
    np.testing.assert_allclose(lower[:, -5:], regions.lower, atol=1e-6)
    np.testing.assert_allclose(upper[:, -5:], regions.upper, atol=1e-6)

"""The paper's running example (Fig. 2, Examples 1 and 2), number by number."""

import numpy as np
import pytest

from fairmend import Feature, Spec
from fairmend.network import Activation, Affine, Network
from fairmend.prove.proof import prove_inputs
from fairmend.repairing.head.features import Box, Linear
from fairmend.repairing.head.solve import repair_head
from support.paper_milp import Dual

NETWORK = Network(
    [
        Affine(np.array([[1.0, 6.0], [1.0, -6.0]]), np.zeros(2)),
        Affine(np.array([[-0.1, -0.1]]), np.array([1.0])),
    ],
    [Activation("relu")],
)
SPEC = Spec(
    [
        Feature("x1", "continuous", range=(0, 8), protected=True),
        Feature("x2", "continuous", range=(-10, 10), tolerance=1),
    ]
)
REGIONS = SPEC.regions([[4.0, 0.0]], dtype=np.float64)
MARGIN = 1e-8
NAIVE, SYMBOLIC = 18 / 140, 24 / 245


def repaired(features, **options):
    return repair_head(NETWORK.head.weight, NETWORK.head.bias, features, margin=MARGIN, **options)


def grid():
    x1, x2 = np.meshgrid(np.linspace(0, 8, 81), np.linspace(-1, 1, 81))
    return np.column_stack([x1.ravel(), x2.ravel()])


def test_the_input_of_example_2_is_discriminated_against():
    assert NETWORK.logits([[4.0, 0.0]])[0] == pytest.approx(0.2)
    assert NETWORK.logits([[8.0, 1.0]])[0] == pytest.approx(-0.6)
    assert NETWORK.predict([[4.0, 0.0], [8.0, 1.0]]).tolist() == [1, 0]
    assert not prove_inputs(NETWORK, SPEC, np.array([[4.0, 0.0]])).holds.any()


def test_the_neighbourhood_is_the_box_of_example_2():
    np.testing.assert_allclose(REGIONS.lower, [[0, -1]], rtol=1e-14)  # but for what the input was rounded by
    np.testing.assert_allclose(REGIONS.upper, [[8, 1]], rtol=1e-14)


def test_concrete_bounds_are_those_of_example_1():
    box = Box.from_network(NETWORK, REGIONS)
    np.testing.assert_allclose(box.above, [[14, 14]])
    assert -box.lowest(np.zeros(2), np.array([0.1, 0.1]))[0] == pytest.approx(2.8)  # y = 1 - 2.8 = -1.8


def test_upper_forms_are_the_brown_equations():
    bounds = Linear.from_network(NETWORK, REGIONS)
    t = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    x1, x2 = 4 + 4 * t[:, 0], t[:, 1]
    upper = bounds.upper[0, 0] + t @ bounds.upper[1:, 0]
    np.testing.assert_allclose(upper[:, 0], 0.7 * (x1 + 6 * x2) + 4.2, rtol=1e-12)
    np.testing.assert_allclose(upper[:, 1], 0.7 * (x1 - 6 * x2) + 4.2, rtol=1e-12)


def test_the_dual_has_the_brown_equations_in_the_papers_own_coordinates():
    dual = Dual.from_network(NETWORK, REGIONS)
    np.testing.assert_allclose(dual.upper_slope[0], [[0.7, 4.2], [0.7, -4.2]])
    np.testing.assert_allclose(dual.upper_offset[0], [4.2, 4.2])


def test_the_largest_sum_of_features_in_the_symbolic_set_is_19_6():
    linear = Linear.from_network(NETWORK, REGIONS)
    assert -linear.lowest(np.zeros(2), np.ones(2))[0] == pytest.approx(19.6)


@pytest.mark.parametrize("search", ["branch", "milp"])
def test_naive_repair_costs_18_140(search):
    found = repaired(Box.from_network(NETWORK, REGIONS), search=search)
    assert found.objective == pytest.approx(NAIVE, abs=1e-5)
    assert found.gap == 0
    assert found.classes.tolist() == [1]
    assert np.abs(found.weight).sum() == pytest.approx(NAIVE, abs=1e-5)  # 9/140 on each is one of its optima


def test_the_papers_naive_head_is_feasible_and_as_good_as_ours():
    h = np.stack(np.meshgrid(np.linspace(0, 14, 50), np.linspace(0, 14, 50)), axis=-1).reshape(-1, 2)
    papers = h @ np.full(2, 9 / 140 - 0.1) + 1
    assert papers.min() >= -1e-12
    found = repaired(Box.from_network(NETWORK, REGIONS))
    assert (h @ (NETWORK.head.weight + found.weight)[0] + NETWORK.head.bias + found.bias).min() >= 0
    assert found.objective == pytest.approx(2 * 9 / 140, abs=1e-5)


@pytest.mark.parametrize("search", ["branch", "milp"])
def test_symbolic_repair_costs_24_245(search):
    found = repaired(Linear.from_network(NETWORK, REGIONS), search=search)
    assert found.objective == pytest.approx(0.2 - 1 / 9.8, abs=1e-5)
    assert found.objective == pytest.approx(SYMBOLIC, abs=1e-5)
    assert found.objective < NAIVE - 0.01


def test_the_papers_dual_has_the_optimum_of_the_closed_form():
    dual = Dual.from_network(NETWORK, REGIONS)
    solution, variables, _ = dual.solve(NETWORK.head.weight, NETWORK.head.bias, margin=MARGIN)
    assert solution.objective == pytest.approx(SYMBOLIC, abs=1e-5)
    assert variables == 2 * 3 + 1 + 2 * (2 * 2 + 2 * 2)


@pytest.mark.parametrize("kind", [Box, Linear])
def test_the_repaired_network_treats_the_whole_neighbourhood_alike(kind):
    found = repaired(kind.from_network(NETWORK, REGIONS))
    head = Affine(NETWORK.head.weight + found.weight, NETWORK.head.bias + found.bias)
    network = NETWORK.with_affines([NETWORK.affines[0], head])
    assert (network.predict(grid()) == 1).all()
    assert not (NETWORK.predict(grid()) == 1).all()

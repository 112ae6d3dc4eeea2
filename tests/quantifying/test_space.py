"""Boxes cover all people once, and their columns contain everyone in them."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.quantifying import space as space_module
from fairmend.quantifying.linked import WHOLE
from fairmend.quantifying.space import CELLS, make_space
from fairmend.spec import Feature, Spec
from fairmend.spec.encoding import encode_values
from support.quantify_cases import MANY, SMALL, SPECS, TOLERANT, linear, people_of, random_boxes
from support.share_cases import few_at_once, many_linked
from support.strategies import random_network


def space_of(spec, pieces=None):
    return make_space(random_network(np.random.default_rng(0), spec.width, [3]), spec, pieces)


@pytest.mark.parametrize("name", SPECS)
def test_the_hull_of_a_box_contains_everyone_in_it(name):
    space = space_of(SPECS[name])
    boxes = random_boxes(space, np.random.default_rng(0), 5)
    lower, upper = space.hull(boxes, similar=False)
    for row in range(5):
        X = people_of(space, boxes, row, np.float32)
        X[:, space.columns] = 0
        assert (lower[row] == X.min(axis=0)).all() or space.spec is TOLERANT
        assert (lower[row] <= X).all()
        assert (upper[row] >= X).all()
    wider = space.hull(boxes, similar=True)
    assert (wider[0] <= lower).all()
    assert (upper <= wider[1]).all()


def test_splitting_keeps_all_people():
    space = space_of(SMALL)
    root = space.root()
    assert space.shares(root)[0] == 1
    halves = root.split(np.array([0]))
    assert space.shares(halves).sum() == pytest.approx(1)
    assert halves.last[0, 0] + 1 == halves.first[1, 0]
    assert halves.first[0, 0] == 0


def test_few_protected_values_are_pieces_of_their_own_and_many_are_ranges():
    assert space_of(SMALL).pieces == 5
    many = space_of(MANY)
    assert 2 <= many.pieces <= 4
    covered = set()
    for first, last in zip(many.first.tolist(), many.last.tolist(), strict=True):
        covered |= set(product(*(range(start, end + 1) for start, end in zip(first, last, strict=True))))
    assert len(covered) == 43 * 3


def test_protected_columns_that_are_not_read_need_one_piece():
    space = make_space(linear([0, 1, 0, 0, 0, 0], 0), SMALL)
    assert space.pieces == 1
    assert not space.matters(linear([0, 1, 0, 0, 0, 0], 0))
    assert make_space(linear([0, 0, 1, 0, 0], 0), TOLERANT).matters(linear([0, 0, 1, 0, 0], 0))


def test_cells_of_a_continuous_feature_touch():
    spec = Spec(
        [SMALL.features[0], Feature(name="income", kind="continuous", range=(0.1, 7.3), scale={"mean": 1, "std": 3})]
    )
    axis = space_of(spec).axes[0]
    assert axis.cells == CELLS
    assert (axis.high[:-1] >= axis.low[1:]).all()
    assert axis.high[:-1] == pytest.approx(axis.low[1:], rel=1e-6)
    assert axis.edge(0) == 0.1
    assert axis.edge(CELLS) == 7.3


def test_too_many_values_are_refused():
    spec = Spec([SMALL.features[0], Feature(name="amount", kind="integer", range=(0, 10**8))])
    with pytest.raises(FairmendError, match='"amount" has 100,000,001 values'):
        space_of(spec)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cell_of_a_continuous_feature_contains_its_exact_ends(dtype):
    """The ends are rational numbers; computed in floating point, some would be inside."""
    wage = Feature(name="wage", kind="continuous", range=(0.1, 0.7), scale={"mean": 0.3, "std": 0.07})
    spec = Spec([wage, Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True)])
    axis = make_space(linear([1, 1], 0, dtype), spec).axes[0]
    low, length = Fraction(0.1), Fraction(0.7) - Fraction(0.1)
    cells = np.arange(0, CELLS, 97)
    ends = [np.array([float(low + length * (int(cell) + side) / CELLS) for cell in cells]) for side in (0, 1)]
    first, last = (encode_values(wage, end).astype(dtype) for end in ends)
    assert (axis.low[cells] <= first).all()
    assert (axis.high[cells] >= last).all()


def test_the_choices_of_many_linked_features_are_not_listed(monkeypatch):
    monkeypatch.setattr(space_module, "product", few_at_once)
    space = space_of(many_linked())
    assert space.choice.tolist() == [[WHOLE] * 5] * 2

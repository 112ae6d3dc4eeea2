"""Boxes hold the points of a neighbourhood, all of them, however they are split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.prove.engines.branch import Boxes, Pieces, inputs_per_batch
from fairmend.spec import Feature, Spec
from support.certify_cases import AGE, CONTINUOUS, GENDER, HOURS, INCOME
from support.strategies_spec import specs_and_inputs


def unique_rows(points):
    return {tuple(row) for row in points.tolist()}


def neighbourhood(spec, x):
    return unique_rows(np.concatenate([points for _, points in spec.points(x[None], dtype=x.dtype)]))


@given(specs_and_inputs(finite=True))
def test_the_roots_hold_exactly_the_points_of_each_neighbourhood(case):
    spec, X = case
    pieces = Pieces(spec, X)
    box, points = pieces.all_points(pieces.roots)
    owner = pieces.owner[pieces.roots.piece[box]]
    assert pieces.sizes(pieces.roots).sum() == len(points)
    for row, x in enumerate(X):
        assert unique_rows(points[owner == row]) == neighbourhood(spec, x)


@given(specs_and_inputs(finite=True), st.integers(0, 2**32 - 1))
def test_the_halves_of_a_box_hold_its_points_and_no_point_twice(case, seed):
    spec, X = case
    rng = np.random.default_rng(seed)
    pieces = Pieces(spec, X[:1])
    boxes = pieces.roots
    whole = unique_rows(pieces.all_points(boxes)[1])
    for _ in range(4):
        can = pieces.splittable(boxes)
        split = np.flatnonzero(can.any(axis=1))
        if not len(split):
            break
        column = np.array([rng.choice(np.flatnonzero(can[i])) for i in split], dtype=np.int64)
        kept = np.setdiff1d(np.arange(len(boxes.piece)), split)
        boxes = Boxes.join([boxes.take(kept), *pieces.split(boxes.take(split), column)])
    points = pieces.all_points(boxes)[1]
    assert unique_rows(points) == whole
    assert len(points) == pieces.sizes(pieces.roots).sum()


@given(specs_and_inputs())
def test_the_ends_enclose_every_point(case):
    spec, X = case
    pieces = Pieces(spec, X)
    lower, upper = pieces.ends(pieces.roots)
    for at in (pieces.roots.low, pieces.middle(pieces.roots), pieces.roots.high):
        points = pieces.points(pieces.roots.piece, at)
        assert (lower <= points).all()
        assert (points <= upper).all()


def test_a_continuous_column_has_infinitely_many_points_until_its_ends_are_adjacent():
    pieces = Pieces(CONTINUOUS, np.array([[0.5, 0.5]], np.float32))
    assert np.isinf(pieces.sizes(pieces.roots)).all()
    boxes = pieces.roots
    for _ in range(200):
        can = pieces.splittable(boxes)
        if not can.any():
            break
        boxes = pieces.split(boxes, can.argmax(axis=1))[0]
    assert not pieces.splittable(boxes).any()
    low, high = (ends.astype(np.float32) for ends in (boxes.low, boxes.high))
    assert (np.nextafter(low, np.float32(2)) >= high).all()


@pytest.mark.parametrize("categories", [2, 200])
def test_fewer_inputs_fit_in_a_batch_with_more_one_hot_combinations(categories):
    names = tuple(map(str, range(categories)))
    many = Feature("job", "categorical", categories=names, encoding="one-hot", protected=True)
    assert inputs_per_batch(Spec([AGE, HOURS, INCOME])) == 16384
    assert inputs_per_batch(Spec([AGE, GENDER, INCOME]), most=7) == 7
    with_jobs = inputs_per_batch(Spec([AGE, GENDER, many]))
    assert 1 <= with_jobs <= 16384
    assert (with_jobs < 16384) == (categories == 200)

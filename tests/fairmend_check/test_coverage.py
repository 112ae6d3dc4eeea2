"""Coverage is decided exactly: against enumeration, on lattices and on floats."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend_check.coverage import Effort, _find_hole, _inward, _rank, find_uncovered
from fairmend_check.errors import CheckError
from fairmend_check.neighbourhood import neighbourhood
from fairmend_check.spec import read_spec
from support.strategies_spec import unhurried


@unhurried
@given(st.data())
def test_holes_are_found_where_enumeration_finds_them(data):
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    count = data.draw(st.integers(1, 8))
    ends = [[sorted(data.draw(st.tuples(*[st.integers(-1, 5)] * 2))) for _ in sizes] for _ in range(count)]
    first, last = np.array([[e[0] for e in box] for box in ends]), np.array([[e[1] for e in box] for box in ends])
    cells = product(*(range(size) for size in sizes))
    held = [((first <= cell) & (cell <= last)).all(axis=1).any() for cell in map(np.array, cells)]
    hole = _find_hole(first, last, [(0, size - 1) for size in sizes], Effort())
    if all(held):
        assert hole is None
    else:
        assert not ((first <= np.array(hole)) & (np.array(hole) <= last)).all(axis=1).any()


def test_thousands_of_pieces_are_no_trouble():
    rng = np.random.default_rng(0)
    boxes = [(np.zeros(4, dtype=int), np.full(4, 1_000_000))]
    while len(boxes) < 3000:
        low, high = boxes.pop(int(rng.integers(len(boxes))))
        axis = int(np.argmax((high - low) * rng.random(4)))
        cut = int(rng.integers(low[axis] + 1, high[axis] + 1))
        below, above = high.copy(), low.copy()
        below[axis], above[axis] = cut - 1, cut
        boxes += [(low, below), (above, high)]
    first, last = (np.array([box[side] for box in boxes]) for side in (0, 1))
    extents = [(0, 1_000_000)] * 4
    assert _find_hole(first, last, extents, Effort()) is None
    hole = _find_hole(np.delete(first, 1234, axis=0), np.delete(last, 1234, axis=0), extents, Effort())
    assert hole
    assert ((first[1234] <= hole) & (hole <= last[1234])).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranks_count_the_numbers_of_the_type(dtype):
    kind = np.dtype(dtype).type
    rng = np.random.default_rng(1)
    values = np.sort(
        np.concatenate([rng.normal(size=200), rng.normal(size=50) * 1e-40, [0.0, -0.0, 1.0, -1.0]])
    ).astype(kind)
    ranks = _rank(values, dtype)
    assert (np.diff(ranks) >= 0).all()
    assert ((np.diff(ranks) == 0) == (np.diff(values) == 0)).all()
    assert (_rank(np.nextafter(values, kind(np.inf)), dtype) == ranks + 1).all()
    wide = rng.normal(size=200)
    assert (_inward(wide, dtype, np.inf) >= wide).all()
    assert (_inward(wide, dtype, -np.inf) <= wide).all()


TINY = {"float32": 2.0**-149, "float64": 2.0**-1074}


@st.composite
def small_features(draw, name, dtype):
    """A feature with few values, as in a certificate, and a column or columns of an input that fits it."""
    kind = np.dtype(dtype).type
    shape = draw(st.sampled_from(["integer", "tolerance", "one-hot", "dropped", "continuous", "denormal", "fixed"]))
    entry = {"name": name, "kind": "integer", "range": [0, 2]}
    if shape in ("one-hot", "dropped"):
        categories = list("abc")[: draw(st.integers(2, 3))]
        entry = {"name": name, "kind": "categorical", "categories": categories, "encoding": "one-hot"}
        columns = np.eye(len(categories)).tolist()
        if shape == "dropped":
            place = draw(st.integers(0, len(categories) - 1))
            entry["dropped"] = categories[place]
            columns = [row[:place] + row[place + 1 :] for row in columns]
        x = draw(st.sampled_from(columns))
        return {**entry, "protected": True}, x, columns
    if shape in ("continuous", "denormal"):
        unit = TINY[dtype] if shape == "denormal" else float(np.spacing(kind(1)))
        base = 0.0 if shape == "denormal" else 1.0
        low = base + unit * draw(st.integers(-2, 0)) * (shape == "denormal")
        values = [low + unit * step for step in range(draw(st.integers(2, 4)))]
        x = draw(st.sampled_from(values))
        return (
            {**entry, "kind": "continuous", "range": [low, values[-1]], "protected": True},
            [x],
            [[v] for v in values],
        )
    scale = draw(
        st.sampled_from([None, {"mean": 1.0, "std": 0.7}, {"mean": 1e6, "std": 0.3}, {"min": 1.0, "max": 4.0}])
    )
    if scale:
        entry["scale"] = scale
    numbers = list(scale.values()) if scale else [0.0, 1.0]
    factor = numbers[1] - numbers[0] if scale and "min" in scale else numbers[1]
    encoded = [float(kind((v - numbers[0]) / factor)) for v in range(3)]
    own = draw(st.integers(0, 2))
    # The input's own bits: those of its value, or one that lies beside them.
    x = draw(
        st.sampled_from(
            [encoded[own], float(np.nextafter(kind(encoded[own]), kind(draw(st.sampled_from([-9e9, 9e9])))))]
        )
    )
    x = x if abs(x * factor + numbers[0] - own) < 2.0**-21 * (own + abs(numbers[0])) else encoded[own]
    if shape == "fixed":
        x = draw(st.sampled_from([0.0, -0.0])) if x == 0 else x
        return entry, [x], [[x]]
    if shape == "integer":
        return {**entry, "protected": True}, [x], [[v] for v in {*encoded, x}]
    reached = [encoded[v] for v in range(3) if abs(v - own) <= 1]
    return {**entry, "tolerance": 1.5}, [x], [[v] for v in {*reached, x}]


@unhurried
@given(st.data())
def test_coverage_is_what_enumeration_says(data):
    """One-hot groups, dropped categories, own bits between lattice values, denormals and both zeros."""
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    kind = np.dtype(dtype).type
    drawn = [data.draw(small_features(f"f{i}", dtype)) for i in range(data.draw(st.integers(1, 3)))]
    protected = {"name": "p", "kind": "integer", "range": [0, 1], "protected": True}
    drawn.append((protected, [0.0], [[0.0], [1.0]]))
    spec = read_spec({"feature": [entry for entry, _, _ in drawn]}, "spec")
    around = neighbourhood(spec, np.array([c for _, x, _ in drawn for c in x]), dtype)
    everyone = np.array([[c for part in parts for c in part] for parts in product(*(values for _, _, values in drawn))])
    ends = []
    for column in everyone.T:
        near = [np.nextafter(kind(v), kind(towards)) for v in {*column} for towards in (-np.inf, np.inf)]
        inner = [float(np.nextafter(v, np.inf)) for v in {*column}]  # beside it in double precision only
        ends.append([*sorted({*column.tolist(), *map(float, near), *inner}), 0.0, -0.0])
    lower, upper = [], []
    whole = everyone.min(axis=0), everyone.max(axis=0)
    for _ in range(data.draw(st.integers(1, 6))):
        low, high = whole[0].copy(), whole[1].copy()
        for column in data.draw(st.sets(st.integers(0, len(ends) - 1), max_size=3)):
            low[column], high[column] = sorted(data.draw(st.sampled_from(ends[column])) for _ in range(2))
        lower.append(low)
        upper.append(high)
    boxes = np.array(lower), np.array(upper)
    held = ((boxes[0] <= everyone[:, None]) & (everyone[:, None] <= boxes[1])).all(axis=2).any(axis=1)
    found = find_uncovered(around, *boxes, dtype)
    assert (found is None) == bool(held.all()), found


def region(features, x):
    entries = [{"name": f"f{i}", **feature} for i, feature in enumerate(features)]
    return neighbourhood(read_spec({"feature": entries}, "spec"), np.array(x, dtype=np.float64), "float32")


def one_hot(categories):
    names = [f"c{i}" for i in range(categories)]
    return {"kind": "categorical", "categories": names, "encoding": "one-hot", "protected": True}


def test_one_box_around_ten_one_hot_features_of_fifty_values_covers_them_all():
    around = region([one_hot(50)] * 10, np.tile(np.eye(50)[0], 10))
    lower, upper = np.zeros((1, 500)), np.ones((1, 500))
    assert find_uncovered(around, lower, upper, "float32") is None
    upper[0, 77] = 0.5
    assert "f1 = c27" in find_uncovered(around, lower, upper, "float32")


def test_boxes_that_would_become_too_many_are_refused_at_once():
    """Every other category in ten groups: 25^10 runs."""
    around = region([one_hot(50)] * 10, np.tile(np.eye(50)[0], 10))
    upper = np.tile([1.0, 0.5], 250)[None]
    with pytest.raises(CheckError, match="too many pieces"):
        find_uncovered(around, np.zeros((1, 500)), upper, "float32")


def test_a_feature_of_ten_thousand_categories_is_no_trouble():
    x = np.zeros(10_000)
    x[3] = 1.0
    around = region([one_hot(10_000)], x)
    assert find_uncovered(around, np.zeros((1, 10_000)), np.ones((1, 10_000)), "float32") is None
    assert "f0 = c4" in find_uncovered(around, x[None], x[None], "float32")


def test_ranges_of_a_thousand_billion_whole_numbers_are_decided_one_by_one():
    around = region(
        [{"kind": "integer", "range": [0, 10**12], "protected": True, "scale": {"mean": 0, "std": 1e9}}], [7.0]
    )
    top = float(np.float32(1000))
    assert find_uncovered(around, np.array([[0.0]]), np.array([[top]]), "float32") is None
    below = float(np.nextafter(np.float32(500), np.float32(0)))
    halves = np.array([[0.0], [500.0]]), np.array([[below], [top]])
    assert find_uncovered(around, *halves, "float32") is None
    assert "f0 = 4.99999" in find_uncovered(around, halves[0], np.array([[np.nextafter(below, 0)], [top]]), "float32")


def test_ten_thousand_features_are_no_trouble():
    around = region([{"kind": "integer", "range": [0, 3], "protected": True}] * 10_000, np.zeros(10_000))
    lower, upper = np.zeros((2, 10_000)), np.full((2, 10_000), 3.0)
    assert find_uncovered(around, lower, upper, "float32") is None
    upper[0, 5], lower[1, 7] = 1.0, 1.0
    assert "f5 = 2" in find_uncovered(around, lower, upper, "float32")


def test_boxes_that_are_hard_to_decide_are_refused_after_a_bounded_effort_for_all_regions_together():
    """Boxes can state a hard satisfiability problem: each excludes what violates a clause of three variables."""
    rng = np.random.default_rng(0)
    lower, upper = np.zeros((426, 100)), np.ones((426, 100))
    for low, high in zip(lower, upper, strict=True):
        variables = rng.choice(100, 3, replace=False)
        low[variables] = high[variables] = rng.integers(0, 2, 3)
    around = region([{"kind": "integer", "range": [0, 1], "protected": True}] * 100, np.zeros(100))
    effort = Effort()
    effort.left = 10_000_000
    with pytest.raises(CheckError, match="too many pieces"):
        find_uncovered(around, lower, upper, "float32", effort)
    assert effort.left < 0

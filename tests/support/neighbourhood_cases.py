"""Random specs and people, and the comparison of their neighbourhoods: fairmend's against the checker's.

People are encoded by the spec, scaled elsewhere in float32, or off by a few units in the last place. Scales include
those with a mean far above the standard deviation, where these differ by more than a step of the lattice.
"""

from dataclasses import dataclass, replace

import numpy as np

from fairmend.auditing.neighbours import stream_random_neighbours
from fairmend.base.errors import FairmendError
from fairmend.prove.engines.branch import Pieces
from fairmend.spec import Feature, Spec
from fairmend.spec.features import scale_parameters
from fairmend.spec.neighbourhoods import are_neighbours
from fairmend.spec.products import count_parts
from fairmend_check.errors import CheckError
from fairmend_check.kernel.neighbourhood import Axis, Product, batches, count_boxes, encode_one_hot, neighbourhood
from fairmend_check.kernel.spec import read_spec
from support.coverage import find_uncovered, fixed_columns, numbers_within

MOST_POINTS = 400


@dataclass
class Tally:
    """What was compared, and the differences found."""

    people: int = 0
    refused: int = 0
    apart: int = 0
    points: int = 0
    boxes: int = 0

    def add(self, other: "Tally") -> None:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def random_scale(rng: np.random.Generator) -> dict[str, float] | None:
    kind = rng.integers(5)
    if kind == 0:
        return None
    if kind == 1:
        return {"mean": float(rng.normal(0, 30)), "std": float(rng.uniform(0.5, 20))}
    if kind == 2:
        low = float(rng.normal(0, 30))
        return {"min": low, "max": low + float(rng.uniform(0.5, 100))}
    far = float(rng.choice([-1, 1]) * 10 ** rng.uniform(2, 12))
    if kind == 3:
        return {"mean": far, "std": float(10 ** rng.uniform(-3, 2))}
    return {"min": far, "max": far + max(abs(far) * 1e-12, float(10 ** rng.uniform(-2, 3)))}


def random_bands(rng: np.random.Generator, feature: Feature) -> Feature:
    """Return the feature with random bands, or as it is where they would be refused."""
    if feature.categories:
        band = rng.integers(int(rng.integers(2, 4)), size=len(feature.categories))
        names = [[c for c, b in zip(feature.categories, band, strict=True) if b == number] for number in range(3)]
        bands: object = [group for group in names if group]
    elif rng.random() < 0.3:
        bands = {"width": float(rng.integers(1, 5)) * (1 if feature.kind == "integer" else rng.random() + 0.1)}
    else:
        low, high = feature.bounds
        inner = rng.uniform(low, high, rng.integers(1, 5))
        inner = np.unique(np.ceil(inner) if feature.kind == "integer" else inner)
        last = [float(high)] if rng.random() < 0.2 else []
        bands = [low, *(float(end) for end in inner if low < end < high), *last]
    try:
        return replace(feature, bands=bands, tolerance=0.0)
    except FairmendError:
        return feature


def random_feature(rng: np.random.Generator, name: str, protected: bool) -> Feature:
    if not protected and rng.random() < 0.15:
        return Feature(name, "as-is", missing=float(rng.normal()) if rng.random() < 0.3 else None)
    feature = _random_feature(rng, name, protected)
    return random_bands(rng, feature) if not protected and rng.random() < 0.4 else feature


def _random_feature(rng: np.random.Generator, name: str, protected: bool) -> Feature:
    kind = rng.choice(["integer", "integer", "continuous", "ordinal", "one-hot"])
    if kind in ("ordinal", "one-hot"):
        categories = tuple("abcdef"[: int(rng.integers(2, 6))])
        dropped = str(rng.choice(categories)) if kind == "one-hot" and rng.random() < 0.5 else None
        missing = str(rng.choice(categories)) if rng.random() < 0.2 else None
        columns = None  # of data that is one-hot already
        if kind == "one-hot" and missing is None and rng.random() < 0.5:
            columns = tuple(f"{name}_{category}" for category in categories if category != dropped)
        return Feature(
            name,
            "categorical",
            categories=categories,
            encoding=str(kind),
            scale=random_scale(rng) if kind == "ordinal" else None,
            protected=protected,
            dropped=dropped,
            missing=missing,
            columns=columns,
        )
    scale = random_scale(rng)
    low = int(rng.integers(-40, 40))
    if scale and rng.random() < 0.3:  # values near the offset, as in standardised data
        low = int(scale_parameters(scale)[0]) + int(rng.integers(-8, 4))
    span = int(rng.integers(1, 12))
    extent = (low, low + span) if kind == "integer" else (low + rng.random() / 2, low + span + rng.random() / 2)
    tolerance = 0.0 if protected else float(rng.choice([0, 0.4, 1, 2, 2.7]))
    missing = low + 1 if rng.random() < 0.2 else None
    return Feature(
        name, str(kind), range=extent, scale=scale, protected=protected, tolerance=tolerance, missing=missing
    )


def random_spec(rng: np.random.Generator) -> Spec:
    """Return a spec of one to three features, some finite and some not."""
    return Spec([random_feature(rng, f"f{i}", i == 0 or rng.random() < 0.4) for i in range(int(rng.integers(1, 4)))])


def random_people(spec: Spec, rng: np.random.Generator, count: int, dtype: type) -> np.ndarray:
    """Return inputs (count, width), encoded in several ways; some are not valid."""
    X = spec.sample_inputs(count, rng, np.float64)
    values = {f.name: f.nearest(X[:, spec.columns(f.name).start]) for f in spec.features if not f.one_hot}
    X = X.astype(dtype)
    for name, value in values.items():
        feature = next(f for f in spec.features if f.name == name)
        offset, factor = scale_parameters(feature.scale)
        column = X[:, spec.columns(name).start]
        how = rng.integers(5, size=count)
        single = np.float32(value) - np.float32(offset)
        column[how == 1] = (single / np.float32(factor))[how == 1]
        column[how == 2] = (single * (np.float32(1) / np.float32(factor)))[how == 2]
        steps = rng.integers(-2, 3, size=count)
        nudged = column.copy()
        for _ in range(2):
            towards = np.where(steps > 0, np.inf, -np.inf).astype(dtype)
            nudged = np.where(steps != 0, np.nextafter(nudged, towards), nudged)
            steps -= np.sign(steps)
        column[how == 3] = nudged[how == 3]
        off = rng.normal(size=count) * 2.0**-20 * (abs(offset) + np.abs(value)) / factor  # about what is still valid
        column[how == 4] += off.astype(dtype)[how == 4]
        if feature.as_is:  # any number of float32, and beyond it, where both refuse
            largest = float(np.finfo(np.float32).max)
            sizes = [0.0, 1e-45, 1e30, largest, -largest, np.nextafter(largest, np.inf), 1.0001 * largest]
            column[how == 0] = rng.choice(sizes, count).astype(dtype)[how == 0]
        if feature.kind == "continuous" and feature.bands:  # at the edges of bands, and just below them
            edges = feature.scaled(np.array(feature.lower_ends)).astype(dtype)
            at = rng.choice(np.concatenate([edges, np.nextafter(edges[1:], dtype(-np.inf))]), count)
            column[how == 0] = at[how == 0]
        column[(column == 0) & (rng.random(count) < 0.5)] = -0.0
    return X


def points_of(around: list[Product], size: int) -> list[np.ndarray]:
    """Return the points of one neighbourhood in batches."""
    return [points for _, points, _ in batches([(0, around, True)], size)]


def compare_case(rng: np.random.Generator, people: int) -> Tally:
    """Draw a spec and people, and raise AssertionError if the two readings of their neighbourhoods differ."""
    spec, dtype = random_spec(rng), rng.choice([np.float32, np.float64])
    tally = Tally()
    with np.errstate(all="ignore"):
        X = random_people(spec, rng, people, dtype)
    if any(count_parts(feature, ()) > 1 for feature in spec.features):  # a band of several runs, so several products
        return _compare_unions(spec, X, rng)
    theirs = read_spec(spec.to_dict(), "spec")
    around: list[list[Product]] = []
    valid = np.zeros(len(X), dtype=bool)
    for row, x in enumerate(X):
        try:
            around.append(neighbourhood(theirs, x.astype(np.float64), np.dtype(dtype).name))
            valid[row] = True
        except CheckError:
            tally.refused += 1
        try:
            spec.as_inputs(x[None], dtype)
            assert valid[row], f"only the checker refuses {x.tolist()} of {spec.to_dict()}"
        except FairmendError:
            assert not valid[row], f"only fairmend refuses {x.tolist()} of {spec.to_dict()}"
    X = X[valid]
    if len(X) == 0:
        return tally
    tally.people = len(X)
    where = f"{spec.to_dict()}, {X.tolist()}, {np.dtype(dtype).name}"
    tally.boxes = _compare_boxes(spec, X, around, where)
    if spec.finite:
        tally.apart = sum(
            any(axis.place_of_x is not None for product in each for axis in product.axes) for each in around
        )
        tally.points = _compare_points(spec, X, around, where)
    else:
        _compare_samples(spec, X, around, rng, where)
    return tally


def _compare_boxes(spec: Spec, X: np.ndarray, around: list[list[Product]], where: str) -> int:
    """Regions cover the checker's neighbourhood, and each box is the documented hull, of each category once."""
    regions = spec.regions(X, X.dtype)
    for row, (each,) in enumerate(around):  # one product, as these specs have no links
        mine = regions.owner == row
        lower, upper = (ends[mine].astype(np.float64) for ends in (regions.lower, regions.upper))
        assert find_uncovered([each], lower, upper, X.dtype.name) is None, where
        fixed = fixed_columns(each)
        assert (lower[:, fixed] == each.x[fixed]).all(), where
        assert (upper[:, fixed] == each.x[fixed]).all(), where
        hot = 1
        for axis in each.axes:
            columns = slice(axis.column, axis.column + axis.feature.width)
            if axis.feature.one_hot:
                hot *= axis.count
                assert (lower[:, columns] == upper[:, columns]).all(), where
            else:
                assert (lower[:, axis.column] == axis.low).all(), where
                assert (upper[:, axis.column] == axis.high).all(), where
        assert len(lower) == hot, where
    return len(regions.owner)


def _compare_points(spec: Spec, X: np.ndarray, around: list[list[Product]], where: str) -> int:
    """Streamed points, those of the engines, and counts are the checker's; random neighbours are among them."""
    sizes = [count_boxes(each, each_whole=True) for each in around]
    assert spec.neighbourhood_sizes(X, X.dtype).tolist() == sizes, where
    few = np.flatnonzero(np.array(sizes) <= MOST_POINTS)
    if len(few) == 0:
        return 0
    X, around = X[few], [around[i] for i in few]
    placed = [(f, spec.columns(f.name)) for f in spec.features]
    streamed = [*spec.points(X, dtype=X.dtype)]
    owner, listed = np.concatenate([r for r, _ in streamed]), np.concatenate([p for _, p in streamed])
    assert are_neighbours(placed, X[owner], listed).all(), where
    pieces = Pieces(spec, X)
    box, boxed = pieces.all_points(pieces.roots)
    box_owner = pieces.owner[pieces.roots.piece[box]]
    drawn = next(stream_random_neighbours(spec, X, 3, np.random.default_rng(0)))
    for row, each in enumerate(around):
        expected = _sorted(np.concatenate(points_of(each, MOST_POINTS)))
        assert np.array_equal(_sorted(listed[owner == row]), expected), where
        assert np.array_equal(_sorted(boxed[box_owner == row]), expected), where
        assert (expected == each[0].x).all(axis=1).any(), where
        known = {tuple(point) for point in (expected + 0.0).tolist()}
        assert {tuple(p) for p in (drawn[1][drawn[0] == row].astype(np.float64) + 0.0).tolist()} <= known, where
    return len(listed)


def _compare_samples(
    spec: Spec, X: np.ndarray, around: list[list[Product]], rng: np.random.Generator, where: str
) -> None:
    """Random neighbours are inside the checker's neighbourhood, feature by feature."""
    rows, drawn = next(stream_random_neighbours(spec, X, 3, rng))
    for row, point in zip(rows.tolist(), drawn.astype(np.float64), strict=True):
        (each,) = around[row]
        fixed = fixed_columns(each)
        assert (point[fixed] == each.x[fixed]).all(), where
        assert all(_reaches(axis, point) for axis in each.axes), where


def _reaches(axis: Axis, point: np.ndarray) -> bool:
    if axis.feature.one_hot:
        columns = point[axis.column : axis.column + axis.feature.width]
        codes = range(int(axis.lowest), int(axis.highest) + 1)
        return any(np.array_equal(encode_one_hot(axis.feature, np.array([code]))[0], columns) for code in codes)
    value = point[axis.column : axis.column + 1]
    if axis.feature.whole:
        first, last = numbers_within(axis, value, value)
        return bool(first[0] <= last[0])
    return axis.low <= value[0] <= axis.high


def _sorted(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    return rows[np.lexsort(rows.T)]


def random_condition(rng: np.random.Generator, feature: Feature) -> object:
    if feature.categories:
        return [str(c) for c in rng.choice(feature.categories, rng.integers(1, len(feature.categories) + 1), False)]
    low, high = feature.bounds
    ends = rng.integers(low, int(high) + 1, 2) if feature.kind == "integer" else rng.uniform(low, high, 2)
    ends = np.where(rng.random(2) < 0.2, feature.bounds, ends)
    return [float(ends.min()), float(ends.max())]


def random_change(rng: np.random.Generator, feature: Feature) -> dict[str, object]:
    if feature.categories:
        named = rng.choice(feature.categories, rng.integers(1, len(feature.categories) + 1), False)
        return {str(own): random_condition(rng, feature) for own in named}
    if rng.random() < 0.5:
        return {"range": random_condition(rng, feature)}
    ends = rng.integers(-4, 5, 2) if feature.kind == "integer" else rng.normal(0, 3, 2)
    return {"offset": [float(ends.min()), float(ends.max())]}


def random_linked_spec(rng: np.random.Generator) -> Spec:
    """Return a spec of two to four features with one to three links."""
    features = [
        random_feature(rng, f"f{i}", i == 0 or (i > 1 and rng.random() < 0.4)) for i in range(rng.integers(2, 5))
    ]
    features = [replace(f, tolerance=0.0) if rng.random() < 0.7 else f for f in features]
    targets = [f for f in features if not f.protected and not f.tolerance and not f.bands]
    conditions = [f for f in features if f.protected]
    links: list[dict[str, object]] = []
    for _ in range(3 if targets else 0):
        when = [conditions[i] for i in rng.choice(len(conditions), rng.integers(1, len(conditions) + 1), False)]
        then = [targets[i] for i in rng.choice(len(targets), rng.integers(1, len(targets) + 1), False)]
        link = {
            "when": {f.name: random_condition(rng, f) for f in when},
            "then": {f.name: random_change(rng, f) for f in then},
        }
        try:
            Spec(features, links=[*links, link])
            links.append(link)
        except FairmendError:
            continue
    return Spec(features, links=links)


def compare_linked_case(rng: np.random.Generator, people: int) -> Tally:
    """Draw a spec with links and people, and raise AssertionError if the two readings of neighbourhoods differ."""
    spec, dtype = random_linked_spec(rng), rng.choice([np.float32, np.float64])
    with np.errstate(all="ignore"):
        X = random_people(spec, rng, people, dtype)
    return _compare_unions(spec, X, rng)


def _compare_unions(spec: Spec, X: np.ndarray, rng: np.random.Generator) -> Tally:
    """Compare neighbourhoods that are unions of products, person by person."""
    dtype, tally = X.dtype, Tally()
    theirs = read_spec(spec.to_dict(), "spec")
    for x in X:
        where = f"{spec.to_dict()}, {x.tolist()}, {np.dtype(dtype).name}"
        try:
            spec.as_inputs(x[None], dtype)
        except FairmendError:
            tally.refused += 1
            continue
        around = neighbourhood(theirs, x.astype(np.float64), np.dtype(dtype).name)
        regions = spec.regions(x[None], dtype)
        lower, upper = regions.lower.astype(np.float64), regions.upper.astype(np.float64)
        assert find_uncovered(around, lower, upper, np.dtype(dtype).name) is None, where
        assert len(lower) <= spec.most_pieces, where
        tally.people, tally.boxes = tally.people + 1, tally.boxes + len(lower)
        _, drawn = next(stream_random_neighbours(spec, x[None], 20, rng))
        assert spec.are_similar(np.repeat(x[None], len(drawn), axis=0), drawn).all(), where
        if spec.finite and int(spec.neighbourhood_sizes(x[None], dtype)[0]) <= MOST_POINTS:
            tally.points += _compare_linked_points(spec, x, around, where)
    return tally


def _compare_linked_points(spec: Spec, x: np.ndarray, around: list[Product], where: str) -> int:
    """Streamed points, those of the engines and the union of the checker's products are the same sets."""
    expected = {tuple(p) for batch in points_of(around, MOST_POINTS) for p in (batch + 0.0).tolist()}
    _, points = next(spec.points(x[None], batch=10 * MOST_POINTS, dtype=x.dtype))
    assert {tuple(p) for p in (points.astype(np.float64) + 0.0).tolist()} == expected, where
    assert spec.are_similar(np.repeat(x[None], len(points), axis=0), points).all(), where
    pieces = Pieces(spec, x[None])
    _, boxed = pieces.all_points(pieces.roots)
    assert {tuple(p) for p in (boxed.astype(np.float64) + 0.0).tolist()} == expected, where
    assert tuple((x.astype(np.float64) + 0.0).tolist()) in expected, where
    return len(points)

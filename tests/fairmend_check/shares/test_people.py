"""All people of a spec: boxes contain the encodings of everyone in them, and of all who are similar."""

from fractions import Fraction

import numpy as np
import pytest

from fairmend.spec import Feature, Spec
from fairmend_check.errors import CheckError
from fairmend_check.shares import people as people_module
from fairmend_check.shares.linked_people import ALL as ALL_VALUES
from fairmend_check.shares.people import People
from support.quantify_cases import SPECS
from support.share_cases import CONTINUOUS, checked_spec, few_at_once, many_linked, people_of_spec, random_leaves

ALL = {**SPECS, "continuous": CONTINUOUS}


def random_values(axis, first, last, rng, count):
    """Return values of a feature in cells first to last, among them those at the ends."""
    feature = axis.feature
    if feature.whole:
        return np.concatenate([[first, last], rng.integers(first, last + 1, count)]) + feature.low
    low, length = Fraction(feature.low), Fraction(feature.high) - Fraction(feature.low)
    places = [Fraction(first), Fraction(last + 1), *(Fraction(x) for x in rng.uniform(first, last + 1, count))]
    return np.array([float(low + length * place / axis.cells) for place in places])


def feature_of(spec, axis):
    return next(feature for feature in spec.features if feature.name == axis.feature.name)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hulls_contain_everyone_who_is_similar(name, dtype):
    rng, spec = np.random.default_rng(1), ALL[name]
    people = people_of_spec(spec, dtype=dtype)
    leaves = random_leaves(people, rng, 20)
    lower, upper = people.hulls(leaves, people.cases(len(leaves.first)))
    assert lower.shape == (len(leaves.first) * len(people.pieces.first), spec.width)
    for row in range(len(leaves.first)):
        for k, axis in enumerate(people.axes):
            values = random_values(axis, leaves.first[row, k], leaves.last[row, k], rng, 20)
            feature, ends = feature_of(spec, axis), (axis.feature.low, axis.feature.high)
            near = [np.clip(values + step * axis.feature.reach, *ends) for step in (-1, 0, 1)]
            columns = feature.encode(np.concatenate(near)).astype(dtype)
            assert (columns >= lower[row, axis.columns]).all()
            assert (columns <= upper[row, axis.columns]).all()


@pytest.mark.parametrize("parts", [[1, 1], [2, 1], [1, 7], [2, 64]])
def test_pieces_contain_all_protected_values_once(parts):
    people = people_of_spec(CONTINUOUS, parts)
    assert len(people.pieces.first) == np.prod(parts)
    sizes = (people.pieces.last - people.pieces.first + 1).prod(axis=1)
    assert sizes.sum() == np.prod([axis.cells for axis in people.protected])


@pytest.mark.parametrize("name", ALL)
def test_steps_enclose_what_a_tolerance_changes(name):
    spec = ALL[name]
    for axis in people_of_spec(spec).axes:
        low, high = axis.feature.low, axis.feature.high
        values = np.linspace(low, high - axis.feature.reach, 1000)
        values = np.floor(values) if axis.feature.whole else values
        both = np.concatenate([values, values + axis.feature.reach])
        change = np.diff(feature_of(spec, axis).encode(both).astype(np.float32)[:, 0].reshape(2, -1), axis=0)
        if axis.reach:
            assert axis.steps[0] <= change.min() <= change.max() <= axis.steps[1]
            assert axis.steps[1] - axis.steps[0] < 1e-4
        else:
            assert axis.steps == (0, 0)


def test_the_reach_of_a_tolerance_is_exact():
    wide = Feature(name="x", kind="continuous", range=(0, 65536), tolerance=3)
    wider = Feature(name="y", kind="continuous", range=(0, 65536), tolerance=3.0000001)
    sex = Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True)
    assert [axis.reach for axis in people_of_spec(Spec([wide, wider, sex])).axes] == [3, 4]


def test_the_number_of_cells_has_no_limit():
    many = [Feature(name=f"x{k}", kind="continuous", range=(0, 1)) for k in range(100)]
    sex = Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True)
    assert people_of_spec(Spec([*many, sex])).cells == 2**1600


@pytest.mark.parametrize(
    ("spec", "parts", "reason"),
    [
        (SPECS["many"], [1], "a number for each protected feature"),
        (SPECS["many"], [64, 64], "a product of at most 1,024"),
        (SPECS["many"], [1, 4], "fewer values than pieces"),
        (SPECS["small"], [0], "fewer values than pieces"),
        (
            Spec([Feature(name="a", kind="integer", range=(0, 2**40)), *SPECS["small"].features]),
            [1],
            "more than 4,294,967,296 values",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(spec, parts, reason):
    with pytest.raises(CheckError, match=reason):
        People.of(checked_spec(spec), "float32", 2**16, parts)


@pytest.mark.parametrize("cells", [1, 2, 2**16])
@pytest.mark.parametrize("protected", [True, False])
def test_a_cell_of_a_continuous_feature_is_not_one_person(cells, protected):
    other = Feature(name="sex", kind="integer", range=(0, 1), protected=not protected)
    continuous = Feature(name="income", kind="continuous", range=(0, 1), protected=protected)
    assert not people_of_spec(Spec([other, continuous]), cells=cells).finite
    if not protected:
        fixed = Feature(name="income", kind="continuous", range=(1, 1))
        assert people_of_spec(Spec([other, fixed]), cells=1).finite


def test_nobody_is_moved_out_of_the_range_by_a_large_tolerance():
    sex = Feature(name="sex", kind="integer", range=(0, 1), protected=True)
    for tolerance, most in ((3, 3), (9, 9), (100, 9)):
        hours = Feature(name="hours", kind="integer", range=(0, 9), tolerance=tolerance)
        (axis,) = people_of_spec(Spec([sex, hours])).axes
        least, largest = axis.steps
        assert least <= most <= largest == pytest.approx(most, rel=1e-4)


def test_the_choices_of_many_linked_features_are_not_listed(monkeypatch):
    """There can be more combinations than atoms in the universe, and a certificate chooses the links."""
    monkeypatch.setattr(people_module, "product", few_at_once)
    pieces = people_of_spec(many_linked(), [2]).pieces
    assert pieces.choice.tolist() == [[ALL_VALUES] * 5] * 2
    few = people_of_spec(many_linked(2, 3), [2]).pieces
    assert sorted(map(tuple, few.choice[few.first[:, 0] == 0])) == [(i, j) for i in range(3) for j in range(3)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_cell_of_a_continuous_feature_contains_its_exact_ends(dtype):
    """The ends are rational numbers; computed in floating point, some would be inside."""
    wage = Feature(name="wage", kind="continuous", range=(0.1, 0.7), scale={"mean": 0.3, "std": 0.07})
    spec = Spec([wage, Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True)])
    axis = people_of_spec(spec, dtype=dtype).axes[0]
    low, length = Fraction(0.1), Fraction(0.7) - Fraction(0.1)
    cells = np.arange(0, axis.cells, 97)
    ends = [np.array([float(low + length * (int(cell) + side) / axis.cells) for cell in cells]) for side in (0, 1)]
    first, last = (wage.encode(end).astype(dtype)[:, 0] for end in ends)
    assert (axis.lower(cells) <= first).all()
    assert (axis.upper(cells) >= last).all()
    assert (axis.upper(np.arange(axis.cells - 1)) >= axis.lower(np.arange(1, axis.cells))).all()

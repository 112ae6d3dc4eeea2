"""Neighbourhoods: the checker's reading of docs/certificate.md and that of fairmend agree."""

import numpy as np
import pytest
from hypothesis import given

from fairmend.spec import Feature, Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.neighbourhood import _boxes, batches, count_boxes, neighbourhood
from fairmend_check.kernel.spec import read_spec
from support.coverage import find_uncovered
from support.examples import examples
from support.neighbourhood_cases import Tally, compare_case, points_of, random_linked_spec, random_people
from support.strategies_spec import specs_and_inputs, unhurried


@unhurried
@given(specs_and_inputs())
def test_neighbourhoods_are_those_of_the_rest_of_fairmend(drawn):
    """Two readings of docs/certificate.md: regions cover ours, and nothing smaller does."""
    spec, X = drawn
    ours = read_spec(spec.to_dict(), "spec")
    dtype = X.dtype.name
    regions = spec.regions(X, X.dtype)
    for row in range(len(X)):
        around = neighbourhood(ours, X[row].astype(np.float64), dtype)
        mine = regions.owner == row
        lower, upper = regions.lower[mine].astype(np.float64), regions.upper[mine].astype(np.float64)
        assert find_uncovered(around, lower, upper, dtype) is None
        for column in np.flatnonzero((lower < upper).any(axis=0)):
            narrower = upper.copy()
            narrower[:, column] = np.nextafter(narrower[:, column].astype(dtype), X.dtype.type(-np.inf))
            assert find_uncovered(around, lower, narrower, dtype) is not None
        if len(lower) > 1:
            assert find_uncovered(around, lower[1:], upper[1:], dtype) is not None


@examples(25)
@given(specs_and_inputs())
def test_boxes_cover_the_neighbourhood_and_nothing_beside_it(drawn):
    """With a box for each category, or for each whole number as well; tolerances may be continuous beside them."""
    spec, X = drawn
    ours, dtype = read_spec(spec.to_dict(), "spec"), X.dtype.name
    for x in X.astype(np.float64):
        around = neighbourhood(ours, x, dtype)
        for each_whole in (False, True):
            if count_boxes(around, each_whole=each_whole) > 500:
                continue
            lower, upper = boxes_of(around, each_whole)
            assert find_uncovered(around, lower, upper, dtype) is None
            hull = spec.hull(x[None].astype(dtype), dtype)
            assert (lower >= hull[0]).all()
            assert (upper <= hull[1]).all()
            if len(lower) > 1:
                assert find_uncovered(around, lower[1:], upper[1:], dtype) is not None
            if each_whole and spec.finite:
                assert (lower == upper).all()


def boxes_of(around, each_whole):
    parts = [*batches([(0, around, each_whole)], 50)]
    return (np.concatenate([part[side] for part in parts]) for side in (1, 2))


def test_boxes_of_linked_people_cover_their_neighbourhoods():
    rng = np.random.default_rng(5)
    several = 0
    for _ in range(30):
        spec = random_linked_spec(rng)
        with np.errstate(all="ignore"):
            X = random_people(spec, rng, 3, np.float32)
        ours = read_spec(spec.to_dict(), "spec")
        for x in X.astype(np.float64):
            try:
                around = neighbourhood(ours, x, "float32")
            except CheckError:
                continue
            for each_whole in (False, True):
                if count_boxes(around, each_whole=each_whole) <= 200:
                    assert find_uncovered(around, *boxes_of(around, each_whole), "float32") is None
                    several += len(around) > 1
    assert several > 20


@pytest.mark.parametrize("seed", range(4))
def test_three_thousand_random_people_have_the_same_neighbours_for_fairmend_and_the_checker(seed):
    """benchmarks/soundness/neighbourhoods.py does the same for a million."""
    tally = Tally()
    for number in range(25):
        tally.add(compare_case(np.random.default_rng([seed, number]), 30))
    assert tally.people > 500
    assert tally.apart > 50
    assert tally.refused > 10
    assert tally.points > 2000


@pytest.mark.parametrize("scale", [None, {"mean": 3.0, "std": 1.7}, {"mean": 51234.5, "std": 1.7}])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whoever_is_within_the_tolerance_in_the_data_is_in_the_box(dtype, scale):
    """2.42 and 2.32 are 0.1 apart; the number that 2.42 is rounded to, less 0.1, is above the one of 2.32."""
    mean, std = (0.0, 1.0) if scale is None else (scale["mean"], scale["std"])
    kind, rng = np.dtype(dtype).type, np.random.default_rng(0)
    number = {"name": "t", "kind": "continuous", "range": [0, 10], **({} if scale is None else {"scale": scale})}
    sex = {"name": "p", "kind": "integer", "range": [0, 1], "protected": True}
    for by in (0.1, 1.99):
        tolerant = read_spec({"feature": [{**number, "tolerance": by}, sex]}, "spec")
        link = {"when": {"p": 1}, "then": {"t": {"offset": by}}}
        linked = read_spec({"feature": [number, sex], "link": [link]}, "spec")
        for value in rng.uniform(2, 8, 300).round(2):
            x = np.array([float(kind((value - mean) / std)), 0.0])
            for spec, others in ((tolerant, (value - by, value + by)), (linked, (value + by,))):
                axes = [axis for each in neighbourhood(spec, x, dtype) for axis in each.axes if axis.column == 0]
                for other in others:
                    encoded = float(kind((round(other, 2) - mean) / std))
                    assert any(axis.low <= encoded <= axis.high for axis in axes)
                room = 1e-9 + 3 * float(np.spacing(kind(abs(x[0]) + by)))
                assert max(axis.high - axis.low for axis in axes) < 2 * by / std + room


def test_an_input_an_ulp_off_is_its_own_neighbour():
    spec = Spec([Feature("age", "integer", range=(0, 9), scale={"mean": 4.3, "std": 2.9}, protected=True)])
    ours = read_spec(spec.to_dict(), "spec")
    top = np.float32((9 - 4.3) / 2.9)
    x = np.array([np.nextafter(top, np.float32(np.inf))], dtype=np.float64)
    around = neighbourhood(ours, x, "float32")
    low = np.array([[(0 - 4.3) / 2.9]]).astype(np.float32).astype(np.float64)
    assert find_uncovered(around, low, np.array([[float(top)]]), "float32") is not None
    assert find_uncovered(around, low, x[None], "float32") is None


def test_own_bits_far_from_the_encoding_of_the_own_value_are_a_point_beside_it():
    """Scaled in float32 with a mean far above the standard deviation, a value moves by more than a step."""
    feature = {"name": "year", "kind": "integer", "range": [2000, 2003], "protected": True}
    ours = read_spec({"feature": [{**feature, "scale": {"mean": 1e6, "std": 0.1}}]}, "spec")
    encoded = [float(np.float32((v - 1e6) / 0.1)) for v in range(2000, 2004)]
    x = float(np.nextafter(np.float32(encoded[1]), np.float32(0)))
    around = neighbourhood(ours, np.array([x]), "float32")
    assert count_boxes(around, each_whole=True) == 5
    assert points_of(around, 5)[0][:, 0].tolist() == sorted([*encoded, x])
    assert count_boxes(neighbourhood(ours, np.array(encoded[1:2]), "float32"), each_whole=True) == 4


def test_points_of_features_with_many_categories_or_values_are_counted_and_made_in_little_memory():
    names = [f"c{i}" for i in range(10_000)]
    jobs = {"name": "job", "kind": "categorical", "categories": names, "encoding": "one-hot", "protected": True}
    pay = {"name": "pay", "kind": "integer", "range": [0, 10**15], "protected": True}
    ours = read_spec({"feature": [{**jobs, "dropped": "c5"}, pay]}, "spec")
    around = neighbourhood(ours, np.zeros(10_000), "float64")
    assert count_boxes(around, each_whole=True) == 10_000 * (10**15 + 1)
    found, _ = _boxes(around[0], 4 * (10**15 + 1) - 1, 4 * (10**15 + 1) + 1, True)
    assert found[:, -1].tolist() == [1e15, 0.0]
    assert [np.flatnonzero(row[:-1]).tolist() for row in found] == [[3], [4]]


@pytest.mark.parametrize("scale", [None, {"mean": 5e7, "std": 1e3}, {"mean": 1e11, "std": 1.0}])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whoever_is_within_the_tolerance_of_a_whole_number_is_in_the_box(dtype, scale):
    """Float32 holds 50,000,000 for 50,000,002, of which 50,001,003 is 1,001 apart: it is not 50,001,000."""
    mean, std = (0.0, 1.0) if scale is None else (scale["mean"], scale["std"])
    kind, rng = np.dtype(dtype).type, np.random.default_rng(0)
    number = {"name": "t", "kind": "integer", "range": [0, 10**8], **({} if scale is None else {"scale": scale})}
    sex = {"name": "p", "kind": "integer", "range": [0, 1], "protected": True}
    by = 1001
    tolerant = {"feature": [{**number, "tolerance": by}, sex]}
    linked = {"feature": [number, sex], "link": [{"when": {"p": 1}, "then": {"t": {"offset": by}}}]}
    for value in (50_000_002, *rng.integers(by, 10**8 - by, 300)):
        x = np.array([float(kind((value - mean) / std)), 0.0])
        for content, others in ((tolerant, (value - by, value + by)), (linked, (value + by,))):
            spec = read_spec(content, "spec")
            around = neighbourhood(spec, x, dtype)
            axes = [axis for each in around for axis in each.axes if axis.column == 0]
            for other in others:
                assert any(axis.low <= float(kind((other - mean) / std)) <= axis.high for axis in axes)
            regions = Spec.from_dict(content).regions(x[None].astype(dtype), dtype)
            lower, upper = regions.lower.astype(np.float64), regions.upper.astype(np.float64)
            assert find_uncovered(around, lower, upper, dtype) is None
            if dtype == "float64" and (scale is None or std > 1):
                assert max(axis.highest - axis.lowest for axis in axes) <= 2 * by


@pytest.mark.parametrize("read", [lambda content: read_spec(content, "spec"), Spec.from_dict])
def test_links_depend_on_values_that_float32_tells_apart(read):
    """A person of 20,000,001 is not the own value of the input that holds 20,000,000 for it."""
    born = {"name": "born", "kind": "integer", "range": [19_000_101, 20_201_231], "protected": True}
    then = {"t": {"range": [0, 1]}}
    content = {"feature": [born, {"name": "t", "kind": "integer", "range": [0, 9]}]}
    content["link"] = [{"when": {"born": [19_000_101, 20_000_100]}, "then": then}]
    with pytest.raises(Exception, match="float32 cannot tell apart"):
        read(content)
    content["feature"][0] = {**born, "scale": {"mean": 2e7, "std": 1e5}}
    assert read(content).links

"""Bands: their canonical form, the neighbourhoods they make, and bands that are refused."""

import numpy as np
import pytest

from fairmend.spec import Feature, Spec
from support.spec_cases import refused

SEX = Feature("sex", "categorical", categories=("m", "f"), encoding="one-hot", protected=True)


def number(bands, kind="integer", extent=(0, 1000), **more):
    return Feature("income", kind, range=extent, bands=bands, **more)


def job(bands, encoding="ordinal", **more):
    return Feature("job", "categorical", categories=("a", "b", "c", "d"), encoding=encoding, bands=bands, **more)


@pytest.mark.parametrize(
    ("feature", "canonical"),
    [
        (number([0, 500.0, 1000]), (0, 500, 1000)),
        (number({"width": 500}), (0, 500, 1000)),
        (number({"width": 400}), (0, 400, 800)),
        (number({"width": 0.5}, "continuous", (0, 1)), (0.0, 0.5)),
        (number({"width": 1 / 49}, "continuous", (0, 1)), tuple(k / 49 for k in range(49))),
        (number(np.array([0, 0.25]), "continuous", (0, 1)), (0.0, 0.25)),
        (job([["d", "a"], ["c"], ["b"]]), (("a", "d"), ("b",), ("c",))),
    ],
)
def test_canonical_form_and_files(feature, canonical, tmp_path):
    assert np.allclose(feature.bands, canonical) if feature.range else feature.bands == canonical
    assert all(type(end) is type(feature.range[0]) for end in feature.lower_ends)
    spec = Spec([SEX, feature])
    spec.save(tmp_path / "spec.toml")
    assert Spec.load(tmp_path / "spec.toml") == spec == Spec.from_dict(spec.to_dict())
    assert hash(spec) == hash(Spec.from_dict(spec.to_dict()))
    assert "bands=" in repr(feature)
    assert f"bands: {feature.name}" in repr(spec)


@pytest.mark.parametrize(
    ("bands", "words"),
    [
        ([0, 500, 500], ("income", "must increase", "500")),
        ([0, 500, 400], ("must increase", "400 comes after 500")),
        ([1000, 500, 0], ("must increase", "500 comes after 1000")),
        ([0, float("nan")], ("finite number", "nan")),
        ([float("-inf"), 500], ("finite number", "inf")),
        ({"width": 5e-324}, ("more than 1,000,000,000 bands are too many",)),
        ([100, 500], ("leave a gap below 100", "Start them with 0")),
        ([-5, 500], ("start below the range with -5",)),
        ([0, 2000], ("2000 is above 1000",)),
        ([0, 0.5], ("whole numbers", "0.5")),
        ([0], ("one band holds every value", "protected = true")),
        ({"width": 5000}, ("one band holds every value",)),
        ({"width": 0}, ("width must be above 0",)),
        ({"width": -3}, ("width must be above 0",)),
        ({"width": float("nan")}, ("finite number",)),
        ({"width": 1}, ("every band has a single value",)),
        ({"width": 0.01}, ("100,000 bands are too many", "10,000")),
        ({"size": 3}, ("width = 500",)),
        ({}, ("width = 500",)),
        ([], ("lower ends such as",)),
        ("0, 500", ("lower ends such as",)),
        (7, ("lower ends such as",)),
        ([[0, 500], [500, 1000]], ("lower ends such as",)),
        ([0, "many"], ("finite number", "many")),
        (range(20_000), ("20,000 bands are too many",)),
    ],
)
def test_numbers_refuse(bands, words):
    with refused(*words):
        number(bands)


@pytest.mark.parametrize(
    ("bands", "words"),
    [
        ([["a", "b"], ["b", "c", "d"]], ('"b" is in two bands',)),
        ([["a", "a", "b"], ["c", "d"]], ('"a" is in two bands, or twice',)),
        ([["a", "b"], ["c"]], ('leave out category "d"',)),
        ([["a", "b"], ["c", "x"]], ('"x" is not one of its categories',)),
        ([["a", "b", "c", "d"]], ("one band holds every category",)),
        ([["a"], ["b"], ["c"], ["d"]], ("every band has a single category",)),
        ([["a", "b"], []], ("groups such as",)),
        (["a", "b"], ("groups such as",)),
        ([0, 2], ("groups such as",)),
        ({"width": 2}, ("groups such as",)),
        ([["a", None], ["b"]], ("must be text",)),
    ],
)
def test_categories_refuse(bands, words):
    with refused(*words):
        job(bands)


@pytest.mark.parametrize(("key", "value"), [("protected", True), ("tolerance", 2)])
def test_one_key_says_who_is_similar(key, value):
    with refused("bands and", key, "Remove one of the two"):
        number([0, 500], **{key: value})


def test_a_link_cannot_set_a_feature_with_bands():
    link = {"when": {"sex": "f"}, "then": {"income": {"offset": 1}}}
    with refused('then names "income"', "which has bands"):
        Spec([SEX, number([0, 500])], links=[link])


@pytest.mark.parametrize(
    "feature",
    [
        lambda: number([2**24, 2**24 + 1, 2**24 + 3], extent=(2**24, 2**24 + 9)),
        lambda: number([0, 500], scale={"mean": 1e12, "std": 1.0}),
        lambda: number([0, 1e-9], "continuous", (0, 1), scale={"mean": 1.0, "std": 1.0}),
        lambda: job([["a", "b"], ["c", "d"]], scale={"mean": 1e12, "std": 1.0}),
    ],
)
def test_edges_that_the_model_cannot_tell_apart_are_refused(feature):
    with refused("bands part", "cannot tell them apart"):
        feature()


def test_wider_ranges_widen_the_outer_bands():
    spec = Spec([SEX, number([0, 500, 900])]).widen({"income": (-50, 2000)})
    assert spec.features[1].bands == (-50, 500, 900)
    assert spec.features[1].range == (-50, 2000)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_continuous_band_ends_below_the_next_edge(dtype):
    scale = {"mean": 0.3, "std": 0.7}
    spec = Spec([SEX, number([0, 0.1, 0.35, 1.0], "continuous", (0, 1), scale=scale)])
    edges = ((np.array([0, 0.1, 0.35, 1.0]) - 0.3) / 0.7).astype(dtype)
    below = np.nextafter(edges, dtype(-np.inf))
    column = np.concatenate([edges, below[1:], [(edges[1] + edges[2]) / 2]])
    X = np.column_stack([np.ones(len(column)), np.zeros(len(column)), column]).astype(dtype)
    band = np.searchsorted(edges, column, side="right") - 1
    regions = spec.regions(X, dtype)
    lower, upper = regions.hull()
    assert lower[:, 2].tolist() == edges[band].tolist()
    assert upper[:, 2].tolist() == np.append(below[1:], edges[-1])[band].tolist()
    every, other = np.repeat(X, len(X), axis=0), np.tile(X, (len(X), 1))
    same = np.repeat(band, len(X)) == np.tile(band, len(X))
    assert spec.are_similar(every, other).tolist() == same.tolist()


@pytest.mark.parametrize("encoding", ["ordinal", "one-hot"])
def test_a_band_of_categories_with_gaps_is_listed_exactly(encoding):
    spec = Spec([SEX, job([["a", "d"], ["b"], ["c"]], encoding)])
    X = spec.as_inputs(np.array(spec.encode(_people("abcd"))))
    rows, points = next(spec.points(X))
    jobs = spec.decode(points)["job"].to_numpy()
    assert [sorted({*jobs[rows == row]}) for row in range(4)] == [["a", "d"], ["b"], ["c"], ["a", "d"]]
    assert spec.neighbourhood_sizes(X).tolist() == [4, 2, 2, 4]
    assert spec.are_similar(X[rows], points).all()
    assert not spec.are_similar(X[:2], X[[2, 3]]).any()
    assert spec.most_values(spec.features[1]) == 2


def _people(jobs):
    import pandas as pd

    return pd.DataFrame({"sex": "m", "job": list(jobs)})

"""One-hot groups with a dropped category, and what a missing value stands for."""

import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.repair.blind import reference_values
from fairmend.search.value_space import ValueSpace
from fairmend.spec import Feature, Spec
from fairmend.spec.toml import toml_bytes
from fairmend_check.refused import Refused
from fairmend_check.spec import read_spec, spec_digest
from support.strategies_spec import specs, unhurried

RACE = Feature(
    "race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True, dropped="b", missing="c"
)
AGE = Feature("age", "integer", range=(18, 60), missing=30, scale={"min": 18, "max": 60})
SPEC = Spec([RACE, AGE])


def refused(*words):
    return pytest.raises(FairmendError, match=".*".join(re.escape(word) for word in words))


def test_a_dropped_category_is_zero_in_all_columns():
    frame = pd.DataFrame({"race": ["a", "b", "c", None], "age": [18, 60, 39.0, None]})
    X = SPEC.encode(frame, np.float64)
    assert SPEC.width == 3
    assert SPEC.column_names == ["race=a", "race=c", "age"]
    np.testing.assert_array_equal(X[:, :2], [[1, 0], [0, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(X[:, 2], [0, 1, 0.5, 12 / 42])
    assert SPEC.decode(X)["race"].tolist() == ["a", "b", "c", "c"]
    assert SPEC.decode(X)["age"].tolist() == [18, 60, 39, 30]
    assert SPEC.describe_pair(X[0], [0, 0, 0]) == "the same person, race b instead of a"


def test_its_neighbourhoods_have_every_category_once():
    X = SPEC.encode(pd.DataFrame({"race": ["b"], "age": [18]}))
    expected = [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    points = np.concatenate([found for _, found in SPEC.points(X)])
    np.testing.assert_array_equal(points, expected)
    regions = SPEC.regions(X)
    np.testing.assert_array_equal(regions.lower, expected)
    np.testing.assert_array_equal(regions.upper, expected)
    assert SPEC.neighbourhood_sizes(X).tolist() == [3]


@pytest.mark.parametrize(
    ("group", "good"),
    [((0, 0), True), ((1, 0), True), ((1, 1), False), ((0.5, 0), False), ((-1, 1), False), ((2, 0), False)],
)
def test_only_one_hot_columns_are_encoded_inputs(group, good):
    X = np.array([[*group, 0.0]])
    if good:
        SPEC.as_inputs(X)
    else:
        with refused('"race"', "at most one"):
            SPEC.as_inputs(X)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dropped": "d"}, ["dropped", '"d"', "no category"]),
        ({"encoding": "ordinal"}, ["dropped", "one-hot"]),
        ({"missing": "x"}, ["missing", '"x"', "no category"]),
        ({"categories": ("b",), "protected": False, "missing": None}, ["only category"]),
    ],
)
def test_what_makes_no_sense_is_refused(change, words):
    plain = {key: getattr(RACE, key) for key in ("kind", "categories", "encoding", "protected", "dropped", "missing")}
    with refused('"race"', *words):
        Feature("race", **(plain | change))
    entry = {key: value for key, value in (plain | change).items() if value is not None}
    entry |= {"name": "race", "categories": list(entry["categories"])}
    with pytest.raises(Refused):
        read_spec({"feature": [entry, {"name": "s", "kind": "integer", "range": [0, 1], "protected": True}]}, "spec")


@pytest.mark.parametrize("missing", [17, 61, 30.5, "x", float("nan")])
def test_a_missing_number_must_be_a_possible_one(missing):
    with refused('"age"', "missing"):
        Feature("age", "integer", range=(18, 60), missing=missing)
    entry = {"name": "age", "kind": "integer", "range": [18, 60], "missing": missing, "protected": True}
    with pytest.raises(Refused):
        read_spec({"feature": [entry]}, "spec")


def test_without_it_a_missing_value_is_refused_and_the_error_says_what_to_do():
    spec = Spec([Feature("sex", "categorical", categories=("f", "m"), protected=True)])
    with refused('"sex"', "row 1", "missing = "):
        spec.encode(pd.DataFrame({"sex": ["f", None]}))


@unhurried
@given(specs())
def test_the_checker_reads_the_same_spec(spec):
    """Its reader shares no code with ours, and must come to the same columns and the same bytes."""
    content = json.loads(json.dumps(spec.to_dict()))
    theirs = read_spec(content, "spec")
    assert theirs.width == spec.width
    for ours, other in zip(spec.features, theirs.features, strict=True):
        assert (ours.dropped, ours.missing, type(ours.missing)) == (other.dropped, other.missing, type(other.missing))
    assert spec_digest(theirs) == hashlib.sha256(toml_bytes(spec.to_dict())).hexdigest()


@unhurried
@given(st.integers(0, 2), st.booleans(), st.integers(0, 2**16))
def test_unfairness_at_a_dropped_category_is_found_and_repaired(tmp_path_factory, unfair, hidden, seed):
    """Only one category of three is treated otherwise, the dropped one among them: nothing may overlook it."""
    spec = Spec([RACE, Feature("income", "continuous", range=(-1, 1))])
    corner = RACE.corners[unfair]
    others = np.delete(RACE.corners, unfair, axis=0)
    # A score that is positive at all corners but one: w·x + b with w·corner + b = -1.
    system = np.column_stack([np.vstack([corner, others]), np.ones(3)])
    solution = np.linalg.solve(system, [-1, 1, 1])
    weight, bias = np.array([[*solution[:2], 0.0]], np.float32), solution[2:].astype(np.float32)
    net = Network([Affine(weight, bias)], [])
    X = spec.sample_inputs(4, np.random.default_rng(seed))
    assert fairmend.audit(net, spec, X).count == 4
    for engine in ("enumerate", "branch", "milp") if hidden else ("auto",):
        assert {str(v.name) for v in fairmend.certify(net, spec, X, engine).verdicts} == {"UNFAIR"}
    result = fairmend.repair(net, spec, X, X, np.array([0, 1, 0, 1]), method="prof", steps=0)
    folder = tmp_path_factory.mktemp("dropped")
    result.network.save(folder / "model.onnx")
    result.certificate.save(folder / "certificate.json", folder / "model.onnx")
    assert fairmend.check(folder / "certificate.json", folder / "model.onnx").valid
    assert fairmend.audit(result.network, spec, X).count == 0


@pytest.mark.parametrize("left_out", ["a", "b", "c"])
def test_a_certificate_must_cover_every_category(tmp_path, left_out):
    """A forged one that leaves out a piece is not believed, the one with zeros everywhere included."""
    spec = Spec([RACE, Feature("income", "continuous", range=(-1, 1))])
    net = Network([Affine(np.array([[0.1, 0.1, 0.0]], np.float32), np.array([1.0], np.float32))], [])
    X = spec.sample_inputs(1, np.random.default_rng(0))
    result = fairmend.repair(net, spec, X, X, np.array([1]), method="prof", steps=0)
    result.network.save(tmp_path / "model.onnx")
    content = json.loads(json.dumps(result.certificate.content))
    pieces = content["regions"][0]["pieces"]
    assert len(pieces) == 3
    gone = RACE.corners[RACE.categories.index(left_out)].tolist()
    content["regions"][0]["pieces"] = [piece for piece in pieces if piece["lower"][:2] != gone]
    assert len(content["regions"][0]["pieces"]) == 2
    (tmp_path / "forged.json").write_text(json.dumps(content))
    report = fairmend.check(tmp_path / "forged.json", tmp_path / "model.onnx")
    assert not report.valid
    assert f"race = {left_out}" in report.reasons[0]


def test_the_testers_move_to_and_from_a_dropped_category():
    spec = Spec([replace(RACE, protected=False), Feature("s", "integer", range=(0, 1), protected=True)])
    space = ValueSpace(spec, np.float64)
    V = np.array([[0.0, 0], [1, 1], [2, 0]])
    np.testing.assert_array_equal(space.values(space.encode(V)), V)
    np.testing.assert_array_equal(space.encode(V)[:, :2], RACE.corners)
    downhill = np.tile([-1.0, -2.0, 0.0], (3, 1))  # the dropped category, whose slope is 0, is the best there is
    np.testing.assert_array_equal(space.ascent(V, downhill)[:, 0], [1, 0, -1])
    np.testing.assert_array_equal(space.influence(V, downhill)[:, 0], [1, 2, 2])
    moved = space.take_random_step(np.repeat(V, 50, axis=0), np.zeros(150, np.int64), np.random.default_rng(0))
    assert {(int(a), int(b)) for a, b in zip(np.repeat([0, 1, 2], 50), moved[:, 0], strict=True)} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }


def test_a_dropped_category_can_be_folded_in():
    tried = reference_values(SPEC, np.zeros((2, 3)))
    np.testing.assert_array_equal(tried[1:], RACE.corners)

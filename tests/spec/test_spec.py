"""What a spec accepts and refuses, and that values survive the way to the network and back."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from fairmend.errors import FairmendError
from fairmend.spec import Feature, Label, Spec
from fairmend.spec.describe import reading_words
from support.strategies_spec import specs, specs_and_inputs, unhurried

AGE = Feature("age", "integer", range=(17, 90), protected=True)
HOURS = Feature("hours", "integer", range=(1, 100), tolerance=1)
GAIN = Feature("gain", "continuous", range=(0, 0.1), scale={"mean": 0.05, "std": 0.02})
RACE = Feature("race", "categorical", categories=("White", "Black", "Other"), encoding="one-hot", protected=True)
SEX = Feature("sex", "categorical", categories=("female", "male"), scale={"min": 0, "max": 2})


@pytest.fixture
def spec():
    return Spec(features=[AGE, HOURS, GAIN, RACE, SEX], label=Label(column="income", positive=">50K"))


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "income": [" >50K", "<=50K", "<=50K"],
            "race": ["Black", "White", " Other"],
            "age": [61, 34, 17],
            "hours": [40.0, 1, 100],
            "gain": [0.0, 0.05, 0.1],
            "sex": ["male", "female", "male"],
        }
    )


def refused(*words):
    """The error names all these words, in this order."""
    return pytest.raises(FairmendError, match=".*".join(re.escape(word) for word in words))


# The spec itself


def test_columns_follow_the_order_of_the_features(spec):
    assert spec.width == 7
    assert spec.column_names == ["age", "hours", "gain", "race=White", "race=Black", "race=Other", "sex"]
    assert [spec.columns(f.name) for f in spec.features][2:] == [slice(2, 3), slice(3, 6), slice(6, 7)]
    assert spec.protected == [AGE, RACE]
    with refused('no feature "rase"', 'did you mean "race"'):
        spec.columns("rase")


def test_reprs_say_what_matters(spec):
    assert repr(spec) == (
        "Spec(5 features in 7 columns; protected: age 17 to 90, race (3 categories); tolerance: hours ±1; "
        'label: income = ">50K")'
    )
    assert repr(HOURS) == "Feature(name='hours', kind='integer', range=(1, 100), tolerance=1.0)"


def test_spec_takes_dicts_and_compares_by_content(spec):
    plain = Spec(
        [{"name": "age", "kind": "integer", "range": [17, 90], "protected": True}],
        {"column": "y", "positive": 1},
    )
    assert plain == Spec([AGE], Label("y", "1"))
    assert hash(plain) == hash(Spec([AGE], Label("y", "1")))
    assert plain != Spec([AGE])
    assert len({spec, Spec(spec.features, spec.label)}) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, ["needs a name"]),
        ({"kind": "intger"}, ['"age"', "kind", 'did you mean "integer"']),
        ({"encoding": "onehot"}, ['"age"', "encoding", 'did you mean "one-hot"']),
        ({"encoding": "one-hot"}, ['"age"', "one-hot", "categorical"]),
        ({"categories": ("a", "b")}, ['"age"', "categories", "categorical"]),
        ({"range": None}, ['"age"', "range = [lowest, highest]"]),
        ({"range": (1, 2, 3)}, ['"age"', "range"]),
        ({"range": "12"}, ['"age"', "range"]),
        ({"range": (90, 17)}, ['"age"', "lowest < highest"]),
        ({"range": (17, 17)}, ['"age"', "lowest < highest"]),
        ({"range": (17.5, 90)}, ['"age"', "whole numbers"]),
        ({"range": (0, 2**60)}, ['"age"', "whole numbers"]),
        ({"range": (0, float("inf"))}, ['"age"', "finite number"]),
        ({"range": (0, 10**400)}, ['"age"', "finite number"]),
        ({"range": (True, 3)}, ['"age"', "finite number"]),
        ({"protected": "yes"}, ['"age"', "true or false"]),
        ({"tolerance": 1}, ['"age"', "protected", "remove its tolerance"]),
        ({"tolerance": -1}, ['"age"', "negative"]),
        ({"tolerance": float("nan")}, ['"age"', "tolerance", "finite"]),
        ({"scale": {"mean": 1, "sd": 2}}, ['"age"', "scale", "std"]),
        ({"scale": {"mean": 1, "std": 0}}, ['"age"', "std > 0"]),
        ({"scale": {"min": 1, "max": 1}}, ['"age"', "max > min"]),
        ({"scale": {"mean": "1", "std": 1}}, ['"age"', "scale mean", "finite"]),
        ({"scale": {"mean": 0, "std": 1e-300}}, ['"age"', "float32"]),
    ],
)
def test_a_wrong_numeric_feature_is_refused(change, words):
    given_ = {"name": "age", "kind": "integer", "range": (17, 90), "protected": True}
    with refused(*words):
        Feature(**(given_ | change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"categories": None}, ["needs categories"]),
        ({"categories": ()}, ["needs categories"]),
        ({"categories": "ab"}, ["needs categories"]),
        ({"categories": ("a",)}, ["at least two"]),
        ({"categories": ("1", 1.0)}, ['"1"', "twice"]),
        ({"categories": ("a", " ")}, ["must be text"]),
        ({"categories": ("a", None)}, ["must be text"]),
        ({"range": (0, 1)}, ["remove its range"]),
        ({"tolerance": 1, "protected": False}, ["remove its tolerance"]),
        ({"encoding": "one-hot", "scale": {"min": 0, "max": 1}}, ["no scale"]),
    ],
)
def test_a_wrong_categorical_feature_is_refused(change, words):
    given_ = {"name": "race", "kind": "categorical", "categories": ("a", "b"), "protected": True}
    with refused('"race"', *words):
        Feature(**(given_ | change))


def test_a_range_of_one_value_is_fine_when_not_protected():
    assert not Feature("x", "integer", range=(3, 3), tolerance=2).varies


def test_features_must_make_a_spec():
    with refused("no features"):
        Spec([])
    with refused("no feature is protected", "protected = true"):
        Spec([HOURS, GAIN])
    with refused('"age"', "twice"):
        Spec([AGE, HOURS, AGE])
    with refused('"age"', "both a feature and the label"):
        Spec([AGE], Label("age", "61"))
    with refused("[label]", "column"):
        Spec([AGE], {"column": 3, "positive": "x"})
    with refused("positive", "must be text"):
        Label("y", float("nan"))


# Files


@unhurried
@given(spec=specs())
def test_what_is_saved_is_loaded(spec, tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "spec.toml"
    spec.save(path)
    assert Spec.load(path) == spec
    assert Spec.from_dict(spec.to_dict()) == spec


def test_the_file_has_the_documented_form_and_is_the_only_one(spec, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text("old")
    spec.save(str(path))
    text = path.read_text()
    assert text.startswith('[label]\ncolumn = "income"\npositive = ">50K"\n')
    assert '[[feature]]\nname = "age"\nkind = "integer"\nrange = [17, 90]\nprotected = true\n' in text
    assert "scale = {mean = 0.05, std = 0.02}" in text
    assert "tolerance = 1\n" in text
    assert [p.name for p in tmp_path.iterdir()] == ["spec.toml"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[feature]]\nname = "age"\nkind = \n', ["spec.toml, line 3", "TOML"]),
        ("a = 1\na = 2\n", ["spec.toml, line 2", "TOML"]),
        ("", ["spec.toml", "no features", "[[feature]]"]),
        ("feature = 3", ["spec.toml", "no features"]),
        ("feature = [3]", ["feature number 1", "table"]),
        ('label = "y"\n[[feature]]\nname = "a"\nkind = "continuous"\nrange = [0, 1]', ["[label]", "table"]),
        ("[[features]]\n", ['"features"', 'did you mean "feature"']),
        ('[[feature]]\nkind = "integer"\n', ["feature number 1", "no name"]),
        (
            '[[feature]]\nname = "age"\nkind = "integer"\nprotect = true\n',
            ['"age"', '"protect"', '"protected"'],
        ),
        ('[[feature]]\nname = "age"\nzzzzz = true\n', ['"age"', '"zzzzz"', "the keys are"]),
        ('[[feature]]\nname = "age"\n', ['"age"', "no kind"]),
    ],
)
def test_a_wrong_file_is_refused(text, words, tmp_path):
    (tmp_path / "spec.toml").write_text(text)
    with refused(*words):
        Spec.load(tmp_path / "spec.toml")


def test_files_that_cannot_be_read_or_written_are_refused(spec, tmp_path):
    with refused("none.toml", "cannot read"):
        Spec.load(tmp_path / "none.toml")
    with refused("cannot write"):
        spec.save(tmp_path / "none" / "spec.toml")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with refused("latin.toml", "UTF-8"):
        Spec.load(tmp_path / "latin.toml")
    (tmp_path / "folder").mkdir()
    with refused("folder", "is a directory"):
        spec.save(tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "latin.toml"]


def test_categories_in_a_file_may_be_numbers_and_booleans(tmp_path):
    (tmp_path / "spec.toml").write_text(
        '[[feature]]\nname = "a"\nkind = "categorical"\ncategories = [0, 1.0, true, 2.5]\nprotected = true\n'
    )
    spec = Spec.load(tmp_path / "spec.toml")
    assert spec.features[0].categories == ("0", "1", "True", "2.5")
    for column in ([1.0, 0.0], [1, 0], ["1", "0 "], pd.Categorical([1, 0]), pd.array([1, 0], dtype="Int64")):
        assert spec.encode(pd.DataFrame({"a": column})).ravel().tolist() == [1, 0]
    assert spec.encode(pd.DataFrame({"a": [True]})).item() == 2


# Encoding


def test_encode_gives_the_networks_columns(spec, frame):
    X = spec.encode(frame)
    assert X.dtype == np.float32
    assert X[:, :2].tolist() == [[61, 40], [34, 1], [17, 100]]
    np.testing.assert_allclose(X[:, 2], [-2.5, 0, 2.5], atol=1e-6)
    assert X[:, 3:6].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert X[:, 6].tolist() == [0.5, 0, 0.5]
    assert spec.encode(frame, np.float64).dtype == np.float64
    assert spec.encode(frame.iloc[:0]).shape == (0, 7)
    assert np.array_equal(spec.as_inputs(frame), X)


def test_decode_gives_the_users_values(spec, frame):
    values = spec.decode(spec.encode(frame))
    assert list(values.columns) == ["age", "hours", "gain", "race", "sex"]
    assert values["age"].tolist() == [61, 34, 17]
    assert values["hours"].dtype == np.int64
    assert values["race"].tolist() == ["Black", "White", "Other"]
    assert values["sex"].tolist() == ["male", "female", "male"]
    np.testing.assert_allclose(values["gain"], frame["gain"], atol=1e-8)


@unhurried
@given(case=specs_and_inputs())
def test_inputs_survive_decode_and_encode(case):
    spec, X = case
    again = spec.encode(spec.decode(X), X.dtype)
    for f in spec.features:
        where = spec.columns(f.name)
        if f.kind == "continuous":
            off = np.abs(f.unscaled(again[:, where]) - f.unscaled(X[:, where]))
            assert np.all(off <= f.slack(f.nearest(X[:, where])))
        else:
            assert np.array_equal(again[:, where], X[:, where])


@unhurried
@given(case=specs_and_inputs())
def test_sampled_inputs_are_inputs(case):
    spec, X = case
    assert np.array_equal(spec.as_inputs(X, X.dtype), X)
    assert spec.as_inputs(X).dtype == np.float32
    assert spec.as_inputs(spec.as_inputs(X)).shape == X.shape


def test_samples_cover_every_integer_and_category(spec):
    values = spec.decode(spec.sample_inputs(5000, np.random.default_rng(0)))
    assert sorted(values["age"].unique()) == list(range(17, 91))
    assert set(values["race"]) == {"White", "Black", "Other"}
    assert 0 <= values["gain"].min() < 0.001
    assert 0.099 < values["gain"].max() <= 0.1


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("age", [61, 34, None], ['"age"', "row 2", "missing"]),
        ("age", [61, 130, 16], ['"age"', "row 1", "130", "17 to 90", "2 such rows"]),
        ("age", [61.5, 34, 17], ['"age"', "row 0", "61.5", "whole number"]),
        ("age", ["61", "thirty", "17"], ['"age"', "row 1", '"thirty"', "not a number"]),
        ("age", ["61", "inf", "17"], ['"age"', "row 1", "outside"]),
        ("age", pd.array([61, None, 17], dtype="Int64"), ['"age"', "row 1", "missing"]),
        ("gain", [0, 0.1, np.nan], ['"gain"', "row 2", "missing"]),
        ("gain", [0, 0.1, -1e-9], ['"gain"', "row 2", "outside"]),
        ("race", ["White", "Blck", "Other"], ['"race"', "row 1", '"Blck"', 'did you mean "Black"']),
        ("race", ["White", None, "Other"], ['"race"', "row 1", "missing"]),
        ("sex", ["male", "female", "x"], ['"sex"', "row 2", '"x"', "categories"]),
    ],
)
def test_a_wrong_value_is_refused_by_feature_and_row(spec, frame, column, values, words):
    frame.index = [10, 20, 30]  # rows are counted, whatever the index says
    frame[column] = values
    with refused(*words):
        spec.encode(frame)


def test_wrong_columns_are_refused(spec, frame):
    with refused('no column "race"', 'did you mean "Race"'):
        spec.encode(frame.rename(columns={"race": "Race"}))
    with refused('2 columns "age"'):
        spec.encode(pd.concat([frame, frame[["age"]]], axis=1))
    with refused("float32 or float64"):
        spec.encode(frame, np.int32)


def test_numbers_may_come_as_text_categories_or_float32(spec, frame):
    expected = spec.encode(frame)
    frame["age"] = ["61", " 34", "17.0"]
    frame["hours"] = pd.Categorical([40, 1, 100])
    frame["gain"] = frame["gain"].astype(np.float32)  # 0.1 in float32 lies above 0.1
    np.testing.assert_allclose(spec.encode(frame), expected, rtol=1e-6, atol=1e-6)


def test_many_rows_survive_decode_and_encode(spec):
    X = spec.sample_inputs(100_000, np.random.default_rng(0))
    assert np.array_equal(spec.encode(spec.decode(X))[:, 3:], X[:, 3:])


def test_labels_compare_as_text(spec, frame):
    y = spec.labels(frame)
    assert y.dtype == np.int8
    assert y.tolist() == [1, 0, 0]
    assert Spec([AGE], Label("y", 1)).labels(pd.DataFrame({"y": [1.0, 0.0]})).tolist() == [1, 0]
    assert Spec([AGE], Label("y", True)).labels(pd.DataFrame({"y": [True, False]})).tolist() == [1, 0]
    frame.loc[1, "income"] = None
    with refused("label", "row 1", "missing"):
        spec.labels(frame)
    with refused('no column "income"'):
        spec.labels(frame.drop(columns="income"))
    with refused("no label", "[label]"):
        Spec([AGE]).labels(frame)


def test_wrong_arrays_are_refused(spec, frame):
    X = spec.encode(frame)
    with refused("shape (7,)", "(rows, 7)"):
        spec.as_inputs(X[0])
    with refused("shape (3, 6)", "race=White"):
        spec.as_inputs(X[:, 1:])
    with refused("no rows"):
        spec.as_inputs(X[:0])
    with refused("no rows"):
        spec.as_inputs(frame.iloc[:0])
    with refused("not an array of numbers"):
        spec.as_inputs([["a"] * 7])
    with refused("not an array of numbers"):
        spec.as_inputs([[1], [1, 2]])


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [
        (1, 0, np.nan, ['"age"', "row 1", "finite"]),
        (2, 4, np.inf, ['"race"', "row 2", "finite"]),
        (1, 0, 91, ['"age"', "row 1", "91", "outside", "17 to 90"]),
        (1, 0, 34.5, ['"age"', "row 1", "34.5", "whole number"]),
        (0, 2, 2.51, ['"gain"', "row 0", "outside"]),
        (0, 2, 1e38, ['"gain"', "row 0", "outside"]),
        (2, 3, 1, ['"race"', "row 2", "one-hot", "exactly one"]),
        (2, 3, 0.5, ['"race"', "row 2", "one-hot", "exactly one"]),
        (2, 6, 0.25, ['"sex"', "row 2", "0.25", "whole number", "scale"]),
        (2, 6, 1, ['"sex"', "row 2", "outside"]),
    ],
)
def test_a_wrong_entry_is_refused_by_feature_and_row(spec, frame, row, column, value, words):
    X = spec.encode(frame)
    X[row, column] = value
    with refused(*words):
        spec.as_inputs(X)


def test_errors_count_rows_from_the_first_row_of_a_larger_table(spec, frame):
    X = spec.encode(frame)
    for row, column, value in ((1, 0, np.nan), (1, 0, 91), (2, 3, 1)):
        wrong = X.copy()
        wrong[row, column] = value
        with refused(f"row {1000 + row}:"):
            spec.as_inputs(wrong, first_row=1000)
    for column, value in (("age", 16), ("race", "Blck")):
        wrong = frame.copy()
        wrong.loc[2, column] = value
        for read in (spec.encode, spec.as_inputs):
            with refused(f'"{column}"', "row 1002:"):
                read(wrong, first_row=1000)
    frame.loc[1, "income"] = None
    with refused("label", "row 1001:"):
        spec.labels(frame, first_row=1000)


def test_arrays_are_read_without_pandas():
    code = (
        "import sys, fairmend.spec as s\n"
        "spec = s.Spec([s.Feature('age', 'integer', range=(17, 90), protected=True)])\n"
        "spec.regions([[30], [40]])\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_integers_scaled_elsewhere_in_float32_are_accepted():
    scale = {"mean": 38.58, "std": 13.64}
    spec = Spec([Feature("age", "integer", range=(17, 90), scale=scale, protected=True)])
    ages = np.arange(17, 91, dtype=np.float32)[:, None]
    theirs = (ages - np.float32(38.58)) * (np.float32(1) / np.float32(13.64))
    assert np.array_equal(spec.as_inputs(theirs), theirs)
    assert spec.decode(theirs)["age"].tolist() == list(range(17, 91))


def test_a_pair_is_described_in_the_users_values(spec, frame):
    X = spec.encode(frame)
    X[1, 1:] = X[0, 1:]
    assert spec.describe_pair(X[0], X[1]) == "the same person, age 34 instead of 61"
    X[1, 6] = 0
    assert spec.describe_pair(X[0], X[1]).endswith(", age 34 instead of 61, sex female instead of male")
    assert spec.describe_pair(X[0], X[0]) == "the same person, no difference"
    near = X[0].copy()
    near[2] = np.nextafter(near[2], np.float32(0))
    assert re.search(r"gain (\S+) instead of (?!\1)", spec.describe_pair(X[0], near))


def test_scales_are_told_in_full():
    feature = Feature("gain", "continuous", range=(0, 1e7), scale={"mean": 1234567.125, "std": 50})
    assert reading_words(feature) == "the value, scaled (mean, std = 1234567.125, 50)"

"""A spec that is read from a fitted pipeline encodes data as the pipeline transforms it, or an error says why not."""

import json
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from fairmend.spec import Label, Spec
from fairmend.spec.draft.from_sklearn import read_pipeline, read_scales
from fairmend.spec.features import scale_parameters
from support.encoding_cases import NUMBERS, column_transformers, strangers
from support.examples import examples
from support.pipeline_cases import dense, people, same
from support.spec_cases import refused


@pytest.fixture
def scaler():
    return StandardScaler().fit(people()[["age", "income"]])


def test_a_skops_file_is_read(scaler, tmp_path):
    from skops import io

    io.dump(scaler, tmp_path / "scaler.skops")
    found, warnings = read_pipeline(tmp_path / "scaler.skops")
    assert found.mean_.tolist() == scaler.mean_.tolist()
    assert warnings == []


@pytest.mark.parametrize("name", ["scaler.joblib", "scaler.pkl", "scaler.pickle"])
def test_a_pickle_is_read_only_if_it_is_trusted(scaler, tmp_path, name):
    joblib.dump(scaler, tmp_path / name)
    with refused(name, "can run any code", "--trust-pickle"):
        read_pipeline(tmp_path / name)
    assert read_pipeline(tmp_path / name, trust_pickle=True)[0].mean_.tolist() == scaler.mean_.tolist()


def test_a_pickle_that_is_not_trusted_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "boom"), "w"))

    (tmp_path / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    with refused("--trust-pickle"):
        read_pipeline(tmp_path / "bomb.pkl")
    assert not (tmp_path / "boom").exists()


def test_other_files_are_refused(tmp_path):
    with refused("people.csv", "Pass a .skops"):
        read_pipeline(tmp_path / "people.csv")
    with refused("absent.skops: no such file"):
        read_pipeline(tmp_path / "absent.skops")
    (tmp_path / "folder.skops").mkdir()
    with refused("is a folder"):
        read_pipeline(tmp_path / "folder.skops")
    (tmp_path / "bad.skops").write_bytes(b"no archive")
    with refused("bad.skops: not a readable .skops file", "Save it again"):
        read_pipeline(tmp_path / "bad.skops")


PEOPLE = strangers()
RAW = PEOPLE[NUMBERS].fillna(40)


def written(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), MinMaxScaler((-1, 1)), RobustScaler()])
@pytest.mark.parametrize("named", [True, False])
def test_a_scaler_is_read_with_skops(tmp_path, scaler, named):
    io = pytest.importorskip("skops.io")
    fitted = scaler.fit(RAW if named else RAW.to_numpy())
    io.dump(fitted, tmp_path / "scaler.skops")
    scales, _ = read_scales(tmp_path / "scaler.skops", NUMBERS)
    for name, expected in zip(NUMBERS, fitted.transform(RAW if named else RAW.to_numpy()).T, strict=True):
        offset, factor = scale_parameters(scales[name])
        np.testing.assert_allclose((RAW[name] - offset) / factor, expected)


def test_a_column_transformer_gives_the_scales_of_its_numbers(tmp_path):
    io = pytest.importorskip("skops.io")
    io.dump(column_transformers()["standard"].fit(PEOPLE), tmp_path / "all.skops")
    scales, _ = read_scales(tmp_path / "all.skops", NUMBERS)
    assert scales.keys() == {"Alter", "Guthaben", "Stufe"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"Alter": {"mean": 40, "std": 10}}, {"Alter": {"mean": 40, "std": 10}}),
        ({"Alter": {"min": 18, "max": 80}}, {"Alter": {"min": 18, "max": 80}}),
        ({"mean_": [40, 5], "scale_": [10, 2]}, {"Alter": {"mean": 40, "std": 10}, "Guthaben": {"mean": 5, "std": 2}}),
        ({"columns": ["b"], "center_": [4], "scale_": [2]}, {"b": {"mean": 4, "std": 2}}),
        ({"feature_names_in_": ["b"], "data_min_": [4], "data_max_": [6]}, {"b": {"min": 4, "max": 6}}),
        ({"columns": ["b"], "min_": [-2], "scale_": [0.5]}, {"b": {"mean": 4, "std": 2}}),
    ],
)
def test_parameters_are_read_from_json(tmp_path, content, expected):
    assert read_scales(written(tmp_path / "scaler.json", content), NUMBERS) == (expected, [])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["not valid JSON"]),
        ({}, ["has no scales"]),
        ([1], ["has no scales"]),
        ({"mean_": [1], "scale_": [2]}, ["scales of 1 columns, but there are 2 names", '"columns"']),
        ({"mean_": [1, 2], "scale_": [2]}, ["lists of the same length"]),
        ({"mean_": [1, 2]}, ["no scale that fairmend knows", "mean_ and scale_"]),
        ({"mean_": [1, 2], "scale_": [1, 0]}, ["must be above 0"]),
        ({"mean_": [1, "x"], "scale_": [1, 1]}, ["mean_ must be a finite number"]),
    ],
)
def test_what_is_no_scaler_is_refused(tmp_path, content, words):
    with refused("scaler.json", *words):
        read_scales(written(tmp_path / "scaler.json", content), NUMBERS)


def test_a_pickle_is_not_opened(tmp_path):
    with refused("scaler.pkl", "Pass a .skops or .json file"):
        read_scales(tmp_path / "scaler.pkl", NUMBERS)
    with refused("scaler.json", "cannot read"):
        read_scales(tmp_path / "scaler.json", NUMBERS)


scalers = st.sampled_from(
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler(),
        MinMaxScaler(feature_range=(-1, 1)),
        MinMaxScaler(feature_range=(0.25, 0.5), clip=True),
        MaxAbsScaler(),
        RobustScaler(),
        RobustScaler(with_centering=False),
        "passthrough",
        FunctionTransformer(),
    ]
)
encoders = st.sampled_from(
    [
        OneHotEncoder(),
        OneHotEncoder(drop="first"),
        OneHotEncoder(drop="if_binary"),
        OneHotEncoder(drop=["m", "c"]),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        OneHotEncoder(handle_unknown="infrequent_if_exist"),
        OrdinalEncoder(),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        make_pipeline(OrdinalEncoder(), StandardScaler()),
        make_pipeline(OrdinalEncoder(), MinMaxScaler(feature_range=(-1, 2))),
        make_pipeline(OneHotEncoder(drop="if_binary")),
    ]
)
filled = st.sampled_from(
    [
        OneHotEncoder(),
        OneHotEncoder(drop="first"),
        OrdinalEncoder(encoded_missing_value=-1),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="if_binary")),
        make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), OneHotEncoder()),
        make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), OrdinalEncoder(), StandardScaler()),
        make_pipeline(OrdinalEncoder(encoded_missing_value=-1), StandardScaler()),
    ]
)
numbers = st.sampled_from(
    [
        make_pipeline(SimpleImputer(), StandardScaler()),
        make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler()),
        make_pipeline(StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.25)),
        SimpleImputer(strategy="constant", fill_value=-1),
    ]
)
quick = examples(60, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def transformers(draw, gaps):
    """Draw column transformers over the people's columns, split and ordered arbitrarily."""
    numeric, texts = ["age", "income", "debt"], ["sex", "race"]
    draw(st.randoms(use_true_random=False)).shuffle(numeric)
    cut = draw(st.integers(1, 3))
    steps = [
        ("first", draw(numbers if gaps else scalers), numeric[:cut]),
        ("second", draw(numbers if gaps else scalers), numeric[cut:]),
        ("texts", draw(filled if gaps else encoders), texts),
    ]
    left = draw(st.sampled_from(["region", "member", None]))
    if left is not None:
        steps.append(("left", draw(st.sampled_from([OneHotEncoder(drop="first"), "passthrough", "drop"])), [left]))
    order = draw(st.permutations(steps))
    remainder = draw(st.sampled_from(["drop", "passthrough", MinMaxScaler()]))
    return ColumnTransformer(order, remainder=remainder, sparse_threshold=draw(st.sampled_from([0, 1])))


@quick
@given(transformers(gaps=False), st.integers(0, 2**16), st.booleans())
def test_encode_is_transform(transformer, seed, in_pipeline):
    frame = people(seed)
    inputs = frame.drop(columns="y")
    fitted = make_pipeline(transformer, MLPClassifier()) if in_pipeline else transformer
    transformer.fit(inputs)
    same(transformer, inputs, Spec.from_sklearn(fitted, ["sex", "age"], data=frame))


@quick
@given(transformers(gaps=True), st.integers(0, 2**16))
def test_encode_is_transform_where_values_are_missing(transformer, seed):
    inputs = people(seed, gaps=True).drop(columns="y")
    transformer.fit(inputs)
    same(transformer, inputs, Spec.from_sklearn(transformer, ["sex", "age"], data=inputs))


@quick
@given(transformers(gaps=False), st.integers(0, 2**16))
def test_what_the_spec_calls_a_neighbour_is_what_the_pipeline_gives_for_one(transformer, seed):
    """Every combination of the protected values, through the pipeline, is a point of it; and no other."""
    frame = people(seed)
    inputs = frame.drop(columns="y")
    transformer.fit(inputs)
    spec = Spec.from_sklearn(transformer, ["sex", "race"], data=frame)
    one = inputs.iloc[[0]]
    others = pd.concat([one.assign(sex=sex, race=race) for sex in ("f", "m") for race in "abcd"])
    expected = {tuple(row) for row in dense(transformer.transform(others)).astype(np.float32).round(4).tolist()}
    found = np.concatenate([points for _, points in spec.points(one)])
    assert len(found) == 8
    assert {tuple(row) for row in found.round(4).tolist()} == expected


def test_ranges_come_from_a_min_max_scaler_where_there_is_no_data():
    inputs = people()[["age", "income"]]
    transformer = ColumnTransformer([("a", MinMaxScaler(), ["age", "income"])]).fit(inputs)
    age, _ = Spec.from_sklearn(transformer, ["age"]).features
    assert age.range == (inputs["age"].min(), inputs["age"].max())
    assert age.scale == {"min": inputs["age"].min(), "max": inputs["age"].max()}
    with refused("the range of age, income is unknown", "--data"):
        Spec.from_sklearn(StandardScaler().fit(inputs), ["age"])


def test_an_imputed_fraction_keeps_an_integer_where_nothing_is_missing():
    inputs = people(rows=41)[["age", "sex"]]
    steps = [("n", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]), ("c", OneHotEncoder(), ["sex"])]
    whole = Spec.from_sklearn(ColumnTransformer(steps).fit(inputs), "sex", data=inputs)
    assert (whole.features[0].kind, whole.features[0].missing) == ("integer", None)
    gaps = inputs.assign(age=inputs["age"].astype(float).where(inputs.index > 3))
    transformer = ColumnTransformer(steps).fit(gaps)
    fractions = Spec.from_sklearn(transformer, "sex", data=gaps)
    assert fractions.features[0].kind == "continuous"
    same(transformer, gaps, fractions)


def test_clipping_is_refused_where_the_data_goes_beyond():
    inputs = people()[["age", "income"]]
    scaler = MinMaxScaler(clip=True).fit(inputs.iloc[:10])
    with refused("clip=True", "clips"):
        Spec.from_sklearn(scaler, "age", data=inputs)


def test_the_label_may_be_the_name_of_its_column():
    data = people().assign(Attrition=np.where(np.arange(len(people())) % 3, "Nein", "Ja"))
    transformer = ColumnTransformer([("n", StandardScaler(), ["age"])]).fit(data)
    assert Spec.from_sklearn(transformer, "age", label="Attrition", data=data).label == Label("Attrition", "Ja")
    found = Spec.from_sklearn(transformer, "age", "Attrition", data, positive="Nein")
    assert found.label == Label("Attrition", "Nein")
    number = Spec.from_sklearn(transformer, "age", "income", data.assign(income=np.arange(len(data)) / 7))
    assert number.regression
    with refused("pass positive beside"):
        Spec.from_sklearn(transformer, "age", Label("Attrition", "Ja"), data, positive="Nein")

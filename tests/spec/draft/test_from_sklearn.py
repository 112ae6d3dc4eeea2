"""A spec read from a fitted pipeline encodes as the pipeline transforms, or says why it cannot."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from fairmend.errors import FairmendError
from fairmend.spec import Spec

ROWS = 40


def refused(*words):
    return pytest.raises(FairmendError, match=".*".join(re.escape(word) for word in words))


def people(seed=0, rows=ROWS, gaps=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "income": rng.lognormal(10, 1, rows),
            "debt": rng.normal(0, 1e-3, rows),
            "sex": rng.choice(["f", "m"], rows),
            "race": rng.choice(["a", "b", "c", "d"], rows),
            "region": rng.integers(1, 5, rows),
            "member": rng.random(rows) < 0.5,
            "y": rng.integers(0, 2, rows),
        }
    )
    frame.loc[:4, "race"] = ["a", "b", "c", "d", "a"]
    frame.loc[:2, "sex"] = ["f", "m", "f"]
    frame.loc[:4, "region"] = [1, 2, 3, 4, 1]
    frame.loc[:2, "member"] = [True, False, True]
    if gaps:
        for column in ("age", "income", "sex", "race"):
            frame[column] = frame[column].astype(object if column in ("sex", "race") else float)
            frame.loc[rng.random(rows) < 0.2, column] = np.nan if column in ("age", "income") else None
        frame["sex"] = frame["sex"].where(frame["sex"].notna(), np.nan)
        frame["race"] = frame["race"].where(frame["race"].notna(), np.nan)
    return frame


def dense(X):
    return np.asarray(X.todense() if sparse.issparse(X) else X, dtype=np.float64)


def same(transformer, frame, spec):
    """Equal but for the rounding of a scaler that computes in another order."""
    expected = dense(transformer.transform(frame)).astype(np.float32)
    found = spec.encode(frame)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-12)


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
quick = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def transformers(draw, gaps):
    """Column transformers over the people's columns, divided and ordered at will."""
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


def test_arrays_are_named_by_place_or_by_the_data():
    X = np.random.default_rng(0).normal(size=(30, 3))
    scaler = ColumnTransformer([("a", StandardScaler(), [2, 0])], remainder="passthrough").fit(X)
    frame = pd.DataFrame(X, columns=["p", "q", "r"])
    spec = Spec.from_sklearn(scaler, "r", data=frame.assign(y=1), label={"column": "y", "positive": 1})
    assert spec.column_names == ["r", "p", "q"]
    np.testing.assert_allclose(spec.encode(frame), scaler.transform(X).astype(np.float32), rtol=3e-7, atol=1e-12)
    ranged = MinMaxScaler().fit(X)
    assert Spec.from_sklearn(ranged, "x1").column_names == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    "columns",
    [slice(0, 2), slice("age", "income"), [True, True, False, False, False, False, False], ["age", "income"]],
    ids=["slice", "names", "mask", "list"],
)
def test_columns_may_be_named_in_every_way(columns):
    inputs = people().drop(columns="y")
    transformer = ColumnTransformer([("a", StandardScaler(), columns), ("b", OneHotEncoder(), [-3])]).fit(inputs)
    spec = Spec.from_sklearn(transformer, "age", data=inputs)
    assert [f.name for f in spec.features] == ["age", "income", "race"]
    same(transformer, inputs, spec)


def test_selectors_nested_transformers_and_weights():
    inputs = people().drop(columns=["y", "member"])
    inner = ColumnTransformer([("age", MinMaxScaler(), ["age"])], remainder=StandardScaler())
    transformer = ColumnTransformer(
        [
            ("texts", OneHotEncoder(), make_column_selector(dtype_exclude=np.number)),
            ("numbers", Pipeline([("inner", inner), ("again", StandardScaler())]), ["income", "age"]),
            ("one", "passthrough", ["debt"]),
        ],
        transformer_weights={"numbers": 0.5},
        verbose_feature_names_out=False,
    ).fit(inputs)
    spec = Spec.from_sklearn(transformer, ["race"], data=inputs)
    assert [f.name for f in spec.features] == ["sex", "race", "age", "income", "debt"]
    same(transformer, inputs, spec)


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


class OneHotEncoderOfAnotherPackage(OneHotEncoder):
    pass


@pytest.mark.parametrize(
    ("transformer", "words"),
    [
        (KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), ["KBinsDiscretizer", "OneHotEncoder"]),
        (PolynomialFeatures(), ["PolynomialFeatures"]),
        (PCA(2), ["PCA"]),
        (make_pipeline(StandardScaler(), KMeans(2, n_init=1)), ["KMeans"]),
        (FeatureUnion([("a", StandardScaler()), ("b", PCA(1))]), ["FeatureUnion"]),
        (FunctionTransformer(np.exp), ["FunctionTransformer"]),
        (ColumnTransformer([("a", StandardScaler(), ["age"]), ("b", MinMaxScaler(), ["age"])]), ["age", "twice"]),
        (ColumnTransformer([("a", StandardScaler(), ["income"])]), ["drops", "age", "already ignores it"]),
        (make_pipeline(OneHotEncoder(), StandardScaler(with_mean=False)), ["StandardScaler", "one-hot", "age"]),
        (make_pipeline(StandardScaler(), OneHotEncoder()), ["OneHotEncoder", "raw column"]),
        (SimpleImputer(add_indicator=True), ["indicator"]),
        (SimpleImputer(missing_values=-1), ["-1", "missing"]),
        (OneHotEncoder(max_categories=3), ["infrequent", "max_categories"]),
        (OrdinalEncoder(min_frequency=5), ["infrequent", "min_frequency"]),
        (OneHotEncoderOfAnotherPackage(), ["OneHotEncoderOfAnotherPackage"]),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(transformer, words):
    inputs = people()[["age", "income"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformer.fit(inputs)
    with refused(*words):
        Spec.from_sklearn(transformer, ["age"], data=inputs)


def test_clipping_is_refused_where_the_data_goes_beyond():
    inputs = people()[["age", "income"]]
    scaler = MinMaxScaler(clip=True).fit(inputs.iloc[:10])
    with refused("clip=True", "clips"):
        Spec.from_sklearn(scaler, "age", data=inputs)


@pytest.mark.parametrize(("code", "good"), [(-1, True), (2, True), (np.nan, True), (5, False), (-2, False)])
def test_a_code_for_missing_values_must_continue_the_codes(code, good):
    inputs = people(gaps=True)[["sex"]]
    encoder = OrdinalEncoder(encoded_missing_value=code).fit(inputs)
    if not good:
        with refused('a missing "sex" the code', "encoded_missing_value"):
            Spec.from_sklearn(encoder, "sex", data=inputs)
        return
    spec = Spec.from_sklearn(encoder, "sex", data=inputs)
    same(encoder, inputs if code == code else inputs.dropna(), spec)
    if code != code:
        with refused("missing"):
            spec.encode(inputs)


def test_bad_input_is_said_clearly():
    inputs = people().drop(columns="y")
    transformer = ColumnTransformer([("a", StandardScaler(), ["age"]), ("b", OneHotEncoder(), ["sex"])])
    with refused("not fitted"):
        Spec.from_sklearn(transformer, "sex", data=inputs)
    transformer.fit(inputs)
    with refused("protected", '"sx"', 'did you mean "sex"'):
        Spec.from_sklearn(transformer, "sx", data=inputs)
    with refused("no protected column"):
        Spec.from_sklearn(transformer, [], data=inputs)
    with refused('no column "age"'):
        Spec.from_sklearn(transformer, "sex", data=inputs.drop(columns="age"))
    with refused("cannot read a spec from int"):
        Spec.from_sklearn(3, "sex", data=inputs)
    with refused("nothing before it"):
        Spec.from_sklearn(make_pipeline(MLPClassifier()), "sex", data=inputs)
    text = ColumnTransformer([("a", "passthrough", ["race"]), ("b", OneHotEncoder(), ["sex"])]).fit(inputs)
    with refused('"race"', "not a number", "OneHotEncoder"):
        Spec.from_sklearn(text, "sex", data=inputs)

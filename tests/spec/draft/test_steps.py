"""Steps of scikit-learn that a spec cannot express are refused by name; codes for missing values are kept."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from fairmend.base.errors import FairmendError
from fairmend.spec import Spec
from fairmend.spec.draft.steps import TransformedColumn, apply_transformer
from support.pipeline_cases import people, same
from support.spec_cases import refused


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


def test_bad_input_is_refused_with_a_clear_message():
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
    search = GridSearchCV(make_pipeline(StandardScaler(), MLPClassifier()), {})
    search.best_estimator_ = make_pipeline(StandardScaler(), MLPClassifier())
    with refused("GridSearchCV", "best_estimator_"):
        Spec.from_sklearn(search, "sex", data=inputs)
    with refused("nothing before it"):
        Spec.from_sklearn(make_pipeline(MLPClassifier()), "sex", data=inputs)
    text = ColumnTransformer([("a", "passthrough", ["race"]), ("b", OneHotEncoder(), ["sex"])]).fit(inputs)
    with refused('"race"', "not a number", "OneHotEncoder"):
        Spec.from_sklearn(text, "sex", data=inputs)


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
        (SimpleImputer(missing_values=-1), ["-1", "missing"]),
        (OneHotEncoder(max_categories=3), ["infrequent", "max_categories"]),
        (OrdinalEncoder(min_frequency=5), ["infrequent", "min_frequency"]),
        (OneHotEncoderOfAnotherPackage(), ["OneHotEncoderOfAnotherPackage"]),
    ],
)
def test_a_step_that_a_spec_cannot_express_is_refused_by_name(transformer, words):
    inputs = people()[["age", "income"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformer.fit(inputs)
    with refused(*words):
        Spec.from_sklearn(transformer, ["age"], data=inputs)


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


def test_scalings_are_composed():
    column = TransformedColumn("age").scaled(10, 2, "first").scaled(3, 5, "second")
    assert (column.offset, column.factor) == (16, 10)  # ((x - 10) / 2 - 3) / 5
    assert not column.raw
    with refused('first scales "age" by 0', "positive, finite factor"):
        TransformedColumn("age").scaled(0, 0, "first")


def test_a_column_that_marks_missing_values_cannot_be_encoded_again():
    gaps = people()[["income"]].where(people()[["income"]] > people()["income"].median())
    pipeline = make_pipeline(SimpleImputer(strategy="most_frequent", add_indicator=True), OneHotEncoder()).fit(gaps)
    with refused("OneHotEncoder", "income is missing", "raw column"):
        Spec.from_sklearn(pipeline, protected=["income"], data=gaps)


def test_codes_that_the_pipeline_would_write_as_others_are_refused():
    texts = pd.DataFrame({"job": list("abcde")})
    for dtype, fits in ((np.int8, True), (bool, False), (np.float16, True)):
        encoder = OrdinalEncoder(dtype=dtype).fit(texts)
        if fits:
            assert len(apply_transformer(encoder, [TransformedColumn("job")])) == 1
            continue
        with pytest.raises(FairmendError, match="does not hold them all"):
            apply_transformer(encoder, [TransformedColumn("job")])
    many = pd.DataFrame({"job": [f"{number:03}" for number in range(200)]})
    encoder = OrdinalEncoder(dtype=np.int8).fit(many)
    assert encoder.transform(many).min() == -128
    with pytest.raises(FairmendError, match="as int8"):
        apply_transformer(encoder, [TransformedColumn("job")])


def test_codes_that_a_scaler_clips_are_refused():
    encoder = OrdinalEncoder(categories=[list("abcde")])
    for fitted_on, fits in (("abcde", True), ("abcd", False), ("bcde", False)):
        steps = make_pipeline(encoder, MinMaxScaler(clip=True)).fit(pd.DataFrame({"job": list(fitted_on)}))
        if fits:
            assert len(apply_transformer(steps, [TransformedColumn("job")])) == 1
            continue
        with pytest.raises(FairmendError, match="clips codes"):
            apply_transformer(steps, [TransformedColumn("job")])

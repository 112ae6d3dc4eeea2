"""Steps of scikit-learn that a spec cannot express are refused by name; codes for missing values are kept."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from fairmend.spec import Spec
from fairmend.spec.draft.steps import TransformedColumn
from support.pipeline_cases import people, same
from support.spec_cases import refused


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

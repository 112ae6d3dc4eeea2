"""A spec that is read from a fitted pipeline encodes data as the pipeline transforms it, or an error says why not."""

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
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
from support.pipeline_cases import dense, people, same
from support.spec_cases import refused

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

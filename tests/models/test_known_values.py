"""A pipeline gets the values that it was fitted on: an encoder that ignores unknown values sees no difference."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text
from fairmend.models.known_values import as_fitted, known_values
from fairmend.spec import Feature, Label, Spec

FOREST = RandomForestClassifier(5, random_state=0)
PAIRS = ((" Male", " Female"), (True, False), (1.0, 2.0), (1, 2), ("1", "2"), ("1.0", "2.0"), (1.5, -2.5), ("a", None))


def data_of(pair, rows=120):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": np.array(pair, object)[rng.integers(0, 2, rows)], "income": rng.integers(0, 100, rows)})
    X = X.infer_objects() if None not in pair else X
    return X, np.where((X.income > 50) ^ (X.sex == pair[0]), "yes", "no")


def spec_of(pair):
    texts = tuple("(missing)" if value is None else as_text(value) for value in pair)
    missing = {"missing": "(missing)"} if None in pair else {}
    sex = Feature("sex", "categorical", categories=texts, protected=True, **missing)
    return Spec([sex, Feature("income", "integer", range=(0, 100))], Label("y", "yes"))


def fitted(X, y, wrap=lambda model: model, encoder=None):
    encoder = encoder or OneHotEncoder(handle_unknown="ignore")
    return wrap(make_pipeline(make_column_transformer((encoder, ["sex"]), remainder="passthrough"), FOREST)).fit(X, y)


def test_an_audit_counts_what_the_pipeline_does_with_the_values_of_the_data():
    for pair in PAIRS:
        X, y = data_of(pair)
        other = X.assign(sex=np.where(X.sex == pair[0], np.array(pair, object)[1], np.array(pair, object)[0]))
        other = other.astype(X.dtypes)
        for takes in (None, "people"):
            pipeline = fitted(X, y)
            model = fairmend.load_model(pipeline if takes is None else pipeline.predict_proba, takes=takes)
            unequal = (pipeline.predict(X) != pipeline.predict(other)).sum()
            assert fairmend.audit(model, spec_of(pair), X.assign(y=y)).count == unequal > 100, pair


def test_encoders_are_found_wherever_they_are():
    X, y = data_of((" a", " b"))
    wraps = (
        lambda model: VotingClassifier([("one", model)]),
        lambda model: GridSearchCV(model, {"randomforestclassifier__max_depth": [3]}, cv=2),
    )
    for wrap in wraps:
        model = fitted(X, y, wrap)
        assert [each.tolist() for each in known_values(model, ["sex", "income"])["sex"]] == [[" a", " b"]]
        assert fairmend.audit(model, spec_of((" a", " b")), X.assign(y=y)).count > 100
    after = fitted(X, y, encoder=make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder()))
    assert as_fitted(spec_of((" a", " b")).features[0], known_values(after, ["sex", "income"])).tolist() == [" a", " b"]


def test_texts_that_the_pipeline_does_not_know_or_cannot_tell_apart_are_refused():
    X, y = data_of((" Male", " Female"))
    with pytest.raises(FairmendError, match='knows none of the categories of "sex"'):
        fairmend.audit(fitted(X, y), spec_of(("m", "f")), X.assign(y=y, sex="m"))
    X, y = data_of((" Male", "Male"))
    with pytest.raises(FairmendError, match="which have one text"):
        fairmend.load_model(fitted(X, y), spec=spec_of(("Male", "Other")))


def test_a_lightgbm_gets_the_categories_of_pandas_that_it_was_fitted_on():
    class Model:
        classes_, feature_name_ = np.array(["no", "yes"]), ("sex", "income")
        booster_ = SimpleNamespace(pandas_categorical=[[" Female", " Male"]])

        def predict(self, people):
            return np.where(people.sex == " Male", "yes", "no")

    X, y = data_of((" Male", " Female"))
    assert fairmend.audit(Model(), spec_of((" Male", " Female")), X.assign(y=y)).count == len(X)


def test_what_no_encoder_shows_is_given_as_it_is_in_the_data():
    for pair in (*PAIRS, (pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01"))):
        X, y = data_of(pair)
        first = X.sex.isna() if pair[0] is None else X.sex == pair[0]
        model = make_pipeline(FunctionTransformer(lambda X, pair=pair: own_codes(X, pair)), FOREST).fit(X, y)
        assert fairmend.audit(model, spec_of(pair), X.assign(y=y)).count > 100
        people = fairmend.load_model(lambda X, pair=pair: 0.2 + 0.6 * own_codes(X, pair).sex.to_numpy(), takes="people")
        assert first.any()
        assert not first.all()
        assert fairmend.audit(people, spec_of(pair), X.assign(y=y)).count == len(X)
        assert fairmend.certify(people, spec_of(pair), X.assign(y=y)).counts["unfair"] == len(X)


def own_codes(X, pair):
    """What a step makes of values that it compares itself: 1 for the first, type and spaces included."""
    return X.assign(sex=[1.0 if type(each) is type(pair[0]) and each == pair[0] else 0.0 for each in X.sex.tolist()])


def test_categories_of_pandas_keep_their_type():
    X, y = data_of((" Male", " Female"))
    X = X.astype({"sex": "category"})
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5, categorical_features="from_dtype").fit(X, y)
    swapped = X.assign(sex=X.sex.cat.rename_categories({" Male": " Female", " Female": " Male"}).astype(X.sex.dtype))
    unequal = (model.predict(X) != model.predict(swapped)).sum()
    assert fairmend.audit(model, spec_of((" Male", " Female")), X.assign(y=y)).count == unequal > 0


def test_values_in_a_stream_that_the_model_would_get_as_others_are_refused():
    for pair, same in (((" Male", " Female"), False), (("1", "2"), False), ((True, False), True), ((1, 2), True)):
        X, _ = data_of(pair)
        model = fairmend.load_model(lambda X, pair=pair: 0.2 + 0.6 * own_codes(X, pair).sex.to_numpy(), takes="people")
        if same:
            assert fairmend.audit(model, spec_of(pair), iter([X])).count == len(X)
            continue
        with pytest.raises(FairmendError, match=r'the data has .* in "sex", and the model would get'):
            fairmend.audit(model, spec_of(pair), iter([X]))


def test_names_are_found_behind_steps_that_do_nothing():
    X, y = data_of((3, 7))
    model = make_pipeline("passthrough", FOREST).fit(X, y)
    assert fairmend.audit(model, spec_of((3, 7)), X.assign(y=y)).count > 100


def test_a_matrix_without_names_does_not_hold_codes_of_what_encoders_know():
    X, y = data_of((3, 7))
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0]), remainder="passthrough")
    with pytest.raises(FairmendError, match="knows 3 and 7 in"):
        fairmend.audit(make_pipeline(encoder, FOREST).fit(X.to_numpy(), y), spec_of((3, 7)), X.assign(y=y))
    silent = make_pipeline(Silent(), FOREST).fit(X, y)
    with pytest.raises(FairmendError, match="does not show its columns"):
        fairmend.audit(silent, spec_of((3, 7)), X.assign(y=y))
    people = fairmend.load_model(silent.predict_proba, takes="people")
    assert fairmend.audit(people, spec_of((3, 7)), X.assign(y=y)).count > 100


class Silent(TransformerMixin, BaseEstimator):
    """A step that keeps no names."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X, dtype=float)


def test_a_model_on_columns_with_the_names_of_scaled_features_is_refused():
    X, y = data_of((0, 1))
    spec = Spec(
        [spec_of((0, 1)).features[0], Feature("income", "integer", range=(0, 100), scale={"mean": 50, "std": 10})]
    )
    with pytest.raises(FairmendError, match="the spec scales it"):
        fairmend.audit(FOREST.fit(X, y), spec, X)


def test_an_onnx_file_that_knows_texts_with_spaces_is_refused(tmp_path):
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    types = pytest.importorskip("skl2onnx.common.data_types")
    X, y = data_of((" Male", " Female"))
    inputs = [("sex", types.StringTensorType([None, 1])), ("income", types.Int64TensorType([None, 1]))]
    (tmp_path / "model.onnx").write_bytes(to_onnx(fitted(X, y), initial_types=inputs).SerializeToString())
    with pytest.raises(FairmendError, match="reads ' Male' in \"sex\""):
        fairmend.load_model(tmp_path / "model.onnx", spec=spec_of((" Male", " Female")))


def test_an_onnx_file_that_would_get_codes_for_the_numbers_that_it_knows_is_refused(tmp_path):
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    types = pytest.importorskip("skl2onnx.common.data_types")
    for pair, kind in (((1, 2), "Int64"), ((3, 7), "Int64"), ((3, 7), "Float"), ((0, 1), "Int64")):
        X, y = data_of(pair)
        pipeline, number = fitted(X, y), getattr(types, f"{kind}TensorType")([None, 1])
        inputs = [("sex", number), ("income", number)]
        path = tmp_path / "model.onnx"
        path.write_bytes(to_onnx(pipeline, initial_types=inputs).SerializeToString())
        if pair == (0, 1):
            assert fairmend.audit(path, spec_of(pair), X.assign(y=y)).count > 100
            continue
        with pytest.raises(FairmendError, match=f"an encoder knows {pair[0]}"):
            fairmend.load_model(path, spec=spec_of(pair))
        numbers = Spec(
            [Feature("sex", "integer", range=pair, protected=True), *spec_of(pair).features[1:]], spec_of(pair).label
        )
        assert fairmend.audit(path, numbers, X.assign(y=y)).count > 100


def test_truth_values_in_a_category_of_pandas_are_known_as_numbers():
    X, y = data_of((True, False))
    X = X.astype({"sex": "category"})
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5, categorical_features="from_dtype").fit(X, y)
    swapped = X.assign(sex=(~X.sex.astype(bool)).astype(X.sex.dtype))
    unequal = (model.predict(X) != model.predict(swapped)).sum()
    assert fairmend.audit(model, spec_of((True, False)), X.assign(y=y)).count == unequal > 0

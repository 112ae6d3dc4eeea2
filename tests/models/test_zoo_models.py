"""The benchmark's models that are only run are what their records say."""

import numpy as np
import pytest

from benchmarks.zoo.any_models import all_models, check_model
from benchmarks.zoo.run_only.people import CODED, ONE_HOT, PLAIN, RAW, counterparts, load_frame, two_inputs
from fairmend import load_model

MODELS = {(model.library, model.form, model.name): model for model in all_models()}


def test_no_two_models_of_the_zoo_have_the_same_name():
    listed = [(model.library, model.form, model.name) for model in all_models()]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    "key",
    [
        ("scikit-learn", "estimator", "RandomForest"),
        ("scikit-learn", "estimator", "OneHotEncoder, regression"),
        ("skl2onnx", "ONNX, converted", "OneHotEncoder, regression, ZipMap"),
    ],
)
def test_a_model_of_the_zoo_is_built_and_treats_people_unequally(key):
    outcome = check_model(MODELS[key])
    assert outcome.problem == ""
    assert 0 < outcome.decisions_change <= outcome.scores_change


@pytest.mark.parametrize("reading", [RAW, PLAIN, CODED, ONE_HOT, two_inputs("x_num", "x_cat")])
def test_the_spec_of_a_reading_describes_its_rows(reading):
    """The matrix is what the spec encodes, and its inputs divide the columns among them."""
    frame = load_frame()[0][:20]
    spec = reading.spec(("sex", "age"))
    assert [feature.name for feature in spec.protected] == sorted(
        ["sex", "age"], key=[feature.name for feature in spec.features].index
    )
    rows = reading.rows(frame)
    if reading.raw:
        assert rows is frame
    else:
        np.testing.assert_array_equal(rows, spec.encode(frame).astype(np.float32))
        assert sum(part.shape[1] for part in reading.arguments(rows)) == spec.width
    assert len(list(counterparts(frame, ("sex", "age")))) == 2 * 53


def test_fairmend_runs_a_model_of_the_zoo_as_its_framework_does():
    model = MODELS["scikit-learn", "estimator", "OneHotEncoder, imputer, forest"]
    frame, y = load_frame()
    made = model.build(model.reading.rows(frame[:1000]), y[:1000], None)
    spec = model.reading.spec(model.protected)
    scores = model.scores(made, model.reading.rows(frame[-200:]))
    loaded = load_model(made, spec=spec)
    X = spec.encode(frame[-200:], dtype=loaded.dtype)
    np.testing.assert_array_equal(loaded.predict(X), model.accepts(scores))

"""Preprocessing steps of scikit-learn that read other columns or clip are refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import KNNImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from fairmend.base.errors import FairmendError
from fairmend.sklearn import FairRepairClassifier
from fairmend.spec import Feature, Spec

SPEC = Spec(
    features=[
        Feature(name="g", kind="integer", range=(1, 2), protected=True),
        Feature(name="v", kind="continuous", range=(-1, 1)),
    ]
)


def test_a_step_that_looks_at_other_columns_is_refused_beside_a_spec_too():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.integers(1, 3, 80).astype(float), "v": rng.uniform(-1, 1, 80)})
    pipeline = make_pipeline(KNNImputer(), MLPClassifier((4,), max_iter=5, random_state=0))
    with pytest.warns(UserWarning, match="iterations"), pytest.raises(FairmendError, match="KNNImputer"):
        FairRepairClassifier(pipeline, spec=SPEC, method="blind").fit(X, X["v"] > 0)


def test_a_scaler_that_clips_is_refused():
    if "clip" not in MaxAbsScaler().get_params():
        pytest.skip("this scikit-learn's MaxAbsScaler does not clip")
    frame = pd.DataFrame({"g": [0.0, 1, 0, 1], "v": [-1.0, 2, 3, 4]})
    fitted = ColumnTransformer([("a", MaxAbsScaler(clip=True), ["g", "v"])]).fit(frame)
    with pytest.raises(FairmendError, match="clips"):
        Spec.from_sklearn(fitted, "g", data=frame)

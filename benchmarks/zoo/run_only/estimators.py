"""Estimators that cannot be read as networks: in memory, and converted to ONNX or to modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import ensemble, naive_bayes, neighbors, svm, tree
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from benchmarks.zoo.run_only.models import CONVERTED, ESTIMATOR, MODULE, Model, Rows, installed
from benchmarks.zoo.run_only.people import CODED, CODES, NUMBERS, ONE_HOT, PLAIN, RAW, Reading

Kinds = dict[str, tuple[Reading, Callable[[], Any]]]
TREES = {"n_estimators": 20, "random_state": 0}


def _svc() -> Any:
    return CalibratedClassifierCV(svm.SVC(random_state=0), ensemble=False)


def _forest() -> Any:
    return ensemble.RandomForestClassifier(max_depth=6, **TREES)


def _encoded(encoder: Any, last: Any, numbers: Any = "passthrough") -> Any:
    return make_pipeline(make_column_transformer((encoder, list(CODES)), (numbers, list(NUMBERS))), last)


def _one_hot() -> Any:
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


SKLEARN: Kinds = {
    "RandomForest": (PLAIN, _forest),
    "ExtraTrees": (PLAIN, lambda: ensemble.ExtraTreesClassifier(max_depth=6, **TREES)),
    "GradientBoosting": (PLAIN, lambda: ensemble.GradientBoostingClassifier(**TREES)),
    "HistGradientBoosting": (PLAIN, lambda: ensemble.HistGradientBoostingClassifier(max_iter=20, random_state=0)),
    "HistGradientBoosting, categories": (PLAIN, lambda: ensemble.HistGradientBoostingClassifier(
        max_iter=20, random_state=0, categorical_features=[0, 1, 2])),
    "AdaBoost": (PLAIN, lambda: ensemble.AdaBoostClassifier(**TREES)),
    "Bagging": (PLAIN, lambda: ensemble.BaggingClassifier(n_estimators=10, random_state=0)),
    "DecisionTree": (PLAIN, lambda: tree.DecisionTreeClassifier(max_depth=8, random_state=0)),
    "LogisticRegression": (ONE_HOT, LogisticRegression),
    "LogisticRegression, squares": (CODED, lambda: make_pipeline(PolynomialFeatures(2), LogisticRegression())),
    "LogisticRegression, splines": (CODED, lambda: make_pipeline(SplineTransformer(4), LogisticRegression())),
    "SVC": (ONE_HOT, lambda: svm.SVC(probability=True, random_state=0)),
    "SVC, calibrated": (ONE_HOT, _svc),
    "KNeighbors": (ONE_HOT, lambda: neighbors.KNeighborsClassifier(7)),
    "KNeighbors, distance": (CODED, lambda: neighbors.KNeighborsClassifier(7, weights="distance")),
    "GaussianNB": (CODED, naive_bayes.GaussianNB),
    "QuadraticDiscriminantAnalysis": (CODED, QuadraticDiscriminantAnalysis),
    "GaussianProcess": (CODED, lambda: make_pipeline(GaussianProcessClassifier(random_state=0))),
    "CalibratedClassifierCV": (PLAIN, lambda: CalibratedClassifierCV(_forest(), method="isotonic", cv=2)),
    "Voting": (CODED, lambda: ensemble.VotingClassifier(
        [("forest", _forest()), ("regression", LogisticRegression()), ("bayes", naive_bayes.GaussianNB())],
        voting="soft", flatten_transform=False)),
    "Stacking": (CODED, lambda: ensemble.StackingClassifier(
        [("forest", _forest()), ("neighbours", neighbors.KNeighborsClassifier(7))], LogisticRegression(), cv=3)),
    "KBinsDiscretizer, regression": (PLAIN, lambda: make_pipeline(
        KBinsDiscretizer(6, encode="onehot-dense", strategy="uniform"), LogisticRegression())),
    "QuantileTransformer, MLP": (PLAIN, lambda: make_pipeline(
        QuantileTransformer(n_quantiles=50), MLPClassifier((16,), max_iter=60, random_state=0))),
    "OneHotEncoder, regression": (RAW, lambda: _encoded(_one_hot(), LogisticRegression(), StandardScaler())),
    "OneHotEncoder, imputer, forest": (RAW, lambda: _encoded(
        _one_hot(), _forest(), make_pipeline(SimpleImputer(), StandardScaler()))),
    "OrdinalEncoder, boosting": (RAW, lambda: _encoded(
        OrdinalEncoder(), ensemble.HistGradientBoostingClassifier(max_iter=20, random_state=0))),
    "OrdinalEncoder, forest": (RAW, lambda: _encoded(OrdinalEncoder(), _forest())),
    "OrdinalEncoder, KNN imputer": (RAW, lambda: _encoded(OrdinalEncoder(), _forest(), KNNImputer())),
    "TargetEncoder, neighbours": (RAW, lambda: _encoded(
        TargetEncoder(random_state=0), neighbors.KNeighborsClassifier(7), StandardScaler())),
    "OneHotEncoder, stacking": (RAW, lambda: _encoded(_one_hot(), ensemble.StackingClassifier(
        [("forest", _forest()), ("svc", _svc())], LogisticRegression(), cv=3), StandardScaler())),
}  # fmt: skip
# skl2onnx 1.20 does not convert HistGradientBoosting with ONNX 1.23.
SKL2ONNX = [
    "RandomForest", "ExtraTrees", "GradientBoosting", "AdaBoost", "Bagging", "DecisionTree",
    "SVC", "KNeighbors", "GaussianNB", "QuadraticDiscriminantAnalysis", "CalibratedClassifierCV", "Voting", "Stacking",
    "KBinsDiscretizer, regression", "OneHotEncoder, regression", "OneHotEncoder, imputer, forest",
    "OrdinalEncoder, forest",
]  # fmt: skip
WITH_ZIPMAP = ["RandomForest", "OneHotEncoder, regression"]  # the default: probabilities as a list of dictionaries


def cases() -> Iterator[Model]:
    """Yield the estimators of all packages that are installed, and what they are converted to."""
    for name, (reading, make) in SKLEARN.items():
        yield Model(name, "scikit-learn", ESTIMATOR, reading, "probabilities", _fitted(make))
    if installed("skl2onnx", "skl2onnx"):
        for name in SKL2ONNX:
            yield _converted("skl2onnx", name, *SKLEARN[name], _skl2onnx)
        for name in WITH_ZIPMAP:
            yield _converted("skl2onnx", f"{name}, ZipMap", *SKLEARN[name], _with_zipmap)
    boosted = {"xgboost": _xgboost, "lightgbm": _lightgbm, "catboost": _catboost}
    for package, kinds in boosted.items():
        if installed(package, package):
            for name, (reading, make) in kinds().items():
                yield Model(name, package, ESTIMATOR, reading, "probabilities", _fitted(make))
    if installed("onnxmltools", "onnxmltools", "xgboost", "lightgbm"):
        yield _converted("onnxmltools", "XGBClassifier", *_xgboost()["XGBClassifier"], _onnxmltools)
        yield _converted("onnxmltools", "LGBMClassifier", *_lightgbm()["LGBMClassifier"], _onnxmltools)
    if installed("catboost's ONNX", "catboost"):
        yield _converted("catboost", "CatBoostClassifier", *_catboost()["CatBoostClassifier"], _catboost_onnx)
    if installed("hummingbird", "hummingbird"):
        for name in ("RandomForest", "ExtraTrees", "HistGradientBoosting", "GaussianNB"):
            yield _hummingbird(name, *SKLEARN[name])
        if installed("hummingbird's boosted trees", "xgboost", "lightgbm"):
            yield _hummingbird("XGBClassifier", *_xgboost()["XGBClassifier"])
            yield _hummingbird("LGBMClassifier", *_lightgbm()["LGBMClassifier"])


def _fitted(make: Callable[[], Any]) -> Callable[[Rows, np.ndarray, Path], Any]:
    return lambda X, y, folder: make().fit(X, y)


def _xgboost() -> Kinds:
    from xgboost import XGBClassifier, XGBRFClassifier

    options = {"n_estimators": 20, "max_depth": 4, "random_state": 0, "n_jobs": 1}
    return {
        "XGBClassifier": (PLAIN, lambda: XGBClassifier(**options)),
        "XGBClassifier, dart": (PLAIN, lambda: XGBClassifier(booster="dart", rate_drop=0.1, **options)),
        "XGBRFClassifier": (PLAIN, lambda: XGBRFClassifier(**options)),
        "OneHotEncoder, XGBClassifier": (RAW, lambda: _encoded(_one_hot(), XGBClassifier(**options))),
    }


def _lightgbm() -> Kinds:
    from lightgbm import LGBMClassifier

    options: dict[str, Any] = {"n_estimators": 20, "num_leaves": 12, "random_state": 0, "n_jobs": 1, "verbose": -1}
    return {
        "LGBMClassifier": (PLAIN, lambda: LGBMClassifier(**options)),
        "LGBMClassifier, linear trees": (PLAIN, lambda: LGBMClassifier(linear_tree=True, **options)),
        "LGBMClassifier, dart": (PLAIN, lambda: LGBMClassifier(boosting_type="dart", **options)),
        "OrdinalEncoder, LGBMClassifier": (RAW, lambda: _encoded(OrdinalEncoder(), LGBMClassifier(**options))),
    }


def _catboost() -> Kinds:
    from catboost import CatBoostClassifier

    options: dict[str, Any] = {"iterations": 20, "depth": 4, "random_seed": 0, "verbose": 0, "thread_count": 1}
    options["allow_writing_files"] = False
    return {
        "CatBoostClassifier": (PLAIN, lambda: CatBoostClassifier(**options)),
        "CatBoostClassifier, text": (RAW, lambda: CatBoostClassifier(cat_features=list(CODES), **options)),
        "CatBoostClassifier, Lossguide": (PLAIN, lambda: CatBoostClassifier(grow_policy="Lossguide", **options)),
    }


Write = Callable[[Any, Rows, Path], None]


def _converted(library: str, name: str, reading: Reading, make: Callable[[], Any], write: Write) -> Model:
    def build(X: Rows, y: np.ndarray, folder: Path) -> Path:
        path = folder / "model.onnx"
        write(make().fit(X, y), X, path)
        return path

    return Model(name, library, CONVERTED, reading, "probabilities", build)


def _skl2onnx(estimator: Any, X: Rows, path: Path, zipmap: bool = False) -> None:
    from skl2onnx import to_onnx

    options = {"zipmap": zipmap} if not zipmap else None
    if isinstance(X, np.ndarray):
        path.write_bytes(to_onnx(estimator, X[:1], options=options).SerializeToString())
        return
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    types = [(name, StringTensorType([None, 1])) for name in CODES] + [(n, FloatTensorType([None, 1])) for n in NUMBERS]
    path.write_bytes(to_onnx(estimator, initial_types=types, options=options).SerializeToString())


def _with_zipmap(estimator: Any, X: Rows, path: Path) -> None:
    _skl2onnx(estimator, X, path, zipmap=True)


def _onnxmltools(estimator: Any, X: Rows, path: Path) -> None:
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    convert = onnxmltools.convert_xgboost if "XGB" in type(estimator).__name__ else onnxmltools.convert_lightgbm
    options = {} if "XGB" in type(estimator).__name__ else {"zipmap": False}
    model = convert(estimator, initial_types=[("x", FloatTensorType([None, X.shape[1]]))], **options)
    path.write_bytes(model.SerializeToString())


def _catboost_onnx(estimator: Any, X: Rows, path: Path) -> None:
    estimator.save_model(str(path), format="onnx")


def _hummingbird(name: str, reading: Reading, make: Callable[[], Any]) -> Model:
    """Return an estimator that hummingbird makes a module of."""

    def build(X: Rows, y: np.ndarray, folder: Path) -> Any:
        from hummingbird.ml import convert

        return convert(make().fit(X, y), "torch", X[:1]).model.eval()

    return Model(name, "hummingbird", MODULE, reading, "probabilities", build)

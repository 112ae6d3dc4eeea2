"""Networks as users of scikit-learn write them: estimators in memory, and converted by skl2onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from benchmarks.zoo.data import People


def _mlp(**options: Any) -> MLPClassifier:
    return MLPClassifier((12, 8), max_iter=60, random_state=0, **options)


# name: (class, whether it reads raw columns, how it is made)
ESTIMATORS: dict[str, tuple[str, bool, Callable[[], Any]]] = {
    "MLPClassifier": ("A", False, _mlp),
    "MLPClassifier tanh": ("A", False, lambda: _mlp(activation="tanh")),
    "MLPClassifier logistic": ("A", False, lambda: _mlp(activation="logistic")),
    "MLPClassifier identity": ("A", False, lambda: _mlp(activation="identity")),
    "LogisticRegression": ("B", False, LogisticRegression),
    "GridSearchCV": ("A", False, lambda: GridSearchCV(_mlp(), {"alpha": [1e-4, 1e-2]}, cv=2)),
    "CalibratedClassifierCV": ("A", False, lambda: CalibratedClassifierCV(_mlp(), method="sigmoid", ensemble=False)),
}
CONVERTED: dict[str, tuple[str, bool, Callable[[], Any]]] = {
    "MLPClassifier": ("A", False, _mlp),
    "MLPClassifier tanh": ("A", False, lambda: _mlp(activation="tanh")),
    "StandardScaler, MLP": ("A", True, lambda: make_pipeline(StandardScaler(), _mlp())),
    "MinMaxScaler, MLP": ("A", True, lambda: make_pipeline(MinMaxScaler(), _mlp())),
    "PCA, MLP": ("B", False, lambda: make_pipeline(PCA(5), _mlp())),
    "StandardScaler, PCA, MLP": ("B", True, lambda: make_pipeline(StandardScaler(), PCA(4), _mlp())),
}


def cases(case: type) -> Iterator[Any]:
    for name, (kind, raw, make) in ESTIMATORS.items():
        yield case(
            name, kind, "scikit-learn", raw, ".onnx",
            lambda people, folder, make=make: make().fit(*people.training),
            lambda model: model, _save_estimator, _predict,
        )  # fmt: skip
    for name, (kind, raw, make) in CONVERTED.items():
        yield case(
            name, kind, "ONNX, skl2onnx", raw, ".onnx",
            lambda people, folder, make=make: _converted(make, people, folder / "model.onnx"),
            lambda path: path,
            lambda network, model, path: (network.save(path), path)[1],
            _run_labels,
        )  # fmt: skip


def _save_estimator(network: Any, model: Any, path: Path) -> Any:
    """Save the file that the certificate is about, and return the estimator with the new weights.

    There is none for a calibration, whose sigmoid the network has taken in: then the file is run.
    """
    from fairmend.network.formats.sklearn import to_estimator

    network.save(path)
    return path if isinstance(model, CalibratedClassifierCV) else to_estimator(network, model)


def _predict(model: Any, X: np.ndarray) -> np.ndarray:
    if not isinstance(model, Path):
        return np.asarray(model.predict(X))
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: X})[0]
    return (outputs[:, 0] >= 0.5).astype(np.int64)


def _converted(make: Callable[[], Any], people: People, path: Path) -> Path:
    from skl2onnx import to_onnx

    X, y = people.training
    path.write_bytes(to_onnx(make().fit(X, y), X[:1], options={"zipmap": False}).SerializeToString())
    return path


def _run_labels(path: Path, X: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: X})[0])

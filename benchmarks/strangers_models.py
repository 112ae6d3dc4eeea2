"""Models of the four frameworks, trained and saved as their users do, and run by the frameworks themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from strangers_data import Stranger

FRAMEWORKS = ("keras", "pytorch", "scikit-learn", "onnx")
HIDDEN = (16, 8)
EPOCHS = 12


class Encoding:
    """The owner's own preprocessing, without fairmend: imputed and scaled numbers, then one-hot categories."""

    def __init__(self, people: Stranger) -> None:
        self.people = people
        numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
        categories = make_pipeline(
            SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False, handle_unknown="error")
        )
        parts = [("numbers", numbers, list(people.numbers)), ("categories", categories, list(people.categories))]
        self._transformer = ColumnTransformer(parts).fit(self._clean(people.frame))

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the rows as the model reads them (rows, inputs)."""
        return self._transformer.transform(self._clean(frame)).astype(np.float32)

    def _clean(self, frame: pd.DataFrame) -> pd.DataFrame:
        texts = {
            name: frame[name]
            .map(lambda value: np.nan if value is None or value != value else str(value))
            .astype(object)
            for name in self.people.categories
        }
        return frame.assign(**texts)


def train(framework: str, people: Stranger, X: np.ndarray, folder: Path) -> Path:
    """Train a network on X (rows, inputs) and save it as users of the framework do; return the file."""
    numbers = {str(value): number for number, value in enumerate(people.classes)}
    y = people.frame[people.label].astype(str).map(numbers).to_numpy()
    outputs = 1 if len(people.classes) == 2 else len(people.classes)
    makers = {"keras": _keras, "pytorch": _pytorch, "scikit-learn": _sklearn, "onnx": _onnx}
    return makers[framework](X, y, outputs, folder)


def run(framework: str, path: Path, X: np.ndarray, outputs: int) -> np.ndarray:
    """Return what the framework computes: the probability of the second class (rows,), or of each (rows, classes)."""
    runners = {"keras": _run_keras, "pytorch": _run_pytorch, "scikit-learn": _run_onnx, "onnx": _run_onnx}
    return runners[framework](path, X, outputs)


def _torch_module(inputs: int, outputs: int):
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN[0]), nn.BatchNorm1d(HIDDEN[0]), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(HIDDEN[0], HIDDEN[1]), nn.ReLU(), nn.Linear(HIDDEN[1], outputs),
    )  # fmt: skip


def _trained_module(X: np.ndarray, y: np.ndarray, outputs: int):
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

    module = _torch_module(X.shape[1], outputs)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    inputs, labels = torch.from_numpy(X), torch.from_numpy(y)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(X)).split(128):
            logits = module(inputs[rows])
            loss = (
                binary_cross_entropy_with_logits(logits[:, 0], labels[rows].float())
                if outputs == 1
                else cross_entropy(logits, labels[rows])
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return module.eval()


def _pytorch(X: np.ndarray, y: np.ndarray, outputs: int, folder: Path) -> Path:
    import torch

    path = folder / "model.pth"
    torch.save(_trained_module(X, y, outputs).state_dict(), path)
    return path


def _run_pytorch(path: Path, X: np.ndarray, outputs: int) -> np.ndarray:
    import torch

    module = _torch_module(X.shape[1], outputs)
    module.load_state_dict(torch.load(path, weights_only=True), strict=True)
    with torch.no_grad():
        logits = module.eval()(torch.from_numpy(X))
    return (torch.sigmoid(logits[:, 0]) if outputs == 1 else torch.softmax(logits, dim=1)).numpy()


def _onnx(X: np.ndarray, y: np.ndarray, outputs: int, folder: Path) -> Path:
    """As PyTorch's default exporter writes it, with a sigmoid or softmax at the end."""
    import torch
    from torch import nn

    closing = nn.Sigmoid() if outputs == 1 else nn.Softmax(dim=1)
    module = nn.Sequential(_trained_module(X, y, outputs), closing).eval()
    path = folder / "model.onnx"
    batch = torch.export.Dim("batch")
    torch.onnx.export(module, (torch.from_numpy(X[:2]),), path, dynamic_shapes=({0: batch},), verbose=False)
    return path


def _sklearn(X: np.ndarray, y: np.ndarray, outputs: int, folder: Path) -> Path:
    """An MLPClassifier as skl2onnx writes it, with the outputs label and probabilities."""
    from skl2onnx import to_onnx

    estimator = MLPClassifier(HIDDEN, max_iter=EPOCHS, learning_rate_init=0.01, random_state=0)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops before it converges, on purpose
        estimator.fit(X, y)
    path = folder / "model.onnx"
    path.write_bytes(to_onnx(estimator, X[:1], options={"zipmap": False}).SerializeToString())
    return path


def _run_onnx(path: Path, X: np.ndarray, outputs: int) -> np.ndarray:
    from onnxruntime import InferenceSession

    session = InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: X})[-1]
    if outputs > 1:
        return found
    return found[:, -1]


def _keras(X: np.ndarray, y: np.ndarray, outputs: int, folder: Path) -> Path:
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((X.shape[1],), name="person"),
            keras.layers.Dense(HIDDEN[0], activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(HIDDEN[1], activation="relu"),
            keras.layers.Dense(outputs, activation="sigmoid" if outputs == 1 else "softmax"),
        ]
    )
    loss = "binary_crossentropy" if outputs == 1 else "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(0.01), loss)
    model.fit(X, y, batch_size=128, epochs=EPOCHS, verbose=0)
    path = folder / "model.keras"
    model.save(path)
    return path


def _run_keras(path: Path, X: np.ndarray, outputs: int) -> np.ndarray:
    import keras

    found = np.asarray(keras.models.load_model(path).predict(X, batch_size=4096, verbose=0))
    return found[:, 0] if outputs == 1 else found

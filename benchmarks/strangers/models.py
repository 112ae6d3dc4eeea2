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

from benchmarks.strangers.data import Stranger

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

    def scales(self) -> dict[str, tuple[float, float, float]]:
        """Return the mean, the standard deviation, and what replaces a missing value, of each number."""
        imputer, scaler = self._transformer.named_transformers_["numbers"]
        figures = zip(scaler.mean_, scaler.scale_, imputer.statistics_, strict=True)
        return dict(zip(self.people.numbers, figures, strict=True))

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
    inputs, labels = torch.from_numpy(X), torch.tensor(y)
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


def affine_layers(framework: str, path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the weights (outputs, inputs) and biases of each layer, float64, with norms folded into them."""
    readers = {"keras": _keras_layers, "pytorch": _torch_layers, "scikit-learn": _onnx_layers, "onnx": _onnx_layers}
    return [(np.asarray(weight, np.float64), np.asarray(bias, np.float64)) for weight, bias in readers[framework](path)]


def _torch_layers(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Linear, norm, linear, linear, as `_torch_module` builds them."""
    import torch

    state = {name: value.double().numpy() for name, value in torch.load(path, weights_only=True).items()}
    factor = state["1.weight"] / np.sqrt(state["1.running_var"] + 1e-5)
    first = state["0.weight"] * factor[:, None]
    bias = (state["0.bias"] - state["1.running_mean"]) * factor + state["1.bias"]
    return [(first, bias), *((state[f"{place}.weight"], state[f"{place}.bias"]) for place in (4, 6))]


def _keras_layers(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Dense, norm, dense, dense, as `_keras` builds them: the norm is part of what the second reads."""
    import keras

    model = keras.models.load_model(path)
    (first, bias), (gamma, beta, mean, variance), (second, second_bias), last = (
        [np.asarray(value, np.float64) for value in layer.get_weights()] for layer in model.layers
    )
    factor = gamma / np.sqrt(variance + model.layers[1].epsilon)
    shift = beta - mean * factor
    return [
        (first.T, bias),
        ((second * factor[:, None]).T, second_bias + shift @ second),
        (last[0].T, last[1]),
    ]


def _onnx_layers(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Gemm nodes, whose weights the exporter transposes, or pairs of MatMul and Add as skl2onnx writes them."""
    import onnx

    graph = onnx.load(path).graph
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    if any(node.op_type == "Gemm" for node in graph.node):
        return [(tensors[n.input[1]], tensors[n.input[2]]) for n in graph.node if n.op_type == "Gemm"]
    products = [tensors[node.input[1]].T for node in graph.node if node.op_type == "MatMul"]
    sums = [tensors[node.input[1]].ravel() for node in graph.node if node.op_type == "Add"]
    return list(zip(products, sums, strict=True))

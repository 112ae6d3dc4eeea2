"""Networks that fairmend does not read: recurrent and quantised ones, trees, averaged probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn


class _TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 1)


class _MaskOfData(_TwoLayers):
    def forward(self, x):
        return self.head(self.a(x).masked_fill(self.b(x) > 0, 0.0))


class _MeanOfProbabilities(_TwoLayers):
    def forward(self, x):
        return (torch.sigmoid(self.head(self.a(x))) + torch.sigmoid(self.head(self.b(x)))) / 2


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.lstm(x[:, None])[0][:, -1])


class _Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(1, 2, 3), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.conv(x[:, None]).flatten(1))


class _Branch(_TwoLayers):
    def forward(self, x):
        return self.head(self.a(x) if x.sum() > 0 else self.b(x))


def _chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 1)).eval()


def _onnx(module: Callable[[], nn.Module]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        torch.onnx.export(module().eval(), (torch.zeros(2, 6),), folder / "m.onnx", dynamo=False,
                          input_names=["x"], dynamic_axes={"x": {0: "n"}})  # fmt: skip
        return folder / "m.onnx"

    return make


def _keras(make: Callable[[Any, Any], Any]) -> Callable[[Path], Path]:
    def save(folder: Path) -> Path:
        import keras

        x = keras.Input((6,))
        h = keras.layers.Dense(8, activation="relu")(x)
        keras.Model(x, keras.layers.Dense(1)(make(keras.layers, h))).save(folder / "m.keras")
        return folder / "m.keras"

    return save


def _fitted(make: Callable[[], Any]) -> Callable[[Path], Any]:
    def fit(folder: Path) -> Any:
        rng = np.random.default_rng(0)
        return make().fit(rng.normal(size=(60, 6)), rng.integers(0, 2, 60))

    return fit


def _trees() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(5)


def _boosted() -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(n_estimators=5)


def _support_vectors() -> Any:
    from sklearn.svm import SVC

    return SVC()


def _voting() -> Any:
    from sklearn.ensemble import VotingClassifier
    from sklearn.neural_network import MLPClassifier

    return VotingClassifier([(str(k), MLPClassifier((4,), max_iter=20, random_state=k)) for k in (0, 1)], voting="soft")


def _quantised(folder: Path) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(_chain(nn.ReLU()), {nn.Linear})


def refused_cases() -> Iterator[tuple[str, Callable[[Path], Any], str]]:
    """Yield the name of each, how it is made, and the word that the message must have."""
    modules = {
        "mask of data": (_MaskOfData, "has a mask that depends on the input"),
        "mean of probabilities": (_MeanOfProbabilities, "sigmoid"),
        "LSTM": (_Recurrent, "LSTM"),
        "convolution": (_Convolution, "Conv1d"),
        "control flow": (_Branch, "forward()"),
    }
    for name, (module, word) in modules.items():
        yield f"PyTorch: {name}", lambda folder, module=module: module().eval(), word
    yield "PyTorch: quantised", _quantised, "quantis"
    yield "ONNX: mean of probabilities", _onnx(_MeanOfProbabilities), "Sigmoid"
    yield "Keras: UnitNormalization", _keras(lambda layers, h: layers.UnitNormalization()(h)), "UnitNormalization"
    yield "scikit-learn: random forest", _fitted(_trees), "RandomForestClassifier"
    yield "scikit-learn: boosted trees", _fitted(_boosted), "GradientBoostingClassifier"
    yield "scikit-learn: support vectors", _fitted(_support_vectors), "SVC"
    yield "scikit-learn: soft voting", _fitted(_voting), "VotingClassifier"

"""Networks of skorch with parts that fairmend does not read: attention, gates, normalised layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from torch import nn

from benchmarks.zoo.run_only.models import ESTIMATOR, Model, Rows, installed
from benchmarks.zoo.run_only.people import CODES, NUMBERS, ONE_HOT, PLAIN, RAW, SIZES

ONE_HOT_COLUMNS = sum(SIZES) + len(NUMBERS)


class Gated(nn.Module):
    """A gated unit after layer normalisation."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.gate, self.head = nn.Linear(inputs, 32), nn.Linear(16, outputs)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(nn.functional.glu(self.gate(x))))


class Attention(nn.Module):
    """A transformer whose tokens are the features."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(inputs, 8) * 0.3)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x.unsqueeze(-1) * self.embedding).mean(dim=1))


def cases() -> Iterator[Model]:
    """Yield the models if the package is installed."""
    if not installed("skorch", "skorch"):
        return
    columns = len(CODES) + len(NUMBERS)
    kinds: dict[str, tuple[Any, Callable[[], Any]]] = {
        "gated": (ONE_HOT, lambda: _net(Gated(ONE_HOT_COLUMNS, 2))),
        "attention": (ONE_HOT, lambda: _net(Attention(ONE_HOT_COLUMNS, 2))),
        "binary, gated": (ONE_HOT, lambda: _binary(Gated(ONE_HOT_COLUMNS, 1))),
        "StandardScaler, attention": (PLAIN, lambda: make_pipeline(StandardScaler(), _net(Attention(columns, 2)))),
        "ColumnTransformer, gated": (RAW, lambda: make_pipeline(
            make_column_transformer((OneHotEncoder(sparse_output=False), list(CODES)),
                                    (StandardScaler(), list(NUMBERS))),
            FunctionTransformer(_float32), _net(Gated(ONE_HOT_COLUMNS, 2)))),
    }  # fmt: skip
    for name, (reading, make) in kinds.items():
        yield Model(name, "skorch", ESTIMATOR, reading, "probabilities", _maker(make))


def _float32(X: np.ndarray) -> np.ndarray:
    return X.astype(np.float32)


def _options() -> dict[str, Any]:
    return {"max_epochs": 8, "lr": 0.01, "optimizer": torch.optim.Adam, "verbose": 0, "train_split": None}


def _net(module: nn.Module) -> Any:
    from skorch import NeuralNetClassifier

    return NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, **_options())


def _binary(module: nn.Module) -> Any:
    from skorch import NeuralNetBinaryClassifier

    return NeuralNetBinaryClassifier(module, **_options())


def _maker(make: Callable[[], Any]) -> Callable[[Rows, np.ndarray, Path], Any]:
    def build(X: Rows, y: np.ndarray, folder: Path) -> Any:
        net = make()
        return net.fit(X, y.astype(np.float32) if type(net).__name__ == "NeuralNetBinaryClassifier" else y)

    return build

"""Models of pytorch-tabnet: the classifier, and its network alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.zoo.run_only.models import DYNAMO, ESTIMATOR, MODULE, TORCHSCRIPT, Model, Rows, export_module, installed
from benchmarks.zoo.run_only.people import CODED, ONE_HOT, SIZES, Reading

EMBEDDED = {"cat_idxs": [0, 1, 2], "cat_dims": list(SIZES), "cat_emb_dim": 2}
KINDS: dict[str, tuple[Reading, dict[str, Any], tuple[str, ...]]] = {
    "one-hot": (ONE_HOT, {}, (ESTIMATOR, MODULE, TORCHSCRIPT, DYNAMO)),
    "embeddings": (CODED, EMBEDDED, (ESTIMATOR, MODULE, TORCHSCRIPT)),
    "entmax": (CODED, {**EMBEDDED, "mask_type": "entmax"}, (ESTIMATOR, MODULE)),
    "five steps": (ONE_HOT, {"n_steps": 5, "n_shared": 1, "n_independent": 1}, (ESTIMATOR,)),
}


class FirstOutput(nn.Module):
    """The network of a TabNet, which returns the loss of its masks too."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)[0]


def cases() -> Iterator[Model]:
    """Yield the models if the package is installed."""
    if installed("pytorch-tabnet", "pytorch_tabnet"):
        for name, (reading, options, forms) in KINDS.items():
            for form in forms:
                output = "probabilities" if form == ESTIMATOR else "logits"
                make = _maker(reading, options, form)
                yield Model(f"TabNet, {name}", "pytorch-tabnet", form, reading, output, make)


def _maker(reading: Reading, options: dict[str, Any], form: str) -> Callable[[Rows, np.ndarray, Path], Any]:
    def make(X: Rows, y: np.ndarray, folder: Path) -> Any:
        from pytorch_tabnet.tab_model import TabNetClassifier

        classifier = TabNetClassifier(n_d=8, n_a=8, verbose=0, device_name="cpu", seed=0, **options)
        classifier.fit(X, y, max_epochs=20, batch_size=128, virtual_batch_size=64)
        if form == ESTIMATOR:
            return classifier
        module = FirstOutput(classifier.network.cpu().eval()).eval()
        return (
            module
            if form == MODULE
            else export_module(module, reading, X, folder / "model.onnx", form, one_row=form == DYNAMO)
        )

    return make

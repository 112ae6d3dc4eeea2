"""What the fuzzers of .pth and .safetensors share: the corpus, and the layers that a certificate would name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fairmend_check.model import Activation, Layer, Model
from fairmend_check.read_model import read_model

CORPUS = Path(__file__).parents[2] / "corpus"
NAMES = ("0", "2")
LAYERS = (Layer("0", Activation("relu")), Layer("2", Activation("none")))
_OTHER_NAMES = ("classifier", "single", "unicode", "refused")


def seeds(suffix: str) -> list[bytes]:
    """Return the files of the corpus whose layers have the names above."""
    files = sorted((CORPUS / suffix.lstrip(".")).glob(f"*{suffix}"))
    return [path.read_bytes() for path in files if not path.name.startswith(_OTHER_NAMES)]


def read_with_layers(path: Path) -> Model:
    """Read a state dict as the checker does with a certificate."""
    return read_model(path, LAYERS)[0]


def difference(model: Model, tensors: Mapping[str, np.ndarray]) -> str | None:
    """Say how the tensors that a runtime reads differ from the model, bit by bit."""
    expected = {}
    for name, weight, bias in zip(NAMES, model.weights, model.biases, strict=True):
        expected[f"{name}.weight"] = weight
        if f"{name}.bias" in tensors:
            expected[f"{name}.bias"] = bias
        elif bias.any():
            return f"there is no {name}.bias"
    if set(expected) != set(tensors):
        return f"the tensors are {sorted(tensors)}"
    for name, array in expected.items():
        found = np.asarray(tensors[name])
        if found.dtype.name != model.dtype or found.astype(np.float64).tobytes() != array.tobytes():
            return f"{name} is {found.dtype} {found.tolist()}, the checker reads {array.tolist()}"
    return None

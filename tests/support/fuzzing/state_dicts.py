"""What the fuzzers of .pth and .safetensors share: the corpus, and the layers that a certificate would name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Model
from fairmend_check.readers.read_model import read_model
from support.state_dict_steps import chain, function, layer, norm

CORPUS = Path(__file__).parents[2] / "corpus"
NAMES = ("0", "2")
LAYERS, BARE = (chain(3, layer("0", bias), function("relu"), layer("2", bias)) for bias in (True, False))
NORMS = chain(3, norm("0"), layer("1", bias=False), norm("2"), function("relu"), layer("4"))
_OTHER_NAMES = ("classifier", "single", "unicode", "refused")


def seeds(suffix: str) -> list[bytes]:
    """Return the files of the corpus whose layers have the names above."""
    files = sorted((CORPUS / suffix.lstrip(".")).glob(f"*{suffix}"))
    return [path.read_bytes() for path in files if not path.name.startswith(_OTHER_NAMES)]


def norm_state() -> dict[str, np.ndarray]:
    """Return the tensors of a module with BatchNorm before and after its first affine layer, which has no bias."""
    rng = np.random.default_rng(0)
    state = {"1.weight": rng.normal(size=(3, 3)), "4.weight": rng.normal(size=(2, 3)), "4.bias": rng.normal(size=2)}
    for name in ("0", "2"):
        parts = {"weight": rng.normal(size=3), "bias": rng.normal(size=3), "running_mean": rng.normal(size=3)}
        state |= {f"{name}.{part}": array for part, array in parts.items()}
        state[f"{name}.running_var"] = rng.uniform(0.5, 2, 3)
    found = {key: array.astype(np.float32) for key, array in state.items()}
    return found | {f"{name}.num_batches_tracked": np.array(7) for name in ("0", "2")}


def read_with_layers(path: Path) -> Model:
    """Read a state dict as the checker does with a certificate: of layers with biases, or else without."""
    try:
        return read_model(path, LAYERS)[0]
    except CheckError:
        return read_model(path, BARE)[0]


def read_with_norms(path: Path) -> Model:
    """Read a state dict with BatchNorm as the checker does with a certificate."""
    return read_model(path, NORMS)[0]


def difference(model: Model, tensors: Mapping[str, np.ndarray]) -> str | None:
    """Say how the tensors that a runtime reads differ from the model, bit by bit."""
    if any(layer.fold for layer in model.layers):
        return _norm_difference(model, tensors)
    expected = {}
    for name, own in zip(NAMES, model.layers, strict=True):
        expected[f"{name}.weight"] = own.weight
        if f"{name}.bias" in tensors:
            expected[f"{name}.bias"] = own.bias
        elif own.bias.any():
            return f"there is no {name}.bias"
    if set(expected) != set(tensors):
        return f"the tensors are {sorted(tensors)}"
    for name, array in expected.items():
        found = np.asarray(tensors[name])
        if found.dtype.name != model.dtype or found.astype(np.float64).tobytes() != array.tobytes():
            return f"{name} is {found.dtype} {found.tolist()}, the checker reads {array.tolist()}"
    return None


def _norm_difference(model: Model, tensors: Mapping[str, np.ndarray]) -> str | None:
    """Compare what the stored tensors compute, each norm a step of its own, with the folded model."""
    first = model.layers[0].fold
    assert first is not None
    stored = {key: np.asarray(array) for key, array in tensors.items()}
    kinds = {array.dtype.name for key, array in stored.items() if not key.endswith("num_batches_tracked")}
    if kinds != {model.dtype}:
        return f"the tensors are {kinds}"
    rows = np.random.default_rng(1).normal(size=(20, model.inputs))
    parts = {key: array.astype(np.float64) for key, array in stored.items()}
    value = _normalise(rows, parts, "0") @ parts["1.weight"].T + parts.pop("1.bias", 0.0)
    value = np.maximum(_normalise(value, parts, "2"), 0) @ parts["4.weight"].T + parts.get("4.bias", 0.0)
    first, last = model.layers
    own = np.maximum(rows @ first.weight.T + first.bias, 0) @ last.weight.T + last.bias
    size = 1 + np.abs(own).max() + np.abs(value).max()
    if not (np.isfinite(value).all() and (np.abs(value - own) <= 1e-3 * size).all()):
        return "the tensors compute something else"
    return None


def _normalise(rows: np.ndarray, parts: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        scaled = (rows - parts[f"{name}.running_mean"]) / np.sqrt(parts[f"{name}.running_var"] + 1e-5)
        return np.asarray(scaled * parts.get(f"{name}.weight", 1.0) + parts.get(f"{name}.bias", 0.0))

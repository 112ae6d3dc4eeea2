"""The description of a PyTorch model (`network.formats.torch.steps`) as the steps that a certificate names.

Numbers that the code of a module may take from any tensor, such as the mean and the deviation of a scaling, are listed
themselves. Tensors that no step names are listed as unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network.formats.torch.steps import Entry, Tensors, layer_name, norm_name

_COUNTER = "num_batches_tracked"
_NORM_PARTS = {"mean": "running_mean", "variance": "running_var", "gain": "weight", "shift": "bias"}


def steps_of_description(entries: Sequence[Entry], tensors: Tensors) -> tuple[dict[str, Any], ...]:
    """Return the steps of a certificate, without what closes the network."""
    entries = list(entries)
    while _closes(entries):
        entries.pop()
    used: set[str] = set()
    steps = [{"kind": "", "sources": entry["sources"], **_step(entry, tensors, used)} for entry in entries]
    unused = [key for key in tensors if key not in used and key.rpartition(".")[2] != _COUNTER]
    steps[0] |= {"unused": unused} if unused else {}
    return tuple(steps)


def _closes(entries: Sequence[Entry]) -> bool:
    """Return whether the last step only turns logits into probabilities."""
    last = entries[-1]
    kinds = [entry["kind"] for entry in entries]
    sigmoid = last["kind"] == "function" and last["name"] == "sigmoid"
    chosen = kinds[-1] == "columns" and kinds[last["sources"][0]] == "softmax"
    return bool(sigmoid or chosen or kinds[-1] == "softmax")


def _step(entry: Entry, tensors: Tensors, used: set[str]) -> dict[str, Any]:
    """Return one step without its sources, and note the tensors that it names."""
    kind = entry["kind"]
    if kind == "input":
        return {"kind": "input", "columns": entry["columns"]}
    if kind == "affine":
        used |= {entry["weight"]} | ({entry["bias"]} - {None})
        name = layer_name(entry["weight"])
        plain = entry["weight"] == _key(name, "weight") and entry["bias"] in (None, _key(name, "bias"))
        if plain and not entry.get("transposed"):
            return {"kind": "affine", "name": name}
        parts = {"weight": entry["weight"], "bias": entry["bias"] or "", "transposed": bool(entry.get("transposed"))}
        return {"kind": "matrix", **parts}
    if kind == "batch_norm":
        return _norm(entry, tensors, used)
    if kind == "scale":
        return _scale(entry, tensors)
    if kind == "function":
        return _function(entry, tensors, used)
    if kind == "lookup" and "table" in entry:
        used.add(entry["table"])
        return {"kind": "lookup", "name": layer_name(entry["table"])}
    if kind == "lookup":
        return {"kind": "one_hot", "classes": entry["classes"]}
    return {key: value for key, value in entry.items() if key != "sources"}


def _key(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


def _norm(entry: Entry, tensors: Tensors, used: set[str]) -> dict[str, Any]:
    """Return batch normalisation by its name, or as a scale if its tensors have other names than PyTorch's."""
    name = norm_name(entry["mean"])
    keys = {part: entry[part] for part in _NORM_PARTS if entry[part] is not None}
    if keys == {part: _key(name, _NORM_PARTS[part]) for part in keys}:
        used |= set(keys.values())
        return {"kind": "batch_norm", "name": name, "epsilon": float(entry["epsilon"])}
    values = {part: np.asarray(tensors[key], np.float64) for part, key in keys.items()}
    gain = 1 / np.sqrt(values["variance"] + entry["epsilon"]) * values.get("gain", 1.0)
    return _line(values["mean"], gain, values.get("shift", np.zeros(())))


def _scale(entry: Entry, tensors: Tensors) -> dict[str, Any]:
    def numbers(part: str, default: float) -> npt.NDArray[np.float64]:
        given = entry.get(part, default)
        return np.asarray(tensors[given] if isinstance(given, str) else given, np.float64)

    gain = numbers("gain", 1.0)
    if "divisor" in entry:
        gain = 1 / numbers("divisor", 1.0) if "gain" not in entry else gain / numbers("divisor", 1.0)
    return _line(numbers("mean", 0.0), gain, numbers("shift", 0.0))


def _line(mean: npt.NDArray[Any], gain: npt.NDArray[Any], shift: npt.NDArray[Any]) -> dict[str, Any]:
    parts = {"mean": mean, "gain": gain, "shift": shift}
    return {"kind": "scale", **{name: np.asarray(part).reshape(-1).tolist() for name, part in parts.items()}}


def _function(entry: Entry, tensors: Tensors, used: set[str]) -> dict[str, Any]:
    parameters = entry.get("parameters", [])
    if isinstance(parameters, str) and parameters == _key(layer_name(parameters), "weight"):
        used.add(parameters)
        return {"kind": "prelu", "name": layer_name(parameters)}
    if isinstance(parameters, str):
        parameters = np.asarray(tensors[parameters], np.float64).reshape(-1).tolist()
    numbers = {"slope": float(entry.get("slope", 0.0)), "parameters": list(parameters)}
    return {"kind": "function", "function": entry["name"], **numbers}

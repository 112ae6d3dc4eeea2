"""The description of a network as steps on tensors of a state dict (see `steps`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from fairmend.network import Activation, Affine, Columns, Concatenate, Input, Lookup, Network, Node, Scale, Sum
from fairmend.network.formats.torch.steps import Entry, Tensors

_COUNTER = "num_batches_tracked"
_LETTERS = {"input": "", "batch_norm": "", "affine": "a", "function": "f", "softmax": "s"}
_NORM_PARTS = {"mean": "running_mean", "variance": "running_var", "gain": "weight", "shift": "bias"}


def describe(entries: Sequence[Entry], tensors: Tensors) -> tuple[Entry, ...]:
    """Return the description that files and certificates need: none for a chain of plain layers in this order.

    A plain chain has affine layers and batch normalisation with PyTorch's own names, activations without numbers from
    tensors, and no other tensors.
    """
    used: set[str] = set()
    for i, entry in enumerate(entries):
        keys = _plain_keys(entry)
        if keys is None or entry["sources"] != ([i - 1] if i else []):
            return tuple(entries)
        used |= keys
    order = "".join(_LETTERS[entry["kind"]] for entry in entries)
    unused = {key for key in tensors if key not in used and not key.endswith(_COUNTER)}
    return () if not unused and re.fullmatch("a(f?a)*[fs]?", order) else tuple(entries)


def _plain_keys(entry: Entry) -> set[str] | None:
    """Return the keys of a step of a plain chain; None for any other step."""
    kind = entry["kind"]
    if kind == "affine":
        name = entry["weight"].removesuffix("weight")
        plain = entry["weight"].endswith("weight") and entry["bias"] in (None, f"{name}bias")
        return {f"{name}weight", f"{name}bias"} if plain and "transposed" not in entry else None
    if kind == "batch_norm":
        name = entry["mean"].removesuffix("running_mean")
        keys = {part: entry[part] for part in _NORM_PARTS}
        wanted = {part: None if keys[part] is None else f"{name}{_NORM_PARTS[part]}" for part in _NORM_PARTS}
        return {key for key in keys.values() if key is not None} if keys == wanted else None
    if kind == "function":
        return None if "parameters" in entry else set()
    return set() if kind in ("softmax", "input") and "inputs" not in entry else None


def describe_network(network: Network) -> tuple[dict[str, npt.NDArray[Any]], tuple[Entry, ...]]:
    """Return tensors and steps for a network that came from elsewhere; norms stay folded into the affine layers."""
    tensors: dict[str, npt.NDArray[Any]] = {}
    entries: list[Entry] = []
    for i, node in enumerate(network.nodes):
        entries.append({**_entry(node, i, tensors), "sources": list(node.sources)})
    if network.closing != "none":
        closing = {"kind": "softmax"} if network.closing == "softmax" else {"kind": "function", "name": "sigmoid"}
        entries.append({**closing, "sources": [len(entries) - 1]})
    return tensors, tuple(entries)


def _entry(node: Node, number: int, tensors: dict[str, npt.NDArray[Any]]) -> Entry:
    """Return the description of a node, and add its tensors."""
    operation = node.operation
    if isinstance(operation, Input):
        names = [[name, width] for name, width in operation.names]
        return {"kind": "input", "columns": operation.columns, **({"inputs": names} if names else {})}
    if isinstance(operation, Affine):
        dot = "." if node.name else ""
        weight, bias = f"{node.name}{dot}weight", f"{node.name}{dot}bias"
        tensors |= {weight: operation.weight, bias: operation.bias}
        return {"kind": "affine", "weight": weight, "bias": bias}
    if isinstance(operation, Scale):
        return {"kind": "scale", "gain": operation.factor.tolist(), "shift": operation.shift.tolist()}
    if isinstance(operation, Lookup) and not operation.stored:
        return {"kind": "lookup", "classes": len(operation.table)}
    if isinstance(operation, Lookup):
        tensors[f"tables.{number}.weight"] = operation.table
        return {"kind": "lookup", "table": f"tables.{number}.weight"}
    if isinstance(operation, Columns):
        return {"kind": "columns", "indices": list(operation.indices)}
    if isinstance(operation, Sum | Concatenate):
        return {"kind": operation.kind}
    assert isinstance(operation, Activation)
    return function_entry(operation)


def function_entry(activation: Activation) -> Entry:
    """Return the description of an elementwise function, without its sources."""
    entry: Entry = {"kind": "function", "name": activation.name}
    entry |= {"slope": activation.slope} if activation.slope else {}
    return entry | ({"parameters": list(activation.parameters)} if activation.parameters else {})

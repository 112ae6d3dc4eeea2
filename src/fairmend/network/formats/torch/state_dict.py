"""State dicts in .pth and .safetensors files: weights by key, with a note of fairmend's beside them.

A state dict holds no activations. fairmend writes them into a note (JSON) in the file. For any other file, the
`activation` argument of the reader is the activation between all affine layers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.network.formats.chain import Linear, Nonlinear, Norm, Step, build_network, unsupported

__all__ = ["NOTE", "from_tensors", "tensor_key", "to_note", "to_tensors"]

NOTE = "fairmend"  # the key of the note in either format's metadata
_EPSILON = 1e-5  # torch.nn.BatchNorm1d's default; a state dict does not hold it
_NORM_PARTS = {"running_mean", "running_var", "weight", "bias", "num_batches_tracked"}

Tensors = Mapping[str, npt.NDArray[Any]]


def tensor_key(name: str, part: str) -> str:
    """Return 'layers.0.weight' for 'layers.0' and 'weight'; a single nn.Linear has no prefix."""
    return f"{name}.{part}" if name else part


def to_tensors(network: Network) -> dict[str, npt.NDArray[Any]]:
    """Return weights and biases by key, in order."""
    tensors: dict[str, npt.NDArray[Any]] = {}
    for name, affine in zip(network.names, network.affines, strict=True):
        tensors[tensor_key(name, "weight")] = affine.weight
        tensors[tensor_key(name, "bias")] = affine.bias
    return tensors


def to_note(network: Network) -> str:
    """Return what a state dict cannot say, as JSON; Python's repr of a float round-trips exactly."""
    activations = [{"name": a.name, "slope": a.slope} for a in network.activations]
    note = {"version": 1, "names": network.names, "activations": activations, "closing": network.closing}
    return json.dumps(note)


def from_tensors(tensors: Tensors, note: str | None, activation: Activation, source: str) -> Network:
    """Return the network in a state dict, its keys in order; `note` is what `to_note` wrote, if anything."""
    if note is not None:
        return _noted(tensors, note, source)
    return build_network(_steps(tensors, activation, source), source)


def _noted(tensors: Tensors, note: str, source: str) -> Network:
    try:
        said = json.loads(note)
        if said["version"] != 1:
            raise FairmendError(f"version {said['version']} is not one this fairmend reads; upgrade fairmend")
        names = [str(name) for name in said["names"]]
        activations = [Activation(str(a["name"]), float(a["slope"])) for a in said["activations"]]
        closing = str(said["closing"])
        keys = {tensor_key(name, part) for name in names for part in ("weight", "bias")}
        if keys != set(tensors):
            raise FairmendError(f"names other tensors than the file holds: {sorted(keys ^ set(tensors))}")
        affines = [Affine(tensors[tensor_key(name, "weight")], tensors[tensor_key(name, "bias")]) for name in names]
        return Network(affines, activations, closing, names)
    except FairmendError as error:
        raise FairmendError(f"{source}: fairmend's note in the file: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise FairmendError(f"{source}: fairmend's note in the file is damaged ({error!r}); save it again") from error


def _steps(tensors: Tensors, activation: Activation, source: str) -> list[Step]:
    """Return the affine layers in key order, the activation between them, and BatchNorm where its number puts it."""
    layers = _layers(tensors, source)
    linears = [i for i, layer in enumerate(layers) if isinstance(layer, Linear)]
    if not linears:
        raise unsupported(source, "the state dict", "holds no affine layer (no 2-D X.weight)")
    steps: list[Step] = list(layers[: linears[0] + 1])
    for before, after in pairwise(linears):
        act = Nonlinear(f"the {activation} after layer {layers[before].name!r}", activation)
        between = layers[before + 1 : after]
        if not between or _norm_comes_first(layers[before], between, layers[after], activation, source):
            steps += [*between, act, layers[after]]
        else:
            steps += [act, *between, layers[after]]
    return [*steps, *layers[linears[-1] + 1 :]]


def _norm_comes_first(
    before: _Layer, between: list[_Layer], after: _Layer, activation: Activation, source: str
) -> bool:
    """Return whether the BatchNorm between two affine layers comes before the activation; raise if it is not clear.

    In an nn.Sequential the numbers show it: 0 affine, 1 norm, 3 affine, or 0 affine, 2 norm, 3 affine.
    """
    norm = between[0]
    if activation.name == "identity":
        return True
    follows, precedes = _adjacent(before.name, norm.name), _adjacent(norm.name, after.name)
    if len(between) > 1 or follows == precedes:
        raise FairmendError(
            f"{source}: a state dict does not say whether BatchNorm {norm.name!r} comes before or after the "
            f"activation between {before.name!r} and {after.name!r}; load the nn.Module, or export it to ONNX"
        )
    return follows


def _adjacent(first: str | None, second: str | None) -> bool:
    """Return whether two names are neighbours in one nn.Sequential, as 'net.0' and 'net.1' are."""
    stem, _, number = (first or "").rpartition(".")
    other, _, successor = (second or "").rpartition(".")
    return stem == other and number.isdecimal() and successor.isdecimal() and int(successor) == int(number) + 1


_Layer = Linear | Norm


def _layers(tensors: Tensors, source: str) -> list[_Layer]:
    groups: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for full, tensor in tensors.items():
        prefix, _, part = full.rpartition(".")
        groups.setdefault(prefix, {})[part] = tensor
    return [_layer(prefix, parts, source) for prefix, parts in groups.items()]


def _layer(name: str, parts: dict[str, npt.NDArray[Any]], source: str) -> _Layer:
    where = f"layer {name!r}"
    if "running_mean" in parts and "running_var" in parts and set(parts) <= _NORM_PARTS:
        norm = f"{where} (BatchNorm1d)"
        mean, variance = parts["running_mean"], parts["running_var"]
        return Norm(norm, mean, variance, parts.get("weight"), parts.get("bias"), _EPSILON, name)
    if "weight" in parts and parts["weight"].ndim == 2 and set(parts) <= {"weight", "bias"}:
        return Linear(where, parts["weight"], parts.get("bias"), name)
    shapes = ", ".join(f"{tensor_key(name, part)} {tensor.shape}" for part, tensor in parts.items())
    raise unsupported(source, where, f"is neither affine nor BatchNorm1d: {shapes}")

"""State dicts without a note: one chain of affine layers in the order of the keys, or a refusal with the way out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.folding import Norm
from fairmend.network.formats.chain import Linear, Nonlinear, Step, unsupported
from fairmend.network.formats.torch.steps import Tensors

WAY_OUT = (
    "a state dict does not hold the architecture. In Python, pass the module itself, load_network(module), or save the "
    "model with its architecture: torch.export.save or torch.onnx.export"
)
_EPSILON = 1e-5  # torch.nn.BatchNorm1d's default; a state dict does not hold it
_NORM_PARTS = {"running_mean", "running_var", "weight", "bias", "num_batches_tracked"}

_Layer = Linear | Norm


def tensor_key(name: str, part: str) -> str:
    """Return 'layers.0.weight' for 'layers.0' and 'weight'; a single nn.Linear has no prefix."""
    return f"{name}.{part}" if name else part


def steps_of_keys(tensors: Tensors, activation: Activation | None, source: str) -> list[Step]:
    """Return the affine layers in key order, the activation between them, and BatchNorm where its number puts it."""
    layers = [layer_of(prefix, parts, source) for prefix, parts in layers_by_prefix(tensors).items()]
    linears = [i for i, layer in enumerate(layers) if isinstance(layer, Linear)]
    if not linears:
        raise unsupported(source, "the state dict", "holds no affine layer (no 2-D X.weight)")
    affine = [layer for layer in layers if isinstance(layer, Linear)]
    _require_one_order(affine, source)
    if activation is None:
        if len(linears) > 1:
            raise FairmendError(
                f"{source}: {WAY_OUT}. If it is one chain of its {len(linears)} affine layers in the order of its "
                'keys, say which activation is between them: activation="relu" (--activation relu)'
            )
        activation = Activation("identity")
    steps: list[Step] = list(layers[: linears[0] + 1])
    for before, after in pairwise(linears):
        act = Nonlinear(f"the {activation} after layer {layers[before].name!r}", activation)
        between = layers[before + 1 : after]
        if not between or _norm_comes_first(layers[before], between, layers[after], activation, source):
            steps += [*between, act, layers[after]]
        else:
            steps += [act, *between, layers[after]]
    return [*steps, *layers[linears[-1] + 1 :]]


def _require_one_order(layers: Sequence[Linear], source: str) -> None:
    """Refuse keys that do not form one chain: widths that do not fit, or that fit in another order as well."""
    for before, after in pairwise(layers):
        if len(before.weight) != after.weight.shape[1]:
            raise FairmendError(
                f"{source}: {after.where} takes {after.weight.shape[1]} values, but the layer before it gives "
                f"{len(before.weight)}, so that the keys are not one chain in order; {WAY_OUT}"
            )
    if not _are_numbered([str(layer.name) for layer in layers]) and _orders(layers, 2) > 1:
        raise FairmendError(
            f"{source}: its layers fit together in another order than that of their keys as well "
            f"({', '.join(repr(layer.name) for layer in layers[:6])}); {WAY_OUT}"
        )


def _are_numbered(names: Sequence[str]) -> bool:
    """Return whether numbers in the names give the order: net.0, net.2, net.4, or fc1, fc2 and a last one, out."""
    stems, numbers = zip(*(_numbered(name) for name in names), strict=True)
    if len(names) > 2 and (stems[-1] != stems[0] or numbers[-1] < 0):
        stems, numbers = stems[:-1], numbers[:-1]
    return len(set(stems)) == 1 and numbers[0] >= 0 and all(a < b for a, b in pairwise(numbers))


def _numbered(name: str) -> tuple[str, int]:
    """Return a name with its last number taken out, and that number; -1 if it has none."""
    found = re.fullmatch(r"(.*?)(\d+)(\D*)", name, re.DOTALL)
    return (f"{found[1]}#{found[3]}", int(found[2])) if found else (name, -1)


def _orders(layers: Sequence[Linear], most: int) -> int:
    """Return in how many orders these layers are a chain, counted up to ``most``."""
    shapes = [layer.weight.shape for layer in layers]

    def count(width: int | None, left: frozenset[int], most: int) -> int:
        if not left:
            return 1
        found = 0
        for i in sorted(left):
            if width is None or shapes[i][1] == width:
                found += count(shapes[i][0], left - {i}, most - found)
            if found >= most:
                break
        return found

    return count(None, frozenset(range(len(shapes))), most)


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


def layers_by_prefix(tensors: Tensors) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Return the tensors of each layer, by the prefix of their keys."""
    groups: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for full, tensor in tensors.items():
        prefix, _, part = full.rpartition(".")
        groups.setdefault(prefix, {})[part] = tensor
    return groups


def layer_of(name: str, parts: dict[str, npt.NDArray[Any]], source: str) -> _Layer:
    """Return the layer that has these tensors: affine or batch normalisation; refuse any other."""
    where = f"layer {name!r}"
    if "running_mean" in parts and "running_var" in parts and set(parts) <= _NORM_PARTS:
        norm = f"{where} (BatchNorm1d)"
        mean, variance = parts["running_mean"], parts["running_var"]
        return Norm(norm, mean, variance, parts.get("weight"), parts.get("bias"), _EPSILON, name)
    if "weight" in parts and parts["weight"].ndim == 2 and set(parts) <= {"weight", "bias"}:
        return Linear(where, parts["weight"], parts.get("bias"), name)
    shapes = ", ".join(f"{tensor_key(name, part)} {tensor.shape}" for part, tensor in parts.items())
    raise unsupported(source, where, f"is neither affine nor BatchNorm1d: {shapes}; {WAY_OUT}")

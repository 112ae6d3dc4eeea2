"""State dicts in .pth and .safetensors files: weights by key, with a note of fairmend's beside them.

A state dict holds no activations. fairmend writes them into a note (JSON) in the file. For any other file, the
`activation` argument of the reader is the activation between all affine layers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.folding import Norm
from fairmend.network.formats.torch.steps import Entry
from fairmend.network.formats.chain import Linear, Nonlinear, Softmax, Step, build_network, unsupported

__all__ = ["NOTE", "StateDictForm", "Tensors", "from_tensors", "tensor_key", "to_note", "to_tensors"]

NOTE = "fairmend"  # the key of the note in either format's metadata
_EPSILON = 1e-5  # torch.nn.BatchNorm1d's default; a state dict does not hold it
_NORM_PARTS = {"running_mean", "running_var", "weight", "bias", "num_batches_tracked"}

Tensors = Mapping[str, npt.NDArray[Any]]
_CLOSINGS: dict[str, list[Step]] = {
    "none": [],
    "sigmoid": [Nonlinear("the note", Activation("sigmoid"))],
    "softmax": [Softmax("the note")],
}


def tensor_key(name: str, part: str) -> str:
    """Return 'layers.0.weight' for 'layers.0' and 'weight'; a single nn.Linear has no prefix."""
    return f"{name}.{part}" if name else part


@dataclass(frozen=True, eq=False)
class StateDictForm:
    """All tensors of a state dict in their order, and what its file holds beside them.

    `versions` are those of the modules, which torch keeps with a state dict, and `metadata` the texts in the header of
    a .safetensors file.
    """

    tensors: Tensors
    versions: Any = None
    metadata: Mapping[str, str] | None = None
    description: tuple[Entry, ...] = ()
    module: Any = field(default=None, repr=False)
    suffixes = (".pth", ".pt", ".safetensors")

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`."""
        if suffix == ".safetensors":
            from fairmend.network.formats.torch import safetensors

            return safetensors.to_bytes(network)
        from fairmend.network.formats.torch import pth

        return pth.to_bytes(network)


def form_of(network: Network) -> StateDictForm:
    """Return the form that the network came in; one without any tensors if it came from elsewhere."""
    return network.form if isinstance(network.form, StateDictForm) else StateDictForm({})


def to_tensors(network: Network) -> dict[str, npt.NDArray[Any]]:
    """Return all tensors by key: those of the form that the network came in, in its order, with the new weights."""
    form = form_of(network)
    tensors = dict(form.tensors)
    if not form.tensors:
        for name, affine in zip(network.names, network.affines, strict=True):
            tensors |= {tensor_key(name, "weight"): affine.weight, tensor_key(name, "bias"): affine.bias}
        return tensors
    for layer in network.stored_layers:
        name, weight, bias, norms = layer.name, layer.weight, layer.bias, layer.norms
        tensors[tensor_key(name, "weight")] = weight
        if bias is not None and (tensor_key(name, "bias") in tensors or bias.any()):
            tensors[tensor_key(name, "bias")] = bias
        tensors |= {tensor_key(str(norm.name), "bias"): norm.shift for norm in norms if norm.shift is not None}
    return tensors


def to_note(network: Network) -> str:
    """Return what a state dict cannot say, as JSON; Python's repr of a float round-trips exactly."""
    activations = [{"name": a.name, "slope": a.slope} for a in network.activations]
    tensors = to_tensors(network)
    if len(tensors) == 2 * network.depth:
        note = {"version": 1, "names": network.names, "activations": activations, "closing": network.closing}
        return json.dumps(note)
    layers: list[dict[str, Any]] = []
    for name, affine, after in zip(network.names, network.affines, [*activations, None], strict=True):
        fold = affine.fold
        layers += [{"norm": norm.name, "epsilon": norm.epsilon} for norm in (fold.before if fold else ())]
        layers.append({"affine": name})
        layers += [{"norm": norm.name, "epsilon": norm.epsilon} for norm in (fold.after if fold else ())]
        layers += [{"activation": after}] if after is not None and after["name"] != "identity" else []
    return json.dumps({"version": 2, "layers": layers, "closing": network.closing})


def from_tensors(
    tensors: Tensors, note: str | None, activation: Activation, source: str, form: StateDictForm | None = None
) -> Network:
    """Return the network in a state dict, its keys in order; `note` is what `to_note` wrote, if anything."""
    steps = _steps(tensors, activation, source) if note is None else _noted(tensors, note, source)
    return build_network(steps, source, form)


def _noted(tensors: Tensors, note: str, source: str) -> list[Step]:
    """Return the steps that fairmend's note describes, which must use every tensor of the file."""
    try:
        said = json.loads(note)
        if said["version"] == 1:
            entries = _entries(said)
        elif said["version"] == 2:
            entries = list(said["layers"])
        else:
            raise FairmendError(f"version {said['version']} is not one this fairmend reads; upgrade fairmend")
        named = {_name_of(entry): entry for entry in entries if "activation" not in entry}
        groups = {name: parts for name, parts in _groups(tensors).items() if parts}
        if set(named) != set(groups):
            raise FairmendError(f"names other layers than the file holds: {sorted(set(named) ^ set(groups))}")
        steps: list[Step] = []
        for entry in entries:
            if "activation" in entry:
                given = entry["activation"]
                steps.append(Nonlinear("the note", Activation(str(given["name"]), float(given["slope"]))))
                continue
            layer = _layer(_name_of(entry), groups[_name_of(entry)], source)
            if isinstance(layer, Linear) != ("affine" in entry):
                raise FairmendError(f"calls the layer {_name_of(entry)!r} something else than it is")
            steps.append(layer if isinstance(layer, Linear) else replace(layer, epsilon=float(entry["epsilon"])))
        return [*steps, *_CLOSINGS[said["closing"]]]
    except FairmendError as error:
        raise FairmendError(f"{source}: fairmend's note in the file: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FairmendError(f"{source}: fairmend's note in the file is damaged ({error!r}); save it again") from error


def _name_of(entry: Mapping[str, Any]) -> str:
    return str(entry["affine"] if "affine" in entry else entry["norm"])


def _entries(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of version 2 for a note of version 1."""
    names, activations = list(said["names"]), list(said["activations"])
    if len(activations) != len(names) - 1:
        raise FairmendError(f"names {len(names)} layers and {len(activations)} activations between them")
    entries: list[dict[str, Any]] = []
    for name, after in zip(names, [*activations, None], strict=True):
        entries.append({"affine": str(name)})
        entries += [{"activation": after}] if after is not None and after["name"] != "identity" else []
    return entries


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
    return [_layer(prefix, parts, source) for prefix, parts in _groups(tensors).items()]


def _groups(tensors: Tensors) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Return the tensors of each layer, by the prefix of their keys."""
    groups: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for full, tensor in tensors.items():
        prefix, _, part = full.rpartition(".")
        groups.setdefault(prefix, {})[part] = tensor
    return groups


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

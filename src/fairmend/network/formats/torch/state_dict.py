"""State dicts in .pth and .safetensors files: weights by key, with a note of fairmend's beside them.

A state dict holds no architecture. fairmend writes its steps into a note (JSON) in the file; files without one are read
by their keys.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Lookup, Network
from fairmend.network.description import describe_network
from fairmend.network.form import FormError
from fairmend.network.formats.build import unsupported
from fairmend.network.formats.torch.steps import Entry, Tensors, layer_name, norm_name, replay, step_name

# State dicts without a note: one chain of affine layers in the order of the keys, or a refusal with the way out.


WAY_OUT = (
    "a state dict does not hold the architecture. In Python, pass the module itself, load_network(module), or save the "
    "model with its architecture: torch.export.save or torch.onnx.export"
)
_EPSILON = 1e-5  # torch.nn.BatchNorm1d's default; a state dict does not hold it
_NORM_PARTS = {"running_mean", "running_var", "weight", "bias", "num_batches_tracked"}


def tensor_key(name: str, part: str) -> str:
    """Return 'layers.0.weight' for 'layers.0' and 'weight'; a single nn.Linear has no prefix."""
    return f"{name}.{part}" if name else part


def steps_of_keys(tensors: Tensors, activation: Activation | None, source: str) -> list[Entry]:
    """Return the affine layers in key order, the activation between them, and BatchNorm where its number puts it."""
    layers = {name: _layer_of(name, parts, source) for name, parts in _layers_by_prefix(tensors).items()}
    names = list(layers)
    linears = [i for i, name in enumerate(names) if layers[name]["kind"] == "affine"]
    if not linears:
        raise unsupported(source, "the state dict", "holds no affine layer (no 2-D X.weight)")
    shapes = {names[i]: tensors[layers[names[i]]["weight"]].shape for i in linears}
    _require_one_order(shapes, source)
    if activation is None:
        if len(linears) > 1:
            raise FairmendError(
                f"{source}: {WAY_OUT}. If it is one chain of its {len(linears)} affine layers in the order of its "
                'keys, say which activation is between them: activation="relu" (--activation relu)'
            )
        activation = Activation("identity")
    act = [] if activation.name == "identity" else [activation.entry]
    found = [{"kind": "input", "columns": shapes[names[linears[0]]][1]}]
    found += [layers[name] for name in names[: linears[0] + 1]]
    for before, after in pairwise(linears):
        between = names[before + 1 : after]
        norms = [layers[name] for name in between]
        first = not between or not act or _norm_comes_first(names[before], between, names[after], source)
        found += [*norms, *act, layers[names[after]]] if first else [*act, *norms, layers[names[after]]]
    found += [layers[name] for name in names[linears[-1] + 1 :]]
    return [{**entry, "sources": [i - 1] if i else []} for i, entry in enumerate(found)]


def _require_one_order(shapes: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Refuse layers that do not form one chain: widths that do not fit, or that fit in another order as well."""
    for before, after in pairwise(shapes):
        if shapes[before][0] != shapes[after][1]:
            raise FairmendError(
                f"{source}: layer {after!r} takes {shapes[after][1]} values, but the layer before it gives "
                f"{shapes[before][0]}, so that the keys are not one chain in order; {WAY_OUT}"
            )
    if not _are_numbered(list(shapes)) and _orders(list(shapes.values()), 2) > 1:
        raise FairmendError(
            f"{source}: its layers fit together in another order than that of their keys as well "
            f"({', '.join(repr(name) for name in list(shapes)[:6])}); {WAY_OUT}"
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


def _orders(shapes: Sequence[tuple[int, ...]], most: int) -> int:
    """Return in how many orders layers of these shapes are a chain, counted up to ``most``."""

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


def _norm_comes_first(before: str, between: Sequence[str], after: str, source: str) -> bool:
    """Return whether the BatchNorm between two affine layers comes before the activation; raise if it is not clear.

    In an nn.Sequential the numbers show it: 0 affine, 1 norm, 3 affine, or 0 affine, 2 norm, 3 affine.
    """
    follows, precedes = _adjacent(before, between[0]), _adjacent(between[0], after)
    if len(between) > 1 or follows == precedes:
        raise FairmendError(
            f"{source}: a state dict does not say whether BatchNorm {between[0]!r} comes before or after the "
            f"activation between {before!r} and {after!r}; load the nn.Module, or export it to ONNX"
        )
    return follows


def _adjacent(first: str, second: str) -> bool:
    """Return whether two names are neighbours in one nn.Sequential, as 'net.0' and 'net.1' are."""
    stem, _, number = first.rpartition(".")
    other, _, successor = second.rpartition(".")
    return stem == other and number.isdecimal() and successor.isdecimal() and int(successor) == int(number) + 1


def _layers_by_prefix(tensors: Tensors) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Return the tensors of each layer, by the prefix of their keys."""
    groups: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for full, tensor in tensors.items():
        prefix, _, part = full.rpartition(".")
        groups.setdefault(prefix, {})[part] = tensor
    return groups


def _layer_of(name: str, parts: Mapping[str, npt.NDArray[Any]], source: str) -> Entry:
    """Return the layer that has these tensors, as a step: affine or batch normalisation; refuse any other."""
    keys = {part: tensor_key(name, part) if part in parts else None for part in ("weight", "bias")}
    if "running_mean" in parts and "running_var" in parts and set(parts) <= _NORM_PARTS:
        mean, variance = tensor_key(name, "running_mean"), tensor_key(name, "running_var")
        norm: Entry = {"kind": "batch_norm", "mean": mean, "variance": variance}
        return {**norm, "gain": keys["weight"], "shift": keys["bias"], "epsilon": _EPSILON}
    if "weight" in parts and parts["weight"].ndim == 2 and set(parts) <= {"weight", "bias"}:
        return {"kind": "affine", **keys}
    shapes = ", ".join(f"{tensor_key(name, part)} {tensor.shape}" for part, tensor in parts.items())
    raise unsupported(source, f"layer {name!r}", f"is neither affine nor BatchNorm1d: {shapes}; {WAY_OUT}")


def describe_elsewhere(network: Network) -> tuple[list[Entry], dict[str, npt.NDArray[Any]]]:
    """Return steps and tensors for a network that came from elsewhere; norms stay folded into the affine layers."""
    found = describe_network(network, stored=False)
    if network.closing != "none":
        found.close(network.closing)
        if network.rescaling is not None:
            found.rescale(network.rescaling)
    return found.steps, found.tensors


NESTED = ("state_dict", "model_state_dict", "model")  # where a checkpoint holds its state dict
NOTE = "fairmend"  # the key of the note in either format's metadata


@dataclass(frozen=True, eq=False)
class StateDictForm:
    """All tensors of a state dict in their order, and what its file or module holds beside them.

    `versions` are those of the modules, which torch keeps with a state dict, and `metadata` the texts in the header of
    a .safetensors file. `description` has the steps of the model (see `steps`). `module` is a copy of the module that
    the network was read from, in eval mode, and `tied` are keys that name one tensor. `checkpoint` is what a checkpoint
    holds beside its state dict, whose own place is None, and `copied` are tensors that must not change, as the module
    computes with them outside of the affine layers as well.
    """

    tensors: Tensors
    versions: Any = None
    metadata: Mapping[str, str] | None = None
    description: tuple[Entry, ...] = ()
    module: Any = field(default=None, repr=False)
    tied: tuple[tuple[str, ...], ...] = ()
    checkpoint: Mapping[str, Any] | None = field(default=None, repr=False)
    copied: frozenset[str] = frozenset()
    suffixes: ClassVar[tuple[str, ...]] = (".pth", ".pt", ".ckpt", ".safetensors")

    @property
    def part(self) -> str | None:
        """The key of the state dict in its checkpoint; None if the file holds it alone."""
        held = {} if self.checkpoint is None else self.checkpoint
        return next((key for key in NESTED if key in held and held[key] is None), None)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the module: its class may not be one that can be pickled."""
        return {**self.__dict__, "module": None}

    def describe(self, network: Network) -> tuple[list[Entry], Tensors]:
        """Return the steps of the module, and the tensors with the weights of `network`."""
        return list(self.description), to_tensors(network)

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`."""
        if suffix == ".safetensors":
            from fairmend.network.formats.torch import safetensors

            return safetensors.to_bytes(network)
        from fairmend.network.formats.torch import pth

        return pth.to_checkpoint(network) if suffix == ".ckpt" else pth.to_bytes(network)

    def to_module(self, network: Network) -> Any:
        """Return a copy of the module with the weights of `network`."""
        if self.module is None:
            raise FormError(
                "the network was not read from a module in memory; save it as .pth and load that into your module: "
                "module.load_state_dict(torch.load(path))"
            )
        import torch

        module = copy.deepcopy(self.module)
        tensors = {key: torch.tensor(array) for key, array in to_tensors(network).items()}
        module.load_state_dict(tensors, strict=True)
        return module


def form_of(network: Network) -> StateDictForm:
    """Return the form that the network came in; one without any tensors if it came from elsewhere."""
    return network.form if isinstance(network.form, StateDictForm) else StateDictForm({})


def to_tensors(network: Network) -> dict[str, npt.NDArray[Any]]:
    """Return all tensors by key: those of the form that the network came in, in its order, with the new weights."""
    form = form_of(network)
    if not form.tensors:
        return describe_elsewhere(network)[1]
    tensors = dict(form.tensors)
    entries = {step_name(entry, form.tensors): entry for entry in form.description if entry["kind"] == "affine"}
    tables = {layer_name(entry["table"]): entry["table"] for entry in form.description if "table" in entry}
    shifts = {norm_name(entry["mean"]): entry["shift"] for entry in form.description if entry["kind"] == "batch_norm"}
    for layer in network.stored_layers:
        entry = entries.get(layer.name, {})
        if layer.weight.size:
            weight = layer.weight.swapaxes(-1, -2) if entry.get("transposed") else layer.weight
            _put(tensors, entry.get("weight", tensor_key(layer.name, "weight")), weight, layer.block, _blocks(entry))
        if layer.bias is not None:
            _put(tensors, entry.get("bias") or tensor_key(layer.name, "bias"), layer.bias, layer.block, _blocks(entry))
        for norm in layer.norms:
            if norm.name is not None and norm.shift is not None:
                _put(tensors, shifts.get(norm.name) or tensor_key(norm.name, "bias"), norm.shift)
    for node in network.nodes:
        if isinstance(node.operation, Lookup) and node.operation.stored:
            _put(tensors, tables.get(node.name, node.name), node.operation.table)
    for key in sorted(form.copied):
        if not np.array_equal(tensors[key], form.tensors[key]):
            raise FormError(f"the module computes with {key!r} outside of its layer as well; give it a copy there")
    for keys in form.tied:
        changed = next((key for key in keys if tensors[key] is not form.tensors[key]), keys[0])
        tensors |= dict.fromkeys(keys, tensors[changed])
    return tensors


def _blocks(entry: Entry) -> int:
    return int(entry.get("blocks", 1))


def _put(
    tensors: dict[str, npt.NDArray[Any]], key: str, array: npt.NDArray[Any], block: int | None = None, blocks: int = 1
) -> None:
    """Replace a tensor, or one of its blocks; raise FormError if the form has no place for it."""
    if key not in tensors:
        raise FormError(f"the module has no tensor {key!r}")
    shape = tensors[key].shape
    if block is not None:
        whole = tensors[key].copy().reshape(blocks, -1)
        whole[block] = array.reshape(-1)
        array = whole
    tensors[key] = array.reshape(shape) if array.size == tensors[key].size else array


def to_note(network: Network) -> str:
    """Return the steps on the tensors of `to_tensors` as JSON; Python's repr of a float round-trips exactly."""
    form = form_of(network)
    return json.dumps({"steps": list(form.description) if form.tensors else describe_elsewhere(network)[0]})


def from_tensors(
    tensors: Tensors, note: str | None, activation: Activation | None, source: str, form: StateDictForm
) -> Network:
    """Return the network in a state dict, its keys in order; `note` is what `to_note` wrote, if anything."""
    if note is None:
        steps = steps_of_keys(tensors, activation, source)
        places = [_words(step) for step in steps]
        return replay(steps, tensors, source, replace(form, description=tuple(steps)), places)
    try:
        steps = list(json.loads(note)["steps"])
        return replay(steps, tensors, source, replace(form, description=tuple(steps)))
    except FairmendError as error:
        raise FairmendError(f"{source}: fairmend's note in the file: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FairmendError(f"{source}: fairmend's note in the file is damaged ({error!r}); save it again") from error


def _words(step: Entry) -> str:
    """Return what messages call a step of a state dict without a note."""
    if step["kind"] == "affine":
        return f"layer {layer_name(step['weight'])!r}"
    if step["kind"] == "batch_norm":
        return f"layer {norm_name(step['mean'])!r} (BatchNorm1d)"
    return "the input" if step["kind"] == "input" else f"the activation {step['name']}"

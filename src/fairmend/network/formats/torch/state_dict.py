"""State dicts in .pth and .safetensors files: weights by key, with a note of fairmend's beside them.

A state dict holds no architecture. fairmend writes it into a note (JSON) in the file; `keys` reads files without one.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Lookup, Network
from fairmend.network.description import describe_network
from fairmend.network.folding import Norm
from fairmend.network.form import FormError
from fairmend.network.formats.chain import Linear, Nonlinear, Softmax, Step, build_network, unsupported
from fairmend.network.formats.torch.steps import Entry, Tensors, layer_name, norm_name, replay

# State dicts without a note: one chain of affine layers in the order of the keys, or a refusal with the way out.


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


_COUNTER = "num_batches_tracked"
_LETTERS = {"input": "", "batch_norm": "", "affine": "a", "function": "f", "softmax": "s"}
_NORM_KEYS = {"mean": "running_mean", "variance": "running_var", "gain": "weight", "shift": "bias"}


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
        keys = {part: entry[part] for part in _NORM_KEYS}
        wanted = {part: None if keys[part] is None else f"{name}{_NORM_KEYS[part]}" for part in _NORM_KEYS}
        return {key for key in keys.values() if key is not None} if keys == wanted else None
    if kind == "function":
        return None if "parameters" in entry else set()
    return set() if kind in ("softmax", "input") and "inputs" not in entry else None


def describe_elsewhere(network: Network) -> tuple[dict[str, npt.NDArray[Any]], tuple[Entry, ...]]:
    """Return tensors and steps for a network that came from elsewhere; norms stay folded into the affine layers."""
    found = describe_network(network, stored=False)
    if network.closing != "none":
        found.close(network.closing)
    return found.tensors, tuple(found.steps)


NESTED = ("state_dict", "model_state_dict", "model")  # where a checkpoint holds its state dict
NOTE = "fairmend"  # the key of the note in either format's metadata

_CLOSINGS: dict[str, list[Step]] = {
    "none": [],
    "sigmoid": [Nonlinear("the note", Activation("sigmoid"))],
    "softmax": [Softmax("the note")],
}


@dataclass(frozen=True, eq=False)
class StateDictForm:
    """All tensors of a state dict in their order, and what its file or module holds beside them.

    `versions` are those of the modules, which torch keeps with a state dict, and `metadata` the texts in the header of
    a .safetensors file. `description` has the steps of the model (see `steps`); it is empty for a plain chain, whose
    layers the network itself names. `module` is a copy of the module that the network was read from, in eval mode, and
    `tied` are keys that name one tensor. `checkpoint` is what a checkpoint holds beside its state dict, whose own place
    is None.
    """

    tensors: Tensors
    versions: Any = None
    metadata: Mapping[str, str] | None = None
    description: tuple[Entry, ...] = ()
    module: Any = field(default=None, repr=False)
    tied: tuple[tuple[str, ...], ...] = ()
    checkpoint: Mapping[str, Any] | None = field(default=None, repr=False)
    suffixes: ClassVar[tuple[str, ...]] = (".pth", ".pt", ".ckpt", ".safetensors")

    @property
    def part(self) -> str | None:
        """The key of the state dict in its checkpoint; None if the file holds it alone."""
        held = {} if self.checkpoint is None else self.checkpoint
        return next((key for key in NESTED if key in held and held[key] is None), None)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the module: its class may not be one that can be pickled."""
        return {**self.__dict__, "module": None}

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
        return describe_elsewhere(network)[0]
    tensors = dict(form.tensors)
    entries = {layer_name(entry["weight"]): entry for entry in form.description if entry["kind"] == "affine"}
    tables = {layer_name(entry["table"]): entry["table"] for entry in form.description if "table" in entry}
    shifts = {norm_name(entry["mean"]): entry["shift"] for entry in form.description if entry["kind"] == "batch_norm"}
    for layer in network.stored_layers:
        entry = entries.get(layer.name, {})
        weight = entry.get("weight", tensor_key(layer.name, "weight"))
        tensors[weight] = layer.weight.T if entry.get("transposed") else layer.weight
        if layer.bias is not None:
            _put(tensors, entry.get("bias") or tensor_key(layer.name, "bias"), layer.bias)
        for norm in layer.norms:
            if norm.name is not None and norm.shift is not None:
                _put(tensors, shifts.get(norm.name) or tensor_key(norm.name, "bias"), norm.shift)
    for node in network.nodes:
        if isinstance(node.operation, Lookup) and node.operation.stored:
            _put(tensors, tables.get(node.name, node.name), node.operation.table)
    for keys in form.tied:
        changed = next((key for key in keys if tensors[key] is not form.tensors[key]), keys[0])
        tensors |= dict.fromkeys(keys, tensors[changed])
    return tensors


def described_file(path: Path) -> tuple[list[Entry], Tensors] | None:
    """Return the steps in fairmend's note in a file, none for a plain chain, and its tensors; None without a note.

    A file that cannot be read has no note: fairmend wrote none of these, and `check` says what is wrong with it.
    """
    try:
        tensors, note = _contents(path)
    except FairmendError:
        return None
    return None if note is None else (list(json.loads(note).get("steps", ())), tensors)


def _contents(path: Path) -> tuple[Tensors, str | None]:
    if path.suffix.lower() == ".safetensors":
        from fairmend.network.formats.torch import safetensors

        return safetensors.contents(path)
    from fairmend.network.formats.torch import pth

    return pth.contents(path)


def _put(tensors: dict[str, npt.NDArray[Any]], key: str, array: npt.NDArray[Any]) -> None:
    """Replace a tensor; raise FormError if the form has no place for it."""
    if key not in tensors:
        raise FormError(f"the module has no tensor {key!r}")
    tensors[key] = array


def description_of(network: Network) -> tuple[Entry, ...]:
    """Return the steps of the network, on the tensors that `to_tensors` returns."""
    form = form_of(network)
    if not form.tensors:
        return describe_elsewhere(network)[1]
    return form.description or _chain_description(network, to_tensors(network))


def _chain_description(network: Network, tensors: Tensors) -> tuple[Entry, ...]:
    """Return the steps of a chain whose layers have PyTorch's names."""
    entries: list[Entry] = [{"kind": "input", "columns": network.inputs}]
    for name, affine, after in zip(network.names, network.affines, [*network.activations, None], strict=True):
        fold = affine.fold
        entries += [_norm_entry(norm, tensors) for norm in (fold.before if fold else ())]
        bias = tensor_key(name, "bias")
        weight = tensor_key(name, "weight")
        entries.append({"kind": "affine", "weight": weight, "bias": bias if bias in tensors else None})
        entries += [_norm_entry(norm, tensors) for norm in (fold.after if fold else ())]
        if after is not None and after.name != "identity":
            entries.append({"kind": "function", **after.entry})
    if network.closing != "none":
        closing = {"kind": "softmax"} if network.closing == "softmax" else {"kind": "function", "name": "sigmoid"}
        entries.append(closing)
    return tuple({**entry, "sources": [i - 1] if i else []} for i, entry in enumerate(entries))


def _norm_entry(norm: Norm, tensors: Tensors) -> Entry:
    parts = {"mean": "running_mean", "variance": "running_var", "gain": "weight", "shift": "bias"}
    keys = {part: tensor_key(str(norm.name), name) for part, name in parts.items()}
    found = {part: key if key in tensors else None for part, key in keys.items()}
    return {"kind": "batch_norm", **found, "epsilon": norm.epsilon}


def needs_description(network: Network) -> bool:
    """Return whether a list of layers does not say what the network computes: it is no chain of plain layers."""
    parameters = any(activation.parameters for activation in network.activations)
    return not network.is_chain or parameters or bool(form_of(network).description)


def to_note(network: Network) -> str:
    """Return what a state dict cannot say, as JSON; Python's repr of a float round-trips exactly."""
    if needs_description(network):
        return json.dumps({"version": 3, "steps": description_of(network)})
    activations = [{"name": a.name, "slope": a.slope} for a in network.activations]
    if set(to_tensors(network)) == {tensor_key(name, part) for name in network.names for part in ("weight", "bias")}:
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
    tensors: Tensors, note: str | None, activation: Activation | None, source: str, form: StateDictForm
) -> Network:
    """Return the network in a state dict, its keys in order; `note` is what `to_note` wrote, if anything."""
    if note is not None:
        return _noted(tensors, note, source, form)
    return build_network(steps_of_keys(tensors, activation, source), source, form)


def _noted(tensors: Tensors, note: str, source: str, form: StateDictForm) -> Network:
    """Return the network that fairmend's note describes."""
    try:
        said = json.loads(note)
        if said["version"] == 3:
            return replay(said["steps"], tensors, source, replace(form, description=tuple(said["steps"])))
        if said["version"] not in (1, 2):
            raise FairmendError(f"version {said['version']} is not one this fairmend reads; upgrade fairmend")
        entries = _entries(said) if said["version"] == 1 else list(said["layers"])
        named = {_name_of(entry): entry for entry in entries if "activation" not in entry}
        groups = {name: parts for name, parts in layers_by_prefix(tensors).items() if parts}
        if set(named) != set(groups):
            raise FairmendError(f"names other layers than the file holds: {sorted(set(named) ^ set(groups))}")
        steps: list[Step] = []
        for entry in entries:
            if "activation" in entry:
                given = entry["activation"]
                steps.append(Nonlinear("the note", Activation(str(given["name"]), float(given["slope"]))))
                continue
            layer = layer_of(_name_of(entry), groups[_name_of(entry)], source)
            if isinstance(layer, Linear) != ("affine" in entry):
                raise FairmendError(f"calls the layer {_name_of(entry)!r} something else than it is")
            steps.append(layer if isinstance(layer, Linear) else replace(layer, epsilon=float(entry["epsilon"])))
        return build_network([*steps, *_CLOSINGS[said["closing"]]], source, form)
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

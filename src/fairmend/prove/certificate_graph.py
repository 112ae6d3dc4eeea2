"""The layers of a chain and the steps of any other network, as a certificate names them for a state dict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network import Activation, Affine, Columns, Concatenate, Input, Lookup, Network, Scale, Sum
from fairmend.network.folding import Norm
from fairmend.network.formats.torch.state_dict import described_file, description_of, form_of, to_tensors
from fairmend.network.formats.torch.steps import Entry, Tensors, layer_name, norm_name
from fairmend.network.graph import Node

_COUNTER = "num_batches_tracked"
_NORM_PARTS = {"mean": "running_mean", "variance": "running_var", "gain": "weight", "shift": "bias"}


def steps_of_description(entries: Sequence[Entry], tensors: Tensors) -> tuple[dict[str, Any], ...]:
    """Return the description of a PyTorch model (`network.formats.torch.steps`) as the steps that a certificate names.

    What closes the network is left out. Numbers that the code of a module may take from any tensor, such as the mean
    and the deviation of a scaling, are listed themselves. Tensors that no step names are listed as unused.
    """
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
    return _scale_step(values["mean"], gain, values.get("shift", np.zeros(())))


def _scale(entry: Entry, tensors: Tensors) -> dict[str, Any]:
    def numbers(part: str, default: float) -> npt.NDArray[np.float64]:
        given = entry.get(part, default)
        return np.asarray(tensors[given] if isinstance(given, str) else given, np.float64)

    gain = numbers("gain", 1.0)
    if "divisor" in entry:
        gain = 1 / numbers("divisor", 1.0) if "gain" not in entry else gain / numbers("divisor", 1.0)
    return _scale_step(numbers("mean", 0.0), gain, numbers("shift", 0.0))


def _scale_step(mean: npt.NDArray[Any], gain: npt.NDArray[Any], shift: npt.NDArray[Any]) -> dict[str, Any]:
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


@dataclass
class _Steps:
    """The steps so far."""

    found: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, sources: Sequence[int], **more: Any) -> int:
        self.found.append({"kind": kind, "sources": list(sources), **more})
        return len(self.found) - 1

    def norms(self, norms: Sequence[Norm], source: int) -> int:
        """Add norms one after the other."""
        for norm in norms:
            if norm.variance is not None and norm.name is not None:
                source = self.add("batch_norm", [source], name=norm.name, epsilon=float(norm.epsilon))
            else:
                source = self.add("scale", [source], **_line(norm))
        return source

    def affine(self, affine: Affine, name: str, sources: Sequence[int]) -> int:
        """Add an affine layer as it is stored, with the norms beside it; ``sources`` are those of each part."""
        fold = affine.fold
        if fold is None:
            return self.add("affine", sources, name=name)
        if not fold.parts:
            own = self.add("affine", [self.norms(fold.before, sources[0])], name=name)
            return self.norms(fold.after, own)
        parts = []
        for part, source in zip(fold.parts, sources, strict=True):
            own = self.add("affine", [source], name=part.name)
            parts.append(
                own if part.factor == 1 else self.add("scale", [own], mean=[0.0], gain=[part.factor], shift=[0.0])
            )
        return self.add("sum", parts)


def layers_of(network: Network) -> tuple[dict[str, Any], ...]:
    """Return the layers of a state dict in the order of computation, each with the activation after it."""
    layers: list[dict[str, Any]] = []
    after = [*network.activations, Activation("identity")]
    for name, affine, activation in zip(network.names, network.affines, after, strict=True):
        fold = affine.fold
        layers += [_layer(str(norm.name), norm.epsilon) for norm in (fold.before if fold else ())]
        layers.append(_layer(name))
        layers += [_layer(str(norm.name), norm.epsilon) for norm in (fold.after if fold else ())]
        layers[-1] |= {"activation": activation.name, "slope": float(activation.slope)}
        layers[-1] |= {"parameters": list(activation.parameters)} if activation.parameters else {}
    layers[-1] |= {"activation": "none"}
    return tuple(layers)


def _layer(name: str, epsilon: float | None = None) -> dict[str, Any]:
    layer: dict[str, Any] = {"name": name, "activation": "identity", "slope": 0.0}
    return layer if epsilon is None else {**layer, "epsilon": epsilon}


def steps_of(network: Network) -> tuple[dict[str, Any], ...]:
    """Return the steps of a network, each with the numbers of the steps that it reads; none for a plain chain."""
    if form_of(network).description:
        return steps_of_description(description_of(network), to_tensors(network))
    return () if network.is_chain else steps_of_nodes(network)


def steps_of_file(path: Path) -> tuple[dict[str, Any], ...] | None:
    """Return the steps that fairmend's note in a file describes, none for a plain chain; None if there is no note."""
    found = described_file(path)
    if found is None:
        return None
    entries, tensors = found
    return steps_of_description(entries, tensors) if entries else ()


def steps_of_nodes(network: Network) -> tuple[dict[str, Any], ...]:
    """Return the steps of a network from its nodes alone."""
    steps = _Steps()
    places: list[int] = []  # the step of each node
    for node in network.nodes:
        operation, sources = node.operation, [places[source] for source in node.sources]
        if isinstance(operation, Affine):
            joined = operation.fold is not None and len(operation.fold.parts) > 0
            reads = [places[source] for source in network.nodes[node.sources[0]].sources] if joined else sources
            places.append(steps.affine(operation, node.name, reads))
        elif isinstance(operation, Scale):
            places.append(steps.norms(operation.norms, sources[0]))
        elif isinstance(operation, Concatenate) and (len(sources) == 1 or _feeds_joined(network, node)):
            places.append(sources[0])
        else:
            places.append(_add(steps, node, sources))
    return tuple(steps.found)


def _add(steps: _Steps, node: Node, sources: list[int]) -> int:
    operation = node.operation
    if isinstance(operation, Input):
        return steps.add("input", [], columns=operation.columns)
    if isinstance(operation, Activation):
        if operation.name == "prelu" and node.name:
            return steps.add("prelu", sources, name=node.name)
        numbers = {"slope": float(operation.slope), "parameters": list(operation.parameters)}
        return steps.add("function", sources, function=operation.name, **numbers)
    if isinstance(operation, Columns):
        return steps.add("columns", sources, indices=list(operation.indices))
    if isinstance(operation, Lookup):
        return steps.add("lookup", sources, name=node.name)
    return steps.add("sum" if isinstance(operation, Sum) else "concatenate", sources)


def _feeds_joined(network: Network, node: Node) -> bool:
    """Return whether this concatenation is only what a head of several parts reads."""
    head = network.nodes[-1]
    joined = network.head.fold is not None and len(network.head.fold.parts) > 0
    return joined and network.nodes[head.sources[0]] is node


def _line(norm: Norm) -> dict[str, list[float]]:
    """Return (x − mean)·gain + shift of a scaling."""
    gain = np.ones(()) if norm.gain is None else np.asarray(norm.gain, np.float64)
    if norm.variance is not None:
        gain = 1 / np.sqrt(np.asarray(norm.variance, np.float64) + norm.epsilon) * gain
    parts = {"mean": norm.mean, "gain": gain, "shift": np.zeros(()) if norm.shift is None else norm.shift}
    return {name: np.asarray(part, np.float64).reshape(-1).tolist() for name, part in parts.items()}

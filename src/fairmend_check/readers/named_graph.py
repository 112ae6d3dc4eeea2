"""The graph of a module as a certificate names it: "State dicts" of docs/certificate.md.

A state dict stores tensors by name. What a module computes with them is not in the file, so the certificate lists it
step by step, and the claim holds on the condition that the module computes just that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.json_reader import numbers, only_keys, take
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.functions import ACTIVATIONS, Activation
from fairmend_check.kernel.model import MAX_NODES, MAX_WIDTH, Layer, Model
from fairmend_check.kernel.operations.affine import batch_norm, scaling

Tensors = dict[str, NDArray[Any]]

_KEYS = {  # of each kind of step, beside "kind" and "sources"
    "input": ("columns", "unused"),
    "affine": ("name",),
    "matrix": ("weight", "bias", "transposed"),
    "batch_norm": ("name", "epsilon"),
    "scale": ("mean", "gain", "shift"),
    "function": ("function", "slope", "parameters"),
    "prelu": ("name",),
    "sum": (),
    "concatenate": (),
    "columns": ("indices",),
    "lookup": ("name",),
    "one_hot": ("classes",),
}
_LAYER_KEYS = ("name", "activation", "slope", "epsilon", "parameters")
_NONE = Activation("none")
_MOST_CLASSES = 2**12  # of a one-hot code
_COUNTER = "num_batches_tracked"  # of BatchNorm: whole numbers, which inference does not use


@dataclass(frozen=True)
class Step:
    """A step of the module, on the results of earlier steps; ``numbers`` are those of a scale, by their names.

    ``columns`` are those of the input, or the classes of a one-hot code. ``unused`` are tensors that no step uses.
    """

    kind: str
    sources: tuple[int, ...]
    name: str = ""
    epsilon: float = 0.0
    columns: int = 0
    unused: tuple[str, ...] = ()
    bias: str = ""
    transposed: bool = False
    indices: tuple[int, ...] = ()
    activation: Activation | None = None
    numbers: dict[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class NamedGraph:
    """The steps of a module in the order of computation; the last one gives the outputs."""

    steps: tuple[Step, ...]


def read_named_graph(entries: Sequence[Any], where: str) -> NamedGraph:
    """Return the graph in a certificate."""
    if not 2 <= len(entries) <= MAX_NODES:
        raise CheckError(f"{where} has {len(entries)} steps; it must have 2 to {MAX_NODES:,}")
    return NamedGraph(tuple(_step(entry, f"{where}[{number}]", number) for number, entry in enumerate(entries)))


def _step(entry: Any, where: str, number: int) -> Step:
    kind, sources = take(entry, "kind", str, where), take(entry, "sources", list, where)
    if kind not in _KEYS or (kind == "input") != (number == 0):
        raise CheckError(f"{where}.kind is {kind[:40]!r}, which is not allowed there")
    only_keys(entry, ("kind", "sources", *_KEYS[kind]), where)
    if not all(type(source) is int and 0 <= source < number for source in sources):
        raise CheckError(f"{where}.sources must be numbers of steps before it")
    several = kind in ("sum", "concatenate")
    if len(sources) < 2 if several else len(sources) != (kind != "input"):
        raise CheckError(f"{where}.sources has {len(sources)} entries, which is not what {kind} reads")
    step = Step(kind, tuple(sources))
    if "name" in _KEYS[kind]:
        step = replace(step, name=layer_name(entry, where))
    if kind == "batch_norm":
        step = replace(step, epsilon=epsilon_of(entry, where))
    if kind == "input":
        step = replace(step, columns=take(entry, "columns", int, where))
        if not 0 < step.columns <= MAX_WIDTH:
            raise CheckError(f"{where}.columns is {step.columns}; it must be 1 to {MAX_WIDTH:,}")
        unused = take(entry, "unused", list, where) if "unused" in entry else []
        step = replace(step, unused=tuple(_name(key, f"{where}.unused") for key in unused))
    if kind == "matrix":
        names = {part: _name(entry.get(part), f"{where}.{part}") for part in ("weight", "bias")}
        step = replace(
            step, name=names["weight"], bias=names["bias"], transposed=take(entry, "transposed", bool, where)
        )
    if kind == "one_hot":
        step = replace(step, columns=take(entry, "classes", int, where))
        if not 0 < step.columns <= _MOST_CLASSES:
            raise CheckError(f"{where}.classes is {step.columns}; it must be 1 to {_MOST_CLASSES:,}")
    if kind == "columns":
        indices = take(entry, "indices", list, where)
        if not all(type(index) is int for index in indices):
            raise CheckError(f"{where}.indices must be column numbers")
        step = replace(step, indices=tuple(indices))
    if kind == "function":
        step = replace(step, activation=read_activation(entry, "function", where))
    if kind == "scale":
        lists = {key: take(entry, key, list, where) for key in _KEYS[kind]}
        found = {key: tuple(numbers(each, len(each), f"{where}.{key}").tolist()) for key, each in lists.items()}
        step = replace(step, numbers=found)
    return step


def layer_name(entry: Any, where: str) -> str:
    """Return the name of a layer, which is printed as a part of the condition."""
    return _name(take(entry, "name", str, where), f"{where}.name")


def _name(name: Any, where: str) -> str:
    if type(name) is not str or not re.fullmatch("[A-Za-z0-9_ .:/+-]{0,200}", name):
        raise CheckError(f"{where} must have at most 200 letters, digits, spaces and the signs _ . : / + -")
    return name


def epsilon_of(entry: Any, where: str) -> float:
    """Return the epsilon of a batch normalisation."""
    epsilon = take(entry, "epsilon", float, where)
    if not 0 <= epsilon <= 1:
        raise CheckError(f"{where}.epsilon is {epsilon!r}; it must be from 0 to 1")
    return epsilon


def read_activation(entry: Any, key: str, where: str) -> Activation:
    """Return a function by its name, slope and parameters; whether it is known, the model says."""
    given = take(entry, "parameters", list, where) if "parameters" in entry else []
    parameters = tuple(float(number) for number in numbers(given, len(given), f"{where}.parameters"))
    name = take(entry, key, str, where)
    if not re.fullmatch("[a-z_]{1,20}", name):
        raise CheckError(f"{where}.{key} is {name[:40]!r}, which is not the name of a function")
    return Activation(name, take(entry, "slope", float, where), parameters)


def graph_model(tensors: Tensors, named: NamedGraph) -> Model:
    """Return the model of these steps; every tensor must belong to one of them, and may belong to several."""
    graph, used, values, words = Graph(named.steps[0].columns), set[str](), [Graph.input], ["x"]
    sentences = []

    def tensor(step: Step, part: str, needed: bool = True) -> NDArray[np.floating] | None:
        return numbers_of(f"{step.name}.{part}" if step.name else part, needed)

    def numbers_of(key: str, needed: bool = True) -> NDArray[np.floating] | None:
        if key not in tensors:
            if needed:
                raise NotConfirmedError(f'the file has no tensor "{key[:60]}", which the certificate names')
            return None
        if tensors[key].dtype.kind != "f":
            raise CheckError(f'the tensor "{key[:60]}" holds whole numbers')
        used.add(key)
        return tensors[key]

    for number, step in enumerate(named.steps[1:], start=1):
        sources = [values[source] for source in step.sources]
        if step.kind == "matrix":
            values.append(_matrix(graph, step, sources[0], numbers_of))
        elif step.kind == "one_hot":
            dtype = next((array.dtype for array in tensors.values() if array.dtype.kind == "f"), None)
            values.append(graph.lookup(sources[0], np.eye(step.columns, dtype=dtype)))
        else:
            values.append(_add(graph, step, sources, tensor))
        words.append(f"v{number}")
        sentences.append(f"v{number} = {_described(step, [words[source] for source in step.sources])}")
    used |= {f"{step.name}.{_COUNTER}" for step in named.steps if step.kind == "batch_norm"}
    used |= set(named.steps[0].unused)
    left = [key for key in tensors if key not in used]
    if left:
        raise NotConfirmedError(f'the file contains the tensor "{left[0][:60]}", which belongs to no step')
    if named.steps[-1].kind == "function":
        raise CheckError("the certificate names a function after the last affine layer")
    model = graph.finish(values[-1])
    if model.closed or model.outputs != graph.width(values[-1]):
        raise CheckError("the certificate names a choice of probabilities, or the logarithm of one, as the output")
    return replace(model, condition=_condition(model, named, sentences, words[-1]))


def _matrix(graph: Graph, step: Step, source: int, tensor: Callable[..., Any]) -> int:
    """Add an affine layer whose tensors have names of their own, and may be stored as (in, out)."""
    weight = tensor(step.name)
    return graph.affine(source, weight.T if step.transposed else weight, tensor(step.bias) if step.bias else None)


def _add(graph: Graph, step: Step, sources: list[int], tensor: Callable[..., Any]) -> int:
    """Add a step to the graph, and return its value."""
    if step.kind == "affine":
        return graph.affine(sources[0], tensor(step, "weight"), tensor(step, "bias", False))
    if step.kind == "lookup":
        return graph.lookup(sources[0], tensor(step, "weight"))
    if step.kind == "batch_norm":
        mean, variance = (tensor(step, part) for part in ("running_mean", "running_var"))
        gain, shift = (tensor(step, part, False) for part in ("weight", "bias"))
        shapes = {part.shape for part in (mean, variance, gain, shift) if part is not None}
        if shapes != {(graph.width(sources[0]),)}:
            raise CheckError(f'"{step.name[:40]}" is not a batch normalisation of {graph.width(sources[0])} units')
        return graph.norm(sources[0], batch_norm(mean, variance, gain, shift, step.epsilon))
    if step.kind == "scale":
        mean, gain, shift = (_row(step.numbers[key], graph.width(sources[0])) for key in ("mean", "gain", "shift"))
        return graph.norm(sources[0], scaling(mean, gain, shift))
    if step.kind == "prelu":
        slopes = _row(tuple(tensor(step, "weight").reshape(-1).tolist()), graph.width(sources[0]))
        wide = np.broadcast_to(slopes, (graph.width(sources[0]),))
        return graph.function(sources[0], Activation("prelu", 0.0, tuple(wide.tolist())))
    if step.kind == "columns":
        return graph.columns(sources[0], step.indices)
    if step.activation is not None:
        return graph.function(sources[0], step.activation)
    return graph.sum(*sources) if step.kind == "sum" else graph.concatenate(*sources)


def _row(values: tuple[float, ...], width: int) -> NDArray[np.float64]:
    if len(values) not in (1, width):
        raise CheckError(f"a scale has {len(values)} numbers for {width} columns")
    return np.array(values) if len(values) == width else np.array(values[0])


def _described(step: Step, words: list[str]) -> str:
    """Return what a step computes, in words."""
    if step.kind in ("affine", "lookup"):
        return f'"{step.name}" of {words[0]}' if step.kind == "affine" else f'row {words[0]} of "{step.name}.weight"'
    if step.kind == "batch_norm":
        return f'"{step.name}" of {words[0]} (torch.nn.BatchNorm1d with eps = {step.epsilon!r})'
    if step.kind == "one_hot":
        return f"the one-hot code of {words[0]} among {step.columns} classes"
    if step.kind == "matrix":
        product = f'{words[0]} "{step.name}"' if step.transposed else f'{words[0]} "{step.name}" transposed'
        return product + (f' + "{step.bias}"' if step.bias else "")
    if step.kind == "prelu":
        return f'"{step.name}" of {words[0]} (torch.nn.PReLU)'
    if step.kind == "scale":
        mean, gain, shift = (", ".join(map(repr, step.numbers[key])) for key in ("mean", "gain", "shift"))
        return f"({words[0]} - [{mean}]) [{gain}] + [{shift}]"
    if step.kind == "columns":
        return f"columns {', '.join(map(str, step.indices))} of {words[0]}"
    if step.activation is not None:
        listed = ", ".join(map(repr, step.activation.parameters))
        sloped = step.activation.name == "leaky_relu"  # also with slope 0, which is not the usual one
        numbers = f"({listed})" if listed else f"({step.activation.slope!r})" if sloped else ""
        return f"{step.activation.name}{numbers} of {words[0]}"
    return " + ".join(words) if step.kind == "sum" else f"{', '.join(words)} side by side"


def _condition(model: Model, named: NamedGraph, sentences: list[str], last: str) -> str:
    norms = " It must be in evaluation mode." if any(step.kind == "batch_norm" for step in named.steps) else ""
    unused = ", ".join(f'"{key}"' for key in named.steps[0].unused)
    norms += f" It does not use {unused} beyond the numbers above." if unused else ""
    rounded = " A module in float32 would round the weights, which the claim does not cover."
    return (
        f"the file stores weights only. The claim is about a module that computes in {model.dtype}, from a row x of "
        f"{model.inputs} inputs with columns from 0: {'; '.join(sentences)}. Its output is {last}, and only a "
        f"{'sigmoid' if model.outputs == 1 else 'softmax'} may come after it. A layer computes W x + b, as "
        f"torch.nn.Linear does with W = weight (out, in) and b = bias; functions are those of docs/certificate.md."
        f"{norms}{rounded if model.dtype == 'float64' else ''}"
    )


def read_architecture(model: dict[str, Any]) -> tuple[Layer, ...] | NamedGraph | None:
    """Return what a certificate says that the module of a state dict computes; None if it says nothing."""
    if model["graph"] is not None and model["layers"] is not None:
        raise CheckError("certificate.model has both layers and a graph")
    return _layers(model) if model["graph"] is None else _graph(model)


def _layers(model: dict[str, Any]) -> tuple[Layer, ...] | None:
    """Return the layers of the module that a state dict belongs to, in the order in which it computes them."""
    if model["layers"] is None:
        return None
    found = []
    entries = take(model, "layers", list, "certificate.model")
    for number, entry in enumerate(entries):
        where = f"certificate.model.layers[{number}]"
        name = layer_name(entry, where)
        only_keys(entry, _LAYER_KEYS, where)
        activation = read_activation(entry, "activation", where)
        known = ("none",) if number == len(entries) - 1 else ACTIVATIONS
        if activation.name not in known:
            raise CheckError(f"{where}.activation is {activation.name!r}, which is not allowed there")
        epsilon = epsilon_of(entry, where) if "epsilon" in entry else None
        found.append(Layer(name, activation, epsilon))
    if len({layer.name for layer in found}) != len(found) or (found and found[-1].activation != _NONE):
        raise CheckError("certificate.model.layers names a layer twice, or gives a slope for the last one")
    return tuple(found)


def _graph(model: dict[str, Any]) -> NamedGraph | None:
    """Return the steps of the module that a state dict belongs to, if they are not layers in a row."""
    if model["graph"] is None:
        return None
    return read_named_graph(take(model, "graph", list, "certificate.model"), "certificate.model.graph")

"""The config of a Keras model, the JSON that Keras 2 and 3 write, as layers and what each of them reads.

A Sequential lists its layers. A functional model says what each layer reads. A layer may be a model itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.network.formats.build import unsupported

FLOAT32_ONLY = (
    "Keras rounds its inputs to float32, so what is proven of a float64 network does not hold in Keras. "
    "Use a float32 model, or another format such as .onnx"
)

_FUNCTIONAL = ("Functional", "Model")
_BUILT_IN = ("keras", "tf_keras", "tensorflow")
PREFIX = "ops."  # of the kinds of operations on tensors, which may have the name of a layer
CALLED = {"MultiHeadAttention": ("query", "value", "key")}  # layers that read several values by these names, in order
_FROM_FIRST = (
    *("Permute", "RepeatVector", "GlobalAveragePooling1D", "GroupNormalization", "Dot", "EinsumDense"),
    *CALLED,
)
_BY_AXIS = ("Softmax", "LayerNormalization", "RMSNormalization")
FUNCTIONS = {  # of each number of a tensor, in keras.ops, by their names in fairmend
    **{name: name.lower() for name in ("Cos", "Exp", "Log", "Reciprocal", "Relu", "Rsqrt", "Sigmoid", "Silu", "Sin")},
    **{name: name.lower() for name in ("Sqrt", "Square", "Tanh")},
    "Absolute": "abs",
}
REDUCTIONS = ("Sum", "Mean", "Prod", "Max", "Min", "Logsumexp")
_OPERATIONS = (
    *("Add", "Subtract", "Multiply", "Divide", "TrueDivide", "Negative", "Concatenate", "GetItem"),
    *FUNCTIONS,
    *REDUCTIONS,
)
_COUNTED = tuple(f"{PREFIX}{name}" for name in ("GetItem", *REDUCTIONS))
_SHAPES = ("batch_shape", "batch_input_shape")
_MOST_NESTED = 20
_ONE_OUTPUT = (
    "Save a model that ends in the one that decides: "
    'keras.Model(model.inputs, model.get_layer("NAME").output).save("one.keras")'
)
_INSTEAD = "build it from Keras's own layers, or export it to ONNX"
_AGAIN = "save the model again"

Call = tuple[str, int]
"""A layer by its name, and which of its uses."""


@dataclass(frozen=True)
class Layer:
    """One layer as the config describes it; `model` is what is in it, where it is a model itself."""

    name: str
    kind: str
    config: Mapping[str, Any]
    model: ModelConfig | None = None
    uses: int = 1

    @property
    def where(self) -> str:
        """The name and class of the layer, for errors."""
        return f"layer {self.name!r} ({self.kind})"

    @property
    def shape(self) -> list[Any] | None:
        """The shape that the config declares for what it reads, with the axis of rows."""
        for key in _SHAPES:
            if isinstance(self.config.get(key), list):
                return list(self.config[key])
        return self.model.layers[0].shape if self.model is not None and len(self.model.inputs) == 1 else None

    @property
    def is_trainable(self) -> bool:
        """Whether its weights are listed among the trainable ones."""
        return self.config.get("trainable", True) is not False

    def get(self, key: str, default: Any = None) -> Any:
        """Return an option of the layer."""
        return self.config.get(key, default)


@dataclass(frozen=True)
class ModelConfig:
    """The layers that a model's output depends on, in Keras's own order, by which it numbers their weights.

    `reads` says for each call of a layer which calls it reads, in an order in which they can be computed. `is_listed`
    says that the output is in a list, as Keras wrote it until 3.10. `options` are those of calls that have some: which
    of the values that they read has which name, and what else they are called with.
    """

    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    output: Call
    reads: Mapping[Call, tuple[Call, ...]]
    is_listed: bool = False
    options: Mapping[Call, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls, each after those that it reads."""
        return tuple(self.reads)


def parse_config(text: str | bytes, source: str, *, is_archived: bool = False) -> ModelConfig:
    """Return the layers in the config of a model; `is_archived` says that it is that of a .keras file."""
    try:
        model = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FairmendError(f"{source}: the model's config is not valid JSON ({error}); {_AGAIN}") from error
    shared: list[str] = []
    found = _model(model, source, shared, 0)
    if len(set(shared)) != len(shared):  # Keras makes such layers once, and ignores what the later ones say
        raise FairmendError(f"{source}: two layers share one object in the model's config; {_AGAIN}")
    if not is_archived:
        _check_one_axis(found, source)
    if is_archived and _has_list_in_sequential(found, str(model["class_name"])):
        _check_last_axis(found, source)
    return found


def _check_one_axis(model: ModelConfig, source: str) -> None:
    """Refuse several axes in an .h5 file: Keras leaves them out when it loads the file, and takes the last one."""
    for layer in model.layers:
        if layer.model is not None:
            _check_one_axis(layer.model, source)
        axis = layer.config.get("axis")
        if isinstance(axis, list) and len(axis) > 1:
            why = f"has the axes {str(axis)[:80]}, which Keras ignores when it loads an .h5 file"
            raise FairmendError(f"{source}: {layer.where} {why}. Save the model as .keras")


def _has_list_in_sequential(model: ModelConfig, kind: str) -> bool:
    """Whether a layer of a Sequential reads a list of one value, of which Keras 3.11 makes one more axis.

    It does so after a .keras file, which says what layers are built for, and raises an error after an .h5 file.
    """
    nested = [(layer.model, layer.kind) for layer in model.layers if layer.model is not None]
    return any(
        (kind == "Sequential" and inner.is_listed) or _has_list_in_sequential(inner, own) for inner, own in nested
    )


def _check_last_axis(model: ModelConfig, source: str) -> None:
    """Refuse what counts axes from the first: with one more axis, it goes over people instead of columns."""
    for layer in model.layers:
        if layer.model is not None:
            _check_last_axis(layer.model, source)
        inner = layer.config.get("activation")
        of_layer = {"class_name": layer.kind, "config": layer.config}
        described = inner if isinstance(inner, dict) else of_layer
        kind, options = described.get("class_name"), described.get("config")
        axis = options.get("axis", -1) if isinstance(options, Mapping) else -1
        counts = kind in (*_COUNTED, *_FROM_FIRST)
        if counts or (kind in _BY_AXIS and axis not in (-1, [-1])):
            why = "counts axes from the first, and Keras 3.11 or later has one more after a functional model"
            way_out = "Use axis=-1, or save the model with the Keras that runs it"
            raise FairmendError(f"{source}: {layer.where} {why} in a Sequential. {way_out}")


def _model(model: Any, source: str, shared: list[str], depth: int) -> ModelConfig:
    kind, content = _field(model, "class_name", str, source), model.get("config")
    if depth > _MOST_NESTED:
        raise FairmendError(f"{source}: models are nested deeper than {_MOST_NESTED} levels; {_INSTEAD}")
    if kind != "Sequential" and kind not in _FUNCTIONAL:
        raise FairmendError(f"{source}: the model is a {kind[:80]}, which may compute anything; {_INSTEAD}")
    # Before Keras 2.2.3 the content of a Sequential is the list itself.
    is_list = kind == "Sequential" and isinstance(content, list)
    entries = content if is_list else _field(content, "layers", list, source)
    layers = tuple(_layer(entry, source, shared, depth) for entry in entries)
    shared += [str(entry["shared_object_id"]) for entry in entries if "shared_object_id" in entry]
    if len({layer.name for layer in layers}) != len(layers):
        raise FairmendError(f"{source}: two layers have the same name; {_AGAIN}")
    if kind == "Sequential":
        return _sequential(layers, None if is_list else content.get("build_input_shape"))
    return _functional(layers, entries, content, source)


def _field(data: Any, key: str, kind: type, source: str) -> Any:
    if not isinstance(data, dict) or not isinstance(data.get(key), kind):
        raise FairmendError(f"{source}: the model's config is damaged (no usable {key!r}); {_AGAIN}")
    return data[key]


def _layer(entry: Any, source: str, shared: list[str], depth: int) -> Layer:
    kind, config = _field(entry, "class_name", str, source), entry.get("config")
    if isinstance(config, list):  # a Sequential of before Keras 2.2.3 within another
        config = {"layers": config, "name": entry.get("name")}
    config = _field({"config": config}, "config", dict, source)
    name = entry.get("name") if isinstance(entry.get("name"), str) else _field(config, "name", str, source)
    nodes = entry.get("inbound_nodes")
    layer = Layer(name, kind, config, uses=len(nodes) if isinstance(nodes, list) else 1)
    if config.get("name", name) != name:
        raise unsupported(source, layer.where, f"is called {str(config['name'])[:80]!r} as well")
    module, registered = entry.get("module"), entry.get("registered_name")
    if registered not in (None, kind) or (isinstance(module, str) and module.split(".")[0] not in _BUILT_IN):
        raise unsupported(source, layer.where, f"is {str(registered or module)[:80]}, not one of Keras's own layers")
    if isinstance(module, str) and ".ops." in module:
        return _operation(layer, entry, source)
    if kind == "Sequential" or kind in _FUNCTIONAL:
        return replace(layer, model=_model({"class_name": kind, "config": config}, source, shared, depth + 1))
    for key in _SHAPES:
        shape = config.get(key)
        if isinstance(shape, list) and len(shape) > 2:
            raise unsupported(source, layer.where, f"reads an input of shape {str(shape)[:80]}, not (rows, features)")
    return layer


def _operation(layer: Layer, entry: Any, source: str) -> Layer:
    """Return an operation on tensors, such as x + y or x[:, :3], as a layer with its constants as an option."""
    if layer.kind not in _OPERATIONS or layer.uses != 1 or not str(entry.get("module")).startswith("keras."):
        raise unsupported(source, layer.where, "is a function on tensors, not a layer: use a layer of keras.layers")
    nodes = entry.get("inbound_nodes")
    given = nodes[0].get("args") if isinstance(nodes, list) and isinstance(nodes[0], dict) else None
    constants = [None if _of_tensor(each) is not None else each for each in given] if isinstance(given, list) else []
    return replace(layer, kind=f"{PREFIX}{layer.kind}", config={**layer.config, "constants": constants})


def _sequential(layers: tuple[Layer, ...], shape: Any) -> ModelConfig:
    """Return the layers one after the other, with an input before them where none is listed."""
    if not layers or layers[0].kind != "InputLayer":
        first = layers[0].shape if layers else None
        shape = first or (shape if isinstance(shape, list) else [None, None])
        layers = (Layer("", "InputLayer", {"batch_shape": shape}), *layers)
    reads: dict[Call, tuple[Call, ...]] = {(layers[0].name, 0): ()}
    for before, layer in pairwise(layers):
        reads[layer.name, 0] = ((before.name, 0),)
    return ModelConfig(layers, (layers[0].name,), (layers[-1].name, 0), reads)


def _functional(layers: tuple[Layer, ...], entries: list[Any], content: Any, source: str) -> ModelConfig:
    """Follow what the layers read from the one output back to the inputs."""
    inputs = [call[0] for call in _ends(content, "input_layers", source)]
    outputs = _ends(content, "output_layers", source)
    if len(outputs) != 1:
        listed = ", ".join(name for name, _ in outputs)[:200]
        raise FairmendError(
            f"{source}: the model has {len(outputs)} outputs ({listed}); fairmend reads models with one output, an "
            f"array (rows, columns). {_ONE_OUTPUT}"
        )
    known = {layer.name: layer for layer in layers}
    for name in inputs:
        if name not in known or known[name].kind != "InputLayer":
            raise FairmendError(f"{source}: the model's input {name[:80]!r} is not an InputLayer; {_AGAIN}")
    if len(set(inputs)) != len(inputs):
        raise FairmendError(f"{source}: the model has an input twice; {_AGAIN}")
    walk = _Walk(source, known, {layer.name: entry for layer, entry in zip(layers, entries, strict=True)}, inputs)
    output = walk.visit(outputs[0])
    reads = {(name, 0): () for name in inputs} | {call: walk.reads[call] for call in walk.finished}
    order = walk.layer_order(output)
    unused = [name for name in inputs if name not in order]
    ends = content["output_layers"]
    is_listed = not isinstance(ends, list) or not isinstance(ends[0], str)
    in_order = tuple(known[name] for name in [*unused, *order])
    return ModelConfig(in_order, tuple(inputs), output, reads, is_listed, walk.options)


def _ends(content: Any, key: str, source: str) -> list[Call]:
    """Return the model's inputs or outputs: ["dense", 0, 0], a list of these, or a dict where they have names."""
    given = content.get(key) if isinstance(content, dict) else None
    ends = list(given.values()) if isinstance(given, dict) else _field(content, key, list, source)
    if len(ends) == 3 and isinstance(ends[0], str):
        ends = [ends]
    calls = [_history(end[0] if isinstance(end, list) and len(end) == 1 else end) for end in ends]
    found = [call for call in calls if call is not None]
    if not found or len(found) != len(calls):
        raise FairmendError(f"{source}: the model's config is damaged (no usable {key!r}); {_AGAIN}")
    return found


def _history(reference: Any) -> Call | None:
    """Return the call that ["dense", 0, 0] refers to; all supported layers have one output."""
    if not isinstance(reference, list) or len(reference) != 3:
        return None
    name, node, tensor = reference
    if not isinstance(name, str) or type(node) is not int or node < 0 or type(tensor) is not int or tensor != 0:
        return None
    return name, node


@dataclass
class _Walk:
    """A walk through a functional model from its output, in the order in which Keras itself walks through it."""

    source: str
    layers: Mapping[str, Layer]
    entries: Mapping[str, Any]
    inputs: list[str]
    reads: dict[Call, tuple[Call, ...]] = field(default_factory=dict)
    finished: list[Call] = field(default_factory=list)
    options: dict[Call, Mapping[str, Any]] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)

    def visit(self, last: Call) -> Call:
        """Visit a call and all that it depends on, without recursion: models may be deep."""
        last = self._checked(last)
        pending: list[tuple[Call, bool]] = [(last, False)]
        done: set[Call] = set()
        active: set[Call] = set()
        while pending:
            call, is_left = pending.pop()
            if is_left:
                active.discard(call)
                done.add(call)
                self.finished.append(call)
                continue
            if call in done:
                continue
            if call in active:
                raise FairmendError(f"{self.source}: the layers form a circle; {_AGAIN}")
            active.add(call)
            self._seen.setdefault(call[0], len(self._seen))
            sources = () if call[0] in self.inputs else self._sources(call)
            self.reads[call] = sources
            pending.append((call, True))
            pending += [(each, False) for each in reversed(sources)]
        return last

    def layer_order(self, output: Call) -> list[str]:
        """Return the names of the layers as Keras orders them: the farthest from the output first."""
        depths: dict[Call, int] = {output: 0}
        of_layer: dict[str, int] = {}
        for call in reversed(self.finished):
            depth = max(depths.get(call, 0), of_layer.get(call[0], 0))
            of_layer[call[0]] = depths[call] = depth
            for each in self.reads[call]:
                depths[each] = max(depths.get(each, 0), depth + 1)
        return sorted(of_layer, key=lambda name: (-of_layer[name], self._seen[name]))

    def _checked(self, call: Call) -> Call:
        name, node = call
        if name not in self.layers:
            raise FairmendError(f"{self.source}: the model's config names no layer {name[:80]!r}; {_AGAIN}")
        layer = self.layers[name]
        if name in self.inputs:
            return name, 0
        nodes = self.entries[name].get("inbound_nodes")
        if layer.kind == "InputLayer" or not isinstance(nodes, list) or not nodes:
            raise unsupported(self.source, layer.where, "is used, but reads nothing and is not an input of the model")
        if layer.model is not None and len(nodes) == 1 and node <= 1:
            return name, 0  # Keras counts the model's own call within itself, or does not
        if node >= len(nodes):
            raise unsupported(self.source, layer.where, f"is used {len(nodes)} times, but use {node + 1} is read")
        return call

    def _sources(self, call: Call) -> tuple[Call, ...]:
        """Return what a call reads."""
        layer = self.layers[call[0]]
        node = self.entries[call[0]]["inbound_nodes"][call[1]]
        if layer.kind in CALLED:
            return self._named_sources(call, layer, node)
        if isinstance(node, dict):  # Keras 3
            arguments, options = node.get("args"), node.get("kwargs")
            given = arguments[0] if isinstance(arguments, list) and len(arguments) == 1 else None
            tensors = given if isinstance(given, list) else [given]
            if layer.kind.startswith(PREFIX) and given is None and isinstance(arguments, list):
                tensors = [each for each in arguments if _of_tensor(each) is not None]
            histories = [_of_tensor(tensor) for tensor in tensors]
        else:
            tensors = node if isinstance(node, list) else [None]
            histories = [tensor[:3] if isinstance(tensor, list) else None for tensor in tensors]
            extra = [tensor[3:] for tensor in tensors if isinstance(tensor, list)]
            given = [each if isinstance(each, dict) else {"?": True} for more in extra for each in more]
            options = {key: value for each in given for key, value in each.items()}
        calls = [_history(history) for history in histories]
        found = [each for each in calls if each is not None]
        if not found or len(found) != len(calls):
            raise unsupported(self.source, layer.where, "does not read the outputs of other layers alone")
        # training=True would keep dropout random; anything else changes what the layer computes.
        if not isinstance(options, dict) or any(value not in (None, False) for value in options.values()):
            what = ", ".join(map(str, options or ()))[:80]
            raise unsupported(self.source, layer.where, f"is called with options ({what})")
        return tuple(self._checked(each) for each in found)

    def _named_sources(self, call: Call, layer: Layer, node: Any) -> tuple[Call, ...]:
        """Return what a call reads by names, in the order of Keras: the arguments, and then the options by their keys.

        The options of the call then have which of them has which name.
        """
        names = CALLED[layer.kind]
        arguments, options = (node.get("args"), node.get("kwargs")) if isinstance(node, dict) else (None, None)
        if not isinstance(arguments, list) or not isinstance(options, dict) or len(arguments) > len(names):
            raise unsupported(self.source, layer.where, "is not called as in Keras 3: save the model with that")
        given = [*zip(names, arguments, strict=False), *sorted(options.items())]
        tensors = [(name, each) for name, each in given if _of_tensor(each) is not None]
        rest = {name: each for name, each in given if _of_tensor(each) is None and each not in (None, False)}
        read = {name: place for place, (name, _) in enumerate(tensors)}
        others = [name for name in read if name not in names]
        calls = [_history(_of_tensor(each)) for _, each in tensors]
        found = [each for each in calls if each is not None]
        if others:
            raise unsupported(
                self.source, layer.where, f"has {others[0][:80]}, which depends on the inputs: it must be a constant"
            )
        if len(read) != len(tensors) or len(found) != len(calls) or not {"query", "value"} <= read.keys():
            raise unsupported(self.source, layer.where, "does not read the outputs of other layers alone")
        self.options[call] = {"read": read, **rest}
        return tuple(self._checked(each) for each in found)


def _of_tensor(tensor: Any) -> Any:
    config = tensor.get("config") if isinstance(tensor, dict) else None
    return config.get("keras_history") if isinstance(config, dict) else None

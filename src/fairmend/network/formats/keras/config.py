"""The config of a Keras model, the JSON that Keras 2 and 3 write, as a chain of layers.

A Sequential lists its layers. A functional model names the tensors that each layer reads, and must be one chain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairmend.errors import FairmendError
from fairmend.network.formats.chain import unsupported

__all__ = ["Layer", "parse_config"]

_FUNCTIONAL = ("Functional", "Model")
_BUILT_IN = ("keras", "tf_keras", "tensorflow")
_ONE_INPUT = (
    "Build the same layers on one keras.Input((columns,)) that takes the columns of all inputs, copy the weights and "
    "save that model"
)
_ONE_OUTPUT = "Save a keras.Model from the input to the one output that decides"
_INSTEAD = "build it from Keras's own layers, or export it to ONNX"


@dataclass(frozen=True)
class Layer:
    """One layer as the config describes it."""

    name: str
    kind: str
    config: Mapping[str, Any]

    @property
    def where(self) -> str:
        """The name and class of the layer, for errors."""
        return f"layer {self.name!r} ({self.kind})"

    def get(self, key: str, default: Any = None) -> Any:
        """Return an option of the layer."""
        return self.config.get(key, default)


@dataclass(frozen=True)
class ModelConfig:
    """All layers of a model in their order, and those from its input to its output."""

    layers: tuple[Layer, ...]
    chain: tuple[Layer, ...]


def parse_config(text: str | bytes, source: str) -> ModelConfig:
    """Return the layers in the config of a model."""
    try:
        model = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FairmendError(
            f"{source}: the model's config is not valid JSON ({error}); save the model again"
        ) from error
    kind, content = _field(model, "class_name", str, source), model.get("config")
    if kind == "Sequential":
        # Before Keras 2.2.3 the content is the list itself.
        entries = content if isinstance(content, list) else _field(content, "layers", list, source)
        layers = tuple(_layer(entry, source) for entry in entries)
        chain = layers
    elif kind in _FUNCTIONAL:
        entries = _field(content, "layers", list, source)
        layers = tuple(_layer(entry, source) for entry in entries)
        chain = _functional_chain(layers, entries, content, source)
    else:
        raise FairmendError(f"{source}: the model is a {kind[:80]}, which may compute anything; {_INSTEAD}")
    shared = [str(entry["shared_object_id"]) for entry in entries if "shared_object_id" in entry]
    if len(set(shared)) != len(shared):  # Keras makes such layers once, and ignores what the later ones say
        raise FairmendError(f"{source}: two layers share one object in the model's config; save the model again")
    if len({layer.name for layer in layers}) != len(layers):
        raise FairmendError(f"{source}: two layers have the same name; save the model again")
    return ModelConfig(layers, chain)


def _field(data: Any, key: str, kind: type, source: str) -> Any:
    if not isinstance(data, dict) or not isinstance(data.get(key), kind):
        raise FairmendError(f"{source}: the model's config is damaged (no usable {key!r}); save the model again")
    return data[key]


def _layer(entry: Any, source: str) -> Layer:
    kind, config = _field(entry, "class_name", str, source), _field(entry, "config", dict, source)
    name = entry.get("name") if isinstance(entry.get("name"), str) else _field(config, "name", str, source)
    layer = Layer(name, kind, config)
    if config.get("name", name) != name:
        raise unsupported(source, layer.where, f"is called {str(config['name'])[:80]!r} as well")
    module, registered = entry.get("module"), entry.get("registered_name")
    if registered not in (None, kind) or (isinstance(module, str) and module.split(".")[0] not in _BUILT_IN):
        raise unsupported(source, layer.where, f"is {str(registered or module)[:80]}, not one of Keras's own layers")
    for key in ("batch_shape", "batch_input_shape"):
        shape = config.get(key)
        if isinstance(shape, list) and len(shape) != 2:
            raise unsupported(source, layer.where, f"reads an input of shape {str(shape)[:80]}, not (rows, features)")
    return layer


def _functional_chain(layers: tuple[Layer, ...], entries: list[Any], content: Any, source: str) -> tuple[Layer, ...]:
    """Follow the layers from the one output back to the one input."""
    first, last = _end(content, "input_layers", source), _end(content, "output_layers", source)
    known = {layer.name: (layer, entry) for layer, entry in zip(layers, entries, strict=True)}
    chain: list[Layer] = []
    name = last
    while len(chain) <= len(layers):
        if name not in known:
            raise FairmendError(f"{source}: the model's config names no layer {name[:80]!r}; save the model again")
        layer, entry = known[name]
        chain.append(layer)
        if name == first:
            return tuple(chain[::-1])
        name = _reads(layer, entry.get("inbound_nodes"), source)
    raise FairmendError(f"{source}: the layers form a circle; save the model again")


def _end(content: Any, key: str, source: str) -> str:
    """Return the name of the model's one input or output: ["dense", 0, 0], in a list or dict where it has a name."""
    named = content.get(key) if isinstance(content, dict) else None
    ends = list(named.values()) if isinstance(named, dict) else _field(content, key, list, source)
    if len(ends) == 1 and isinstance(ends[0], list):
        ends = ends[0]
    if len(ends) != 3 or not isinstance(ends[0], str) or ends[1:] != [0, 0]:
        names = named if isinstance(named, dict) else [end[0] if isinstance(end, list) and end else end for end in ends]
        what, listed = key.removesuffix("_layers"), ", ".join(str(name)[:40] for name in names)[:200]
        raise FairmendError(
            f"{source}: the model has {len(ends)} {what}s ({listed}); fairmend reads models with one {what}, an array "
            f"(rows, columns). {_ONE_INPUT if what == 'input' else _ONE_OUTPUT}"
        )
    return str(ends[0])


def _reads(layer: Layer, nodes: Any, source: str) -> str:
    """Return the name of the one layer whose output this layer reads."""
    if not isinstance(nodes, list) or len(nodes) != 1:
        raise unsupported(source, layer.where, "is not used exactly once")
    node = nodes[0]
    if isinstance(node, dict):  # Keras 3
        tensors, options = node.get("args"), node.get("kwargs")
        tensor = tensors[0] if isinstance(tensors, list) and len(tensors) == 1 else None
        config = tensor.get("config") if isinstance(tensor, dict) else None
        history = config.get("keras_history") if isinstance(config, dict) else None
    else:
        tensor = node[0] if isinstance(node, list) and len(node) == 1 else None
        history, options = (tensor[:3], (tensor[3:] or [{}])[0]) if isinstance(tensor, list) else (None, {})
    if not isinstance(history, list) or len(history) != 3 or not isinstance(history[0], str) or history[1:] != [0, 0]:
        raise unsupported(source, layer.where, "does not read the output of exactly one layer")
    # training=True would keep dropout random; anything else changes what the layer computes.
    if not isinstance(options, dict) or any(value not in (None, False) for value in options.values()):
        raise unsupported(source, layer.where, f"is called with options ({', '.join(map(str, options or ()))[:80]})")
    return history[0]

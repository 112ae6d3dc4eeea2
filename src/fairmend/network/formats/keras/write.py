"""Write a network as the config and arrays of a Keras model: a chain as a Sequential, a graph as a functional model.

Only float32 networks. What Keras computes with float64 layers depends on its version and backend, whatever dtype policy
the file has: all round inputs to float32 in ``model.predict``, and Keras 3.15 with PyTorch rounds the kernels as well.
Two people whom the network treats equally could get different predictions from the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Columns, Concatenate, Lookup, Network, Operation, Scale, Sum
from fairmend.network.form import FormError
from fairmend.network.formats.keras.config import FLOAT32_ONLY, parse_config
from fairmend.network.formats.keras.functions import Style, WrittenFunction, written_function
from fairmend.network.rescaling import Rescaling, Scaling

# The form of a Keras file: the file as it was read, in which new weights replace the old ones.
#
# Layers, names, BatchNormalization, the optimizer and the compile settings stay.


Arrays = dict[str, npt.NDArray[Any]]
Places = dict[str, list[str]]


@dataclass(frozen=True, eq=False)
class KerasForm:
    """A file, the paths of the arrays of its layers by their names, and `change`, which replaces arrays in it.

    `shapes` are those of the arrays by their paths: a kernel may have more axes than a matrix.
    """

    suffixes: tuple[str, ...]
    content: bytes
    places: Places
    shapes: dict[str, tuple[int, ...]]
    change: Callable[[bytes, Arrays], bytes]

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`."""
        found = arrays_of(network, self.places)
        return self.change(self.content, {path: array.reshape(self.shapes[path]) for path, array in found.items()})


def arrays_of(network: Network, places: Places) -> Arrays:
    """Return the new arrays by their paths: kernels and biases, beta of each BatchNormalization, tables."""
    arrays: Arrays = {}
    for layer in network.stored_layers:
        name, weight, bias, norms = layer.name, layer.weight, layer.bias, layer.norms
        if name not in places:
            raise FormError(f"the model has no layer {name!r}")
        kernel, *rest = places[name]
        arrays[kernel] = np.ascontiguousarray(weight.reshape(weight.shape[-2:]).T)
        if bias is not None:
            if not rest:
                raise FormError(f"the layer {name!r} has no bias in the original")
            arrays[rest[0]] = bias
        for norm in norms:
            if norm.name is not None and norm.shift is not None:
                # gamma comes first, if there is one; then beta
                arrays[places[norm.name][0 if norm.gain is None else 1]] = norm.shift
    for name, table in network.tables.items():
        arrays[places[name][0]] = table
    return arrays


Config = dict[str, Any]


@dataclass
class WrittenModel:
    """The config of a model, and the arrays of its layers by the names of both, in the order of Keras."""

    config: Config
    arrays: dict[str, dict[str, FloatArray]]
    kinds: dict[str, str]


def write_model(network: Network, style: Style) -> WrittenModel:
    """Return the model that computes a network; `network.closing` closes it."""
    if network.dtype.name != "float32":
        raise FairmendError(f"cannot write a {network.dtype.name} network as a Keras file: {FLOAT32_ONLY}")
    plain = network.is_chain and network.rescaling is None
    return _sequential(network, style) if plain else _Functional(network, style).model()


def _layer_names(network: Network) -> list[str]:
    """Return the names of the Dense layers: the network's own, as far as every backend of Keras allows them."""
    names = [re.sub(r"[^A-Za-z0-9_-]", "_", name) for name in network.names]
    fit = len(set(names)) == len(names) and all(name[:1].isalpha() for name in names)
    return names if fit else [f"layers_{i}" for i in range(network.depth)]


def _sequential(network: Network, style: Style) -> WrittenModel:
    shape = [None, network.inputs]
    names = _layer_names(network)
    layers = [_input(_free("input", names), network.inputs, style)]
    closing = "linear" if network.closing == "none" else network.closing
    width = network.inputs
    arrays: dict[str, dict[str, FloatArray]] = {}
    for i, (name, affine) in enumerate(zip(names, network.affines, strict=True)):
        is_last = i == len(network.activations)
        function = WrittenFunction(closing) if is_last else written_function(network.activations[i], style)
        layers.append(_layer("Dense", name, _dense(affine, function.name or "linear"), style, [None, width]))
        arrays[name] = _dense_arrays(affine)
        width = len(affine.bias)
        if not function.name:
            stem = "leaky" if network.activations[i].name == "leaky_relu" else network.activations[i].name
            own = _free(f"{stem}_{i}", names)
            layers.append(_layer(function.kind, own, function.options, style))
            arrays[own] = function.arrays
    config: Config = {"name": "fairmend", "layers": layers, "build_input_shape": shape}
    kinds = {layer["config"]["name"]: layer["class_name"] for layer in layers[1:]}
    if style is Style.KERAS_2:
        return WrittenModel({"class_name": "Sequential", "config": config}, arrays, kinds)
    model = {"module": "keras", "class_name": "Sequential", "config": {**config, "trainable": True, "dtype": "float32"}}
    return WrittenModel({**model, "registered_name": None, "build_config": {"input_shape": shape}}, arrays, kinds)


@dataclass
class _Functional:
    """A functional model with a layer for each node; look-ups have a second one that flattens them."""

    network: Network
    style: Style
    _layers: list[Config] = field(default_factory=list)
    _arrays: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    _inputs: dict[tuple[int, ...], str] = field(default_factory=dict)  # by the columns of the row

    def model(self) -> WrittenModel:
        """Return the model with its layers in the order of Keras."""
        taken = _layer_names(self.network)
        names = iter(taken)
        results = [self._row(taken)]
        for i, node in enumerate(self.network.nodes[1:], 1):
            sources = [results[source] for source in node.sources]
            own = next(names) if isinstance(node.operation, Affine) else _free(f"{node.operation.kind}_{i}", taken)
            results.append(self._node(own, node.operation, sources, of_input=node.sources == (0,)))
        last = results[-1]
        if self.network.closing != "none":
            last = self._add("Activation", _free("closing", taken), {"activation": self.network.closing}, [last])
            if self.network.rescaling is not None:
                last = self._rescaled(last, self.network.rescaling, taken)
        inputs = [[name, 0, 0] for name in self._inputs.values()]
        content: Config = {"name": "fairmend", "trainable": True, "layers": self._layers}
        content |= {"input_layers": inputs, "output_layers": [[last, 0, 0]]}
        config: Config = {"class_name": "Functional", "config": content}
        if self.style is Style.KERAS_3:
            config |= {"module": "keras.src.models.functional", "registered_name": "Functional"}
        order = [layer.name for layer in parse_config(json.dumps(config), "the written model").layers]
        content["layers"] = sorted(
            (layer for layer in self._layers if layer["name"] in order), key=lambda layer: order.index(layer["name"])
        )
        kinds = {layer["name"]: layer["class_name"] for layer in content["layers"]}
        return WrittenModel(config, {name: self._arrays[name] for name in kinds}, kinds)

    def _rescaled(self, last: str, rescaling: Rescaling, taken: list[str]) -> str:
        """Add the layers that make scores of a probability."""
        for number, step in enumerate(rescaling.steps):
            if not isinstance(step, Scaling):
                raise FormError("a Keras file has no layer that clips scores; save as .onnx")
            options = {"scale": step.factor, "offset": step.shift}
            last = self._add("Rescaling", _free(f"score_{number}", taken), options, [last])
        if not rescaling.both:
            return last
        rest = self._add("Rescaling", _free("rest", taken), {"scale": -1.0, "offset": 1.0}, [last])
        return self._add("Concatenate", _free("both", taken), {"axis": -1}, [rest, last])

    def _row(self, taken: list[str]) -> str:
        """Add the inputs, and return the layer that gives the whole row."""
        row = self.network.nodes[0].operation
        given = getattr(row, "names", ()) or [("input", self.network.inputs)]
        start = 0
        names: list[str] = []
        for name, width in given:
            own = _free(re.sub(r"[^A-Za-z0-9_-]", "_", name), [*taken, *names])
            self._layers.append({**_input(own, width, self.style), "name": own, "inbound_nodes": []})
            self._arrays[own] = {}
            self._inputs[tuple(range(start, start + width))] = own
            names.append(own)
            start += width
        taken += names
        if len(names) == 1:
            return names[0]
        return self._add("Concatenate", _free("row", taken), {"axis": -1}, names)

    def _node(self, name: str, operation: Operation, sources: list[str], *, of_input: bool) -> str:
        if isinstance(operation, Affine) and operation.is_fixed:
            return sources[0]
        if isinstance(operation, Affine):
            return self._add("Dense", name, _dense(operation, "linear"), sources, _dense_arrays(operation))
        if isinstance(operation, Activation):
            function = written_function(operation, self.style)
            options = {"activation": function.name} if function.name else function.options
            return self._add(function.kind, name, options, sources, function.arrays)
        if isinstance(operation, Scale):
            options = {"scale": operation.factor.tolist(), "offset": operation.shift.tolist()}
            return self._add("Rescaling", name, options, sources)
        if isinstance(operation, Sum):
            return self._add("Add", name, {}, sources)
        if isinstance(operation, Concatenate):
            return self._add("Concatenate", name, {"axis": -1}, sources)
        if isinstance(operation, Columns) and of_input and operation.indices in self._inputs:
            return self._inputs[operation.indices]
        if isinstance(operation, Lookup):
            rows, width = operation.table.shape
            options = {"input_dim": rows, "output_dim": width}
            table = self._add("Embedding", name, options, sources, {"embeddings": operation.table})
            return self._add(
                "Flatten", _free(f"{name}_row", list(self._arrays)), {"data_format": "channels_last"}, [table]
            )
        what = "a choice of columns" if isinstance(operation, Columns) else operation.kind
        raise FairmendError(
            f"cannot write {what} ({name}) in a Keras file, which has no layer for it; use another format such as .onnx"
        )

    def _add(
        self,
        kind: str,
        name: str,
        options: Config,
        sources: list[str],
        arrays: dict[str, FloatArray] | None = None,
    ) -> str:
        layer = _layer(kind, name, options, self.style)
        # Keras 3 reads this, the form of Keras 2, as well.
        self._layers.append({**layer, "name": name, "inbound_nodes": [[[source, 0, 0, {}] for source in sources]]})
        self._arrays[name] = arrays or {}
        return name


def _input(name: str, width: int, style: Style) -> Config:
    key = "batch_input_shape" if style is Style.KERAS_2 else "batch_shape"
    layer = _layer("InputLayer", name, {}, style)
    layer["config"] = {key: [None, width], "dtype": "float32", "sparse": False, "name": name}
    return layer


def _dense(affine: Affine, activation: str) -> Config:
    return {"units": len(affine.bias), "activation": activation, "use_bias": True}


def _dense_arrays(affine: Affine) -> dict[str, FloatArray]:
    return {"kernel": np.ascontiguousarray(affine.weight.T), "bias": affine.bias}


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _layer(kind: str, name: str, options: Config, style: Style, shape: list[int | None] | None = None) -> Config:
    layer = {"class_name": kind, "config": {"name": name, "trainable": True, "dtype": "float32", **options}}
    if style is Style.KERAS_2:
        return layer
    built = {} if shape is None else {"build_config": {"input_shape": shape}}
    return {"module": "keras.layers", **layer, "registered_name": None, **built}

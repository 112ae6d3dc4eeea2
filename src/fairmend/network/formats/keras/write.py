"""Write a network as the config of a Keras Sequential: Dense layers, and a separate layer for each leaky ReLU.

Only float32 networks. What Keras computes with float64 layers depends on its version and backend, whatever dtype policy
the file has: all round inputs to float32 in ``model.predict``, and Keras 3.15 with PyTorch rounds the kernels as well.
Two people whom the network treats equally could get different predictions from the file.
"""

from __future__ import annotations

import enum
import re
from typing import Any

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network

__all__ = ["FLOAT32_ONLY", "Style", "layer_names", "sequential_config"]

Config = dict[str, Any]

FLOAT32_ONLY = (
    "Keras rounds its inputs to float32, so what is proven of a float64 network does not hold in Keras. "
    "Use a float32 model, or another format such as .onnx"
)


class Style(enum.Enum):
    """The style of a config: that of Keras 2 (.h5) or of Keras 3 (.keras)."""

    KERAS_2 = 2
    KERAS_3 = 3


def layer_names(network: Network) -> list[str]:
    """Return the names of the Dense layers: the network's own, as far as every backend of Keras allows them."""
    names = [re.sub(r"[^A-Za-z0-9_-]", "_", name) for name in network.names]
    fit = len(set(names)) == len(names) and all(name[:1].isalpha() for name in names)
    return names if fit else [f"layers_{i}" for i in range(network.depth)]


def sequential_config(network: Network, style: Style) -> Config:
    """Return the config of the model; `network.closing` is the activation of its last layer."""
    if network.dtype.name != "float32":
        raise FairmendError(f"cannot write a {network.dtype.name} network as a Keras file: {FLOAT32_ONLY}")
    shape = [None, network.inputs]
    dtype = network.dtype.name
    key = "batch_input_shape" if style is Style.KERAS_2 else "batch_shape"
    names = layer_names(network)
    start = _free("input", names)
    layers = [_layer("InputLayer", {key: shape, "dtype": dtype, "sparse": False, "name": start}, style)]
    closing = "linear" if network.closing == "none" else network.closing
    width = network.inputs
    for i, (name, affine) in enumerate(zip(names, network.affines, strict=True)):
        activation = network.activations[i] if i < len(network.activations) else None
        own_layer = activation is not None and activation.name == "leaky_relu"
        config = {
            "name": name,
            "trainable": True,
            "dtype": dtype,
            "units": len(affine.bias),
            "activation": closing if activation is None else "linear" if own_layer else _NAMES[activation.name],
            "use_bias": True,
        }
        layers.append(_layer("Dense", config, style, [None, width]))
        if activation is not None and own_layer:
            config = {"name": _free(f"leaky_{i}", names), "trainable": True, "dtype": dtype}
            layers.append(_leaky(activation, config, style))
        width = len(affine.bias)
    config = {"name": "fairmend", "layers": layers, "build_input_shape": shape}
    if style is Style.KERAS_2:
        return {"class_name": "Sequential", "config": config}
    model = {"module": "keras", "class_name": "Sequential", "config": {**config, "trainable": True, "dtype": dtype}}
    return {**model, "registered_name": None, "build_config": {"input_shape": shape}}


_NAMES = {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "identity": "linear"}


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _leaky(activation: Activation, config: Config, style: Style) -> Config:
    """Return the layer for a leaky ReLU; Keras 2 and 3 agree on the name of ReLU's slope, not of LeakyReLU's."""
    if style is Style.KERAS_3:
        return _layer("LeakyReLU", {**config, "negative_slope": activation.slope}, style)
    if activation.slope == 0:  # a ReLU of slope 0 would be read back as one
        return _layer("LeakyReLU", {**config, "alpha": 0.0}, style)
    options = {"max_value": None, "negative_slope": activation.slope, "threshold": 0.0}
    return _layer("ReLU", {**config, **options}, style)


def _layer(kind: str, config: Config, style: Style, shape: list[int | None] | None = None) -> Config:
    layer = {"class_name": kind, "config": config}
    if style is Style.KERAS_2:
        return layer
    built = {} if shape is None else {"build_config": {"input_shape": shape}}
    return {"module": "keras.layers", **layer, "registered_name": None, **built}

"""Convert Keras layers to steps of a chain: one small function per class, in the table `_LAYERS`.

To support a layer class, add a function and a line in `_LAYERS`; for an activation by name, add it to `_ACTIVATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.chain import Linear, Nonlinear, Norm, Softmax, Step, scaling, unsupported
from fairmend.network.formats.keras.config import Layer
from fairmend.network.formats.keras.write import FLOAT32_ONLY

__all__ = ["convert_layer", "select_weights"]

_KERAS_1 = "load the file with Keras 2.0 to 2.3 and save it again: keras.models.load_model(path).save(path)"
Weights = Sequence[npt.NDArray[Any]]

_PASSED = (
    "InputLayer",
    "Dropout",
    "GaussianNoise",
    "GaussianDropout",
    "AlphaDropout",
    "ActivityRegularization",
    "Flatten",
)
_ACTIVATIONS = ("relu", "tanh", "sigmoid")
_TINY = 1e-7  # keras.config.epsilon(), which Normalization divides by at least
_LEAKY_FUNCTION, _LEAKY_LAYER = 0.2, 0.3  # Keras's defaults, which differ from each other and from PyTorch's


def select_weights(layer: Layer, places: Sequence[str]) -> Sequence[str]:
    """Return the places of the arrays that inference uses; the others (counts, random states) may not be floats."""
    if layer.kind == "Normalization":
        return places[:2]  # the third counts the rows it was adapted to
    return places if layer.kind in ("Dense", "BatchNormalization") else ()


def convert_layer(layer: Layer, weights: Weights, source: str) -> list[Step]:
    """Return what the layer computes at inference, as steps of a chain."""
    convert = _LAYERS.get(layer.kind)
    if convert is None:
        raise unsupported(source, layer.where, "is not supported")
    _check_dtype(layer, weights, source)
    return convert(layer, weights, source)


def _check_dtype(layer: Layer, weights: Weights, source: str) -> None:
    """Refuse all but float32: a policy such as mixed_float16 rounds the weights, and float64 has rounded inputs."""
    dtype = layer.get("dtype")
    if isinstance(dtype, dict):
        config = dtype.get("config")
        dtype = config.get("name") if isinstance(config, dict) else dtype
    if layer.get("quantization_config"):
        raise unsupported(source, layer.where, f"computes in {str(layer.get('quantization_config'))[:80]}")
    stored = {array.dtype.name for array in weights if array.dtype.kind == "f"}
    if "float64" in (dtype, *stored):
        raise FairmendError(f"{source}: {layer.where} is float64. {FLOAT32_ONLY}")
    if dtype not in (None, "float32") or stored - {"float32"}:
        raise unsupported(source, layer.where, f"computes in {str(dtype)[:80]} with weights in {sorted(stored)}")


def _expect(layer: Layer, weights: Weights, count: int, source: str) -> Weights:
    if len(weights) != count:
        raise FairmendError(
            f"{source}: {layer.where} has {len(weights)} arrays instead of {count}; save the model again"
        )
    return weights


def _pass(layer: Layer, weights: Weights, source: str) -> list[Step]:
    """Return no steps: the layer does nothing at inference, and Flatten leaves rows of numbers unchanged."""
    return []


def _dense(layer: Layer, weights: Weights, source: str) -> list[Step]:
    if {"output_dim", "bias"} & layer.config.keys():
        raise FairmendError(f"{source}: {layer.where} is of Keras 1; {_KERAS_1}")
    biased = layer.get("use_bias", True)
    parts = _expect(layer, weights, 2 if biased else 1, source)
    units = layer.get("units")
    if parts[0].ndim != 2 or parts[0].shape[1] != units:
        raise FairmendError(f"{source}: {layer.where} has {units} units and a kernel of shape {parts[0].shape}")
    linear = Linear(layer.where, parts[0].T, parts[1] if biased else None, layer.name)
    return [linear, *_activation(layer, weights, source)]


def _activation(layer: Layer, weights: Weights, source: str) -> list[Step]:
    """Return the activation of a Dense or Activation layer: a name, or with Keras 2 a whole layer."""
    given = layer.get("activation", "linear")
    if isinstance(given, dict) and given.get("class_name") in ("ReLU", "LeakyReLU", "Softmax"):
        config = given.get("config")
        inner = Layer(layer.name, str(given["class_name"]), config if isinstance(config, dict) else {})
        return _LAYERS[inner.kind](inner, (), source)
    if given in (None, "linear"):
        return []
    if given == "softmax":
        return [Softmax(layer.where)]
    if given == "leaky_relu":
        return [Nonlinear(layer.where, Activation("leaky_relu", _LEAKY_FUNCTION))]
    if not isinstance(given, str) or given not in _ACTIVATIONS:
        raise unsupported(source, layer.where, f"has the activation {str(given)[:80]}, which is not supported")
    return [Nonlinear(layer.where, Activation(given))]


def _relu(layer: Layer, weights: Weights, source: str) -> list[Step]:
    if layer.get("max_value") is not None or _number(layer, "threshold", 0.0, source) != 0:
        raise unsupported(source, layer.where, "has a max_value or a threshold, which is not supported")
    slope = _number(layer, "negative_slope", 0.0, source)
    return _leaky(layer, slope, source) if slope else [Nonlinear(layer.where, Activation("relu"))]


def _leaky_relu(layer: Layer, weights: Weights, source: str) -> list[Step]:
    if {"negative_slope", "alpha"} <= layer.config.keys():
        raise unsupported(source, layer.where, "has two slopes, negative_slope and alpha")
    key = "negative_slope" if "negative_slope" in layer.config else "alpha"  # Keras 3, Keras 2
    return _leaky(layer, _number(layer, key, _LEAKY_LAYER, source), source)


def _leaky(layer: Layer, slope: float, source: str) -> list[Step]:
    try:
        return [Nonlinear(layer.where, Activation("leaky_relu", slope))]
    except FairmendError as error:
        raise unsupported(source, layer.where, f"is not supported: {error}") from error


def _softmax(layer: Layer, weights: Weights, source: str) -> list[Step]:
    if layer.get("axis", -1) not in (-1, 1):
        raise unsupported(source, layer.where, "is not over the last axis")
    return [Softmax(layer.where)]


def _batch_norm(layer: Layer, weights: Weights, source: str) -> list[Step]:
    if layer.get("axis", -1) not in (-1, 1, [-1], [1]):
        raise unsupported(source, layer.where, f"is over axis {layer.get('axis')}, not the last one")
    if layer.get("renorm") or layer.get("virtual_batch_size") or "mode" in layer.config:
        raise unsupported(source, layer.where, "is batch renormalisation or of Keras 1")
    parts = [layer.get(part, True) for part in ("scale", "center")]
    found = list(_expect(layer, weights, 2 + sum(map(bool, parts)), source))
    gain, shift = (found.pop(0) if part else None for part in parts)
    return [Norm(layer.where, found[0], found[1], gain, shift, _number(layer, "epsilon", 1e-3, source), layer.name)]


def _normalization(layer: Layer, weights: Weights, source: str) -> list[Step]:
    if layer.get("axis", -1) not in (None, -1, 1, [-1], [1], []):
        raise unsupported(source, layer.where, f"is over axis {layer.get('axis')}, not the last one")
    given = [layer.get("mean"), layer.get("variance")]
    if None in given:
        given = list(_expect(layer, weights, 2, source))
    mean, variance = (_numbers(layer, part, source) for part in given)
    if not np.all(variance >= 0):
        raise unsupported(source, layer.where, "has a negative variance, whose root is not a number")
    deviation = np.maximum(np.sqrt(variance), _TINY)
    if layer.get("invert"):
        return [scaling(layer.where, deviation, mean)]
    return [scaling(layer.where, 1 / deviation, 0.0, mean)]


def _rescaling(layer: Layer, weights: Weights, source: str) -> list[Step]:
    gain, shift = (_numbers(layer, layer.get(key, default), source) for key, default in (("scale", 1), ("offset", 0)))
    return [scaling(layer.where, gain, shift)]


def _number(layer: Layer, key: str, default: float, source: str) -> float:
    given = layer.get(key, default)
    if isinstance(given, dict):  # NumPy's numbers in Keras 2: {"type": "ndarray", "value": 0.3}
        given = given.get("value")
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise unsupported(source, layer.where, f"has {key}={str(given)[:80]}, which is not a number")
    return float(given)


def _numbers(layer: Layer, given: Any, source: str) -> npt.NDArray[np.float64]:
    """Return a number or a row of numbers as a scalar or (width,)."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise unsupported(source, layer.where, f"has values that are not numbers ({str(given)[:80]})") from error
    if not np.isfinite(values).all():
        raise unsupported(source, layer.where, "has a value that is not finite")
    return values.reshape(()) if values.size == 1 else values.reshape(-1)


_LAYERS: dict[str, Callable[[Layer, Weights, str], list[Step]]] = {
    **dict.fromkeys(_PASSED, _pass),
    "Dense": _dense,
    "Activation": _activation,
    "ReLU": _relu,
    "LeakyReLU": _leaky_relu,
    "Softmax": _softmax,
    "BatchNormalization": _batch_norm,
    "Normalization": _normalization,
    "Rescaling": _rescaling,
}

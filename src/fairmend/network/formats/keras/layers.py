"""Convert Keras layers to steps of a graph: one small function per class, in the table `_LAYERS`.

To support a layer class, add a function and a line in `_LAYERS`; for an activation by name, see `activations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network.folding import Norm
from fairmend.network.formats.axes import ROWS, shown
from fairmend.network.formats.keras.call import LayerCall, Tensor
from fairmend.network.formats.keras.config import FLOAT32_ONLY, FUNCTIONS, PREFIX, REDUCTIONS, Layer
from fairmend.network.formats.keras.functions import named_activation
from fairmend.network.formats.keras.tokens import TOKEN_LAYERS, einsum_axes, softmax
from fairmend.network.formats.keras.weights import INNER

_KERAS_1 = "load the file with Keras 2.0 to 2.3 and save it again: keras.models.load_model(path).save(path)"

_PASSED = ("Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization")
_TINY = 1e-7  # keras.config.epsilon(), which Normalization divides by at least
_LEAKY_LAYER = 0.3  # the layer's default, which differs from the function's, 0.2, and from PyTorch's
_REFUSED = {
    "UnitNormalization": "divides by a norm that may be 0: use LayerNormalization or RMSNormalization",
    **dict.fromkeys(("Attention", "AdditiveAttention", "GroupQueryAttention"), "is not MultiHeadAttention: use that"),
    "Masking": "leaves out steps that depend on the inputs",
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "TimeDistributed"), "reads sequences"),
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "SeparableConv1D", "DepthwiseConv1D"), "is a convolution"),
    **dict.fromkeys(("Lambda", "TFOpLambda", "SlicingOpLambda"), "may compute anything: use a layer of Keras's own"),
    "Identity": "may stand for anything in older files: leave it out",
    **dict.fromkeys(
        ("CategoryEncoding", "IntegerLookup", "StringLookup", "Hashing", "Discretization", "HashedCrossing"),
        "turns categories into columns: the spec's encoding does that, so begin the model after it",
    ),
}


def convert_layer(call: LayerCall) -> Tensor:
    """Add what the layer computes at inference to the graph."""
    convert = _LAYERS.get(call.layer.kind)
    if convert is None:
        why = _REFUSED.get(call.layer.kind)
        raise call.refuse("is not supported" if why is None else f"is not supported: it {why}")
    _check_dtype(call)
    return convert(call)


def _check_dtype(call: LayerCall) -> None:
    """Refuse all but float32: a policy such as mixed_float16 rounds the weights, and float64 has rounded inputs."""
    dtype = call.get("dtype")
    if isinstance(dtype, dict):
        config = dtype.get("config")
        dtype = config.get("name") if isinstance(config, dict) else dtype
    for key in ("quantization_config", "lora_rank"):
        if call.get(key):
            raise call.refuse(f"computes in {str(call.get(key))[:80]} ({key})")
    stored = {array.dtype.name for array in call.weights if array.dtype.kind == "f"}
    if "float64" in (dtype, *stored):
        raise call.damaged(f"is float64. {FLOAT32_ONLY}")
    if dtype not in (None, "float32") or stored - {"float32"}:
        raise call.refuse(f"computes in {str(dtype)[:80]} with weights in {sorted(stored)}")


def _pass(call: LayerCall) -> Tensor:
    """Return what the layer reads: it does nothing at inference."""
    return replace(call.one(), raw=False)


def _flatten(call: LayerCall) -> Tensor:
    tensor = call.one()
    if call.get("data_format") not in (None, "channels_last") and len(tensor.row) > 1:
        raise call.refuse("turns the axes around (data_format)")
    return call.view(tensor, (ROWS, tensor.width))


def _reshape(call: LayerCall) -> Tensor:
    tensor, shape = call.one(), call.get("target_shape")
    width = tensor.width
    if not isinstance(shape, list) or not all(type(size) is int and size >= -1 for size in shape):
        raise call.refuse(f"has the target_shape {str(shape)[:80]}")
    known = math.prod(size for size in shape if size != -1)
    if shape.count(-1) > 1 or known < 1 or width % known or (width != known and -1 not in shape):
        raise call.refuse(f"makes rows of shape {str(shape)[:80]} of {width} numbers")
    return call.view(tensor, (ROWS, *(width // known if size == -1 else size for size in shape)))


def _dense(call: LayerCall) -> Tensor:
    if {"output_dim", "bias"} & call.layer.config.keys():
        raise call.damaged(f"is of Keras 1; {_KERAS_1}")
    biased = call.get("use_bias", True)
    parts = call.arrays(2 if biased else 1)
    units = call.get("units")
    if parts[0].ndim != 2 or parts[0].shape[1] != units:
        raise call.damaged(f"has {units} units and a kernel of shape {parts[0].shape}")
    made = call.affine(call.numbers(call.one()), parts[0].T, parts[1] if biased else None, call.name)
    return activate(replace(call, inputs=(made,)))


def _einsum_dense(call: LayerCall) -> Tensor:
    tensor, biased = call.numbers(call.one()), call.get("bias_axes") is not None
    parts = call.arrays(2 if biased else 1)
    bound, new = einsum_axes(call, parts[0])
    shape = parts[0].shape[bound:]
    if biased and parts[1].shape != shape:
        raise call.damaged(f"has a bias of shape {parts[1].shape} for {shape}")
    weight = parts[0].reshape(math.prod(parts[0].shape[:bound]), -1).T
    if tensor.row[-bound:] != parts[0].shape[:bound] or len(shape) != new:
        raise call.damaged(f"has a kernel of shape {parts[0].shape} for rows of shape {shown(tensor.row)}")
    made = call.affine(tensor, weight, parts[1].reshape(-1) if biased else None, call.name, bound, shape)
    return activate(replace(call, inputs=(made,)))


def activate(call: LayerCall) -> Tensor:
    """Add the activation of a Dense or Activation layer: a name, or a whole layer."""
    given = call.get("activation", "linear")
    if isinstance(given, dict) and given.get("class_name") in INNER:
        config = given.get("config")
        inner = Layer(call.layer.name, str(given["class_name"]), config if isinstance(config, dict) else {})
        return _LAYERS[inner.kind](replace(call, layer=inner, weights=()))
    if given in (None, "linear"):
        return call.numbers(call.one())
    if given == "softmax":
        return softmax(call, call.one(), -1)
    if given == "log_softmax":
        return call.with_value(call.steps.softmax(call.row(), call.where))
    activation = None
    if isinstance(given, str):
        try:
            activation = named_activation(given, call.keras)
        except FairmendError as error:
            raise call.refuse(str(error)) from error
    if activation is None:
        raise call.refuse(f"has the activation {str(given)[:80]}, which is not supported")
    return call.function(call.one(), activation.name, activation.slope, activation.parameters)


def _made(call: LayerCall, name: str, slope: float = 0.0, parameters: Sequence[float] = ()) -> Tensor:
    return call.function(call.one(), name, slope, parameters)


def _relu(call: LayerCall) -> Tensor:
    slope, most = call.number("negative_slope", 0.0), call.get("max_value")
    if call.number("threshold", 0.0) != 0:
        raise call.refuse("has a threshold, below which it jumps to 0")
    if most is not None:
        if slope:
            raise call.refuse("has a max_value and a negative_slope")
        most = call.number("max_value", 0.0)
        if most <= 0:
            raise call.refuse(f"has the max_value {most:g}, and is then always 0")
        return _made(call, "clip", parameters=(0.0, most))
    return _made(call, "leaky_relu", slope) if slope else _made(call, "relu")


def _leaky_relu(call: LayerCall) -> Tensor:
    if {"negative_slope", "alpha"} <= call.layer.config.keys():
        raise call.refuse("has two slopes, negative_slope and alpha")
    key = "negative_slope" if "negative_slope" in call.layer.config else "alpha"  # Keras 3, Keras 2
    return _made(call, "leaky_relu", call.number(key, _LEAKY_LAYER))


def _prelu(call: LayerCall) -> Tensor:
    (slopes,) = call.arrays(1)
    width, shared = call.numbers(call.one()).width, call.get("shared_axes")
    if shared not in (None, [], [1], 1) or slopes.size not in (1, width) or (slopes.size != width and not shared):
        raise call.refuse(f"has {slopes.size} slopes for {width} numbers, shared over the axes {str(shared)[:80]}")
    flat = slopes.reshape(-1)
    if not np.isfinite(flat).all():
        raise call.damaged("has a slope that is not finite (NaN or infinite)")
    if (flat == flat[0]).all() and flat[0] >= 0:
        return _made(call, "leaky_relu", abs(float(flat[0])))
    return _made(call, "prelu", parameters=np.broadcast_to(flat, (width,)).tolist())


def _softmax(call: LayerCall) -> Tensor:
    tensor, axis = call.one(), call.get("axis", -1)
    rank = len(tensor.row)
    if type(axis) is not int or not (-rank <= axis < 0 or 0 < axis <= rank):
        raise call.refuse(
            f"is over axis {str(axis)[:80]} of rows of shape {shown(tensor.row)}, and not over one of a row"
        )
    return softmax(call, tensor, axis if axis < 0 else axis - 1 - rank)


def _batch_norm(call: LayerCall) -> Tensor:
    tensor = call.numbers(call.one())
    last = len(tensor.row)
    if call.get("axis", -1) not in (-1, last, [-1], [last]):
        raise call.refuse(f"is over axis {call.get('axis')}, not the last one")
    if call.get("renorm") or call.get("virtual_batch_size") or "mode" in call.layer.config:
        raise call.refuse("is batch renormalisation or of Keras 1")
    parts = [call.get(part, True) for part in ("scale", "center")]
    found = list(call.arrays(2 + sum(map(bool, parts))))
    gain, shift = (found.pop(0) if part else None for part in parts)
    norm = Norm(call.where, found[0], found[1], gain, shift, call.number("epsilon", 1e-3), call.name)
    return call.with_value(call.steps.norm(call.row(), norm))


def _normalization(call: LayerCall) -> Tensor:
    last = len(call.one().row)
    if call.get("axis", -1) not in (None, -1, last, [-1], [last], []):
        raise call.refuse(f"is over axis {call.get('axis')}, not the last one")
    given = [call.get("mean"), call.get("variance")]
    if None in given:
        given = list(call.arrays(2))
    mean, variance = (_row_of_numbers(call, part) for part in given)
    if not np.all(variance >= 0):
        raise call.refuse("has a negative variance, whose root is not a number")
    deviation = np.maximum(np.sqrt(variance), _TINY)
    if call.get("invert"):
        return _by_columns(call, gain=deviation, shift=mean)
    return _by_columns(call, gain=1 / deviation, shift=np.zeros(()), mean=mean)


def _rescaling(call: LayerCall) -> Tensor:
    gain, shift = (_row_of_numbers(call, call.get(key, default)) for key, default in (("scale", 1), ("offset", 0)))
    return _by_columns(call, gain=gain, shift=shift)


def _by_columns(call: LayerCall, **parts: npt.NDArray[np.float64]) -> Tensor:
    """Add a scaling of the columns of the last axis: one number for all, or one for each."""
    tensor = call.one()
    tokens = math.prod(tensor.row[:-1])
    return call.scaled(tensor, **{k: part if part.size == 1 else np.tile(part, tokens) for k, part in parts.items()})


def _row_of_numbers(call: LayerCall, given: Any) -> npt.NDArray[np.float64]:
    """Return a number or a row of numbers as a scalar or (width,)."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise call.refuse(f"has values that are not numbers ({str(given)[:80]})") from error
    if not np.isfinite(values).all():
        raise call.refuse("has a value that is not finite")
    return values.reshape(()) if values.size == 1 else values.reshape(-1)


def _subtract(call: LayerCall) -> Tensor:
    tensors = _alike(call)
    if len(tensors) != 2:
        raise call.refuse(f"reads the outputs of {len(tensors)} layers instead of two")
    return call.add([tensors[0], call.scaled(tensors[1], gain=-1.0)])


def _multiply(call: LayerCall) -> Tensor:
    found, *others = _alike(call)
    for other in others:
        found = _product(call, found, other)
    return found


def _product(call: LayerCall, first: Tensor, second: Tensor) -> Tensor:
    """Add the product of two values of one shape, number by number."""
    return call.function(first, "square") if first.value == second.value else call.times(first, second)


def _maximum(call: LayerCall) -> Tensor:
    found, *others = _alike(call)
    for other in others:
        found = call.larger(found, other, smallest=call.layer.kind == "Minimum")
    return found


def _alike(call: LayerCall) -> list[Tensor]:
    """Return what the layer reads, stretched to one shape as Keras does; where axes are missing, the first are."""
    tensors = call.several()
    ranks = [len(tensor.row) for tensor in tensors]
    wide = [
        call.view(tensor, (ROWS, *(1,) * (max(ranks) - rank), *tensor.row))
        for tensor, rank in zip(tensors, ranks, strict=True)
    ]
    if not max(ranks) or (call.layer.kind.startswith(PREFIX) and len(set(ranks)) > 1):
        shapes = ", ".join(shown(tensor.row) for tensor in tensors)[:200]
        raise call.refuse(f"reads rows of different shapes: {shapes}")
    return call.together(wide)


def _concatenate(call: LayerCall) -> Tensor:
    tensors, axis = call.several(), call.get("axis", -1)
    ranks = {len(tensor.row) for tensor in tensors}
    rank = min(ranks)
    if len(ranks) > 1 or rank == 0 or type(axis) is not int or not (-rank <= axis < 0 or 0 < axis <= rank):
        raise call.refuse(f"joins rows of other shapes than fit its axis {str(axis)[:80]}")
    return replace(call.joined(tensors, axis % (rank + 1)), raw=False)


def _embedding(call: LayerCall) -> Tensor:
    (table,) = call.arrays(1)
    tensor = call.one()
    if call.get("mask_zero"):
        raise call.refuse("masks the category 0 (mask_zero), which the layers after it may leave out")
    if table.shape != (call.get("input_dim"), call.get("output_dim")) or 0 in table.shape:
        raise call.damaged(
            f"looks up {call.get('input_dim')} rows of {call.get('output_dim')} numbers in a table of {table.shape}"
        )
    if not tensor.raw:
        raise call.refuse("looks up something else than a column of the input, unchanged")
    value = call.steps.lookup(tensor.value, call.where, table, call.name)
    return call.made(value, (*tensor.dims, table.shape[1]))


def _arithmetic(call: LayerCall) -> Tensor:
    """Add an operation of two values, or of one with a number."""
    kind, constants = call.layer.kind.removeprefix(PREFIX), call.get("constants")
    numbers = [each for each in constants if each is not None]
    if not numbers and kind in _OF_VALUES:
        return _OF_VALUES[kind](call)
    tensor, number = call.numbers(call.one()), numbers[0] if numbers else -1.0
    if len(constants) > 2 or type(number) not in (int, float) or not math.isfinite(number):
        raise call.refuse("combines a value with something else than a number")
    is_first = constants[0] is not None
    if kind in ("Divide", "TrueDivide") and is_first:
        return call.scaled(call.function(tensor, "reciprocal"), gain=number)
    if kind in ("Divide", "TrueDivide") and number == 0:
        raise call.refuse("divides by 0")
    gain = {"Multiply": number, "Negative": -1.0, "Subtract": -1.0 if is_first else 1.0, "Add": 1.0}.get(kind)
    shift = {"Add": number, "Subtract": number if is_first else -number}.get(kind, 0.0)
    return call.scaled(tensor, gain=1 / number if gain is None else gain, shift=shift)


def _of_each(call: LayerCall) -> Tensor:
    return call.function(call.one(), FUNCTIONS[call.layer.kind.removeprefix(PREFIX)])


def _reduced(call: LayerCall) -> Tensor:
    """Add the sum, mean, product, maximum, minimum or logarithm of a sum of exponentials along axes of a row."""
    tensor, kind, given = call.numbers(call.one()), call.layer.kind.removeprefix(PREFIX), call.get("axis")
    named = given if isinstance(given, list) else [given]
    if not named or any(type(axis) is not int for axis in named) or call.get("initial") is not None:
        raise call.refuse(f"is over the axes {str(given)[:80]}; name axes of a row")
    over = sorted({call.along(tensor, axis, f"is over axis {axis} of {tensor.shape()}") for axis in named})
    keep = bool(call.get("keepdims"))
    if len(over) < len(named) or (len(tensor.row) == len(over) and not keep):
        raise call.refuse(f"is over the axes {str(given)[:80]} of {tensor.shape()}, and leaves none")
    if kind in ("Max", "Min"):
        return call.largest(tensor, over, smallest=kind == "Min", keep=keep)
    if kind == "Prod":
        return call.multiplied(tensor, over, keep=keep)
    if kind == "Logsumexp":
        return call.summed(tensor, "LogSumExp", over, keep)
    return call.total(tensor, over, mean=kind == "Mean", keep=keep)


def _quotient(call: LayerCall) -> Tensor:
    first, second = _alike(call)
    return _product(call, first, call.function(second, "reciprocal"))


def _columns(call: LayerCall) -> Tensor:
    """Add x[:, start:stop], x[:, 0] or x[:, 0, start:stop]."""
    tensor, constants = call.one(), call.get("constants")
    index = constants[1] if len(constants) == 2 and isinstance(constants[1], list) else []
    parts: list[Any] = []
    for each in index:
        config = each.get("config") if isinstance(each, dict) else None
        limits = [config.get(key) for key in ("start", "stop", "step")] if isinstance(config, dict) else [each]
        plain = all(type(part) is int or (part is None and len(limits) == 3) for part in limits)
        parts.append((slice(*limits) if len(limits) == 3 else limits[0]) if plain else None)
    if len(parts) < 2 or parts[0] != slice(None) or None in parts or len(parts) > len(tensor.dims):
        raise call.refuse("chooses something else than columns, x[:, start:stop] or x[:, token]")
    if any(isinstance(part, slice) and part.step not in (None, 1) for part in parts):
        raise call.refuse("chooses something else than columns, x[:, start:stop] or x[:, token]")
    sizes = zip(parts[1:], tensor.row, strict=False)
    if any(type(part) is int and not -size <= part < size for part, size in sizes):
        raise call.refuse(f"chooses what rows of shape {shown(tensor.row)} do not have")
    return call.moved(tensor, lambda rows: rows[tuple(parts)], "chooses no columns")


_OF_VALUES: dict[str, Callable[[LayerCall], Tensor]] = {
    "Add": lambda call: call.add(_alike(call)),
    "Subtract": _subtract,
    "Multiply": _multiply,
    "Divide": _quotient,
    "TrueDivide": _quotient,
}
_LAYERS: dict[str, Callable[[LayerCall], Tensor]] = {
    **dict.fromkeys(_PASSED, _pass),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Dense": _dense,
    "EinsumDense": _einsum_dense,
    "Activation": activate,
    "ReLU": _relu,
    "LeakyReLU": _leaky_relu,
    "PReLU": _prelu,
    "ELU": lambda call: _made(call, "elu", parameters=(call.number("alpha", 1.0),)),
    "Softmax": _softmax,
    "BatchNormalization": _batch_norm,
    "Normalization": _normalization,
    "Rescaling": _rescaling,
    "Add": lambda call: call.add(_alike(call)),
    "Average": lambda call: call.scaled(call.add(_alike(call)), gain=1 / len(call.inputs)),
    "Multiply": _multiply,
    "Maximum": _maximum,
    "Minimum": _maximum,
    "Subtract": _subtract,
    "Concatenate": _concatenate,
    "Embedding": _embedding,
    **dict.fromkeys(
        (f"{PREFIX}{name}" for name in ("Add", "Subtract", "Multiply", "Divide", "TrueDivide", "Negative")), _arithmetic
    ),
    f"{PREFIX}Concatenate": _concatenate,
    f"{PREFIX}GetItem": _columns,
    **dict.fromkeys((f"{PREFIX}{kind}" for kind in FUNCTIONS), _of_each),
    **dict.fromkeys((f"{PREFIX}{name}" for name in REDUCTIONS), _reduced),
    **TOKEN_LAYERS,
}

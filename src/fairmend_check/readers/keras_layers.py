"""What the layers of a Keras model compute at inference, as steps of a graph."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import maybe, numbers, only_keys, take
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.model import Activation, Model
from fairmend_check.kernel.operations.affine import Norm, batch_norm, scaling
from fairmend_check.readers.keras_config import (
    ALONG_AXES,
    ATTENDING,
    OF_NUMBERS,
    OPERATION,
    RANDOM,
    Described,
    Layer,
    activation_layer,
    is_tensor,
)
from fairmend_check.readers.keras_tokens import TOKEN_LAYERS, Tensor, TokenGraph, Weights

Path = tuple[str, ...]  # the names of the models that a layer is in, and its own

_SOFTMAX = ("softmax", "log_softmax")
_SAME = ("relu", "tanh", "sigmoid", *_SOFTMAX, "selu", "softsign", "silu", "mish", "gelu")
_NAMED = {
    **{name: Activation(name) for name in _SAME},
    "swish": Activation("silu"),
    "exponential": Activation("exp"),
    "leaky_relu": Activation("leaky_relu", 0.2),
    "relu6": Activation("clip", 0.0, (0.0, 6.0)),
    "hard_tanh": Activation("clip", 0.0, (-1.0, 1.0)),
    "elu": Activation("elu", 0.0, (1.0,)),
    "celu": Activation("celu", 0.0, (1.0,)),
    "softplus": Activation("softplus", 0.0, (1.0,)),
    "hard_silu": Activation("hardswish"),
    "hard_swish": Activation("hardswish"),
}
_HARD_SIGMOID = {"2": (0.2, 0.5), "3": (1 / 6, 0.5)}  # by the version of Keras
_LEAST_DEVIATION = 1e-7  # that Normalization divides by
_MERGING = ("Add", "Average", "Subtract", "Multiply", "Divide", "TrueDivide", "Maximum", "Minimum", "Concatenate")
_RESCALING = (("scale", 1.0), ("offset", 0.0))


class KerasGraph:
    """The steps of a Keras model; ``weights`` gives the arrays of a layer, ``keras`` is the version that wrote it."""

    def __init__(self, model: Described, weights: Callable[[Path, Layer], Weights], keras: str) -> None:
        self._weights, self._keras = weights, keras
        self._conditions: list[str] = []
        inputs = [_input(model, name) for name in model.calls.inputs]
        if len(inputs) == 1 and inputs[0] is None:
            inputs = [((_first_width(model, weights),), False)]
        known = [each for each in inputs if each is not None]
        if len(known) != len(inputs):
            raise CheckError("an input of the model does not say how many columns it has")
        widths = [math.prod(shape) for shape, _ in known]
        self._graph, start = Graph(sum(widths)), 0
        given = []
        for (shape, whole), width in zip(known, widths, strict=True):
            value = self._graph.columns(self._graph.input, list(range(start, start + width)))
            given.append(Tensor.of(value, shape, whole))
            start += width
        if len(given) > 1:
            names = ", ".join(
                f"{json.dumps(name)} ({width})" for name, width in zip(model.calls.inputs, widths, strict=True)
            )
            self._conditions.append(f"the columns of a row are those of the inputs {names}, one after the other")
        self._tokens = TokenGraph(self._graph)
        output = self._run(model, given, ())
        if math.prod(output.shape[:-1]) != 1:
            raise CheckError(f"the model gives rows of shape {output.shape}")
        self._output = output.value

    def finish(self) -> Model:
        """Return the model in normal form."""
        said = dict.fromkeys([*self._conditions, *self._tokens.conditions])
        return replace(self._graph.finish(self._output), condition="; ".join(said))

    def _run(self, model: Described, given: list[Tensor], above: Path) -> Tensor:
        """Add the layers of a model that is called with these tensors, and return its output."""
        calls = model.calls
        if len(given) != len(calls.inputs):
            raise CheckError(f"a model within the model reads {len(given)} values, and has {len(calls.inputs)} inputs")
        found = {(name, 0): tensor for name, tensor in zip(calls.inputs, given, strict=True)}
        for name, tensor in zip(calls.inputs, given, strict=True):
            if name in model.named and _input(model, name) not in (None, (tensor.shape, tensor.whole)):
                raise CheckError(f"{model.named[name].where} declares another input than it reads")
        for call, sources in calls.reads.items():
            if call not in found:
                layer = model.named[call[0]]
                tensors, named = [found[source] for source in sources], calls.named.get(call, {})
                _check_built(layer, [tensors[named[name]] for name in ATTENDING if name in named] or tensors)
                if layer.model is not None:
                    found[call] = self._run(layer.model, tensors, (*above, layer.name))
                else:
                    found[call] = self._layer(layer, tensors, self._weights((*above, layer.name), layer), named)
        return found[calls.output]

    def _layer(self, layer: Layer, tensors: list[Tensor], arrays: Weights, named: dict[str, Any]) -> Tensor:
        kind, arguments = layer.kind.removeprefix(OPERATION), _arguments(layer)
        if kind in _MERGING and not any(each is not None for each in arguments):
            return self._joined(layer, kind, tensors)
        if layer.kind == "MultiHeadAttention":
            return self._tokens.attention(layer, tensors, arrays, named)
        if layer.kind == "Dot":
            return self._tokens.dot(layer, tensors)
        if len(tensors) != 1:
            raise CheckError(f"{layer.where} reads {len(tensors)} values instead of one")
        (tensor,) = tensors
        if kind == "GetItem":
            return self._tokens.moved(tensor, lambda numbers: numbers[_chosen(layer, arguments, tensor.shape)])
        if layer.kind in ("Flatten", "Reshape"):
            return Tensor.of(tensor.value, _new_shape(layer, tensor), tensor.whole)
        if layer.kind == "Embedding":
            return self._embedding(layer, tensor, arrays)
        if tensor.whole:
            raise CheckError(f"{layer.where} reads whole numbers, which only a table may be looked up by")
        if layer.kind in RANDOM or layer.kind == "ActivityRegularization":
            return tensor
        if layer.kind in TOKEN_LAYERS:
            return TOKEN_LAYERS[layer.kind](self._tokens, layer, tensor, arrays)
        if layer.kind.startswith(OPERATION) and kind in (*OF_NUMBERS, *ALONG_AXES):
            return self._of_tensor(layer, kind, arguments, tensor)
        if layer.kind.startswith(OPERATION):
            return self._with_number(layer, kind, arguments, tensor)
        if layer.kind in _NORMS:
            return self._normed(layer, tensor, arrays)
        if layer.kind == "Dense":
            kernel, bias = _dense(layer, arrays)
            tensor = self._tokens.dense(layer, tensor, kernel, bias, 1, kernel.shape[:1])
        if layer.kind == "EinsumDense":
            tensor = self._tokens.einsum_dense(layer, tensor, arrays)
        for function in self._functions(layer, arrays, tensor):
            tensor = self._functioned(layer, function, tensor)
        return tensor

    def _functioned(self, layer: Layer, function: Activation, tensor: Tensor) -> Tensor:
        """Add a function of each number, or a softmax over the last axis, or that which the layer names."""
        if function.name in _SOFTMAX and (not tensor.shape or (function.name != "softmax" and _is_several(tensor))):
            raise CheckError(f"{layer.where} reads rows of shape {tensor.shape}")
        if function.name == "softmax" and _is_several(tensor):
            return self._tokens.softmax(layer, tensor, layer.config.get("axis", -1) if layer.kind == "Softmax" else -1)
        return replace(tensor, value=self._graph.function(tensor.value, function))

    def _normed(self, layer: Layer, tensor: Tensor, arrays: Weights) -> Tensor:
        """Add batch normalisation of a row, or a scaling along the last axis."""
        groups = math.prod(tensor.shape[:-1])
        if not tensor.shape or (groups != 1 and layer.kind == "BatchNormalization"):
            raise CheckError(f"{layer.where} reads rows of shape {tensor.shape}")
        norm = _NORMS[layer.kind](layer, arrays, len(tensor.shape))
        parts = (part if part.ndim == 0 else np.tile(part, groups) for part in (norm.factor, norm.shift, norm.size))
        factor, shift, size = parts
        reach = norm.reach if norm.reach.ndim == 0 else np.tile(norm.reach, groups)
        wide = replace(norm, factor=factor, shift=shift, size=size, reach=reach)
        return replace(tensor, value=self._graph.norm(tensor.value, wide))

    def _with_number(self, layer: Layer, kind: str, arguments: list[Any], tensor: Tensor) -> Tensor:
        """Add an operation of a value with a number; a number is divided by the value times its inverse."""
        value = tensor.value
        divided = kind in ("Divide", "TrueDivide") and len(arguments) == 2 and arguments[1] is None
        if divided:
            value, kind = self._tokens.values.inverse(value), "Multiply"
        return replace(tensor, value=self._graph.norm(value, _with_number(layer, kind, arguments)))

    def _of_tensor(self, layer: Layer, kind: str, arguments: list[Any], tensor: Tensor) -> Tensor:
        """Add a function of each number, or a sum, mean, product, largest number or logarithm of a sum along axes."""
        if arguments != [None]:
            raise CheckError(f"{layer.where} ({kind}) is not called with one value")
        if kind in OF_NUMBERS:
            function = Activation("abs" if kind == "Absolute" else kind.lower())
            return replace(tensor, value=self._graph.function(tensor.value, function))
        given, rank = layer.config.get("axis"), len(tensor.shape)
        axes: list[Any] = given if type(given) is list else [given]
        if not all(type(axis) is int and -rank <= axis <= rank and axis for axis in axes):
            raise CheckError(f"{layer.where} is not over axes of a row")
        over = sorted({axis if axis > 0 else rank + 1 + axis for axis in axes})
        keep = maybe(layer.config, "keepdims", bool, layer.where, False)
        count = math.prod(tensor.shape[axis - 1] for axis in over)
        if (
            not over
            or len(over) < len(axes)
            or (len(over) == rank and not keep)
            or layer.config.get("initial") is not None
            or layer.config.get("dtype") is not None
        ):
            raise CheckError(f"{layer.where} is not over axes of a row, or has an initial value or another type")
        if count > {"Prod": 16, **dict.fromkeys(("Logsumexp", "Max", "Min"), 64)}.get(kind, 2**13):
            raise CheckError(f"{layer.where} is over too many numbers")
        if kind == "Logsumexp":
            tensor = replace(tensor, value=self._graph.function(tensor.value, Activation("exp")))
        values = self._tokens.values
        parts = values.parts(tensor, over)
        if kind in ("Max", "Min"):
            value = values.largest(parts, smallest=kind == "Min")
        else:
            value = values.multiplied(parts) if kind == "Prod" else values.total(parts, mean=kind == "Mean")
        if kind == "Logsumexp":
            value = self._graph.function(value, Activation("log"))
        sizes = enumerate(tensor.shape, start=1)
        return Tensor.of(value, tuple(1 if axis in over else size for axis, size in sizes if keep or axis not in over))

    def _joined(self, layer: Layer, kind: str, tensors: list[Tensor]) -> Tensor:
        """Add a sum, mean, difference, product or maximum of values, or put values side by side."""
        if len(tensors) < 2 or any(tensor.whole for tensor in tensors):
            raise CheckError(f"{layer.where} does not read two or more values of numbers")
        if kind == "Concatenate":
            return self._side_by_side(layer, tensors)
        tensors = self._tokens.alike(layer, tensors)
        if kind in ("Subtract", "Divide", "TrueDivide") and len(tensors) != 2:
            raise CheckError(f"{layer.where} reads too many values")
        values, steps = [tensor.value for tensor in tensors], self._tokens.values
        if kind == "Subtract":
            values[1] = steps.negative(values[1])
        if kind in ("Add", "Average", "Subtract"):
            return replace(tensors[0], value=steps.total(values, mean=kind == "Average"))
        if kind in ("Maximum", "Minimum"):
            return replace(tensors[0], value=steps.largest(values, smallest=kind == "Minimum"))
        found, *others = tensors
        for other in others:
            if kind != "Multiply":
                other = replace(other, value=steps.inverse(other.value))
            found = self._tokens.times(found, other)
        return found

    def _side_by_side(self, layer: Layer, tensors: list[Tensor]) -> Tensor:
        """Put values side by side along an axis."""
        usual = {} if "arguments" in layer.config else {"axis": -1}  # an operation on tensors has another default
        rank = len(tensors[0].shape)
        axis = take({**usual, **layer.config}, "axis", int, layer.where)
        along = axis - 1 if axis > 0 else rank + axis
        if not 0 <= along < rank or axis == 0 or any(len(tensor.shape) != rank for tensor in tensors):
            raise CheckError(f"{layer.where} is not over an axis of its values")
        if len({tensor.shape[:along] + tensor.shape[along + 1 :] for tensor in tensors}) > 1:
            raise CheckError(f"{layer.where} joins values of different shapes")
        joined = self._tokens.values.joined(tensors, 1 + along)
        return Tensor(joined.value, joined.dims)

    def _embedding(self, layer: Layer, tensor: Tensor, arrays: Weights) -> Tensor:
        (table,) = arrays
        sizes = tuple(take(layer.config, key, int, layer.where) for key in ("input_dim", "output_dim"))
        if table.shape != sizes:
            raise CheckError(f"{layer.where} has a table of shape {table.shape} instead of {sizes}")
        return Tensor.of(self._tokens.values.looked_up(tensor.value, table), (*tensor.shape, table.shape[1]))

    def _functions(self, layer: Layer, arrays: Weights, tensor: Tensor) -> list[Activation]:
        """Return the elementwise function in a layer, if there is one; softmax and log_softmax have these names."""
        where, options = layer.where, layer.config
        if layer.kind in ("Dense", "EinsumDense", "Activation"):
            name = options.get("activation", "linear")
            if name in ("linear", None):
                return []
            if type(name) is dict:
                inner = activation_layer(name, where)
                if inner.kind == "Softmax" and inner.config.get("axis", -1) not in (-1, len(tensor.shape)):
                    raise CheckError(f"{where} has a softmax that is not along the last axis")
                return self._functions(replace(inner, name=layer.name), [], tensor)
            if name == "hard_sigmoid" and self._keras in _HARD_SIGMOID:
                self._conditions.append(f"the file is run by Keras {self._keras}, as hard_sigmoid differs in others")
                return [Activation("hardsigmoid", 0.0, _HARD_SIGMOID[self._keras])]
            if type(name) is str and name in _NAMED:
                return [_rounded(_NAMED[name])]
        elif layer.kind == "ReLU":
            return [_rounded(_relu(options, where))]
        elif layer.kind == "LeakyReLU" and not {"negative_slope", "alpha"} <= options.keys():
            key = "negative_slope" if "negative_slope" in options else "alpha"
            return [_rounded(Activation("leaky_relu", _number(options, key, where)))]
        elif layer.kind == "ELU":
            return [Activation("elu", 0.0, (_number({"alpha": 1.0, **options}, "alpha", where),))]
        elif layer.kind == "PReLU":
            return [_prelu(layer, arrays, self._graph.width(tensor.value))]
        elif layer.kind == "Softmax":
            axis, rank = options.get("axis", -1), len(tensor.shape)
            if axis in (-1, rank) or (type(axis) is int and -rank <= axis <= rank != 0 and _is_several(tensor)):
                return [Activation("softmax")]
        raise CheckError(f"{where} ({layer.kind[:40]}) cannot be checked; save the network as .onnx with fairmend")


def _is_several(tensor: Tensor) -> bool:
    """Return whether the last axis is not the only one: a row of tokens."""
    return math.prod(tensor.shape[:-1]) != 1


def _input(model: Described, name: str) -> tuple[tuple[int, ...], bool] | None:
    """Return the shape of a row of an input, and whether it has whole numbers; None if it is not declared."""
    layer = model.named.get(name)
    first = layer if layer is not None else model.layers[0] if model.layers else None
    options = first.config if first is not None else {}
    shape = options.get("batch_shape") or options.get("batch_input_shape") or (None if layer else model.shape)
    if shape is None and first is not None and first.model is not None:
        return _input(first.model, first.model.calls.inputs[0]) if len(first.model.calls.inputs) == 1 else None
    if type(shape) is not list or len(shape) not in (1, 2) or None in shape[1:]:
        return None
    if not all(type(size) is int and 0 < size < 2**31 for size in shape[1:]):
        raise CheckError("an input of the model has a shape that is not one of rows")
    return tuple(shape[1:]), layer is not None and options.get("dtype") in ("int32", "int64")


def _first_width(model: Described, weights: Callable[[Path, Layer], Weights], above: Path = ()) -> int:
    """Return how many columns the first Dense layer takes, where the config does not say it."""
    for layer in model.layers:
        if layer.model is not None:
            return _first_width(layer.model, weights, (*above, layer.name))
        if layer.kind == "Dense":
            return len(_dense(layer, weights((*above, layer.name), layer))[0].T)
    raise CheckError("the model has no layers, or one whose weights are not a matrix")


def _check_built(layer: Layer, tensors: list[Tensor]) -> None:
    """Refuse a layer that is built for other shapes than those that it reads."""
    shapes = layer.built
    if shapes is None:
        return
    several = type(shapes) is list and bool(shapes) and type(shapes[0]) is list
    read = [[*tensor.shape] for tensor in tensors]
    told = [shape[1:] if type(shape) is list else None for shape in (shapes if several else [shapes])]
    if told != read:
        raise CheckError(f"{layer.where} is built for other rows of numbers than it reads as its input")


def _new_shape(layer: Layer, tensor: Tensor) -> tuple[int, ...]:
    """Return the shape that Flatten or Reshape gives to the same numbers."""
    width = math.prod(tensor.shape)
    if layer.kind == "Flatten":
        if layer.config.get("data_format") not in (None, "channels_last") and len(tensor.shape) > 1:
            raise CheckError(f"{layer.where} turns the axes around")
        return (width,)
    target = take(layer.config, "target_shape", list, layer.where)
    if not all(type(size) is int and (size == -1 or size > 0) for size in target) or target.count(-1) > 1:
        raise CheckError(f"{layer.where} has a target_shape that cannot be checked")
    rest = math.prod(size for size in target if size != -1)
    shape = tuple(width // rest if size == -1 else size for size in target)
    if math.prod(shape) != width:
        raise CheckError(f"{layer.where} makes another number of numbers of a row")
    return shape


def _arguments(layer: Layer) -> list[Any]:
    """Return the arguments of an operation; None stands for a tensor, also in the list that Concatenate takes."""
    given: list[Any] = layer.config.get("arguments", [])
    if len(given) == 1 and type(given[0]) is list:
        return [None if is_tensor(each) else each for each in given[0]]
    return given


def _chosen(layer: Layer, arguments: list[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return what x[:, start:stop] or x[:, 0] chooses of each row."""
    index = arguments[1] if len(arguments) == 2 and arguments[0] is None and type(arguments[1]) is list else []
    parts: list[Any] = []
    for each in index:
        if type(each) is dict and each.keys() == {"class_name", "config"} and each["class_name"] == "__slice__":
            config = take(each, "config", dict, layer.where)
            only_keys(config, ("start", "stop", "step"), layer.where)
            limits = [config.get(key) for key in ("start", "stop", "step")]
            if all(limit is None or type(limit) is int for limit in limits) and limits[2] in (None, 1):
                parts.append(slice(*limits))
        elif type(each) is int and 1 <= len(parts) <= len(shape):
            size = shape[len(parts) - 1]
            parts += [each] * (-size <= each < size)
    if not 2 <= len(parts) <= len(shape) + 1 or len(parts) != len(index) or parts[0] != slice(None):
        raise CheckError(f"{layer.where} chooses something else than columns")
    return tuple(parts[1:])


def _with_number(layer: Layer, kind: str, arguments: list[Any]) -> Norm:
    """Return what an operation of a value with a number computes."""
    if kind == "Negative" and arguments == [None]:
        return scaling(0.0, -1.0, 0.0)
    numbers = [each for each in arguments if each is not None]
    if len(arguments) != 2 or len(numbers) != 1 or kind not in ("Add", "Subtract", "Multiply", "Divide", "TrueDivide"):
        raise CheckError(f"{layer.where} ({kind}) does not combine a value with a number")
    number = take({"number": numbers[0]}, "number", float, layer.where)
    first = arguments[0] is not None
    if kind == "Multiply":
        return scaling(0.0, number, 0.0)
    if kind == "Add":
        return scaling(0.0, 1.0, number)
    if kind == "Subtract":
        return scaling(0.0, -1.0, number) if first else scaling(0.0, 1.0, -number)
    if first or number == 0:
        raise CheckError(f"{layer.where} divides by 0")
    return scaling(0.0, 1 / number, 0.0)


def _rounded(activation: Activation) -> Activation:
    return replace(activation, slope=float(np.float32(activation.slope)))  # inference uses the rounded slope


def _relu(options: dict[str, Any], where: str) -> Activation:
    given = {"negative_slope": 0.0, "threshold": 0.0, **options}
    slope, most = _number(given, "negative_slope", where), options.get("max_value")
    if _number(given, "threshold", where) != 0 or (most is not None and slope != 0):
        raise CheckError(f"{where} (ReLU) cannot be checked; save the network as .onnx with fairmend")
    if most is None:
        return Activation("leaky_relu", slope) if slope else Activation("relu")
    if not _number(options, "max_value", where) > 0:
        raise CheckError(f"{where} (ReLU) has a max_value that is not positive")
    return Activation("clip", 0.0, (0.0, _number(options, "max_value", where)))


def _prelu(layer: Layer, arrays: Weights, width: int) -> Activation:
    slopes, shared = arrays[0].reshape(-1), layer.config.get("shared_axes")
    if shared not in (None, [], [1]) or slopes.size != (1 if shared else width):
        raise CheckError(f"{layer.where} has {slopes.size} slopes for {width} values")
    if (slopes == slopes[0]).all() and slopes[0] >= 0:
        return Activation("leaky_relu", abs(float(slopes[0])))
    return Activation("prelu", 0.0, tuple(np.broadcast_to(slopes, (width,)).tolist()))


def _number(options: dict[str, Any], key: str, where: str) -> float:
    """Return a number, which Keras 2 writes as an object if it was one of NumPy's."""
    given = options.get(key)
    if type(given) is dict:
        only_keys(given, ("type", "value"), where)
        return take(given, "value", float, where)
    return take(options, key, float, where)


def _numbers(layer: Layer, given: Any) -> NDArray[np.float64]:
    """Return one number, or a list of numbers, for each column; Keras may write a list in a list."""
    while type(given) is list and len(given) == 1:
        given = given[0]
    if type(given) is not list:
        return np.array(take({"number": given}, "number", float, layer.where))
    return numbers(given, len(given), layer.where)


def is_true(layer: Layer, key: str) -> bool:
    """Return an option that is true unless the config says otherwise."""
    return bool(maybe(layer.config, key, bool, layer.where, True))


def is_adapted(layer: Layer) -> bool:
    """Return whether a Normalization has its mean and variance among the weights."""
    return layer.config.get("mean") is None and layer.config.get("variance") is None


def _dense(layer: Layer, arrays: Weights) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
    kernel = arrays[0]
    if kernel.ndim != 2 or take(layer.config, "units", int, layer.where) != kernel.shape[1]:
        raise CheckError(f"{layer.where} has a number of units that differs from its kernel")
    return kernel.T, arrays[1] if len(arrays) == 2 else None


def _batch_norm(layer: Layer, arrays: Weights, last: int) -> Norm:
    options = {"axis": -1, "epsilon": 1e-3, **layer.config}
    if options["axis"] not in (-1, last, [-1], [last]) or any(array.ndim != 1 for array in arrays):
        raise CheckError(f"{layer.where} is not over the last axis of rows")
    parts = list(arrays)
    gain, shift = (parts.pop(0) if is_true(layer, key) else None for key in ("scale", "center"))
    mean, variance = parts
    return batch_norm(mean, variance, gain, shift, _number(options, "epsilon", layer.where))


def _normalization(layer: Layer, arrays: Weights, last: int) -> Norm:
    options = layer.config
    if options.get("axis", -1) not in (None, -1, last, [-1], [last], []):
        raise CheckError(f"{layer.where} is not over the last axis of rows")
    if is_adapted(layer):
        mean, variance = (array.reshape(() if array.size == 1 else -1).astype(np.float64) for array in arrays)
    else:
        mean, variance = (_numbers(layer, options.get(key)) for key in ("mean", "variance"))
    if not (variance >= 0).all():
        raise CheckError(f"{layer.where} has a negative variance, whose root is not a number")
    deviation = np.maximum(np.sqrt(variance), _LEAST_DEVIATION)
    if maybe(options, "invert", bool, layer.where, False):
        return scaling(0.0, deviation, mean)
    return scaling(mean, 1 / deviation, 0.0)


def _rescaling(layer: Layer, arrays: Weights, last: int) -> Norm:
    return scaling(0.0, *(_numbers(layer, layer.config.get(*part)) for part in _RESCALING))


_NORMS: dict[str, Callable[[Layer, Weights, int], Norm]] = {
    "BatchNormalization": _batch_norm,
    "Normalization": _normalization,
    "Rescaling": _rescaling,
}

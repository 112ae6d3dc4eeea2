"""Build the network of a Keras model: its layers, called as its config says, with the arrays of a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Network
from fairmend.network.form import Form
from fairmend.network.formats.axes import ROWS, shown
from fairmend.network.formats.build import SUPPORTED, GraphBuilder, unsupported
from fairmend.network.formats.keras.call import LayerCall, Tensor
from fairmend.network.formats.keras.config import FLOAT32_ONLY, Call, Layer, ModelConfig
from fairmend.network.formats.keras.layers import convert_layer
from fairmend.network.formats.keras.weights import LayerPath, all_layers, count_weights

Arrays = Callable[[LayerPath, Layer], Sequence[npt.NDArray[Any]]]

_FLOATS, _WHOLE = (None, "float32"), ("int8", "int16", "int32", "int64", "uint8")
_WIDEST = 2**20
_USED_ONCE = ("BatchNormalization",)  # a repair changes its shift together with the layer beside it


def build_network(
    model: ModelConfig, arrays: Arrays, source: str, form: Form | None = None, keras: int | None = None
) -> Network:
    """Return the network; `arrays` gives those of a layer, `keras` is the version (2 or 3) that made the model."""
    reader = _Reader(GraphBuilder(source), arrays, keras)
    declared = [layer for name in model.inputs for layer in model.layers if layer.name == name]
    shapes = [_row_shape(layer, source) for layer in declared]
    if len(shapes) == 1 and shapes[0] == (None,):
        shapes = [(_first_width(model, arrays, source),)]
    known = [tuple(size for size in shape if size is not None) for shape in shapes]
    for layer, shape, found in zip(declared, shapes, known, strict=True):
        if len(shape) != len(found):
            raise unsupported(source, layer.where, f"has rows of shape {shape}: the number of columns must be known")
    widths = [math.prod(shape) for shape in known]
    names = [(layer.name, width) for layer, width in zip(declared, widths, strict=True)] if len(declared) > 1 else []
    row = reader.builder.input(sum(widths), names)
    given, start = [], 0
    for layer, shape, width in zip(declared, known, widths, strict=True):
        value = reader.builder.columns(row, layer.where, range(start, start + width))
        given.append(Tensor((value,), (ROWS, *shape), raw=True, whole=_is_whole(layer, source)))
        start += width
    output = reader.run(model, given, ())
    if math.prod(output.row[:-1]) != 1:
        gives = f"the model gives rows of shape {shown(output.row)}"
        raise FairmendError(f"{source}: {gives}; it must give (rows, outputs)")
    return reader.builder.network(output.value, form)


def stored_order(model: Layer, above: LayerPath = ()) -> list[tuple[LayerPath, bool]]:
    """Return the layer of each array of a nested model in the order of its layers, and whether it can be trained."""
    assert model.model is not None
    path = (*above, model.name)
    found: list[tuple[LayerPath, bool]] = []
    for layer in model.model.layers:
        if layer.model is not None:
            found += stored_order(layer, path)
            continue
        trained, others = count_weights(layer)
        of_layer = (*path, layer.name)
        found += [(of_layer, layer.is_trainable)] * trained + [(of_layer, False)] * others
    return found


class _Reader:
    def __init__(self, builder: GraphBuilder, arrays: Arrays, keras: int | None) -> None:
        self.builder, self._arrays, self._keras = builder, arrays, keras
        self._uses: dict[str, int] = {}

    def run(self, model: ModelConfig, given: Sequence[Tensor], above: LayerPath) -> Tensor:
        """Add the layers of a model, called on tensors, and return its output."""
        layers = {layer.name: layer for layer in model.layers}
        results: dict[Call, Tensor] = {(name, 0): each for name, each in zip(model.inputs, given, strict=True)}
        for call, sources in model.reads.items():
            if call in results:
                continue
            layer = layers[call[0]]
            path = (*above, layer.name)
            inputs = tuple(results[source] for source in sources)
            if layer.uses > 1 and (layer.model is not None or layer.kind in _USED_ONCE):
                where = replace(layer, name="/".join(path)).where
                raise unsupported(self.builder.source, where, "is used twice, so that two places share its weights")
            if layer.model is not None:
                results[call] = self._nested(layer, inputs, path)
                continue
            weights, options = self._arrays(path, layer), model.options.get(call, {})
            results[call] = convert_layer(
                LayerCall(layer, "/".join(path), inputs, weights, self.builder, self._keras, self._uses, options)
            )
        return results[model.output]

    def _nested(self, layer: Layer, inputs: tuple[Tensor, ...], path: LayerPath) -> Tensor:
        assert layer.model is not None
        where = replace(layer, name="/".join(path)).where
        if len(inputs) != len(layer.model.inputs):
            why = f"takes {len(layer.model.inputs)} inputs, and reads the outputs of {len(inputs)} layers"
            raise unsupported(self.builder.source, where, why)
        declared = [each for name in layer.model.inputs for each in layer.model.layers if each.name == name]
        for own, tensor in zip(declared, inputs, strict=True):
            shape, source = _row_shape(own, self.builder.source), self.builder.source
            row = tensor.row
            fits = len(shape) == len(row) and all(a in (None, b) for a, b in zip(shape, row, strict=True))
            if own.name and (not fits or _is_whole(own, source) != tensor.whole):  # Keras would cast or stretch it
                raise unsupported(source, where, f"declares rows of shape {shape}, and reads some of {shown(row)}")
        return self.run(layer.model, inputs, path)


def _row_shape(layer: Layer, source: str) -> tuple[int | None, ...]:
    """Return the shape of one row of an input: (columns,), or () for a single number."""
    shape = layer.shape or [None, None]
    if len(shape) > 2 or not all(size is None or (type(size) is int and 0 < size <= _WIDEST) for size in shape[1:]):
        raise unsupported(source, layer.where, f"reads an input of shape {str(shape)[:80]}, not (rows, features)")
    return tuple(shape[1:])


def _is_whole(layer: Layer, source: str) -> bool:
    dtype = layer.get("dtype")
    if isinstance(dtype, dict) and isinstance(dtype.get("config"), dict):
        dtype = dtype["config"].get("name")
    if dtype in _FLOATS:
        return False
    if dtype == "float64":
        raise FairmendError(f"{source}: {layer.where} is float64. {FLOAT32_ONLY}")
    if dtype in _WHOLE:
        return True
    raise unsupported(source, layer.where, f"is an input of {str(dtype)[:80]}, not of numbers")


def _first_width(model: ModelConfig, arrays: Arrays, source: str) -> int:
    """Return how many columns the first Dense layer takes, where the config does not say it."""
    for path, layer in all_layers(model):
        weights = arrays(path, layer) if layer.kind == "Dense" else ()
        if weights and weights[0].ndim == 2 and len(weights[0]):
            return len(weights[0])
    raise FairmendError(f"{source}: holds no affine layer; {SUPPORTED}")

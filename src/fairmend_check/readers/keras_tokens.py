"""Keras layers over tokens, and those that multiply values: attention, normalisation and dot products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import maybe, only_keys, take
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.model import Activation
from fairmend_check.kernel.operations.affine import scaling
from fairmend_check.kernel.operations.groups import Normalise, Softmax
from fairmend_check.readers.axes import Places, Rows, elementwise_factors, factors, plain
from fairmend_check.readers.keras_config import Layer
from fairmend_check.readers.values import Value, Values

Weights = list[NDArray[np.floating]]
_MOST = 2**24  # numbers in the matrix of a layer over tokens
_MOST_TOKENS = 2**12
_HIDDEN = (
    "the file is run by Keras 3.13 or later, or no score that a mask of attention hides is above 1e8, as earlier ones "
    "subtract 1e9 from it"
)


@dataclass(frozen=True)
class Tensor(Value):
    """A value whose first axis is that of the rows: (rows, 5), or (rows, 2, 3) after a look-up of two columns.

    ``whole`` says that it is an input of whole numbers, which only a table may be looked up by.
    """

    whole: bool = False

    @staticmethod
    def of(value: int, shape: tuple[int, ...], whole: bool = False) -> Tensor:
        """Return a value with the shape of one row."""
        return Tensor(value, (Rows(), *shape), whole)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return plain(self.dims[1:])


class TokenGraph:
    """The steps of layers over tokens, in a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self.values = graph, Values(graph, _MOST)
        self.conditions: list[str] = []

    def moved(self, tensor: Tensor, move: Callable[[Places], Places]) -> Tensor:
        """Return a value with the numbers of each row moved, chosen or repeated."""
        return self.values.moved(tensor, lambda numbers: np.asarray(move(numbers[0]))[None])

    def alike(self, layer: Layer, tensors: list[Tensor]) -> list[Tensor]:
        """Return values of one shape: axes of size 1 are stretched; a layer, but no operation, adds the first axes."""
        rank = max(len(tensor.shape) for tensor in tensors)
        if "arguments" in layer.config and any(len(tensor.shape) != rank for tensor in tensors):
            raise CheckError(f"{layer.where} reads values of different numbers of axes")
        shapes = [(*(1,) * (rank - len(tensor.shape)), *tensor.shape) for tensor in tensors]
        whole = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        if not rank or any(size not in (1, most) for shape in shapes for size, most in zip(shape, whole, strict=True)):
            raise CheckError(f"{layer.where} reads values of different shapes")
        pairs = zip(tensors, shapes, strict=True)
        return [
            self.moved(Tensor.of(one.value, own), lambda numbers: np.broadcast_to(numbers, whole)) for one, own in pairs
        ]

    def product(self, first: Tensor, second: Tensor, labels: tuple[str, str, str]) -> Tensor:
        """Return the products of two values, summed over the axes that are not in the result."""
        a, b, out = (f"r{label}" for label in labels)
        made = self.values.product(first, second, factors(first.dims, second.dims, (a, b, out)))
        return Tensor(made.value, made.dims)

    def times(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the product of two values of one shape, number by number."""
        made = self.values.product(first, second, elementwise_factors(first.dims, second.dims))
        return Tensor(made.value, made.dims)

    def softmax(self, layer: Layer, tensor: Tensor, axis: Any) -> Tensor:
        """Return the softmax along an axis; those of a row count from 1."""
        rank = len(tensor.shape)
        if type(axis) is not int or not (-rank <= axis < 0 or 0 < axis <= rank):
            raise CheckError(f"{layer.where} is not along an axis of a row")
        along = axis - 1 if axis > 0 else rank + axis
        return self.values.along(tensor, 1 + along, lambda last: self._graph.apply(Softmax(tensor.shape[along]), last))

    def dense(
        self,
        layer: Layer,
        tensor: Tensor,
        weight: NDArray[np.floating],
        bias: NDArray[np.floating] | None,
        bound: int,
        out: tuple[int, ...],
    ) -> Tensor:
        """Return a layer with weights (out, in) over the last axes, the same for all tokens: one matrix of mostly 0."""
        free = tensor.shape[: len(tensor.shape) - bound]
        tokens, (outputs, inputs) = math.prod(free), weight.shape
        if len(tensor.shape) < bound or math.prod(tensor.shape[len(free) :]) != inputs:
            raise CheckError(f"{layer.where} reads rows of shape {tensor.shape}, and takes {inputs} numbers")
        if tokens > 1:
            if tokens * outputs * tokens * inputs > _MOST:
                raise CheckError(f"{layer.where} is a matrix that is too large to be checked")
            blocks = np.zeros((tokens, outputs, tokens, inputs), weight.dtype)
            for token in range(tokens):
                blocks[token, :, token] = weight
            weight = blocks.reshape(tokens * outputs, tokens * inputs)
            bias = None if bias is None else np.tile(bias, tokens)
        return Tensor.of(self._graph.affine(tensor.value, weight, bias), (*free, *out))

    def einsum_dense(self, layer: Layer, tensor: Tensor, arrays: Weights) -> Tensor:
        """Return a layer whose kernel (in axes, out axes) replaces the last axes of a value."""
        where, kernel = layer.where, arrays[0]
        equation = take(layer.config, "equation", str, where)
        values, _, out = equation.partition("->")
        own, _, weights = values.partition(",")
        rest = own.removeprefix("...") if own.startswith("...") else own
        bound = len([name for name in weights if name in rest])
        free, new = rest[: len(rest) - bound], weights[bound:]
        dots = "..." if own != rest else ""
        names = free + weights
        plain = names.isalpha() and len({*names}) == len(names) and bool(new) and bound > 0
        if not plain or rest != free + weights[:bound] or out != dots + free + new or bool(dots) == bool(free):
            raise CheckError(f"{where} has an equation that cannot be checked")
        if kernel.ndim != len(weights) or (not dots and len(free) + bound != len(tensor.shape) + 1):
            raise CheckError(f"{where} has an equation that does not fit its kernel, or what it reads")
        shape = kernel.shape[bound:]
        if tensor.shape[-bound:] != kernel.shape[:bound] or layer.config.get("bias_axes") not in (None, new):
            raise CheckError(f"{where} has a kernel that does not fit what it reads, or a bias over some axes only")
        if len(arrays) == 2 and arrays[1].shape != shape:
            raise CheckError(f"{where} has a bias of another shape than it gives")
        matrix = kernel.reshape(math.prod(kernel.shape[:bound]), math.prod(shape)).T
        bias = arrays[1].reshape(-1) if len(arrays) == 2 else None
        return self.dense(layer, tensor, matrix, bias, bound, shape)

    def attention(self, layer: Layer, tensors: list[Tensor], arrays: Weights, named: dict[str, Any]) -> Tensor:
        """Return attention of several heads, perhaps times the sigmoid of a layer, and the layer after it."""
        where, options = layer.where, layer.config
        query, value = tensors[named["query"]], tensors[named["value"]]
        key = tensors[named["key"]] if "key" in named else value
        three = (query, value, key)
        if any(len(each.shape) != 2 or each.whole for each in three) or key.shape[0] != value.shape[0]:
            raise CheckError(f"{where} does not read rows of tokens, as many keys as values")
        if options.get("attention_axes") not in (None, [1]):
            raise CheckError(f"{where} attends over other axes than that of the tokens")
        heads, size = (take(options, name, int, where) for name in ("num_heads", "key_dim"))
        depth = size if options.get("value_dim") is None else take(options, "value_dim", int, where)
        if min(heads, size, depth) < 1:
            raise CheckError(f"{where} has no heads, or heads of no size")
        given = options.get("output_shape")
        out = tuple(given) if type(given) is list else (query.shape[1],)
        if (given is not None and type(given) is not list) or not out or not all(type(n) is int and n > 0 for n in out):
            raise CheckError(f"{where} has an output_shape that cannot be checked")
        allowed = _allowed(layer, named, query.shape[0], value.shape[0])
        if not allowed.all():
            self.conditions.append(_HIDDEN)
        gated = maybe(options, "use_gate", bool, where, False)
        each = len(arrays) // (5 if gated else 4)

        def layer_of(number: int, tensor: Tensor, inside: tuple[int, ...], outside: tuple[int, ...]) -> Tensor:
            kernel, *rest = arrays[number * each : (number + 1) * each]
            if kernel.shape != (*inside, *outside) or any(bias.shape != outside for bias in rest):
                raise CheckError(f"{where} has arrays of other shapes than its heads need")
            matrix = kernel.reshape(math.prod(inside), math.prod(outside)).T
            bias = rest[0].reshape(-1) if rest else None
            return self.dense(layer, tensor, matrix, bias, len(inside), outside)

        q = layer_of(0, query, query.shape[1:], (heads, size))
        k = layer_of(1, key, key.shape[1:], (heads, size))
        v = layer_of(3 if gated else 2, value, value.shape[1:], (heads, depth))
        q = replace(q, value=self._graph.norm(q.value, scaling(0.0, 1 / math.sqrt(size), None)))
        scores = self.product(q, k, ("thd", "shd", "hts"))
        attended = self._attended(scores, v, allowed)
        if gated:
            gate = layer_of(2, query, query.shape[1:], (heads, depth))
            opened = self._graph.function(gate.value, Activation("sigmoid"))
            attended = self.times(attended, replace(gate, value=opened))
        return layer_of(4 if gated else 3, attended, (heads, depth), out)

    def _attended(self, scores: Tensor, values: Tensor, allowed: NDArray[np.bool_]) -> Tensor:
        """Return values weighed by the softmax of scores, (tokens, heads, size).

        Tokens that attend to the same others are one product, over these alone: the weights of all others are 0.
        """
        sets: dict[bytes, list[int]] = {}
        for token, row in enumerate(allowed):
            sets.setdefault(row.tobytes(), []).append(token)
        parts: list[int] = []
        for tokens in sets.values():
            seen = np.flatnonzero(allowed[tokens[0]])
            chosen = self.moved(scores, lambda n, rows=tokens, seen=seen: n[:, rows][:, :, seen])  # type: ignore[misc]
            weights = replace(chosen, value=self._graph.apply(Softmax(len(seen)), chosen.value))
            own = self.moved(values, lambda n, seen=seen: n[seen])  # type: ignore[misc]
            parts.append(self.product(weights, own, ("hts", "she", "the")).value)
        order = [token for tokens in sets.values() for token in tokens]
        whole = Tensor.of(self._graph.concatenate(*parts), (len(allowed), *values.shape[1:]))
        return self.moved(whole, lambda numbers: numbers[np.argsort(order)])

    def dot(self, layer: Layer, tensors: list[Tensor]) -> Tensor:
        """Return the products of two values, summed over an axis of each."""
        where, given = layer.where, layer.config.get("axes")
        axes = given if type(given) is list else [given, given]
        if len(tensors) != 2 or len(axes) != 2 or any(tensor.whole for tensor in tensors):
            raise CheckError(f"{where} does not multiply two values over an axis of each")
        labels = []
        for axis, tensor, letters in zip(axes, tensors, ("abcdefg", "tuvwxyz"), strict=True):
            rank = len(tensor.shape)
            if type(axis) is not int or axis == 0 or not -rank <= axis <= rank or rank > len(letters):
                raise CheckError(f"{where} is over an axis that its values do not have")
            along = axis - 1 if axis > 0 else rank + axis
            labels.append("".join("s" if place == along else letters[place] for place in range(rank)))
        out = "".join(label.replace("s", "") for label in labels)
        found = self.product(tensors[0], tensors[1], (labels[0], labels[1], out))
        return found if found.shape else Tensor.of(found.value, (1,))

    def normalised(self, layer: Layer, tensor: Tensor, arrays: Weights) -> Tensor:
        """Return a normalisation over the last axes, with its gain and shift."""
        where, centred = layer.where, layer.kind == "LayerNormalization"
        given, rank = layer.config.get("axis", -1), len(tensor.shape)
        axes = given if type(given) is list else [given]
        count = len(axes)
        last = axes == list(range(-count, 0)) or axes == list(range(rank - count + 1, rank + 1))
        if not last or not 0 < count <= rank or not all(type(axis) is int for axis in axes):
            raise CheckError(f"{where} is not over the last axes of a row")
        shape = tensor.shape[rank - count :]
        if any(array.shape != shape for array in arrays):
            raise CheckError(f"{where} has a gain or a shift of another shape than the axes it is over")
        options = {"epsilon": 1e-3 if centred else 1e-6, **layer.config}
        epsilon = take(options, "epsilon", float, where)
        value = self._graph.apply(Normalise(math.prod(shape), epsilon, centred), tensor.value)
        return self._scaled(layer, replace(tensor, value=value), arrays, gained=not centred)

    def _scaled(self, layer: Layer, tensor: Tensor, arrays: Weights, *, gained: bool = False) -> Tensor:
        """Return a normalised value with its gain, unless it has none, and its shift."""
        gained = gained or maybe(layer.config, "scale", bool, layer.where, True)
        wide = [np.broadcast_to(array, tensor.shape).reshape(-1).astype(np.float64) for array in arrays]
        if not wide:
            return tensor
        gain = wide.pop(0) if gained else 1.0
        return replace(tensor, value=self._graph.norm(tensor.value, scaling(0.0, gain, wide[0] if wide else None)))

    def normalised_groups(self, layer: Layer, tensor: Tensor, arrays: Weights) -> Tensor:
        """Return a normalisation of each group of channels, the last axis, over all tokens, with gain and shift."""
        where, rank = layer.where, len(tensor.shape)
        options = {"groups": 32, "epsilon": 1e-3, **layer.config}
        groups, epsilon = take(options, "groups", int, where), take(options, "epsilon", float, where)
        channels = tensor.shape[-1] if rank else 0
        groups = channels if groups == -1 else groups
        if options.get("axis", -1) not in (-1, rank) or groups < 1 or channels % groups:
            raise CheckError(f"{where} is not over groups of the last axis of a row")
        if any(array.shape != (channels,) for array in arrays):
            raise CheckError(f"{where} has a gain or a shift that is not one number for each channel")
        own = np.arange(math.prod(tensor.shape)).reshape(*tensor.shape[:-1], groups, channels // groups)
        order = np.moveaxis(own, rank - 1, 0).reshape(-1)  # group by group
        grouped = self._graph.columns(tensor.value, order.tolist())
        made = self._graph.apply(Normalise(order.size // groups, epsilon, True), grouped)
        back = self._graph.columns(made, np.argsort(order).tolist())
        return self._scaled(layer, replace(tensor, value=back), arrays)

    def permuted(self, layer: Layer, tensor: Tensor, arrays: Weights) -> Tensor:
        """Return the axes of a row in another order."""
        dims = take(layer.config, "dims", list, layer.where)
        if not all(type(dim) is int for dim in dims) or sorted(dims) != list(range(1, len(tensor.shape) + 1)):
            raise CheckError(f"{layer.where} does not put the axes of a row in another order")
        return self.moved(tensor, lambda numbers: numbers.transpose([dim - 1 for dim in dims]))

    def repeated(self, layer: Layer, tensor: Tensor, arrays: Weights) -> Tensor:
        """Return a row several times, as tokens."""
        times = take(layer.config, "n", int, layer.where)
        if len(tensor.shape) != 1 or not 0 < times <= _MOST_TOKENS:
            raise CheckError(f"{layer.where} does not repeat one row")
        return self.moved(tensor, lambda numbers: np.tile(numbers, (times, 1)))

    def pooled(self, layer: Layer, tensor: Tensor, arrays: Weights) -> Tensor:
        """Return the mean over the tokens."""
        where, options = layer.where, layer.config
        if len(tensor.shape) != 2 or options.get("data_format") not in (None, "channels_last"):
            raise CheckError(f"{where} does not read rows of tokens, with channels last")
        tokens, width = tensor.shape
        if tokens > _MOST_TOKENS:
            raise CheckError(f"{where} reads too many tokens")
        value = self.values.total(self.values.parts(tensor, [1]), mean=True)
        kept = maybe(options, "keepdims", bool, where, False)
        return Tensor.of(value, (1, width) if kept else (width,))


def _allowed(layer: Layer, named: dict[str, Any], rows: int, columns: int) -> NDArray[np.bool_]:
    """Return which tokens attend to which: masks must be constants."""
    where, window, mask = layer.where, layer.config.get("sliding_window"), named["attention_mask"]
    apart = np.arange(rows)[:, None] - np.arange(columns)
    found = np.ones(apart.shape, np.bool_)
    if named["use_causal_mask"]:
        found &= apart >= 0
    if window is not None:
        if type(window) is not int or window < 1:
            raise CheckError(f"{where} has a sliding_window that cannot be checked")
        found &= np.abs(apart) < window
    if mask is not None:
        found &= _constant_mask(mask, rows, columns, where)
    if not found.any(axis=1).all():
        raise CheckError(f"{where} has a token that attends to nothing, which cannot be checked")
    return found


def _constant_mask(mask: Any, rows: int, columns: int, where: str) -> NDArray[np.bool_]:
    if type(mask) is not dict or mask.get("class_name") not in ("__numpy__", "__tensor__"):
        raise CheckError(f"{where} has an attention_mask that is not a constant")
    only_keys(mask, ("class_name", "config"), where)
    config = take(mask, "config", dict, where)
    only_keys(config, ("value", "dtype"), where)
    value = take(config, "value", list, where)
    if len(value) == 1 and rows != 1 and type(value[0]) is list:
        value = value[0]
    lists = config.get("dtype") == "bool" and len(value) == rows and all(type(row) is list for row in value)
    if not lists or any(len(row) != columns or not all(type(one) is bool for one in row) for row in value):
        raise CheckError(f"{where} has an attention_mask that is not {rows} by {columns} booleans")
    return np.array(value, np.bool_)


TOKEN_LAYERS: dict[str, Callable[[TokenGraph, Layer, Tensor, Weights], Tensor]] = {
    "LayerNormalization": TokenGraph.normalised,
    "RMSNormalization": TokenGraph.normalised,
    "GroupNormalization": TokenGraph.normalised_groups,
    "Permute": TokenGraph.permuted,
    "RepeatVector": TokenGraph.repeated,
    "GlobalAveragePooling1D": TokenGraph.pooled,
}

"""Nodes of an ONNX graph that compute with sizes of axes and with constants alone.

Exporters write how long an axis is as nodes: Shape, Gather, Concat, Mul. Only the number of rows is not known, and is
`Rows` in a list of sizes. What is known is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.readers.axes import Dims, Rows
from fairmend_check.readers.onnx_nodes import ELEMENTS, Node

Tensor = NDArray[Any]
Sizes = NDArray[np.object_]  # of whole numbers and Rows, with one axis or none

_MOST = 2**10  # numbers that are computed with
_MASKS = ("Equal", "Expand", "Not", "Trilu", "Where")  # also of matrices, as exporters write masks
_MOST_OF_MASKS = 2**16
_FLOATS = {ELEMENTS["float32"]: np.float32, ELEMENTS["float64"]: np.float64}
_INT64 = ELEMENTS["int64"]


def sizes_of(dims: Dims) -> Sizes:
    """Return the sizes of axes as a list."""
    return _objects(list(dims), (len(dims),))


def known(sizes: Sizes) -> Tensor | None:
    """Return sizes as whole numbers; None if the number of rows is among them."""
    if any(isinstance(size, Rows) for size in sizes.reshape(-1)):
        return None
    return sizes.astype(np.int64)


def compute_sizes(node: Node, given: Sequence[Sizes | Tensor | None]) -> Sizes | Tensor | None:
    """Return what a node computes of sizes and constants; None if it is not a node for them.

    Of ``given``, None is a value of another kind. Whatever a runtime may compute in another way is refused.
    """
    compute = _NODES.get(node.kind)
    if compute is None or any(each is None for each in given):
        return None
    inputs = [each for each in given if each is not None]
    most = _MOST_OF_MASKS if node.kind in _MASKS else _MOST
    if any(each.size > most or (each.ndim > 1 and node.kind not in _MASKS) for each in inputs):
        return None
    if node.kind in ("ConstantOfShape", "Expand") and inputs[-1].dtype == object:
        return None  # a value for each row
    found = compute(node.attributes, inputs)
    if found.size > most:
        raise CheckError(f"node {node.kind} computes too many sizes")
    return found


def _objects(values: list[Any], shape: tuple[int, ...]) -> Sizes:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found.reshape(shape)


def _whole(sizes: Tensor) -> list[int]:
    if sizes.dtype == object or sizes.dtype.kind != "i":
        raise CheckError("a list of whole numbers is not known")
    return [int(number) for number in sizes.reshape(-1)]


def _each(inputs: list[Tensor], compute: Callable[[Any, Any], Any]) -> Tensor:
    """Combine numbers one by one: sizes as they are, floating-point numbers as IEEE 754 rounds them."""
    first, second = inputs
    if object in (first.dtype, second.dtype):
        if "f" in (first.dtype.kind, second.dtype.kind):
            raise CheckError("sizes are combined with numbers that are not whole")
        a, b = np.broadcast_arrays(first, second)
        return _objects([compute(_plain(x), _plain(y)) for x, y in zip(a.flat, b.flat, strict=True)], a.shape)
    if first.dtype != second.dtype:
        raise CheckError("constants of two types are combined")
    with np.errstate(all="ignore"):
        found: Tensor = np.asarray(compute(first, second))
    return found


def _plain(value: Any) -> Any:
    return value if isinstance(value, Rows) else int(value)


def _add(first: Any, second: Any) -> Any:
    if isinstance(first, Rows) or isinstance(second, Rows):
        raise CheckError("a number is added to that of the rows")
    return first + second


def _times(first: Any, second: Any) -> Any:
    if isinstance(first, Rows) and isinstance(second, Rows):
        raise CheckError("the number of rows is multiplied by itself")
    rows, number = (first, second) if isinstance(first, Rows) else (second, first)
    if isinstance(rows, Rows):
        if rows.before != 1 or number < 1:
            raise CheckError("the number of rows is multiplied by a number that is not positive")
        return Rows(rows.times * number)
    return first * second


def _less(first: Any, second: Any) -> Any:
    if isinstance(first, Rows) or isinstance(second, Rows):
        raise CheckError("a number is subtracted from that of the rows")
    return first - second


def _over(first: Any, second: Any) -> Any:
    if isinstance(second, Rows):
        raise CheckError("a number is divided by that of the rows")
    if isinstance(first, Rows):
        if second < 1 or first.times % second:
            raise CheckError("the number of rows is divided by a number that it may not be a multiple of")
        return Rows(first.times // second, first.before)
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        return first / second
    if (np.asarray(second) <= 0).any() or (np.asarray(first) < 0).any():
        raise CheckError("whole numbers are divided that are not positive")
    return first // second


def _rest(first: Any, second: Any) -> Any:
    if isinstance(first, Rows) or isinstance(second, Rows):
        raise CheckError("a rest is taken of the number of rows")
    if (np.asarray(second) <= 0).any() or (np.asarray(first) < 0).any():
        raise CheckError("a rest is taken of numbers that are not positive")
    return first % second


def _same(first: Any, second: Any) -> Any:
    if isinstance(first, Rows) and isinstance(second, Rows):
        return first.entries == second.entries  # a size does not say which come first
    if isinstance(first, Rows) or isinstance(second, Rows):
        other = second if isinstance(first, Rows) else first
        if other > 0:
            raise CheckError("the number of rows is compared with another one")
        return False
    return first == second


def _concat(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    if attributes["axis"] not in (0, -1) or any(each.ndim != 1 or each.dtype.kind not in "iO" for each in inputs):
        raise CheckError("node Concat joins sizes along another axis")
    return _objects([_plain(size) for each in inputs for size in each], (sum(map(len, inputs)),))


def _gather(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    places, sizes = _whole(inputs[1]), inputs[0]
    if attributes["axis"] != 0 or sizes.ndim != 1 or not all(-len(sizes) <= place < len(sizes) for place in places):
        raise CheckError("node Gather chooses sizes that there are not")
    return sizes[places].reshape(inputs[1].shape)


def _slice(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    sizes, (start, end, *more) = inputs[0], (_whole(each) for each in inputs[1:])
    if sizes.ndim != 1 or len(start) != 1 or len(end) != 1 or more[:1] not in ([], [[0]], [[-1]]):
        raise CheckError("node Slice chooses sizes along another axis")
    if more[1:] not in ([], [[1]]):
        raise CheckError("node Slice chooses sizes in steps")
    return sizes[start[0] : end[0]]


def _unsqueeze(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    axes = _whole(inputs[1]) if len(inputs) == 2 else list(attributes["axes"])
    if inputs[0].ndim or axes not in ([0], [-1]):
        raise CheckError("node Unsqueeze adds an axis to a list of sizes")
    return inputs[0].reshape(1)


def _squeeze(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    axes = _whole(inputs[1]) if len(inputs) == 2 else list(attributes["axes"])
    if inputs[0].shape != (1,) or axes not in ([], [0], [-1]):
        raise CheckError("node Squeeze takes an axis away from a list of sizes")
    return inputs[0].reshape(())


def _reshape(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    """Return a list of sizes as a list, or numbers such as a gain under other axes."""
    if inputs[0].dtype.kind == "f":
        shape = _whole(inputs[1])
        if min(shape, default=0) < 1 or math.prod(shape) != inputs[0].size:
            raise CheckError("node Reshape gives a constant a shape that cannot be checked")
        return inputs[0].reshape(shape)
    if _whole(inputs[1]) not in ([-1], [inputs[0].size]) or not inputs[0].size or inputs[0].dtype.kind not in "iO":
        raise CheckError("node Reshape does not make a list of sizes")
    return inputs[0].reshape(-1)


def _cast(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    to, given = attributes["to"], inputs[0]
    if to == _INT64 and given.dtype.kind in "iO":
        return given
    if to in _FLOATS and given.dtype.kind in "if" and (np.abs(given) < 2**24).all():
        return given.astype(_FLOATS[to])
    raise CheckError("node Cast makes numbers of sizes that cannot be checked")


def _square_root(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    if inputs[0].dtype.kind != "f" or not (inputs[0] >= 0).all():
        raise CheckError("node Sqrt is not of a positive constant")
    return np.sqrt(inputs[0])


def _filled(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    shape, value = _whole(inputs[0]), attributes["value"]
    if len(shape) > 1 or not 0 <= sum(shape) <= _MOST or not isinstance(value, np.ndarray) or value.dtype != np.int64:
        raise CheckError("node ConstantOfShape does not give a list of whole numbers")
    return np.full(shape, int(value.reshape(-1)[0]), dtype=np.int64)


def _where(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    chosen = _together(*inputs)
    if chosen[0].dtype != np.bool_:
        raise CheckError("node Where does not choose by truth values")
    if chosen[1].dtype == chosen[2].dtype and chosen[1].dtype.kind == "f":
        return np.where(*chosen)
    if any(each.dtype.kind not in "iO" for each in chosen[1:]):
        raise CheckError("node Where does not choose numbers of one type")
    triples = zip(*(each.flat for each in chosen), strict=True)
    return _objects([_plain(first if truth else second) for truth, first, second in triples], chosen[0].shape)


def _together(*arrays: Tensor) -> list[Tensor]:
    """Return arrays in one shape."""
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    if np.prod(shape) > _MOST_OF_MASKS:
        raise CheckError("nodes compute constants that are too large")
    return [np.broadcast_to(each, shape) for each in arrays]


def _expanded(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    if not 0 < int(np.prod(_whole(inputs[1]))) <= _MOST_OF_MASKS:
        raise CheckError("node Expand makes a constant that cannot be checked")
    return _together(inputs[0], np.empty(_whole(inputs[1]), np.bool_))[0]


def _triangle(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    places = _whole(inputs[1]) if len(inputs) == 2 else [0]
    if inputs[0].ndim < 2 or len(places) != 1 or attributes["upper"] not in (0, 1):
        raise CheckError("node Trilu is not of a constant matrix")
    return np.triu(inputs[0], places[0]) if attributes["upper"] else np.tril(inputs[0], places[0])


def _not(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    if inputs[0].dtype != np.bool_:
        raise CheckError("node Not is not of truth values")
    return ~inputs[0]


def _product(attributes: Mapping[str, Any], inputs: list[Tensor]) -> Tensor:
    """Return the product of a few sizes."""
    sizes, axes = _whole(inputs[0]), _whole(inputs[1]) if len(inputs) == 2 else list(attributes["axes"])
    if inputs[0].ndim != 1 or axes not in ([], [0], [-1]) or not 0 < len(sizes) < 4:
        raise CheckError("node ReduceProd is not of a few sizes")
    if attributes["noop_with_empty_axes"] or attributes["keepdims"] not in (0, 1) or max(map(abs, sizes)) > 2**20:
        raise CheckError("node ReduceProd is not of a few sizes")
    return np.full((1,) * attributes["keepdims"], np.prod(sizes), np.int64)


_NODES: dict[str, Callable[[Mapping[str, Any], list[Tensor]], Tensor]] = {
    "Add": lambda attributes, inputs: _each(inputs, _add),
    "Sub": lambda attributes, inputs: _each(inputs, _less),
    "Mul": lambda attributes, inputs: _each(inputs, _times),
    "Div": lambda attributes, inputs: _each(inputs, _over),
    "Mod": lambda attributes, inputs: _each(inputs, _rest),
    "Equal": lambda attributes, inputs: _each(inputs, _same).astype(np.bool_),
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Cast": _cast,
    "Sqrt": _square_root,
    "ConstantOfShape": _filled,
    "Where": _where,
    "Expand": _expanded,
    "Trilu": _triangle,
    "Not": _not,
    "ReduceProd": _product,
}

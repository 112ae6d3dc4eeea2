"""What nodes give of arrays: of constants, of sizes that nodes compute, and of the numbers of columns.

Only what every runtime computes to the same bit is done here: moves, whole numbers, and single correctly rounded
operations. In an array of sizes, `Count` stands for the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from fairmend.network.formats.axes import Count

Array = npt.NDArray[Any]
Node = Any
Given = Sequence[Array | None]
MOST = 2**26  # numbers in an array that nodes compute

_TYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.BOOL: np.bool_,
}


def attributes(node: Node) -> dict[str, Any]:
    """Return the attributes of a node by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def compute(node: Node, given: Given) -> list[Array] | None:
    """Return what a node gives of arrays, one array for each output; None if that is not known."""
    function = _COMPUTED.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if function is None or not given or given[0] is None:
        return None
    try:
        with np.errstate(all="ignore"):
            found = function(node, [_plain(each) for each in given])
    except (TypeError, ValueError, IndexError, KeyError, OverflowError, ZeroDivisionError):
        return None  # what a runtime would refuse as well, or what depends on the number of rows
    results = found if isinstance(found, list) else [found]
    if any(each.size > MOST or (each.dtype.kind == "f" and not (each < np.inf).all()) for each in results):
        return None
    return [_known(each) for each in results]


def run(node: Node, given: Given) -> Any:
    """Return what a node that moves numbers gives of them; what cannot be is a ValueError, TypeError or IndexError."""
    return _COMPUTED[node.op_type](node, [_plain(each) for each in given])


def of_rows(array: Array, count: int) -> Array:
    """Return sizes with so many rows."""
    return _known(
        np.frompyfunc(lambda each: each.times * count if isinstance(each, Count) else each, 1, 1)(array)
        if has_rows(array)
        else array
    )


def has_rows(array: Array) -> bool:
    """Return whether the number of rows is among sizes."""
    return array.dtype == object


def listed(array: Array) -> list[Any]:
    """Return sizes, axes or indices as a list."""
    return [each if isinstance(each, Count) else int(each) for each in array.reshape(-1)]


def _plain(array: Array | None) -> Array:
    return np.zeros(0, np.int64) if array is None else array


def _known(array: Array) -> Array:
    """Return sizes as whole numbers, if that of the rows is not among them."""
    if array.dtype != object or any(isinstance(each, Count) for each in array.reshape(-1)):
        return array
    return np.array([int(each) for each in array.reshape(-1)], np.int64).reshape(array.shape)


def axes_of(node: Node, given: Given, count: int) -> list[int] | None:
    """Return the axes that a node names, in an attribute or its second input, counted from the front; None if none."""
    named = attributes(node).get("axes") if len(given) < 2 or given[1] is None else listed(given[1])
    return None if named is None else [_axis(int(axis), count) for axis in named]


def _axis(axis: int, count: int) -> int:
    if not -count <= axis < count:
        raise ValueError(f"axis {axis} of {count}")
    return axis % count


def slices(node: Node, given: Given, count: int) -> dict[int, slice]:
    """Return what a Slice takes along each axis that it names."""
    old = attributes(node)
    lists = [listed(each) if each is not None and each.size else None for each in (*given[1:], *[None] * 4)[:4]]
    starts, ends, axes, steps = (
        old.get(key) if part is None else part
        for key, part in zip(("starts", "ends", "axes", "steps"), lists, strict=True)
    )
    if starts is None or ends is None:
        raise ValueError("a slice without its ends")
    axes = [_axis(axis, count) for axis in (range(len(starts)) if axes is None else axes)]
    steps = [1] * len(starts) if steps is None else steps
    if len(set(axes)) < len(axes):
        raise ValueError("a slice takes twice along an axis")
    return {axis: slice(start, end, step) for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)}


def take_slices(array: Array, chosen: dict[int, slice]) -> Array:
    """Return a part of an array; as in ONNX, ends beyond the array are its ends."""
    for axis, part in chosen.items():
        if part.step < 0 and part.start < -array.shape[axis]:  # the first entry in ONNX, nothing in NumPy
            raise ValueError("a slice that goes backwards from before the array")
    return array[tuple(chosen.get(axis, slice(None)) for axis in range(array.ndim))]


def split_sizes(node: Node, given: Given, whole: int) -> list[int]:
    """Return the sizes of the parts of a Split."""
    old, count = attributes(node).get("split"), len(node.output)
    named = old if len(given) < 2 or given[1] is None else listed(given[1])
    part = -(-whole // count)
    sizes = named or [min(part, whole - k * part) for k in range(count)]
    if len(sizes) != count or min(sizes) < 1 or sum(sizes) != whole:
        raise ValueError("a split into parts that do not fit")
    return [int(size) for size in sizes]


def split(array: Array, sizes: Sequence[int], axis: int) -> list[Array]:
    """Return the parts of an array along an axis."""
    return list(np.split(array, np.cumsum(sizes)[:-1], axis))


def permutation(node: Node, count: int) -> list[int]:
    """Return the order of axes of a Transpose."""
    order = [int(axis) for axis in attributes(node).get("perm", range(count)[::-1])]
    if sorted(order) != list(range(count)):
        raise ValueError("an order of other axes")
    return order


def gathered(array: Array, indices: Array, axis: int) -> Array:
    """Return the entries of an array along an axis that whole numbers name."""
    size = array.shape[axis]
    if indices.dtype.kind != "i" or not ((-size <= indices) & (indices < size)).all():
        raise IndexError("an index that is not there")
    return np.take(array, indices, axis)


def squeezed(array: Array, axes: Sequence[int] | None) -> Array:
    """Return an array without axes of size 1."""
    return np.squeeze(array, None if axes is None else tuple(axes))


def _unsqueeze(node: Node, given: Sequence[Array]) -> Array:
    named = attributes(node).get("axes") if len(given) < 2 else listed(given[1])
    return np.expand_dims(given[0], tuple(int(axis) for axis in named or ()))


def _reshape(node: Node, given: Sequence[Array]) -> Array:
    shape = listed(given[1])
    if attributes(node).get("allowzero", 0) and 0 in shape:
        raise ValueError("a shape of nothing")
    return given[0].reshape([given[0].shape[axis] if size == 0 else size for axis, size in enumerate(shape)])


def _gather(node: Node, given: Sequence[Array]) -> Array:
    return np.asarray(gathered(given[0], given[1], _axis(attributes(node).get("axis", 0), given[0].ndim)))


def _gather_nd(node: Node, given: Sequence[Array]) -> Array:
    array, indices = given
    if attributes(node).get("batch_dims", 0):
        raise ValueError("a choice for each entry")
    return np.asarray(array[tuple(np.moveaxis(indices, -1, 0))])


def _triangle(node: Node, given: Sequence[Array]) -> Array:
    diagonal = listed(given[1])[0] if len(given) > 1 and given[1].size else 0
    return (np.triu if attributes(node).get("upper", 1) else np.tril)(given[0], diagonal)


def _split(node: Node, given: Sequence[Array]) -> list[Array]:
    axis = _axis(attributes(node).get("axis", 0), given[0].ndim)
    return split(given[0], split_sizes(node, given, given[0].shape[axis]), axis)


def _concat(node: Node, given: Sequence[Array]) -> Array:
    if len({each.dtype for each in given if each.dtype != object}) > 1:
        raise TypeError("arrays of several types")
    return np.concatenate(given, axis=attributes(node)["axis"])


def _expand(node: Node, given: Sequence[Array]) -> Array:
    shape = np.broadcast_shapes(given[0].shape, tuple(listed(given[1])))
    return _limited(np.broadcast_to(given[0], shape))


def _limited(array: Array) -> Array:
    if array.size > MOST:
        raise ValueError("too many numbers")
    return array.copy()


def _constant_of_shape(node: Node, given: Sequence[Array]) -> Array:
    value = attributes(node).get("value")
    one = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    return _limited(np.broadcast_to(one.reshape(()), tuple(listed(given[0]))))


def _cast(node: Node, given: Sequence[Array]) -> Array:
    target = _TYPES[attributes(node)["to"]]
    if given[0].dtype == object:
        if target is not np.int64:
            raise TypeError("the number of rows as another number")
        return given[0]
    if given[0].dtype.kind == "f" and np.issubdtype(target, np.integer) and (np.abs(given[0]) >= 2**31).any():
        raise ValueError("numbers that do not fit")
    return given[0].astype(target)


def _shape(node: Node, given: Sequence[Array]) -> Array:
    old = attributes(node)
    return np.array(given[0].shape, np.int64)[slice(old.get("start", 0), old.get("end"))]


def _range(node: Node, given: Sequence[Array]) -> Array:
    start, stop, step = (int(each.reshape(())) for each in given)
    if any(each.dtype.kind != "i" for each in given) or abs(stop - start) > MOST:
        raise TypeError("a range of other than whole numbers")
    return np.arange(start, stop, step, dtype=given[0].dtype)


def _pairs(combine: Callable[[Any, Any], Any], of_sizes: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    """Return an operator on two arrays of one type; ``of_sizes`` combines two sizes of which one is of the rows."""

    def computed(node: Node, given: Sequence[Array]) -> Array:
        found = given[0]
        for other in given[1:]:
            if object in (found.dtype, other.dtype):
                pair = [each if each.dtype == object else each.astype(object) for each in (found, other)]
                found = np.asarray(np.frompyfunc(of_sizes, 2, 1)(*pair), object)
            elif found.dtype != other.dtype:
                raise TypeError("arrays of two types")
            else:
                found = _limited(np.asarray(combine(found, other)))
        return found

    return computed


def _divided(first: Array, second: Array) -> Array:
    if first.dtype.kind == "f":
        return np.asarray(first / second)
    if (second == 0).any():
        raise ZeroDivisionError
    return np.asarray(np.sign(first) * np.sign(second) * (np.abs(first) // np.abs(second)), first.dtype)


def _modulo(first: Array, second: Array) -> Array:
    if first.dtype.kind != "i" or (first < 0).any() or (second < 1).any():
        raise TypeError("a rest of other than whole numbers")
    return np.asarray(first % second)


def _times(first: Any, second: Any) -> Any:
    return first * second


def _over(first: Any, second: Any) -> Any:
    if isinstance(first, int) and (isinstance(second, Count) or first < 0 or second < 1):
        raise TypeError("a number over that of the rows")
    return first // second


def _same(first: Any, second: Any) -> bool:
    """Return whether two sizes are equal; there may be any number of rows from 1 on."""
    if isinstance(first, Count) == isinstance(second, Count):
        return bool(first == second)
    if (second if isinstance(first, Count) else first) > 0:
        raise TypeError("the number of rows is compared with another")
    return False


def _larger(first: Any, second: Any) -> Any:
    counts = [each for each in (first, second) if isinstance(each, Count)]
    if len(counts) == 1 and min(each for each in (first, second) if isinstance(each, int)) <= 1:
        return counts[0]
    if counts:
        raise TypeError("the number of rows is compared with another")
    return max(first, second)


def _smaller(first: Any, second: Any) -> Any:
    if isinstance(first, Count) or isinstance(second, Count):
        raise TypeError("the number of rows is compared with another")
    return min(first, second)


def _plus(first: Any, second: Any) -> Any:
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    if 0 in (first, second):
        return second if first == 0 else first
    raise TypeError("something is added to the number of rows")


def _minus(first: Any, second: Any) -> Any:
    if isinstance(second, int):
        return _plus(first, -second)
    raise TypeError("the number of rows is subtracted")


def _rest(first: Any, second: Any) -> Any:
    if isinstance(first, Count) and isinstance(second, int) and second > 0 and not first.times % second:
        return 0
    if isinstance(first, Count) or isinstance(second, Count) or first < 0 or second < 1:
        raise TypeError("a rest of the number of rows")
    return first % second


def _where(node: Node, given: Sequence[Array]) -> Array:
    condition, first, second = given
    if condition.dtype != np.bool_ or (first.dtype != second.dtype and object not in (first.dtype, second.dtype)):
        raise TypeError("arrays of two types")
    if object in (first.dtype, second.dtype):
        first, second = first.astype(object), second.astype(object)
    return np.where(condition, first, second)


def _single(function: Callable[[Array], Any]) -> Callable[..., Array]:
    def computed(node: Node, given: Sequence[Array]) -> Array:
        if given[0].dtype == object:
            raise TypeError("a function of the number of rows")
        return np.asarray(function(given[0]), given[0].dtype)

    return computed


def _product(node: Node, given: Sequence[Array]) -> Array:
    """Return the product of sizes."""
    sizes, old = given[0], attributes(node)
    if sizes.dtype != np.int64 or sizes.ndim != 1 or sizes.size > 3 or (np.abs(sizes) >= 2**20).any():
        raise TypeError("a product of others than a few sizes")
    if old.get("noop_with_empty_axes", 0):
        raise ValueError("a product that may be of nothing")
    return np.asarray(np.prod(sizes, keepdims=bool(old.get("keepdims", 1))))


def _equal(node: Node, given: Sequence[Array]) -> Array:
    return _pairs(np.equal, _same)(node, given).astype(np.bool_)


_COMPUTED: dict[str, Callable[[Node, Sequence[Array]], Array | list[Array]]] = {
    "Identity": lambda node, given: given[0],
    "Transpose": lambda node, given: given[0].transpose(permutation(node, given[0].ndim)),
    "Reshape": _reshape,
    "Squeeze": lambda node, given: squeezed(given[0], axes_of(node, given, given[0].ndim)),
    "Unsqueeze": _unsqueeze,
    "Slice": lambda node, given: take_slices(given[0], slices(node, given, given[0].ndim)),
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Tile": lambda node, given: _limited(np.tile(given[0], listed(given[1]))),
    "Trilu": _triangle,
    "ReduceProd": _product,
    "Split": _split,
    "Concat": _concat,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Cast": _cast,
    "Shape": _shape,
    "Range": _range,
    "Add": _pairs(np.add, _plus),
    "Sub": _pairs(np.subtract, _minus),
    "Mul": _pairs(np.multiply, _times),
    "Div": _pairs(_divided, _over),
    "Mod": _pairs(_modulo, _rest),
    "Max": _pairs(np.maximum, _larger),
    "Min": _pairs(np.minimum, _smaller),
    "Equal": _equal,
    "Where": _where,
    "Sqrt": _single(np.sqrt),
    "Neg": _single(np.negative),
    "Not": _single(np.logical_not),
}

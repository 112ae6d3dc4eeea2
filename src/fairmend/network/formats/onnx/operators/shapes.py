"""Operators that choose, join, look up and reshape, or do nothing at inference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import numpy_helper

from fairmend.network.formats.onnx.arrays import (
    attributes,
    axes_of,
    gathered,
    listed,
    permutation,
    slices,
    split,
    split_sizes,
    take_slices,
)
from fairmend.network.formats.onnx.axes import (
    ROWS,
    Count,
    Dims,
    column_numbers,
    lengths,
    reshaped,
    rows_axis,
    shown,
    sizes_of,
)
from fairmend.network.formats.onnx.conversion import Conversion, Result
from fairmend.network.formats.onnx.graph import Node, describe_node

_INT32, _INT64 = 6, 7
_WHOLE = (_INT32, _INT64)
_END = np.iinfo(np.int32).max  # an end of a slice from here on means: all the rest


def _dropout(node: Node, to: Conversion) -> Result:
    training = to.constant(node, 2)
    if training is not None and training.any():
        raise to.refuse(node, "is in training mode")
    return to.data(node.input[0])


def _identity(node: Node, to: Conversion) -> Result:
    return to.data(node.input[0])


def _cast(node: Node, to: Conversion) -> Result:
    target, found = attributes(node)["to"], to.data(node.input[0])
    if target in _WHOLE:
        # Of numbers beyond 2^31, a cast to 32 bits makes others.
        cut = found.cut or not found.whole or target == _INT32
        return replace(found, whole=True, cut=cut)
    if found.cut:
        raise to.refuse(node, "makes numbers of what a cast to whole numbers may have cut off")
    if target != to.graph.element:
        raise to.refuse(node, f"casts to something other than the input's {to.graph.dtype}")
    return replace(found, whole=False)


def _concat(node: Node, to: Conversion) -> Result:
    constants = [to.graph.constant(name) for name in node.input]
    fixed = [constant.shape for constant in constants if constant is not None]
    if fixed:
        raise to.refuse(
            node,
            f"joins rows with a constant of shape {fixed[0]}; if it is for a fixed number of rows, export the model "
            "with x.shape[0] in place of len(x)",
        )
    parts = [to.data(name) for name in node.input]
    first = parts[0].dims
    axis = to.along(node, attributes(node)["axis"], first)
    rest = {(*part.dims[:axis], None, *part.dims[axis + 1 :]) for part in parts}
    if len(rest) > 1:
        raise to.refuse(node, f"joins {' and '.join(shown(part.dims) for part in parts)} along axis {axis}")
    starts = np.cumsum([0, *(part.value.width for part in parts)])
    numbers = [column_numbers(part.dims) + start for part, start in zip(parts, starts, strict=False)]
    joined = to.builder.concatenate(describe_node(node), [part.value for part in parts])
    whole, cut = all(part.whole for part in parts), any(part.cut for part in parts)
    return to.moved(node, Result(joined, first, whole, cut), np.concatenate(numbers, axis), rows_axis(first))


def _unsqueeze(node: Node, to: Conversion) -> Result:
    found, given = to.data(node.input[0]), to.constant(node, 1)
    named = [int(a) for a in (attributes(node).get("axes", []) if given is None else given.reshape(-1))]
    count = len(found.dims) + len(named)
    new = {axis % count for axis in named if -count <= axis < count}
    if len(new) != len(named) or not named:
        raise to.refuse(node, f"adds the axes {named}")
    old = iter(found.dims)
    return replace(found, dims=tuple(1 if axis in new else next(old) for axis in range(count)))


def _squeeze(node: Node, to: Conversion) -> Result:
    found, dims = to.data(node.input[0]), to.data(node.input[0]).dims
    named = to.constant(node, 1)
    shown_axes = attributes(node).get("axes") if named is None else listed(named)
    if not shown_axes and (len(dims) > 2 or 1 not in dims):  # of a single row, a runtime would take its axis away
        raise to.refuse(node, f"of {shown(dims)} does not say which axes it is over")
    try:
        axes = axes_of(node, [None, named], len(dims)) or [axis for axis, size in enumerate(dims) if size == 1]
    except ValueError:
        axes = []
    if not axes or any(dims[axis] != 1 for axis in axes):
        raise to.refuse(node, f"is over the axes {list(shown_axes or [])} of {shown(dims)}, not 1 of a single column")
    return replace(found, dims=tuple(size for axis, size in enumerate(dims) if axis not in axes))


def _gather(node: Node, to: Conversion) -> Result:
    """Read a look-up in a constant table, or a choice along an axis."""
    axis = attributes(node).get("axis", 0)
    table = to.graph.constant(node.input[0])
    if table is not None:
        found = to.data(node.input[1])
        if axis != 0 or table.ndim != 2:
            raise to.refuse(node, "looks up a table that has not the axes (rows, width)")
        name = node.input[0].removesuffix(".weight")
        to.graph.tables[name] = node.input[0]
        value = to.builder.lookup(found.value, describe_node(node), table, name)
        return Result(value, (*found.dims, table.shape[1]))
    indices, found = to.required(node, 1), to.data(node.input[0])
    at, rows = to.along(node, axis, found.dims, f"gathers along axis {axis}"), rows_axis(found.dims)
    try:
        numbers = gathered(column_numbers(found.dims), indices, at)
    except IndexError as error:
        raise to.refuse(node, f"gathers columns that there are not along axis {axis}") from error
    return to.moved(node, found, numbers, rows if rows < at else rows + indices.ndim - 1)


def _one_hot(node: Node, to: Conversion) -> Result:
    depth, values, found = to.required(node, 1), to.required(node, 2), to.data(node.input[0])
    code = attributes(node).get("axis", -1) in (1, -1) and values.reshape(-1).tolist() == [0, 1]
    if found.dims != (ROWS,) or not code:
        raise to.refuse(node, "is not a one-hot encoding of one column")
    table: npt.NDArray[Any] = np.asarray(np.eye(int(depth.reshape(()))), dtype=to.graph.dtype)
    value = to.builder.lookup(found.value, describe_node(node), table, node.output[0], stored=False)
    return Result(value, (ROWS, len(table)))


def _slice(node: Node, to: Conversion) -> Result:
    found = to.data(node.input[0])
    given = to.known(node)
    try:
        chosen = slices(node, given, len(found.dims))
    except (ValueError, TypeError) as error:
        raise to.refuse(node, "has ends, axes or steps that are not known") from error
    rows = rows_axis(found.dims)
    of_rows, whole = chosen.pop(rows, None), sizes_of(found.dims)[rows]
    if of_rows is not None:
        all_of_them = of_rows.stop == whole if isinstance(of_rows.stop, Count) else of_rows.stop >= _END
        if of_rows.start != 0 or of_rows.step != 1 or not all_of_them:
            raise to.refuse(node, "chooses among the rows")
    if any(not isinstance(end, int) or each.step == 0 for each in chosen.values() for end in (each.start, each.stop)):
        raise to.refuse(node, "has ends that depend on the number of rows, or a step of 0")
    try:
        numbers = take_slices(column_numbers(found.dims), chosen)
    except ValueError as error:
        raise to.refuse(node, "goes backwards from before its first number") from error
    return to.moved(node, found, numbers, rows)


def _split(node: Node, to: Conversion) -> Result:
    found, axis = to.data(node.input[0]), attributes(node).get("axis", 0)
    at = to.along(node, axis, found.dims, "does not split columns")
    to.constant(node, 1)
    try:
        sizes = split_sizes(node, to.known(node), lengths(found.dims)[at])
    except ValueError as error:
        raise to.refuse(node, f"splits axis {axis} of {shown(found.dims)} into parts that do not fit") from error
    parts = split(column_numbers(found.dims), sizes, at)
    for name, part in zip(node.output, parts, strict=True):
        to.results[name] = to.moved(node, found, part, rows_axis(found.dims))
    return to.data(node.output[0])


def _transpose(node: Node, to: Conversion) -> Result:
    found = to.data(node.input[0])
    try:
        order = permutation(node, len(found.dims))
    except ValueError as error:
        raise to.refuse(node, f"has an order of other axes than those of {shown(found.dims)}") from error
    return to.moved(node, found, column_numbers(found.dims).transpose(order), order.index(rows_axis(found.dims)))


def _flatten(node: Node, to: Conversion) -> Result:
    found, axis = to.data(node.input[0]), attributes(node).get("axis", 1)
    at = axis % len(found.dims) if -len(found.dims) <= axis < 0 else axis
    if len(found.dims) < 2 or not rows_axis(found.dims) < at <= len(found.dims):
        raise to.refuse(node, "is not from axis 1, or a later one than that of the rows, on")
    dims = reshaped(found.dims, (-1, math.prod(lengths(found.dims[at:]))))
    assert dims is not None
    return replace(found, dims=dims)


def _reshape(node: Node, to: Conversion) -> Result:
    found, given = to.data(node.input[0]), to.sizes_at(node, 1)
    of, shape = sizes_of(found.dims), list(given)
    if 0 in shape and not attributes(node).get("allowzero", 0) and len(shape) - shape[::-1].index(0) <= len(of):
        shape = [of[axis] if size == 0 else size for axis, size in enumerate(shape)]
    dims = reshaped(found.dims, shape)
    if dims is None:
        raise to.refuse(node, f"to {given} mixes rows of {found.value.width} numbers, {shown(found.dims)}")
    return replace(found, dims=dims)


def _expand(node: Node, to: Conversion) -> Result:
    """Stretch a value, or repeat a constant for every row."""
    shape, constant = to.sizes_at(node, 1), to.graph.constant(node.input[0])
    if any(isinstance(size, int) and size < 1 for size in shape):
        raise to.refuse(node, f"has the shape {shown(shape)}")
    if constant is not None:
        count = max(len(shape), constant.ndim)
        sizes = ((1,) * (count - len(each)) + tuple(each) for each in (_dims(node, to, shape), constant.shape))
        dims = tuple(b if a == 1 else a for a, b in zip(*sizes, strict=True))
        return to.constant_rows(node, constant, dims, stored=True)
    found = to.data(node.input[0])
    count = max(len(found.dims), len(shape))
    old: Dims = (*(1,) * (count - len(found.dims)), *found.dims)
    new = [*[1] * (count - len(shape)), *shape]
    fits = all(a in (1, b) or b == 1 for a, b in zip(sizes_of(old), new, strict=True))
    if not fits or any(isinstance(size, Count) for axis, size in enumerate(new) if axis != rows_axis(old)):
        raise to.refuse(node, f"stretches {shown(found.dims)} to {shown(shape)}")
    stretched = tuple(b if a == 1 and isinstance(b, int) else a for a, b in zip(old, new, strict=True))
    return to.stretched(node, found, stretched)


def _constant_of_shape(node: Node, to: Conversion) -> Result:
    value = attributes(node).get("value")
    one = np.zeros((), np.float32) if value is None else numpy_helper.to_array(value).reshape(())
    return to.constant_rows(node, one, _dims(node, to, to.sizes_at(node, 0)), stored=False)


def _dims(node: Node, to: Conversion, shape: list[int | Count]) -> Dims:
    """Return sizes as axes, of which one is that of the rows."""
    known = [size for size in shape if isinstance(size, int)]
    if len(known) != len(shape) - 1 or Count() not in shape or min(known, default=1) < 1:
        raise to.refuse(node, f"makes a constant of shape {shown(shape)}, which is not one for each row")
    return tuple(ROWS if isinstance(size, Count) else size for size in shape)


OPERATORS: dict[str, Callable[[Node, Conversion], Result]] = {
    "Dropout": _dropout,
    "Identity": _identity,
    "Cast": _cast,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "OneHot": _one_hot,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
}

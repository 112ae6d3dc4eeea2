"""Operators that choose, join, look up and reshape, or do nothing at inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import numpy_helper

from fairmend.network.formats.axes import ROWS, Count, Dims, lengths, shown, sizes_of
from fairmend.network.formats.onnx.arrays import listed, permutation, slices, split, split_sizes
from fairmend.network.formats.onnx.conversion import At, Result

_INT32, _INT64 = 6, 7
_WHOLE = (_INT32, _INT64)
_PLAIN = ("Identity", "Neg", "Sigmoid", "Relu", "Tanh", "Exp", "Abs", "Softplus", "Clip", "Sqrt", "Log")  # functions
_END = np.iinfo(np.int32).max  # an end of a slice from here on means: all the rest


def _dropout(at: At) -> Result:
    training = at.constant(2)
    if training is not None and training.any():
        raise at.refuse("is in training mode")
    return at.data()


def _cast(at: At) -> Result:
    target, found = at.given["to"], at.data()
    if target in _WHOLE:
        # Of numbers beyond 2^31, a cast to 32 bits makes others.
        cut = found.cut or not found.whole or target == _INT32
        return replace(found, whole=True, cut=cut)
    if found.cut:
        raise at.refuse("makes numbers of what a cast to whole numbers may have cut off")
    if target != at.graph.element:
        raise at.refuse(f"casts to something other than the input's {at.graph.dtype}")
    return replace(found, whole=False)


def _concat(at: At) -> Result:
    constants = [at.graph.constant(name) for name in at.node.input]
    fixed = [constant.shape for constant in constants if constant is not None]
    if fixed:
        raise at.refuse(
            f"joins rows with a constant of shape {fixed[0]}; if it is for a fixed number of rows, export the model "
            "with x.shape[0] in place of len(x)",
        )
    parts = [at.data(position) for position in range(len(at.node.input))]
    joined = at.joined(parts, at.along(parts[0], at.given["axis"]))
    return replace(joined, whole=all(part.whole for part in parts), cut=any(part.cut for part in parts))


def _unsqueeze(at: At) -> Result:
    named = at.constant(1)
    axes = at.given.get("axes", []) if named is None else listed(named)
    if not axes:
        raise at.refuse(f"adds the axes {axes}")
    return at.move(at.data(), f"adds the axes {axes}")


def _squeeze(at: At) -> Result:
    found, named = at.data(), at.constant(1)
    axes = at.given.get("axes") if named is None else listed(named)
    bare = not axes and (len(found.dims) > 2 or 1 not in found.dims or not _without_axes(at, at.node.output[0]))
    if bare:  # of a single row, a runtime would take its axis away
        raise at.refuse(f"of {found.shape()} does not say which axes it is over")
    return at.move(found, f"is over the axes {list(axes or [])} of {found.shape()}, not 1 of a single column")


def _without_axes(at: At, name: str) -> bool:
    """Return whether only functions read a value, up to the output or a Reshape: what has no axes is as well."""
    for node in at.graph.readers(name):
        shape = at.graph.constant(node.input[1]) if node.op_type == "Reshape" else None
        if shape is not None and listed(shape) in ([-1], [-1, 1]):
            continue
        if node.op_type not in _PLAIN or not _without_axes(at, node.output[0]):
            return False
    return True


def _gather(at: At) -> Result:
    """Read a look-up in a constant table, or a choice along an axis."""
    axis, table = at.given.get("axis", 0), at.graph.constant(at.node.input[0])
    if table is not None:
        found = at.data(1)
        if axis != 0 or table.ndim != 2:
            raise at.refuse("looks up a table that has not the axes (rows, width)")
        name = at.node.input[0].removesuffix(".weight")
        at.graph.tables[name] = at.node.input[0]
        return at.made(at.steps.lookup(found.value, at.where, table, name), (*found.dims, table.shape[1]))
    at.required(1)
    at.along(at.data(), axis, f"gathers along axis {axis}")
    return at.move(at.data(), f"gathers columns that there are not along axis {axis}")


def _one_hot(at: At) -> Result:
    depth, values, found = at.required(1), at.required(2), at.data()
    code = at.given.get("axis", -1) in (1, -1) and values.reshape(-1).tolist() == [0, 1]
    if found.dims != (ROWS,) or not code:
        raise at.refuse("is not a one-hot encoding of one column")
    table: npt.NDArray[Any] = np.asarray(np.eye(int(depth.reshape(()))), dtype=at.graph.dtype)
    value = at.steps.lookup(found.value, at.where, table, at.node.output[0], stored=False)
    return at.made(value, (ROWS, len(table)))


def _slice(at: At) -> Result:
    found = at.data()
    try:
        chosen = slices(at.node, at.to.known(at.node), len(found.dims))
    except (ValueError, TypeError) as error:
        raise at.refuse("has ends, axes or steps that are not known") from error
    whole = sizes_of(found.dims)[found.row_axis]
    of_rows = chosen.pop(found.row_axis, None)
    if of_rows is not None:  # an end that is a number leaves out the rows after it
        all_of_them = of_rows.stop == whole if isinstance(of_rows.stop, Count) else of_rows.stop >= _END
        if of_rows.start != 0 or of_rows.step != 1 or not all_of_them:
            raise at.refuse("chooses among the rows")
    if any(not isinstance(end, int) or each.step == 0 for each in chosen.values() for end in (each.start, each.stop)):
        raise at.refuse("has ends that depend on the number of rows, or a step of 0")
    return at.move(found, "chooses nothing, or goes backwards from before its first number")


def _split(at: At) -> Result:
    found, axis = at.data(), at.given.get("axis", 0)
    along = at.along(found, axis, "does not split columns")
    at.constant(1)
    try:
        sizes = split_sizes(at.node, at.to.known(at.node), lengths(found.dims)[along])
    except ValueError as error:
        raise at.refuse(f"splits axis {axis} of {found.shape()} into parts that do not fit") from error
    for number, name in enumerate(at.node.output):
        part = at.within(found, found.row_axis, lambda numbers, k=number: split(numbers, sizes, along)[k])  # type: ignore[misc]
        at.to.results[name] = part
    return at.to.data(at.node.output[0])


def _transpose(at: At) -> Result:
    found = at.data()
    try:
        order = permutation(at.node, len(found.dims))
    except ValueError as error:
        raise at.refuse(f"has an order of other axes than those of {found.shape()}") from error
    return at.transposed(found, order)


def _gather_nd(at: At) -> Result:
    """Read a choice along the first axes, as PyTorch exports x[:, places]."""
    found, indices = at.data(), at.required(1)
    if at.given.get("batch_dims", 0) or not indices.ndim or found.row_axis < indices.shape[-1]:
        raise at.refuse(f"chooses among the rows of {found.shape()}")
    return at.move(found, f"chooses by indices of shape {indices.shape} from {found.shape()}")


def _flatten(at: At) -> Result:
    found, axis = at.data(), at.given.get("axis", 1)
    first = axis % len(found.dims) if -len(found.dims) <= axis < 0 else axis
    if len(found.dims) < 2 or not found.row_axis < first <= len(found.dims):
        raise at.refuse("is not from axis 1, or a later one than that of the rows, on")
    return at.reshaped(found, (-1, int(np.prod(lengths(found.dims[first:])))))


def _reshape(at: At) -> Result:
    found, given = at.data(), at.sizes_at(1)
    return at.move(found, f"to {given} mixes rows of {found.width} numbers, {found.shape()}")


def _expand(at: At) -> Result:
    """Stretch a value, or repeat a constant for every row."""
    shape, constant = at.sizes_at(1), at.graph.constant(at.node.input[0])
    if constant is None:
        return at.move(at.data(), f"stretches {at.data().shape()} to {shown(shape)}")
    count = max(len(shape), constant.ndim)
    sizes = ((1,) * (count - len(each)) + tuple(each) for each in (_dims(at, shape), constant.shape))
    dims = tuple(b if a == 1 else a for a, b in zip(*sizes, strict=True))
    return at.constant_rows(constant, dims, stored=True)


def _constant_of_shape(at: At) -> Result:
    value = at.given.get("value")
    one = np.zeros((), np.float32) if value is None else numpy_helper.to_array(value).reshape(())
    return at.constant_rows(one, _dims(at, at.sizes_at(0)), stored=False)


def _dims(at: At, shape: list[int | Count]) -> Dims:
    """Return sizes as axes, of which one is that of the rows."""
    known = [size for size in shape if isinstance(size, int)]
    if len(known) != len(shape) - 1 or Count() not in shape or min(known, default=1) < 1:
        raise at.refuse(f"makes a constant of shape {shown(shape)}, which is not one for each row")
    return tuple(ROWS if isinstance(size, Count) else size for size in shape)


OPERATORS: dict[str, Callable[[At], Result]] = {
    "Dropout": _dropout,
    "Identity": lambda at: at.data(),
    "Cast": _cast,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Tile": lambda at: at.move(at.data(), f"repeats {at.data().shape()} by {at.sizes_at(1)}"),
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

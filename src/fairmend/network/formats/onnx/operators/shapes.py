"""Operators that choose, join, look up and reshape, or do nothing at inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network.formats.onnx.conversion import Conversion, Result
from fairmend.network.formats.onnx.graph import Node, attributes, describe_node

_INT32, _INT64 = 6, 7
_WHOLE = (_INT32, _INT64)


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
    return Result(found.value, found.axes, False, found.stacked, found.stack_axis)


def _concat(node: Node, to: Conversion) -> Result:
    axis = attributes(node)["axis"]
    parts = [to.data(name) for name in node.input]
    if all(part.stacked for part in parts):
        if any(part.stack_axis != axis % 3 for part in parts):
            raise to.refuse(node, f"is along axis {axis} of values stacked along another")
        stacked = tuple(value for part in parts for value in part.stacked)
        return replace(parts[0], stacked=stacked, cut=any(part.cut for part in parts))
    axes = {part.axes for part in parts}
    if axes not in ({2}, {3}) or axis not in ((1, -1) if axes == {2} else (1, -2)):
        raise to.refuse(node, f"is along axis {axis}")
    joined = to.builder.concatenate(describe_node(node), [part.value for part in parts])
    return replace(parts[0], value=joined, whole=all(part.whole for part in parts), cut=any(part.cut for part in parts))


def _unsqueeze(node: Node, to: Conversion) -> Result:
    given = to.constant(node, 1)
    axes = [int(a) for a in (attributes(node).get("axes", []) if given is None else given.reshape(-1))]
    found = to.data(node.input[0])
    if len(axes) == 1 and found.axes == 1 and axes[0] in (1, -1):
        return replace(found, axes=2)
    if len(axes) != 1 or found.axes != 2 or found.stacked:
        raise to.refuse(node, f"adds the axes {axes}")
    return Result(found.value, 3, found.whole, (found.value,), axes[0] % 3, found.cut)


def _gather(node: Node, to: Conversion) -> Result:
    """Read a look-up in a constant table, or a choice of columns."""
    axis = attributes(node).get("axis", 0)
    table = to.graph.constant(node.input[0])
    if table is not None:
        found = to.data(node.input[1])
        if axis != 0 or table.ndim != 2 or found.stacked or found.axes > 2:
            raise to.refuse(node, "looks up a table that has not the axes (rows, width)")
        name = node.input[0].removesuffix(".weight")
        to.graph.tables[name] = node.input[0]
        return Result(to.builder.lookup(found.value, describe_node(node), table, name), found.axes + 1)
    indices, found = to.required(node, 1), to.data(node.input[0])
    if axis not in (1, -1) or found.axes != 2 or indices.ndim > 1 or found.stacked:
        raise to.refuse(node, f"gathers along axis {axis}")
    width = found.value.width
    chosen = [int(i) + width if i < 0 else int(i) for i in indices.reshape(-1)]
    return replace(found, value=to.builder.columns(found.value, describe_node(node), chosen), axes=1 + indices.ndim)


def _one_hot(node: Node, to: Conversion) -> Result:
    depth, values, found = to.required(node, 1), to.required(node, 2), to.data(node.input[0])
    if found.axes != 1 or attributes(node).get("axis", -1) not in (1, -1) or values.reshape(-1).tolist() != [0, 1]:
        raise to.refuse(node, "is not a one-hot encoding of one column")
    table: npt.NDArray[Any] = np.asarray(np.eye(int(depth.reshape(()))), dtype=to.graph.dtype)
    return Result(to.builder.lookup(found.value, describe_node(node), table, node.output[0], stored=False))


def _slice(node: Node, to: Conversion) -> Result:
    found, given = to.data(node.input[0]), attributes(node)
    parts = [to.constant(node, position) for position in (1, 2, 3, 4)]
    keys = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (
        given.get(key) if part is None else part.reshape(-1).tolist() for key, part in zip(keys, parts, strict=True)
    )
    if starts is None or ends is None or found.axes != 2 or found.stacked:
        raise to.refuse(node, "does not slice columns")
    value, width = found.value, found.value.width
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis, step = (axes[k] if axes else k), (steps[k] if steps else 1)
        if axis in (0, -2):
            if start != 0 or end < np.iinfo(np.int32).max or step != 1:
                raise to.refuse(node, "chooses among the rows")
            continue
        value = to.builder.columns(value, describe_node(node), range(width)[slice(start, end, step)])
    return replace(found, value=value)


def _split(node: Node, to: Conversion) -> Result:
    found, given = to.data(node.input[0]), attributes(node)
    sizes = to.constant(node, 1)
    listed = given.get("split") if sizes is None else sizes.reshape(-1).tolist()
    count, width = len(node.output), found.value.width
    if given.get("axis", 0) not in (1, -1) or found.axes != 2 or found.stacked:
        raise to.refuse(node, "does not split columns")
    listed = listed or [min(-(-width // count), width - k * -(-width // count)) for k in range(count)]
    ends = np.cumsum(listed)
    for name, start, end in zip(node.output, [0, *ends[:-1]], ends, strict=True):
        chosen = to.builder.columns(found.value, describe_node(node), range(int(start), int(end)))
        to.results[name] = replace(found, value=chosen)
    return to.data(node.output[0])


def _flatten(node: Node, to: Conversion) -> Result:
    found = to.data(node.input[0])
    if attributes(node).get("axis", 1) not in (1, 1 - found.axes) or found.stacked or found.axes < 2:
        raise to.refuse(node, "is not from axis 1")
    return replace(found, axes=2)


def _squeeze(node: Node, to: Conversion) -> Result:
    given, found = to.constant(node, 1), to.data(node.input[0])
    axes = attributes(node).get("axes") if given is None else given.reshape(-1).tolist()
    if found.axes == 3 and axes in ([1], [-2]) and not found.stacked:  # of one look-up
        return Result(found.value)
    if axes and list(axes) not in ([1], [-1]):
        raise to.refuse(node, f"is over the axes {list(axes)}, not 1")
    if found.axes != 2 or found.stacked:
        raise to.refuse(node, "drops an axis of a tensor whose axes are not (rows, columns)")
    collapsed = to.builder.collapse(found.value, describe_node(node), single=not axes)
    return replace(found, axes=1) if found.whole else Result(collapsed, 1)


def _reshape(node: Node, to: Conversion) -> Result:
    """Read a reshape to (-1,), which drops the axis of outputs, or to (-1 or 0, width), which keeps rows."""
    shape, found = to.required(node, 1).reshape(-1).tolist(), to.data(node.input[0])
    width = found.value.width
    if shape == [-1]:
        return replace(found, value=to.builder.collapse(found.value, describe_node(node), single=True), axes=1)
    zero_is_zero = attributes(node).get("allowzero", 0) and 0 in shape
    if (
        len(shape) != 2
        or shape[0] not in (-1, 0)
        or shape == [-1, -1]
        or shape[1] == 0
        or zero_is_zero
        or found.stacked
    ):
        raise to.refuse(node, f"to {shape} is not supported")
    if shape[1] not in (-1, width):
        raise to.refuse(node, f"to {shape} mixes rows of {width} numbers")
    return replace(found, axes=2)


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
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
}

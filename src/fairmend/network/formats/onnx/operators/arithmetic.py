"""Sums, products and means: of values with constants, of several values, and along axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from fairmend.network.formats.axes import ROWS, lengths
from fairmend.network.formats.onnx.arrays import listed
from fairmend.network.formats.onnx.conversion import Array, At, Result
from fairmend.network.formats.onnx.graph import LayerNodes
from fairmend.network.formats.tensors import SUMS, hides
from fairmend.network.operations.ties import Tie


def _add(at: At) -> Result:
    position = at.constant_side()
    if position is None:
        return _sum(at)
    x = at.read(1 - position)
    if at.node.output[0] in at.to.biases:
        return x  # the layer before it has this bias
    at.check_added(position)
    x = widened(at, x, position)
    shift = at.per_number(position, x.dims)
    left_out = hides(shift, at.graph.dtype)
    if not left_out.any():
        return at.scaled(x, shift=shift)
    if x.is_row or left_out.size != x.width:
        raise at.refuse("adds -infinity, other than as a mask of scores over tokens")
    finite = np.where(left_out, 0.0, shift)
    kept = at.scaled(x, shift=finite) if finite.any() else x
    return at.masked(kept, left_out.reshape(lengths(x.dims)))


def _where(at: At) -> Result:
    """Read a constant choice between a value and numbers: a mask, with -infinity for what a softmax leaves out."""
    chosen = at.graph.constant(at.node.input[0])
    if chosen is None or chosen.dtype != np.bool_:
        if _is_softmax_without_nan(at):
            return at.data(2)
        raise at.refuse("chooses by a value that depends on the input")
    sides = [side for side in (1, 2) if at.graph.constant(at.node.input[side]) is not None]
    if not sides:
        first, second = at.together([at.read(1), at.read(2)])
        mask = at.spread(chosen, first.dims, f"has a mask of shape {chosen.shape} for {first.shape()}")
        together = at.steps.concatenate(at.where, [at.flat(first), at.flat(second)])
        both = at.made(together, (ROWS, 2 * first.width))
        columns = np.arange(first.width)
        return at.select(both, np.where(mask, columns, columns + first.width), first.dims)
    x = at.read(3 - sides[0])
    filled = at.spread(
        chosen if sides[0] == 1 else ~chosen, x.dims, f"has a mask of shape {chosen.shape} for {x.shape()}"
    )
    number = np.broadcast_to(at.per_number(sides[0], x.dims), (x.width,))
    if hides(number[filled], at.graph.dtype).all() and not x.is_row:
        return at.masked(x, filled.reshape(lengths(x.dims)))
    if not np.isfinite(number).all():
        raise at.refuse("fills in numbers that are not finite, other than in a mask of scores over tokens")
    return at.filled(x, filled.reshape(lengths(x.dims)), number)


def _is_softmax_without_nan(at: At) -> bool:
    """Return whether 0 takes the place of what is not a number in a softmax, as PyTorch exports masked attention."""
    test, softmax = (at.graph.producer(at.node.input[position]) for position in (0, 2))
    zero = at.graph.constant(at.node.input[1])
    if test is None or softmax is None or zero is None or zero.shape not in ((), (1,)) or zero.any():
        return False
    return (test.op_type, softmax.op_type, test.input[0]) == ("IsNaN", "Softmax", at.node.input[2])


def _sub(at: At) -> Result:
    position = at.constant_side()
    if position is None:
        first, second = at.together([at.read(0), at.read(1)])
        return at.add([first, at.scaled(second, gain=-1.0)])
    at.check_added(position)
    x = widened(at, at.read(1 - position), position)
    shift = at.per_number(position, x.dims)
    return at.scaled(x, gain=-1.0, shift=shift) if position == 0 else at.scaled(x, shift=-shift)


def _mul(at: At) -> Result:
    position = at.constant_side()
    if position is None and at.node.input[0] == at.node.input[1]:
        return at.function(at.data(), "square")
    if position is None:
        return at.times(at.read(0), at.read(1))
    x, constant = at.read(1 - position), at.required(position)
    wide = constant.reshape((1,) * (len(x.dims) - constant.ndim) + constant.shape)
    if wide.ndim == len(x.dims) and any(a == 1 and b > 1 for a, b in zip(x.dims, wide.shape, strict=True)):
        if wide.shape[x.row_axis] != 1 or constant.dtype != at.graph.dtype:
            raise at.refuse(f"multiplies {x.shape()} by a constant of shape {constant.shape}")
        return _tokens(at, x, wide, position)
    return at.scaled(x, gain=at.per_number(position, x.dims))


def _tokens(at: At, x: Result, wide: Array, position: int) -> Result:
    """Return the product with a constant that has more numbers along axes of size 1, as tokenizers compute it."""
    groups = lengths(x.dims)[:-1]
    if x.dims[-1] != 1 or wide.shape[:-1] not in (groups, (1,) * len(groups)):
        return at.mapped(x, lambda values: values * wide)
    blocks = math.prod(wide.shape[:-1])
    tie = partial(Tie, blocks=blocks, tokens=x.width // blocks)
    places = LayerNodes(at.node.output[0], True, None, position=position)
    return at.tied(x, tie, wide.reshape(blocks, -1, 1), None, places)


def _div(at: At) -> Result:
    position = at.constant_side()
    if position == 1:
        x = widened(at, at.read(), 1)
        divisor = at.per_number(1, x.dims)
        if not divisor.all():
            raise at.refuse("divides by 0")
        return at.scaled(x, divisor=divisor)
    first = at.read(0) if position is None else None
    below = at.data(1) if position is None else widened(at, at.data(1), 0)
    inverse = at.function(below, "reciprocal")
    if first is not None:
        return at.times(first, inverse)
    factor = at.per_number(0, inverse.dims)
    return inverse if (factor == 1).all() else at.scaled(inverse, gain=factor)


def widened(at: At, x: Result, position: int) -> Result:
    """Return a value with its axes of size 1 repeated, where a constant has more numbers."""
    constant = at.required(position)
    wide = (*(1,) * (len(x.dims) - constant.ndim), *constant.shape)
    if len(wide) > len(x.dims) or wide[x.row_axis] != 1:
        return x
    return at.stretched(x, tuple(n if size == 1 else size for size, n in zip(x.dims, wide, strict=True)))


def _extreme(at: At) -> Result:
    """Read the largest or smallest of values and constants: b + relu(a - b), a - relu(a - b)."""
    fixed = [at.graph.constant(name) is not None for name in at.node.input]
    smallest, first = at.node.op_type == "Min", fixed.index(False)
    found = at.read(first)
    for position, constant in enumerate(fixed):
        if constant:
            found = widened(at, found, position)
            found = _limited(at, found, at.per_number(position, found.dims), smallest=smallest)
        elif position != first:
            found = at.larger(found, at.read(position), smallest=smallest)
    return found


def _limited(at: At, x: Result, number: Array, *, smallest: bool) -> Result:
    """Return the larger of a value and constants, or the smaller."""
    if not number.any() and not smallest:
        return at.function(x, "relu")
    more = at.function(at.scaled(x, shift=-number), "relu")
    return at.add([x, at.scaled(more, gain=-1.0)]) if smallest else at.scaled(more, shift=number)


def _sum(at: At) -> Result:
    return at.add([at.read(position) for position in range(len(at.node.input))])


def _mean(at: At) -> Result:
    total = _sum(at)
    return total if len(at.node.input) == 1 else at.scaled(total, gain=1 / len(at.node.input))


def _reduce(at: At) -> Result:
    """Read a sum, mean, product, norm, maximum or minimum along axes, of the parts along them."""
    axes, found, kind = at.constant(1), at.data(), at.node.op_type
    named = [int(axis) for axis in (at.given.get("axes", []) if axes is None else listed(axes))]
    if found.whole:
        raise at.refuse(
            "adds up whole numbers, whose mean would be cut off; cast them to the type of the weights first"
        )
    over = sorted({at.along(found, axis, f"is over axis {axis} of {found.shape()}") for axis in named})
    if not over or len(over) != len(named) or at.given.get("noop_with_empty_axes", 0):
        raise at.refuse(f"is over the axes {named} of {found.shape()}")
    keep = bool(at.given.get("keepdims", 1))
    if kind in ("ReduceMax", "ReduceMin"):
        return at.largest(found, over, smallest=kind == "ReduceMin", keep=keep)
    if kind == "ReduceProd":
        return at.multiplied(found, over, keep=keep)
    if kind.removeprefix("Reduce") in SUMS:
        return at.summed(found, kind.removeprefix("Reduce"), over, keep)
    return at.total(found, over, mean=kind == "ReduceMean", keep=keep)


OPERATORS: dict[str, Callable[[At], Result]] = {
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Neg": lambda at: at.scaled(at.read(), gain=-1.0),
    "Where": _where,
    "Sum": _sum,
    "Mean": _mean,
    **dict.fromkeys(("Max", "Min"), _extreme),
    **dict.fromkeys(
        ("ReduceMean", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", *(f"Reduce{kind}" for kind in SUMS)),
        _reduce,
    ),
}

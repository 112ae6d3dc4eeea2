"""Functions that choose, move and reshape numbers, and those that leave them as they are.

A function of NumPy says what most of them do, for tensors and for constants of the model alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairmend.network.formats.axes import ROWS, Count, lengths
from fairmend.network.formats.tensors import MOST
from fairmend.network.formats.torch.operators.context import Context, InputWidthError, Operator, RowTensor, Starts
from fairmend.network.formats.torch.program import Constant

_OPEN = 2**62  # torch.export writes an open end of a slice as a number above this one
_FLOATS = ("float32", "float64")


def _same(c: Context, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the tensor under another name."""
    return c.view(x, x.dims) if isinstance(x, RowTensor) else x


def copied(c: Context, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a copy, which no change in place reaches."""
    if not isinstance(x, RowTensor):
        return x
    return RowTensor(x.parts, x.dims, x.opens, whole=x.whole, left_out=x.left_out)


def _dropout(c: Context, x: Any, p: float = 0.5, training: Any = True, inplace: bool = False, train: Any = None) -> Any:
    if training if train is None else train:
        raise c.refuse("stays random (call eval() before the export, or pass training=self.training)")
    return _same(c, x)


def _alpha_dropout(c: Context, x: Any, p: float = 0.5, training: Any = False, inplace: bool = False) -> Any:
    return _dropout(c, x, p, training)


def _cast(c: Context, x: Any, *targets: Any, **kwargs: Any) -> Any:
    """Return the tensor for a cast to the dtype of the weights, or to another device."""
    for target in (*targets, kwargs.get("dtype")):
        like = target.array.dtype.name if isinstance(target, Constant) else target  # x.to(other), x.type_as(other)
        name = str(like).removeprefix("torch.")
        if name in ("int64", "int32", "long", "int") or (isinstance(target, RowTensor) and target.whole):
            return _integer(c, x)
        if name in ("float", "double"):
            name = {"float": "float32", "double": "float64"}[name]
        if name in ("float16", "bfloat16", "half", "bool", "int8", "uint8", "int16") or (
            name in _FLOATS and name != c.steps.dtype.name
        ):
            raise c.refuse(f"casts to {name}; the weights are {c.steps.dtype}")
        if name in _FLOATS and isinstance(x, RowTensor) and x.left_out is None:
            c.numbers(x)
        if name in _FLOATS and isinstance(x, Constant) and x.array.dtype.name != name:
            return Constant(x.array.astype(name), rounded=x.rounded)
    return _same(c, x)


def _integer(c: Context, x: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(x, Constant):
        if x.rounded:
            raise c.refuse("cuts off digits of numbers that programs round in ways of their own")
        return x if x.array.dtype.kind == "i" else Constant(np.trunc(x.array).astype(np.int64))
    if not isinstance(x, RowTensor):
        return x
    if x.left_out is not None:
        c.numbers(x)
    return RowTensor(x.parts, x.dims, x.opens, x.memory, whole=True)


def _sizes(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the sizes of an axis each, given one by one or as a list."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else tuple(sizes)


def _reshape(c: Context, x: Any, *sizes: Any, shape: Any = None, size: Any = None) -> Any:
    wanted = _sizes(sizes if sizes else (shape if shape is not None else size,))
    if isinstance(x, Constant):
        return c.move(x, lambda array: array.reshape(wanted))
    tensor = c.tensor(x)
    if -1 not in wanted and not any(isinstance(each, Count) for each in wanted):
        raise c.refuse(f"makes {wanted[0] if wanted else 1} rows of any number of rows; write x.view(x.size(0), …)")
    width = math.prod(each.times if isinstance(each, Count) else each for each in wanted)
    if -1 not in wanted and wanted[0] == Count() and width != tensor.width:
        c.require_width(tensor, width)
    return c.reshaped(tensor, wanted, f"would mix the {tensor.width} outputs of different rows of {tensor.shape()}")


def _flatten(c: Context, x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    rank = max(1, len(c.sizes(x)))
    start, end = start_dim % rank, end_dim % rank
    why = f"would mix the {x.width} outputs of different rows" if isinstance(x, RowTensor) else ""
    if why and start <= x.row_axis <= end and x.width > 1:
        raise c.refuse(why)
    return c.move(x, lambda array: array.reshape((*array.shape[:start], -1, *array.shape[end + 1 :])), why)


def _squeeze(c: Context, x: Any, dim: Any = None) -> Any:
    sizes = c.sizes(x)
    chosen = range(len(sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = tuple(axis for axis in chosen if sizes[axis] == 1)
    if isinstance(x, RowTensor) and dim is not None:
        if len(x.opens) == 1 and len(axes) == len(chosen):
            c.exact.update(x.opens)  # the model says that there is one column
        if x.row_axis in {x.axis(axis) for axis in chosen}:
            raise c.refuse(f"over axis {dim} is not supported: it is that of the rows")
    return c.move(x, lambda array: np.squeeze(array, axes))


def _unsqueeze(c: Context, x: Any, dim: int) -> Any:
    found = c.move(x, lambda array: np.expand_dims(array, dim))
    if isinstance(x, RowTensor) and x.open_axis is not None:
        found.open_axis = x.open_axis + (x.open_axis >= dim % len(found.dims))
    return found


def _permute(c: Context, x: Any, *axes: Any, dims: Any = None) -> Any:
    rank = len(c.sizes(x))
    order = [axis % rank for axis in _sizes(axes if axes else (dims,))]
    return x.moved(lambda array: array.transpose(order)) if isinstance(x, Constant) else c.transposed(x, order)


def _transpose(c: Context, x: Any, dim0: int, dim1: int) -> Any:
    order = list(range(len(c.sizes(x))))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permute(c, x, order)


def _t(c: Context, x: Any) -> Any:
    return x if len(c.sizes(x)) < 2 else _transpose(c, x, 0, 1)


def _demand(c: Context, x: RowTensor, choice: Any, size: int) -> dict[str, int]:
    """Make an input of unknown width wide enough for a choice; return how the choice grows with it."""
    if len(x.opens) != 1 or len(x.dims) != 2:
        return {}
    ((name, _),) = x.opens.items()
    if isinstance(choice, slice):
        ends = [end for end in (choice.start, choice.stop) if end is not None]
        least = max([end if end >= 0 else -end for end in ends], default=0)
        grows = (choice.start is None or choice.start >= 0) and (choice.stop is None or choice.stop < 0)
        least += 1 if grows and ends else 0
        opens = dict(x.opens) if grows and choice.step in (None, 1) else {}
    else:
        listed = [choice] if isinstance(choice, int) else np.asarray(choice).reshape(-1).tolist()
        least = max(number + 1 if number >= 0 else -number for number in listed)
        opens = {}
    if least > size and name not in c.exact:
        raise InputWidthError(name, least - size, exact=False)
    return opens


def _getitem(c: Context, x: Any, index: Any) -> Any:
    if isinstance(x, list | tuple):
        return x[index]
    given = list(index) if isinstance(index, tuple) else [index]
    choices = tuple(each if each is None or each is Ellipsis else _choice(c, each) for each in given)
    if isinstance(x, Constant):
        return c.move(x, lambda array: array[choices])
    tensor, opens = c.tensor(x), {}
    chosen, new = _by_axis(c, tensor, choices)
    for axis, choice in chosen:
        size = lengths(tensor.dims)[axis]
        if axis == tensor.row_axis:
            raise c.refuse("chooses among the rows")
        opens = _demand(c, tensor, choice, size)
        if isinstance(choice, int) and not -size <= choice < size:
            raise c.refuse(f"chooses {choice} of an axis of {size}")
    why = f"chooses nothing, or what {tensor.shape()} does not have"
    if chosen:
        return replace(c.chosen(tensor, lambda array: array[choices], why), opens=opens)
    found = c.moved(tensor, lambda array: array[choices], why)
    found.open_axis = None if tensor.open_axis is None else new.index(tensor.open_axis)
    return found


def _by_axis(c: Context, x: RowTensor, choices: Sequence[Any]) -> tuple[list[tuple[int, Any]], list[int | None]]:
    """Return the axes that an index chooses from, with what it chooses, and which axis each one of the result was.

    A mask is for as many axes as it has.
    """
    counts = [0 if each is None else each.ndim if getattr(each, "dtype", None) == np.bool_ else 1 for each in choices]
    given = len(x.dims) - sum(counts) + sum(each is Ellipsis for each in choices)
    found: list[tuple[int, Any]] = []
    new: list[int | None] = []
    axis = 0
    for choice, count in zip(choices, counts, strict=True):
        count = given if choice is Ellipsis else count
        if axis + count > len(x.dims):
            raise c.refuse(f"has more indices than a tensor of shape {x.shape()} has axes")
        if count and choice is not Ellipsis and not (isinstance(choice, slice) and choice == slice(None)):
            found += [(axis + k, choice if count == 1 else slice(None)) for k in range(count)]
        new += [None] if choice is None else range(axis, axis + count)
        axis += count
    return found, [*new, *range(axis, len(x.dims))]


def _choice(c: Context, index: Any) -> Any:
    """Return an index as an int, a slice, or an array of whole numbers or booleans."""
    if isinstance(index, slice):
        parts = (index.start, index.stop, index.step)
        if not all(part is None or isinstance(part, int) for part in parts):
            raise c.refuse("has a slice whose ends are not numbers")
        start = None if index.start == 0 else index.start
        stop = None if isinstance(index.stop, int) and index.stop > _OPEN else index.stop
        return slice(start, stop, None if index.step == 1 else index.step)
    if isinstance(index, Constant) and index.array.dtype.kind in "ib":
        return index.array
    if isinstance(index, int) and not isinstance(index, bool):
        return index
    if isinstance(index, list | tuple) and all(type(number) is int for number in index):
        return np.array(index)
    raise c.refuse("has an index that is not fixed")


def _along(c: Context, x: Any, dim: int, choice: Any) -> Any:
    """Return a choice along one axis."""
    axes = len(c.sizes(x))
    if not -axes <= dim < axes:
        raise c.refuse(f"is over axis {dim} of {axes}")
    return _getitem(c, x, (*(slice(None),) * (dim % axes), choice))


def _index(c: Context, x: Any, indices: Any) -> Any:
    """Return aten.index: an index, or None for all, for each axis; a mask is one for as many axes as it has."""
    return _getitem(c, x, tuple(slice(None) if each is None else each for each in indices))


def _split(c: Context, x: Any, split_size_or_sections: Any = None, dim: int = 0, split_size: Any = None) -> Any:
    sizes = split_size_or_sections if split_size_or_sections is not None else split_size
    axis = c.over(x, dim, "splits")
    total = c.sizes(x)[axis]
    if not isinstance(sizes, int) and isinstance(x, RowTensor) and len(x.dims) == 2:
        c.require_width(x, sum(sizes))
    elif not isinstance(sizes, int) and sum(sizes) != total:
        raise c.refuse(f"splits an axis of {total} into {list(sizes)}")
    ends = [*range(0, total, sizes), total] if isinstance(sizes, int) else [0, *np.cumsum(sizes).tolist()]
    return tuple(_part(c, x, axis, slice(start, end)) for start, end in pairwise(ends))


def _part(c: Context, x: Any, axis: int, part: Any) -> Any:
    index = (slice(None),) * axis + (part,)
    return x.moved(lambda array: array[index]) if isinstance(x, Constant) else c.chosen(x, lambda array: array[index])


def _chunk(c: Context, x: Any, chunks: int, dim: int = 0) -> Any:
    axis = c.over(x, dim, "splits")
    return _split(c, x, -(-c.sizes(x)[axis] // chunks), axis)


def _unbind(c: Context, x: Any, dim: int = 0) -> Any:
    axis = c.over(x, dim, "splits")
    return tuple(_part(c, x, axis, number) for number in range(c.sizes(x)[axis]))


def concatenated(c: Context, tensors: Any, dim: Any = 0) -> Any:
    """Return tensors side by side along one axis."""
    if all(isinstance(tensor, Constant) for tensor in tensors):
        return Constant(
            np.concatenate([each.array for each in tensors], dim), rounded=any(each.rounded for each in tensors)
        )
    if not all(isinstance(tensor, RowTensor) for tensor in tensors):
        raise c.refuse("puts a constant beside tensors that depend on the input")
    if len({tensor.whole for tensor in tensors}) > 1:
        raise c.refuse("puts whole numbers (.long() or .int()) beside other numbers")
    return c.joined(tensors, c.over(tensors[0], dim, "puts tensors side by side"))


def _expand(c: Context, x: Any, *sizes: Any, size: Any = None, implicit: Any = False) -> Any:
    """Return a tensor repeated along its axes of size 1; -1 keeps an axis. A constant may get the axis of the rows."""
    wanted = _sizes(sizes if sizes else (size,))
    given = c.sizes(x)
    old = (1,) * (len(wanted) - len(given)) + given
    new = tuple(was if want == -1 else want for was, want in zip(old, wanted, strict=False))
    if len(old) != len(wanted) or not all(was in (1, want) for was, want in zip(old, new, strict=True)):
        raise c.refuse(f"expands shape {given} to {tuple(wanted)}")
    if isinstance(x, Constant):
        return _in_every_row(c, x.moved(lambda array: np.broadcast_to(array, _of_one_row(new))), new)
    dims = (1,) * (len(wanted) - len(given)) + x.dims
    if any(isinstance(want, Count) and not isinstance(was, Count) for was, want in zip(old, new, strict=True)):
        raise c.refuse(f"expands shape {given} to {new}, which mixes rows")
    wide = tuple(was if isinstance(want, Count) else want for was, want in zip(dims, new, strict=True))
    return c.stretched(x if x.dims == dims else c.view(x, dims), wide)


def _of_one_row(sizes: Sequence[Any]) -> list[int]:
    return [1 if isinstance(size, Count) else size for size in sizes]


def _in_every_row(c: Context, x: Constant, sizes: Sequence[Any]) -> Any:
    """Return a constant, in every row if the number of rows is among the sizes."""
    if not any(isinstance(size, Count) for size in sizes):
        return x
    return c.constant(x, tuple(ROWS if isinstance(size, Count) else size for size in sizes))


def _repeat(c: Context, x: Any, *counts: Any, repeats: Any = None) -> Any:
    """Return a tensor put side by side with itself so many times, axis by axis."""
    times = _sizes(counts if counts else (repeats,))
    if not isinstance(x, Constant):
        return c.move(x, lambda array: np.tile(array, times), "repeats the rows")
    found = x.moved(lambda array: np.tile(array, _of_one_row(times)))
    return _in_every_row(
        c,
        found,
        [each if isinstance(each, Count) else size for each, size in zip(times, found.array.shape, strict=True)],
    )


def _repeat_interleave(c: Context, x: Any, repeats: Any, dim: Any = None, output_size: Any = None) -> Any:
    if not isinstance(repeats, int) or dim is None:
        raise c.refuse("repeats by other than one number along one axis")
    axis = c.over(c.tensor(x), dim, "repeats")
    return c.move(x, lambda array: np.repeat(array, repeats, axis))


def _unflatten(c: Context, x: Any, dim: int, sizes: Any) -> Any:
    axis = dim % len(c.sizes(x))
    why = f"makes {tuple(sizes)} of an axis of {c.sizes(x)[axis]}"
    return c.move(x, lambda array: array.reshape((*array.shape[:axis], *sizes, *array.shape[axis + 1 :])), why)


def _movedim(c: Context, x: Any, source: int, destination: int) -> Any:
    order = list(range(len(c.sizes(x))))
    order.insert(destination % len(order), order.pop(source % len(order)))
    return _permute(c, x, order)


def _flip(c: Context, x: Any, *dims: Any) -> Any:
    """Return the numbers in the opposite order along axes."""
    axes = tuple(c.over(x, dim, "turns around") for dim in _sizes(dims))
    return c.move(x, lambda array: np.flip(array, axes))


def _roll(c: Context, x: Any, shifts: Any, dims: Any = None) -> Any:
    """Return the numbers moved on along axes; those that leave at one end come in at the other."""
    if dims is None or isinstance(dims, list | tuple) != isinstance(shifts, list | tuple):
        raise c.refuse("moves along all axes, which mixes rows; name the axis")
    named = list(dims) if isinstance(dims, list | tuple) else [dims]
    axes = tuple(c.over(x, dim, "moves") for dim in named)
    steps = tuple(shifts) if isinstance(shifts, list | tuple) else (shifts,)
    return c.move(x, lambda array: np.roll(array, steps, axes))


def _hstack(c: Context, tensors: Any) -> Any:
    wide = [_unsqueeze(c, tensor, 1) if len(c.tensor(tensor).dims) == 1 else tensor for tensor in tensors]
    return concatenated(c, wide, 1)


def _full(c: Context, size: Any, fill_value: Any, dtype: Any = None, **where: Any) -> Constant:
    """Return an array of one number, as exported programs make masks."""
    name = str(dtype if dtype is not None else c.steps.dtype).removeprefix("torch.")
    if not all(type(each) is int for each in size) or name not in (*_FLOATS, "bool", "int64"):
        raise c.refuse(f"makes an array of {name} with the sizes {tuple(size)}")
    return Constant(np.full(size, c.number(float(fill_value), "a number"), name))


def _arange(c: Context, *ends: Any, dtype: Any = None, **where: Any) -> Constant | Starts:
    if len(ends) == 3 and ends[0] == 0 and isinstance(ends[1], Count) and ends[2] == ends[1].times:
        return Starts(ends[2])
    if not all(type(end) is int for end in ends) or dtype is not None or np.ptp([0, *ends]) > MOST:
        raise c.refuse(
            "makes numbers of rows or columns, which is not supported; of an EmbeddingBag, give the module itself"
        )
    return Constant(np.arange(*ends))


def _triangle(compute: Callable[..., Any]) -> Operator:
    """Return an operator that keeps a triangle of a constant matrix, and makes the rest 0."""

    def operator(c: Context, x: Any, diagonal: int = 0) -> Constant:
        if not isinstance(x, Constant):
            raise c.refuse("keeps a triangle of what depends on the input; multiply by a constant of 0 and 1")
        c.keeps(x)
        return Constant(compute(x.array, diagonal))

    return operator


def _mt(c: Context, x: Any) -> Any:
    return _transpose(c, x, -2, -1)


def _size(c: Context, x: Any, dim: Any = None) -> Any:
    return c.sizes(x) if dim is None else c.sizes(x)[dim]


def _rank(c: Context, x: Any) -> int:
    return len(c.sizes(x))


_ATTRIBUTES: dict[str, Callable[[Context, Any], Any]] = {
    "shape": _size,
    "ndim": _rank,
    "device": lambda c, x: "the device",
    "dtype": lambda c, x: "the dtype",
    "data": _same,
    "T": _t,
    "mT": _mt,
}


def _getattr(c: Context, x: Any, name: str) -> Any:
    if name == "values" and isinstance(x, tuple):  # of the largest along an axis, beside their indices
        return x[0]
    if name not in _ATTRIBUTES:
        raise c.refuse(f"reads {name!r}, which is not supported")
    return _ATTRIBUTES[name](c, x)


def _nothing(c: Context, *args: Any, **kwargs: Any) -> None:
    """Check something and return nothing."""


SHAPES: dict[str, Operator] = {
    **dict.fromkeys(
        ("contiguous", "detach", "alias", "nan_to_num", "requires_grad", "cpu", "cuda", "lift_fresh"), _same
    ),
    **dict.fromkeys(("positive", "pos"), _same),
    **dict.fromkeys(("clone", "lift_fresh_copy", "detach_copy"), copied),
    **dict.fromkeys(("dropout", "dropout1d", "feature_dropout"), _dropout),
    **dict.fromkeys(("alpha_dropout", "feature_alpha_dropout"), _alpha_dropout),
    **dict.fromkeys(("to", "_to_copy", "type"), _cast),
    "float": lambda c, x: _cast(c, x, "float32"),
    "double": lambda c, x: _cast(c, x, "float64"),
    "half": lambda c, x: _cast(c, x, "float16"),
    "bfloat16": lambda c, x: _cast(c, x, "bfloat16"),
    "type_as": lambda c, x, other: _cast(c, x, other),
    **dict.fromkeys(("long", "int"), _integer),
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "view_copy"), _reshape),
    "flatten": _flatten,
    "ravel": _flatten,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "permute": _permute,
    "transpose": _transpose,
    "swapaxes": _transpose,
    **dict.fromkeys(("t", "numpy_T"), _t),
    "getitem": _getitem,
    "slice": lambda c, x, dim=0, start=None, end=None, step=1: _along(c, x, dim, slice(start, end, step)),
    **dict.fromkeys(("select", "index_select"), lambda c, x, dim, index: _along(c, x, dim, index)),
    "narrow": lambda c, x, dim, start, length: _along(c, x, dim, slice(start, start + length)),
    "index": _index,
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "chunk": _chunk,
    "unbind": _unbind,
    **dict.fromkeys(("cat", "concat", "concatenate"), concatenated),
    "full": _full,
    "ones": lambda c, size, **more: _full(c, size, 1, **more),
    "zeros": lambda c, size, **more: _full(c, size, 0, **more),
    "arange": _arange,
    "tril": _triangle(np.tril),
    "triu": _triangle(np.triu),
    "mT": _mt,
    "flip": _flip,
    "roll": _roll,
    **dict.fromkeys(("hstack", "column_stack"), _hstack),
    "stack": lambda c, tensors, dim=0: concatenated(c, [_unsqueeze(c, tensor, dim) for tensor in tensors], dim),
    "expand": _expand,
    "expand_as": lambda c, x, other: _expand(c, x, _size(c, other)),
    "broadcast_to": _expand,
    **dict.fromkeys(("repeat", "tile"), _repeat),
    "repeat_interleave": _repeat_interleave,
    "unflatten": _unflatten,
    **dict.fromkeys(("movedim", "moveaxis"), _movedim),
    **dict.fromkeys(("size", "sym_size"), _size),
    **dict.fromkeys(("dim", "ndimension"), _rank),
    "getattr": _getattr,
    **dict.fromkeys(("_assert", "_assert_is_none", "_assert_scalar", "_assert_tensor_metadata"), _nothing),
}

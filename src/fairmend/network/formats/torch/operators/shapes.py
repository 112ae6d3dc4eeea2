"""Functions that choose, move and reshape numbers, and those that leave them as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network.formats.torch.operators.context import (
    ROWS,
    Context,
    Dims,
    InputWidthError,
    ManyRows,
    Operator,
    RowTensor,
    column_numbers,
)
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
    return RowTensor(x.parts, x.dims, x.opens, integer=x.integer, left_out=x.left_out)


def _dropout(c: Context, x: Any, p: float = 0.5, training: Any = True, inplace: bool = False, train: Any = None) -> Any:
    if training if train is None else train:
        raise c.error("stays random (call eval() before the export, or pass training=self.training)")
    return _same(c, x)


def _alpha_dropout(c: Context, x: Any, p: float = 0.5, training: Any = False, inplace: bool = False) -> Any:
    return _dropout(c, x, p, training)


def _cast(c: Context, x: Any, *targets: Any, **kwargs: Any) -> Any:
    """Return the tensor for a cast to the dtype of the weights, or to another device."""
    for target in (*targets, kwargs.get("dtype")):
        like = target.array.dtype.name if isinstance(target, Constant) else target  # x.to(other), x.type_as(other)
        name = str(like).removeprefix("torch.")
        if name in ("int64", "int32", "long", "int") or (isinstance(target, RowTensor) and target.integer):
            return _integer(c, x)
        if name in ("float", "double"):
            name = {"float": "float32", "double": "float64"}[name]
        if name in ("float16", "bfloat16", "half", "bool", "int8", "uint8", "int16") or (
            name in _FLOATS and name != c.steps.dtype.name
        ):
            raise c.error(f"casts to {name}; the weights are {c.steps.dtype}")
        if name in _FLOATS and isinstance(x, RowTensor):
            c.numbers(x)
        if name in _FLOATS and isinstance(x, Constant) and x.array.dtype.name != name:
            return Constant(x.array.astype(name))
    return _same(c, x)


def _integer(c: Context, x: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(x, Constant):
        return x if x.array.dtype.kind == "i" else Constant(np.trunc(x.array).astype(np.int64))
    if isinstance(x, RowTensor) and x.left_out is not None:
        c.numbers(x)
    return RowTensor(x.parts, x.dims, x.opens, x.memory, integer=True) if isinstance(x, RowTensor) else x


def _reshape(c: Context, x: Any, *sizes: Any, shape: Any = None, size: Any = None) -> Any:
    wanted = _sizes(sizes if sizes else (shape if shape is not None else size,))
    if isinstance(x, Constant):
        return x.moved(lambda array: array.reshape(wanted))
    return _reshaped(c, c.tensor(x), list(wanted))


def _sizes(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the sizes of an axis each, given one by one or as a list."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else tuple(sizes)


def _reshaped(c: Context, x: RowTensor, sizes: list[Any]) -> RowTensor:
    """Return the tensor under axes of these sizes, of which one has the rows."""
    wanted = [1 if size is None else size for size in sizes]
    if -1 in wanted:
        known = math.prod(_times(size) for size in wanted if not isinstance(size, int) or size != -1)
        rest = x.width // known if known else 0
        fixed = any(not isinstance(size, int) for size in wanted)
        wanted[wanted.index(-1)] = rest if fixed else ManyRows(1, rest) if rest != 1 else ROWS
    if all(isinstance(size, int) for size in wanted):
        raise c.error(f"makes {sizes[0] if sizes else 1} rows of any number of rows; write x.view(x.size(0), …)")
    if math.prod(map(_times, wanted)) != x.width:
        if wanted[0] is ROWS:
            c.require_width(x, math.prod(map(_times, wanted)))
        raise c.error(f"makes {tuple(sizes)} of a tensor of shape {x.shape()}")
    return c.view(x, _regrouped(c, x, wanted))


def _times(size: Any) -> int:
    return 1 if size is ROWS else size.times if isinstance(size, ManyRows) else int(size)


def _regrouped(c: Context, x: RowTensor, wanted: Sequence[Any]) -> Dims:
    """Return the axes of these sizes; that of the rows may take in others beside it."""
    axis = x.row_axis
    row = x.dims[axis]
    before = math.prod(x.dims[:axis]) * (row.before if isinstance(row, ManyRows) else 1)
    place = next(i for i, size in enumerate(wanted) if not isinstance(size, int))
    ahead, times = math.prod(wanted[:place]), _times(wanted[place])
    first = before // ahead if before % ahead == 0 else 0
    if not first or times % first:
        raise c.error(f"would mix the {x.width} outputs of different rows")
    joined = ROWS if times == 1 else ManyRows(first, times // first)
    return (*wanted[:place], joined, *wanted[place + 1 :])


def _flatten(c: Context, x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if isinstance(x, Constant):
        shape, axes = x.array.shape, max(1, x.array.ndim)
        return x.moved(lambda array: array.reshape((*shape[: start_dim % axes], -1, *shape[end_dim % axes + 1 :])))
    tensor = c.tensor(x)
    start, end = tensor.axis(start_dim), tensor.axis(end_dim)
    if start <= tensor.row_axis <= end:
        if tensor.width > 1:
            raise c.error(f"would mix the {tensor.width} outputs of different rows")
        return c.view(tensor, (*tensor.dims[:start], ROWS, *tensor.dims[end + 1 :]))
    joined = math.prod(tensor.dims[start : end + 1])
    return c.view(tensor, (*tensor.dims[:start], joined, *tensor.dims[end + 1 :]))


def _squeeze(c: Context, x: Any, dim: Any = None) -> Any:
    if isinstance(x, Constant):
        listed = range(x.array.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
        axes = tuple(axis for axis in listed if x.array.shape[axis] == 1)
        return x.moved(lambda array: np.squeeze(array, axes))
    tensor = c.tensor(x)
    chosen = range(len(tensor.dims)) if dim is None else [dim] if isinstance(dim, int) else dim
    dropped = {tensor.axis(axis) for axis in chosen}
    if dim is not None and len(tensor.opens) == 1 and all(tensor.dims[axis] == 1 for axis in dropped):
        c.exact.update(tensor.opens)  # the model says that there is one column
    if dim is not None and tensor.row_axis in dropped:
        raise c.error(f"over axis {dim} is not supported: it is that of the rows")
    return c.view(tensor, tuple(size for i, size in enumerate(tensor.dims) if i not in dropped or size != 1))


def _unsqueeze(c: Context, x: Any, dim: int) -> Any:
    if isinstance(x, Constant):
        return x.moved(lambda array: np.expand_dims(array, dim))
    tensor = c.tensor(x)
    at = dim if dim >= 0 else dim + len(tensor.dims) + 1
    wide = c.view(tensor, (*tensor.dims[:at], 1, *tensor.dims[at:]))
    wide.open_axis = None if tensor.open_axis is None else tensor.open_axis + (tensor.open_axis >= at)
    return wide


def _permute(c: Context, x: Any, *axes: Any, dims: Any = None) -> Any:
    order = _sizes(axes if axes else (dims,))
    if isinstance(x, Constant):
        return x.moved(lambda array: array.transpose(order))
    tensor = c.tensor(x)
    order = tuple(tensor.axis(axis) for axis in order)
    numbers = column_numbers(tensor.dims).transpose(order)
    return c.select(tensor, numbers, tuple(tensor.dims[axis] for axis in order))


def _transpose(c: Context, x: Any, dim0: int, dim1: int) -> Any:
    rank = x.array.ndim if isinstance(x, Constant) else len(c.tensor(x).dims)
    order = list(range(rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permute(c, x, order)


def _t(c: Context, x: Any) -> Any:
    rank = x.array.ndim if isinstance(x, Constant) else len(c.tensor(x).dims)
    return x if rank < 2 else _transpose(c, x, 0, 1)


def moved_axis(c: Context, x: RowTensor, dim: int, what: str) -> int:
    """Return an axis other than that of the rows."""
    axis = x.axis(dim)
    if not 0 <= axis < len(x.dims) or axis == x.row_axis:
        raise c.error(f"{what} over axis {dim} of a tensor of shape {x.shape()}, which mixes rows")
    return axis


def _chosen(c: Context, x: RowTensor, axis: int, choice: Any) -> RowTensor:
    """Return a choice along one axis: an int drops the axis; a slice or a list keeps it."""
    size = x.dims[axis]
    opens = _demand(c, x, choice, size)
    try:
        numbers = column_numbers(x.dims)[(slice(None),) * axis + (choice,)]
    except IndexError as error:
        raise c.error(f"chooses {choice} of an axis of {size}") from error
    if isinstance(choice, int):
        return c.select(x, numbers, (*x.dims[:axis], *x.dims[axis + 1 :]))
    if numbers.shape[axis] == 0:
        raise c.error(f"chooses nothing of an axis of {size}")
    return c.select(x, numbers, (*x.dims[:axis], numbers.shape[axis], *x.dims[axis + 1 :]), opens)


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
        listed = [choice] if isinstance(choice, int) else [int(number) for number in choice]
        least = max(number + 1 if number >= 0 else -number for number in listed)
        opens = {}
    if least > size and name not in c.exact:
        raise InputWidthError(name, least - size, exact=False)
    return opens


def _getitem(c: Context, x: Any, index: Any) -> Any:
    if isinstance(x, list | tuple):
        return x[index]
    if isinstance(x, Constant):
        parts = index if isinstance(index, tuple) else (index,)
        choice = tuple(i.array if isinstance(i, Constant) else i for i in parts)
        return x.moved(lambda array: array[choice])
    tensor = c.tensor(x)
    given = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in given:
        at = given.index(Ellipsis)
        missing = len(tensor.dims) - sum(each is not None for each in given) + 1
        given[at : at + 1] = [slice(None)] * missing
    axis = 0
    for each in given:
        if each is None:
            tensor, axis = _unsqueeze(c, tensor, axis), axis + 1
            continue
        choice = _choice(c, each)
        if axis >= len(tensor.dims):
            raise c.error(f"has more indices than a tensor of shape {tensor.shape()} has axes")
        if tensor.dims[axis] is ROWS:
            if choice != slice(None):
                raise c.error("chooses among the rows")
        elif not (isinstance(choice, slice) and choice == slice(None)):
            tensor = _chosen(c, tensor, axis, choice)
        axis += 0 if isinstance(choice, int) else 1
    return tensor


def _choice(c: Context, index: Any) -> Any:
    """Return an index as an int, a slice or a list of ints."""
    if isinstance(index, slice):
        parts = (index.start, index.stop, index.step)
        if not all(part is None or isinstance(part, int) for part in parts):
            raise c.error("has a slice whose ends are not numbers")
        start = None if index.start == 0 else index.start
        stop = None if isinstance(index.stop, int) and index.stop > _OPEN else index.stop
        return slice(start, stop, None if index.step == 1 else index.step)
    if isinstance(index, Constant) and index.array.dtype.kind == "i" and index.array.ndim <= 1:
        return index.array.tolist()
    if isinstance(index, int) and not isinstance(index, bool):
        return index
    if isinstance(index, list | tuple) and all(type(number) is int for number in index):
        return list(index)
    raise c.error("has an index that is not fixed")


def _along(axes: int, dim: int, choice: Any) -> tuple[Any, ...]:
    """Return the index that makes a choice along one of so many axes."""
    if not -axes <= dim < axes:
        raise IndexError(f"axis {dim} of a tensor with {axes} axes")
    return (slice(None),) * (dim % axes) + (choice,)


def _slice(c: Context, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if isinstance(x, Constant):
        return x.moved(lambda array: array[_along(array.ndim, dim, slice(start, end, step))])
    tensor = c.tensor(x)
    return _getitem(c, tensor, _along(len(tensor.dims), dim, slice(start, end, step)))


def _select(c: Context, x: Any, dim: int, index: Any) -> Any:
    if isinstance(x, Constant):
        return _taken(x, index, dim)
    tensor = c.tensor(x)
    return _getitem(c, tensor, _along(len(tensor.dims), dim, index))


def _narrow(c: Context, x: Any, dim: int, start: int, length: int) -> Any:
    return _slice(c, x, dim, start, start + length)


def _index(c: Context, x: Any, indices: Any) -> Any:
    """Return aten.index: an index, or None for all, for each axis; a mask is one for as many axes as it has."""
    (place, mask), *more = [(i, each) for i, each in enumerate(indices) if each is not None] or [(0, None)]
    if isinstance(x, RowTensor) and isinstance(mask, Constant) and mask.array.dtype == bool and not more:
        shape = mask.array.shape
        if x.dims[place : place + len(shape)] != shape:
            raise c.error(f"has a mask of shape {shape} for a tensor of shape {x.shape()}")
        flat = c.view(x, (*x.dims[:place], math.prod(shape), *x.dims[place + len(shape) :]))
        return _select(c, flat, place, Constant(np.flatnonzero(mask.array)))
    return _getitem(c, x, tuple(slice(None) if each is None else each for each in indices))


def _split(c: Context, x: Any, split_size_or_sections: Any = None, dim: int = 0, split_size: Any = None) -> Any:
    if isinstance(x, Constant):
        return _split_constant(x, split_size_or_sections if split_size_or_sections is not None else split_size, dim)
    tensor = c.tensor(x)
    axis = moved_axis(c, tensor, dim, "splits")
    sizes = split_size_or_sections if split_size_or_sections is not None else split_size
    if isinstance(sizes, int):
        return _pieces(c, tensor, axis, range(sizes, tensor.dims[axis], sizes))
    if len(tensor.dims) == 2:
        c.require_width(tensor, sum(sizes))
    elif sum(sizes) != tensor.dims[axis]:
        raise c.error(f"splits an axis of {tensor.dims[axis]} into {list(sizes)}")
    return _pieces(c, tensor, axis, np.cumsum(sizes)[:-1].tolist())


def _split_constant(x: Constant, sizes: Any, dim: int) -> tuple[Constant, ...]:
    total = x.array.shape[dim]
    cuts = range(sizes, total, sizes) if isinstance(sizes, int) else np.cumsum(sizes)[:-1].tolist()
    ends = [0, *cuts, total]
    numbers = [np.arange(start, stop) for start, stop in pairwise(ends)]
    return tuple(_taken(x, chosen, dim) for chosen in numbers)


def _taken(x: Constant, numbers: Any, dim: int) -> Constant:
    """Return a choice of numbers along one axis of a constant."""
    return x.moved(lambda array: np.take(array, numbers, dim))


def _chunk(c: Context, x: Any, chunks: int, dim: int = 0) -> Any:
    if isinstance(x, Constant):
        return _split_constant(x, -(-x.array.shape[dim] // chunks), dim)
    tensor = c.tensor(x)
    axis = moved_axis(c, tensor, dim, "splits")
    return _split(c, x, -(-tensor.dims[axis] // chunks), axis)


def _unbind(c: Context, x: Any, dim: int = 0) -> Any:
    if isinstance(x, Constant):
        return tuple(_select(c, x, dim, number) for number in range(x.array.shape[dim]))
    tensor = c.tensor(x)
    axis = moved_axis(c, tensor, dim, "splits")
    return tuple(_chosen(c, tensor, axis, number) for number in range(tensor.dims[axis]))


def _pieces(c: Context, x: RowTensor, axis: int, cuts: Sequence[int]) -> tuple[RowTensor, ...]:
    pieces: list[npt.NDArray[np.int64]] = np.split(column_numbers(x.dims), list(cuts), axis)
    before, after = x.dims[:axis], x.dims[axis + 1 :]
    return tuple(c.select(x, numbers, (*before, numbers.shape[axis], *after)) for numbers in pieces)


def concatenated(c: Context, tensors: Any, dim: Any = 0) -> Any:
    """Return tensors side by side along one axis."""
    if all(isinstance(tensor, Constant) for tensor in tensors):
        return Constant(np.concatenate([tensor.array for tensor in tensors], dim))
    if not all(isinstance(tensor, RowTensor) for tensor in tensors):
        raise c.error("puts a constant beside tensors that depend on the input")
    if any(tensor.left_out is not None for tensor in tensors):
        raise c.error("reads masked scores, -infinity, which only a softmax may read")
    first = tensors[0]
    axis = moved_axis(c, first, dim, "puts tensors side by side")
    for tensor in tensors:
        same = len(tensor.dims) == len(first.dims) and all(
            i == axis or size == other for i, (size, other) in enumerate(zip(first.dims, tensor.dims, strict=False))
        )
        if not same:
            raise c.error(f"puts tensors of shapes {first.shape()} and {tensor.shape()} side by side")
    parts = tuple(part for tensor in tensors for part in tensor.parts)
    opens: dict[str, int] = {}
    for tensor in tensors:
        for name, factor in tensor.opens.items():
            opens[name] = opens.get(name, 0) + factor
    integer = all(tensor.integer for tensor in tensors)
    if not integer and any(tensor.integer for tensor in tensors):
        raise c.error("puts whole numbers (.long() or .int()) beside other numbers")
    starts = np.cumsum([0, *(tensor.width for tensor in tensors)])
    numbers = np.concatenate([column_numbers(t.dims, s) for t, s in zip(tensors, starts, strict=False)], axis)
    dims = (*first.dims[:axis], sum(tensor.dims[axis] for tensor in tensors), *first.dims[axis + 1 :])
    joined = RowTensor(parts, dims, opens, integer=integer)
    if (np.diff(numbers.reshape(-1)) == 1).all():
        return joined
    return c.select(joined, numbers, dims)


def _expand(c: Context, x: Any, *sizes: Any, size: Any = None, implicit: Any = False) -> Any:
    """Return a tensor repeated along its axes of size 1; -1 keeps an axis. A constant may get the axis of the rows."""
    wanted = list(_sizes(sizes if sizes else (size,)))
    dims = x.array.shape if isinstance(x, Constant) else c.tensor(x).dims
    old = (1,) * (len(wanted) - len(dims)) + tuple(dims)
    if len(old) != len(wanted):
        raise c.error(f"expands {len(dims)} axes to {len(wanted)}")
    new = tuple(was if want == -1 else want for was, want in zip(old, wanted, strict=True))
    if not all(was in (1, want) for was, want in zip(old, new, strict=True)):
        raise c.error(f"expands shape {tuple(dims)} to {new}")
    if isinstance(x, Constant):
        x = x.moved(lambda array: np.broadcast_to(array, [1 if each is ROWS else each for each in new]))
        return c.constant(x, new) if ROWS in new else x
    if ROWS not in old or [i for i, each in enumerate(old) if each is ROWS] != [
        i for i, each in enumerate(new) if each is ROWS
    ]:
        raise c.error(f"expands shape {tuple(dims)} to {new}, which mixes rows")
    return expanded(c, x if x.dims == old else c.view(x, old), new)


def expanded(c: Context, x: RowTensor, dims: Dims) -> RowTensor:
    """Return a tensor with its axes of size 1 repeated, to these sizes."""
    if x.dims == dims:
        return x
    numbers = np.broadcast_to(column_numbers(x.dims), [1 if size is ROWS else size for size in dims])
    if x.width == numbers.size:
        return c.view(x, dims)
    wide = c.select(x, numbers, dims, {name: factor * numbers.size // x.width for name, factor in x.opens.items()})
    wide.open_axis = x.open_axis
    return wide


def _repeat(c: Context, x: Any, *counts: Any, repeats: Any = None) -> Any:
    """Return a tensor put side by side with itself so many times, axis by axis."""
    times = list(_sizes(counts if counts else (repeats,)))
    if isinstance(x, Constant):
        found = x.moved(lambda array: np.tile(array, [1 if each is ROWS else each for each in times]))
        dims = tuple(ROWS if each is ROWS else size for each, size in zip(times, found.array.shape, strict=True))
        return c.constant(found, dims) if ROWS in times else found
    tensor = c.tensor(x)
    tensor = c.view(tensor, (1,) * (len(times) - len(tensor.dims)) + tensor.dims)
    if times[tensor.row_axis] != 1:
        raise c.error("repeats the rows")
    dims = tuple(size if size is ROWS else size * times[axis] for axis, size in enumerate(tensor.dims))
    return c.select(tensor, np.tile(column_numbers(tensor.dims), times), dims)


def _repeat_interleave(c: Context, x: Any, repeats: Any, dim: Any = None, output_size: Any = None) -> Any:
    tensor = c.tensor(x)
    if not isinstance(repeats, int) or dim is None:
        raise c.error("repeats by other than one number along one axis")
    axis = moved_axis(c, tensor, dim, "repeats")
    dims = (*tensor.dims[:axis], tensor.dims[axis] * repeats, *tensor.dims[axis + 1 :])
    return c.select(tensor, np.repeat(column_numbers(tensor.dims), repeats, axis), dims)


def _unflatten(c: Context, x: Any, dim: int, sizes: Any) -> Any:
    dims = x.array.shape if isinstance(x, Constant) else c.tensor(x).dims
    axis, wanted = dim % len(dims), list(sizes)
    if -1 in wanted:
        wanted[wanted.index(-1)] = dims[axis] // math.prod(size for size in wanted if size != -1)
    new = (*dims[:axis], *wanted, *dims[axis + 1 :])
    if dims[axis] is ROWS or math.prod(wanted) != dims[axis]:
        raise c.error(f"makes {tuple(sizes)} of an axis of {dims[axis]}")
    return x.moved(lambda array: array.reshape(new)) if isinstance(x, Constant) else c.view(x, new)


def _movedim(c: Context, x: Any, source: int, destination: int) -> Any:
    rank = _rank(c, x)
    order = [axis for axis in range(rank) if axis != source % rank]
    order.insert(destination % rank, source % rank)
    return _permute(c, x, order)


def _stack(c: Context, tensors: Any, dim: int = 0) -> Any:
    return concatenated(c, [_unsqueeze(c, tensor, dim) for tensor in tensors], dim)


def _hstack(c: Context, tensors: Any) -> Any:
    wide = [_unsqueeze(c, tensor, 1) if len(c.tensor(tensor).dims) == 1 else tensor for tensor in tensors]
    return concatenated(c, wide, 1)


def _size(c: Context, x: Any, dim: Any = None) -> Any:
    dims = x.array.shape if isinstance(x, Constant) else c.tensor(x).dims
    return dims if dim is None else dims[dim]


def _rank(c: Context, x: Any) -> int:
    return x.array.ndim if isinstance(x, Constant) else len(c.tensor(x).dims)


def _getattr(c: Context, x: Any, name: str) -> Any:
    if name == "shape":
        return _size(c, x)
    if name == "ndim":
        return _rank(c, x)
    if name in ("device", "dtype"):
        return f"the {name}"
    if name == "data":
        return _same(c, x)
    if name == "T":
        return _t(c, x)
    if name == "values" and isinstance(x, tuple):  # of the largest along an axis, beside their indices
        return x[0]
    if name == "mT":
        return _transpose(c, x, -2, -1)
    raise c.error(f"reads {name!r}, which is not supported")


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
    "slice": _slice,
    "select": _select,
    "narrow": _narrow,
    "index": _index,
    "index_select": lambda c, x, dim, index: _select(c, x, dim, index),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "chunk": _chunk,
    "unbind": _unbind,
    **dict.fromkeys(("cat", "concat", "concatenate"), concatenated),
    **dict.fromkeys(("hstack", "column_stack"), _hstack),
    "stack": _stack,
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

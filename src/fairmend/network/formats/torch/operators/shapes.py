"""Functions that choose, move and reshape numbers, and those that leave them as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network.formats.torch.operators.context import (
    ROWS,
    Context,
    InputWidthError,
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
    return RowTensor(x.parts, x.dims, x.opens, integer=x.integer) if isinstance(x, RowTensor) else x


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
    return RowTensor(x.parts, x.dims, x.opens, x.memory, integer=True) if isinstance(x, RowTensor) else x


def _reshape(c: Context, x: Any, *sizes: Any, shape: Any = None, size: Any = None) -> Any:
    wanted = _sizes(sizes if sizes else (shape if shape is not None else size,))
    if isinstance(x, Constant):
        return _renamed(x, x.array.reshape(wanted), x.array.ndim <= 1 or len(wanted) == 2)
    return _reshaped(c, c.tensor(x), list(wanted))


def _renamed(x: Constant, array: npt.NDArray[Any], keyed: bool = True) -> Constant:
    """Return a constant under other axes; it keeps its key if its numbers are in the order of the stored ones."""
    if array.shape == x.array.shape:
        return x
    return Constant(array, x.key if keyed and not x.transposed else None)


def _sizes(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the sizes of an axis each, given one by one or as a list."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else tuple(sizes)


def _reshaped(c: Context, x: RowTensor, sizes: list[Any]) -> RowTensor:
    """Return the tensor under axes of these sizes, of which the first must be the rows."""
    rest = [1 if size is None else size for size in sizes[1:]]
    if x.row_axis != 0 or not sizes or not all(isinstance(size, int) for size in rest):
        raise c.error(f"makes {tuple(sizes)} of a tensor of shape {x.shape()}, which mixes rows")
    if -1 in rest:
        known = math.prod(size for size in rest if size != -1)
        rest[rest.index(-1)] = x.width // known if known else 0
    if sizes[0] is not ROWS and sizes[0] != -1:
        raise c.error(f"makes {sizes[0]} rows of any number of rows; write x.view(x.size(0), …) or x.view(-1, …)")
    if math.prod(rest) != x.width:
        if sizes[0] is ROWS or rest:
            c.require_width(x, math.prod(rest))
        raise c.error(f"would mix the {x.width} outputs of different rows")
    return c.view(x, (ROWS, *rest))


def _flatten(c: Context, x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if isinstance(x, Constant):
        shape, axes = x.array.shape, max(1, x.array.ndim)
        return _renamed(x, x.array.reshape((*shape[: start_dim % axes], -1, *shape[end_dim % axes + 1 :])))
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
        return _renamed(x, np.squeeze(x.array, tuple(axis for axis in listed if x.array.shape[axis] == 1)))
    tensor = c.tensor(x)
    chosen = range(len(tensor.dims)) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = {tensor.axis(axis) for axis in chosen}
    if dim is not None and len(tensor.opens) == 1 and all(tensor.dims[axis] == 1 for axis in axes):
        c.exact.update(tensor.opens)  # the model says that there is one column
    if dim is not None and tensor.row_axis in axes:
        raise c.error(f"over axis {dim} is not supported: it is that of the rows")
    return c.view(tensor, tuple(size for i, size in enumerate(tensor.dims) if i not in axes or size != 1))


def _unsqueeze(c: Context, x: Any, dim: int) -> Any:
    if isinstance(x, Constant):
        return _renamed(x, np.expand_dims(x.array, dim), x.array.ndim <= 1)
    tensor = c.tensor(x)
    at = dim if dim >= 0 else dim + len(tensor.dims) + 1
    return c.view(tensor, (*tensor.dims[:at], 1, *tensor.dims[at:]))


def _permute(c: Context, x: Any, *axes: Any, dims: Any = None) -> Any:
    order = _sizes(axes if axes else (dims,))
    if isinstance(x, Constant):
        turned = x.array.ndim == 2 and [axis % 2 for axis in order] == [1, 0]
        return Constant(x.array.transpose(order), x.key if turned else None, x.transposed ^ turned)
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
        return Constant(np.asarray(x.array[tuple(i.array if isinstance(i, Constant) else i for i in parts)]))
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
        return Constant(x.array[_along(x.array.ndim, dim, slice(start, end, step))])
    tensor = c.tensor(x)
    return _getitem(c, tensor, _along(len(tensor.dims), dim, slice(start, end, step)))


def _select(c: Context, x: Any, dim: int, index: Any) -> Any:
    if isinstance(x, Constant):
        return Constant(np.take(x.array, index, dim))
    tensor = c.tensor(x)
    return _getitem(c, tensor, _along(len(tensor.dims), dim, index))


def _narrow(c: Context, x: Any, dim: int, start: int, length: int) -> Any:
    return _slice(c, x, dim, start, start + length)


def _index(c: Context, x: Any, indices: Any) -> Any:
    """Return aten.index: an index, or None for all, for each axis."""
    return _getitem(c, x, tuple(slice(None) if each is None else each for each in indices))


def _split(c: Context, x: Any, split_size_or_sections: Any = None, dim: int = 0, split_size: Any = None) -> Any:
    tensor = c.tensor(x)
    axis = moved_axis(c, tensor, dim, "splits")
    sizes = split_size_or_sections if split_size_or_sections is not None else split_size
    if isinstance(sizes, int):
        return _pieces(c, tensor, axis, range(sizes, tensor.dims[axis], sizes))
    c.require_width(tensor, sum(sizes))
    return _pieces(c, tensor, axis, np.cumsum(sizes)[:-1].tolist())


def _chunk(c: Context, x: Any, chunks: int, dim: int = 0) -> Any:
    tensor = c.tensor(x)
    axis = moved_axis(c, tensor, dim, "splits")
    return _split(c, x, -(-tensor.dims[axis] // chunks), axis)


def _unbind(c: Context, x: Any, dim: int = 0) -> Any:
    tensor = c.tensor(x)
    axis = moved_axis(c, tensor, dim, "splits")
    return tuple(_chosen(c, tensor, axis, number) for number in range(tensor.dims[axis]))


def _pieces(c: Context, x: RowTensor, axis: int, cuts: Sequence[int]) -> tuple[RowTensor, ...]:
    pieces: list[npt.NDArray[np.int64]] = np.split(column_numbers(x.dims), list(cuts), axis)
    before, after = x.dims[:axis], x.dims[axis + 1 :]
    return tuple(c.select(x, numbers, (*before, numbers.shape[axis], *after)) for numbers in pieces)


def concatenated(c: Context, tensors: Any, dim: Any = 0) -> RowTensor:
    """Return tensors side by side along one axis."""
    if not all(isinstance(tensor, RowTensor) for tensor in tensors):
        raise c.error("puts a constant beside tensors that depend on the input")
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


def _stack(c: Context, tensors: Any, dim: int = 0) -> RowTensor:
    return concatenated(c, [_unsqueeze(c, tensor, dim) for tensor in tensors], dim)


def _hstack(c: Context, tensors: Any) -> RowTensor:
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
    if name in ("T", "mT"):
        return _t(c, x)
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
    "t": _t,
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
    **dict.fromkeys(("size", "sym_size"), _size),
    **dict.fromkeys(("dim", "ndimension"), _rank),
    "getattr": _getattr,
    **dict.fromkeys(("_assert", "_assert_is_none", "_assert_scalar", "_assert_tensor_metadata"), _nothing),
}

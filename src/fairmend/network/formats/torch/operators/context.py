"""One call of a traced model: where it is, the graph that it adds steps to, and what its arguments must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network.formats.axes import ROWS, Dims, contraction, lengths, sizes_of
from fairmend.network.formats.build import Value, unsupported
from fairmend.network.formats.tensors import MASKED, Place, Tensor
from fairmend.network.formats.torch.program import Constant
from fairmend.network.formats.torch.steps import Number, Steps


class InputWidthError(Exception):
    """An input must be wider or narrower than assumed; `change` says by how much, `exact` that it is then right."""

    def __init__(self, name: str, change: int, exact: bool) -> None:
        """Store what is wrong."""
        super().__init__(name)
        self.name, self.change, self.exact = name, change, exact


@dataclass
class Memory:
    """What tensors share that are views of each other; `version` counts the changes in place.

    `owner` is the input that they are views of.
    """

    owner: str = ""
    version: int = 0
    changed_by: str = ""


@dataclass(eq=False)
class RowTensor(Tensor):
    """Numbers for each row, and what a call may ask about where they come from.

    `opens` says by how many columns the tensor grows with each column of an input whose width is not known yet, and
    `open_axis` is the axis of such columns. `sigmoid_of` is set on a sigmoid, and `product_of` on the product of a
    tensor and a constant.
    """

    opens: Mapping[str, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    sigmoid_of: tuple[Value, ...] = ()
    product_of: tuple[tuple[Value, ...], Any] | None = None
    open_axis: int | None = None
    version: int = field(init=False)

    def __post_init__(self) -> None:
        """Note the state of the memory."""
        self.version = self.memory.version

    @property
    def stale(self) -> bool:
        """Whether something changed the memory in place after this tensor was made."""
        return self.version != self.memory.version

    def axis(self, axis: int) -> int:
        """Return an axis that may be counted from the end."""
        return axis + len(self.dims) if axis < 0 else axis


@dataclass(frozen=True)
class Positive:
    """Where the numbers of a tensor are above 0: only `where` may read it. ``place`` is the call that compares them."""

    parts: tuple[Value, ...]
    dims: Dims
    place: str


@dataclass(frozen=True)
class Starts:
    """Where the bags of rows begin in a list of all their numbers, so many for each row: only bags may read it."""

    each: int


@dataclass
class Context(Place[RowTensor]):
    """A call. ``exact`` collects the inputs whose width a layer confirms, ``indices`` those that only tables read."""

    steps: Steps  # type: ignore[assignment]
    where: str
    exact: set[str]
    indices: set[str]
    most_terms = 256

    def made(self, value: Value, dims: Dims, *of: RowTensor) -> RowTensor:
        """Return a new value as a tensor; it grows as those that it is computed of."""
        opens = of[0].opens if of and all(each.opens for each in of) else {}
        axis = of[0].open_axis if opens and len(dims) == len(of[0].dims) else None
        return RowTensor((value,), dims, opens, open_axis=axis)

    def derived(self, x: RowTensor, parts: tuple[Value, ...], dims: Dims) -> RowTensor:
        """Return numbers of a tensor under other axes."""
        return RowTensor(parts, dims, x.opens if parts == x.parts else {}, x.memory, whole=x.whole)

    def stretched(self, x: RowTensor, dims: Dims) -> RowTensor:
        """Return a tensor with its axes of size 1 repeated, to these sizes."""
        found = super().stretched(x, dims)
        if found is not x:
            found.opens = {name: factor * found.width // x.width for name, factor in x.opens.items()}
            found.open_axis = x.open_axis if len(dims) == len(x.dims) else None
        return found

    def joined(self, tensors: Sequence[RowTensor], axis: int) -> RowTensor:
        """Return tensors side by side along one axis; what is put side by side in order stays in parts."""
        found = super().joined(tensors, axis)
        opens: dict[str, int] = {}
        for name, factor in (each for tensor in tensors for each in tensor.opens.items()):
            opens[name] = opens.get(name, 0) + factor
        apart = sum(len(tensor.parts) for tensor in tensors)
        return RowTensor(found.parts, found.dims, opens if len(found.parts) == apart else {}, whole=found.whole)

    def _side_by_side(self, tensors: Sequence[RowTensor]) -> tuple[Value, ...]:
        if any(tensor.left_out is not None for tensor in tensors):
            raise self.refuse(MASKED)
        return tuple(part for tensor in tensors for part in tensor.parts)

    def add(self, tensors: Sequence[RowTensor]) -> RowTensor:
        """Return the sum of tensors; an input whose width is not known yet is made to fit."""
        for each in tensors:
            if each.dims != tensors[0].dims and len(each.dims) == len(tensors[0].dims) == 2:
                for one, other in ((tensors[0], each), (each, tensors[0])):
                    if one.opens:
                        self.require_width(one, other.width)
        return super().add(tensors)

    def _along(self, x: RowTensor, axes: Sequence[int], keep: bool, most: int, what: str) -> list[RowTensor]:
        """Return the parts of a tensor along axes; each is one of as many as there are, and grows no more."""
        return [replace(part, opens={}) for part in super()._along(x, axes, keep, most, what)]

    def prelu(self, x: RowTensor, slopes: str) -> RowTensor:
        """Return a PReLU, with the tensor of its slopes."""
        try:
            value = self.steps.prelu(self.flat(x), self.where, slopes)
        except FairmendError as error:
            raise self.refuse(f"is not supported: {error}") from error
        return self.made(value, x.dims, x)

    def layer(
        self, x: RowTensor, names: Sequence[Any], weight: Constant, own: Sequence[Any], out: Sequence[Any], bias: Any
    ) -> RowTensor:
        """Return an affine layer: the products with weights whose axes have names, as those of the tensor have."""
        axes = dict(zip(names, x.dims, strict=True)), dict(zip(own, weight.array.shape, strict=True))
        try:
            how = contraction(*axes, out)
        except ValueError as error:
            raise self.refuse(f"{error} ({x.shape()} and {weight.array.shape})") from error
        groups, tokens, outputs, inputs = how.sizes
        moved = weight.moved(lambda array: array.reshape(-1)[how.second].reshape(groups, outputs, inputs))
        offset = None if bias is None else self.key(bias, "biases")
        key = self.key(moved, "weights")
        if not (moved.in_order or moved.transposed):
            raise self.refuse(
                f"has weights that are a part of {key!r}, or have its axes in another order than (…, out, in)"
            )
        if bias is not None and not bias.in_order:
            raise self.refuse(f"has biases that are a part of {offset!r}")
        turned = not moved.in_order
        stored = weight.stored or weight.array.shape
        plain = groups == 1 and stored == ((inputs, outputs) if turned else (outputs, inputs))
        left = self.flat(self.select(x, np.array(how.first), (ROWS, len(how.first))))
        value = self.steps.affine(left, self.where, key, offset, turned, None if plain else groups, tokens)
        return self.select(self.made(value, how.dims), np.array(how.result), how.dims)

    def move(self, x: Any, move: Callable[[npt.NDArray[Any]], Any], why: str = "") -> Any:
        """Return what a move does to the numbers of a tensor, or of a constant."""
        if not isinstance(x, Constant):
            return self.moved(self.tensor(x), move, why)
        try:
            return x.moved(move)
        except (ValueError, IndexError, TypeError) as error:
            raise self.refuse(why or f"does not fit a constant of shape {x.array.shape}") from error

    def sizes(self, x: Any) -> tuple[Any, ...]:
        """Return the sizes of a tensor's axes, or of a constant's."""
        return tuple(x.array.shape) if isinstance(x, Constant) else tuple(sizes_of(self.tensor(x).dims))

    def over(self, x: Any, dim: int, what: str) -> int:
        """Return an axis counted from the front, which is not that of the rows."""
        if isinstance(x, Constant):
            return dim % max(1, x.array.ndim)
        return self.along(x, dim, f"{what} over axis {dim} of a tensor of shape {x.shape()}, which mixes rows")

    def constant(self, x: Constant, dims: Dims) -> RowTensor:
        """Return a constant of the state dict as a tensor that has it in every row."""
        if x.key is None:
            self.key(x, "numbers")
        flat = x.moved(lambda array: array.reshape(-1))
        assert flat.key is not None
        whole = self.steps.affine(self.steps.row, self.where, None, flat.key)
        places = np.arange(whole.width) if flat.places is None else flat.places
        return self.select(self.made(whole, (ROWS, whole.width)), places, dims)

    def tensor(self, x: Any) -> RowTensor:
        """Return a tensor that depends on the input; refuse anything else."""
        if isinstance(x, Positive):
            why = "makes a mask of what depends on the input; a mask must be a constant, such as a buffer of the module"
            raise unsupported(self.steps.source, x.place, why)
        if not isinstance(x, RowTensor):
            raise self.refuse("is not called with a tensor that depends on the input")
        return x

    def numbers(self, x: Any) -> RowTensor:
        """Return a tensor that was not cast to whole numbers."""
        tensor = self.tensor(x)
        if tensor.whole:
            raise self.refuse("computes with whole numbers (.long() or .int()), which only an embedding may read")
        return super().numbers(tensor)

    def matrix(self, x: Any) -> RowTensor:
        """Return a tensor of shape (rows, n)."""
        tensor = self.numbers(x)
        if len(tensor.dims) != 2 or tensor.dims[0] != ROWS:
            raise self.refuse(f"reads a tensor of shape {tensor.shape()}; it must be (rows, n)")
        return tensor

    def require_width(self, x: RowTensor, width: int) -> None:
        """Refuse a tensor of other than so many columns; an input that is not known yet is made to fit."""
        if len(x.opens) == 1:
            ((name, factor),) = x.opens.items()
            if x.width == width:
                self.exact.add(name)
            elif name not in self.exact and (width - x.width) % factor == 0:
                raise InputWidthError(name, (width - x.width) // factor, exact=True)
        if x.width != width:
            raise FairmendError(
                f"{self.steps.source}: {self.where} takes {width} values, but the layer before it gives {x.width}"
            )

    def require_axis(self, x: RowTensor, shape: Sequence[int]) -> None:
        """Make an input of unknown width fit a constant of this shape beside it, along the axis that is not known."""
        if len(x.opens) != 1 or x.open_axis is None:
            return
        ((name, _),) = x.opens.items()
        place = x.open_axis - len(x.dims) + len(shape)
        wanted = shape[place] if 0 <= place < len(shape) else 1
        size = lengths(x.dims)[x.open_axis]
        if wanted == size:
            self.exact.add(name)
        elif wanted > 1 and name not in self.exact:
            raise InputWidthError(name, wanted - size, exact=True)

    def key(self, constant: Any, what: str) -> str:
        """Return the key of a constant in the state dict."""
        if not isinstance(constant, Constant):
            raise self.refuse(f"has {what} that depend on the input (a product of activations)")
        if constant.key is None:
            raise self.refuse(
                f"has {what} that are not in the state dict; make them a parameter, or a buffer with register_buffer()"
            )
        return constant.key

    def part_of(self, constant: Any) -> tuple[Constant, slice | int, bool] | None:
        """Return the tensor of which a constant has some entries along the first axis, or one; None if it has not.

        And which, and whether the one is transposed.
        """
        if not isinstance(constant, Constant) or constant.key is None or constant.places is None or constant.in_order:
            return None
        whole = Constant(self.steps.tensors[constant.key], constant.key)
        rows, size = len(whole.array), whole.array.size // len(whole.array)
        start, count = int(constant.places.min()) // size, constant.array.size // size
        if not 0 < count < rows:
            return None
        places = np.arange(whole.array.size).reshape(whole.array.shape)
        if constant.array.ndim == whole.array.ndim:
            some = slice(start, start + count)
            return (whole, some, False) if np.array_equal(places[some], constant.places) else None
        if np.array_equal(places[start], constant.places):
            return whole, start, False
        return (whole, start, True) if np.array_equal(places[start].T, constant.places) else None

    def reference(self, constant: Constant) -> Number:
        """Return a constant as the description of a step names it: by its key, or as numbers."""
        found = constant.reference
        if constant.key is not None and not isinstance(found, str):
            self.steps.copied.add(constant.key)
        return found

    def keeps(self, constant: Constant) -> None:
        """Note that steps hold the numbers of a constant, which must not change."""
        self.steps.copied.update(() if constant.key is None else (constant.key,))

    def number(self, value: Any, what: str) -> float:
        """Return an argument that must be one number."""
        if isinstance(value, Constant) and value.number is not None:
            self.steps.copied.update(() if value.key is None else (value.key,))
            return value.number
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(f"has {what} that is not one number")
        return float(value)


Operator = Callable[..., Any]
"""Takes the context of a call and the arguments of PyTorch's function; returns a tensor, or several."""


_STABLE = (np.multiply, np.divide, np.negative, np.abs, np.square, np.reciprocal, np.logical_not)


def subtract_from(x: Any, y: Any) -> Any:
    """Return y - x, as rsub does."""
    return y - x


_SUMS = (np.add, np.subtract, subtract_from)


def _require_stable(c: Context, compute: Callable[..., Any], given: Sequence[Any], found: npt.NDArray[Any]) -> None:
    """Refuse what makes a large error of the small one of a function that programs round in ways of their own."""
    if compute in _SUMS:
        largest = np.maximum(*(np.abs(np.asarray(each)) for each in given))
        if (np.abs(found) >= largest / 2).all():
            return
    elif compute in (*_STABLE, np.sqrt):
        return
    raise c.refuse(
        "computes with a function of the model's own numbers, which programs round in ways of their own; make the "
        "result a buffer with register_buffer()"
    )


def on_constants(compute: Callable[..., Any]) -> Operator:
    """Return an operator that computes with numbers of the model alone."""

    def operator(c: Context, *args: Any, **kwargs: Any) -> Constant:
        if kwargs or not all(isinstance(arg, int | float | Constant) for arg in args):
            raise c.refuse("is not supported")
        arrays = [arg.array if isinstance(arg, Constant) else arg for arg in args]
        c.steps.copied.update(arg.key for arg in args if isinstance(arg, Constant) and arg.key is not None)
        with np.errstate(all="ignore"):
            found = np.asarray(compute(*arrays))
            if any(isinstance(arg, Constant) and arg.rounded for arg in args):
                _require_stable(c, compute, arrays, found)
        rounded = compute not in (*_STABLE, *_SUMS) or any(isinstance(arg, Constant) and arg.rounded for arg in args)
        return Constant(found, rounded=rounded)

    return operator


def either(operator: Operator, compute: Callable[..., Any]) -> Operator:
    """Return an operator that also takes numbers of the model alone, as in x / (self.std + 1e-8)."""
    constants = on_constants(compute)

    def either(c: Context, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(arg, RowTensor) for arg in (*args, *kwargs.values())):
            return constants(c, *args, **kwargs)
        return operator(c, *args, **kwargs)

    return either

"""One call of a traced model: where it is, the graph that it adds steps to, and what its arguments must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network.formats.build import Value, unsupported
from fairmend.network.formats.torch.program import Constant
from fairmend.network.formats.torch.steps import Number, Steps

# Tensors of a traced model: one row of numbers for each row of the input, under any shape.
#
# A tensor is a row of numbers (the values of the graph side by side, in `parts`) and the sizes of its axes; ROWS stands
# for the axis of the rows. Reshaping changes the sizes alone, and choosing, stacking or transposing is a choice of
# columns: NumPy does it with the numbers 0, 1, 2, … of the columns.


class _Rows:
    """The number of rows, whatever it is."""

    def __repr__(self) -> str:
        """Show it as in messages: (rows, 13)."""
        return "rows"


ROWS: Final = _Rows()


@dataclass(frozen=True)
class ManyRows:
    """An axis of the rows and others in one, as (before, rows, after); only reshaping takes it apart again.

    As a size it says how many times the rows there are: before · after.
    """

    before: int = 1
    after: int = 1

    @property
    def times(self) -> int:
        """How many numbers of one row are along the axis."""
        return self.before * self.after

    def __repr__(self) -> str:
        """Show it as in messages: 2*rows."""
        return f"{self.times}*rows"


Dims = tuple[Any, ...]  # each an int, or ROWS


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
class RowTensor:
    """Numbers for each row: `parts` side by side, with the axes `dims`, of which one is ROWS.

    `opens` says by how many columns the tensor grows with each column of an input whose width is not known yet.
    An `integer` tensor was cast to whole numbers, and only a look-up may read it. `sigmoid_of` is set on a sigmoid,
    and `product_of` on the product of a tensor and a constant. `open_axis` is the axis of such columns. `left_out` says
    which numbers, in the axes of the tensor, are -infinity instead: only a softmax may read them.
    """

    parts: tuple[Value, ...]
    dims: Dims
    opens: Mapping[str, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    integer: bool = False
    sigmoid_of: tuple[Value, ...] = ()
    product_of: tuple[tuple[Value, ...], Any] | None = None
    open_axis: int | None = None
    left_out: npt.NDArray[np.bool_] | None = None
    version: int = field(init=False)

    def __post_init__(self) -> None:
        """Note the state of the memory."""
        self.version = self.memory.version

    @property
    def width(self) -> int:
        """How many numbers there are for each row."""
        return sum(part.width for part in self.parts)

    @property
    def row_axis(self) -> int:
        """The axis of the rows."""
        return next(axis for axis, size in enumerate(self.dims) if size is ROWS or isinstance(size, ManyRows))

    @property
    def mixed(self) -> bool:
        """Whether the axis of the rows is one with others."""
        return isinstance(self.dims[self.row_axis], ManyRows)

    @property
    def stale(self) -> bool:
        """Whether something changed the memory in place after this tensor was made."""
        return self.version != self.memory.version

    def axis(self, axis: int) -> int:
        """Return an axis that may be counted from the end."""
        return axis + len(self.dims) if axis < 0 else axis

    def shape(self) -> str:
        """Return the shape for messages."""
        return f"({', '.join(map(str, self.dims))}{',' if len(self.dims) == 1 else ''})"


def column_numbers(dims: Sequence[Any], start: int = 0) -> npt.NDArray[np.int64]:
    """Return the numbers of the columns of a tensor, in an array of its shape; the axis of rows has length 1."""
    sizes = [1 if size is ROWS else size.times if isinstance(size, ManyRows) else int(size) for size in dims]
    return np.arange(start, start + math.prod(sizes)).reshape(sizes)


@dataclass(frozen=True)
class Positive:
    """Where the numbers of a tensor are above 0: only `where` may read it."""

    parts: tuple[Value, ...]
    dims: Dims


@dataclass
class Context:
    """A call. ``exact`` collects the inputs whose width a layer confirms, ``indices`` those that only tables read."""

    steps: Steps
    where: str
    exact: set[str]
    indices: set[str]

    def error(self, why: str) -> FairmendError:
        """Return the error that names this call."""
        return unsupported(self.steps.source, self.where, why)

    def flat(self, x: RowTensor) -> Value:
        """Return the numbers of a tensor as one value."""
        return self.steps.concatenate(self.where, x.parts)

    def elementwise(self, x: Any, name: str, slope: float = 0.0, parameters: Any = ()) -> RowTensor:
        """Return an elementwise function of a tensor."""
        tensor = self.numbers(x)
        try:
            value = self.steps.function(self.flat(tensor), self.where, name, slope, parameters)
        except FairmendError as error:
            raise self.error(f"is not supported: {error}") from error
        return RowTensor((value,), tensor.dims, tensor.opens)

    def scaled(self, x: Any, **parts: Number) -> RowTensor:
        """Return a tensor times and plus numbers."""
        tensor = self.numbers(x)
        return RowTensor((self.steps.scale(self.flat(tensor), self.where, **parts),), tensor.dims, tensor.opens)

    def view(self, x: RowTensor, dims: Dims) -> RowTensor:
        """Return the same numbers under other axes."""
        found = RowTensor(x.parts, dims, x.opens, x.memory, x.integer)
        found.left_out = None if x.left_out is None else x.left_out.reshape(column_numbers(dims).shape)
        return found

    def select(
        self, x: RowTensor, numbers: npt.NDArray[np.int64], dims: Dims, opens: dict[str, int] | None = None
    ) -> RowTensor:
        """Return the columns with these numbers, as a tensor with these axes."""
        found = RowTensor(self._parts(x, numbers.reshape(-1).tolist()), dims, opens or {}, x.memory, x.integer)
        found.left_out = None if x.left_out is None else x.left_out.reshape(-1)[numbers]
        return found

    def _parts(self, x: RowTensor, numbers: list[int]) -> tuple[Value, ...]:
        """Return columns part by part, so that what was put side by side comes apart again."""
        ends = np.cumsum([part.width for part in x.parts])
        owners = np.searchsorted(ends, numbers, side="right").tolist()
        runs: list[tuple[int, list[int]]] = []
        for owner, number in zip(owners, numbers, strict=True):
            if not runs or runs[-1][0] != owner:
                runs.append((owner, []))
            runs[-1][1].append(number - (int(ends[owner]) - x.parts[owner].width))
        if len(runs) > len(x.parts):
            return (self.steps.columns(self.flat(x), self.where, numbers),)
        return tuple(self.steps.columns(x.parts[owner], self.where, chosen) for owner, chosen in runs)

    def constant(self, x: Constant, dims: Dims) -> RowTensor:
        """Return a constant of the state dict as a tensor that has it in every row."""
        if x.key is None:
            self.key(x, "numbers")
        flat = x.moved(lambda array: array.reshape(-1))
        assert flat.key is not None
        whole = self.steps.affine(self.steps.row, self.where, None, flat.key)
        found = RowTensor((whole,), (ROWS, whole.width))
        places = np.arange(whole.width) if flat.places is None else flat.places
        return self.select(found, places, dims)

    def tensor(self, x: Any) -> RowTensor:
        """Return a tensor that depends on the input; refuse anything else."""
        if not isinstance(x, RowTensor):
            raise self.error("is not called with a tensor that depends on the input")
        return x

    def numbers(self, x: Any) -> RowTensor:
        """Return a tensor that was not cast to whole numbers."""
        tensor = self.tensor(x)
        if tensor.integer:
            raise self.error("computes with whole numbers (.long() or .int()), which only an embedding may read")
        if tensor.left_out is not None:
            raise self.error("reads masked scores, -infinity, which only a softmax may read")
        return tensor

    def matrix(self, x: Any) -> RowTensor:
        """Return a tensor of shape (rows, n)."""
        tensor = self.numbers(x)
        if len(tensor.dims) != 2 or tensor.row_axis != 0:
            raise self.error(f"reads a tensor of shape {tensor.shape()}; it must be (rows, n)")
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
        if wanted == x.dims[x.open_axis]:
            self.exact.add(name)
        elif wanted > 1 and name not in self.exact:
            raise InputWidthError(name, wanted - x.dims[x.open_axis], exact=True)

    def key(self, constant: Any, what: str) -> str:
        """Return the key of a constant in the state dict."""
        if not isinstance(constant, Constant):
            raise self.error(f"has {what} that depend on the input (a product of activations)")
        if constant.key is None:
            raise self.error(
                f"has {what} that are not in the state dict; make them a parameter, or a buffer with register_buffer()"
            )
        return constant.key

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
            raise self.error(f"has {what} that is not one number")
        return float(value)


Operator = Callable[..., Any]
"""Takes the context of a call and the arguments of PyTorch's function; returns a tensor, or several."""


def on_constants(compute: Callable[..., Any]) -> Operator:
    """Return an operator that computes with numbers of the model alone."""

    def operator(c: Context, *args: Any, **kwargs: Any) -> Constant:
        if kwargs or not all(isinstance(arg, int | float | Constant) for arg in args):
            raise c.error("is not supported")
        arrays = [arg.array if isinstance(arg, Constant) else arg for arg in args]
        c.steps.copied.update(arg.key for arg in args if isinstance(arg, Constant) and arg.key is not None)
        with np.errstate(all="ignore"):
            return Constant(np.asarray(compute(*arrays)))

    return operator


def either(operator: Operator, compute: Callable[..., Any]) -> Operator:
    """Return an operator that also takes numbers of the model alone, as in x / (self.std + 1e-8)."""
    constants = on_constants(compute)

    def either(c: Context, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(arg, RowTensor) for arg in (*args, *kwargs.values())):
            return constants(c, *args, **kwargs)
        return operator(c, *args, **kwargs)

    return either

"""One call of a traced model: where it is, the graph that it adds steps to, and what its arguments must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network.formats.build import Value, unsupported
from fairmend.network.formats.torch.program import Constant
from fairmend.network.formats.torch.rows import Dims, InputWidthError, RowTensor
from fairmend.network.formats.torch.steps import Number, Steps


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
        return RowTensor(x.parts, dims, x.opens, x.memory, x.integer)

    def select(
        self, x: RowTensor, numbers: npt.NDArray[np.int64], dims: Dims, opens: dict[str, int] | None = None
    ) -> RowTensor:
        """Return the columns with these numbers, as a tensor with these axes."""
        return RowTensor(self._parts(x, numbers.reshape(-1).tolist()), dims, opens or {}, x.memory, x.integer)

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

    def key(self, constant: Any, what: str) -> str:
        """Return the key of a constant in the state dict."""
        if not isinstance(constant, Constant):
            raise self.error(f"has {what} that depend on the input (a product of activations)")
        if constant.key is None:
            raise self.error(
                f"has {what} that are not in the state dict; make them a parameter, or a buffer with register_buffer()"
            )
        return constant.key

    def number(self, value: Any, what: str) -> float:
        """Return an argument that must be one number."""
        if isinstance(value, Constant) and value.number is not None:
            return value.number
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"has {what} that is not one number")
        return float(value)


Operator = Callable[..., Any]
"""Takes the context of a call and the arguments of PyTorch's function; returns a tensor, or several."""

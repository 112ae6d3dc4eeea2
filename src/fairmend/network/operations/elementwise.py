"""An elementwise function as a step of a network: its name, its parameters, and the mathematics of `functions`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.network.functions import FUNCTIONS, Function, find_function
from fairmend.network.operations.base import Numbers, Operation, require_sources

if TYPE_CHECKING:
    from torch import Tensor

    from fairmend.network.description import Description

ACTIVATIONS = tuple(FUNCTIONS)
_MOST_SHOWN = 8  # of the parameters


@dataclass(frozen=True)
class Activation(Operation):
    """An elementwise function; `slope` is the factor of leaky ReLU on negative values.

    `parameters` are those of the other functions, in the order of `Function.PARAMETERS`: ``clip`` has its two ends,
    and ``prelu`` the slope of each unit.
    """

    name: str
    slope: float = 0.0
    parameters: tuple[float, ...] = ()
    linear = False
    in_place = True

    def __post_init__(self) -> None:
        """Refuse names and numbers for which no bound is implemented."""
        if self.name not in FUNCTIONS:
            raise FairmendError(f"unknown activation {self.name!r}; supported: {', '.join(ACTIVATIONS)}")
        if self.name != "leaky_relu" and self.slope != 0.0:
            raise FairmendError(f"{self.name} takes no slope (got {self.slope}); only leaky_relu does")
        object.__setattr__(self, "parameters", tuple(map(float, self.parameters)))
        names = find_function(self.name).PARAMETERS
        if self.name != "prelu" and len(self.parameters) != len(names):
            wanted = f"the parameters {', '.join(names)}" if names else "no parameters"
            raise FairmendError(f"{self.name} takes {wanted} (got {', '.join(map(str, self.parameters)) or 'none'})")
        _ = self.function

    @cached_property
    def function(self) -> Function:
        """What it computes, and all that bounds need to know about it."""
        numbers = (self.slope,) if self.name == "leaky_relu" else self.parameters
        return find_function(self.name)(*numbers)

    def __str__(self) -> str:
        """Return the form that `parse_activation` reads: relu, leaky_relu(0.01), clip(0, 6)."""
        numbers = (self.slope,) if self.name == "leaky_relu" else self.parameters
        shown = [f"{number:g}" for number in numbers[:_MOST_SHOWN]]
        if len(numbers) > _MOST_SHOWN:
            shown[-1] = f"… {len(numbers)} in all"
        return f"{self.name}({', '.join(shown)})" if numbers else self.name

    @property
    def piecewise_linear(self) -> bool:
        """Whether the function is made of lines."""
        return self.function.piecewise_linear

    @property
    def increasing(self) -> bool:
        """Whether the function never falls."""
        return self.function.increasing

    @property
    def kind(self) -> str:
        return self.name

    @property
    def title(self) -> str:
        return str(self)

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 1, 1)
        if self.name == "prelu" and len(self.parameters) != widths[0]:
            raise FairmendError(f"has {len(self.parameters)} slopes, but the layer before it gives {widths[0]} values")
        return widths[0]

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        """Compute the function of each number; ``out`` may be the array of the source."""
        if values[0] is not out:
            out[...] = values[0]
        self.apply(out)

    def astype(self, dtype: npt.DTypeLike) -> Activation:
        """Return the function with its numbers rounded to another dtype; infinite ones become its largest number."""
        largest = float(np.finfo(dtype).max)
        numbers = np.clip([self.slope, *self.parameters], -largest, largest).astype(dtype)
        slope, *parameters = numbers.astype(float).tolist()
        return Activation(self.name, slope, tuple(parameters))

    def apply(self, values: FloatArray) -> None:
        """Replace `values`, of any shape, by their activation, in place."""
        self.function.apply(values)

    def torch(self, values: Sequence[Tensor]) -> Tensor:
        return self.function.torch(values[0])

    def interval(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        return self.function.torch_image(lower[0], upper[0])

    def gradients(self, gradient: Floats, values: Sequence[Floats], result: Floats) -> Sequence[Floats]:
        return [gradient * self.function.derivative(values[0], result)]

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return reached[0]

    def follow(self, columns: Sequence[Ints], width: int) -> Ints:
        return columns[0]

    @property
    def entry(self) -> dict[str, Any]:
        """Its name, and the numbers that it has."""
        entry: dict[str, Any] = {"kind": "function", "name": self.name}
        entry |= {"slope": self.slope} if self.slope else {}
        return entry | ({"parameters": list(self.parameters)} if self.parameters else {})

    def describe(self, into: Description, name: str, sources: Sequence[int]) -> int:
        """Add the function; the identity is no step. A PReLU with a name has its slopes in a tensor."""
        if self.name == "identity":
            return sources[0]
        if self.name == "prelu" and name and into.stored:
            slopes = into.keep(f"{name}.weight", np.array(self.parameters, into.dtype))
            return into.add("function", sources, name=self.name, parameters=slopes)
        return into.add(sources=sources, **self.entry)


def parse_activation(activation: str | Activation) -> Activation:
    """Return 'relu', 'leaky_relu' (with PyTorch's slope), 'leaky_relu(0.2)' or 'clip(0, 6)' as an Activation."""
    if isinstance(activation, Activation):
        return activation
    name, numbers = _split(activation)
    if name == "leaky_relu":
        if len(numbers) != 1:
            raise FairmendError(f"{activation!r} must have one number in its brackets; write leaky_relu(0.01)")
        return Activation(name, numbers[0])
    return Activation(name, parameters=numbers)


def _split(text: str) -> tuple[str, tuple[float, ...]]:
    """Return the name, and the numbers in the brackets after it."""
    match = re.fullmatch(r"(\w+)\(([^()]*)\)", text)
    if match is None:
        return text, find_function(text).DEFAULTS if text in FUNCTIONS else ()
    try:
        return match[1], tuple(float(number) for number in match[2].split(","))
    except ValueError as error:
        raise FairmendError(f"{text!r} has no number in its brackets; write leaky_relu(0.01) or clip(0, 6)") from error

"""A layer of a Keras model at one place: what it reads, its arrays, and steps on rows that have axes.

A value is a row of numbers in the order of its axes: (5,), or (tokens, width). What only moves them is a choice of
columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network.formats.axes import ROWS, Axes, contraction
from fairmend.network.formats.build import GraphBuilder, Value, scaling, unsupported
from fairmend.network.formats.keras.config import Layer
from fairmend.network.operations.ties import Tie

Weights = Sequence[npt.NDArray[Any]]
Ints = npt.NDArray[np.int64]
_MOST_PARTS = 2**13  # that a mean adds up


@dataclass(frozen=True)
class Tensor:
    """A value with the shape of one row: (5,), or (2, 3) after a look-up of two columns.

    `raw` says that it has columns of the input, unchanged; `whole` that they are declared as whole numbers.
    """

    value: Value
    shape: tuple[int, ...]
    raw: bool = False
    whole: bool = False


@dataclass(frozen=True)
class LayerCall:
    """A layer at one place of a model: what it reads and its arrays. `name` is its path in nested models.

    `uses` counts the layers that have been added by the names of their weights, and `options` are those that the layer
    is called with.
    """

    layer: Layer
    name: str
    inputs: tuple[Tensor, ...]
    weights: Weights
    builder: GraphBuilder
    keras: int | None
    uses: dict[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether the layer is used at several places, which share its weights."""
        return self.layer.uses > 1

    @property
    def where(self) -> str:
        """The layer, for errors."""
        return replace(self.layer, name=self.name).where

    def get(self, key: str, default: Any = None) -> Any:
        """Return an option of the layer."""
        return self.layer.get(key, default)

    def refuse(self, why: str) -> FairmendError:
        """Return the error for what is not supported."""
        return unsupported(self.builder.source, self.where, why)

    def damaged(self, why: str) -> FairmendError:
        """Return the error for a layer that no Keras writes."""
        return FairmendError(f"{self.builder.source}: {self.where} {why}")

    def one(self) -> Tensor:
        """Return the one tensor that the layer reads."""
        if len(self.inputs) != 1:
            raise self.refuse(f"reads the outputs of {len(self.inputs)} layers instead of one")
        return self.inputs[0]

    def several(self) -> tuple[Tensor, ...]:
        """Return two or more tensors of numbers."""
        if len(self.inputs) < 2:
            raise self.refuse("reads the output of one layer instead of several")
        return tuple(self.numbers(tensor) for tensor in self.inputs)

    def numbers(self, tensor: Tensor) -> Tensor:
        """Return the tensor; refuse whole numbers, which only a look-up may read."""
        if tensor.whole:
            raise self.refuse("reads an input of whole numbers, which only Embedding may read: declare it as float32")
        return tensor

    def row(self) -> Value:
        """Return the one value that the layer reads, a row of numbers."""
        tensor = self.numbers(self.one())
        if math.prod(tensor.shape[:-1]) != 1 or not tensor.shape:
            raise self.refuse(f"reads rows of shape {tensor.shape}; put a Flatten layer before it")
        return tensor.value

    def with_value(self, value: Value) -> Tensor:
        """Return a result with the axes of what the layer reads."""
        return Tensor(value, (*self.one().shape[:-1], value.width))

    def number(self, key: str, default: float) -> float:
        """Return an option that is a number."""
        given = self.get(key, default)
        if isinstance(given, dict):  # NumPy's numbers in Keras 2: {"type": "ndarray", "value": 0.3}
            given = given.get("value")
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise self.refuse(f"has {key}={str(given)[:80]}, which is not a number")
        return float(given)

    def arrays(self, count: int) -> Weights:
        """Return the arrays of the layer."""
        if len(self.weights) != count:
            raise self.damaged(f"has {len(self.weights)} arrays instead of {count}; save the model again")
        return self.weights

    def affine(
        self,
        tensor: Tensor,
        weight: npt.NDArray[Any],
        bias: npt.NDArray[Any] | None,
        name: str,
        bound: int = 1,
        out: Sequence[int] = (),
    ) -> Tensor:
        """Add an affine layer over the last `bound` axes, with weight (out, in), that gives the axes `out` instead."""
        outputs, inputs = weight.shape
        free = len(tensor.shape) - bound
        if free < 0 or math.prod(tensor.shape[free:]) != inputs:
            raise self.damaged(f"takes {inputs} values, but the layer before it gives rows of shape {tensor.shape}")
        shape, tokens = (*tensor.shape[:free], *(out or (outputs,))), math.prod(tensor.shape[:free])
        if tokens == 1 and not self.shared:
            return Tensor(self.builder.linear(tensor.value, self.where, weight, bias, name), shape)
        try:
            tie = Tie(outputs, inputs, tokens=tokens, key=name if self.shared else "")
        except FairmendError as error:
            raise self.refuse(str(error)) from error
        self.uses[name] = self.uses.get(name, 0) + 1
        own = name if self.uses[name] == 1 else f"{name} ({self.uses[name]})"
        return Tensor(self.builder.tied(tensor.value, self.where, tie, weight[None], bias, own), shape)

    def scaled(self, tensor: Tensor, gain: npt.ArrayLike, shift: npt.ArrayLike = 0.0) -> Tensor:
        """Add gain · x + shift."""
        return replace(tensor, value=self.builder.norm(tensor.value, scaling(self.where, gain, shift)), raw=False)

    def moved(self, tensor: Tensor, move: Callable[[Ints], Ints]) -> Tensor:
        """Choose and move numbers: `move` does it to an array of the numbers of the columns."""
        numbers = move(np.arange(tensor.value.width).reshape(tensor.shape))
        if not numbers.size:
            raise self.refuse("chooses no columns")
        return replace(
            tensor,
            value=self.builder.columns(tensor.value, self.where, numbers.reshape(-1).tolist()),
            shape=numbers.shape,
        )

    def stretched(self, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Repeat the numbers along axes of size 1."""
        return self.moved(tensor, lambda numbers: np.broadcast_to(numbers, shape))

    def product(self, first: Tensor, second: Tensor, axes: str) -> Tensor:
        """Add the products of two values, with named axes: "thd,shd->hts" adds up those that are not in the result."""
        named, _, out = axes.partition("->")
        one, other = named.split(",")
        sides: list[Axes] = [
            {"rows": ROWS, **dict(zip(names, tensor.shape, strict=True))}
            for names, tensor in ((one, first), (other, second))
        ]
        how = contraction(sides[0], sides[1], ["rows", *out])
        if how is None:
            raise self.refuse(f"multiplies rows of shapes {first.shape} and {second.shape}, which do not fit")
        a = self.builder.columns(first.value, self.where, how.first)
        b = self.builder.columns(second.value, self.where, how.second)
        made = self.builder.product(a, b, self.where, *how.sizes)
        shape = tuple(size for size in how.dims if isinstance(size, int))
        return Tensor(self.builder.columns(made, self.where, how.result), shape)

    def mean(self, tensor: Tensor, axis: int) -> Tensor:
        """Add the mean over an axis, which stays with size 1."""
        count = tensor.shape[axis]
        if count > _MOST_PARTS:
            raise self.refuse(f"adds up {count:,} numbers; at most {_MOST_PARTS:,} are read")
        parts = [
            self.moved(tensor, lambda numbers, k=k: numbers.take([k], axis))  # type: ignore[misc]
            for k in range(count)
        ]
        if count == 1:
            return replace(parts[0], raw=False)
        total = self.builder.add(self.where, [part.value for part in parts])
        return self.scaled(Tensor(total, parts[0].shape), 1 / count)

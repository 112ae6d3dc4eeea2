"""A layer of a Keras model at one place: what it reads, its arrays, and the operators on tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network.formats import tensors
from fairmend.network.formats.axes import ROWS, Dims, shown
from fairmend.network.formats.build import GraphBuilder, Value
from fairmend.network.formats.keras.config import Layer
from fairmend.network.operations.ties import Tie

Weights = Sequence[npt.NDArray[Any]]


@dataclass(eq=False)
class Tensor(tensors.Tensor):
    """Numbers of each row; `raw` says that they are columns of the input, unchanged."""

    raw: bool = False

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of one row: (5,), or (2, 3) after a look-up of two columns."""
        return tuple(size for size in self.dims[1:] if isinstance(size, int))


@dataclass(eq=False)
class LayerCall(tensors.Place[Tensor]):
    """A layer at one place of a model: what it reads and its arrays. `name` is its path in nested models.

    `uses` counts the layers that have been added by the names of their weights, and `options` are those that the layer
    is called with.
    """

    layer: Layer
    name: str
    inputs: tuple[Tensor, ...]
    weights: Weights
    steps: GraphBuilder
    keras: int | None
    uses: dict[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    where: str = field(init=False)

    def __post_init__(self) -> None:
        """Name the layer in messages."""
        self.where = replace(self.layer, name=self.name).where

    @property
    def shared(self) -> bool:
        """Whether the layer is used at several places, which share its weights."""
        return self.layer.uses > 1

    def get(self, key: str, default: Any = None) -> Any:
        """Return an option of the layer."""
        return self.layer.get(key, default)

    def damaged(self, why: str) -> FairmendError:
        """Return the error for a layer that no Keras writes."""
        return FairmendError(f"{self.steps.source}: {self.where} {why}")

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

    def numbers(self, x: Tensor) -> Tensor:
        """Return the tensor; refuse whole numbers, which only a look-up may read."""
        if x.whole:
            raise self.refuse("reads an input of whole numbers, which only Embedding may read: declare it as float32")
        return super().numbers(x)

    def row(self) -> Value:
        """Return the one value that the layer reads, a row of numbers."""
        tensor = self.numbers(self.one())
        if len(tensor.dims) < 2 or math.prod(tensor.row[:-1]) != 1:
            raise self.refuse(f"reads rows of shape {shown(tensor.row)}; put a Flatten layer before it")
        return tensor.value

    def made(self, value: Value, dims: Dims, *of: Tensor) -> Tensor:
        """Return a new value as a tensor."""
        return Tensor((value,), dims)

    def with_value(self, value: Value) -> Tensor:
        """Return a result with the axes of what the layer reads."""
        return self.made(value, (*self.one().dims[:-1], value.width))

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
        row = tensor.row
        free = len(row) - bound
        if free < 0 or math.prod(row[free:]) != inputs:
            raise self.damaged(f"takes {inputs} values, but the layer before it gives rows of shape {shown(row)}")
        dims, tokens = (ROWS, *row[:free], *(out or (outputs,))), math.prod(row[:free])
        if tokens == 1 and not self.shared:
            return self.made(self.steps.linear(tensor.value, self.where, weight, bias, name), dims)
        try:
            tie = Tie(outputs, inputs, tokens=tokens, key=name if self.shared else "")
        except FairmendError as error:
            raise self.refuse(str(error)) from error
        self.uses[name] = self.uses.get(name, 0) + 1
        own = name if self.uses[name] == 1 else f"{name}:{self.uses[name]}"
        return self.made(self.steps.tied(tensor.value, self.where, tie, weight[None], bias, own), dims)

    def named_product(self, first: Tensor, second: Tensor, axes: str) -> Tensor:
        """Add the products of two values, with named axes: "thd,shd->hts" adds up those that are not in the result."""
        named, _, out = axes.partition("->")
        one, other = (["rows", *part] for part in named.split(","))
        return self.contract(first, one, second, other, ["rows", *out], stretch=False)

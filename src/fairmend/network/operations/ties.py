"""Affine layers whose matrix repeats the numbers stored for it: over tokens, in blocks, or with other layers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Ints
from fairmend.base.errors import FairmendError

MOST_NUMBERS = 2**24  # of a matrix that is written out


@dataclass(frozen=True)
class Tie:
    """How the matrix of an affine layer comes from the numbers that are stored for it.

    The layer reads columns (blocks, tokens, inputs) and gives (blocks, tokens, outputs). Each block has its own matrix
    (outputs, inputs), which is the same for all its tokens; between blocks and between tokens the weights are 0, and
    stay 0. So a linear layer over tokens has one block. A bias is stored once for each block, or with `own_bias` for
    each number that the layer gives. `weighted` is False where no weights are stored: the layer gives its bias alone,
    as a class token is given. Layers with the same `key` share all their numbers. A `fixed` layer stores nothing and
    gives what it reads: it takes the place of a head where the output is not an affine layer (`identity`).
    """

    outputs: int
    inputs: int
    blocks: int = 1
    tokens: int = 1
    own_bias: bool = False
    weighted: bool = True
    key: str = ""
    fixed: bool = False

    @staticmethod
    def identity(width: int) -> Tie:
        """Return how a layer gives so many numbers as they are, and always will."""
        return Tie(1, 1, tokens=width, weighted=False, fixed=True)

    def __post_init__(self) -> None:
        """Refuse a matrix that is too large."""
        numbers = self.rows * self.blocks * self.tokens * self.inputs
        if numbers > MOST_NUMBERS:
            raise FairmendError(
                f"has weights ({self.outputs}, {self.inputs}) for {self.blocks * self.tokens} groups of columns, which "
                f"is a matrix of {numbers:,} numbers; fairmend writes out at most {MOST_NUMBERS:,}"
            )

    @property
    def rows(self) -> int:
        """How many numbers the layer gives."""
        return self.blocks * self.tokens * self.outputs

    @property
    def shared(self) -> bool:
        """Whether one stored number has several places: a change of one place alone cannot be stored."""
        return self.tokens > 1 or bool(self.key)

    def can_cut(self, cut: Bools) -> bool:
        """Return whether the weights that read some columns (in,) can become 0 by themselves: those of all tokens."""
        columns = cut.reshape(self.blocks, self.tokens, self.inputs)
        return not self.key and bool((columns == columns[:, :1]).all())

    @cached_property
    def weight_places(self) -> Ints:
        """Which stored number is at each place of the matrix (out, in); -1 where it is always 0."""
        if self.fixed:
            return -1 - np.eye(self.rows, dtype=np.int64)
        blocks, tokens, out, width = self.blocks, self.tokens, self.outputs, self.inputs
        places = np.full((blocks, tokens, out, blocks, tokens, width), -1)
        if self.weighted:
            numbers = np.arange(blocks * out * width).reshape(blocks, out, width)
            for block in range(blocks):
                for token in range(tokens):
                    places[block, token, :, block, token] = numbers[block]
        return places.reshape(self.rows, -1)

    @cached_property
    def bias_places(self) -> Ints:
        """Which stored number is at each place of the bias (out,)."""
        if self.own_bias:
            return np.arange(self.rows)
        numbers = np.arange(self.blocks * self.outputs).reshape(self.blocks, 1, self.outputs)
        return np.broadcast_to(numbers, (self.blocks, self.tokens, self.outputs)).reshape(-1)

    @staticmethod
    def spread(stored: FloatArray, places: Ints) -> FloatArray:
        """Return stored numbers at their places."""
        return np.append(stored, np.array([1, 0], stored.dtype))[places]

    @staticmethod
    def gather(array: FloatArray, places: Ints) -> FloatArray:
        """Return the stored numbers that come closest to an array: the mean of what is at their places."""
        flat, places = array.reshape(-1), places.reshape(-1)
        flat, places = flat[places >= 0], places[places >= 0]
        if not len(places):
            return flat
        counts = np.bincount(places)
        first = np.empty(len(counts), flat.dtype)
        first[places[::-1]] = flat[::-1]
        rest = np.bincount(places, flat.astype(np.float64) - first[places].astype(np.float64))
        return (first + rest / counts).astype(flat.dtype)  # of equal numbers, that number to the bit

    def matrix(self, stored: FloatArray) -> FloatArray:
        """Return the matrix (out, in) of the stored weights (blocks, outputs, inputs)."""
        return self.spread(stored.reshape(-1), self.weight_places)

    def stored_weight(self, weight: FloatArray) -> FloatArray:
        """Return the stored weights (blocks, outputs, inputs) that come closest to a matrix; empty: none are."""
        stored = self.gather(weight, self.weight_places)
        return stored.reshape(self.blocks, self.outputs, self.inputs) if self.weighted else stored

    def stored_bias(self, bias: FloatArray) -> FloatArray:
        """Return the stored biases that come closest to those of the matrix."""
        return self.gather(bias, self.bias_places)

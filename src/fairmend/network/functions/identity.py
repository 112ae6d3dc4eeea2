"""The identity, between two affine layers in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairmend.base.arrays import FloatArray
from fairmend.network.functions.base import Lines
from fairmend.network.functions.kinked import Kinked

if TYPE_CHECKING:
    from torch import Tensor


class Identity(Kinked):
    """The function z."""

    negative = 1.0

    def apply(self, values: FloatArray) -> None:
        """Leave the values as they are."""

    def torch(self, z: Tensor) -> Tensor:
        """Return z."""
        return z

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the function itself, twice."""
        import torch

        one, zero = torch.ones_like(lower), torch.zeros_like(lower)
        return Lines(one, zero, one, zero)

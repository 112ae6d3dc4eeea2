"""CELU: z on positive numbers, alpha·(exp(z/alpha) - 1) on negative ones."""

from __future__ import annotations

from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import MOST
from fairmend.network.functions.elu import Elu


class Celu(Elu):
    """ELU with the slope 1 on both sides of 0, whatever alpha is. Its rate, 1 / alpha, is rounded."""

    def __init__(self, alpha: float) -> None:
        if not 1 / MOST <= alpha <= MOST:
            raise FairmendError(f"celu({alpha:g}): alpha must lie between {1 / MOST:.0e} and {MOST:.0e}")
        self.depth, self.rate = alpha, 1 / alpha
        self.convex = True

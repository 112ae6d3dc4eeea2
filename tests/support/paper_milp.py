"""Eq. (milp) of the paper, verbatim: every region's LP dual with its own lambda and eta, and one big constant M.

Tests and benchmarks compare with it. `repair_head` on `Linear` has the same optimum.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.milp import Milp, MilpBuilder, Solution, get_solver
from fairmend.network import Network
from fairmend.repairing.head.features import symbolic_bounds
from fairmend.spec.neighbourhoods import Regions


@dataclass(frozen=True)
class Dual:
    """Symbolic bounds in the paper's own coordinates, one piece for each region.

    ``lower_slope @ x + lower_offset <= h <= upper_slope @ x + upper_offset`` for ``low <= x <= high``; slopes
    ``(regions, dimension, inputs)``, offsets ``(regions, dimension)``, low and high ``(regions, inputs)``.
    """

    lower_slope: Floats
    lower_offset: Floats
    upper_slope: Floats
    upper_offset: Floats
    low: Floats
    high: Floats

    @staticmethod
    def from_network(network: Network, regions: Regions) -> Dual:
        """Return the same linear bounds as `Linear`, unscaled; columns that do not vary have slope 0."""
        if not regions.single:
            raise FairmendError("Eq. (milp) covers one box for each input; a one-hot protected feature needs several")
        forms = symbolic_bounds(network, regions)
        low, high = regions.lower.astype(np.float64), regions.upper.astype(np.float64)
        centre, radius = (low + high) / 2, (high - low) / 2
        slopes, offsets = [], []
        for form in forms:
            slope = np.zeros((form.shape[1], form.shape[2], low.shape[1]))
            for position, column in enumerate(np.flatnonzero(regions.varying).tolist()):
                width = radius[:, column, None]
                slope[:, :, column] = form[1 + position] / np.where(width > 0, width, 1.0)
            slopes.append(slope)
            offsets.append(form[0] - np.einsum("rdi,ri->rd", slope, centre))
        return Dual(slopes[0], offsets[0], slopes[1], offsets[1], low, high)

    def milp(self, weight: Floats, bias: float, *, margin: float, delta_limit: float, big: float) -> Milp:
        """Return the paper's MILP for a head with one output: ``weight (dimension,)`` and its bias."""
        model = MilpBuilder()
        regions, dimension, inputs = self.lower_slope.shape
        increase = model.add_variables(dimension + 1, 0, delta_limit, cost=1)
        decrease = model.add_variables(dimension + 1, 0, delta_limit, cost=1)
        for region in range(regions):
            choice = model.add_variables(1, 0, 1, integer=True)
            for upwards in (False, True):
                # A' lambda = -C for the minimum, A' eta = C for the maximum, with A and D as in the paper.
                multipliers = model.add_variables(2 * dimension + 2 * inputs)
                A, D = self._polytope(region)
                sign = 1.0 if upwards else -1.0
                for row in range(dimension + inputs):
                    used = np.flatnonzero(A[:, row])
                    if row < dimension:
                        columns = np.concatenate([multipliers[used], [increase[row], decrease[row]]])
                        values = np.concatenate([A[used, row], [-sign, sign]])
                        right = sign * weight[row]
                    else:
                        columns, values, right = multipliers[used], A[used, row], 0.0
                    model.add_row(columns, values, right, right)
                used = np.flatnonzero(D)
                columns = np.concatenate([multipliers[used], [increase[-1], decrease[-1]], choice])
                if upwards:  # UB = b + db + eta'D <= -margin + M Z
                    values = np.concatenate([D[used], [1.0, -1.0], [-big]])
                    model.add_row(columns, values, upper=-margin - bias)
                else:  # LB = b + db - lambda'D >= margin - M (1 - Z)
                    values = np.concatenate([-D[used], [1.0, -1.0], [-big]])
                    model.add_row(columns, values, lower=margin - big - bias)
        return model.build()

    def solve(
        self,
        weight: np.ndarray,
        bias: np.ndarray,
        *,
        margin: float = 1e-6,
        delta_limit: float = 3.0,
        solver: str = "highs",
        time_limit: float | None = None,
    ) -> tuple[Solution, int, float]:
        """Return the solution, the number of variables, and the seconds to build and solve the model."""
        started = time.perf_counter()
        w, b = weight.astype(np.float64).reshape(-1), float(bias[0])
        milp = self.milp(w, b, margin=margin, delta_limit=delta_limit, big=self._big(w, b, delta_limit))
        solution = get_solver(solver).solve(milp, time_limit=time_limit)
        return solution, milp.variables, time.perf_counter() - started

    def _big(self, weight: Floats, bias: float, delta_limit: float) -> float:
        """Return a constant M that no allowed change exceeds: the largest |score| of any region."""
        size = np.zeros_like(self.lower_offset)
        for slope, offset in ((self.lower_slope, self.lower_offset), (self.upper_slope, self.upper_offset)):
            centre, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
            middle = np.einsum("rdi,ri->rd", slope, centre) + offset
            size = np.maximum(size, np.abs(middle) + np.einsum("rdi,ri->rd", np.abs(slope), radius))
        return float((size @ (np.abs(weight) + delta_limit)).max() + abs(bias) + delta_limit + 1)

    def _polytope(self, region: int) -> tuple[Floats, Floats]:
        """Return A and D of ``A p <= D`` with p = (h, x): A ``(2 dimension + 2 inputs, dimension + inputs)``."""
        _, dimension, inputs = self.lower_slope.shape
        h, x = np.eye(dimension), np.eye(inputs)
        none = np.zeros((inputs, dimension))
        A = np.block([[-h, self.lower_slope[region]], [h, -self.upper_slope[region]], [none, -x], [none, x]])
        D = np.concatenate(
            [-self.lower_offset[region], self.upper_offset[region], -self.low[region], self.high[region]]
        )
        return A, D

"""A sparse mixed-integer linear program as data, and the solution that a solver returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.base.errors import FairmendError


@dataclass(frozen=True, repr=False, eq=False)
class Milp:
    """Minimise cost·x subject to row_lower ≤ A x ≤ row_upper, lower ≤ x ≤ upper, x[integer] whole.

    cost, lower, upper    (variables,)
    integer               (variables,) bool
    indptr                (rows + 1,)   A in compressed rows: row i is indptr[i]:indptr[i + 1]
    indices, values       (nonzeros,)   its columns and coefficients; a column occurs once in a row
    row_lower, row_upper  (rows,)
    """

    cost: Floats
    lower: Floats
    upper: Floats
    integer: Bools
    indptr: Ints
    indices: Ints
    values: Floats
    row_lower: Floats
    row_upper: Floats

    def __post_init__(self) -> None:
        """Raise an error for shapes that disagree, NaN and indices out of range."""
        n, m, nonzeros = len(self.cost), len(self.row_lower), len(self.values)
        shapes = {
            "lower": n,
            "upper": n,
            "integer": n,
            "row_upper": m,
            "indptr": m + 1,
            "indices": nonzeros,
        }
        for name, length in shapes.items():
            if getattr(self, name).shape != (length,):
                raise FairmendError(f"MILP: {name} has shape {getattr(self, name).shape}, not ({length},)")
        for name in ("cost", "values"):
            if not np.isfinite(getattr(self, name)).all():
                raise FairmendError(f"MILP: {name} holds NaN or an infinity; every coefficient must be finite")
        for name in ("lower", "upper", "row_lower", "row_upper"):
            if np.isnan(getattr(self, name)).any():
                raise FairmendError(f"MILP: {name} holds NaN; use ±inf for a missing bound")
        if self.indptr[0] != 0 or self.indptr[-1] != nonzeros or (np.diff(self.indptr) < 0).any():
            raise FairmendError(f"MILP: indptr does not rise from 0 to the {nonzeros} nonzeros")
        if nonzeros and not 0 <= self.indices.min() <= self.indices.max() < n:
            raise FairmendError(f"MILP: a row names a variable outside 0 to {n - 1}")

    def __repr__(self) -> str:
        """Return the sizes, not the arrays."""
        return (
            f"Milp({self.variables} variables, {int(self.integer.sum())} of them integer, "
            f"{self.rows} rows, {len(self.values)} nonzeros)"
        )

    @property
    def variables(self) -> int:
        """The number of variables."""
        return len(self.cost)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.row_lower)

    def activity(self, x: Floats) -> Floats:
        """Return A x, (rows,), for x (variables,)."""
        row = np.repeat(np.arange(self.rows), np.diff(self.indptr))
        # bincount returns integers if there are no rows.
        return np.bincount(row, self.values * x[self.indices], self.rows).astype(np.float64)


class MilpBuilder:
    """Collect variables and rows block by block; `build` joins the blocks once.

    Blocks are arrays, so adding a block costs the same however many nonzeros it has.
    """

    def __init__(self) -> None:
        """Start without variables and rows."""
        self._variables = 0
        self._rows = 0
        self._columns: list[tuple[Floats, Floats, Floats, Bools]] = []  # lower, upper, cost, integer
        self._bounds: list[tuple[Floats, Floats]] = []  # row_lower, row_upper
        self._entries: list[tuple[Ints, Ints, Floats]] = []  # nonzeros in each row, indices, values

    def add_variables(
        self,
        count: int,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        cost: ArrayLike = 0.0,
        integer: ArrayLike = False,
    ) -> Ints:
        """Add `count` variables and return their indices, (count,); each argument is one value or (count,)."""
        lower, upper, cost = (_vector(value, count) for value in (lower, upper, cost))
        flags = np.broadcast_to(np.asarray(integer, dtype=bool), (count,))
        self._columns.append((lower, upper, cost, flags))
        self._variables += count
        return np.arange(self._variables - count, self._variables, dtype=np.int64)

    def add_row(self, indices: ArrayLike, values: ArrayLike, lower: float = -np.inf, upper: float = np.inf) -> int:
        """Add lower ≤ values·x[indices] ≤ upper, with indices and values (k,), and return the row's number."""
        return int(self.add_rows(indices, np.atleast_2d(np.asarray(values, np.float64)), lower, upper)[0])

    def add_rows(
        self, indices: ArrayLike, values: ArrayLike, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf
    ) -> Ints:
        """Add a block of rows without its zeros, and return the rows' numbers, (r,).

        indices       (k,) shared by all rows, or (r, k)
        values        (r, k)
        lower, upper  one value for all or (r,)
        """
        block = np.asarray(values, dtype=np.float64)
        columns = np.asarray(indices, dtype=np.int64)
        if block.ndim != 2 or columns.shape not in (block.shape, block.shape[1:]):
            raise FairmendError(
                f"MILP rows: values have shape {block.shape} and indices {columns.shape}; "
                "expected (rows, k) beside (k,) or (rows, k)"
            )
        ordered = np.sort(columns, axis=-1)
        if (ordered[..., 1:] == ordered[..., :-1]).any():
            raise FairmendError("MILP rows: a variable occurs twice in one row; add its coefficients up first")
        if columns.size and not (ordered[..., 0].min() >= 0 and ordered[..., -1].max() < self._variables):
            raise FairmendError(f"MILP rows: a variable is outside 0 to {self._variables - 1}, those added so far")
        count = len(block)
        kept = block != 0
        self._entries.append(
            (kept.sum(axis=1, dtype=np.int64), np.broadcast_to(columns, block.shape)[kept], block[kept])
        )
        self._bounds.append((_vector(lower, count), _vector(upper, count)))
        self._rows += count
        return np.arange(self._rows - count, self._rows, dtype=np.int64)

    def build(self) -> Milp:
        """Join all blocks. You can add more afterwards and build again."""
        counts = np.concatenate([np.zeros(1, np.int64), *(entry[0] for entry in self._entries)])
        return Milp(
            cost=_join([block[2] for block in self._columns]),
            lower=_join([block[0] for block in self._columns]),
            upper=_join([block[1] for block in self._columns]),
            integer=np.concatenate([np.zeros(0, bool), *(block[3] for block in self._columns)]),
            indptr=np.cumsum(counts),
            indices=np.concatenate([np.zeros(0, np.int64), *(entry[1] for entry in self._entries)]),
            values=_join([entry[2] for entry in self._entries]),
            row_lower=_join([bounds[0] for bounds in self._bounds]),
            row_upper=_join([bounds[1] for bounds in self._bounds]),
        )


class Status(Enum):
    """How a solve ended, independent of the solver."""

    OPTIMAL = "optimal"  # within the requested relative gap
    FEASIBLE = "feasible"  # a limit was reached, with a solution
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    LIMIT = "limit"  # a limit was reached, without a solution
    ERROR = "error"  # the solver gave up, mostly for numerical reasons


@dataclass(frozen=True, repr=False, eq=False)
class Solution:
    """A solver's answer. Do not rely on it without checking its `violation`.

    x          (variables,), or None without a solution
    objective  cost·x, or None without a solution
    bound      the best lower bound that the solver proved; −inf if none
    gap        |objective − bound| / max(1e-10, |objective|); inf without a solution
    """

    status: Status
    x: Floats | None
    objective: float | None
    bound: float
    gap: float
    seconds: float

    def __repr__(self) -> str:
        """Return the figures, not x."""
        objective = "none" if self.objective is None else f"{self.objective:.6g}"
        return (
            f"Solution({self.status.value}, objective {objective}, bound {self.bound:.6g}, "
            f"gap {self.gap:.3g}, {self.seconds:.2f} s)"
        )


def violation(milp: Milp, x: ArrayLike) -> float:
    """Return the largest amount by which x (variables,) violates a row, a bound or integrality; 0 if none."""
    point = np.asarray(x, dtype=np.float64)
    if point.shape != (milp.variables,):
        raise FairmendError(f"MILP: x has shape {point.shape}, not ({milp.variables},)")
    if not np.isfinite(point).all():
        return float("inf")
    activity = milp.activity(point)
    whole = point[milp.integer]
    misses = (
        milp.row_lower - activity,
        activity - milp.row_upper,
        milp.lower - point,
        point - milp.upper,
        np.abs(whole - np.round(whole)),
    )
    return max(0.0, *(float(miss.max(initial=0.0)) for miss in misses))


def _vector(value: ArrayLike, length: int) -> Floats:
    """Return one value or (length,) as (length,)."""
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (length,))


def _join(parts: list[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *parts])

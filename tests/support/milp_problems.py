"""Problems that the tests of the solvers share."""

import itertools

import numpy as np

from fairmend.milp import Milp, MilpBuilder, violation


def random_milp(seed: int, *, integers: bool, bounded: bool = True) -> Milp:
    """A feasible problem around a known point: equalities, ranges, one-sided rows, bounds of either sign."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 12)), int(rng.integers(1, 10))
    whole = rng.random(n) < 0.6 if integers else np.zeros(n, bool)
    point = np.where(whole, rng.integers(-3, 4, n), rng.normal(size=n))
    values = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.7)
    activity = values @ point
    kind = rng.integers(0, 4, m)
    lower = np.where(kind == 0, -np.inf, np.where(kind == 3, activity, activity - rng.random(m)))
    upper = np.where(kind == 1, np.inf, np.where(kind == 3, activity, activity + rng.random(m)))
    builder = MilpBuilder()
    wide = 5.0 if bounded else np.inf
    x = builder.add_variables(n, -wide, wide, rng.normal(size=n), whole)
    builder.add_rows(x, values, lower, upper)
    milp = builder.build()
    assert violation(milp, point) < 1e-12
    return milp


def infeasible(*, integers: bool) -> Milp:
    """x + y at least 3 where each is at most 1; or, with integers, 2x − 2y = 1."""
    builder = MilpBuilder()
    x = builder.add_variables(2, 0, 10 if integers else 1, 1.0, integers)
    if integers:
        builder.add_row(x, [2, -2], 1, 1)
    else:
        builder.add_row(x, [1, 1], 3)
    return builder.build()


def unbounded(*, integers: bool) -> Milp:
    """Minimise −x − y with x − y between −1 and 1."""
    builder = MilpBuilder()
    x = builder.add_variables(2, 0, np.inf, -1.0, integers)
    builder.add_row(x, [1, -1], -1, 1)
    return builder.build()


def ray_without_a_point() -> Milp:
    """The relaxation is unbounded in z, yet no whole x and y satisfy the row: infeasible, not unbounded."""
    builder = MilpBuilder()
    x = builder.add_variables(2, 0, 5, 0.0, True)
    builder.add_variables(1, 0, np.inf, -1.0)
    builder.add_row(x, [2, -2], 1, 1)
    return builder.build()


def binary_milp(seed: int) -> Milp:
    """Eight 0/1 variables and four rows; feasible or not, as chance has it."""
    rng = np.random.default_rng(seed)
    builder = MilpBuilder()
    x = builder.add_variables(8, 0, 1, rng.integers(-9, 10, 8), True)
    values = rng.integers(-9, 10, (4, 8))
    builder.add_rows(x, values, upper=rng.integers(-16, 6, 4))
    return builder.build()


def brute_force(milp: Milp) -> float:
    """The optimum of a 0/1 problem by trying every point; inf if there is none."""
    points = np.array(list(itertools.product((0.0, 1.0), repeat=milp.variables)))
    return min((float(milp.cost @ x) for x in points if violation(milp, x) == 0), default=np.inf)


def market_split(rows: int = 4, columns: int = 40, seed: int = 0) -> Milp:
    """Split each row's weights into equal halves, missing by the least: tiny, and hopeless to prove."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 100, (rows, columns))
    builder = MilpBuilder()
    x = builder.add_variables(columns, 0, 1, 0.0, True)
    miss = builder.add_variables(2 * rows, cost=1.0)
    values = np.hstack([weights, np.eye(rows), -np.eye(rows)])
    half = np.floor(weights.sum(axis=1) / 2)
    builder.add_rows(np.concatenate([x, miss]), values, half, half)
    return builder.build()


def market_split_start(milp: Milp) -> np.ndarray:
    """The solution that puts nothing in the first half and pays the whole miss."""
    rows = milp.rows
    return np.concatenate([np.zeros(milp.variables - 2 * rows), milp.row_lower, np.zeros(rows)])

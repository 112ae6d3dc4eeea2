"""The base class of the solvers: checks before a solve, Ctrl-C during it, and the reading of the solver's answer."""

from __future__ import annotations

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.milp.model import Milp, Solution, Status

_logger = logging.getLogger(__name__)

_PATIENCE = 5.0  # seconds that a solve has to stop before KeyboardInterrupt is raised regardless


@dataclass(frozen=True)
class Settings:
    """The settings of a solve: seconds, relative MIP gap, a full x to start from, threads and random seed."""

    time_limit: float | None
    gap: float
    start: Floats | None
    threads: int | None
    seed: int


@dataclass(frozen=True)
class Answer:
    """A solver's answer: its own word for the status, the best x or None, and the bound it proved (−inf if none)."""

    word: str
    x: Floats | None
    bound: float


class Solver(ABC):
    """A MILP solver. A subclass is one file, and nothing outside that file knows the solver's vocabulary.

    A status word that maps to LIMIT becomes FEASIBLE if there is a solution. A word may map to UNBOUNDED if it means "a
    ray was found" or "infeasible or unbounded": `solve` decides which it is.
    """

    NAME: ClassVar[str]
    REQUIRED_MODULE: ClassVar[str]
    EXTRA: ClassVar[str | None]  # None: fairmend installs the solver
    STATUS_MAP: ClassVar[Mapping[str, Status]]

    @classmethod
    def available(cls) -> bool:
        """Return whether the solver's module is installed."""
        return find_spec(cls.REQUIRED_MODULE) is not None

    @abstractmethod
    def _run(self, milp: Milp, settings: Settings) -> Answer:
        """Pass the problem to the solver. It has at least one variable, and no contradictory bounds."""

    def solve(
        self,
        milp: Milp,
        *,
        time_limit: float | None = None,
        gap: float = 0.0,
        start: ArrayLike | None = None,
        threads: int | None = None,
        seed: int = 0,
    ) -> Solution:
        """Solve to a relative gap within time_limit seconds; start (variables,) is an optional MIP start."""
        begin = time.perf_counter()
        settings = _settings(milp, time_limit, gap, start, threads, seed)
        if _contradicts_itself(milp):
            return _solution(Status.INFEASIBLE, milp, None, math.inf, gap, begin)
        if not milp.variables:
            return _solution(Status.OPTIMAL, milp, np.zeros(0), 0.0, gap, begin)
        answer = self._run_or_explain(milp, settings)
        status = self._read(answer)
        _logger.debug(
            "%s: %d variables (%d whole), %d rows: %s (%s) in %.3f s",
            self.NAME,
            milp.variables,
            int(milp.integer.sum()),
            milp.rows,
            status.value,
            answer.word,
            time.perf_counter() - begin,
        )
        if status is Status.UNBOUNDED:
            # A ray does not show that there is a feasible point: solve again without a cost.
            left = None if time_limit is None else max(0.0, time_limit - (time.perf_counter() - begin))
            without_cost = replace(milp, cost=np.zeros(milp.variables))
            point = self._run_or_explain(without_cost, replace(settings, time_limit=left, gap=0.0))
            found = self._read(point)
            status = Status.UNBOUNDED if found in (Status.OPTIMAL, Status.FEASIBLE) else found
            return _solution(status, milp, None, -math.inf, gap, begin)
        return _solution(status, milp, answer.x, answer.bound, gap, begin)

    def _run_or_explain(self, milp: Milp, settings: Settings) -> Answer:
        """Run the solver; what it raises on a problem that it cannot handle becomes a FairmendError."""
        try:
            return self._run(milp, settings)
        except (FairmendError, ImportError, MemoryError):
            raise
        except Exception as error:
            raise FairmendError(
                f"{self.NAME} failed on {milp!r}: {error}; scale the inputs of the network, or choose another solver"
            ) from error

    def _read(self, answer: Answer) -> Status:
        if answer.word not in self.STATUS_MAP:
            raise FairmendError(
                f"{self.NAME} ended with status {answer.word!r}, which this version of fairmend does not know; "
                f"install the version of {self.REQUIRED_MODULE} that fairmend requires, or choose another solver"
            )
        status = self.STATUS_MAP[answer.word]
        if answer.x is not None and not np.isfinite(answer.x).all():
            return Status.ERROR
        if answer.x is None:
            return Status.ERROR if status is Status.OPTIMAL else status
        return Status.FEASIBLE if status is Status.LIMIT else status


def _settings(
    milp: Milp, time_limit: float | None, gap: float, start: ArrayLike | None, threads: int | None, seed: int
) -> Settings:
    if time_limit is not None and not time_limit >= 0:
        raise FairmendError(f"time_limit is {time_limit}; give seconds, or None for no limit")
    if not 0 <= gap < math.inf:
        raise FairmendError(f"gap is {gap}; give a relative gap of 0 or more")
    if threads is not None and threads < 1:
        raise FairmendError(f"threads is {threads}; give 1 or more, or None to leave it to the solver")
    point = None if start is None else np.asarray(start, dtype=np.float64)
    if point is not None and (point.shape != (milp.variables,) or not np.isfinite(point).all()):
        raise FairmendError(f"start must be {milp.variables} finite numbers, one for each variable")
    return Settings(None if time_limit == math.inf else time_limit, gap, point, threads, seed)


def _contradicts_itself(milp: Milp) -> bool:
    """Return whether bounds cross or no number meets one, or 0 violates a row without entries.

    Solvers handle these differently.
    """
    empty = np.diff(milp.indptr) == 0
    lower, upper = np.append(milp.lower, milp.row_lower), np.append(milp.upper, milp.row_upper)
    return bool(
        ((lower > upper) | (lower == np.inf) | (upper == -np.inf)).any()
        or (empty & ((milp.row_lower > 0) | (milp.row_upper < 0))).any()
    )


def _solution(status: Status, milp: Milp, x: Floats | None, bound: float, gap: float, begin: float) -> Solution:
    seconds = time.perf_counter() - begin
    if status is Status.INFEASIBLE:
        bound = math.inf
    if x is None or status not in (Status.OPTIMAL, Status.FEASIBLE):
        return Solution(status, None, None, bound, math.inf, seconds)
    objective = float(milp.cost @ x)
    # If the solution is optimal, the two differ only by rounding, and so does a bound above a solution.
    bound = objective if status is Status.OPTIMAL and gap == 0 else min(bound, objective)
    return Solution(status, x, objective, bound, abs(objective - bound) / max(1e-10, abs(objective)), seconds)


def run_interruptibly(solve: Callable[[], object], stop: Callable[[], object]) -> None:
    """Run `solve`, which must release the GIL; on Ctrl-C call `stop`, wait, and raise KeyboardInterrupt.

    The solver runs in a worker thread while the main thread waits for signals: there, Python would handle Ctrl-C only
    after the solve. The handlers of highspy and SCIP do not help: both print, and highspy's also swallows the exception
    and holds one lock for all solves.
    """
    done = threading.Event()
    failure: list[BaseException] = []

    def work() -> None:
        try:
            solve()
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=work, name="milp", daemon=True)
    worker.start()
    try:
        # An event, not join: if Ctrl-C interrupts a join, Python 3.11 considers the thread ended.
        # In steps: on Windows, Ctrl-C cannot interrupt a wait without a limit.
        while not done.wait(0.1):
            pass
    except BaseException:
        stop()
        if done.wait(_PATIENCE):
            worker.join()
        raise
    worker.join()
    if failure:
        raise failure[0]

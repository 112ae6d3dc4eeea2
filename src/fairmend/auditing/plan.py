"""How to audit: choose by cost between enumeration, branch and bound, and sampling, and say how long it takes.

- "enumerate" compares an input with every neighbour. It is exact, and the fastest for small neighbourhoods.
- "branch" decides with bounds over whole neighbourhoods, and splits them where bounds are too loose.
- "sample" compares an input with random neighbours. It always ends soon, and gives a lower bound.

The costs of the exact methods are measured on a few of the inputs. "auto" takes the faster exact method if it takes at
most five minutes, or less than sampling; "exact" takes it however long it takes.

`BranchScan` decides without listing all neighbours: random neighbours first, then branch and bound. What random
neighbours show is real. The other inputs go to the engine "branch" of `certify`, which proves equal treatment over
whole neighbourhoods, however large, or finds a neighbour that the random ones missed. An input that rounding error or
the time limit leaves open is unknown, so the number of unequal inputs is then a range.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from fairmend.auditing.comparisons import WidestPairs, WorstNeighbours, comparison_of
from fairmend.auditing.neighbours import ExhaustiveScan, RandomScan
from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.text import describe_seconds, suggest
from fairmend.network import Model, Network
from fairmend.prove.certify import certify
from fairmend.prove.engines.branch import certify_by_branching
from fairmend.prove.engines.findings import findings_of
from fairmend.prove.result import Verdict
from fairmend.spec import Spec

if TYPE_CHECKING:
    from fairmend.auditing.device_search import DeviceSearch


_MOST_NUMBERS = 4_000_000  # in the boxes of one neighbourhood


def can_branch(net: Model, spec: Spec) -> TypeGuard[Network]:
    """Return whether a model has bounds, and the boxes of a neighbourhood fit into memory.

    One-hot features multiply their number.
    """
    return isinstance(net, Network) and spec.most_pieces * spec.width <= _MOST_NUMBERS


class BranchScan:
    """Decides every input, except those that rounding error or the time limit leaves open."""

    def __init__(self, net: Network, spec: Spec, per_row: int, seed: int, device: str = "cpu") -> None:
        """Prepare the scan; bounds are computed on the device."""
        self._net, self._spec, self._device = net, spec, device
        self._random, self._comparison = RandomScan(net, spec, per_row, seed), comparison_of(net, spec.claim)

    def scan(
        self,
        X: FloatArray,
        seconds: float | None = None,
        progress: Callable[[int], None] | None = None,
        *,
        seed: int | None = None,
    ) -> WorstNeighbours:
        """Return which of X (inputs, width) are treated unequally; `progress` is called with the number decided.

        The random neighbours are those of the seed; without one, each call draws new ones.
        """
        return self._decide(X, self._random.scan(X, seed), seconds, progress)

    def worst(self, X: FloatArray) -> WorstNeighbours:
        """Return the worst pair that was found for each of X (inputs, width); another one may be worse."""
        return self._decide(X, self._random.worst(X))

    def widest(self, X: FloatArray, on: str) -> WidestPairs:
        """Return the two of many random neighbours of each of X whose scores differ most; `on` names the score."""
        return self._random.widest(X, on)

    def _decide(
        self,
        X: FloatArray,
        found: WorstNeighbours,
        seconds: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> WorstNeighbours:
        """Return what random neighbours `found`, completed by branch and bound."""
        rows = np.flatnonzero(~found.unequal)
        if len(rows) == 0:
            return replace(found, unknown=np.zeros(len(X), np.bool_))
        done = len(X) - len(rows)
        report = None if progress is None else lambda _, decided, __: progress(done + decided)
        proofs = certify(
            self._net, self._spec, X[rows], "branch", time_limit=seconds, device=self._device, progress=report
        )
        unequal, gap, unknown = found.unequal.copy(), found.gap.copy(), np.zeros(len(X), np.bool_)
        first, other = found.first.copy(), found.other.copy()
        unknown[rows] = [verdict is Verdict.UNKNOWN for verdict in proofs.verdicts]
        pairs = [(row, witness) for row, witness in zip(rows.tolist(), proofs.witnesses, strict=True) if witness]
        for row, witness in pairs:
            unequal[row], first[row], other[row] = True, witness.x, witness.other
        if pairs:
            gap[[row for row, _ in pairs]] = self._comparison.gaps([witness for _, witness in pairs])
        return replace(found, unequal=unequal, gap=gap, first=first, other=other, unknown=unknown)


METHODS = ("auto", "exact", "enumerate", "branch", "sample")

EXACT_SECONDS = 300.0
"""An exact count that is expected to take longer is only made if it is asked for."""

UNKNOWN_ROWS = 100_000
"""How many inputs a stream of unknown length is taken to have."""

# Neighbours in all, and of one input, that are enumerated without comparing costs: about two seconds.
_QUICK, _SMALL = 30_000_000, 50_000
_POINTS_PER_SECOND = 12_000_000  # for those; networks differ, but two seconds need no estimate
_PILOT_POINTS_ON_DEVICE = 100_000_000
_PILOT_RUN = 2048  # neighbours, by a model that is only run
_PILOT_ROWS, _PILOT_ENUMERATED, _PILOT_POINTS, _PILOT_SECONDS = 64, 1024, 500_000, 1.0

_HOW = {"enumerate": "enumeration", "branch": "bounds", "sample": "sampling"}


@dataclass(frozen=True)
class AuditPlan:
    """How an audit is done, and how long it may take.

    Attributes
    ----------
    method : "enumerate", "branch" or "sample"
    rows : the number of inputs; 0 if it is not known
    neighbours : how many a typical input has; None if infinitely many
    seconds : how long the audit may take
    exact_seconds : how long an exact count may take, if it takes too long; None if it cannot be estimated
    """

    method: str
    rows: int
    neighbours: int | None
    seconds: float
    exact_seconds: float | None = None

    def describe(self) -> str:
        """Return the plan as a line: "about 3 min: 22,407 rows, 9.4 M neighbours each, by bounds"."""
        rows = f"{self.rows:,} rows" if self.rows else "rows from a stream"
        each = "infinitely many" if self.neighbours is None else _describe_many(self.neighbours)
        how = f"{rows}, {each} neighbours each, by {_HOW[self.method]}"
        return f"about {describe_seconds(self.seconds)}: {how}" if self.rows else how


def choose_plan(
    net: Model,
    spec: Spec,
    X: FloatArray,
    rows: int,
    method: str = "auto",
    *,
    per_row: int = 64,
    seed: int = 0,
    device: DeviceSearch | None = None,
    time_limit: float | None = None,
) -> AuditPlan:
    """Return how to audit `rows` inputs (0 if unknown) like X (inputs, width), the first of them.

    The costs of enumeration are those on the device, if there is one. Nothing stops an enumeration, so "auto" makes
    none that is expected to take longer than the time limit; branch and bound stops there.
    """
    if method not in METHODS:
        raise FairmendError(f"unknown method {method!r}{suggest(str(method), METHODS)}; use {', '.join(METHODS)}")
    costs = _Costs(net, spec, X, per_row, seed, device)
    many, size = rows or UNKNOWN_ROWS, costs.neighbours

    def plan(chosen: str, per_input: float, exact: float | None = None) -> AuditPlan:
        return AuditPlan(chosen, rows, size, many * per_input, None if exact is None else many * exact)

    # What a model that is only run costs is measured: it may take a thousand times as long as a small network.
    quick = isinstance(net, Network) and size is not None and size <= _SMALL and size * many <= _QUICK
    if quick and method in ("auto", "exact", "enumerate"):
        return plan("enumerate", (size or 1) / _POINTS_PER_SECOND)
    if method == "sample":
        return plan("sample", costs.sampling())
    exact = _cheapest(costs, method, many)
    most = EXACT_SECONDS if exact[0] == "branch" or time_limit is None else min(EXACT_SECONDS, time_limit)
    if method != "auto" or many * exact[1] <= most:
        return plan(*exact)
    sampling = costs.sampling()
    return plan(*exact) if exact[1] <= sampling else plan("sample", sampling, _finite_or_none(exact[1]))


def _cheapest(costs: _Costs, method: str, rows: int) -> tuple[str, float]:
    """Return the cheaper of the exact methods that `method` allows, and its seconds per input."""
    found: list[tuple[str, float]] = []
    size, bounded = costs.neighbours, isinstance(costs.net, Network)
    if method == "branch" and not bounded:
        raise FairmendError("method branch needs the bounds of a network, and this model is only run; use enumerate")
    if size is None and (method == "enumerate" or (method == "exact" and not bounded)):
        raise FairmendError(
            "neighbours differ in a continuous feature, so they cannot all be enumerated; use method "
            f"{'branch or sample' if bounded else 'sample'}"
        )
    if size is not None and method != "branch":
        found.append(("enumerate", costs.enumeration()))
    # Below, enumeration is the faster one; measuring the other would only cost time.
    slow = size is None or size > _SMALL or (bool(found) and rows * found[0][1] > EXACT_SECONDS)
    if can_branch(costs.net, costs.spec) and (method == "branch" or (method != "enumerate" and slow)):
        found.append(("branch", costs.branching()))
    if found:
        return min(found, key=lambda each: each[1])
    if method == "auto":
        return "branch", float("inf")
    raise FairmendError(
        "the neighbourhoods have too many combinations of one-hot categories for an exact count; use method sample"
    )


class _Costs:
    """Seconds per input of each method, measured on a few of X (inputs, width)."""

    def __init__(
        self, net: Model, spec: Spec, X: FloatArray, per_row: int, seed: int, device: DeviceSearch | None
    ) -> None:
        self.net, self.spec, self._X, self._per_row, self._seed = net, spec, X, per_row, seed
        self._device = device
        self.pilot = _spread_out(X, _PILOT_ROWS)
        self.neighbours: int | None = None
        if spec.finite:
            sizes = spec.neighbourhood_sizes(self.pilot, X.dtype)
            self.neighbours = int(sum(sizes.tolist())) // len(self.pilot)

    def sampling(self) -> float:
        """Return the seconds that random neighbours of one input take."""
        scanner = RandomScan(self.net, self.spec, self._per_row, self._seed)
        return self._seconds(lambda: scanner.scan(self.pilot)) / len(self.pilot)

    def enumeration(self) -> float:
        """Return the seconds that all neighbours of one input take."""
        assert self.neighbours is not None
        if not isinstance(self.net, Network):
            return self._run_one() * float(min(self.neighbours, 10**300))
        # Many inputs at once take less time each, so it takes more of them than the other methods to measure it.
        points = _PILOT_POINTS if self._device is None else _PILOT_POINTS_ON_DEVICE
        pilot = _spread_out(self._X, min(_PILOT_ENUMERATED, max(4, points // self.neighbours)))
        if len(pilot) * self.neighbours <= 2 * points:
            scanner = ExhaustiveScan(self.net, self.spec, self._device)
            return _seconds(lambda: scanner.scan(pilot)) / len(pilot)
        return self._run_one() * float(min(self.neighbours, 10**300))

    def _run_one(self) -> float:
        """Return the seconds that the score of one neighbour takes among many."""
        rows = 8192 if isinstance(self.net, Network) else _PILOT_RUN
        some = self.spec.sample_inputs(rows, np.random.default_rng(0), self.net.dtype)
        return self._seconds(lambda: self.net.logits(some)) / len(some)

    def _seconds(self, run: Callable[[], Any]) -> float:
        """Return how long a call takes; a runtime may compute in threads of its own, whose time is not this one's."""
        return _seconds(run, time.thread_time if isinstance(self.net, Network) else time.perf_counter)

    def branching(self) -> float:
        """Return the seconds that branch and bound takes for one input; a lower bound if it takes very long."""
        assert isinstance(self.net, Network)
        started = time.thread_time()
        unequal = RandomScan(self.net, self.spec, self._per_row, self._seed).scan(self.pilot).unequal
        rest = self.pilot[~unequal]
        findings = findings_of(self.net, self.spec.claim, rest, _PILOT_SECONDS, clock=time.thread_time)
        certify_by_branching(self.spec, findings)
        decided = int(unequal.sum()) + int((findings.fair | findings.unfair).sum())
        return (time.thread_time() - started) / max(1, decided)


def _spread_out(X: FloatArray, rows: int) -> FloatArray:
    """Return so many of X (inputs, width), from the first to the last."""
    return X[np.unique(np.linspace(0, len(X) - 1, rows).astype(np.int64))]


def _seconds(run: Callable[[], Any], clock: Callable[[], float] = time.thread_time) -> float:
    """Return how long a call takes; the second one, because the first prepares what later ones share.

    It is the time of this thread alone, so that other programs and the reader of a file do not change the choice.
    """
    run()
    started = clock()
    run()
    return clock() - started


def _finite_or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _describe_many(count: int) -> str:
    """Return a count that may be astronomical: "630", "9.4 M" or "10^68"."""
    if count < 100_000:
        return f"{count:,}"
    return f"{count / 1e6:,.1f} M" if count < 10**12 else f"10^{len(str(count)) - 1}"

"""`fairmend.audit`: count the inputs that are treated unequally, in data (IDI-D) or in samples (IDI-S).

The spec's claim says what is unequal: two classes in a neighbourhood, or two scores that differ by more than delta.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from fairmend.arrays import FloatArray, Floats, Ints
from fairmend.audit.audited_rows import RowCollector
from fairmend.audit.input_blocks import Inputs, known_length, sample_blocks, stream_blocks
from fairmend.audit.neighbours import ScanResult, WorstNeighbours
from fairmend.audit.plan import EXACT_SECONDS, AuditPlan, choose_plan
from fairmend.audit.planned_scan import PlannedScan
from fairmend.audit.result import AuditPair, AuditResult, ExaminedInputs, make_pairs, wilson_interval
from fairmend.audit.row_sample import RowSample
from fairmend.audit.row_store import RowStore
from fairmend.audit.scan_processes import scan_blocks
from fairmend.audit.score_disparity import DisparityCollector, ScoreDisparity, disparity_score
from fairmend.audit.score_summary import ScoreSummary
from fairmend.device.names import check_device_name
from fairmend.errors import FairmendError
from fairmend.network import Network, NetworkSource, load_network
from fairmend.progress import Progress, shows_progress
from fairmend.prove.fit import require_fit
from fairmend.prove.score_bounds import require_scores
from fairmend.prove.threshold import network_of_spec
from fairmend.prove.witness import keep_ignored_features
from fairmend.spec import Spec
from fairmend.spec.read_values import is_frame
from fairmend.text import as_text

if TYPE_CHECKING:
    from fairmend.audit.device_search import DeviceSearch

__all__ = ["Witnesses", "audit"]

_logger = logging.getLogger(__name__)

# What an audit keeps for reports: a random sample of so many inputs, or fewer if they are wide.
_SHORT = 5.0  # seconds on the CPU
_EXAMINED_ROWS, _EXAMINED_NUMBERS = 20_000, 5_000_000

Witnesses = Callable[[Ints, FloatArray, FloatArray], None]
"""Called with rows (k,) and the worst pair of each: two arrays (k, width), the first of them the inputs themselves if
the claim is about classes."""


@shows_progress
def audit(
    net: NetworkSource,
    spec: Spec,
    X: Inputs | None = None,
    samples: int = 100_000,
    seed: int = 0,
    *,
    per_row: int = 64,
    pairs: int = 20,
    method: str = "auto",
    time_limit: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    rows: int | None = None,
    progress: Progress | None = None,
    on_plan: Callable[[AuditPlan], None] | None = None,
    witnesses: Witnesses | None = None,
) -> AuditResult:
    """Count the inputs that are treated unequally, and return the worst pairs.

    If the spec claims scores, an input is treated unequally if the scores of two people in its neighbourhood differ by
    more than delta. The worst pairs are then those with the largest differences, whether above delta or not.

    Parameters
    ----------
    net, spec : the network, and the spec that defines which people are similar.
    X : the inputs, encoded or as a DataFrame, or an iterator over chunks of either; a few bytes of memory are used for
        each. None audits uniform samples of the spec's input space.
    samples : how many samples to draw if X is None.
    seed : random seed.
    per_row : how many random neighbours of an input to compare, if not all are; up to 64 corners of the neighbourhood
        are compared as well.
    pairs : how many of the worst pairs to return.
    method : "enumerate" (every neighbour), "branch" (random neighbours, and bounds over the whole neighbourhood where
        they show nothing), "sample" (random neighbours only: a lower bound), "exact" (the faster one of the first two,
        however long it takes), or "auto": the same if it takes at most five minutes or less than sampling, else
        "sample".
    time_limit : seconds for "branch", by default ten minutes for "auto" and no limit otherwise; inputs that are not
        decided by then are unknown.
    jobs : how many processes compare inputs with their neighbours; the answer is the same, but for what a time limit
        leaves open. With more than one, call this under ``if __name__ == "__main__":`` in a script.
    device : where all neighbours of an input are compared: "cpu", "cuda" (a GPU; "cuda:1" is the second), or "auto": a
        GPU, if there is one and the CPU would take more than a few seconds. The answer is the same. A GPU compares for
        networks with one output that are chains of layers with ReLU, LeakyReLU, tanh or sigmoid.
    rows : the number of inputs, for the estimate and the progress, if X is an iterator.
    progress : called with the stage, the number of inputs done and the number of all inputs.
    on_plan : called before the work with the method, and with how long it may take.
    witnesses : called, block by block, with the worst pair of every unequal input.
    """
    network = network_of_spec(load_network(net), spec)
    started = time.perf_counter()
    _check(
        network,
        spec,
        X is None,
        samples=samples,
        per_row=per_row,
        pairs=pairs,
        jobs=jobs,
        time_limit=time_limit,
        device=device,
    )
    stream: Iterator[FloatArray]
    if X is None:
        stream, expected = sample_blocks(spec, samples, seed, network.dtype), samples
    else:
        stream, expected = stream_blocks(spec, X, network.dtype), rows or known_length(X)
    start = next(stream)
    plan, search = _plan(network, spec, start, expected, method, per_row, seed, device)
    _logger.info("audit: %s", plan.describe())
    if on_plan is not None:
        on_plan(replace(plan, seconds=plan.seconds / jobs))
    limit = 2 * EXACT_SECONDS if time_limit is None and method == "auto" else time_limit
    scanner = PlannedScan(network, spec, plan, per_row, seed, limit, progress, search, device)
    # Twice as many as asked for: their order is only known up to rounding so far.
    largest, widest = _LargestGaps(2 * pairs), _WidestSpread()
    rows_kept, examined = RowCollector(spec), _ExaminedInputs(spec, seed)
    scores = _ScoreDifferences(network, spec)
    count = total = evaluations = unknown = 0
    for block, found in scan_blocks(scanner, scanner.parts(chain([start], stream)), jobs):
        unequal = np.flatnonzero(found.unequal)
        shown = np.flatnonzero(found.gap > 0) if spec.claim.is_score else unequal
        largest.add(total + shown, block[shown], found.gap[shown])
        widest.add(total, block, found.spread.difference)
        scores.add(found)
        rows_kept.add(block, found)
        examined.add(block, found)
        if witnesses is not None and len(unequal):
            owner, first, other = scanner.witnesses(block, found)
            witnesses(total + owner, first, keep_ignored_features(network, spec, first, other))
        count, total, evaluations = count + len(unequal), total + len(block), evaluations + found.points
        unknown += 0 if found.unknown is None else int(found.unknown.sum())
        if progress is not None:
            progress("audit", total, expected)
    _logger.info(
        "audit: %d of %d treated unequally, %d unknown, %d scores computed", count, total, unknown, evaluations
    )
    widest_pair = _widest_pair(network, spec, scanner, widest)
    disparity = scores.disparity(
        None if widest_pair is None else _with_ids((widest_pair,), X, spec.id_column)[0], count
    )
    result = AuditResult(
        count=count,
        total=total,
        pairs=_with_ids(_worst_pairs(network, spec, scanner, largest, pairs), X, spec.id_column),
        exact=unknown == 0,
        sampled=X is None,
        interval=wilson_interval(count, total) if X is None else None,
        evaluations=evaluations,
        seconds=time.perf_counter() - started,
        examined=examined.kept(),
        rows=rows_kept.rows(),
        disparity=disparity,
        scores=scores.summary(disparity),
        unknown=unknown,
        plan=plan,
    )
    if spec.label is None or not is_frame(X) or spec.label.column not in X.columns:
        return result
    return result.name_classes(spec.label, X[spec.label.column].dropna().unique())


def _plan(
    network: Network, spec: Spec, X: FloatArray, rows: int, method: str, per_row: int, seed: int, device: str
) -> tuple[AuditPlan, DeviceSearch | None]:
    """Return how to audit inputs like X (inputs, width), and the search on a GPU, if it is to compare them."""
    plan = None
    if device in ("cpu", "auto"):
        plan = choose_plan(network, spec, X, rows, method, per_row=per_row, seed=seed)
    if plan is not None and (device == "cpu" or _is_short(plan)):
        return plan, None
    from fairmend.audit.device_search import find_device

    search = find_device(device, network, spec)
    if plan is not None and search is None:
        return plan, None
    return choose_plan(network, spec, X, rows, method, per_row=per_row, seed=seed, device=search), search


def _is_short(plan: AuditPlan) -> bool:
    """Return whether starting a GPU, and PyTorch before that, would take longer than the audit."""
    return plan.method == "enumerate" and plan.seconds < _SHORT


class _ScoreDifferences:
    """Collects how far scores differ: for the disparity, and for a claim about scores in the claim's own unit."""

    def __init__(self, net: Network, spec: Spec) -> None:
        self._claim = spec.claim
        on = disparity_score(spec)
        self._same = spec.claim.on == on
        self._collector = DisparityCollector(on, net.threshold)
        self._claimed = RowStore()

    def add(self, found: ScanResult) -> None:
        """Add what the scan found about the next inputs."""
        self._collector.add(found.spread, found.gap if self._same else None)
        if self._claim.is_score and not self._same:
            self._claimed.add(found.gap)

    def disparity(self, worst: AuditPair | None, count: int) -> ScoreDisparity:
        """Return the disparity, with `count` unequal inputs at the threshold that decides."""
        found = self._collector.disparity(worst)
        if found.curve is None or self._claim.is_score:
            return found
        return replace(found, curve=found.curve.with_decided(count))

    def summary(self, disparity: ScoreDisparity) -> ScoreSummary | None:
        """Return the differences that the claim is about; None for a claim about classes."""
        if not self._claim.is_score:
            return None
        return ScoreSummary(self._claim, disparity.differences if self._same else self._claimed.array())


class _ExaminedInputs:
    """Keeps a random sample of the inputs of a stream and what the scan found about them."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self._sample = RowSample(max(1, min(_EXAMINED_ROWS, _EXAMINED_NUMBERS // spec.width)), seed)

    def add(self, X: FloatArray, found: ScanResult) -> None:
        """Add the next inputs X (k, width)."""
        columns = {"X": X, "unequal": found.unequal}
        self._sample.add(columns | ({"other": found.other} if isinstance(found, WorstNeighbours) else {}))

    def kept(self) -> ExaminedInputs:
        """Return the inputs kept."""
        kept = self._sample.columns()
        return ExaminedInputs(kept["X"], kept["unequal"], kept["row"], kept.get("other"))


class _WidestSpread:
    """The input with the largest difference of scores in its neighbourhood."""

    def __init__(self) -> None:
        self.row, self.difference, self.X = 0, -np.inf, np.zeros((0, 0), np.float32)

    def add(self, first_row: int, X: FloatArray, difference: Floats) -> None:
        """Add the next inputs X (k, width), from row `first_row` on, with their differences (k,)."""
        widest = int(difference.argmax())
        if difference[widest] > self.difference:
            self.row, self.difference, self.X = first_row + widest, difference[widest], X[widest : widest + 1].copy()


class _LargestGaps:
    """The inputs with the largest gaps so far, equal inputs once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, tuple[float, int, FloatArray]] = {}
        self._least = -np.inf

    def add(self, rows: Ints, X: FloatArray, gap: Floats) -> None:
        """Add inputs X (k, width) with their rows (k,) among all inputs and their gaps (k,)."""
        chosen = np.flatnonzero(gap >= self._least)
        if len(chosen) == 0 or self._most == 0:
            return
        # Of equal inputs, keep the first row.
        _, first = np.unique(X[chosen], axis=0, return_index=True)
        for i in chosen[np.sort(first)][np.argsort(-gap[chosen[np.sort(first)]], kind="stable")[: self._most]]:
            self._kept.setdefault(X[i].tobytes(), (float(gap[i]), int(rows[i]), X[i].copy()))
        best = sorted(self._kept.items(), key=lambda item: (-item[1][0], item[1][1]))[: self._most]
        self._kept = dict(best)
        if len(best) == self._most:
            self._least = best[-1][1][0]

    def kept(self) -> tuple[list[int], list[FloatArray]]:
        """Return the rows and the inputs (width,)."""
        return [row for _, row, _ in self._kept.values()], [x for _, _, x in self._kept.values()]


def _worst_pairs(
    net: Network, spec: Spec, scanner: PlannedScan, largest: _LargestGaps, most: int
) -> tuple[AuditPair, ...]:
    """Return the worst pairs of the inputs kept; the network itself evaluates their neighbours."""
    rows, inputs = largest.kept()
    if not rows:
        return ()
    X = np.stack(inputs)
    worst = scanner.worst(X)
    sure = np.flatnonzero(worst.gap > 0 if spec.claim.is_score else worst.unequal)
    pairs = make_pairs(net, spec, [rows[i] for i in sure], worst.first[sure], worst.other[sure])
    # People who are similar may share the two whose scores differ most.
    once = {(pair.x.tobytes(), pair.other.tobytes()): pair for pair in reversed(pairs)}
    return tuple([pair for pair in pairs if once[pair.x.tobytes(), pair.other.tobytes()] is pair][:most])


def _with_ids(pairs: tuple[AuditPair, ...], X: Inputs | None, column: str | None) -> tuple[AuditPair, ...]:
    """Return the pairs with the ids of the people, if the inputs are a data frame that has them."""
    if column is None or not is_frame(X) or column not in X.columns:
        return pairs
    return tuple(replace(pair, id=as_text(X[column].iloc[pair.row])) for pair in pairs)


def _widest_pair(net: Network, spec: Spec, scanner: PlannedScan, widest: _WidestSpread) -> AuditPair | None:
    """Return the two similar people whose scores differ most; None if no scores differ."""
    on = disparity_score(spec)
    found = scanner.widest(widest.X, on)
    return make_pairs(net, spec, [widest.row], found.first, found.other, on=on)[0] if found.difference[0] > 0 else None


def _check(
    net: Network,
    spec: Spec,
    sampling: bool,
    *,
    samples: int,
    per_row: int,
    pairs: int,
    jobs: int,
    time_limit: float | None,
    device: str,
) -> None:
    check_device_name(device)
    require_fit(net, spec)
    require_scores(net, spec.claim)
    least = {
        "samples": (samples, 1 if sampling else 0),
        "per_row": (per_row, 1),
        "pairs": (pairs, 0),
        "jobs": (jobs, 1),
    }
    for name, (value, lowest) in least.items():
        if value < lowest:
            raise FairmendError(f"{name} is {value}; it must be at least {lowest}")
    if time_limit is not None and not time_limit > 0:
        raise FairmendError(f"time_limit is {time_limit}; give seconds above 0, or None for no limit")

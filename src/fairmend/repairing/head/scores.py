"""Step 2 for a claim about scores: the smallest change of the head such that scores differ by at most delta.

Over each region a score has a least and a largest value, both in closed form (`features`). There is no class to choose,
so step 2 is a linear program: one band for each region (`bands`), and rows at the vertices that a solution violates.

- *Raw outputs*: each output is a linear program by itself, and its optimum is the smallest change there is.
- *The probability of one output, or of two*: the claim is not convex. Each tangent of `bands` implies it. Tangents at
  the centres of the best change so far never make it worse, and are renewed until they no longer help.
- *Probabilities of more outputs*: differences of two outputs within a width that suffices anywhere, or one output that
  leads all others by so much that its probability is at least 1 - delta. The latter is tried for the regions that are
  nearer to it.

For probabilities the result is optimal among the changes that keep these bands, not among all that keep the claim.

A direction of the head takes values from L to U over a region. A *band* is the condition

    (1 - slope) U - (1 + slope) L <= level,      -1 <= slope <= 1,

which is convex in the head, because U is convex in it and L concave. For raw outputs the band U - L <= delta is the
claim itself. For a probability, sigmoid(U) - sigmoid(L) <= delta reads, with the centre c = (L + U) / 2 and half the
width h = (U - L) / 2,

    h <= H(c),      exp(H(c)) = (delta cosh c + sqrt(delta² cosh² c + 1 - delta²)) / (1 - delta).

H is convex. So each of its tangents is a band that implies the claim; the tangent at c = 0 is the width that suffices
anywhere.

Biases after step 2: scores that differ less are closer together, and a bias keeps them on the side they were.

A change that keeps scores together shrinks weights, and a bias that fitted the larger ones moves most predictions to
one class. A claim about raw outputs does not depend on biases, and a claim about probabilities allows many. So a
classifier keeps the share of rows that it predicts to be in each class.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.metrics import balanced_accuracy
from fairmend.base.progress import Progress
from fairmend.milp import Status
from fairmend.network import predicted_classes
from fairmend.repairing.head.features import FeatureSet
from fairmend.repairing.head.milp_search import NO_TIME
from fairmend.repairing.head.problem import (
    VIOLATED,
    Head,
    HeadChange,
    HeadProgram,
    HeadSearchResult,
    KeptRows,
    SearchLimits,
    pairs_of_outputs,
)
from fairmend.repairing.head.solve import HeadSolution

NOTHING_WITHIN = (
    "no change with every parameter within {limit:g} was found that keeps the scores of the {count} regions within "
    "delta; allow larger changes (delta_limit)"
)

MOST_ROUNDS = 500
"""Rounds of rows added to one program. A band still missed after them is within the solver's tolerances."""

MOST_RENEWALS = 10
IMPROVES = 1e-3
"""Tangents are renewed at most so often, and as long as the cost shrinks by this share of itself."""

AGREES = 0.01
"""A change of lower cost counts as better if it keeps predictions up to this share, one that keeps more in any case."""

LARGEST_WEIGHT = 1e3
"""Raw outputs are measured in units of delta, unless a weight of the head would then be larger than this."""

_STEEPEST = 1 - 1e-5
"""The largest slope of a tangent. Slopes near 1 leave U almost free, and their rows have entries of very different
sizes."""

SWEEPS, STEPS = 30, 50


@dataclass(frozen=True)
class Bands:
    """One band for each region and direction: ``slope`` and ``level``, each ``(count, directions)``.

    An infinite level demands nothing.
    """

    slope: Floats
    level: Floats

    def excess(self, low: Floats, high: Floats) -> Floats:
        """Return by how much ranges ``(count, directions)`` miss their bands; negative where they do not."""
        return np.asarray((1 - self.slope) * high - (1 + self.slope) * low - self.level)


def widths(delta: Floats, directions: int) -> Bands:
    """Return the bands U - L <= delta, ``delta (count,)``."""
    level = np.repeat(delta[:, None], directions, axis=1)
    return Bands(np.zeros_like(level), level)


def sufficient_width(delta: Floats) -> Floats:
    """Return the width of a logit within which a probability moves by at most delta, wherever it is."""
    return np.asarray(4 * np.arctanh(delta))


def tangents(delta: Floats, centre: Floats) -> Bands:
    """Return the tangents of H at ``centre (count, directions)``; any centre gives bands that imply the claim."""
    ratio = (delta / np.sqrt(1 - delta**2))[:, None]
    farthest = np.arccosh(np.sqrt((1 + (_STEEPEST / ratio) ** 2) / (1 - _STEEPEST**2)))  # where the slope is that
    at = np.clip(centre, -farthest, farthest)
    slope = np.asarray(ratio * np.sinh(at) / np.sqrt(1 + (ratio * np.cosh(at)) ** 2))
    return Bands(slope, 2 * (_half_width(delta, at) - slope * at))


def _half_width(delta: Floats, centre: Floats) -> Floats:
    """Return H at ``centre (count, directions)``."""
    share = delta[:, None]
    cosine = share * np.cosh(np.clip(centre, -30, 30))
    near = np.log((cosine + np.sqrt(cosine**2 + 1 - share**2)) / (1 - share))
    return np.asarray(np.where(np.abs(centre) <= 30, near, np.abs(centre) + np.log(share / (1 - share))))


def keep_rates(before: Floats, after: Floats) -> Floats:
    """Return what to add to the outputs after step 2 to keep the share of each predicted class, ``(outputs,)``.

    Both are ``(rows, outputs)``. One output or two have one threshold, which is exact. With more outputs, each in turn
    gets its share, a number of times.
    """
    outputs = before.shape[1]
    shift = np.zeros(outputs)
    own = np.arange(outputs) == before.argmax(axis=1)[:, None] if outputs > 1 else before >= 0
    counts = own.sum(axis=0)
    for _ in range(SWEEPS if outputs > 2 else 1):
        for output in range(1 if outputs > 1 else 0, outputs):
            leads = np.sort(_leads(after + shift, output))[::-1]
            if (leads >= 0).sum() != counts[output]:
                step = (max(leads[0] - leads[-1], np.abs(leads).max() * 1e-3) or 1.0) / len(leads)
                ends = np.concatenate([[leads[0] + step], leads, [leads[-1] - step]])
                shift[output] -= (ends[counts[output]] + ends[counts[output] + 1]) / 2
    return shift


def _leads(scores: Floats, output: int) -> Floats:
    """Return by how much an output exceeds the largest other one, or 0 if it is the only one: ``(rows,)``."""
    if scores.shape[1] == 1:
        return scores[:, 0]
    return np.asarray(scores[:, output] - np.delete(scores, output, axis=1).max(axis=1))


def allowed_share(low: Floats, high: Floats, moved: Floats, delta: Floats, outputs: int) -> float:
    """Return the largest share of a shift at which the probabilities of all regions stay within ``delta (count,)``.

    ``low`` and ``high (count, directions)`` are the ranges without it, and ``moved (directions,)`` is the shift.
    """
    for share in np.linspace(1, 0, STEPS, endpoint=False):
        if (probability_spread(low + share * moved, high + share * moved, outputs) <= delta).all():
            return float(share)
    return 0.0


@np.errstate(over="ignore")
def probability_spread(low: Floats, high: Floats, outputs: int) -> Floats:
    """Return how far apart two probabilities in a region can be ``(count,)``, from ranges ``(count, directions)``.

    The directions are the output, or the differences of two outputs, the earlier minus the later.
    """
    if outputs <= 2:
        return np.asarray(1 / (1 + np.exp(-high[:, 0])) - 1 / (1 + np.exp(-low[:, 0])))
    first, second = np.triu_indices(outputs, 1)
    least, most = np.zeros((2, len(low), outputs, outputs))  # of output k minus output j at [., k, j]
    least[:, first, second], most[:, first, second] = low, high
    least[:, second, first], most[:, second, first] = -high, -low
    return np.asarray((1 / np.exp(least).sum(axis=1) - 1 / np.exp(most).sum(axis=1)).max(axis=1))


@dataclass(frozen=True)
class Found(HeadSearchResult):
    """A result whose ``cost`` is what its linear program minimises, and whose ``bound`` is a lower bound on that."""

    cost: float


class ScoreHead(Head):
    """A head whose directions are to have narrow ranges over regions."""

    def constant_change(self, limits: SearchLimits) -> HeadChange | None:
        """Return the change to a head without weights, or None if a parameter would change by more than the limit."""
        change = self.without_weights()
        return change if np.abs(change.weight).max() <= limits.delta else None


class BandSearch:
    """The smallest change that keeps every band: a linear program whose rows are added where a solution misses one."""

    def __init__(
        self,
        head: ScoreHead,
        bands: Bands,
        limits: SearchLimits,
        deadline: float = math.inf,
        kept: KeptRows | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.head, self.bands, self.limits, self.deadline, self.progress = head, bands, limits, deadline, progress
        self.program = HeadProgram(head, limits.delta, kept)
        self.in_play: set[int] = set()

    def run(self, start: HeadChange | None) -> Found | None:
        """Return the smallest change; None if there is none, or if the time ended without one.

        ``start`` keeps all bands. Where the time ends first, the result lies between it and the last solution.
        """
        best, last, bound, solves = start, start, 0.0, 0
        for solves in range(1, MOST_ROUNDS + 1):
            solution = self.program.program.solve(self.deadline - time.perf_counter())
            if solution.status is Status.INFEASIBLE:
                return None if start is None else self._result(start, self.program.cost(start), solves)
            if solution.x is None:
                break
            bound = max(bound, solution.objective)
            change = last = self.program.change(solution.x)
            excess = self._excess(change)
            missed = np.flatnonzero(excess.max(axis=1) > VIOLATED)
            if self.progress is not None:
                self.progress("solve", self.head.features.count - len(missed), self.head.features.count)
            if not len(missed):
                return self._result(change, bound, solves)
            if best is not None and self.limits.gap > 0:
                best = self._between(best, change)
                if self.limits.closed(self.program.cost(best), bound):
                    break
            self._add_rows(missed, excess, change)
        if best is not None and last is not None:
            best = self._between(best, last)
        return None if best is None else self._result(best, bound, solves)

    def _result(self, change: HeadChange, bound: float, solves: int) -> Found:
        return Found(change, bound, solves, len(self.in_play), self.program.cost(change))

    def _excess(self, change: HeadChange) -> Floats:
        return self.bands.excess(*self.head.ranges(change))

    def _between(self, kept: HeadChange, change: HeadChange) -> HeadChange:
        """Return the change nearest to ``change``, on the way to it from ``kept``, that keeps all bands, if smaller."""
        keeps, misses = 0.0, 1.0
        for _ in range(30):
            share = (keeps + misses) / 2
            keeps, misses = (share, misses) if self._excess(_mix(kept, change, share)).max() <= 0 else (keeps, share)
        mixed = _mix(kept, change, keeps)
        return mixed if self.program.cost(mixed) < self.program.cost(kept) else kept

    def _add_rows(self, missed: Ints, excess: Floats, change: HeadChange) -> None:
        """Add the row of the active vertices to the regions that miss their bands most."""
        worst = missed[np.argsort(-(excess[missed].max(axis=1) / self.head.reach[missed]), kind="stable")]
        worst = worst[: max(50, len(worst) // 4)]
        self.in_play.update(worst.tolist())
        p, n, _ = self.head.split(change)
        for direction in range(len(p)):
            regions = worst[excess[worst, direction] > VIOLATED]
            if len(regions):
                self._add_direction(regions, direction, p[direction], n[direction])

    def _add_direction(self, regions: Ints, direction: int, p: Floats, n: Floats) -> None:
        """Add rows ``(1 - slope) U - (1 + slope) L <= level`` with L and U at the vertices that are active at p, n."""
        head, program = self.head, self.program
        low = [_active(head.features, region, p, n) for region in regions.tolist()]
        high = [_active(head.features, region, n, p) for region in regions.tolist()]
        (low_below, low_above), (high_below, high_above) = (
            map(np.array, zip(*each, strict=True)) for each in (low, high)
        )
        slope = self.bands.slope[regions, direction][:, None]
        columns, coefficients, bias = program.direction(direction)
        values = [
            (1 - slope) * high_above - (1 + slope) * low_below,
            (1 + slope) * low_above - (1 - slope) * high_below,
            -2 * slope * coefficients,
        ]
        right = self.bands.level[regions, direction] + 2 * slope[:, 0] * bias
        program.program.add_rows(columns, np.hstack(values), np.full(len(regions), -math.inf), right)


def _mix(first: HeadChange, second: HeadChange, share: float) -> HeadChange:
    return HeadChange(
        (1 - share) * first.weight + share * second.weight, (1 - share) * first.bias + share * second.bias
    )


def _active(features: FeatureSet, region: int, p: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return the vertex of a region at which ``p·below - n·above`` is smallest."""
    below, above, _ = features.vertices(region, p, n)
    worst = int(np.argmin(below @ p - above @ n))
    return below[worst], above[worst]


def repair_scores(
    weight: np.ndarray,
    bias: np.ndarray,
    features: FeatureSet,
    *,
    delta: float | Floats,
    on: str,
    bias_shift: Floats | None = None,
    delta_limit: float = math.inf,
    time_limit: float | None = None,
    gap: float = 0.0,
    kept: KeptRows | None = None,
    progress: Progress | None = None,
) -> HeadSolution:
    """Change ``weight (outputs, dimension)`` and ``bias (outputs,)`` as little as possible.

    The l1 norm of the change is smallest, or with ``kept`` the change of the outputs at the given rows.

    Parameters
    ----------
    features : the features of each region.
    delta : how much a score may differ within a region: one number, or one for each region.
    on : the score: "output" or "logit" (each output as it is), or "probability" (after a sigmoid or softmax).
    bias_shift : for a head that stores no bias, see `repair_head`.
    delta_limit : largest change of one parameter; unlimited by default, and then there is always a solution.
    time_limit, gap : stop after so many seconds, or at this relative gap, with the best change so far.

    kept : rows whose outputs are to change as little as possible, instead of the parameters.

    The result's ``gap`` is that of its linear program: for probabilities, of the bands that it chose.
    """
    started = time.perf_counter()
    limits = SearchLimits(delta_limit, time_limit, gap)
    allowed = np.broadcast_to(np.asarray(delta, dtype=np.float64), (features.count,))
    w, b = weight.astype(np.float64), bias.astype(np.float64)
    search = _ProbabilitySearch if on == "probability" else _OutputSearch
    found = search(w, b, features, allowed, limits, kept, progress, bias_shift).run()
    if found is None:
        if time_limit is not None and time.perf_counter() - started >= time_limit:
            raise FairmendError(NO_TIME)
        raise FairmendError(NOTHING_WITHIN.format(limit=delta_limit, count=features.count))
    bound = found.change.objective * (min(1.0, found.bound / found.cost) if found.cost else 1.0)
    return HeadSolution.of(replace(found, bound=bound), features.count, started)


class _Search(ABC):
    """What the searches for both kinds of scores share."""

    def __init__(
        self,
        weight: Floats,
        bias: Floats,
        features: FeatureSet,
        delta: Floats,
        limits: SearchLimits,
        kept: KeptRows | None,
        progress: Progress | None,
        bias_shift: Floats | None,
    ) -> None:
        self.weight, self.bias, self.features, self.delta = weight, bias, features, delta
        self.limits, self.kept, self.progress, self.bias_shift = limits, kept, progress, bias_shift
        self.deadline = math.inf if limits.seconds is None else time.perf_counter() + limits.seconds
        self.before = None if kept is None else self._centred(weight, bias)

    @abstractmethod
    def run(self) -> Found | None:
        """Return the best change; None if none was found."""

    def _place_biases(self, change: HeadChange) -> HeadChange:
        """Return the change with biases that keep the share of each predicted class at the rows to keep."""
        if self.kept is None or self.before is None or self.kept.offset is None or self.bias_shift is not None:
            return change
        wanted = change.bias + keep_rates(self.before, self._after(change))
        shift = np.clip(wanted, -self.limits.delta, self.limits.delta) - change.bias
        return HeadChange(change.weight, change.bias + self._allowed(change, shift) * shift)

    def _after(self, change: HeadChange) -> Floats:
        return self._centred(self.weight + change.weight, self.bias + change.bias)

    def _centred(self, weight: Floats, bias: Floats) -> Floats:
        """Return the outputs of a head at the rows to keep, with the threshold of their decisions at 0."""
        assert self.kept is not None
        outputs = np.asarray(self.kept.features @ weight.T + bias)
        if self.kept.offset:
            outputs[:, -1] -= self.kept.offset
        return outputs

    @abstractmethod
    def _allowed(self, change: HeadChange, shift: Floats) -> float:
        """Return the share of a shift of the biases that the claim allows."""


class _OutputSearch(_Search):
    """Each raw output by itself: the cost and the bands of one output do not depend on the others."""

    def run(self) -> Found | None:
        """Return the smallest change; None if there is none."""
        found = [self._one(output) for output in range(len(self.bias))]
        results = [each for each in found if each is not None]
        if len(results) < len(found):
            return None
        change = HeadChange(
            np.concatenate([each.change.weight for each in results]),
            np.concatenate([each.change.bias for each in results]),
        )
        return Found(
            self._place_biases(change),
            sum(each.bound for each in results),
            sum(each.solves for each in results),
            max(each.regions_in_play for each in results),
            sum(each.cost for each in results),
        )

    def _one(self, output: int) -> Found | None:
        mine = slice(output, output + 1)
        weight, bias = self.weight[mine], self.bias[mine]
        unit = max(float(np.median(self.delta)), float(np.abs(weight).max()) / LARGEST_WEIGHT)
        head = ScoreHead(weight / unit, bias / unit, self.features, np.ones((1, 1)), self.bias_shift)
        limits = replace(self.limits, delta=self.limits.delta / unit)
        kept = None if self.kept is None else replace(self.kept, weight=self.kept.weight[:, mine])
        search = BandSearch(head, widths(self.delta / unit, 1), limits, self.deadline, kept, self.progress)
        found = search.run(head.constant_change(limits))
        if found is None:
            return None
        change = HeadChange(found.change.weight * unit, found.change.bias * unit)
        return replace(found, change=change, bound=found.bound * unit, cost=found.cost * unit)

    def _allowed(self, change: HeadChange, shift: Floats) -> float:
        return 1.0  # a difference of outputs does not depend on biases


class _ProbabilitySearch(_Search):
    """Bands that imply the claim about probabilities: the best of several linear programs."""

    best: Found | None = None
    solves = in_play = 0

    def run(self) -> Found | None:
        """Return the best change that was found; its bound is that of its linear program."""
        outputs = len(self.bias)
        directions = np.ones((1, 1)) if outputs == 1 else pairs_of_outputs(outputs)
        self.head = ScoreHead(self.weight, self.bias, self.features, directions, self.bias_shift)
        self._try(widths(sufficient_width(self.delta), len(directions)), self.head.constant_change(self.limits))
        if outputs > 2:
            self._try(self._leads(), None)
        else:
            self._try(self._tangents(self.head.no_change()), None)
            self._renew()
        return None if self.best is None else replace(self.best, solves=self.solves, regions_in_play=self.in_play)

    def _try(self, bands: Bands, start: HeadChange | None) -> bool:
        """Search with these bands; return whether that gave a better change."""
        search = BandSearch(self.head, bands, self.limits, self.deadline, self.kept, self.progress)
        found = search.run(start)
        if found is None:
            return False
        self.solves, self.in_play = self.solves + found.solves, max(self.in_play, found.regions_in_play)
        found = replace(found, change=self._place_biases(found.change))
        if self.best is None:
            self.best = found
            return True
        gained = self._agreement(found.change) - self._agreement(self.best.change)
        better = gained > AGREES or (gained >= -AGREES and found.cost < self.best.cost * (1 - IMPROVES))
        self.best = found if better else self.best
        return better

    def _agreement(self, change: HeadChange) -> float:
        """Return the share of predictions kept at the rows to keep, as a mean over the classes; 0 without such rows."""
        if self.kept is None or self.before is None or self.kept.offset is None:
            return 0.0
        before, after = (
            predicted_classes(outputs if len(self.bias) > 1 else outputs[:, 0])
            for outputs in (self.before, self._after(change))
        )
        return balanced_accuracy(before, after)

    def _tangents(self, change: HeadChange) -> Bands:
        low, high = self.head.ranges(change)
        return tangents(self.delta, (low + high) / 2)

    def _renew(self) -> None:
        """Renew the tangents at the centres of the best change, which keeps them, until they no longer help."""
        for _ in range(MOST_RENEWALS):
            if self.best is None or self.best.cost == 0 or time.perf_counter() >= self.deadline:
                return
            if not self._try(self._tangents(self.best.change), self.best.change):
                return

    def _leads(self) -> Bands:
        """Return for each region the bands that it misses by less: all differences narrow, or one output far ahead."""
        narrow = widths(sufficient_width(self.delta), len(self.head.directions))
        low, high = self.head.ranges(self.head.no_change())
        slope, level = narrow.slope.copy(), narrow.level.copy()
        least = narrow.excess(low, high).max(axis=1)
        outputs = len(self.bias)
        lead = np.log((outputs - 1) * (1 - self.delta) / self.delta)
        for output in range(outputs):
            sign = self.head.directions[:, output]
            ahead = Bands(np.broadcast_to(sign, slope.shape), np.where(sign != 0, -2 * lead[:, None], math.inf))
            missing = ahead.excess(low, high).max(axis=1) / 2
            nearer = missing < least
            slope[nearer], level[nearer], least[nearer] = ahead.slope[nearer], ahead.level[nearer], missing[nearer]
        return Bands(slope, level)

    def _allowed(self, change: HeadChange, shift: Floats) -> float:
        return allowed_share(*self.head.ranges(change), self.head.directions @ shift, self.delta, len(self.bias))

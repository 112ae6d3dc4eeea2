"""Split boxes until little enough is undecided: branch and bound over the unprotected features.

The boxes with the largest undecided shares come first, many in a round: a share of all that are open, cut into parts
that workers decide side by side. Boxes of few people are listed instead of split. The first splits lead to a few random
people who are treated unequally, so that some unequal treatment is proven early.

Deciding a part is a function of its boxes alone, and how a round is cut does not depend on the number of workers. So
the boxes after a number of rounds are the same, bit for bit, wherever they were decided.

`Leaves` are the boxes so far: they cover all people, and none overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.base.progress import Progress
from fairmend.quantifying.decide import Decided, Decider
from fairmend.quantifying.sample import draw_people
from fairmend.workers.engine import HERE, Engine, run_in_pool
from fairmend_check.shares.listing import count_inputs
from fairmend_check.shares.people import Boxes
from fairmend_check.shares.prove import Proven, is_blind
from fairmend_check.shares.tally import Counts

_SMALLEST = 0.01  # of the undecided shares of a round: boxes that wait


class Leaves:
    """Boxes and what is proven about each; arrays grow as boxes are split. All people are the box ``everyone``."""

    def __init__(self, everyone: Boxes, decided: Decided) -> None:
        self.count, self._everyone = 0, everyone
        self._cells = (everyone.last - everyone.first + 1).astype(np.float64)
        self._first, self._last = (np.empty((0, everyone.first.shape[1]), np.int64) for _ in range(2))
        self._numbers = np.empty((0, 7))  # share; people who are fair, unfair, whether exact; these as shares; error
        self._axis = np.empty((0, 1), np.int64)
        self._add(everyone, decided)

    @property
    def boxes(self) -> Boxes:
        """All boxes."""
        return Boxes(self._first[: self.count], self._last[: self.count])

    @property
    def counts(self) -> Counts:
        """How many people of each box are proven to be treated equally, and unequally."""
        fair, unfair, exact = self._numbers[: self.count, 1:4].T
        return Counts(fair, unfair, exact > 0)

    @property
    def shares(self) -> Floats:
        """The share of each box among all people, roughly."""
        return self._numbers[: self.count, 0]

    @property
    def fair(self) -> Floats:
        """The share of each box that is proven to be treated equally, roughly."""
        return self._numbers[: self.count, 4]

    @property
    def unfair(self) -> Floats:
        """The share of each box that is proven to be treated unequally, roughly."""
        return self._numbers[: self.count, 5]

    @property
    def error(self) -> Floats:
        """A bound of the error of inference over each box."""
        return self._numbers[: self.count, 6]

    @property
    def axis(self) -> Ints:
        """Where to split each box; -1 for a single cell."""
        return self._axis[: self.count, 0]

    @property
    def open(self) -> Floats:
        """The share of all people who are undecided in each box."""
        return np.asarray(self.shares * np.maximum(1.0 - self.fair - self.unfair, 0.0))

    @property
    def open_count(self) -> int:
        """How many boxes are undecided and can be split."""
        return int(np.count_nonzero((self.axis >= 0) & (self.open > 0)))

    def widest_open(self, most: int) -> Ints:
        """Return the boxes that can be split with the largest undecided shares, at most so many.

        The smallest of them that have less than a hundredth of their shares together are left out: they take as long.
        """
        open_shares = np.where(self.axis >= 0, self.open, 0.0)
        most = min(most, self.count)
        largest = np.argpartition(-open_shares, most - 1)[:most]
        largest = largest[np.argsort(-open_shares[largest], kind="stable")]
        shares = open_shares[largest]
        before = np.cumsum(shares) - shares
        return np.sort(largest[(shares > 0) & (before < (1 - _SMALLEST) * shares.sum())])

    def replace(self, rows: Ints, boxes: Boxes, decided: Decided) -> None:
        """Replace each of some boxes by both of its halves: all first halves, then all second halves."""
        n = len(rows)
        self._set(rows, boxes.take(slice(0, n)), decided, slice(0, n))
        self._add(boxes.take(slice(n, None)), decided, slice(n, None))

    def update(self, rows: Ints, decided: Decided) -> None:
        """Store what is now proven about some boxes."""
        self._set(rows, self.boxes.take(rows), decided, slice(None))

    def improve(self, rows: Ints, decided: Decided) -> None:
        """Store larger proven shares of some boxes."""
        boxes = self.boxes.take(rows)
        fair, unfair = decided.counts.shares(boxes)
        better = fair + unfair > self.fair[rows] + self.unfair[rows]
        self._set(rows[better], boxes.take(better), decided, better)

    def totals(self) -> tuple[float, float, float]:
        """Return lower bounds of the shares of all people who are treated equally, and unequally, and the rest."""
        proven = Proven(self._everyone.cells[0])
        proven.add(self.counts, self.boxes)
        fair, unfair = (_round_down(Fraction(people, proven.cells)) for people in (proven.fair, proven.unfair))
        return fair, unfair, 0.0 if proven.fair + proven.unfair == proven.cells else 1.0 - (fair + unfair)

    def _add(self, boxes: Boxes, decided: Decided, part: slice = slice(None)) -> None:
        start, self.count = self.count, self.count + len(boxes)
        if self.count > len(self._first):
            room = max(1024, 2 * self.count)
            self._first, self._last = _grown(self._first, room), _grown(self._last, room)
            self._numbers, self._axis = _grown(self._numbers, room), _grown(self._axis, room)
        self._set(np.arange(start, self.count), boxes, decided, part)

    def _set(self, rows: Ints, boxes: Boxes, decided: Decided, part: slice | Bools) -> None:
        self._first[rows], self._last[rows] = boxes.first, boxes.last
        shares, counts = np.prod((boxes.last - boxes.first + 1) / self._cells, axis=1), decided.counts.take(part)
        numbers = shares, counts.fair, counts.unfair, counts.exact, *counts.shares(boxes), decided.error[part]
        self._numbers[rows] = np.stack(numbers, 1)
        self._axis[rows, 0] = decided.axis[part]


def _round_down(share: Fraction) -> float:
    nearest = float(share)
    return nearest if nearest <= share else math.nextafter(nearest, 0.0)


def _grown(array: np.ndarray, rows: int) -> np.ndarray:
    larger = np.empty((rows, array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger


LISTED = 2**14  # inputs of a box that is listed instead of split
_ENTRIES = 2_000_000  # in one temporary array of a round
_MOST_BOXES = 256  # that are split in one part of a round
_MOST_INPUTS = 16 * LISTED  # that are listed in one part of a round
_OF_OPEN = 8  # one of so many open boxes is split in a round; at least one part of them is
_RECOUNT = 0.02  # of the time, to count the boxes that are left more precisely
_FINER = 6  # times as precisely
_SAMPLED = 1024  # people among whom some are looked for who are treated unequally
_VISITED = 1  # of them, to whose cells the first splits lead
_FEW = LISTED // 16  # inputs of their boxes that are listed at once
_FIRST_SPLITS = 6  # of all boxes, before any is decided


@dataclass(frozen=True, eq=False)
class Part:
    """Boxes to decide together, with bounds of the error of inference over each ``(n,)``.

    ``rows`` are the numbers of the leaves that they come from: both halves of each leaf, or boxes that are to be
    listed, with the share of each that is ``decided``.
    """

    rows: Ints
    boxes: Boxes
    error: Floats
    decided: Floats | None = None


def decide_part(decider: Decider, part: Part) -> Decided:
    """Decide the boxes of a part, here or on a worker."""
    if part.decided is None:
        return decider.decide(part.boxes, part.error)
    return decider.list_people(part.boxes, part.error, part.decided)


def search(
    decider: Decider,
    elapsed: Callable[[], float],
    seconds: float,
    enough: float,
    seed: int,
    progress: Progress | None = None,
    workers: Engine = HERE,
) -> Leaves:
    """Return boxes that cover everyone, after so many seconds, or when at most ``enough`` is undecided.

    The boxes are the same for any number of workers, unless the time ends.
    """
    if is_blind(decider.model, decider.people):
        everyone = Counts(np.ones(1), np.zeros(1), np.zeros(1, np.bool_))
        return Leaves(decider.people.everyone, Decided(everyone, np.array([-1]), np.zeros(1)))
    searching = _Search(decider, seed)
    until = seconds * (1 - _RECOUNT if decider.counting else 1)
    with workers.open(decide_part, decider, (Decided, Counts)) as pool:
        while (undecided := searching.undecided) > enough and elapsed() < until:
            _report(progress, undecided)
            parts = searching.next_round()
            if not parts:
                break
            # A single part is not worth sending.
            decided = run_in_pool(pool, workers.window, parts) if len(parts) > 1 else _decide_here(decider, parts)
            for part, found in decided:
                searching.take(part, found)
                if elapsed() >= until or searching.undecided <= enough:
                    break
    _report(progress, searching.undecided)
    if decider.counting:
        while (undecided := searching.undecided) > enough and elapsed() < seconds and searching.recount():
            _report(progress, undecided)
    return searching.leaves


def _decide_here(decider: Decider, parts: list[Part]) -> Iterator[tuple[Part, Decided]]:
    return ((part, decide_part(decider, part)) for part in parts)


def _report(progress: Progress | None, undecided: float) -> None:
    if progress is not None:
        progress("decided", round(10_000 * (1 - undecided)), 10_000)


def _boxes_in_a_round(width: int, pieces: int, forms: int) -> int:
    """Return how many boxes to split in one round, for a network with layers of at most this width."""
    return max(4, min(_MOST_BOXES, _ENTRIES // min(max(width, forms), 64) // (2 * pieces * width)))


class _Search:
    """The boxes so far, and what to do with them next."""

    def __init__(self, decider: Decider, seed: int) -> None:
        self._decider = decider
        people, prover = decider.people, decider.prover
        self._most = _boxes_in_a_round(
            max(decider.model.widths), len(people.pieces.first), len(prover.requirement.outputs)
        )
        self._recounted: Ints | None = None
        root = people.everyone
        error = prover.errors(root)
        if self._listable(root)[0]:
            self.leaves = Leaves(root, decider.list_people(root, error))
        else:
            self.leaves = Leaves(root, decider.decide(root, error))
            if self.leaves.open[0] > 0:
                self._visit(draw_people(decider, _SAMPLED, _VISITED, seed))

    @property
    def undecided(self) -> float:
        """The share of all people who are undecided."""
        return float(self.leaves.open.sum())

    def next_round(self) -> list[Part]:
        """Return the boxes with the largest undecided shares in parts: some to be listed, and halves of the others."""
        leaves = self.leaves
        most = max(1, leaves.open_count // (_OF_OPEN * self._most))  # parts of either kind
        rows = leaves.widest_open(most * self._most)
        listable = self._listable(leaves.boxes.take(rows))
        decided = leaves.fair + leaves.unfair
        parts = [
            Part(part, leaves.boxes.take(part), leaves.error[part], decided[part]) for part in self._cut(rows[listable])
        ]
        split = rows[~listable]
        for start in range(0, len(split), self._most):
            part = split[start : start + self._most]
            halves = self._decider.people.halved(leaves.boxes.take(part), leaves.axis[part])
            parts.append(Part(part, halves, np.tile(leaves.error[part], 2)))
        return parts

    def _cut(self, rows: Ints) -> list[Ints]:
        """Return boxes that are to be listed in parts of a limited number of inputs."""
        part = np.cumsum(count_inputs(self._decider.people, self.leaves.boxes.take(rows))) // _MOST_INPUTS
        return np.split(rows, np.flatnonzero(np.diff(part)) + 1) if len(rows) else []

    def take(self, part: Part, decided: Decided) -> None:
        """Store what is proven about the boxes of a part."""
        if part.decided is not None:
            self.leaves.update(part.rows, decided)
        else:
            self.leaves.replace(part.rows, part.boxes, decided)

    def recount(self) -> bool:
        """Count some boxes again with finer bins, those with the largest undecided shares first."""
        if self._recounted is None:
            self._fine = self._decider.finer(_FINER)
            self._recounted = np.argsort(-self.leaves.open, kind="stable")
        rows, self._recounted = self._recounted[:128], self._recounted[128:]
        rows = rows[(self.leaves.open[rows] > 0) & (self.leaves.axis[rows] >= 0)]
        if not len(rows):
            return False
        self.leaves.improve(rows, self._fine.decide(self.leaves.boxes.take(rows), self.leaves.error[rows]))
        return True

    def _listable(self, boxes: Boxes, most: int = LISTED) -> Bools:
        return np.asarray(count_inputs(self._decider.people, boxes) <= most)

    def _visit(self, cells: Ints) -> None:
        """Split the box of all people into several, further towards some cells ``(people, axes)``; decide all at once.

        Deciding so many boxes takes hardly longer than deciding one.
        """
        leaves = self.leaves
        importance = self._decider.importance(self._decider.people.everyone)[0]
        for _ in range(_FIRST_SPLITS):
            self._halve(np.arange(leaves.count), importance)
        for cell in cells:
            row = int(np.flatnonzero(((leaves.boxes.first <= cell) & (cell <= leaves.boxes.last)).all(axis=1))[0])
            while (
                not self._listable(box := leaves.boxes.take(np.array([row])), _FEW)[0]
                and self._decider.people.divisible(box).any()
            ):
                upper = leaves.count
                self._halve(np.array([row]), importance)
                row = row if (cell <= leaves.boxes.last[row]).all() else upper
        rows = np.arange(leaves.count)
        listable = self._listable(leaves.boxes, _FEW)
        small, large = rows[listable], rows[~listable]
        if len(small):
            leaves.update(small, self._decider.list_people(leaves.boxes.take(small), leaves.error[small]))
        for start in range(0, len(large), 2 * self._most):
            part = large[start : start + 2 * self._most]
            leaves.update(part, self._decider.decide(leaves.boxes.take(part), leaves.error[part]))

    def _halve(self, rows: Ints, importance: Floats) -> None:
        """Split boxes where they are widest in terms of importance, without deciding their halves."""
        boxes = self.leaves.boxes.take(rows)
        people = self._decider.people
        widths = np.where(people.divisible(boxes), boxes.last - boxes.first, 0)
        some = np.flatnonzero(widths.any(axis=1))
        rows, boxes, widths = rows[some], boxes.take(some), widths[some]
        axis = np.where(widths > 0, importance * (widths + 1), -1.0).argmax(axis=1)
        nothing = Decided.nothing(np.tile(axis, 2), np.tile(self.leaves.error[rows], 2))
        self.leaves.replace(rows, people.halved(boxes, axis), nothing)

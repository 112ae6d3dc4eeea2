"""Which share of a box is proven to be treated equally, and which unequally.

For each lead of a class over another, and each piece of the protected values, there is a linear form below the lead
(`forms`). Their unprotected parts have a mean g over the pieces, and a number for each piece p with ``g(x) + a_p <=
lead(x, p)`` for every person x of the box. So the lead is above 0 for all pieces where g is above a threshold, and the
share of these people is counted from the distribution of g. People for whom one class is proven with some protected
values, and another class with others, are treated unequally: `_count_unfair` counts them the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.bounds.inference import closing_error, lead_error
from fairmend.network import Network
from fairmend.network.decision import enclose_log_odds
from fairmend.quantifying.cases import Cases, link_looseness
from fairmend.quantifying.count import BINS
from fairmend.quantifying.forms import LeadForms, lead_forms, leads
from fairmend.quantifying.shares import count_share, may_exceed
from fairmend.quantifying.sides import Side, Threshold, best_threshold, common_threshold, make_side, up
from fairmend.quantifying.space import Boxes, Space

_NOTICEABLE = 20  # the error of inference is computed again where it is more than this part of what is open


@dataclass(frozen=True, eq=False)
class Decided:
    """What is proven about boxes: shares of each box, and what to do next; all ``(n,)``.

    ``fair`` and ``unfair`` are lower bounds of shares. ``axis`` is where to split, or -1; ``error`` bounds the error of
    inference over the box.
    """

    fair: Floats
    unfair: Floats
    axis: Ints
    error: Floats

    @property
    def open(self) -> Floats:
        """The share of each box that is undecided."""
        return np.maximum(1.0 - self.fair - self.unfair, 0.0)


class Spreads(NamedTuple):
    """Between which ends the classes or scores of people lie, with some inputs of each: all ``(people, scores)``.

    They are nowhere outside ``low`` to ``high``, and there is one at ``sure_low`` or below, and one at ``sure_high`` or
    above. (Of classes that are not sure, there is none.)
    """

    low: Floats
    high: Floats
    sure_low: Floats
    sure_high: Floats


class Decider:
    """Decides boxes of a space for a network."""

    def __init__(self, network: Network, space: Space, *, counting: bool = True, bins: int = BINS) -> None:
        self.network, self.space, self.counting, self.bins = network, space, counting, bins
        self.leads = leads(network)
        low, high = enclose_log_odds(network.threshold)
        closing = closing_error(network, np.array([0, 1]))  # a program may decide on probabilities of its own
        if network.outputs > 2:
            needs = np.full(len(self.leads), closing.max())
        else:
            needs = np.array([high + closing[1], closing[0] - low])
        self.needs = np.nextafter(needs, np.inf)
        """What each lead must exceed, but for the error of inference."""

    def root_error(self) -> float:
        """Return a bound of the error of inference for all people."""
        return float(self.error_over(self.space.root())[0])

    def error_over(self, boxes: Boxes) -> Floats:
        """Return a bound of the error of inference of any lead over each box."""
        low, high = self.space.hulls(boxes, self.space.cases(boxes))
        found = np.zeros(len(low))
        for label in range(self.network.outputs) if self.network.outputs > 2 else [1]:
            classes = np.full(len(low), label)
            found = np.maximum(found, lead_error(self.network, low, high, classes, thorough=True))
        return np.asarray(found.reshape(len(boxes), -1).max(axis=1))

    def spreads(self, X: FloatArray, people: int, error: float) -> Spreads:
        """Return which classes so many people surely have with all of these inputs X (people * inputs, width).

        A logit that is computed in the network's own precision is within the error of inference of the real one, and
        so is a logit that is computed elsewhere. So a lead of more than twice this error is proven for any program.
        """
        sure = self._sure_classes(X, error).reshape(people, -1)
        open_, none = (sure < 0).any(axis=1), self.network.outputs + 2  # above every class
        low, high = np.where(sure < 0, none, sure).min(axis=1), sure.max(axis=1)
        ends = np.where(open_, -1, low), np.where(open_, none, high), low, high
        return Spreads(*(end[:, None].astype(np.float64) for end in ends))

    def settle(self, spreads: Spreads) -> tuple[Bools, Bools]:
        """Return who is surely treated equally, and who unequally, given the spreads over all similar people."""
        low, high, sure_low, sure_high = (end[:, 0] for end in spreads)
        return low == high, sure_low < sure_high

    def _sure_classes(self, X: FloatArray, error: float) -> Ints:
        """Return the class of each input if it is proven, else -1."""
        logits = self.network.logits(X).astype(np.float64).reshape(len(X), -1)
        if logits.shape[1] == 1:
            logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
        need = up(up(self.needs + error) + error)
        sure = np.full(len(X), -1)
        for label in range(logits.shape[1]):
            rows = self._rows_of(label)
            ahead = [logits[:, label] - logits[:, self.leads[row, 1]] > need[row] for row in rows]
            sure[np.all(ahead, axis=0)] = label
        return sure

    def decide(self, boxes: Boxes, error: Floats) -> Decided:
        """Decide boxes, given bounds of the error of inference over each ``(n,)``."""
        space = self.space
        cases = space.cases(boxes)
        forms = self._forms(boxes, cases)
        sides = self._sides(boxes, forms, error, cases)
        all_fair, all_unfair = self._whole(sides)
        fair, unfair = np.where(all_fair, 1.0, 0.0), np.where(all_unfair, 1.0, 0.0)
        rest = np.flatnonzero(~(all_fair | all_unfair))
        axis, slab = self._split_axis(boxes, forms), np.full(len(rest), np.inf)
        if len(rest) and self.counting:
            some, left = boxes.take(rest), [side.take(rest) for side in sides]
            fair[rest], slab = self._count_fair(some, left)
            unfair[rest] = self._count_unfair(some, left, error[rest], slab)
        tighter = error.copy()
        tighter[rest] = self._tighter(boxes.take(rest), error[rest], slab)
        return self._decided_again(boxes, error, Decided(fair, unfair, axis, tighter))

    def _decided_again(self, boxes: Boxes, error: Floats, found: Decided) -> Decided:
        """Decide boxes that cannot be split once more, where the error of inference is much smaller than it was."""
        again = np.flatnonzero((found.axis == -1) & (found.error < 0.9 * error))
        if len(again):
            last = self.decide(boxes.take(again), found.error[again])
            found.fair[again], found.unfair[again], found.error[again] = last.fair, last.unfair, last.error
        return found

    def _forms(self, boxes: Boxes, cases: Cases) -> LeadForms:
        return lead_forms(self.network, *self.space.hulls(boxes, cases))

    def _sides(self, boxes: Boxes, forms: LeadForms, error: Floats, cases: Cases) -> list[Side]:
        return [
            make_side(
                self.space,
                boxes,
                (forms.A[:, row], forms.c[:, row], forms.least[:, row]),
                up(self.needs[row] + error),
                cases,
            )
            for row in range(len(self.leads))
        ]

    def _rows_of(self, label: int) -> Ints:
        """Return the leads of a class."""
        return np.flatnonzero(self.leads[:, 0] == label)

    @property
    def _classes(self) -> range:
        return range(max(2, self.network.outputs))

    def _whole(self, sides: list[Side]) -> tuple[Bools, Bools]:
        """Return which boxes are treated equally as a whole, and which unequally."""
        classes = [np.all([sides[row].sure for row in self._rows_of(k)], axis=0) for k in self._classes]
        everywhere = np.any([sure.all(axis=1) for sure in classes], axis=0)
        return everywhere, np.sum([sure.any(axis=1) for sure in classes], axis=0) > 1

    def _count_fair(self, boxes: Boxes, sides: list[Side]) -> tuple[Floats, Floats]:
        """Return shares that are treated equally, and roughly how much of the forms is open in between."""
        thresholds = [common_threshold(self.space, boxes, side) for side in sides]
        slab = self._slab(boxes, sides)
        proven = [np.where(side.sure.all(axis=1), 1.0, 0.0) for side in sides]
        for share, threshold in zip(proven, thresholds, strict=True):
            part = np.flatnonzero((share == 0) & may_exceed(self.space, boxes, threshold))
            some = Threshold(threshold.g[part], threshold.value[part])
            share[part] = count_share(self.space, boxes.take(part), some, slab[part], self.bins)
        # A class needs all of its leads; at most so many people miss one of them.
        missed = [sum(1.0 - proven[row] for row in self._rows_of(k)) for k in self._classes]
        fair = np.sum([np.maximum(1.0 - up(each), 0.0) for each in missed], axis=0)
        return np.minimum(fair, 1.0), slab

    def _slab(self, boxes: Boxes, sides: list[Side]) -> Floats:
        """Return how much of the forms is open: how far a lead and its opposite are from proven in the middle.

        This is without the difference that protected values make. With more leads, it is a part of their spread.
        """
        lower, upper = self.space.person_hull(boxes)
        if len(sides) > 2:
            spans = [np.abs(side.A.reshape(*side.c.shape, -1).mean(axis=1)) * (upper - lower) for side in sides]
            return np.asarray(np.min([span.sum(axis=1) for span in spans], axis=0)) / 4
        centre = np.repeat((lower + upper) / 2, self.space.pieces, axis=0)
        both = ((sides[0].A + sides[1].A) * centre).sum(axis=1).reshape(sides[0].c.shape) + sides[0].c + sides[1].c
        return np.asarray(sides[0].need + sides[1].need - both.mean(axis=1))

    def _count_unfair(self, boxes: Boxes, sides: list[Side], error: Floats, slab: Floats) -> Floats:
        """Return the share of people who surely have one class with some protected values, and another with others."""
        if len(sides) == 2 and self.space.single:
            pair = [side.piece(self._best_piece(boxes, side)) for side in sides]
            return self._count_pair(boxes, pair, slab)
        unfair = np.zeros(len(boxes))
        values, classes = self._unequal_values(boxes)
        part = np.flatnonzero(classes[:, 0] != classes[:, 1])
        if len(part):
            some, cases = boxes.take(part), self._cases_of(values[part].ravel())
            forms = self._forms(some, cases)
            found = self._sides(some, forms, error[part], cases)
            unfair[part] = self._count_values(some, found, classes[part], slab[part])
        return unfair

    def _best_piece(self, boxes: Boxes, side: Side) -> Ints:
        """Return the piece whose form is highest in the middle of each box."""
        lower, upper = self.space.person_hull(boxes)
        centre = np.repeat((lower + upper) / 2, self.space.pieces, axis=0)
        value = (side.A * centre).sum(axis=1).reshape(len(boxes), -1) + side.c + side.protected.most
        return np.asarray(value.argmax(axis=1))

    def _count_pair(self, boxes: Boxes, pair: list[Side], slab: Floats) -> Floats:
        """Return the share in which the lead of class 1 is proven for one piece, and that of class 0 for another."""
        g = (pair[0].A - pair[1].A) / 2
        g[:, self.space.columns] = 0.0
        low, high = best_threshold(self.space, boxes, pair[0], g), -best_threshold(self.space, boxes, pair[1], -g)
        above, below = Threshold(g, low), Threshold(-g, -high)
        possible = may_exceed(self.space, boxes, above) & may_exceed(self.space, boxes, below)
        part = np.flatnonzero((low < high) & possible)
        share = np.zeros(len(boxes))
        some = Threshold(g[part], low[part])
        share[part] = count_share(self.space, boxes.take(part), some, slab[part], self.bins, high[part])
        return share

    def _unequal_values(self, boxes: Boxes) -> tuple[Ints, Ints]:
        """Return the numbers of two protected values ``(n, 2)`` of the middle person of each box, and their classes.

        They are those with the highest and the lowest lead of class 1, or of the class that is most frequent among
        all values. Nothing is proven about them here.
        """
        middle = (boxes.first + boxes.last) // 2
        values = self.space.values
        X = self.space.people(middle, values, self.network.dtype)
        logits = self.network.logits(X).astype(np.float64).reshape(len(boxes), len(values), -1)
        classes = self.network.predict(X).reshape(len(boxes), -1)
        if logits.shape[2] > 2:
            label = classes[:, :1, None]
            own = np.take_along_axis(logits, label, axis=2)[:, :, 0]
            others = logits.copy()
            np.put_along_axis(others, np.broadcast_to(label, (*logits.shape[:2], 1)), -np.inf, axis=2)
            lead = own - others.max(axis=2)
        else:
            lead = logits[:, :, -1] - (logits[:, :, 0] if logits.shape[2] == 2 else 0.0)
        ends = np.stack([lead.argmax(axis=1), lead.argmin(axis=1)], axis=1)
        return ends, np.take_along_axis(classes, ends, axis=1)

    def _cases_of(self, numbers: Ints) -> Cases:
        """Return cases of single protected values with these numbers ``(rows,)``."""
        values = self.space.values[numbers]
        return Cases(values, values, self.space.value_choices[numbers])

    def _count_values(self, boxes: Boxes, sides: list[Side], classes: Ints, slab: Floats) -> Floats:
        """Return the share in which two protected values surely have the classes ``(n, 2)``."""
        first, second = (np.full(len(boxes), piece) for piece in (0, 1))
        if len(sides) == 2:
            rows = np.where(classes[:, 0] == 1, 0, 1)
            high = [side.piece(rows if number == 0 else 1 - rows) for number, side in enumerate(sides)]
            return self._count_pair(boxes, high, slab)
        missed = np.zeros(len(boxes))
        for row, (label, _) in enumerate(self.leads.tolist()):
            for column, piece in ((0, first), (1, second)):
                part = np.flatnonzero(classes[:, column] == label)
                side, some = sides[row].take(part).piece(piece[part]), boxes.take(part)
                threshold = common_threshold(self.space, some, side)
                share = np.where(side.sure[:, 0], 1.0, 0.0)
                left = np.flatnonzero((share == 0) & may_exceed(self.space, some, threshold))
                left_over = Threshold(threshold.g[left], threshold.value[left])
                share[left] = count_share(self.space, some.take(left), left_over, slab[part][left], self.bins)
                missed[part] = up(missed[part] + up(1.0 - share))
        return np.maximum(1.0 - up(missed), 0.0)

    def _tighter(self, boxes: Boxes, error: Floats, slab: Floats) -> Floats:
        """Return the error of inference, computed again for single cells and where it makes up much of the slab."""
        again = np.flatnonzero((_NOTICEABLE * error > slab) | (boxes.first == boxes.last).all(axis=1))
        if len(again):
            error = error.copy()
            error[again] = np.minimum(error[again], self.error_over(boxes.take(again)))
        return error

    def importance(self, boxes: Boxes) -> Floats:
        """Return how much each cell of each axis adds to what is open in boxes, roughly: ``(n, axes)``."""
        forms = self._forms(boxes, self.space.cases(boxes))
        return self._scores(boxes, forms) / (boxes.last - boxes.first + 1)

    def _split_axis(self, boxes: Boxes, forms: LeadForms) -> Ints:
        """Return the axis that adds most to the distance of the forms from the leads; -1 for a box of a single cell."""
        splits = boxes.last > boxes.first
        score = np.where(splits, self._scores(boxes, forms), -1.0)
        return np.where(splits.any(axis=1), score.argmax(axis=1), -1)

    def _scores(self, boxes: Boxes, forms: LeadForms) -> Floats:
        """Return how much each axis adds to the distance of the forms from the leads, ``(n, axes)``."""
        lower, upper = self.space.hull(boxes, similar=True)
        n, widths = len(boxes), upper - lower
        loose = forms.looseness.reshape(n, self.space.pieces, -1).mean(axis=1) * widths
        steep = np.abs(forms.A).mean(axis=1).reshape(n, self.space.pieces, -1).mean(axis=1) * widths
        columns = loose + 1e-9 * steep + 1e-300
        scores = np.full((n, len(self.space.axes)), 1e-300)
        for k, axis in enumerate(self.space.free):
            scores[:, k] = columns[:, axis.columns].sum(axis=1)
        if self.space.links is not None:
            scores += link_looseness(self.space, boxes, self.space.cases(boxes), np.abs(forms.A).mean(axis=1))
        return scores

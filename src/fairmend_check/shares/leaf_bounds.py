"""What linear bounds prove about a leaf: everyone in it, or those on the sure side of a linear form.

Over a leaf, each *lead* of a class over another is at least A·x + c, for each piece of the protected values. With a
form g of the unprotected columns, the rest A·x - g(x) + c has a lower bound in the leaf, so that the lead is proven for
all who have g(x) above a number. `tally` counts these people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend_check.kernel.bounds import Intervals, input_forms, interval_layers, interval_margins, leads
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Model, input_weights
from fairmend_check.kernel.rounding import TINY, Array, down, gamma, up
from fairmend_check.kernel.spec import Spec
from fairmend_check.kernel.threshold import Threshold
from fairmend_check.shares.leaf_work import LeafWork
from fairmend_check.shares.linked_people import Cases
from fairmend_check.shares.people import People
from fairmend_check.shares.tally import MOST_SUMS, Counts, Tally, axis_terms, is_exact

Whole = NDArray[np.int64]
Bools = NDArray[np.bool_]

_EVALUATED = 2**21  # numbers in the columns of the inputs that are evaluated at once
_FINE = 2  # times as many sums, where few people are between two numbers
_ROUNDED = 600  # terms are rounded to this part of what stays open in a leaf; so with six terms, 1 % more stays open


@dataclass(frozen=True, eq=False)
class LeafBoxes:
    """Boxes of cells (boxes, axes), how many cells each has, or 1 where that is not ``exact`` (boxes,)."""

    first: Whole
    last: Whole
    exact: Bools
    size: Array

    @staticmethod
    def of(first: Whole, last: Whole) -> LeafBoxes:
        """Return boxes first..last."""
        exact = is_exact(first, last)
        sizes = np.where(exact[:, None], last - first + 1, 1)
        return LeafBoxes(first, last, exact, np.prod(sizes.astype(np.float64), axis=1))

    def take(self, rows: Whole) -> LeafBoxes:
        """Return some of the boxes."""
        return LeafBoxes(self.first[rows], self.last[rows], self.exact[rows], self.size[rows])


@dataclass(frozen=True, eq=False)
class _Lead:
    """The lead of a class over another in boxes: at least A·x + c, and ``least`` in all of the box.

    A is (boxes, pieces, inputs), the others (boxes, pieces). The lead is proven where it is above ``need``. ``part``
    and ``best`` bound the protected part of A·x from below: that of everyone in the piece, and of someone.
    """

    A: Array
    c: Array
    least: Array
    need: Array
    part: Array
    best: Array

    @property
    def sure(self) -> Bools:
        """Where the lead is proven in all of the box (boxes, pieces)."""
        return np.asarray(self.least > self.need)

    def take(self, rows: Whole) -> _Lead:
        """Return the lead in some of the boxes."""
        return _Lead(*(each[rows] for each in (self.A, self.c, self.least, self.need, self.part, self.best)))

    def piece(self, numbers: Whole) -> _Lead:
        """Return the lead for one piece of each box (boxes,)."""
        at = np.arange(len(numbers)), numbers
        parts = (self.A, self.c, self.least, self.need, self.part, self.best)
        return _Lead(*(each[at][:, None] for each in parts))


class LeafProver:
    """Proves leaves of one model and spec."""

    def __init__(self, model: Model, spec: Spec, people: People) -> None:
        self.model, self.people, self.work = model, people, LeafWork(model, people)
        threshold = Threshold.of(spec.threshold, model.dtype)
        self.classes = max(2, model.outputs)
        # The lead of each class over another must exceed its need, plus the error of inference.
        self._labels = np.repeat(np.arange(self.classes), self.classes - 1)
        self._forms = np.concatenate([leads(model, np.array([label]))[0] for label in range(self.classes)])
        above, below = threshold.high + threshold.above, threshold.below - threshold.low
        needs = [below, above] if self.classes == 2 else [above] * self.classes
        self._needs = up(np.array(needs)[self._labels])

    def prove(self, first: Whole, last: Whole, count: Bools) -> Counts:
        """Return what can be proven of boxes first..last (boxes, axes), and of parts of those to ``count`` (boxes,)."""
        found = self._leads(first, last, self.people.cases(len(first)))
        sure = [np.all([found[row].sure for row in self._rows(label)], axis=0) for label in range(self.classes)]
        fair = np.any([each.all(axis=1) for each in sure], axis=0)
        unfair = np.sum([each.any(axis=1) for each in sure], axis=0) > 1
        counts = Counts(fair.astype(np.float64), unfair.astype(np.float64), np.zeros(len(first), np.bool_))
        rest = np.flatnonzero(~(fair | unfair) & count)
        if len(rest) and self.people.axes:
            boxes = LeafBoxes.of(first[rest], last[rest])
            left = [lead.take(rest) for lead in found]
            counts.fair[rest], unit = self._count_equal(boxes, left)
            counts.unfair[rest], counts.exact[rest] = self._count_unequal(boxes, left, unit), boxes.exact
        return counts

    def widest_axis(self, first: Whole, last: Whole) -> Whole:
        """Return the axis of each box that is widest in terms of the weights: where to halve it."""
        weights, scores = input_weights(self.model), []
        for k, axis in enumerate(self.people.axes):
            low, high = axis.hull(first[:, k], last[:, k])
            width = (high - low) @ weights[axis.columns] if axis.columns.stop <= len(weights) else np.zeros(len(first))
            scores.append(np.where(last[:, k] > first[:, k], width, -1.0))
        return np.asarray(np.argmax(scores, axis=0))

    def errors(self, first: Whole, last: Whole) -> Array:
        """Return bounds of the error of inference of leads over boxes (boxes,)."""
        lower, upper = self.people.hulls(first, last, self.people.cases(len(first)))
        self.work.add(self.bounds_work(len(first), len(self.people.pieces.first)))
        with np.errstate(all="ignore"):
            nodes = interval_layers(self.model, lower, upper)[:-1]
        return np.asarray(self._errors(lower, upper, nodes).reshape(len(first), -1).max(axis=1))

    def verdicts(self, low: Array, high: Array, error: Array) -> tuple[Bools, Bools]:
        """Return who is surely treated equally, and who unequally, from outputs (people, inputs, outputs)."""
        people, inputs, outputs = low.shape
        errors = np.repeat(error, inputs)
        classes = self.sure_classes(low.reshape(-1, outputs), high.reshape(-1, outputs), errors).reshape(people, inputs)
        known = classes.max(axis=1)
        fair = (classes == classes[:, :1]).all(axis=1) & (known >= 0)
        return fair, ((classes >= 0) & (classes < known[:, None])).any(axis=1)

    def sure_classes(self, low: Array, high: Array, error: Array) -> Whole:
        """Return the classes that outputs from low to high (points, outputs) surely have, given errors; -1 if none."""
        classes = np.full(len(low), -1, np.int64)
        for label in range(self.classes):
            lead = interval_margins(self.model, np.full(len(low), label), low, high)
            classes[lead > up(self._needs[self._rows(label)[0]] + error)] = label
        return classes

    @property
    def forms(self) -> int:
        """How many leads there are."""
        return len(self._forms)

    @property
    def coefficients(self) -> int:
        """How many coefficients the forms of a leaf have: those of each lead in each piece."""
        return len(self._forms) * len(self.people.pieces.first) * self.people.width

    def bounds_work(self, leaves: int, pieces: int) -> int:
        """Return the work to bound leaves, each in so many pieces."""
        return self.work.of_bounds(leaves * pieces, self.forms) + self.work.of_forms(self.forms, leaves * pieces)

    def _rows(self, label: int) -> Whole:
        """Return the numbers of the leads of a class."""
        return np.flatnonzero(self._labels == label)

    def _errors(self, lower: Array, upper: Array, nodes: Intervals) -> Array:
        forms = self._forms if self.classes > 2 else self._forms[:1]  # the other one is its negative
        errors = output_errors(self.model, lower, upper, nodes, np.broadcast_to(forms, (len(lower), *forms.shape)))
        return np.asarray(errors.max(axis=1))

    def _leads(self, first: Whole, last: Whole, cases: Cases) -> list[_Lead]:
        """Return the leads in cases of boxes."""
        lower, upper = self.people.hulls(first, last, cases)
        forms = np.broadcast_to(self._forms, (len(lower), *self._forms.shape))
        self.work.add(self.bounds_work(len(first), len(cases.first) // len(first)))
        found = input_forms(self.model, forms, lower, upper)
        shape = len(first), len(lower) // len(first)
        error = self._errors(lower, upper, found.nodes).reshape(shape)
        each = []
        for row, need in enumerate(self._needs):
            part, best = (each.reshape(shape) for each in self._protected_ends(found.A[:, row], cases))
            A, c = self.people.person_forms(first, last, cases, found.A[:, row], found.c[:, row])
            A, c = A.reshape(*shape, -1), c.reshape(shape)
            linear = down(self._least(first, last, A, c, similar=True) + part)
            least = np.maximum(found.least[:, row].reshape(shape), linear)
            each.append(_Lead(A, c, least, up(need + error), part, best))
        return each

    def _count_equal(self, boxes: LeafBoxes, found: list[_Lead]) -> tuple[Array, Array]:
        """Return how many people of boxes get one class, and to how much terms are rounded; both (boxes,)."""
        forms = [self._free(lead.A.mean(axis=1)) for lead in found]
        ends = [self._everyone(boxes, lead, g) for lead, g in zip(found, forms, strict=True)]
        unit = self._unit(boxes, forms, ends)
        total = np.zeros(len(boxes.size))
        for label in range(self.classes):
            missed = np.zeros(len(boxes.size))
            for row in self._rows(label):
                whole = found[row].sure.all(axis=1)
                missed = missed + self._count_missing(boxes, whole, forms[row], ends[row], unit)
            total = total + self._left(boxes, missed, len(self._labels))
        rounded = np.clip(total - gamma(self.classes + 4), 0.0, 1.0)
        return np.where(boxes.exact, total, rounded), unit

    def _count_unequal(self, boxes: LeafBoxes, found: list[_Lead], unit: Array) -> Array:
        """Return how many people of boxes get different classes with two protected values (boxes,)."""
        counts = np.zeros(len(boxes.size))
        if self.classes == 2:
            one, zero = (lead.piece(self._best_piece(boxes, lead)) for lead in (found[1], found[0]))
            counts = self._count_between(boxes, one, zero, unit)
            if self.people.single:
                return counts
        rows, values, classes = self._unequal_values(boxes)
        if len(rows):
            some = boxes.take(rows)
            exactly = self._leads(some.first, some.last, values)
            counts[rows] = np.maximum(counts[rows], self._count_values(some, exactly, classes, unit[rows]))
        return counts

    def _count_values(self, boxes: LeafBoxes, found: list[_Lead], classes: Whole, unit: Array) -> Array:
        """Return how many people surely have these classes (boxes, 2) with two values, the pieces of the leads."""
        if self.classes == 2:
            first, second = (np.full(len(classes), k) for k in (0, 1))
            return self._count_between(boxes, found[1].piece(first), found[0].piece(second), unit)
        missed = np.zeros(len(boxes.size))
        for row, label in enumerate(self._labels):
            for k in (0, 1):
                some = np.flatnonzero(classes[:, k] == label)
                if len(some):
                    lead, here = found[row].take(some).piece(np.full(len(some), k)), boxes.take(some)
                    g = self._free(lead.A[:, 0])
                    end = self._everyone(here, lead, g)
                    missed[some] += self._count_missing(here, lead.sure[:, 0], g, end, unit[some])
        return self._left(boxes, missed, len(self._labels))

    def _count_missing(self, boxes: LeafBoxes, whole: Bools, g: Array, end: Array, unit: Array) -> Array:
        """Return how many people of boxes do not have g above an end, at most; none where it is so for the whole."""
        people, counts = self.people, np.where(whole, boxes.size, 0.0)
        ends = [
            axis.ends(g[:, axis.columns], boxes.first[:, k], boxes.last[:, k]) for k, axis in enumerate(people.axes)
        ]
        some = np.flatnonzero(~whole & (np.sum([each.max(axis=1) for each in ends], axis=0) > end))
        if len(some):
            tally = self._tally(boxes.take(some), g[some], unit[some])
            counts[some] = tally.between(end[some], np.full(len(some), np.inf))
        return np.where(boxes.exact, boxes.size - counts, up(boxes.size - counts))

    def _left(self, boxes: LeafBoxes, missed: Array, additions: int) -> Array:
        """Return how many people are left if at most so many are missed, a sum of so many numbers."""
        slack = np.where(boxes.exact, 0.0, gamma(2 * additions) * missed)
        return np.maximum(np.where(boxes.exact, boxes.size - missed, down(boxes.size - up(missed + slack))), 0.0)

    def _count_between(self, boxes: LeafBoxes, one: _Lead, zero: _Lead, unit: Array) -> Array:
        """Return how many people get class 1 by one piece, and class 0 by another: leads of one piece each."""
        g = self._free((one.A[:, 0] - zero.A[:, 0]) / 2)
        low, high = self._someone(boxes, one, g), -self._someone(boxes, zero, -g)
        counts, some = np.zeros(len(boxes.size)), np.flatnonzero(low < high)
        if len(some):
            finer = np.minimum(unit, (high - low) / _ROUNDED)[some]
            tally = self._tally(boxes.take(some), g[some], finer, _FINE * MOST_SUMS)
            counts[some] = tally.between(low[some], high[some])
        return counts

    def _everyone(self, boxes: LeafBoxes, lead: _Lead, g: Array) -> Array:
        """Return what g must exceed for the lead of all who are similar, whatever the piece (boxes,)."""
        rest = self._least(boxes.first, boxes.last, lead.A - g[:, None], lead.c, similar=False)
        farther = self._similar(boxes.first, boxes.last, lead.A)[0]
        return np.asarray(up(lead.need - down(down(rest + lead.part) - farther)).max(axis=1))

    def _someone(self, boxes: LeafBoxes, lead: _Lead, g: Array) -> Array:
        """Return what g must exceed for the lead of someone who is similar, by a lead of one piece (boxes,)."""
        rest = self._least(boxes.first, boxes.last, lead.A - g[:, None], lead.c, similar=False)
        surely = self._similar(boxes.first, boxes.last, lead.A)[1]
        return np.asarray(up(lead.need - down(down(rest + lead.best) + surely))[:, 0])

    def _unit(self, boxes: LeafBoxes, forms: list[Array], ends: list[Array]) -> Array:
        """Return to how much terms are rounded: a part of what two opposite leads leave open in the middle of a box."""
        if self.classes > 2:
            return np.zeros(len(boxes.size))
        middle = self.people.people_in((boxes.first + boxes.last) // 2)
        slab = np.sum([end - (g * middle).sum(axis=1) for g, end in zip(forms, ends, strict=True)], axis=0)
        return np.asarray(np.maximum(slab, 0.0) / _ROUNDED)

    def _best_piece(self, boxes: LeafBoxes, lead: _Lead) -> Whole:
        """Return the piece with the highest form in the middle of each box."""
        middle = self.people.people_in((boxes.first + boxes.last) // 2)
        return np.asarray(((lead.A * middle[:, None]).sum(axis=2) + lead.c + lead.best).argmax(axis=1))

    def _unequal_values(self, boxes: LeafBoxes) -> tuple[Whole, Cases, Whole]:
        """Return boxes with someone in the middle who is treated unequally.

        And two protected values of each with which they get different classes (boxes, 2), the higher class first.
        Which values these are matters to what is found, not to whether it is true.
        """
        middle, values = (boxes.first + boxes.last) // 2, self.people.values
        inputs = self.people.inputs(middle, values)
        self.work.add(self.work.of_inputs(len(inputs)))
        with np.errstate(all="ignore"):
            outputs = np.nan_to_num(self._outputs(inputs))
            excess = np.nan_to_num(outputs @ self._forms.T - self._needs)
        each = [excess[:, self._rows(label)].min(axis=1) for label in range(self.classes)]
        best = np.stack(each, axis=1).reshape(len(middle), len(values.first), self.classes)
        label, rows = best.argmax(axis=2), np.arange(len(middle))
        first = best.max(axis=2).argmax(axis=1)
        others = np.where(label == label[rows, first][:, None], -np.inf, best.max(axis=2))
        second = others.argmax(axis=1)
        found = np.flatnonzero(np.minimum(best.max(axis=2)[rows, first], others[rows, second]) > 0)
        pair = np.stack([first, second], axis=1)[found]
        order = np.argsort(-np.take_along_axis(label[found], pair, axis=1), axis=1)
        pair = np.take_along_axis(pair, order, axis=1)
        both = pair.ravel()
        cases = Cases(values.first[both], values.last[both], values.choice[both])
        return found, cases, np.take_along_axis(label[found], pair, axis=1)

    def _outputs(self, inputs: Array) -> Array:
        """Return lower bounds of the outputs for inputs (inputs, width), some after the others."""
        step = max(1, _EVALUATED // self.model.held)
        parts = [inputs[start : start + step] for start in range(0, len(inputs), step)]
        return np.concatenate([interval_layers(self.model, part, part)[-1][0] for part in parts])

    def _free(self, forms: Array) -> Array:
        """Return forms (boxes, inputs) without their protected part."""
        free = forms.copy()
        free[:, self.people.protected_columns] = 0.0
        return free

    def _tally(self, boxes: LeafBoxes, g: Array, unit: Array, most: int = MOST_SUMS) -> Tally:
        terms = [
            axis_terms(axis, g[:, axis.columns], boxes.first[:, k], boxes.last[:, k], boxes.exact)
            for k, axis in enumerate(self.people.axes)
        ]
        tally = Tally(terms, boxes.exact, unit, most)
        self.work.add(self.work.of_count(tally))
        return tally

    def _least(self, first: Whole, last: Whole, A: Array, c: Array, *, similar: bool) -> Array:
        """Return lower bounds of A·x + c over the unprotected columns of boxes (boxes, pieces), for A of any pieces.

        With ``similar``, x are all who are similar to people in the boxes.
        """
        people, (boxes, pieces, _) = self.people, A.shape
        least, size = c, np.abs(c)
        for k, axis in enumerate(people.axes):
            ends = people.similar(axis, first[:, k], last[:, k]) if similar else (first[:, k], last[:, k])
            columns = A[:, :, axis.columns].reshape(boxes * pieces, -1)
            values = axis.ends(columns, *(np.repeat(end, pieces) for end in ends))
            least = least + values.min(axis=1).reshape(c.shape)
            size = size + np.abs(values).max(axis=1).reshape(c.shape)
        return down(least - (gamma(len(people.axes) + 8) * size + TINY))

    def _protected_ends(self, A: Array, cases: Cases) -> tuple[Array, Array]:
        """Return lower bounds of the protected part of forms A (rows, inputs) in cases: of everyone, and of someone."""
        least, most, size = np.zeros((3, len(A)))
        for k, axis in enumerate(self.people.protected):
            columns, ends = A[:, axis.columns], (cases.first[:, k], cases.last[:, k])
            values = axis.ends(columns, *ends)
            least = least + values.min(axis=1)
            most = most + axis.ends(columns, *ends, inside=True).max(axis=1)
            size = size + np.abs(values).max(axis=1)
        slack = gamma(len(self.people.protected) + 8) * size + TINY
        return down(least - slack), down(most - slack)

    def _similar(self, first: Whole, last: Whole, A: Array) -> tuple[Array, Array]:
        """Return by how much forms A of similar people can be lower, and are higher for someone, within tolerances.

        Each is (boxes, pieces). Someone has a value that is higher, or lower, by the tolerance, unless that is outside
        its range for people of the box.
        """
        lower, higher = np.zeros((2, *A.shape[:2]))
        for k, axis in enumerate(self.people.axes):
            if axis.reach:
                slope = A[:, :, axis.column]
                least, most = axis.steps
                rises = (last[:, k] + axis.reach < axis.cells)[:, None]
                falls = (first[:, k] >= axis.reach)[:, None]
                lower = lower + np.abs(slope) * most
                higher = higher + np.where(np.where(slope > 0, rises, falls), np.abs(slope) * least, 0.0)
        room = gamma(2 * len(self.people.axes) + 8)
        return lower * (1 + room) + TINY, np.maximum(higher * (1 - room) - TINY, 0.0)

"""What can be proven of boxes: that everyone in them is treated equally, or unequally, or how many people are.

What a claim requires of people is that linear forms are above some numbers (`requirements`). With a form g of the same
columns, the rest A·x - g(x) + c has a lower bound in the box, so that the form is above its number for all who have
g(x) above another. `tally` counts these people.

`Work` limits what boxes cost. A file does not show beforehand how often its leaves are halved and their people counted.
The unit is a multiplication, of which there are more than a billion a second; what other steps cost is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.model import Dense, Model, input_weights
from fairmend_check.kernel.regions import box_work, point_work
from fairmend_check.kernel.rounding import Array, down, gamma, up
from fairmend_check.kernel.spec import Spec
from fairmend_check.shares.linked_people import Cases
from fairmend_check.shares.people import Bools, Boxes, People, Whole
from fairmend_check.shares.requirements import Bounded, CloseScores, Forms, requirement_of
from fairmend_check.shares.tally import MOST_SUMS, Counts, Tally, axis_terms

MAX_WORK = 10**13  # multiplications for all leaves: about two hours
_PER_PIECE = 50_000  # what a piece of a leaf costs beside its bounds
_PER_UNIT, _PER_COLUMN, _PER_LINK = 50, 100, 10  # what a form costs at each unit, each column, and that for each link
_PER_INPUT_LINK, _PER_INPUT_CATEGORY = 50, 100  # what an input costs for each link, and category of linked features
_PER_STEP = 100_000  # what a step costs for leaves that are proven at once, however few they are
_PER_REPLACED = 300  # what it costs beside that to replace a category of a linked feature
_EVALUATED = 2**21  # numbers in the columns of the inputs that are evaluated at once
_FEW_VALUES = 16  # protected values that are tried, each of which takes time, unless `evaluate` is fast
_FINE = 2  # times as many sums, where few people are between two numbers
PRECISE = 128  # terms are rounded to this part of what stays open in a box; so with six terms, 5 % more stays open


class Work:
    """Adds up the work for the boxes of a model, up to a limit."""

    def __init__(self, model: Model, people: People, limit: float | None = None) -> None:
        self.done, self._limit = 0, limit
        links = 0 if people.links is None else people.links.steps
        linked = 0 if people.links is None else people.links.categories
        weights = sum(node.operation.weight.size for node in model.nodes if isinstance(node.operation, Dense))
        self._input = point_work(model) + _PER_INPUT_LINK * links + _PER_INPUT_CATEGORY * linked
        self._piece = _PER_PIECE + box_work(model)
        self._form = weights + _PER_UNIT * sum(model.widths) + (_PER_COLUMN + _PER_LINK * links) * people.width
        replaced = _PER_REPLACED * links * linked
        self._axes = _PER_STEP * (len(people.axes) + len(people.protected) + links) + replaced
        # Each layer is substituted in those before.
        self._pairs = _PER_STEP * (len(model.nodes) ** 2 // 8) + replaced

    def of_bounds(self, pieces: int, forms: int) -> int:
        """Return the work to bound forms of the outputs, so many in each of so many pieces of leaves."""
        return self._pairs + pieces * (self._piece + forms * self._form)

    def of_forms(self, forms: int, leaves: int) -> int:
        """Return the work for forms of the inputs that are taken one by one, each over so many leaves."""
        return forms * (self._axes + leaves * self._form)

    def of_inputs(self, inputs: int) -> int:
        """Return the work to evaluate inputs."""
        return inputs * self._input

    def of_count(self, tally: Tally) -> int:
        """Return the work to count people by a form."""
        return self._axes + tally.work

    def require(self, work: int) -> None:
        """Refuse work above the limit."""
        if self.done + work > (MAX_WORK if self._limit is None else self._limit):
            raise CheckError(
                f"certificate.shares: checking these boxes takes more than {MAX_WORK:,} multiplications (about two "
                "hours), the limit for one certificate; run quantify with fewer --seconds, or with --share, to get "
                "fewer boxes"
            )

    def add(self, work: int) -> None:
        """Note work, and refuse more than the limit."""
        self.require(work)
        self.done += work


class Prover:
    """Proves boxes of one model and spec; a higher ``precision`` counts more people, and takes longer.

    ``limit`` is how much work it may do, if not as much as a check. ``evaluate`` returns about what the outputs are for
    inputs (inputs, width): it only says which protected values are tried. People who are treated equally are not
    counted where they are probably less than the share ``worth`` of a box.
    """

    def __init__(
        self,
        model: Model,
        spec: Spec,
        people: People,
        precision: float = PRECISE,
        limit: float | None = None,
        evaluate: Callable[[Array], Array] | None = None,
        worth: float = 0.0,
    ) -> None:
        self.model, self.people, self.work = model, people, Work(model, people, limit)
        self._evaluate = self._outputs if evaluate is None else evaluate
        self._values = people.values if evaluate is not None else people.some_values(_FEW_VALUES)
        self.requirement, self._precision = requirement_of(model, spec, people), precision
        self._deviations = NormalDist().inv_cdf(1 - worth) if worth else np.inf

    def prove(self, boxes: Boxes, count: Bools) -> Counts:
        """Return what can be proven of boxes, and of parts of those to ``count`` (boxes,)."""
        bounded = self.bound(boxes, self.people.cases(len(boxes)))
        return self.count(bounded, self.requirement.forms(bounded), count)

    def bound(self, boxes: Boxes, cases: Cases, error: Array | None = None) -> Bounded:
        """Return forms over cases of boxes; ``error`` (boxes,) is a bound of the error of inference if known."""
        self.work.add(self.bounds_work(len(boxes), len(cases.first) // len(boxes)))
        return self.requirement.bound(boxes, cases, error)

    def count(self, bounded: Bounded, forms: Forms | None, count: Bools) -> Counts:
        """Return what can be proven of boxes, given the forms over all pieces of them."""
        fair, unfair = self.requirement.decide(bounded, forms)
        counts = Counts(fair.astype(np.float64), unfair.astype(np.float64), np.zeros(len(fair), np.bool_))
        rest = np.flatnonzero(~(fair | unfair) & count)
        if forms is not None and len(rest) and self.people.axes:
            boxes, left = bounded.boxes.take(rest), forms.take(rest)
            unit = np.maximum(self.requirement.open_part(boxes, left), 0.0) / self._precision
            counts.fair[rest] = self._count_equal(boxes, left, bounded.shape[1], unit)
            counts.unfair[rest] = self._count_unequal(boxes, left, bounded.error[rest], unit)
            counts.exact[rest] = boxes.exact
        return counts

    def widest_axis(self, boxes: Boxes) -> Whole:
        """Return the axis of each box that is widest in terms of the weights: where to halve it."""
        weights, scores, divisible = input_weights(self.model), [], self.people.divisible(boxes)
        for k, axis in enumerate(self.people.axes):
            low, high = axis.hull(boxes.first[:, k], boxes.last[:, k])
            width = (high - low) @ weights[axis.columns] if axis.columns.stop <= len(weights) else np.zeros(len(boxes))
            scores.append(np.where(divisible[:, k], width, -1.0))
        return np.asarray(np.argmax(scores, axis=0))

    def errors(self, boxes: Boxes) -> Array:
        """Return bounds of the error of inference over boxes (boxes,)."""
        self.work.add(self.bounds_work(len(boxes), len(self.people.pieces.first)))
        return self.requirement.errors(boxes)

    @property
    def _pairs(self) -> int:
        """How many differences of scores are compared: of each score, one for each pair of pieces."""
        required = self.requirement
        compares = isinstance(required, CloseScores) and not required.enclosed
        return required.bounded.outputs * len(self.people.pieces.first) ** 2 if compares else 0

    @property
    def forms(self) -> int:
        """How many numbers there are of each piece and column of a leaf, about."""
        pairs = self._pairs * self.people.width // (8 * len(self.people.pieces.first))
        return max(len(self.requirement.outputs), pairs)

    @property
    def coefficients(self) -> int:
        """How many coefficients the forms of a leaf have: in each piece, or for each pair of pieces."""
        pieces = len(self.people.pieces.first)
        return max(self._pairs, len(self.requirement.outputs) * pieces) * self.people.width

    def bounds_work(self, leaves: int, pieces: int) -> int:
        """Return the work to bound leaves, each in so many pieces, and for forms of all pieces, or of their pairs."""
        forms = len(self.requirement.outputs)
        bounds = self.work.of_bounds(leaves * pieces, forms)
        if not isinstance(self.requirement, CloseScores):
            return bounds + self.work.of_forms(forms, leaves * pieces)
        pairs = 2 * self.requirement.bounded.outputs, leaves * pieces**2
        return bounds + (self.work.of_forms(*pairs) if self._pairs else 0)

    def _count_equal(self, boxes: Boxes, forms: Forms, cases: int, unit: Array) -> Array:
        """Return how many people of boxes are treated equally (boxes,): in each way, those who miss no group."""
        ways, total = self.requirement.ways(cases), np.zeros(len(boxes))
        for groups in ways:
            missed, additions = np.zeros(len(boxes)), 1
            for above, below in groups:
                some = np.flatnonzero((missed < boxes.size) & ~forms.holds[:, [*above, *below]].all(axis=1))
                if len(some):
                    here, growing, falling = boxes.take(some), forms.group(some, above), forms.group(some, below)
                    counts = self._between(here, growing, falling, unit[some])
                    missed[some] += np.where(here.exact, here.size - counts, up(here.size - counts))
                    additions += 1
            total = total + _left(boxes, missed, additions)
        rounded = np.clip(total - gamma(len(ways) + 4), 0.0, 1.0) if len(ways) > 1 else total
        return np.where(boxes.exact, total, rounded)

    def _count_unequal(self, boxes: Boxes, forms: Forms, error: Array, unit: Array) -> Array:
        """Return how many people of boxes are treated unequally: by two pieces, or by two protected values (boxes,)."""
        if self.people.single and self.people.links is None:
            return self._count_apart(boxes, forms, unit)
        counts = np.zeros(len(boxes))
        inputs = self.people.inputs(boxes.middle, self._values)
        self.work.add(self.work.of_inputs(len(inputs)))
        with np.errstate(all="ignore"):
            outputs = np.nan_to_num(self._evaluate(inputs)).reshape(len(boxes), -1, self.model.outputs)
            rows, pair = self.requirement.unequal_values(outputs)
        if len(rows):
            values, both = self._values, pair.ravel()
            cases = Cases(values.first[both], values.last[both], values.choice[both])
            some = boxes.take(rows)
            exactly = self.requirement.forms(self.bound(some, cases, error[rows].max(axis=1)))
            assert exactly is not None
            counts[rows] = self._count_apart(some, exactly, unit[rows])
        others = np.setdiff1d(np.arange(len(boxes)), rows)
        if len(others):
            counts[others] = self._count_apart(boxes.take(others), forms.take(others), unit[others])
        return counts

    def _count_apart(self, boxes: Boxes, forms: Forms, unit: Array) -> Array:
        """Return how many people of boxes the forms that are best in the middle show to be treated unequally."""
        middle = self.people.people_in(boxes.middle)
        value = (forms.A @ middle[:, :, None])[:, :, 0] + forms.some
        above, below = (forms.choose(each) for each in self.requirement.unequal_forms(value - forms.beyond))
        if above.A.shape[1] == 1:
            return self._between(boxes, above, below, unit, someone=True)
        missed, none = np.zeros(len(boxes)), below.choose(np.zeros((len(boxes), 0), np.int64))
        for each in (above, below):
            for number in range(each.A.shape[1]):
                one = each.choose(np.full((len(boxes), 1), number))
                counts = self._between(boxes, one, none, unit, someone=True)
                missed += np.where(boxes.exact, boxes.size - counts, up(boxes.size - counts))
        return _left(boxes, missed, 2 * above.A.shape[1])

    def _between(self, boxes: Boxes, above: Forms, below: Forms, unit: Array, *, someone: bool = False) -> Array:
        """Return for how many people of boxes all of these forms are above what they need (boxes,).

        Some grow with one form g of the people, which is ``above`` a number then, and some fall. For ``someone`` who is
        similar it is enough if they are beyond what shows that people are treated unequally.
        """
        g = above.A.mean(axis=1)
        if below.A.shape[1]:
            g = (g - below.A.mean(axis=1)) / 2
        low, high = self._needed(boxes, above, g, someone), -self._needed(boxes, below, -g, someone)
        least = self.people.least(boxes, np.stack([g, -g], axis=1), np.zeros((len(boxes), 2)))
        counts, some = np.zeros(len(boxes)), np.flatnonzero((low < high) & (low < -least[:, 1]) & (least[:, 0] < high))
        if not someone and len(some) and np.isfinite(self._deviations):
            middle, spread = self.people.distribution(boxes.take(some), g[some])
            reach = self._deviations * spread
            some = some[(low[some] <= middle + reach) & (middle - reach <= high[some])]
        if len(some):
            here, narrow = boxes.take(some), someone and below.A.shape[1]
            finer = np.minimum(unit, (high - low) / self._precision) if narrow else unit
            tally = self._tally(here, g[some], finer[some], _FINE * MOST_SUMS if narrow else MOST_SUMS)
            counts[some] = tally.between(low[some], high[some])
        return counts

    def _needed(self, boxes: Boxes, forms: Forms, g: Array, someone: bool) -> Array:
        """Return what g must exceed so that all of the forms hold (boxes,)."""
        if not forms.A.shape[1]:
            return np.full(len(boxes), -np.inf)
        rest = self.people.least(boxes, forms.A - g[:, None], forms.some if someone else forms.every)
        needed = up((forms.beyond if someone else forms.need) - rest)
        return np.asarray(np.where(forms.holds & (not someone), -np.inf, needed).max(axis=1))

    def _outputs(self, inputs: Array) -> Array:
        """Return lower bounds of the outputs for inputs (inputs, width), some after the others."""
        step = max(1, _EVALUATED // self.model.held)
        parts = [inputs[start : start + step] for start in range(0, len(inputs), step)]
        return np.concatenate([interval_layers(self.model, part, part)[-1][0] for part in parts])

    def _tally(self, boxes: Boxes, g: Array, unit: Array, most: int) -> Tally:
        terms = [
            axis_terms(axis, g[:, axis.columns], boxes.first[:, k], boxes.last[:, k], boxes.exact)
            for k, axis in enumerate(self.people.axes)
        ]
        tally = Tally(terms, boxes.exact, unit, most)
        self.work.add(self.work.of_count(tally))
        return tally


def _left(boxes: Boxes, missed: Array, additions: int) -> Array:
    """Return how many people are left if at most so many are missed, a sum of so many numbers."""
    slack = np.where(boxes.exact, 0.0, gamma(2 * additions) * missed)
    return np.maximum(np.where(boxes.exact, boxes.size - missed, down(boxes.size - up(missed + slack))), 0.0)

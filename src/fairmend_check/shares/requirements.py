"""What a claim requires of the people of a box, as linear forms: that a class leads, or that two scores are close.

Over a box, each *lead* of a class over another is at least A·x + c, for each piece of the protected values. Someone is
treated equally if all leads of one class are above what they need for all pieces, and unequally if those of one class
are for one piece, and those of another class for another piece.

Of scores, each output and its negative are at least A·x + c. The sum of the form of z(p) and of the form of -z(q) is a
lower bound of the *difference* z(p) - z(q) of two pieces of the same person, in which much cancels. Scores are within
delta where the differences of all pairs of pieces are above -delta, and not where one of them is above delta.
Probabilities are compared by their logits: how far apart these may be depends on where they are in the box. The
probabilities of more than two classes are bounded over whole boxes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend_check.kernel.bounds import InputForms, Intervals, input_forms, interval_layers, interval_margins, leads
from fairmend_check.kernel.claim import ScoreClaim, Threshold, closing_units
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Dense, Model, Node
from fairmend_check.kernel.rounding import GENEROUS, TINY, Array, Precision, down, gamma, up
from fairmend_check.kernel.spec import Spec
from fairmend_check.shares.linked_people import Cases
from fairmend_check.shares.people import Axis, Bools, Boxes, People, Whole

_SIGMOID = Activation("sigmoid")


@dataclass(frozen=True, eq=False)
class Bounded:
    """Boxes, and the forms of the model's inputs over all of their cases.

    ``error`` (boxes, cases), or (boxes, 1), bounds the error of inference.
    """

    boxes: Boxes
    cases: Cases
    found: InputForms
    error: Array

    @property
    def shape(self) -> tuple[int, int]:
        """The number of boxes, and of cases of each."""
        return len(self.boxes), len(self.cases.first) // len(self.boxes)


@dataclass(frozen=True, eq=False)
class Forms:
    """Linear forms of people in boxes: A·x + every for all who are similar to them, A·x + some for the best of these.

    A is (boxes, forms, width), the others (boxes, forms). A form ``holds`` in all of a box, or for those for whom it is
    above ``need``. Where A·x + some is above ``beyond``, that shows someone to be treated unequally.
    """

    A: Array
    every: Array
    some: Array
    need: Array
    beyond: Array
    holds: Bools

    def take(self, rows: Whole) -> Forms:
        """Return the forms of some of the boxes."""
        return self._at(rows)

    def group(self, rows: Whole, numbers: Sequence[int]) -> Forms:
        """Return the forms with these numbers, of some of the boxes."""
        return self._at(np.ix_(rows, np.array(numbers, np.int64)))

    def choose(self, numbers: Whole) -> Forms:
        """Return some forms of each box (boxes, forms)."""
        return self._at((np.arange(len(numbers))[:, None], numbers))

    def _at(self, place: Any) -> Forms:
        parts = (self.A, self.every, self.some, self.need, self.beyond)
        A, every, some, need, beyond = (part[place] for part in parts)
        return Forms(A, every, some, need, beyond, self.holds[place])


Group = tuple[Sequence[int], Sequence[int]]
"""Numbers of forms that must all hold: those that grow with one form of the people, and those that fall with it."""


class Requirement:
    """What a claim requires; classes and scores have one each.

    ``outputs`` (forms, outputs) are the forms of the outputs that are bounded, of the model ``bounded``. Similar people
    have answers, classes or scores, that may differ by ``limit``.
    """

    limit: float

    def __init__(self, model: Model, people: People, bounded: Model, outputs: Array) -> None:
        self.model, self.people, self.bounded, self.outputs = model, people, bounded, outputs

    def bound(self, boxes: Boxes, cases: Cases, error: Array | None = None) -> Bounded:
        """Return the forms over cases of boxes; ``error`` (boxes,) is a bound of the error of inference if known."""
        lower, upper = self.people.hulls(boxes, cases)
        outputs = np.broadcast_to(self.outputs, (len(lower), *self.outputs.shape))
        found = input_forms(self.bounded, outputs, lower, upper, chords=True)
        errors = self._errors(lower, upper, found.nodes) if error is None else error
        return Bounded(boxes, cases, found, errors.reshape(len(boxes), -1))

    def errors(self, boxes: Boxes) -> Array:
        """Return bounds of the error of inference over boxes (boxes,)."""
        lower, upper = self.people.hulls(boxes, self.people.cases(len(boxes)))
        with np.errstate(all="ignore"):
            nodes = interval_layers(self.model, lower, upper)[:-1]
        return np.asarray(self._errors(lower, upper, nodes).reshape(len(boxes), -1).max(axis=1))

    def compare(self, low: Array, high: Array) -> tuple[Bools, Bools]:
        """Return who is surely treated equally, and who unequally, by answers low..high (people, inputs, answers)."""
        with np.errstate(all="ignore"):
            return self.compare_ends(low.min(axis=1), high.max(axis=1), low.max(axis=1), high.min(axis=1))

    def compare_ends(self, lowest: Array, highest: Array, low: Array, high: Array) -> tuple[Bools, Bools]:
        """Do the same if all answers are from lowest to highest, one is at least low and one at most high."""
        with np.errstate(all="ignore"):
            most, least = up(highest - lowest).max(axis=1), down(low - high).max(axis=1)
            return np.asarray(most <= self.limit), np.asarray(least > self.limit)

    def _person_forms(self, bounded: Bounded) -> tuple[Array, Array, Array, Array]:
        """Return forms of people below each form of the outputs, in each case: A (boxes, forms, cases, width).

        And constants (boxes, forms, cases): without the protected part, with the least of it, and with the best.
        """
        found, people, cases = bounded.found, self.people, bounded.cases
        (n, count), forms = bounded.shape, found.A.shape[1]
        least, most, size = np.zeros((3, len(found.A), forms))
        for k, axis in enumerate(people.protected):
            ends = cases.first[:, k], cases.last[:, k]
            values = axis.terms(found.A, *ends)
            inside = values if axis.feature.whole else axis.terms(found.A, *ends, inside=True)
            least, most = least + values.min(axis=2), most + inside.max(axis=2)
            size = size + np.abs(values).max(axis=2)
        slack = gamma(len(people.protected) + 8) * size + TINY
        A, c = found.A, found.c
        if people.links is not None:
            each = [people.person_forms(bounded.boxes, cases, A[:, row], c[:, row]) for row in range(forms)]
            A, c = (np.stack(parts, axis=1) for parts in zip(*each, strict=True))
        A, c, least, most = (
            np.moveaxis(part.reshape(n, count, *part.shape[1:]), 1, 2)
            for part in (A, c, down(least - slack), down(most - slack))
        )
        A = A.copy()
        A[:, :, :, people.protected_columns] = 0.0
        for number, (_, axis, _) in enumerate(people.banded):
            least, most = self._take_bands(bounded.boxes, number, axis, A, least, most)
        return A, c, least, most

    def _take_bands(
        self, boxes: Boxes, number: int, axis: Axis, A: Array, least: Array, most: Array
    ) -> tuple[Array, Array]:
        """Take an axis out of forms of boxes within one band: there it is like a protected feature."""
        rows = np.flatnonzero(self.people.in_bands(boxes)[number])
        if not len(rows):
            return least, most
        _, forms, cases, width = A.shape
        flat = A[rows].reshape(len(rows), forms * cases, width)
        low, high, size = self.people.band_terms(number, boxes.take(rows), flat)
        slack = gamma(8) * size + TINY
        shape = len(rows), forms, cases
        least, most = least.copy(), most.copy()
        least[rows] = down(least[rows] + down(low - slack).reshape(shape))
        most[rows] = down(most[rows] + down(high - slack).reshape(shape))
        A[rows, :, :, axis.columns] = 0.0
        return least, most

    def forms(self, bounded: Bounded) -> Forms | None:
        """Return the forms of the people; None if boxes are decided as a whole or not at all."""
        raise NotImplementedError

    def decide(self, bounded: Bounded, forms: Forms | None) -> tuple[Bools, Bools]:
        """Return which boxes are treated equally as a whole, and which unequally."""
        raise NotImplementedError

    def settle(self, holds: Bools, shows: Bools) -> tuple[Bools, Bools]:
        """Return who is treated equally, and who unequally, by the forms that hold, and by those that are beyond.

        Both are (people, forms).
        """
        raise NotImplementedError

    def ways(self, cases: int) -> list[list[Group]]:
        """Return the ways to be treated equally, for so many cases: groups of forms that must all hold."""
        raise NotImplementedError

    def unequal_forms(self, excess: Array) -> tuple[Whole, Whole]:
        """Return forms that may all hold for people who are treated unequally (boxes, forms): growing, and falling.

        ``excess`` (boxes, forms) is by how much each form is above what it must exceed in the middle of a box.
        """
        raise NotImplementedError

    def unequal_values(self, outputs: Array) -> tuple[Whole, Whole]:
        """Return boxes, and the numbers of two values (boxes, 2) that treat someone in their middle unequally.

        From outputs of that person with all values (boxes, values, outputs). Which values these are matters to what is
        found, not to whether it is true.
        """
        raise NotImplementedError

    def open_part(self, boxes: Boxes, forms: Forms) -> Array:
        """Return how much of the forms stays open in boxes (boxes,), roughly: more precision is of no use."""
        raise NotImplementedError

    def answers(self, low: Array, high: Array, error: Array) -> tuple[Array, Array]:
        """Return the ends of answers (points, answers), from those of outputs and the errors of inference (points,)."""
        raise NotImplementedError

    def _errors(self, lower: Array, upper: Array, nodes: Intervals) -> Array:
        raise NotImplementedError


class SameClass(Requirement):
    """Similar people get the same class."""

    limit = 0.5  # of numbers of classes

    def __init__(self, model: Model, people: People, threshold: float) -> None:
        self.classes = max(2, model.outputs)
        self.labels = np.repeat(np.arange(self.classes), self.classes - 1)
        forms = np.concatenate([leads(model, np.array([label]))[0] for label in range(self.classes)])
        super().__init__(model, people, model, forms)
        # The lead of each class over another must exceed its need, plus the error of inference.
        at = Threshold.of(threshold, model.dtype, model.slack)
        above, below = at.high + at.above, at.below - at.low
        needs = [below, above] if self.classes == 2 else [above] * self.classes
        self.needs = up(np.array(needs)[self.labels])

    def _errors(self, lower: Array, upper: Array, nodes: Intervals) -> Array:
        forms = self.outputs if self.classes > 2 else self.outputs[:1]  # the other one is its negative
        errors = output_errors(self.model, lower, upper, nodes, np.broadcast_to(forms, (len(lower), *forms.shape)))
        return np.asarray(errors.max(axis=1))

    def forms(self, bounded: Bounded) -> Forms:
        """Return the forms below each lead, and then in each case."""
        A, c, least, best = self._person_forms(bounded)
        n, forms, cases, _ = A.shape
        A, c, least, best = (part.reshape(n, forms * cases, *part.shape[3:]) for part in (A, c, least, best))
        lower, higher = self.people.steps(bounded.boxes, A)
        every, some = down(down(c + least) - lower), down(down(c + best) + higher)
        need = np.broadcast_to(up(self.needs[:, None] + bounded.error[:, None]), (n, forms, cases)).reshape(c.shape)
        linear = down(self.people.least(self.people.similar(bounded.boxes), A, c) + least)
        whole = np.moveaxis(bounded.found.least.reshape(n, cases, forms), 1, 2).reshape(c.shape)
        return Forms(A, every, some if self.classes == 2 else every, need, need, np.maximum(whole, linear) > need)

    def decide(self, bounded: Bounded, forms: Forms | None) -> tuple[Bools, Bools]:
        """Return where all leads of a class hold in all cases, and where those of two classes hold in some."""
        assert forms is not None
        return self.settle(forms.holds, forms.holds)

    def settle(self, holds: Bools, shows: Bools) -> tuple[Bools, Bools]:
        """Return for whom all leads of a class hold in all cases, and for whom those of two classes do in some."""
        shape = len(holds), self.classes, self.classes - 1, -1
        fair = np.asarray(holds.reshape(shape).all(axis=(2, 3)))
        some = np.asarray(shows.reshape(shape).all(axis=2))
        return np.asarray(fair.any(axis=1)), np.asarray(np.asarray(some.any(axis=2)).sum(axis=1) > 1)

    def ways(self, cases: int) -> list[list[Group]]:
        """Return each lead of a class, in all cases."""
        groups = [(range(row * cases, (row + 1) * cases), range(0)) for row in range(len(self.labels))]
        return [[groups[row] for row in np.flatnonzero(self.labels == label)] for label in range(self.classes)]

    def unequal_forms(self, excess: Array) -> tuple[Whole, Whole]:
        """Return the leads of the two classes that come closest to hold, each in its best case."""
        n, leads = len(excess), self.classes - 1
        each = excess.reshape(n, self.classes, leads, -1)
        cases, least = each.shape[3], each.min(axis=2)
        best, case = least.max(axis=2), least.argmax(axis=2)
        two = np.argsort(-best, axis=1, kind="stable")[:, :2]
        rows = (two[:, :, None] * leads + np.arange(leads)) * cases
        rows = rows + np.take_along_axis(case, two, axis=1)[:, :, None]
        return rows[:, 0], rows[:, 1]

    def unequal_values(self, outputs: Array) -> tuple[Whole, Whole]:
        """Return the values with the surest class, and with the surest other class."""
        excess = np.nan_to_num(outputs @ self.outputs.T - self.needs)
        best = excess.reshape(*outputs.shape[:2], self.classes, -1).min(axis=3)
        label, sure, rows = best.argmax(axis=2), best.max(axis=2), np.arange(len(best))
        first = sure.argmax(axis=1)
        others = np.where(label == label[rows, first][:, None], -np.inf, sure)
        second = others.argmax(axis=1)
        found = np.flatnonzero(np.minimum(sure[rows, first], others[rows, second]) > 0)
        return found, np.stack([first, second], axis=1)[found]

    def open_part(self, boxes: Boxes, forms: Forms) -> Array:
        """Return how far two opposite leads are from proven in the middle; of more leads, a part of their spread."""
        n = len(boxes)
        if self.classes > 2:
            nothing = np.zeros_like(forms.need)
            spread = self.people.least(boxes, forms.A, nothing) + self.people.least(boxes, -forms.A, nothing)
            return np.asarray(-spread.max(axis=1) / 4)
        value = (forms.A @ self.people.people_in(boxes.middle)[:, :, None])[:, :, 0] + forms.every
        return np.asarray((forms.need - value).reshape(n, 2, -1).mean(axis=2).sum(axis=1))

    def answers(self, low: Array, high: Array, error: Array) -> tuple[Array, Array]:
        """Return the class that outputs surely have; all classes where there is none."""
        classes = self.sure_classes(low, high, error)[:, None].astype(np.float64)
        return classes, np.where(classes < 0, self.classes, classes)

    def sure_classes(self, low: Array, high: Array, error: Array) -> Whole:
        """Return the classes that outputs from low to high (points, outputs) surely have, given errors; -1 if none."""
        classes = np.full(len(low), -1, np.int64)
        for label in range(self.classes):
            lead = interval_margins(self.model, np.full(len(low), label), low, high)
            classes[lead > up(self.needs[label * (self.classes - 1)] + error)] = label
        return classes


class CloseScores(Requirement):
    """The scores of similar people differ by at most delta."""

    def __init__(self, model: Model, people: People, claim: ScoreClaim) -> None:
        self.limit, self._score = claim.delta, claim.score(model.outputs, model.slack)
        self._probability = claim.on == "probability"
        bounded = _with_one_logit(model) if self._probability else model
        self.enclosed = bounded.outputs > 1 and self._probability
        each = np.eye(bounded.outputs)
        forms = self._score.forms if self.enclosed else np.concatenate([each, -each])
        super().__init__(model, people, bounded, forms)

    def _errors(self, lower: Array, upper: Array, nodes: Intervals) -> Array:
        """Return the error of a difference of scores, the largest of all cases where it is one for each.

        A sigmoid is off by a quarter of the error of its input, a softmax by half of the largest one, and either by its
        own rounding.
        """
        raw = np.broadcast_to(np.eye(self.model.outputs), (len(lower), self.model.outputs, self.model.outputs))
        error = output_errors(self.model, lower, upper, nodes[: len(self.model.nodes) - 1], raw).max(axis=1)
        if self._score.name != "output":
            kind = Precision.of(self.model.dtype)
            closing = closing_units(self.model.outputs) * kind.u + kind.tiny + self._score.slack
            error = error * (0.25 if self._score.name == "sigmoid" else 0.5) + closing
        return up(2 * GENEROUS * error)

    def forms(self, bounded: Bounded) -> Forms | None:
        """Return the forms below the differences of each score, over all ordered pairs of cases."""
        if self.enclosed:
            return None
        people, boxes = self.people, bounded.boxes
        A, c, least, best = self._person_forms(bounded)
        n, forms, cases, width = A.shape
        flat = A.reshape(n, forms * cases, width)
        lower, higher = people.steps(boxes, flat)
        # Two counterfactuals of a person may have any two values of a band.
        lower, higher = (part.reshape(c.shape) for part in (up(lower + people.band_steps(boxes, flat)), higher))
        size = people.sizes(boxes, flat).reshape(c.shape) + np.abs(c) + np.abs(least) + np.abs(best) + lower + higher
        interval = np.moveaxis(bounded.found.least.reshape(n, cases, forms), 1, 2)
        parts = A, c + least - lower, c + best + higher, size, interval

        def pairs(part: Array) -> Array:
            """Return the sums of each score and a negative one (boxes, outputs * cases * cases)."""
            sums = part[:, : forms // 2, :, None] + part[:, forms // 2 :, None]
            return sums.reshape(n, forms // 2 * cases**2, *part.shape[3:])

        both, every, some, sizes, whole = map(pairs, parts)
        room = up(gamma(8) * sizes) + TINY  # for the sums, those of coefficients among them
        every, some = down(every - room), down(some - room)
        above = np.fmax(down(whole), people.least(boxes, both, every))
        limits = self._limits(boxes, parts, bounded.error.max(axis=1))
        need, beyond = (np.repeat(each, cases**2, axis=1) for each in limits)
        same = np.eye(cases, dtype=np.bool_) & people.settled(boxes, bounded.cases).reshape(n, cases)[:, :, None]
        holds = (above > need) | np.tile(same.reshape(n, -1), forms // 2)  # a person is as close as can be to itself
        return Forms(both, every, some, need, beyond, holds)

    def _limits(self, boxes: Boxes, parts: tuple[Array, ...], error: Array) -> tuple[Array, Array]:
        """Return above what differences must be so that scores are within delta, and beyond it: (boxes, outputs)."""
        A, every, _, size, interval = parts
        within, beyond = (each[:, None] for each in (down(self.limit - error), up(self.limit + error)))
        outputs = A.shape[1] // 2
        if not self._probability:
            return np.repeat(-within, outputs, axis=1), np.repeat(beyond, outputs, axis=1)
        constant = down(every - (up(gamma(8) * size) + TINY)).reshape(len(boxes), -1)
        linear = self.people.least(boxes, A.reshape(len(boxes), constant.shape[1], -1), constant)
        least = np.fmax(interval, linear.reshape(interval.shape)).min(axis=2)
        low, high = least[:, :outputs], -least[:, outputs:]
        return -steps_within(within, low, high), steps_beyond(beyond, low, high)

    def decide(self, bounded: Bounded, forms: Forms | None) -> tuple[Bools, Bools]:
        """Return where all differences are within delta, and where one is beyond it."""
        if forms is None:
            low, high = (each.reshape(len(bounded.boxes), -1, self._score.outputs) for each in self._enclose(bounded))
            return self.compare(low, high)
        return self.settle(forms.holds, self.people.least(bounded.boxes, forms.A, forms.some) > forms.beyond)

    def settle(self, holds: Bools, shows: Bools) -> tuple[Bools, Bools]:
        """Return for whom all differences are within delta, and for whom one is beyond it."""
        return np.asarray(holds.all(axis=1)), np.asarray(shows.any(axis=1))

    def _enclose(self, bounded: Bounded) -> tuple[Array, Array]:
        """Return bounds of all probabilities in each case, with the error of inference."""
        low, high = self._score.from_forms(bounded.found.least)
        error = np.repeat(bounded.error.max(axis=1), bounded.shape[1])
        return self._with_error(low, high, error)

    def _with_error(self, low: Array, high: Array, error: Array) -> tuple[Array, Array]:
        """Return scores with half of the error of a difference on each side."""
        half = up(error / 2)[:, None]
        return down(low - half), up(high + half)

    def ways(self, cases: int) -> list[list[Group]]:
        """Return the differences of each score and two cases, there and back."""
        groups: list[Group] = []
        for output in range(self.bounded.outputs):
            for p in range(cases):
                start = output * cases**2
                groups += [([start + p * cases + p], [])]
                groups += [([start + p * cases + q], [start + q * cases + p]) for q in range(p + 1, cases)]
        return [groups]

    def unequal_forms(self, excess: Array) -> tuple[Whole, Whole]:
        """Return the difference that is largest beside what it must exceed."""
        best = np.nan_to_num(excess, nan=-np.inf).argmax(axis=1)[:, None]
        return best, best[:, :0]

    def unequal_values(self, outputs: Array) -> tuple[Whole, Whole]:
        """Return the values with the highest and with the lowest score, of the scores that are farthest apart."""
        scores = self._scores(outputs.reshape(-1, outputs.shape[2]), outputs.reshape(-1, outputs.shape[2]))[0]
        scores = scores.reshape(outputs.shape)
        spread = scores.max(axis=1) - scores.min(axis=1)
        own = np.take_along_axis(scores, spread.argmax(axis=1)[:, None, None], axis=2)[:, :, 0]
        found = np.flatnonzero(spread.max(axis=1) > self.limit)
        return found, np.stack([own.argmax(axis=1), own.argmin(axis=1)], axis=1)[found]

    def open_part(self, boxes: Boxes, forms: Forms) -> Array:
        """Return a part of delta."""
        return np.full(len(boxes), self.limit / 4)

    def answers(self, low: Array, high: Array, error: Array) -> tuple[Array, Array]:
        """Return the ends of the scores."""
        return self._with_error(*self._scores(low, high), error)

    def _scores(self, low: Array, high: Array) -> tuple[Array, Array]:
        scores = self._score.from_outputs(low, high)
        return function_of(_SIGMOID).value_range(*scores) if self._score.name == "sigmoid" else scores


def requirement_of(model: Model, spec: Spec, people: People) -> Requirement:
    """Return what the claim of a spec requires."""
    if isinstance(spec.claim, ScoreClaim):
        return CloseScores(model, people, spec.claim)
    return SameClass(model, people, spec.threshold)


def _with_one_logit(model: Model) -> Model:
    """Return the model with the difference of two outputs as its output; as it is with one, or with more.

    The probabilities of two classes are the sigmoid of this difference and of its negative, so both differ by the same.
    """
    if model.outputs != 2:
        return model
    difference = Dense(np.array([[-1.0, 1.0]]), np.zeros(1))
    return Model((*model.nodes, Node(difference, (len(model.nodes) - 1,))), model.dtype)


def steps_within(delta: Array, low: Array, high: Array) -> Array:
    """Return by how much two logits from low to high may differ for sigmoids that differ by at most delta (boxes,).

    The sigmoid of z + d minus that of z is largest at z = -d / 2, and falls on both sides of it. A step d is only
    returned if the bounds of the sigmoid there confirm it, else -inf.
    """
    with np.errstate(all="ignore"):
        step = _step(np.clip(np.log1p(-delta) - np.log1p(delta), low, high), delta) * (1 - 1e-9) - 1e-12
        at = np.clip(-step / 2, low, high)
        most = up(_sigmoid(up(at + step))[1] - _sigmoid(at)[0])
        return np.where((step > 0) & (most <= delta), step, -np.inf)


def steps_beyond(delta: Array, low: Array, high: Array) -> Array:
    """Return by how much two logits, the lower one from low to high, must differ for sigmoids more than delta apart.

    For a given step, sigmoids are closest if the lower logit is at one of the ends. The step is confirmed, or inf.
    """
    with np.errstate(all="ignore"):
        step = np.fmax(_step(low, delta), _step(high, delta)) * (1 + 1e-9) + 1e-12
        least = [down(_sigmoid(down(end + step))[0] - _sigmoid(end)[1]) for end in (low, high)]
        return np.where(np.isfinite(step) & (np.minimum(*least) > delta), step, np.inf)


def _sigmoid(z: Array) -> tuple[Array, Array]:
    """Return bounds of the sigmoid."""
    return function_of(_SIGMOID).value_range(z, z)


def _step(z: Array, delta: Array) -> Array:
    """Return about how much more than z a logit is whose sigmoid is larger by delta."""
    rest = 1 / (1 + np.exp(z)) - delta
    return np.asarray(np.where(rest > 0, np.log(1 / (1 + np.exp(-z)) + delta) - np.log(rest) - z, np.inf))

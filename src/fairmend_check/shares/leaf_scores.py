"""What linear bounds prove about the scores of a leaf: that those of any two similar people are within delta, or not.

Of each case of a leaf, each output is at least A·x + c, and so is its negative with other numbers. The sum of the form
of z(p) and of the form of -z(q) is a lower bound of the *difference* z(p) - z(q) of two cases of the same person, in
which much cancels. Outputs are within delta where the differences of all pairs of cases are above -delta, and not where
one of them is above delta. Probabilities are compared by their logits: how far apart these may be depends on where they
are in the leaf.

The probabilities of more than two classes are bounded over whole leaves only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend_check.kernel.bounds import InputForms, input_forms
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Dense, Model, Node
from fairmend_check.kernel.rounding import GENEROUS, TINY, Array, Precision, down, gamma, up
from fairmend_check.kernel.scores import Score
from fairmend_check.kernel.spec import ScoreClaim, Spec
from fairmend_check.shares.leaf_bounds import Bools, LeafBoxes, LeafProver, Whole
from fairmend_check.shares.linked_people import Cases
from fairmend_check.shares.people import People
from fairmend_check.shares.tally import Counts

_UNIT = 1 / 600  # of delta: to how much terms are rounded
_SIGMOID = Activation("sigmoid")


@dataclass(frozen=True, eq=False)
class _Differences:
    """Lower bounds of differences of one score: A·x + every for all who are similar, and A·x + some for someone.

    A is (boxes, pairs, width), the others (boxes, pairs). ``least`` holds in all of the box. Of ``trivial`` pairs, both
    are the same person. Scores are within delta if all differences are above ``allowed`` (boxes,), and not if one is
    above ``exceeded``.
    """

    A: Array
    every: Array
    some: Array
    least: Array
    trivial: Bools
    allowed: Array
    exceeded: Array

    def take(self, rows: Whole) -> _Differences:
        """Return those of some of the boxes."""
        forms = self.A[rows], self.every[rows], self.some[rows], self.least[rows]
        return _Differences(*forms, self.trivial[rows], self.allowed[rows], self.exceeded[rows])


class ScoreProver(LeafProver):
    """Proves leaves of one model and a spec that claims scores."""

    def __init__(self, model: Model, spec: Spec, claim: ScoreClaim, people: People) -> None:
        super().__init__(model, spec, people)
        self._delta, self._score = claim.delta, Score.of(claim, model.outputs)
        self._bounded = _with_one_logit(model) if claim.on == "probability" else model
        self._probability = claim.on == "probability"
        self._enclosed = self._bounded.outputs > 1 and self._probability
        each = np.eye(self._bounded.outputs)
        self._score_forms = self._score.forms if self._enclosed else np.concatenate([each, -each])

    @property
    def forms(self) -> int:
        """How many numbers there are of each piece and column of a leaf, about."""
        return max(len(self._score_forms), self._pairs * self.people.width // (8 * len(self.people.pieces.first)))

    @property
    def coefficients(self) -> int:
        """How many coefficients the forms of a leaf have: in each piece, or for each pair of pieces."""
        return max(self._pairs, len(self._score_forms) * len(self.people.pieces.first)) * self.people.width

    @property
    def _pairs(self) -> int:
        """How many differences are compared: of each score, one for each pair of pieces."""
        return 0 if self._enclosed else self._bounded.outputs * len(self.people.pieces.first) ** 2

    def bounds_work(self, leaves: int, pieces: int) -> int:
        """Return the work to bound leaves, each in so many pieces, and to compare all pairs of these."""
        pairs = 0 if self._enclosed else self.work.of_forms(2 * self._bounded.outputs, leaves * pieces**2)
        return self.work.of_bounds(leaves * pieces, len(self._score_forms)) + pairs

    def prove(self, first: Whole, last: Whole, count: Bools) -> Counts:
        """Return what can be proven of boxes first..last (boxes, axes), and of parts of those to ``count`` (boxes,)."""
        cases = self.people.cases(len(first))
        found, error = self._bound(first, last, cases)
        if self._enclosed:
            low, high = self._score.from_forms(found.least)
            shape = len(first), -1, self._score.outputs
            fair, unfair = self._compare(low.reshape(shape), high.reshape(shape), error)
            return Counts(fair.astype(np.float64), unfair.astype(np.float64), np.zeros(len(first), np.bool_))
        each = self._differences(first, last, cases, found, error)
        sure = [(one.least > one.allowed[:, None]) | one.trivial for one in each]
        fair = np.all([one.all(axis=1) for one in sure], axis=0)
        unfair = np.any([self._whole(first, last, one) for one in each], axis=0)
        counts = Counts(fair.astype(np.float64), unfair.astype(np.float64), np.zeros(len(first), np.bool_))
        rest = np.flatnonzero(~(fair | unfair) & count)
        if len(rest) and self.people.axes:
            boxes, left = LeafBoxes.of(first[rest], last[rest]), [one.take(rest) for one in each]
            counts.fair[rest] = self._count_within(boxes, left, [one[rest] for one in sure])
            counts.unfair[rest], counts.exact[rest] = self._count_beyond(boxes, left), boxes.exact
        return counts

    def verdicts(self, low: Array, high: Array, error: Array) -> tuple[Bools, Bools]:
        """Return whose scores are surely within delta, and whose are not, from outputs (people, inputs, outputs)."""
        shape = low.shape
        scores = self._score.from_outputs(low.reshape(-1, shape[2]), high.reshape(-1, shape[2]))
        if self._score.name == "sigmoid":
            scores = function_of(_SIGMOID).value_range(*scores)
        return self._compare(scores[0].reshape(shape), scores[1].reshape(shape), error)

    def errors(self, first: Whole, last: Whole) -> Array:
        """Return by how much inference can change a difference of scores in boxes (boxes,)."""
        return self._bound(first, last, self.people.cases(len(first)))[1]

    def _compare(self, low: Array, high: Array, error: Array) -> tuple[Bools, Bools]:
        """Return where scores from low to high (boxes, cases, outputs) are surely within delta, and where not."""
        with np.errstate(all="ignore"):
            most = up(high.max(axis=1) - low.min(axis=1)).max(axis=1)
            least = down(low.max(axis=1) - high.min(axis=1)).max(axis=1)
            return np.asarray(up(most + error) <= self._delta), np.asarray(down(least - error) > self._delta)

    def _bound(self, first: Whole, last: Whole, cases: Cases) -> tuple[InputForms, Array]:
        """Return forms below the scores and their negatives in cases, and the error of a difference (boxes,).

        A sigmoid is off by a quarter of the error of its input, a softmax by half of the largest one, and either by its
        own rounding.
        """
        lower, upper = self.people.hulls(first, last, cases)
        self.work.add(self.bounds_work(len(first), len(cases.first) // len(first)))
        found = input_forms(
            self._bounded, np.broadcast_to(self._score_forms, (len(lower), *self._score_forms.shape)), lower, upper
        )
        raw = np.broadcast_to(np.eye(self.model.outputs), (len(lower), self.model.outputs, self.model.outputs))
        error = output_errors(self.model, lower, upper, found.nodes[: len(self.model.nodes) - 1], raw).max(axis=1)
        if self._score.name != "output":
            kind = Precision.of(self.model.dtype)
            error = error * (0.25 if self._score.name == "sigmoid" else 0.5) + 16 * kind.u + kind.tiny
        return found, np.asarray(up(2 * GENEROUS * error).reshape(len(first), -1).max(axis=1))

    def _differences(
        self, first: Whole, last: Whole, cases: Cases, found: InputForms, error: Array
    ) -> list[_Differences]:
        """Return the differences of each score over all ordered pairs of cases."""
        boxes, pieces = len(first), len(cases.first) // len(first)
        same = self.people.settled(first, last, cases).reshape(boxes, pieces)
        trivial = (np.eye(pieces, dtype=np.bool_) & same[:, :, None]).reshape(boxes, -1)
        each = []
        for row in range(self._bounded.outputs):
            one, other = (self._side(first, last, cases, found, k) for k in (row, self._bounded.outputs + row))
            A = (one[0][:, :, None] + other[0][:, None]).reshape(boxes, pieces**2, -1)
            every, some, size, least = (
                (mine[:, :, None] + theirs[:, None]).reshape(boxes, -1)
                for mine, theirs in zip(one[1:], other[1:], strict=True)
            )
            room = up(gamma(8) * size) + TINY  # for the sums, those of coefficients among them
            every, some = down(every - room), down(some - room)
            least = np.fmax(down(least), self._least(first, last, A, every, similar=False))
            each.append(_Differences(A, every, some, least, trivial, *self._limits(first, last, one, other, error)))
        return each

    def _limits(
        self, first: Whole, last: Whole, one: tuple[Array, ...], other: tuple[Array, ...], error: Array
    ) -> tuple[Array, Array]:
        """Return above what differences must be so that scores are within delta, and beyond it; both (boxes,)."""
        within, beyond = down(self._delta - error), up(self._delta + error)
        if not self._probability:
            return -within, beyond
        bounds = []
        for A, every, _, size, least in (one, other):
            constant = down(every - (up(gamma(8) * size) + TINY))
            bounds.append(np.fmax(least, self._least(first, last, A, constant, similar=False)).min(axis=1))
        return -steps_within(within, bounds[0], -bounds[1]), steps_beyond(beyond, bounds[0], -bounds[1])

    def _side(
        self, first: Whole, last: Whole, cases: Cases, found: InputForms, row: int
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Return A (boxes, pieces, width) of a score, or of its negative, and constants (boxes, pieces).

        For everyone and for someone who is similar, the size of all that was added up, and a bound by intervals.
        """
        people, shape = self.people, (len(first), len(cases.first) // len(first))
        part, best = (each.reshape(shape) for each in self._protected_ends(found.A[:, row], cases))
        flat, c = people.person_forms(first, last, cases, found.A[:, row], found.c[:, row])
        A, c = self._free(flat).reshape(*shape, -1), c.reshape(shape)
        lower, higher = self._similar(first, last, A)
        size = np.abs(c) + np.abs(part) + np.abs(best) + lower + higher
        for k, axis in enumerate(people.axes):
            ends = [np.repeat(end[:, k], shape[1]) for end in (first, last)]
            terms = axis.ends(A[:, :, axis.columns].reshape(len(flat), -1), *ends)
            size = size + np.abs(terms).max(axis=1).reshape(shape)
        return A, c + part - lower, c + best + higher, size, found.least[:, row].reshape(shape)

    def _whole(self, first: Whole, last: Whole, each: _Differences) -> Bools:
        """Return where two cases are farther apart than delta for everyone in the box."""
        least = self._least(first, last, each.A, each.some, similar=False)
        return np.asarray((least > each.exceeded[:, None]).any(axis=1))

    def _count_within(self, boxes: LeafBoxes, each: list[_Differences], sure: list[Bools]) -> Array:
        """Return how many people of boxes miss no difference: for each pair, they are between two numbers (boxes,)."""
        pieces = int(np.sqrt(each[0].A.shape[1]))
        missed, additions = np.zeros(len(boxes.size)), 1
        for one, known in zip(each, sure, strict=True):
            for p in range(pieces):
                for q in range(p, pieces):
                    there, back = p * pieces + q, q * pieces + p
                    some = np.flatnonzero(~(known[:, there] & known[:, back]) & (missed < boxes.size))
                    if len(some):
                        here = boxes.take(some)
                        counts = self._between(here, one.take(some), (there, back), known[some])
                        missed[some] += np.where(here.exact, here.size - counts, up(here.size - counts))
                        additions += 1
        return self._left(boxes, missed, additions)

    def _between(self, boxes: LeafBoxes, each: _Differences, pair: tuple[int, int], known: Bools) -> Array:
        """Return how many people have both differences of two cases, there and back, above what is allowed."""
        there, back = pair
        g = each.A[:, there] if there == back else (each.A[:, there] - each.A[:, back]) / 2
        low = self._above(boxes, each.A[:, there], each.every[:, there], g, each.allowed)
        high = -self._above(boxes, each.A[:, back], each.every[:, back], -g, each.allowed)
        low = np.where(known[:, there], -np.inf, low)
        high = np.where(known[:, back] | (there == back), np.inf, high)
        return self._count(boxes, g, low, high)

    def _count_beyond(self, boxes: LeafBoxes, each: list[_Differences]) -> Array:
        """Return how many people of boxes have the two cases that are farthest apart in the middle beyond delta."""
        middle = self.people.people_in((boxes.first + boxes.last) // 2)
        counts, rows = np.zeros(len(boxes.size)), np.arange(len(boxes.size))
        for one in each:
            best = np.nan_to_num((one.A * middle[:, None]).sum(axis=2) + one.some, nan=-np.inf).argmax(axis=1)
            g = one.A[rows, best]
            low = self._above(boxes, g, one.some[rows, best], g, one.exceeded)
            counts = np.maximum(counts, self._count(boxes, g, low, np.full(len(g), np.inf)))
        return counts

    def _above(self, boxes: LeafBoxes, A: Array, c: Array, g: Array, need: Array) -> Array:
        """Return what g (boxes, width) must exceed for A·x + c to be above what is needed (boxes,)."""
        rest = A - g
        size = np.zeros(len(g))
        for k, axis in enumerate(self.people.axes):  # the differences of coefficients are rounded
            both = np.abs(A[:, axis.columns]) + np.abs(g[:, axis.columns])
            size = size + np.abs(axis.ends(both, boxes.first[:, k], boxes.last[:, k])).max(axis=1)
        least = self._least(boxes.first, boxes.last, rest[:, None], c[:, None], similar=False)[:, 0]
        return np.asarray(up(need - down(least - (gamma(len(self.people.axes) + 8) * size + TINY))))

    def _count(self, boxes: LeafBoxes, g: Array, low: Array, high: Array) -> Array:
        counts, some = np.zeros(len(boxes.size)), np.flatnonzero(low < high)
        if len(some):
            tally = self._tally(boxes.take(some), g[some], np.full(len(some), self._delta * _UNIT))
            counts[some] = tally.between(low[some], high[some])
        return counts


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

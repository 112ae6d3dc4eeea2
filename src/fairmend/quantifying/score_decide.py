"""Which share of a box has scores within delta over the whole neighbourhood, and which has not.

For each case p of a box there is a linear form below each output, and one below its negative (`forms`). So for two
cases p and q of the same person, the sum of the form below z(p) and of the form below -z(q) is below z(p) - z(q): what
both have in common cancels. Outputs differ by at most delta where these *differences* are above -delta for all pairs of
cases, and by more where one of them is above delta. Probabilities are compared by their logits: where these lie in the
box says how far apart they may be. People are counted as in `decide`.

Probabilities of more than two classes have no forms here: they are enclosed over whole boxes, and otherwise listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.bounds.enclosure import TINY, gamma, largest
from fairmend.network import Affine, Network
from fairmend.network.graph import Node
from fairmend.network.scores import compute_scores
from fairmend.prove.score_bounds import score_error, sigmoid_bounds, softmax_bounds
from fairmend.quantifying.cases import Cases, person_forms, settled_cases
from fairmend.quantifying.count import BINS
from fairmend.quantifying.decide import Decided, Decider, Spreads
from fairmend.quantifying.forms import LeadForms, lead_forms
from fairmend.quantifying.shares import count_share, may_exceed
from fairmend.quantifying.sides import Threshold, bound_forms, down, farther, protected_terms, surely, up
from fairmend.quantifying.space import Boxes, Space

_NUMBERS = 2**22  # in the forms of all pairs of cases at once


class _Differences(NamedTuple):
    """Forms below differences of a score in boxes: ``A (n, pairs, width)`` in columns of people, others ``(n, pairs)``.

    ``every`` is the constant for all similar people, ``some`` for the best of them; ``size`` bounds what was added up
    in them. ``least`` is below the difference in the whole box, and ``trivial`` says where both people are the same.
    Scores are within delta where all differences are above ``allowed (n,)``, and not where one is above ``exceeded``.
    """

    A: Floats
    every: Floats
    some: Floats
    size: Floats
    least: Floats
    trivial: Bools
    allowed: Floats
    exceeded: Floats

    def take(self, rows: Ints) -> _Differences:
        """Return some of the boxes."""
        numbers = (self.A, self.every, self.some, self.size, self.least)
        A, every, some, size, least = (each[rows] for each in numbers)
        return _Differences(A, every, some, size, least, self.trivial[rows], self.allowed[rows], self.exceeded[rows])

    def pair(self, pairs: Ints) -> _Differences:
        """Return one pair of each box ``(n,)``."""
        rows, at = np.arange(len(pairs))[:, None], pairs[:, None]
        numbers = (self.A, self.every, self.some, self.size, self.least)
        A, every, some, size, least = (each[rows, at] for each in numbers)
        return _Differences(A, every, some, size, least, self.trivial[rows, at], self.allowed, self.exceeded)


class ScoreDecider(Decider):
    """Decides boxes of a space for a network whose spec claims scores."""

    def __init__(self, network: Network, space: Space, *, counting: bool = True, bins: int = BINS) -> None:
        super().__init__(network, space, counting=counting, bins=bins)
        self.claim = space.spec.claim
        self._bounded = logit_network(network, self.claim.on)

    def error_over(self, boxes: Boxes) -> Floats:
        """Return a bound of the error of any score over each box."""
        low, high = self.space.hulls(boxes, self.space.cases(boxes))
        found = score_error(self.network, self.claim, low, high, thorough=True).max(axis=1)
        return np.asarray(found.reshape(len(boxes), -1).max(axis=1))

    def spreads(self, X: FloatArray, people: int, error: float) -> Spreads:
        """Return between which scores so many people surely are with all of these inputs X (people * inputs, width).

        A computed score is off by at most the error, and so is one that is computed elsewhere.
        """
        scores = compute_scores(self.network, X, self.claim.on).reshape(people, -1, self.network.outputs)
        room = 2.000001 * error + 2.0**-50 * float(np.abs(scores).max(initial=1.0))
        low, high = (each.astype(np.float64) for each in (scores.min(axis=1), scores.max(axis=1)))
        return Spreads(down(low - room), up(high + room), up(low + room), down(high - room))

    def settle(self, spreads: Spreads) -> tuple[Bools, Bools]:
        """Return whose scores surely differ by at most delta, and whose by more, given the spreads over all similar."""
        most, least = up(spreads.high - spreads.low), down(spreads.sure_high - spreads.sure_low)
        return most.max(axis=1) < self.claim.limit, least.max(axis=1) > self.claim.limit

    def decide(self, boxes: Boxes, error: Floats) -> Decided:
        """Decide boxes, given bounds of the error of scores over each ``(n,)``."""
        step = max(1, _NUMBERS // (self.space.pieces**2 * self.space.width * self.network.outputs))
        parts = [slice(start, start + step) for start in range(0, len(boxes), step)]
        found = [self._decide_part(boxes.take(part), error[part]) for part in parts]
        return Decided(*(np.concatenate(each) for each in zip(*map(_fields, found), strict=True)))

    def _decide_part(self, boxes: Boxes, error: Floats) -> Decided:
        cases = self.space.cases(boxes)
        forms = self._forms(boxes, cases)
        axis = self._split_axis(boxes, forms)
        if self._bounded is None:
            fair, unfair = self._enclosed(boxes, cases, forms, error)
        else:
            fair, unfair = self._from_differences(boxes, cases, forms, error)
        rest = np.flatnonzero((fair < 1) & (unfair < 1))
        tighter = error.copy()
        tighter[rest] = self._tighter(boxes.take(rest), error[rest], np.full(len(rest), self.claim.limit))
        return self._decided_again(boxes, error, Decided(fair, unfair, axis, tighter))

    def _forms(self, boxes: Boxes, cases: Cases) -> LeadForms:
        lower, upper = self.space.hulls(boxes, cases)
        if self._bounded is None:
            return lead_forms(self.network, lower, upper)
        return lead_forms(self._bounded, lower, upper, outputs=True)

    def _enclosed(self, boxes: Boxes, cases: Cases, forms: LeadForms, error: Floats) -> tuple[Floats, Floats]:
        """Return which boxes are decided as a whole by bounds of the probabilities of several classes."""
        outputs = self.network.outputs
        lower, upper = (end[:, None] for end in self.space.hulls(boxes, cases))
        ends = forms.A * lower, forms.A * upper
        room = gamma(self.network.inputs + 8) * (np.maximum(*map(np.abs, ends)).sum(axis=2) + np.abs(forms.c)) + TINY
        linear = down(np.minimum(*ends).sum(axis=2) + forms.c - room)
        differences = np.zeros((len(linear), outputs, outputs))
        own, other = self.leads.T
        differences[:, own, other] = np.fmax(linear, forms.least)
        low, high = (each.reshape(len(boxes), -1, outputs) for each in softmax_bounds(differences))
        fair = up(high.max(axis=1) - low.min(axis=1)).max(axis=1) < down(self.claim.limit - 2 * error)
        unfair = down(low.max(axis=1) - high.min(axis=1)).max(axis=1) > up(self.claim.limit + 2 * error)
        return fair.astype(np.float64), unfair.astype(np.float64)

    def _from_differences(self, boxes: Boxes, cases: Cases, forms: LeadForms, error: Floats) -> tuple[Floats, Floats]:
        """Return the shares of boxes that are decided by differences of pairs of cases."""
        found = self._differences(boxes, cases, forms, error)
        sure = [(each.least > each.allowed[:, None]) | each.trivial for each in found]
        fair = np.where(np.all([each.all(axis=1) for each in sure], axis=0), 1.0, 0.0)
        unfair = np.where(np.any([self._whole(boxes, each) for each in found], axis=0), 1.0, 0.0)
        rest = np.flatnonzero((fair == 0) & (unfair == 0))
        if len(rest) and self.counting:
            some, left = boxes.take(rest), [each.take(rest) for each in found]
            fair[rest] = self._count_within(some, left, [each[rest] for each in sure])
            unfair[rest] = self._count_beyond(some, left)
            if not (self.space.single and self.space.links is None):
                unfair[rest] = np.maximum(unfair[rest], self._count_of_values(some, error[rest]))
        return fair, unfair

    def _differences(self, boxes: Boxes, cases: Cases, forms: LeadForms, error: Floats) -> list[_Differences]:
        """Return the differences of each output over all ordered pairs of cases."""
        space, pieces = self.space, len(cases.first) // len(boxes)
        outputs = forms.A.shape[1] // 2
        same = settled_cases(space, boxes, cases).reshape(len(boxes), pieces)
        trivial = (np.eye(pieces, dtype=np.bool_) & same[:, :, None]).reshape(len(boxes), -1)
        found = []
        for output in range(outputs):
            one, other = (self._one_sided(boxes, cases, forms, row) for row in (output, outputs + output))
            A = one.A[:, :, None] + other.A[:, None]
            # The sum of coefficients is rounded.
            sizes = np.abs(one.A) @ one.largest[:, :, None], np.abs(other.A) @ one.largest[:, :, None]
            slack = gamma(2) * (sizes[0] + sizes[1].transpose(0, 2, 1)) + TINY
            every, some, size, least = (
                (mine[:, :, None] + his[:, None]).reshape(len(boxes), -1)
                for mine, his in zip(one[2:], other[2:], strict=True)
            )
            room = slack.reshape(len(boxes), -1) + gamma(8) * size + TINY
            A = A.reshape(len(boxes), pieces**2, -1)
            every, some = down(every - room), down(some - room)
            linear = self._over(boxes, A, every, size)
            least = np.maximum(np.nextafter(least, -np.inf), linear)
            least = np.where(np.isnan(least), -np.inf, least)
            limits = self._limits(boxes, one, other, error)
            found.append(_Differences(A, every, some, size, least, trivial, *limits))
        return found

    def _limits(self, boxes: Boxes, one: _OneSided, other: _OneSided, error: Floats) -> tuple[Floats, Floats]:
        """Return above what differences must be so that scores are within delta, and beyond it; both ``(n,)``.

        Differences are those of logits, so that those of probabilities depend on where the logits are.
        """
        allowed, exceeded = down(self.claim.limit - 2 * error), up(self.claim.limit + 2 * error)
        if self.claim.on != "probability":
            return -allowed, exceeded
        low, high = (
            np.fmax(self._over(boxes, side.A, down(side.every - gamma(8) * side.size), side.size), side.least)
            for side in (one, other)
        )
        low, high = low.min(axis=1), -high.min(axis=1)
        return -logit_steps_within(allowed, low, high), logit_steps_beyond(exceeded, low, high)

    def _one_sided(self, boxes: Boxes, cases: Cases, forms: LeadForms, row: int) -> _OneSided:
        """Return the forms below a score, or its negative, in columns of people: of each case of each box."""
        space, shape = self.space, (len(boxes), len(cases.first) // len(boxes))
        A, c = forms.A[:, row], forms.c[:, row]
        protected = protected_terms(space, A, cases.first, cases.last, shape)
        G, c = person_forms(space, boxes, cases, A, c)
        far, near = farther(space, G).reshape(shape), self._near(boxes, G, shape)
        c = c.reshape(shape)
        G = G.reshape(*shape, -1).copy()
        G[:, :, space.columns] = 0.0
        most = largest(*space.person_hull(boxes))
        size = protected.size + far + near + np.where(np.isfinite(c), np.abs(c), 0.0)
        least = forms.least[:, row].reshape(shape)
        return _OneSided(G, most, c + protected.least - far, c + protected.most + near, size, least)

    def _near(self, boxes: Boxes, G: Floats, shape: tuple[int, int]) -> Floats:
        repeated = Boxes(*(np.repeat(end, shape[1], axis=0) for end in (boxes.first, boxes.last)))
        return surely(self.space, repeated, G).reshape(shape)

    def _over(self, boxes: Boxes, A: Floats, c: Floats, size: Floats) -> Floats:
        """Return lower bounds of forms ``A (n, pairs, width)``, ``c (n, pairs)`` over the people of boxes."""
        flat = A.reshape(-1, A.shape[2])
        return bound_forms(self.space, (boxes.first, boxes.last), flat, c, np.zeros_like(c), size)

    def _whole(self, boxes: Boxes, found: _Differences) -> Bools:  # type: ignore[override]
        """Return which boxes have a pair of cases whose scores differ by more than delta for everyone."""
        return np.asarray((self._over(boxes, found.A, found.some, found.size) > found.exceeded[:, None]).any(axis=1))

    def _count_within(self, boxes: Boxes, found: list[_Differences], sure: list[Bools]) -> Floats:
        """Return the share of boxes in which all differences are within delta: what no pair of cases misses."""
        pieces = int(np.sqrt(found[0].A.shape[1]))
        missed = np.zeros(len(boxes))
        for each, known in zip(found, sure, strict=True):
            for one in range(pieces):
                for other in range(one, pieces):
                    there, back = one * pieces + other, other * pieces + one
                    part = np.flatnonzero((missed < 1) & ~(known[:, there] & known[:, back]))
                    if len(part):
                        pair = each.take(part)
                        share = self._count_slab(boxes.take(part), pair, (there, back), known[part])
                        missed[part] = up(missed[part] + up(1.0 - share))
        return np.maximum(1.0 - up(missed), 0.0)

    def _count_slab(self, boxes: Boxes, found: _Differences, pair: tuple[int, int], known: Bools) -> Floats:
        """Return the share in which the differences of two cases, there and back, are both above what is allowed."""
        there, back = pair
        A, B = found.A[:, there], found.A[:, back]
        g = A if there == back else (A - B) / 2
        low = self._needed(boxes, A, found.every[:, there], found.size[:, there], g, found.allowed)
        high = -self._needed(boxes, B, found.every[:, back], found.size[:, back], -g, found.allowed)
        low = np.where(known[:, there], -np.inf, low)
        high = np.full(len(boxes), np.inf) if there == back else np.where(known[:, back], np.inf, high)
        share = np.zeros(len(boxes))
        some = np.flatnonzero((low < high) & self._possible(boxes, g, low, high))
        slab = np.full(len(boxes), self.claim.limit / 4)
        threshold = Threshold(g[some], low[some])
        share[some] = count_share(self.space, boxes.take(some), threshold, slab[some], self.bins, high[some])
        return share

    def _possible(self, boxes: Boxes, g: Floats, low: Floats, high: Floats) -> Bools:
        above, below = Threshold(g, low), Threshold(-g, -high)
        return may_exceed(self.space, boxes, above) & may_exceed(self.space, boxes, below)

    def _needed(self, boxes: Boxes, A: Floats, c: Floats, size: Floats, g: Floats, need: Floats) -> Floats:
        """Return from which g on a form ``A (n, width)``, ``c (n,)`` is above what it needs."""
        rest = bound_forms(
            self.space, (boxes.first, boxes.last), A - g, c[:, None], np.zeros((len(c), 1)), size[:, None]
        )
        # The difference of coefficients is rounded.
        most = (np.abs(A) + np.abs(g)) * largest(*self.space.person_hull(boxes))
        slack = gamma(A.shape[1] + 2) * most.sum(axis=1) + TINY
        return up(need - down(rest[:, 0] - slack))

    def _count_beyond(self, boxes: Boxes, found: list[_Differences]) -> Floats:
        """Return the share of boxes in which the scores of some pair of cases differ by more than delta."""
        lower, upper = self.space.person_hull(boxes)
        centre = (lower + upper) / 2
        share = np.zeros(len(boxes))
        for each in found:
            value = (each.A * centre[:, None]).sum(axis=2) + each.some
            best = each.pair(np.where(np.isnan(value), -np.inf, value).argmax(axis=1))
            g = best.A[:, 0]
            low = self._needed(boxes, g, best.some[:, 0], best.size[:, 0], g, each.exceeded)
            high = np.full(len(boxes), np.inf)
            some = np.flatnonzero((share < 1) & self._possible(boxes, g, low, high))
            slab = np.full(len(some), self.claim.limit / 4)
            counted = count_share(self.space, boxes.take(some), Threshold(g[some], low[some]), slab, self.bins)
            share[some] = np.maximum(share[some], counted)
        return share

    def _count_of_values(self, boxes: Boxes, error: Floats) -> Floats:
        """Do the same with the two protected values that are farthest apart for the middle person of each box."""
        cases = self._cases_of(self._extreme_values(boxes).ravel())
        found = self._differences(boxes, cases, self._forms(boxes, cases), error)
        whole = np.any([self._whole(boxes, each) for each in found], axis=0)
        return np.where(whole, 1.0, self._count_beyond(boxes, found))

    def _extreme_values(self, boxes: Boxes) -> Ints:
        """Return the numbers of the values with the highest and the lowest score of the middle person ``(n, 2)``."""
        X = self.space.people((boxes.first + boxes.last) // 2, self.space.values, self.network.dtype)
        scores = compute_scores(self.network, X, self.claim.on).reshape(len(boxes), len(self.space.values), -1)
        output = (scores.max(axis=1) - scores.min(axis=1)).argmax(axis=1)
        own = np.take_along_axis(scores, output[:, None, None], axis=2)[:, :, 0]
        return np.stack([own.argmax(axis=1), own.argmin(axis=1)], axis=1)


def make_decider(network: Network, space: Space, *, counting: bool = True, bins: int = BINS) -> Decider:
    """Return the decider for what the spec claims: classes or scores."""
    kind = ScoreDecider if space.spec.claim.is_score else Decider
    return kind(network, space, counting=counting, bins=bins)


class _OneSided(NamedTuple):
    """Forms below a score in boxes: ``A (n, pieces, width)``, ``largest (n, width)``, others ``(n, pieces)``."""

    A: Floats
    largest: Floats
    every: Floats
    some: Floats
    size: Floats
    least: Floats


def logit_network(network: Network, on: str | None) -> Network | None:
    """Return a network whose outputs give the scores, one by one; None for probabilities of more than two classes.

    The probability of two classes is the sigmoid of the difference of their logits.
    """
    if on != "probability" or network.outputs == 1:
        return network
    if network.outputs > 2:
        return None
    difference = Affine(np.array([[-1, 1]], network.dtype), np.zeros(1, network.dtype))
    return Network.from_nodes([*network.nodes, Node(difference, (len(network.nodes) - 1,), "difference")])


@np.errstate(all="ignore")
def logit_steps_within(delta: Floats, low: Floats, high: Floats) -> Floats:
    """Return by how much two logits from low to high may differ so that their sigmoids differ by at most delta.

    The sigmoid of z + d minus that of z is largest at z = -d / 2, and smaller the farther z is from there. What comes
    out of the formula is checked with rigorous bounds; -inf where nothing can be said.
    """
    centre = np.log1p(-delta) - np.log1p(delta)
    step = _logit_step(np.clip(centre, low, high), delta) * (1 - 1e-9) - 1e-12
    at = np.clip(-step / 2, low, high)
    most = sigmoid_bounds(at, up(at + step))[1] - sigmoid_bounds(at, at)[0]
    return np.where((step > 0) & (up(most) <= delta), step, -np.inf)


@np.errstate(all="ignore")
def logit_steps_beyond(delta: Floats, low: Floats, high: Floats) -> Floats:
    """Return by how much two logits must differ, if the lower one is from low to high, to be farther apart than delta.

    The difference of the sigmoids is smallest where the lower logit is at one of the ends; inf if it is never so large.
    """
    step = np.fmax(_logit_step(low, delta), _logit_step(high, delta)) * (1 + 1e-9) + 1e-12
    sure = np.isfinite(step)
    for end in (low, high):
        least = sigmoid_bounds(down(end + step), down(end + step))[0] - sigmoid_bounds(end, end)[1]
        sure &= down(least) > delta
    return np.where(sure, step, np.inf)


def _logit_step(z: Floats, delta: Floats) -> Floats:
    """Return how much more than z a logit is whose sigmoid is larger by delta; nan or inf if there is none."""
    share = 1 / (1 + np.exp(-z))
    rest = 1 / (1 + np.exp(z)) - delta
    return np.asarray(np.where(rest > 0, np.log(share + delta) - np.log(rest) - z, np.inf))


def _fields(decided: Decided) -> tuple[Floats, Floats, Ints, Floats]:
    return decided.fair, decided.unfair, decided.axis, decided.error

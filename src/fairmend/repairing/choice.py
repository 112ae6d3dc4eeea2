"""Choose among the candidates of `auto` by a policy, and say why for each.

`Policy` explains the policy. What a candidate *keeps* is its balanced accuracy on the calibration rows,
or its balanced agreement with the original network's decisions on all rows, as the policy prefers. Whether it keeps the
model is decided by its *falls*: of accuracy and of balanced accuracy, as estimated by `FallEstimate`, which is
less noisy than the difference on the calibration rows. Those that keep it are ranked by both, balanced accuracy
counting more. If none does, the one whose largest fall is the smallest is chosen. A candidate that leaves more people
of the data treated unequally than the original does is chosen only if no other is sound, or if it alone keeps what the
policy demands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import percent
from fairmend.repairing.candidates import Candidate, JudgedCandidate
from fairmend.repairing.measures import balancing_weights, class_logits
from fairmend.repairing.options import Policy
from fairmend.repairing.task import RepairTask

NOISE = 1.0
"""Two candidates count as equal if what they keep differs by less than this many standard errors of the paired
difference: the one-standard-error rule of model selection. On synthetic data 1 to 2 select best: with less, noise moves
the choice away from the preferred candidate, which is the better one on average."""

SURE = 1.0
"""A candidate surely keeps the model if its fall is within the policy's limit by this many standard errors."""

BALANCED = 0.75
"""The weight of balanced accuracy in the rank of a candidate; the rest is accuracy's. Balanced accuracy alone favours a
network that predicts a rare class too often. On synthetic data weights from 0.5 to 1 select about equally well."""

MISCALIBRATION = 0.05
"""How far the probability of a class may be off, on average over the rows that changed. Tuned on synthetic data, where
0.03 to 0.07 serve about equally well."""

SURPRISE = 2.0
"""Where the two estimates differ on the labelled rows by more than this many standard errors, probabilities are taken
to be wrong by the rest."""

_NEWTON_STEPS, _RIDGE = 30, 0.001
"""The ridge matters only where the labels leave a slope open."""


@dataclass(frozen=True)
class Fall:
    """How much less than the original a candidate keeps, negative for more, and the standard error of this estimate.

    ``measure`` says of what: "accuracy", "balanced accuracy", "R²" or "agreement with the original".
    """

    value: float
    error: float = 0.0
    measure: str = "balanced accuracy"

    def within(self, limit: float, errors: float = 0.0) -> bool:
        """Return whether the fall is at most the limit, with so many standard errors to spare."""
        return self.value + errors * self.error <= limit


class FallEstimate:
    """Estimates the falls of the candidates of one task, a classification, from their cross-fitted outputs.

    Only rows whose decision changed matter, and there are two ways to say what a change costs:

    - by labels: right on average, but noisy. If 60 of 500 rows changed, the standard error is 1.5 points;
    - by probabilities, on all rows, labelled or not: hardly noisy, but wrong as far as the probabilities are. They come
      from the original's and the candidate's outputs, by a logistic regression that is fitted to all labels: most
      networks are too sure of themselves, and most of all where another network decides otherwise.

    The estimate is the mean of the two, weighted by their inverse variances: with few changes or many labels the labels
    decide, with many changes and few labels the probabilities. The variance of the second allows for probabilities that
    are wrong: by `MISCALIBRATION`, and by more if the labelled rows show it. On synthetic data, where both are known,
    the estimate has two thirds of the error that the labels have.
    """

    def __init__(self, task: RepairTask) -> None:
        self.y, self.before, self.network = task.y_cal, task.original_predictions, task.model
        self.logits = class_logits(task.data.logits)

    def __call__(self, outputs: FloatArray) -> tuple[Fall, Fall]:
        """Return the falls of accuracy and of balanced accuracy.

        ``outputs`` are a candidate's for the calibration rows, then for the unlabelled rows.
        """
        after = self.network.decide(outputs)
        if np.array_equal(after, self.before):
            return Fall(0.0, measure="accuracy"), Fall(0.0)
        probabilities = class_probabilities([self.logits, class_logits(outputs)], self.y)
        labels = np.eye(probabilities.shape[1])[self.y]
        even = np.ones(probabilities.shape[1])
        value, error = self._combine(after, _Measured(probabilities, even), _Measured(labels, even))
        balanced = (
            _Measured(probabilities, balancing_weights(probabilities)),
            _Measured(labels, balancing_weights(labels)),
        )
        return Fall(value, error, "accuracy"), Fall(*self._combine(after, *balanced))

    def _combine(self, after: Ints, by_probability: _Measured, by_label: _Measured) -> tuple[float, float]:
        """Return the mean of both ways to measure a fall, weighted by their inverse variances, and its error."""
        labelled, changed = len(self.y), after != self.before
        label_costs = by_label.costs(self.before[:labelled], after[:labelled])
        costs = by_probability.costs(self.before, after)
        pairs = np.stack([self.before[changed], after[changed]], axis=1)  # the two classes, one of which may be right
        chances = np.take_along_axis(by_probability.chances[changed], pairs, axis=1)
        weights = by_probability.weights[pairs]
        label_variance = float((chances * weights**2).sum()) / len(after) / labelled
        difference = float(label_costs.mean() - costs[:labelled].mean())
        surprise = max(0.0, difference**2 - SURPRISE**2 * label_variance)
        miscalibration = MISCALIBRATION * float(weights.sum()) / len(after)
        variance = miscalibration**2 + surprise + float(np.square(costs).mean()) / len(after)
        share = variance / (variance + label_variance)
        return float(share * label_costs.mean() + (1 - share) * costs.mean()), float(np.sqrt(share * label_variance))


@dataclass(frozen=True, eq=False)
class _Measured:
    """The probabilities ``chances (rows, classes)`` that a class is right, and what a right decision is worth.

    Labels are probabilities of 0 and 1. A right decision for a row of a class is worth that class's weight.
    """

    chances: Floats
    weights: Floats

    def costs(self, before: Ints, after: Ints) -> Floats:
        """Return for each row what it adds to the fall: the mean is the fall."""
        values, rows = self.chances * self.weights, np.arange(len(self.chances))
        return np.asarray(values[rows, before] - values[rows, after])


def class_probabilities(sources: Sequence[Floats], y: Ints) -> Floats:
    """Return probabilities ``(rows, classes)`` from several networks' logits, fitted to the labels of the first rows.

    This is a logistic regression: the softmax of offsets and of the logits ``(rows, classes)`` of each network times
    its slope, by Newton's method. With one network it is Platt's scaling.
    """
    classes = sources[0].shape[1]
    spreads = np.array([float(logits.std()) or 1.0 for logits in sources])
    scaled = np.stack([logits / spread for logits, spread in zip(sources, spreads, strict=True)], axis=2)
    inputs = np.concatenate([scaled, np.broadcast_to(np.eye(classes), (*scaled.shape[:2], classes))], axis=2)
    known, labels = inputs[: len(y)], np.eye(classes)[y]
    prior = np.zeros(inputs.shape[2])
    prior[0] = spreads[0]

    def loss(slopes: Floats) -> float:
        chances = (_softmax(known @ slopes) * labels).sum(axis=1)
        return float(-np.log(chances + 1e-300).sum() + _RIDGE / 2 * np.square(slopes - prior).sum())

    slopes = np.zeros_like(prior)  # where the loss is most curved, so that Newton's steps are safe
    for _ in range(_NEWTON_STEPS):
        found = _softmax(known @ slopes)
        gradient = np.einsum("rcp,rc->p", known, found - labels) + _RIDGE * (slopes - prior)
        centred = known - np.einsum("rcp,rc->rp", known, found)[:, None]
        curvature = np.einsum("rcp,rc,rcq->pq", centred, found, centred) + _RIDGE * np.eye(len(prior))
        step = np.linalg.solve(curvature, gradient)
        while loss(slopes - step) > loss(slopes) and np.abs(step).max() > 1e-9:
            step /= 2
        slopes = slopes - step
    return _softmax(inputs @ slopes)


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Choice:
    """The number of the chosen candidate, the reason for each candidate, and whether the chosen one keeps the model."""

    winner: int
    reasons: tuple[str, ...]
    keeps: bool


class Judgement:
    """What the candidates keep, measured as a policy prefers."""

    def __init__(self, policy: Policy, task: RepairTask) -> None:
        self.policy, self.task = policy, task
        if policy.prefer == "accuracy":
            predicted = task.original_predictions[: len(task.y_cal)]
            self.original = float(task.measure.shares(task.y_cal, predicted).mean())
            self.compared_with = "the original's"
            self.measure = task.measure.name
        else:
            self.original = 1.0
            self.compared_with = "100 %"
            self.measure = "agreement with the original"
        estimated = policy.prefer == "accuracy" and not task.spec.regression
        self._estimate = FallEstimate(task) if estimated else None

    @property
    def estimated(self) -> bool:
        """Whether falls are estimated from rows with and without labels, not only measured on labelled ones."""
        return self._estimate is not None

    def kept(self, candidate: Candidate) -> float:
        """Return what a candidate keeps."""
        return candidate.balanced_accuracy if self.policy.prefer == "accuracy" else candidate.agreement

    def falls(self, judged: JudgedCandidate) -> tuple[Fall, ...]:
        """Return the best estimates of how much less than the original a candidate keeps, one for each measure."""
        if self._estimate is None:
            return (Fall(self.original - self.kept(judged.candidate), measure=self.measure),)
        return self._estimate(judged.outputs)

    def fall(self, judged: JudgedCandidate) -> Fall:
        """Return the largest of the falls."""
        return max(self.falls(judged), key=lambda fall: fall.value)

    def keeps(self, judged: JudgedCandidate, errors: float = 0.0) -> bool:
        """Return whether a candidate is sound and keeps the model, with so many standard errors to spare."""
        within = (fall.within(self.policy.keep, errors) for fall in self.falls(judged))
        return not judged.candidate.collapsed and all(within)

    def surely_keeps(self, judged: JudgedCandidate) -> bool:
        """Return whether a candidate is sound, and keeps the model even if its falls are estimated too low."""
        return self.keeps(judged, SURE)

    def figure(self, kept: float) -> str:
        """Return what a candidate keeps as text."""
        return f"{kept:.3f}" if self.measure == "R²" else percent(kept)

    def distance(self, difference: float) -> str:
        """Return the difference of two such figures as text."""
        return f"{round(difference, 3):g}" if self.measure == "R²" else f"{round(100 * difference, 1):g} points"

    def score(self, judged: JudgedCandidate) -> float:
        """Return what a candidate keeps, with the rows near the threshold counted in part: this ranks candidates."""
        return float(self._shares(judged).mean())

    def lead(self, first: JudgedCandidate, second: JudgedCandidate) -> float:
        """Return by how many standard errors of the paired difference the first has a better score."""
        difference = self._shares(first) - self._shares(second)
        error = float(difference.std()) / np.sqrt(len(difference))
        return float(difference.mean()) / error if error > 0 else 0.0

    def _shares(self, judged: JudgedCandidate) -> Floats:
        labelled = self.policy.prefer == "accuracy"
        true = self.task.y_cal if labelled else self.task.original_predictions
        outputs = judged.outputs[: len(true)]
        return self.task.measure.ranking_shares(true, self.task.model, outputs, BALANCED)


def choose(judged: Sequence[JudgedCandidate], judgement: Judgement) -> Choice:
    """Choose among proven candidates, at least one, that stand in the order of preference.

    Raise FairmendError if the policy demands what none of them has.
    """
    policy = judgement.policy
    candidates = [each.candidate for each in judged]
    pool = [n for n, candidate in enumerate(candidates) if policy.guarantee != "everyone" or candidate.level == 2]
    if not pool:
        raise FairmendError(
            'guarantee="everyone": no recipe gave a network that is proven for everyone; allow a weaker guarantee '
            'with guarantee="any"'
        )
    sound = [n for n in pool if not candidates[n].collapsed] or pool
    fairer = [n for n in sound if not candidates[n].more_unequal]
    if fairer and not (policy.keep_required and not any(judgement.keeps(judged[n]) for n in fairer)):
        sound = fairer
    keepers = [n for n in sound if judgement.keeps(judged[n])]
    closest = min(sound, key=lambda n: judgement.fall(judged[n]).value)
    if policy.keep_required and not keepers:
        raise FairmendError(_not_kept(judged[closest], judgement))
    surely = [n for n in keepers if judgement.surely_keeps(judged[n])]
    group = surely or keepers
    if not keepers:  # the guarantee that loses least
        group = [n for n in sound if candidates[n].level == candidates[closest].level]
    elif policy.guarantee != "listed":
        strongest = max(candidates[n].level for n in group)
        group = [n for n in group if candidates[n].level == strongest]
    winner = _best_of(group, judged, judgement)
    reasons = [
        _reason(n, winner, judged, judgement, pool=pool, sound=sound, keepers=keepers, group=group)
        for n in range(len(judged))
    ]
    return Choice(winner, tuple(reasons), bool(keepers))


def _best_of(group: list[int], judged: Sequence[JudgedCandidate], judgement: Judgement) -> int:
    """Return the one that keeps the most; of those not clearly worse, the least unfair, then the first."""
    most = max(group, key=lambda n: (judgement.score(judged[n]), -n))
    equal = [n for n in group if n == most or judgement.lead(judged[most], judged[n]) <= NOISE]
    return min(equal, key=lambda n: (round(judged[n].candidate.unfair_rate, 3), n))


def _not_kept(judged: JudgedCandidate, judgement: Judgement) -> str:
    closest = judged.candidate
    if closest.collapsed:
        return (
            f"keep={judgement.policy.keep:g}: every proven candidate collapsed, {closest.recipe.name} among them; use "
            f"more calibration rows{_or_weaker(judgement.policy)}"
        )
    return (
        f"keep={judgement.policy.keep:g}: no proven candidate stays within it. The closest is {closest.recipe.name}, "
        f"whose {judgement.fall(judged).measure} is about {judgement.distance(judgement.fall(judged).value)} below "
        f"{judgement.compared_with}; allow more{_or_weaker(judgement.policy)}"
    )


def _or_weaker(policy: Policy) -> str:
    """Return the way out that only a policy has which refuses weaker guarantees."""
    return ", or accept a weaker guarantee" if policy.guarantee == "everyone" else ""


def _reason(
    number: int,
    winner: int,
    judged: Sequence[JudgedCandidate],
    judgement: Judgement,
    *,
    pool: list[int],
    sound: list[int],
    keepers: list[int],
    group: list[int],
) -> str:
    """Return why a candidate was chosen or not."""
    candidate, chosen = judged[number].candidate, judged[winner].candidate
    kept, most, shown = judgement.kept(candidate), judgement.kept(chosen), judgement.figure
    if number == winner:
        return _why_chosen(candidate, judgement, keeps=bool(keepers))
    keep = judgement.distance(judgement.policy.keep)
    if number not in pool:
        return 'not proven for everyone, which guarantee="everyone" demands'
    if number not in sound and not candidate.collapsed:
        return "leaves more people of the data treated unequally than the original does"
    if number not in sound:
        return "collapsed: it lost a class, or agrees with the original hardly more than chance would"
    if candidate.collapsed:
        return "collapsed too, and is not better than the selected one"
    if number not in group and number not in keepers:
        fall = judgement.fall(judged[number])
        below = f"{fall.measure} is about {judgement.distance(fall.value)} below {judgement.compared_with}"
        return f"{below}, more than {keep}" if keepers else f"{below}; with the selected guarantee, less is lost"
    if number not in group:
        if candidate.level >= chosen.level and number in keepers and judgement.surely_keeps(judged[winner]):
            return f"{judgement.fall(judged[number]).measure} may be more than {keep} below {judgement.compared_with}"
        if candidate.level < chosen.level:
            return f"the guarantee is weaker: for {candidate.guarantee}"
        return f"{judgement.measure} is {shown(kept)}, against {shown(most)}"
    if judgement.lead(judged[winner], judged[number]) <= NOISE:
        if round(candidate.unfair_rate, 3) > round(chosen.unfair_rate, 3):
            return "keeps as much as the selected one, but leaves more people treated unequally"
        return (
            f"{judgement.measure} of {shown(kept)} is not clearly different from the selected one's, which comes first"
        )
    if kept >= most:
        return f"{judgement.measure} of {shown(kept)} is due to rows near the threshold; the selected one is better"
    if shown(kept) == shown(most):
        return f"{judgement.measure} is slightly lower than that of the selected one, {shown(most)}"
    return f"{judgement.measure} is {shown(kept)}, against {shown(most)}"


def _why_chosen(candidate: Candidate, judgement: Judgement, *, keeps: bool) -> str:
    figure = f"{judgement.measure} {judgement.figure(judgement.kept(candidate))}"
    if judgement.policy.prefer == "accuracy":
        figure += f", the original's {judgement.figure(judgement.original)}"
    if candidate.collapsed:
        return f"all proven candidates collapsed; this one is the best ({figure})"
    if not keeps:
        within = judgement.distance(judgement.policy.keep)
        return f"no candidate stays within {within} of the original; this one is the best ({figure})"
    if judgement.policy.guarantee == "listed":
        return f"keeps the most of the model ({figure})"
    return f"has the strongest guarantee that keeps the model, and keeps the most of those that have it ({figure})"

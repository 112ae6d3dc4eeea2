"""The repair a user should get: try recipes, keep those that are proven, take the one that keeps most of the model.

The paper's recipe is one of them. No single one fits all networks: a weight on the fairness loss that one network needs
turns another into a constant. So each recipe is tried on parts of the calibration set and judged on the rows it did not
see (cross-fitting), and the winner is made once more from all rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from fairmend.arrays import FloatArray
from fairmend.audit.neighbours import find_unequal, sample_unequal
from fairmend.errors import FairmendError
from fairmend.metrics import accuracy, balanced_accuracy
from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.repair.recipe import Dish, Recipe, cook
from fairmend.repair.task import Task

_logger = logging.getLogger(__name__)

FOLDS = 4
KEEPS_ACCURACY = 0.02
KEEPS_ANSWERS = 0.1
"""A candidate keeps the model when its balanced accuracy and its agreement with the original are at most this much
below the best there are. Agreement, too, is balanced over the classes: a network that gives everybody the frequent
answer agrees with half of the original, however rare the other answer is. It needs no labels, and so sees a collapse
where the few labels of a calibration set do not."""

SAMPLES = 2000
MOST_POINTS = 2_000_000

STRICT = (
    Recipe("blind", "best", 0.0, 0.0, steps=0),
    Recipe("blind at the mean", "mean", 0.0, 0.0, steps=0),
    Recipe("blind, taught by the original", "mean", 0.0, 0.0, steps=200),
    Recipe("blind, taught for longer", "mean", 0.0, 0.0, steps=400),
    Recipe("blind, half taught and half labels", "mean", 0.0, 0.5, steps=200),
    Recipe("prof"),
)
TOLERANT = (
    *(
        Recipe(f"blind, fairness {weight:g}, {who}", "mean", weight, labels, steps=200)
        for weight in (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
        for labels, who in ((0.0, "taught by the original"), (0.5, "half taught and half labels"))
    ),
    Recipe("prof"),
)


@dataclass(frozen=True)
class Candidate:
    """One recipe and how it did, on calibration rows it was not made from.

    ``changed`` is the share of answers that differ from the original's, and ``agreement`` the share that does not, as
    a mean over the original's classes, on all calibration rows and repair inputs. ``guarantee`` is "everyone" (every
    input there is), "everyone, and the repair inputs with tolerance", or "the repair inputs". ``unfair_rate`` is the
    share of the calibration rows and of uniform samples that are still treated unequally. ``problem`` says why there
    is no such repair, and is empty where there is. ``reason`` says why it was chosen, or another was.
    """

    recipe: Recipe
    guarantee: str = ""
    accuracy: float = 0.0
    balanced_accuracy: float = 0.0
    changed: float = 0.0
    agreement: float = 0.0
    unfair_rate: float = 0.0
    chosen: bool = False
    problem: str = ""
    reason: str = ""

    @property
    def proven(self) -> bool:
        """Whether there is a proven network of this recipe."""
        return not self.problem


def choose(task: Task, progress: Progress | None = None) -> tuple[Dish, tuple[Candidate, ...]]:
    """The dish to serve, and all candidates with their figures."""
    recipes = STRICT if task.strict else TOLERANT
    folds = _folds(task)
    candidates: list[Candidate] = []
    dishes: list[Dish | None] = []
    for number, recipe in enumerate(recipes):
        try:
            dish = cook(recipe, task)
            candidates.append(_judge(recipe, dish, task, folds))
            dishes.append(dish)
        except FairmendError as error:
            candidates.append(Candidate(recipe, problem=str(error)))
            dishes.append(None)
        _log(candidates[-1])
        if progress is not None:
            progress("try", number + 1, len(recipes))
    winner, reasons = _winner(candidates, task)
    served = dishes[winner]
    if served is None:
        raise FairmendError(f"no recipe gave a proven repair; the first failed so: {candidates[0].problem}")
    _logger.info("auto takes %s", candidates[winner].recipe.name)
    marked = [
        replace(candidate, chosen=number == winner, reason=reasons[number])
        for number, candidate in enumerate(candidates)
    ]
    return served, tuple(marked)


def _log(candidate: Candidate) -> None:
    if not candidate.proven:
        _logger.info("candidate %s: not proven, %s", candidate.recipe.name, candidate.problem)
        return
    _logger.info(
        "candidate %s: proven for %s, balanced accuracy %.4f, changed %.4f, unfair %.4f",
        candidate.recipe.name,
        candidate.guarantee,
        candidate.balanced_accuracy,
        candidate.changed,
        candidate.unfair_rate,
    )


def _winner(candidates: list[Candidate], task: Task) -> tuple[int, list[str]]:
    """The strongest guarantee; then whoever keeps the model; then fewest treated unequally, fewest answers changed.

    Returns its number, and for each candidate why it was chosen or not.
    """
    reasons = [candidate.problem for candidate in candidates]
    proven = [number for number, candidate in enumerate(candidates) if candidate.proven]
    if not proven:
        return 0, reasons
    everyone = [number for number in proven if candidates[number].guarantee.startswith("everyone")]
    pool = everyone or proven
    original = balanced_accuracy(task.y_cal, task.network.predict(task.X_cal))
    best = max(candidates[number].balanced_accuracy for number in pool)
    least_accuracy = min(original, best) - KEEPS_ACCURACY
    least_agreement = max(candidates[number].agreement for number in pool) - KEEPS_ANSWERS
    keepers = [
        number
        for number in pool
        if candidates[number].balanced_accuracy >= least_accuracy and candidates[number].agreement >= least_agreement
    ]
    keepers = keepers or [max(pool, key=lambda number: candidates[number].agreement)]
    winner = min(
        keepers, key=lambda number: (round(candidates[number].unfair_rate, 6), candidates[number].changed, number)
    )
    for number in proven:
        candidate = candidates[number]
        if number == winner:
            reasons[number] = "keeps most of the model among the strongest guarantees"
        elif number not in pool:
            reasons[number] = "others are proven for everyone"
        elif number in keepers:
            chosen = candidates[winner]
            if round(candidate.unfair_rate, 6) > round(chosen.unfair_rate, 6):
                reasons[number] = "leaves more people treated unequally"
            elif candidate.changed > chosen.changed:
                reasons[number] = f"changes more answers, {candidate.changed:.1%} against {chosen.changed:.1%}"
            else:
                reasons[number] = "as good as the chosen one, which was tried first"
        elif candidate.balanced_accuracy < least_accuracy:
            reasons[number] = f"balanced accuracy is below {least_accuracy:.1%}"
        elif candidate.agreement < least_agreement:
            reasons[number] = f"agrees with less than {least_agreement:.1%} of the original's answers"
        else:
            reasons[number] = "agrees less with the original's answers"
    return winner, reasons


def _judge(recipe: Recipe, dish: Dish, task: Task, folds: list[np.ndarray]) -> Candidate:
    before = task.network.predict(task.X_cal)
    everyone = np.concatenate([task.X_cal, task.X_repair])
    answers = np.empty(len(before), dtype=np.int64)
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(before)), fold)
        answers[fold] = cook(recipe, task.calibrated_on(rest)).network.predict(task.X_cal[fold])
    if dish.blind and task.strict:
        guarantee = "everyone"
    else:
        guarantee = "everyone, and the repair inputs with tolerance" if dish.blind else "the repair inputs"
    return Candidate(
        recipe,
        guarantee,
        accuracy(task.y_cal, answers),
        balanced_accuracy(task.y_cal, answers),
        float(np.mean(answers != before)),
        balanced_accuracy(task.network.predict(everyone), dish.network.predict(everyone)),
        0.0 if guarantee == "everyone" else _unfair_rate(dish.network, task),
    )


def _unfair_rate(network: Network, task: Task) -> float:
    """Mean of the rates among the calibration rows and among uniform samples: neither needs a label."""
    rng = np.random.default_rng(task.seed)
    samples = task.spec.sample_inputs(SAMPLES, rng, task.network.dtype)
    return (_rate(network, task, task.X_cal) + _rate(network, task, samples)) / 2


def _rate(network: Network, task: Task, X: FloatArray) -> float:
    if not task.spec.finite:
        return sample_unequal(network, task.spec, X, seed=task.seed).rate
    points = float(np.sum(task.spec.neighbourhood_sizes(X[:1])))
    rows = max(1, min(len(X), int(MOST_POINTS / points)))
    return find_unequal(network, task.spec, X[:rows]).rate


def _folds(task: Task) -> list[np.ndarray]:
    """Rows of each fold, every class spread evenly."""
    rng = np.random.default_rng(task.seed)
    order = rng.permutation(len(task.y_cal))
    order = order[np.argsort(task.y_cal[order], kind="stable")]
    folds = [np.sort(order[start::FOLDS]) for start in range(FOLDS)]
    if any(len(fold) == 0 for fold in folds):
        raise FairmendError(f"auto needs at least {FOLDS} calibration rows, to try recipes on some and judge on others")
    return folds

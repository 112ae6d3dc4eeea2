"""The method `auto`: run several recipes, and select the proven network that keeps the most of the model.

The paper's recipe is one of them. No single recipe fits all networks: a weight on the fairness loss that one network
needs turns another into a constant. Each recipe runs once on all calibration rows. That gives the network, its proof,
and its rate of unequal treatment. The recipe then runs on parts of the calibration set, and the predictions for the
rows left out (cross-fitting) estimate its accuracy and how many predictions it changes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from fairmend.arrays import FloatArray
from fairmend.audit.neighbours import can_enumerate, find_unequal, sample_unequal
from fairmend.errors import FairmendError
from fairmend.metrics import accuracy, balanced_accuracy
from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.repair.policy import Policy
from fairmend.repair.recipe import Recipe, RepairAttempt, run_recipe
from fairmend.repair.task import RepairTask
from fairmend.text import percent

__all__ = ["Candidate", "select_repair"]

_logger = logging.getLogger(__name__)

FOLDS = 4
KEEPS_ACCURACY = 0.02
KEEPS_PREDICTIONS = 0.1
"""A candidate keeps the model if its balanced accuracy and its agreement with the original network are at most this
much below those of the best candidate. Agreement is balanced over the classes, too: a network that always predicts the
frequent class agrees with half of the original, however rare the other class is. Agreement needs no labels, so it
detects a collapse that the few labels of a calibration set do not show."""

SAMPLES = 2000
MOST_POINTS = 2_000_000

# "Distilled" recipes train the blind network towards the original network's predictions.
STRICT = (
    Recipe("blind", "best", 0.0, 0.0, steps=0, blind_to="varying"),
    Recipe("blind at the mean", "mean", 0.0, 0.0, steps=0, blind_to="varying"),
    Recipe("blind, distilled", "mean", 0.0, 0.0, steps=200, blind_to="varying"),
    Recipe("blind, distilled for longer", "mean", 0.0, 0.0, steps=400, blind_to="varying"),
    Recipe("blind, distilled with labels", "mean", 0.0, 0.5, steps=200, blind_to="varying"),
    Recipe("prof"),
)
TOLERANT = (
    *STRICT[:-1],
    *(
        Recipe(f"blind, fairness {weight:g}, {targets}", "mean", weight, labels, steps=200, blind_to="protected")
        for weight in (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
        for labels, targets in ((0.0, "distilled"), (0.5, "distilled with labels"))
    ),
    Recipe("prof"),
)


GUARANTEES = ("the repair inputs", "everyone, and the repair inputs with tolerance", "everyone")


@dataclass(frozen=True)
class Candidate:
    """One recipe and its figures.

    ``accuracy``, ``balanced_accuracy`` and ``changed`` (the share of predictions that differ from the original's) are
    measured on calibration rows that the recipe did not use: each row is predicted by a network that the recipe made
    without it. The other figures are of the network that the recipe made from all calibration rows. ``agreement`` is
    the share of its predictions that equal the original's, as a mean over the original's classes, on all calibration
    rows and repair inputs. ``unfair_rate`` is the share of calibration rows and of uniform samples that it treats
    unequally, the mean of the two rates. ``guarantee`` is "everyone", "everyone, and the repair inputs with
    tolerance", or "the repair inputs". ``problem`` says why the recipe gave no proven network, and is empty if it did.
    ``reason`` says why the candidate was chosen or not. ``blind_features`` are the features that the network ignores.
    ``collapsed`` and ``on_frontier``: see `fairmend.repair.policy`.
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
    blind_features: tuple[str, ...] = ()
    collapsed: bool = False
    on_frontier: bool = False

    @property
    def level(self) -> int:
        """The strength of the guarantee: 2 for everyone, 1 for everyone but tolerances and links, 0 for the listed."""
        return GUARANTEES.index(self.guarantee)

    @property
    def proven(self) -> bool:
        """Whether the recipe gave a proven network."""
        return not self.problem


def select_repair(
    task: RepairTask, policy: Policy | None = None, progress: Progress | None = None
) -> tuple[RepairAttempt, tuple[Candidate, ...]]:
    """Return the selected repair, and all candidates with their figures.

    Once the task's deadline has passed, the recipes that are left do not run, and one that is not yet evaluated is
    dropped: their candidates have a problem that begins with "time limit". Raise FairmendError if no candidate is
    proven.
    """
    recipes = STRICT if task.strict else TOLERANT
    folds = _folds(task)
    candidates: list[Candidate] = []
    attempts: list[RepairAttempt | None] = []
    for number, recipe in enumerate(recipes):
        try:
            attempt = _run_in_time(recipe, task)
            candidates.append(_evaluate(recipe, attempt, task, folds))
            attempts.append(attempt)
        except FairmendError as error:
            candidates.append(Candidate(recipe, problem=str(error)))
            attempts.append(None)
        _log(candidates[-1])
        if progress is not None:
            progress("try", number + 1, len(recipes))
    winner, reasons = _select(candidates, task)
    selected = attempts[winner]
    if selected is None:
        raise FairmendError(_nothing_proven(candidates, task))
    _logger.info("auto selects %s", candidates[winner].recipe.name)
    marked = [
        replace(candidate, chosen=number == winner, reason=reasons[number])
        for number, candidate in enumerate(candidates)
    ]
    return selected, tuple(marked)


def _run_in_time(recipe: Recipe, task: RepairTask) -> RepairAttempt:
    if task.deadline.passed:
        raise FairmendError(f"time limit: the {task.deadline.limit:g} s ended before this recipe was run and evaluated")
    return run_recipe(recipe, task)


def _nothing_proven(candidates: list[Candidate], task: RepairTask) -> str:
    first = f"first failure: {candidates[0].problem}"
    if not task.deadline.passed:
        return f"no recipe gave a proven repair; {first}"
    return (
        f"no recipe gave a proven repair within the time limit of {task.deadline.limit:g} s; allow more time "
        f"(time_limit), or use method blind or prof, which run one recipe; {first}"
    )


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


def _select(candidates: list[Candidate], task: RepairTask) -> tuple[int, list[str]]:
    """Return the number of the best candidate, and for each candidate why it was chosen or not.

    The strongest guarantee comes first. Among those that keep the model, the fewest treated unequally decide, then the
    fewest changed predictions.
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
    least_agreement = max(candidates[number].agreement for number in pool) - KEEPS_PREDICTIONS
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
            reasons[number] = "keeps the most of the model among those with the strongest guarantee"
        elif number not in pool:
            reasons[number] = "others are proven for everyone"
        elif number in keepers:
            chosen = candidates[winner]
            if round(candidate.unfair_rate, 6) > round(chosen.unfair_rate, 6):
                reasons[number] = "leaves more people treated unequally"
            elif candidate.changed > chosen.changed:
                reasons[number] = (
                    f"changes more predictions: {percent(candidate.changed)}, against {percent(chosen.changed)}"
                )
            else:
                reasons[number] = "equals the chosen recipe, which was tried first"
        elif candidate.balanced_accuracy < least_accuracy:
            reasons[number] = f"balanced accuracy is below {percent(least_accuracy)}"
        elif candidate.agreement < least_agreement:
            reasons[number] = f"agrees with less than {percent(least_agreement)} of the original predictions"
        else:
            reasons[number] = "agrees less with the original predictions"
    return winner, reasons


def _evaluate(recipe: Recipe, attempt: RepairAttempt, task: RepairTask, folds: list[np.ndarray]) -> Candidate:
    """Return the candidate: cross-fitted figures of the recipe, and those of the network that it made."""
    before = task.network.predict(task.X_cal)
    everyone = np.concatenate([task.X_cal, task.X_repair])
    predictions = np.empty(len(before), dtype=np.int64)
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(before)), fold)
        without = _run_in_time(recipe, task.with_calibration_rows(rest))
        predictions[fold] = without.network.predict(task.X_cal[fold])
    guarantee = GUARANTEES[2 if attempt.everyone else 1 if attempt.blind else 0]
    return Candidate(
        recipe,
        guarantee,
        accuracy(task.y_cal, predictions),
        balanced_accuracy(task.y_cal, predictions),
        float(np.mean(predictions != before)),
        balanced_accuracy(task.network.predict(everyone), attempt.network.predict(everyone)),
        0.0 if guarantee == "everyone" else _unfair_rate(attempt.network, task),
        blind_features=attempt.blind_features,
    )


def _unfair_rate(network: Network, task: RepairTask) -> float:
    """Return the mean of the rates among the calibration rows and among uniform samples; neither needs labels."""
    rng = np.random.default_rng(task.seed)
    samples = task.spec.sample_inputs(SAMPLES, rng, task.network.dtype)
    return (_rate(network, task, task.X_cal) + _rate(network, task, samples)) / 2


def _rate(network: Network, task: RepairTask, X: FloatArray) -> float:
    if not can_enumerate(task.spec):
        return sample_unequal(network, task.spec, X, seed=task.seed).rate
    points = int(task.spec.neighbourhood_sizes(X[:1], X.dtype)[0])
    rows = max(1, min(len(X), MOST_POINTS // points))
    return find_unequal(network, task.spec, X[:rows]).rate


def _folds(task: RepairTask) -> list[np.ndarray]:
    """Return the rows of each fold, with every class spread evenly."""
    rng = np.random.default_rng(task.seed)
    order = rng.permutation(len(task.y_cal))
    order = order[np.argsort(task.y_cal[order], kind="stable")]
    folds = [np.sort(order[start::FOLDS]) for start in range(FOLDS)]
    if any(len(fold) == 0 for fold in folds):
        raise FairmendError(
            f"auto needs at least {FOLDS} calibration rows, to run recipes on some and evaluate them on the others; "
            "give more rows, or use method blind or prof"
        )
    return folds

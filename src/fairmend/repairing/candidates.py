"""The candidates of `auto`: one recipe each, judged on rows that it did not use.

A recipe runs once on all rows, which gives the network and its proof, and once for each fold without the rows of that
fold (cross-fitting). Every figure of a candidate is about rows and networks that did not see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmend.auditing.neighbours import ExhaustiveScan, UnequalInputs, can_enumerate, sample_unequal
from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.network import Model, Network
from fairmend.repairing.blind import ignored_features
from fairmend.repairing.recipe import Recipe, RepairAttempt, blind_and_distil, run_recipe_on_parts
from fairmend.repairing.task import RepairTask
from fairmend.spec import Spec

FOLDS = 4
SAMPLES = 2000
MOST_POINTS = 2_000_000
_WIDTH = 1.96  # standard errors that chance explains

GUARANTEES = ("the repair inputs", "everyone, and the repair inputs with tolerance or links", "everyone")


@dataclass(frozen=True)
class Candidate:
    """One recipe and its figures.

    All figures are cross-fitted: each row is predicted by a network that the recipe made without it. ``accuracy`` and
    ``balanced_accuracy`` are those of the calibration rows. ``changed`` is the share of predictions that differ from
    the original's, and ``agreement`` the share that equals them as a mean over the original's classes, on calibration
    and unlabelled rows. ``unfair_rate`` is the mean of the shares of calibration rows and of uniform samples that are
    treated unequally, or 0 if that is proven. ``guarantee`` is "everyone", "everyone, and the repair inputs with
    tolerance or links", or "the repair inputs". ``problem`` says why there is no proven network, or why its recipe was
    stopped, and is empty if there is one. ``reason`` says why the candidate was chosen or not. ``blind_features`` are
    the features that the network ignores. ``collapsed`` tells whether it lost a class or agrees with the original
    hardly more than chance would. ``on_frontier`` tells that it did not collapse, and that no other candidate is at
    least as good in guarantee, unfairness and what is kept, and better in one.

    ``fall`` is how much less than the original it keeps, negative for more, as the selection estimates it: the largest
    fall of ``fall_of``, accuracy or balanced accuracy, which decides whether it keeps the model; None if it was not
    judged. ``more_unequal`` tells that more calibration rows are treated unequally than before.

    For a regression, ``accuracy`` and ``balanced_accuracy`` are R², ``agreement`` is the share of the variance of the
    original's outputs that is kept, and ``changed`` the rest.
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
    fall: float | None = None
    fall_of: str = ""
    more_unequal: bool = False

    @property
    def proven(self) -> bool:
        """Whether the recipe gave a proven network."""
        return not self.problem

    @property
    def level(self) -> int:
        """The strength of the guarantee: 2 for everyone, 1 for everyone but tolerances and links, 0 for the listed."""
        return GUARANTEES.index(self.guarantee) if self.proven else 0


@dataclass(frozen=True)
class JudgedCandidate:
    """A proven candidate with its repair, and the outputs of its cross-fitted networks: ``(rows,)`` or
    ``(rows, outputs)``, for the calibration rows, then the unlabelled rows.
    """

    candidate: Candidate
    attempt: RepairAttempt
    outputs: FloatArray


class HopelessError(FairmendError):
    """A recipe was stopped because its network cannot win."""


@dataclass(frozen=True)
class Fold:
    """The rows that judge a recipe which runs without them: of the calibration set, and of the unlabelled rows."""

    labelled: Ints
    unlabelled: Ints


def make_folds(task: RepairTask) -> list[Fold]:
    """Return the folds, with every class, or every part of the range of numbers, spread evenly."""
    rng = np.random.default_rng(task.seed)
    order = rng.permutation(len(task.y_cal))
    order = order[np.argsort(task.y_cal.reshape(len(order), -1)[order, 0], kind="stable")]
    others = rng.permutation(len(task.X_unlabelled))
    folds = [Fold(np.sort(order[start::FOLDS]), np.sort(others[start::FOLDS])) for start in range(FOLDS)]
    if any(len(fold.labelled) == 0 for fold in folds):
        raise FairmendError(
            f"auto needs at least {FOLDS} calibration rows, to run recipes on some and evaluate them on the others; "
            "give more rows, or use method blind or prof"
        )
    return folds


class Jury:
    """Runs recipes on all rows and without each fold, and judges them by the rows of the folds."""

    def __init__(self, task: RepairTask) -> None:
        self.task, self.folds = task, make_folds(task)
        self.parts = [task, *(task.without_rows(fold.labelled, fold.unlabelled) for fold in self.folds)]
        self._distilled: dict[tuple[object, ...], list[Network]] = {}

    def judge(self, recipe: Recipe, is_hopeless: Callable[[JudgedCandidate], bool] | None = None) -> JudgedCandidate:
        """Run a recipe and judge it.

        ``is_hopeless`` is asked after the run on all rows, about a candidate that is judged by these very rows: if it
        says yes, HopelessError saves the runs without each fold. Raise FairmendError if a result cannot be proven, and
        TimeLimitError if the task's time ends in a training.
        """
        if recipe.by_classes is not None:
            attempt, *attempts = run_recipe_on_parts(recipe, self.parts, self._stop_in_time)
            return _judge(recipe, attempt, [each.network for each in attempts], self.task, self.folds)
        # Recipes that differ only in what follows share the networks of their first stage.
        first_stage = (recipe.blind_to, recipe.reference, recipe.label_weight, recipe.distil_steps, recipe.expected)
        if first_stage not in self._distilled:
            self._distilled[first_stage] = blind_and_distil(recipe, self.parts, self._stop_in_time)
        networks = self._distilled[first_stage]
        (attempt,) = run_recipe_on_parts(recipe, self.parts[:1], self._stop_in_time, networks[:1])
        if is_hopeless is not None and is_hopeless(_judge_by_own_rows(recipe, attempt, self.task)):
            raise HopelessError("stopped: even on the rows that it learnt from, it keeps less than another candidate")
        attempts = run_recipe_on_parts(recipe, self.parts[1:], self._stop_in_time, networks[1:])
        return _judge(recipe, attempt, [each.network for each in attempts], self.task, self.folds)

    def _stop_in_time(self, stage: str, done: int, total: int) -> None:
        """Raise TimeLimitError if the time ends in a training; the other stages end in time by themselves."""
        if stage in ("distil", "calibrate") and done < total:
            self.task.deadline.check("while this recipe was run")


def _judge_by_own_rows(recipe: Recipe, attempt: RepairAttempt, task: RepairTask) -> JudgedCandidate:
    """Judge a network by the rows that it was made from: it does no better on others."""
    outputs = attempt.network.logits(task.data.X)
    candidate = Candidate(recipe, _guarantee(attempt), blind_features=attempt.blind_features)
    return JudgedCandidate(_with_figures(candidate, task, outputs, outputs), attempt, outputs)


def _guarantee(attempt: RepairAttempt) -> str:
    return GUARANTEES[2 if attempt.everyone else 1 if attempt.blind else 0]


def _judge(
    recipe: Recipe, attempt: RepairAttempt, networks: Sequence[Model], task: RepairTask, folds: Sequence[Fold]
) -> JudgedCandidate:
    """Judge the networks of the folds by the rows that they did not see."""
    X = task.data.X
    own = attempt.network.logits(X)
    outputs = np.empty_like(own)
    for fold, network in zip(folds, networks, strict=True):
        rows = np.concatenate([fold.labelled, len(task.X_cal) + fold.unlabelled])
        outputs[rows] = network.logits(X[rows])
    on_data, on_samples = ([], 0.0) if attempt.everyone else _unequal_rows(networks, task, folds)
    some = any(found.count for found in on_data)
    original = _unequal_in_folds([task.model] * len(folds), task, folds) if some else []
    candidate = Candidate(
        recipe,
        _guarantee(attempt),
        unfair_rate=(float(np.mean([found.rate for found in on_data])) + on_samples) / 2 if on_data else 0.0,
        blind_features=attempt.blind_features,
        more_unequal=some and are_more(original, on_data),
    )
    return JudgedCandidate(_with_figures(candidate, task, outputs, own), attempt, outputs)


def _with_figures(candidate: Candidate, task: RepairTask, outputs: FloatArray, final_outputs: FloatArray) -> Candidate:
    """Return a candidate with its figures, from cross-fitted outputs and from those of its own network."""
    measure, y, before = task.measure, task.y_cal, task.original_predictions
    all_rows, final = (measure.predictions(task.model, each) for each in (outputs, final_outputs))
    return replace(
        candidate,
        accuracy=measure.accuracy(y, all_rows[: len(y)]),
        balanced_accuracy=measure.fit(y, all_rows[: len(y)]),
        changed=measure.changed(before, all_rows),
        agreement=measure.agreement(before, all_rows),
        collapsed=measure.has_collapsed(before, all_rows) or measure.has_collapsed(before, final),
    )


def _unequal_rows(
    networks: Sequence[Model], task: RepairTask, folds: Sequence[Fold]
) -> tuple[list[UnequalInputs], float]:
    """Return who is treated unequally in each fold, and the rate among uniform samples; neither needs labels."""
    rng = np.random.default_rng(task.seed)
    samples = task.spec.sample_inputs(SAMPLES, rng, task.model.dtype, task.X_cal)
    parts = np.array_split(samples, len(networks))
    on_samples = [unequal_rows(network, task, part).rate for network, part in zip(networks, parts, strict=True)]
    return _unequal_in_folds(networks, task, folds), float(np.mean(on_samples))


def _unequal_in_folds(networks: Sequence[Model], task: RepairTask, folds: Sequence[Fold]) -> list[UnequalInputs]:
    rows = (task.X_cal[fold.labelled] for fold in folds)
    return [unequal_rows(network, task, X) for network, X in zip(networks, rows, strict=True)]


def unequal_rows(network: Model, task: RepairTask, X: FloatArray) -> UnequalInputs:
    """Return which of X (rows, width) are treated unequally, of as many of the first rows as are soon compared."""
    spec = _spec_of_differences(task.spec, network)
    if not can_enumerate(spec):
        return sample_unequal(network, spec, X, seed=task.seed)
    points = int(spec.neighbourhood_sizes(X[:1], X.dtype)[0])
    rows = max(1, min(len(X), MOST_POINTS // points))
    return UnequalInputs(ExhaustiveScan(network, spec).scan(X[:rows]).unequal, exact=True)


def are_more(before: Sequence[UnequalInputs], after: Sequence[UnequalInputs]) -> bool:
    """Return whether more people are treated unequally than before, by the rows that both know, part by part.

    Counts of everyone who is treated unequally among the same people are facts about them, so one more is more. Where
    only random counterfactuals were tried, someone may be missed on one side and not on the other: then those who are
    found on one side only must differ by more than chance explains, if each of them could as well be on the other.
    """
    gained = lost = 0
    exact = True
    for old, new in zip(before, after, strict=True):
        both = min(len(old.rows), len(new.rows))
        gained += int((new.rows[:both] & ~old.rows[:both]).sum())
        lost += int((old.rows[:both] & ~new.rows[:both]).sum())
        exact = exact and old.exact and new.exact
    return gained - lost > (0 if exact else _WIDTH * np.sqrt(gained + lost))


def _spec_of_differences(spec: Spec, network: Model) -> Spec:
    """Return the spec without differences in features that the network ignores, unless links set some of them.

    People who differ in these only have one output anyway, so they need not be compared.
    """
    if spec.links or not isinstance(network, Network):
        return spec
    return spec.ignoring(ignored_features(network, spec))

"""Recipes: every repair except the baselines is the same sequence of stages with its own settings.

1. Blind the network, if the recipe says so, and train it towards the original network's predictions (distillation).
2. Train it on three losses: the width of its features, labels, and the original network's predictions (step 1).
3. Change the head as little as possible, unless blindness alone is a proof (step 2).
4. Prove the result.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats
from fairmend.base.progress import Progress
from fairmend.models.repaired import RepairedModel
from fairmend.network import Network
from fairmend.network.input_columns import fix_columns, in_raw_units, in_units, training_units
from fairmend.prove.proof import Proof, is_large, most_points
from fairmend.repairing.blind import (
    blind_at_best_reference,
    columns_of,
    ignored_features,
    is_blind,
    match_rate,
    mean_reference,
    zero_columns,
)
from fairmend.repairing.calibrate import PAPER_LEARNING_RATE, PAPER_STEPS, Calibration, calibrate, expected_seconds
from fairmend.repairing.certified import one_target_for_each_group, train_certified
from fairmend.repairing.demands import (
    ProvenHead,
    demands_of,
    prove_by_blindness,
    prove_repair_inputs,
    repair_until_proven,
    require_provable_size,
)
from fairmend.repairing.distil import Student, distil, expected_training_rows, training_rows
from fairmend.repairing.head.solve import HeadSolution
from fairmend.repairing.task import Deadline, RepairTask
from fairmend.repairing.training import History
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.neighbourhoods import Regions

_logger = logging.getLogger(__name__)

STEP_1_SHARE = 0.5
"""The part of the time limit in which step 1 must end: bounds, step 2 and the proof come after it."""

_MUCH_WORK = 10**9  # products of weights in all steps of step 1; with fewer, it takes seconds
_MOST_NUMBERS = 1_000_000  # in the intervals of all pieces that certified training holds at once
_MOST_PEOPLE = 50_000  # in all neighbourhoods, that step 2 takes one by one where there is no time for linear bounds
_SETTLING, _SETTLING_STEPS, _SETTLING_ROWS = 20, 20, 1000  # rounds, and steps and rows of each, in `_settle`
MOST_VALUES = 20
"""The values of whole-number features, at most, that certified training proves one by one in each neighbourhood: two
tolerances of 1, or one of 9. On synthetic data this proves more neighbourhoods than boxes, and keeps more elsewhere."""


@dataclass(frozen=True)
class Recipe:
    """One way to repair a network. The defaults are the paper's.

    ``blind_to`` names the features that the network shall ignore: "protected", "varying" (all in which similar people
    may differ), or further features besides the protected ones; None does not blind the network. ``reference`` selects
    what the network reads in their place: "mean", or "best", the values with the best balanced accuracy on the
    calibration set. ``distil_steps`` trains the blind network before step 1, and ``match_rate`` then shifts its head so
    that it predicts each of two classes as often as the original does; other networks stay as they are.
    ``label_weight`` is the share of the task loss that comes from labels; the rest comes from the original
    network's probabilities. With ``expected``, distillation aims at what these are on average over the ignored
    features. With ``certified``, certified training takes the place of step 1, and step 2 runs only if a proof is
    missing after it: for claims about classes. ``by_classes`` puts the canonical map of the spec in front of the model:
    "average", "distilled" or "representative", see `repairing.by_classes`. ``parts`` divides the
    regions of step 1: each of its steps takes the next part.
    """

    name: str = "prof"
    reference: str | None = None
    fairness_weight: float = 1.0
    label_weight: float = 1.0
    steps: int = PAPER_STEPS
    learning_rate: float = PAPER_LEARNING_RATE
    bounds: str = "linear"
    batch_size: int | None = None
    patience: int | None = None
    blind_to: str | tuple[str, ...] | None = None
    distil_steps: int = 0
    match_rate: bool = False
    expected: bool = False
    certified: bool = False
    by_classes: str | None = None
    parts: int = 1

    def blinded_features(self, spec: Spec) -> list[Feature]:
        """Return the features that the recipe blinds the network to, in the order of the spec."""
        if self.blind_to is None:
            return []
        if self.blind_to == "varying":
            return spec.varying
        further = () if self.blind_to == "protected" else self.blind_to
        return [feature for feature in spec.varying if feature.protected or feature.name in further]


@dataclass(frozen=True)
class RepairAttempt:
    """A repaired network, its proof, and the time that each stage took.

    ``blind_features`` are the features that the network provably ignores: all protected ones and possibly others that
    vary, or none. ``by_classes`` tells that the output depends on a person only through their class. ``head`` is None
    if step 2 did not run. ``split`` is that of the task, for the proof.
    """

    network: Network | RepairedModel
    spec: Spec
    proof: Proof
    blind_features: tuple[str, ...]
    history: History
    head: HeadSolution | None
    margin: float
    attempts: int
    seconds: dict[str, float]
    split: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    by_classes: bool = False

    @property
    def blind(self) -> bool:
        """Whether the network provably ignores the protected features."""
        return bool(self.blind_features)

    @property
    def blind_columns(self) -> tuple[int, ...]:
        """The columns that the network provably ignores: those of ``blind_features``."""
        ignored = [feature for feature in self.spec.varying if feature.name in self.blind_features]
        return tuple(columns_of(self.spec, ignored))

    @property
    def everyone(self) -> bool:
        """Whether all similar people get one output: the model ignores all in which they differ, or reads classes."""
        return self.by_classes or covers_everyone(self.blind_features, self.spec)


def covers_everyone(ignored: tuple[str, ...], spec: Spec) -> bool:
    """Return whether ignoring these features is a proof for everyone: similar people differ in nothing else."""
    return all(feature.name in ignored for feature in spec.varying)


def run_recipe(recipe: Recipe, task: RepairTask, progress: Progress | None = None) -> RepairAttempt:
    """Repair with a recipe and prove the result. Raise FairmendError if it cannot be proven."""
    return run_recipe_on_parts(recipe, [task], progress)[0]


def run_recipe_on_parts(
    recipe: Recipe,
    tasks: Sequence[RepairTask],
    progress: Progress | None = None,
    networks: Sequence[Network] | None = None,
) -> list[RepairAttempt]:
    """Run a recipe on tasks that differ in their calibration and unlabelled rows only; they are distilled together.

    ``networks`` are the result of `blind_and_distil`, if it is at hand.
    """
    started = time.perf_counter()
    _logger.debug("%r with %d repair inputs", recipe, len(tasks[0].X_repair))
    if recipe.by_classes is not None:
        from fairmend.repairing.by_classes import run_class_recipe

        return run_class_recipe(recipe, tasks, progress)
    spec = tasks[0].spec
    columns = columns_of(spec, recipe.blinded_features(spec))
    networks = networks or blind_and_distil(recipe, tasks, progress)
    if recipe.match_rate and not spec.regression:
        networks = [_match_rate(network, task) for network, task in zip(networks, tasks, strict=True)]
    before = (time.perf_counter() - started) / len(tasks)
    return [
        _calibrate_and_prove(recipe, task, network, columns, before, progress)
        for task, network in zip(tasks, networks, strict=True)
    ]


def blind_and_distil(recipe: Recipe, tasks: Sequence[RepairTask], progress: Progress | None = None) -> list[Network]:
    """Return the network of each task after stage 1: blind and distilled if the recipe says so."""
    spec = tasks[0].spec
    blinded = recipe.blinded_features(spec)
    if not covers_everyone(tuple(feature.name for feature in blinded), spec):
        require_provable_size(tasks[0])
        demands_of(spec.claim).check_options(tasks[0])
    columns = columns_of(spec, blinded)
    networks = [_blind(recipe, task, columns) if blinded else task.network for task in tasks]
    return _distil(recipe, tasks, networks, columns, progress) if recipe.distil_steps else networks


def _distil(
    recipe: Recipe,
    tasks: Sequence[RepairTask],
    networks: Sequence[Network],
    columns: list[int],
    progress: Progress | None,
) -> list[Network]:
    students = []
    for task, network in zip(tasks, networks, strict=True):
        if recipe.expected:
            X, targets = expected_training_rows(task, columns, recipe.label_weight)
        else:
            X, targets = training_rows(task, recipe.label_weight)
        students.append(Student(network, zero_columns(X, columns), targets))
    spec = tasks[0].spec
    return distil(
        students,
        columns,
        steps=recipe.distil_steps,
        seed=tasks[0].seed,
        squared_error=spec.regression,
        device=tasks[0].device,
        progress=progress,
    )


def _match_rate(network: Network, task: RepairTask) -> Network:
    return match_rate(network, task.data.X, float(np.mean(task.original_predictions == 1)))


def _calibrate_and_prove(
    recipe: Recipe, task: RepairTask, network: Network, columns: list[int], before: float, progress: Progress | None
) -> RepairAttempt:
    """Run steps 1 and 2 and prove the result; ``columns`` are blind, ``before`` is the time that this took."""
    started = time.perf_counter() - before
    if recipe.certified:
        task = replace(task, split=features_to_split(recipe, task))
    warnings: tuple[str, ...] = ()
    if not recipe.certified and _prefers_points(task, network):
        task = replace(task, head_options=replace(task.head_options, features="points"))
    if task.cuts_training and not recipe.certified:
        recipe, task, warnings = _fit_time_limit(recipe, task, network, columns)
    train = _train_certified if recipe.certified else _calibrate
    trained = train(recipe, task, network, columns, progress)
    calibrated = time.perf_counter()
    ignored = ignored_features(trained.network, task.spec)
    if covers_everyone(ignored, task.spec):
        done = ProvenHead(trained.network, None, prove_by_blindness(trained.network, task), 0.0, 0, 0.0)
    elif recipe.certified and _is_proven(trained.network, task).all():
        proof = prove_repair_inputs(trained.network, task)
        done = ProvenHead(trained.network, None, proof, task.head_options.margin, 0, 0.0)
    else:
        done = repair_until_proven(trained.network, task, progress, ignored)
    ended = time.perf_counter()
    return RepairAttempt(
        network=done.network,
        spec=task.spec,
        proof=done.proof,
        blind_features=ignored_features(done.network, task.spec),
        history=trained.history,
        head=done.head,
        margin=done.margin,
        attempts=done.attempts,
        seconds={
            "calibrate": calibrated - started,
            "solve": ended - calibrated - done.check_seconds,
            "check": done.check_seconds,
            "total": ended - started,
        },
        split=task.split,
        warnings=(*warnings, *_cut_short(recipe, task, trained)),
    )


def _fit_time_limit(
    recipe: Recipe, task: RepairTask, network: Network, columns: list[int]
) -> tuple[Recipe, RepairTask, tuple[str, ...]]:
    """Say how long step 1 will take if that is long, and let each step take as many regions as fit the time limit.

    Then there is little time for step 2 and the proof, too: of large networks, they take people one by one where
    neighbourhoods are finite, which is exact and takes less time than linear bounds.
    """
    regions = _blind_regions(task, columns) if columns else task.regions
    work = recipe.steps * len(regions.lower) * sum(affine.size for affine in network.affines)
    if work < _MUCH_WORK or recipe.fairness_weight == 0:
        return recipe, task, ()
    X, targets = training_rows(task, recipe.label_weight)
    end = task.deadline.share(STEP_1_SHARE)
    expected = expected_seconds(
        network,
        regions,
        X,
        targets,
        steps=recipe.steps,
        bounds=recipe.bounds,
        squared_error=task.spec.regression,
        device=task.device,
        left=end.seconds_left(),
    )
    _logger.info(
        "step 1 will take at most about %.0f s: %d steps with %s bounds", expected, recipe.steps, recipe.bounds
    )
    left = end.seconds_left()
    if left is None or expected <= left or recipe.patience is not None:
        return recipe, task, ()
    parts = min(regions.count, math.ceil(expected / max(left, 1e-9)))
    taken = (
        f"step 1 would take about {expected:.0f} s, more than half of the time limit of {task.deadline.limit:g} s, so "
        f"each of its steps took one of {parts} parts of the repair inputs; allow more time (time_limit)"
    )
    options, warnings = task.head_options, [taken]
    if options.features == "linear" and task.spec.finite and is_large(network) and _has_few_points(task):
        task = replace(task, head_options=replace(options, features="points"))
        warnings.append(
            "step 2 took the people of each neighbourhood one by one, instead of linear bounds, to save time"
        )
    return replace(recipe, parts=parts), task, tuple(warnings)


def _prefers_points(task: RepairTask, network: Network) -> bool:
    """Return whether step 2 takes people one by one unless it is told otherwise: where values are multiplied.

    That is exact, while linear bounds are so wide behind a normalisation that the network may become constant.
    """
    return (
        network.multiplies and "features" not in task.head_options.given and task.spec.finite and _has_few_points(task)
    )


def _has_few_points(task: RepairTask) -> bool:
    """Return whether all neighbourhoods together have few enough people to list them."""
    people = int(np.sum(task.spec.neighbourhood_sizes(task.X_repair, task.network.dtype)))
    return people <= min(_MOST_PEOPLE, most_points(task.network))


def _cut_short(recipe: Recipe, task: RepairTask, trained: Calibration) -> tuple[str, ...]:
    """Return a warning if the time limit ended the training."""
    if not trained.cut_short:
        return ()
    limit, done = task.deadline.limit, len(trained.history)
    return (f"the time limit of {limit:g} s ended the training after {done:,} of {recipe.steps:,} steps",)


def _calibrate(
    recipe: Recipe, task: RepairTask, network: Network, columns: list[int], progress: Progress | None
) -> Calibration:
    if recipe.steps == 0 and columns:
        return Calibration(network, History(), 0, 0.0)
    X, targets = training_rows(task, recipe.label_weight)
    # Zeros in the blind columns keep their weights, and the widths that come from them, at zero.
    regions = _blind_regions(task, columns) if columns else task.regions
    X = zero_columns(X, columns) if columns else X
    # The paper trains in the inputs as they are, whatever their scale; a distilled network goes on as it was distilled.
    units = _Units(*training_units(network, X)) if recipe.distil_steps else _Units.raw(network.inputs)
    end = task.deadline.share(STEP_1_SHARE)
    trained = calibrate(
        units.standardise_network(network),
        replace(regions, lower=units.standardise(regions.lower), upper=units.standardise(regions.upper)),
        units.standardise(X),
        targets,
        steps=recipe.steps,
        learning_rate=recipe.learning_rate,
        fairness_weight=recipe.fairness_weight,
        bounds=recipe.bounds,
        batch_size=recipe.batch_size,
        patience=recipe.patience,
        parts=recipe.parts,
        seed=task.seed,
        squared_error=task.spec.regression,
        device=task.device,
        is_over=lambda: task.cuts_training and end.passed,
        progress=progress,
    )
    found = units.network_in_raw_inputs(trained.network)
    return _settle(
        replace(trained, network=_still_blind(found, columns)),
        recipe,
        task,
        X,
        targets,
        task.deadline.share(STEP_1_SHARE),
    )


def _settle(
    trained: Calibration, recipe: Recipe, task: RepairTask, X: FloatArray, targets: np.ndarray, end: Deadline
) -> Calibration:
    """Train on the people in the neighbourhoods too, each towards the class of most of theirs, until they agree.

    It takes the place of steps that fell to the time limit, where step 2 takes people one by one. The smallest change
    of the head for neighbourhoods that disagree is often one that makes the network constant.
    """
    if recipe.parts == 1 or task.head_options.features != "points" or task.spec.regression or recipe.blind_to:
        return trained
    parts = list(task.spec.points(task.X_repair, dtype=trained.network.dtype))
    owner, points = (np.concatenate(part) for part in zip(*parts, strict=True))
    outputs = max(2, trained.network.outputs)
    for _ in range(_SETTLING):
        classes = trained.network.predict(points)
        votes = np.zeros((len(task.X_repair), outputs), np.int64)
        np.add.at(votes, (owner, classes), 1)
        if (votes.max(axis=1) == votes.sum(axis=1)).all() or end.passed:
            break
        wanted = votes.argmax(axis=1)[owner]
        settled = calibrate(
            trained.network,
            task.regions,
            np.concatenate([X, points]),
            np.concatenate([targets, wanted if targets.ndim == 1 else np.eye(outputs)[wanted]]),
            steps=_SETTLING_STEPS,
            learning_rate=recipe.learning_rate,
            fairness_weight=0.0,
            bounds="interval",
            batch_size=_SETTLING_ROWS,
            seed=task.seed,
            device=task.device,
            is_over=lambda: end.passed,
        )
        trained = replace(trained, network=settled.network, seconds=trained.seconds + settled.seconds)
    return trained


def _train_certified(
    recipe: Recipe, task: RepairTask, network: Network, columns: list[int], progress: Progress | None
) -> Calibration:
    """Train until the proof holds for every repair input, if that succeeds: in standardised inputs."""
    X, targets = expected_training_rows(task, columns, recipe.label_weight)
    X = zero_columns(np.concatenate([X, task.X_repair]), columns)
    targets = np.concatenate([targets, task.measure.output_targets(task.network, task.network.logits(task.X_repair))])
    targets, classes, shared = one_target_for_each_group(
        X, targets, _blind_regions(replace(task, split=()), columns), network.offset
    )
    regions = _blind_regions(task, columns)
    units = _Units(*training_units(network, X))

    def in_raw_inputs(trained: Network) -> Network:
        return _still_blind(units.network_in_raw_inputs(trained), columns)

    trained = train_certified(
        units.standardise_network(network),
        replace(regions, lower=units.standardise(regions.lower), upper=units.standardise(regions.upper)),
        classes,
        units.standardise(X),
        targets,
        is_proven=lambda network: _is_proven(in_raw_inputs(network), task),
        shared=shared,
        steps=recipe.steps,
        seed=task.seed,
        device=task.device,
        progress=progress,
    )
    return replace(trained, network=in_raw_inputs(trained.network))


def features_to_split(recipe: Recipe, task: RepairTask) -> tuple[str, ...]:
    """Return the features that vary in whole numbers, as many of them as leave few pieces: their bounds are exact."""
    spec = task.spec
    if spec.links or task.head_options.features == "points":
        return ()
    ignored = recipe.blinded_features(spec)
    found: list[str] = []
    values = 1
    for feature in spec.varying:
        if feature.kind == "continuous" or feature.one_hot or feature in ignored:
            continue
        most = spec.most_values(feature) if feature.bands else 2 * int(feature.reach) + 1
        more = values * (most + 1)  # an input may be a value of its own, beside the whole numbers
        pieces = len(task.X_repair) * more * spec.most_pieces
        if more <= MOST_VALUES and pieces * sum(task.network.widths) <= _MOST_NUMBERS:
            found.append(feature.name)
            values = more
    return tuple(found)


def _is_proven(network: Network, task: RepairTask) -> Bools:
    """Return for each repair input whether the proof holds as the task demands, ``(inputs,)``."""
    proof = prove_repair_inputs(network, task)
    options = task.head_options
    return (proof.covers_inference if options.cover_inference else proof.holds) & (proof.margin >= options.margin)


def _still_blind(network: Network, columns: list[int]) -> Network:
    """Return the network that ignores the columns again, if training on zeros there has used what follows from them."""
    return (
        network if not columns or is_blind(network, columns) else fix_columns(network, columns, np.zeros(len(columns)))
    )


@dataclass(frozen=True)
class _Units:
    """The units of the inputs while a network is trained: Adam's steps have one size for all weights."""

    mean: Floats
    deviation: Floats

    @classmethod
    def raw(cls, width: int) -> _Units:
        return cls(np.zeros(width), np.ones(width))

    def standardise(self, X: FloatArray) -> FloatArray:
        standard: FloatArray = ((X - self.mean) / self.deviation).astype(X.dtype)
        return standard

    def standardise_network(self, network: Network) -> Network:
        """Return the network that computes from standardised inputs what this one does from raw inputs."""
        return network.with_affines(in_units(network, network.affines, self.mean, self.deviation))

    def network_in_raw_inputs(self, network: Network) -> Network:
        """Undo `standardise_network`."""
        return network.with_affines(in_raw_units(network, network.affines, self.mean, self.deviation))


def _blind(recipe: Recipe, task: RepairTask, columns: list[int]) -> Network:
    if recipe.reference == "best":
        features = recipe.blinded_features(task.spec)
        return blind_at_best_reference(task.network, task.spec, features, task.X_cal, task.y_cal)
    return fix_columns(task.network, columns, mean_reference(columns, task.X_cal))


def _blind_regions(task: RepairTask, columns: list[int]) -> Regions:
    """Return one box around each neighbourhood, with zeros in these columns: what step 1 tightens, not the proof.

    With links it is one box for each piece, as linked one-hot features jump from one point to another. So it is where
    values are proven one by one.
    """
    if task.spec.links or task.split:
        return _zeroed_pieces(task.regions, columns)
    lower, upper = task.spec.hull(task.X_repair, task.network.dtype)
    owner = np.arange(len(lower), dtype=np.int64)
    return Regions(zero_columns(lower, columns), zero_columns(upper, columns), owner, len(lower))


def _zeroed_pieces(regions: Regions, columns: list[int]) -> Regions:
    """Return regions with zeros in these columns, and each of the pieces that this makes equal once."""
    lower, upper = zero_columns(regions.lower, columns), zero_columns(regions.upper, columns)
    _, first = np.unique(np.column_stack([regions.owner, lower, upper]), axis=0, return_index=True)
    first = np.sort(first)
    return Regions(lower[first], upper[first], regions.owner[first], regions.count)

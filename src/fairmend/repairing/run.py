"""`fairmend.repair`: one call, one method, one result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fairmend.base.device import compute_on
from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.text import listed, percent
from fairmend.models import ModelSource, RunModel
from fairmend.models.entry import Entry
from fairmend.models.repaired import RepairedModel
from fairmend.network import Model, Network
from fairmend.prove.certificate import (
    Certificate,
    certificate_of_blindness,
    certificate_of_classes,
    certificate_of_inputs,
)
from fairmend.prove.fit import model_of_spec, require_stable
from fairmend.repairing.baselines.run import BASELINES, run_baseline
from fairmend.repairing.candidates import are_more, unequal_rows
from fairmend.repairing.options import (
    RUN_METHODS,
    HeadOptions,
    Policy,
    TrainingOptions,
    check_applicable,
    check_values,
    has_tolerances,
)
from fairmend.repairing.recipe import Recipe, RepairAttempt, run_recipe
from fairmend.repairing.result import (
    MORE_UNEQUAL,
    OtherCandidate,
    RepairResult,
    calibration_warnings,
    lost_features,
    outcome_warnings,
    tolerance_warnings,
)
from fairmend.repairing.selection import BY_CLASSES, Selection, select_repair
from fairmend.repairing.task import Deadline, RepairTask, prepare_task
from fairmend.spec import Spec
from fairmend.spec.classes import similarity_classes


@shows_progress
def repair(
    net: ModelSource,
    spec: Spec,
    X_repair: pd.DataFrame | ArrayLike,
    X_cal: pd.DataFrame | ArrayLike,
    y_cal: ArrayLike,
    method: str = "auto",
    seed: int = 0,
    *,
    keep: float | None = None,
    guarantee: str | None = None,
    prefer: str | None = None,
    X_unlabelled: pd.DataFrame | ArrayLike | None = None,
    training: TrainingOptions | None = None,
    head: HeadOptions | None = None,
    time_limit: float | None = None,
    device: str | None = None,
    keep_form: bool | None = None,
    candidate: int | None = None,
    keep_candidates: bool | None = None,
    progress: Progress | None = None,
) -> RepairResult:
    """Repair a network so that the whole neighbourhood of each repair input provably gets one prediction.

    If the spec claims that scores differ by at most delta, the repair proves that instead.

    The baselines "flip", "grft" and "care" prove nothing by themselves. `RepairResult.proven` counts the repair inputs
    that are proven to be treated equally afterwards, and the certificate, if there is one, claims only those.

    Leave an option out to get the method's default. A method refuses the options that it does not use.

    Parameters
    ----------
    net, spec : the network, and the spec that defines which people are similar. The network is not modified.
    X_repair : the repair inputs, encoded or as a DataFrame.
    X_cal, y_cal : the calibration set, which keeps the accuracy of the network; `y_cal` holds class numbers, or the
        numbers to predict if the spec's claim is about "output".
    method : "auto", "average", "prof", "prof-concrete", "blind", "flip", "grft" or "care"; see
        `repairing.options.METHODS`. Models that are only run take the first two. Where the spec has no tolerances,
        "blind" and most recipes of "auto" prove their guarantee for everyone, not only for the repair inputs.
    seed : the random seed.
    keep, guarantee, prefer : for "auto", the policy that selects a candidate; `repairing.policy.Policy` explains
        it. If no proven candidate meets what you give here, FairmendError names the closest. Where all labels are
        equal, ``prefer`` is "decisions" by default: they say nothing about accuracy.
    X_unlabelled : for "auto" and "blind", further rows of the data without labels, encoded or as a DataFrame. A network
        is trained towards the original's predictions on them, and "auto" compares decisions on them.
    training : how the method trains, `TrainingOptions`. "auto" chooses its own training and takes none.
    head : step 2, `HeadOptions`. Not for baselines, except for ``features``, nor for "blind" with a spec without
        tolerances: these have no step 2. The same holds for ``time_limit``.
    time_limit : seconds for the whole call. Step 2 gets the time that is left and returns the best change that it has
        found by then. Once the time is over, "auto" stops the recipe that it is training, runs no further one and
        selects among those that it has; a warning names the others. If none is proven by then, it raises
        FairmendError. "prof", "prof-concrete" and "blind" end their training after half of it and go on with the
        network that it has reached; where it would take longer, each of its steps takes a part of the repair inputs.
        Warnings say so.
    device : where networks are trained (step 1 and distillation) and where bounds are computed, those of the proof in
        float64 with every rounding error accounted for: "cpu" (the default), "cuda" (a GPU) or "auto": a GPU,
        if there is one, for networks with a layer of more than 128 units. Step 2 is solved on the CPU. Not for
        baselines.
    keep_form : for "auto", leave out repairs by classes of similar people, which put nodes in front of the network and
        are saved as .onnx; then a network keeps its architecture, and ignores features with links or bands altogether
    candidate : for "auto", the number of the candidate to take instead of the selected one, from 1, as
        `RepairResult.candidates` lists them
    keep_candidates : for "auto", whether the result holds the networks of the other proven candidates too, each with
        its certificate (`RepairResult.others`)
    progress : called with the stage ("try", "retrain", "calibrate", "solve", "check"), the steps done and the total.
    """
    training, head = training or TrainingOptions(), head or HeadOptions()
    plain = {
        "keep": keep,
        "guarantee": guarantee,
        "prefer": prefer,
        "keep_form": keep_form,
        "candidate": candidate,
        "keep_candidates": keep_candidates,
        "X_unlabelled": X_unlabelled,
        "time_limit": time_limit,
        "device": device,
    }
    given = {
        **training.given,
        **head.given,
        **{name: value for name, value in plain.items() if value is not None},
    }
    check_applicable(method, given, has_tolerances(spec))
    check_values(**given)
    deadline = Deadline(time_limit)
    if method == "prof-concrete":
        head = replace(head, features="box")
    network = model_of_spec(net, spec, X_repair, X_cal, X_unlabelled)
    require_method(method, network, spec, bool(keep_form))
    task = prepare_task(network, spec, X_repair, X_cal, y_cal, head, seed, deadline, X_unlabelled, device or "cpu")
    task = replace(task, cuts_training=method != "auto", keep_form=bool(keep_form))
    policy = _policy(task, keep, guarantee, prefer) if method == "auto" else None
    with compute_on(None if task.device == CPU else task.device):
        attempt, selection = _run_method(method, task, training.given, policy, progress, candidate)
        result = _result(task, method, attempt, selection, policy)
        require_stable(network)
        if selection is None or not keep_candidates:
            return result
        others = (_other_candidate(task, method, number, other, selection) for number, other in selection.others)
        return replace(result, others=tuple(others))


def require_method(method: str, model: Network | RunModel, spec: Spec, keep_form: bool = False) -> None:
    """Raise an error if a method needs a network and the model is only run, or classes of people and links leave none.

    If links connect all values of a feature, a repair by classes ignores it, which nobody asked for by name. Of a
    network, "auto" has other candidates, and a warning says what the repaired one no longer reads.
    """
    if isinstance(model, RunModel) and keep_form:
        raise FairmendError(f"keep_form: {model.runner.name} is only run, and repaired by nodes in front of it")
    if isinstance(model, RunModel) and method not in RUN_METHODS:
        raise FairmendError(
            f"method {method} needs a network that fairmend reads, but {model.runner.name} is only run "
            f"({model.why_only_run}); use method {' or '.join(RUN_METHODS)}"
        )
    if isinstance(model, Network) and model.rescaling is not None and method == "average":
        raise FairmendError(
            f"method average does not write scores of this form ({model.rescaling}); use method auto, which keeps it"
        )
    by_classes = isinstance(model, RunModel) or method == "average"
    swallowed = similarity_classes(spec).swallowed if by_classes else ()
    if swallowed:
        raise FairmendError(
            f"links connect all values of {listed(swallowed)} to one class, or too many to tell apart, so that a "
            "repair by classes would ignore it. Narrow the links, or protect it in their place (protected = true) if "
            "you want that"
        )


def _policy(task: RepairTask, keep: float | None, guarantee: str | None, prefer: str | None) -> Policy:
    """Return the policy of "auto". Labels that are all equal say nothing about accuracy: decisions are kept then."""
    if prefer is None and not task.spec.regression and len(np.unique(task.y_cal)) == 1:
        prefer = "decisions"
    return Policy.from_options(keep, guarantee, prefer)


def _run_method(
    method: str,
    task: RepairTask,
    training: Mapping[str, Any],
    policy: Policy | None,
    progress: Progress | None,
    candidate: int | None = None,
) -> tuple[RepairAttempt, Selection | None]:
    if method == "auto":
        started = time.perf_counter()
        selection = select_repair(task, policy, progress, candidate)
        total = time.perf_counter() - started
        seconds = selection.attempt.seconds
        timed = {**seconds, "choose": total - seconds["total"], "total": total}
        return replace(selection.attempt, seconds=timed), selection
    if method in BASELINES:
        return run_baseline(method, task, training, progress), None
    return run_recipe(_recipe(method, training, task.strict), task, progress), None


def _recipe(method: str, training: Mapping[str, Any], strict: bool) -> Recipe:
    """Return the recipe of a method other than "auto" with the options that were given."""
    if method == "average":
        return replace(BY_CLASSES[1], name=method)
    if method != "blind":
        return Recipe(method, **training)
    # Without tolerances a blind network's features have no width to tighten.
    defaults = {
        "blind_to": "protected",
        "reference": "mean",
        "label_weight": 0.0,
        "fairness_weight": 0.0 if strict else 1.0,
    }
    return Recipe(method, **{**defaults, **training})


def _result(
    task: RepairTask, method: str, attempt: RepairAttempt, selection: Selection | None, policy: Policy | None
) -> RepairResult:
    before = task.original_predictions[: len(task.X_cal)]
    gap = 0.0 if attempt.head is None else attempt.head.gap
    return RepairResult(
        network=attempt.network,
        certificate=_certificate(task, method, attempt),
        method=method,
        proof=attempt.proof,
        blind_features=attempt.blind_features,
        everyone=attempt.everyone,
        objective=0.0 if attempt.head is None else attempt.head.objective,
        gap=gap,
        margin=attempt.margin,
        history=attempt.history,
        seconds=attempt.seconds,
        changed_weights=_count_changed(task.model, attempt.network),
        total_weights=getattr(task.model, "weights", 0),
        attempts=attempt.attempts,
        candidates=() if selection is None else selection.candidates,
        collapsed=_collapsed(task, attempt) if selection is None else selection.collapsed,
        policy=policy,
        by_classes=attempt.by_classes,
        original_accuracy=None if task.spec.regression else task.measure.accuracy(task.y_cal, before),
        original_balanced_accuracy=task.measure.fit(task.y_cal, before),
        warnings=(
            *(() if selection is None else selection.warnings),
            *attempt.warnings,
            *(_exported_entry(attempt.network)[1] if isinstance(attempt.network, RepairedModel) else ()),
            *calibration_warnings(
                task.X_cal,
                task.y_cal,
                regression=task.spec.regression,
                keeps_decisions=policy is not None and policy.prefer == "decisions",
            ),
            *outcome_warnings(
                task.model,
                attempt.network,
                task.X_cal,
                task.y_cal,
                gap,
                attempt.proof,
                regression=task.spec.regression,
            ),
            *lost_features(task.model, attempt.network, task.spec, attempt.blind_features),
            *_more_unequal(task, attempt),
            *(tolerance_warnings(task.spec, attempt.blind_features) if attempt.blind and not attempt.everyone else ()),
        ),
    )


def _other_candidate(
    task: RepairTask, method: str, number: int, attempt: RepairAttempt, selection: Selection
) -> OtherCandidate:
    """Return the network of a candidate that was not selected, with a certificate of what is proven about it."""
    name = selection.candidates[number - 1].recipe.name
    return OtherCandidate(number, name, attempt.network, _certificate(task, method, attempt))


def _more_unequal(task: RepairTask, attempt: RepairAttempt) -> list[str]:
    """Return a warning if more calibration rows are treated unequally than before; none are if it is for everyone."""
    if attempt.everyone:
        return []
    after = unequal_rows(attempt.network, task, task.X_cal)
    before = unequal_rows(task.model, task, task.X_cal) if after.count else after
    if not after.count or not are_more([before], [after]):
        return []
    both = min(len(before.rows), len(after.rows))
    shares = {"before": before.rows[:both].mean(), "after": after.rows[:both].mean()}
    return [MORE_UNEQUAL.format(**{name: percent(float(share)) for name, share in shares.items()})]


def _exported_entry(model: RepairedModel) -> tuple[Entry | None, list[str]]:
    """Return the entry of a repaired model in its file; None, and a warning, if it cannot be written to one."""
    try:
        return model.exported[1], []
    except FairmendError as error:
        return None, [f"there is no certificate, because a certificate is about a file: {error}"]


def _collapsed(task: RepairTask, attempt: RepairAttempt) -> bool:
    """Return whether the repaired network lost the original's predictions on the calibration and unlabelled rows."""
    after = task.measure.predict(attempt.network, task.data.X)
    return task.measure.has_collapsed(task.original_predictions, after)


def _certificate(task: RepairTask, method: str, attempt: RepairAttempt) -> Certificate | None:
    """Return a certificate that claims what is proven; None if nothing is."""
    columns = attempt.blind_columns
    if isinstance(attempt.network, RepairedModel):
        entry, _ = _exported_entry(attempt.network)
        if entry is None:
            return None
        return certificate_of_classes(task.spec, entry.to_dict(), method=method)
    if attempt.everyone:
        return certificate_of_blindness(attempt.network, task.spec, columns, method=method)
    proven = np.flatnonzero(attempt.proof.holds)
    if not len(proven) and not attempt.blind:
        return None
    X, proof = task.X_repair[proven], attempt.proof.subset(proven)
    return certificate_of_inputs(attempt.network, task.spec, X, proof, method=method, blind_columns=columns)


def _count_changed(before: Model, after: Model) -> int:
    """Return how many weights, biases and numbers of tables differ."""
    if not isinstance(before, Network) or not isinstance(after, Network):
        return 0
    pairs = zip(before.weight_nodes, after.weight_nodes, strict=True)
    return sum(int((old.operation.weights != new.operation.weights).sum()) for old, new in pairs)

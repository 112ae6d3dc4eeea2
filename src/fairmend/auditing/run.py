"""`fairmend.audit`: count the inputs that are treated unequally, in data (IDI-D) or in samples (IDI-S).

The spec's claim says what is unequal: two classes in a neighbourhood, or two scores that differ by more than delta.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from fairmend.auditing.disparity import disparity_score
from fairmend.auditing.inputs import GivenInputs, Inputs, SlicedInputs, TableInputs, Witnesses
from fairmend.auditing.plan import EXACT_SECONDS, AuditPlan, choose_plan
from fairmend.auditing.result import AuditPair, AuditResult, make_pairs, wilson_interval, with_own_values
from fairmend.auditing.slices import (
    TALLY_CLASSES,
    AuditJob,
    AuditTally,
    PlannedScan,
    SliceTask,
    audit_reading,
    audit_slice,
    keep_plan,
    open_kept_audit,
    read_blocks,
)
from fairmend.base.arrays import FloatArray
from fairmend.base.device import check_device_name
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.text import as_text
from fairmend.models import ModelSource, RunModel
from fairmend.network import Model
from fairmend.network.model import ScoredRows
from fairmend.prove.fit import model_condition, model_of_spec, require_stable
from fairmend.prove.kernel_bounds import require_scores
from fairmend.spec import Spec
from fairmend.spec.read_values import is_frame
from fairmend.tables import TableStream
from fairmend.workers.engine import Engine, run_tasks, use_engine
from fairmend.workers.kept_results import KeptResults

if TYPE_CHECKING:
    from fairmend.auditing.device_search import DeviceSearch

__all__ = ["Witnesses", "audit"]

_logger = logging.getLogger(__name__)

_SHORT = 5.0  # seconds on the CPU


@shows_progress
def audit(
    net: ModelSource,
    spec: Spec,
    X: Inputs | SlicedInputs | None = None,
    samples: int = 100_000,
    seed: int = 0,
    *,
    per_row: int = 64,
    pairs: int = 20,
    method: str = "auto",
    time_limit: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | Engine | None = None,
    resume: str | os.PathLike[str] | None = None,
    rows: int | None = None,
    progress: Progress | None = None,
    on_plan: Callable[[AuditPlan], None] | None = None,
    witnesses: Witnesses | None = None,
) -> AuditResult:
    """Count the inputs that are treated unequally, and return the worst pairs.

    If the spec claims scores, an input is treated unequally if the scores of two people in its neighbourhood differ by
    more than delta. The worst pairs are then those with the largest differences, whether above delta or not.

    Parameters
    ----------
    net, spec : the model, or anything that `load_model` takes, and the spec that defines which people are similar.
    X : the inputs, encoded or as a DataFrame, an iterator over chunks of either, or a table in files
        (`fairmend.tables.stream_table`); a few bytes of memory are used for each. None audits uniform samples of the
        spec's input space.
    samples : how many samples to draw if X is None.
    seed : random seed.
    per_row : how many random neighbours of an input to compare, if not all are; up to 64 corners of the neighbourhood
        are compared as well.
    pairs : how many of the worst pairs to return.
    method : "enumerate" (every neighbour), "branch" (random neighbours, and bounds over the whole neighbourhood where
        they show nothing), "sample" (random neighbours only: a lower bound), "exact" (the faster one of the first two,
        however long it takes), or "auto": the same if it takes at most five minutes or less than sampling, else
        "sample".
    time_limit : seconds for "branch", by default ten minutes for "auto" and no limit otherwise; inputs that are not
        decided by then are unknown. "auto" enumerates only what is expected to take no longer.
    jobs : how many processes compare inputs with their neighbours; the answer is the same, but for what a time limit
        leaves open. With more than one, call this under ``if __name__ == "__main__":`` in a script.
    device : where all neighbours of an input are compared: "cpu", "cuda" (a GPU; "cuda:1" is the second), or "auto": a
        GPU, if there is one and the CPU would take more than a few seconds. The answer is the same. A GPU compares for
        networks with one output that are chains of layers with ReLU, LeakyReLU, tanh or sigmoid.
    cluster : the address of a cluster that compares them instead: "tcp://host:port" of a Dask scheduler,
        "ray://host:port" of Ray, or "ray://local" to start Ray for this call. Workers read a table in files themselves.
    resume : a folder that keeps finished parts; the same call with the same folder continues from them.
    rows : the number of inputs, for the estimate and the progress, if X is an iterator.
    progress : called with the stage, the number of inputs done and the number of all inputs.
    on_plan : called before the work with the method, and with how long it may take.
    witnesses : called, block by block, with the worst pair of every unequal input.
    """
    network = model_of_spec(net, spec, X)
    started = time.perf_counter()
    _check(
        network,
        spec,
        X is None,
        samples=samples,
        per_row=per_row,
        pairs=pairs,
        jobs=jobs,
        time_limit=time_limit,
        device=device,
    )
    inputs = _sliced(network, spec, X, samples, seed, rows, witnesses)
    limit = 2 * EXACT_SECONDS if time_limit is None and method == "auto" else time_limit
    options = {"method": method, "seed": seed, "per_row": per_row, "pairs": pairs, "time_limit": limit}
    options |= {"samples": samples if X is None else None, "with_pairs": inputs.wants_pairs}
    with use_engine(cluster, jobs) as engine:
        kept = None if resume is None else open_kept_audit(resume, network, spec, inputs, options)
        first = inputs.read(0) if inputs.count == 1 else None
        blocks = read_blocks(spec, inputs, first, ahead=True) if first is not None else None
        start = next(_all_blocks(spec, inputs) if blocks is None else blocks, None)
        if start is None:
            raise inputs.error_for_none()
        plan, search = _plan(network, spec, start, inputs.total, method, per_row, seed, device, limit)
        plan = plan if kept is None else keep_plan(kept, plan)
        _logger.info("audit: %s", plan.describe())
        if on_plan is not None:
            on_plan(replace(plan, seconds=plan.seconds / engine.slots))
        scanner = PlannedScan(network, spec, plan, per_row, seed, search, device)
        steps = _Steps(progress, inputs.total)
        job = AuditJob(network, spec, scanner, inputs, pairs, seed, limit, steps.report)
        tally = AuditTally(network, spec, pairs, seed)
        if first is None or blocks is None:
            _audit_slices(job, inputs, tally, steps, engine, kept)
        else:
            audit_reading(job, first, chain([start], blocks), np.random.default_rng(seed), tally, engine, kept)
            inputs.take(first.notes(), 0)
    require_stable(network)
    _logger.info(
        "audit: %d of %d treated unequally, %d unknown, %d scores computed",
        *(tally.count, tally.total, tally.unknown, tally.evaluations),
    )
    widest_pair = _widest_pair(network, spec, scanner, tally)
    disparity = tally.disparity(
        spec.claim, None if widest_pair is None else _as_in_data((widest_pair,), X, spec, network)[0]
    )
    result = AuditResult(
        count=tally.count,
        total=tally.total,
        pairs=_as_in_data(_worst_pairs(network, spec, scanner, tally, pairs), X, spec, network),
        exact=tally.unknown == 0,
        sampled=X is None,
        interval=wilson_interval(tally.count, tally.total) if X is None else None,
        evaluations=tally.evaluations,
        seconds=time.perf_counter() - started,
        examined=tally.examined(),
        rows=tally.rows(),
        disparity=disparity,
        scores=tally.scores(spec.claim, disparity),
        unknown=tally.unknown,
        plan=plan,
        condition=model_condition(network),
    )
    if spec.label is None or not is_frame(X) or spec.label.column not in X.columns:
        return result
    return result.name_classes(spec.label, X[spec.label.column].dropna().unique())


def _sliced(
    net: Model,
    spec: Spec,
    X: Inputs | SlicedInputs | None,
    samples: int,
    seed: int,
    rows: int | None,
    witnesses: Witnesses | None,
) -> SlicedInputs:
    """Return inputs of any origin in slices."""
    if X is None:
        return GivenInputs.samples(spec, samples, seed, net.dtype, witnesses)
    check = net.require_values if isinstance(net, RunModel) else None
    if isinstance(X, TableStream):
        return TableInputs(spec, net.dtype, X, witnesses, check)
    if isinstance(X, SlicedInputs):
        return X
    return GivenInputs.of(spec, X, net.dtype, rows, witnesses, check)


def _plan(
    network: Model,
    spec: Spec,
    X: FloatArray,
    rows: int,
    method: str,
    per_row: int,
    seed: int,
    device: str,
    limit: float | None,
) -> tuple[AuditPlan, DeviceSearch | None]:
    """Return how to audit inputs like X (inputs, width), and the search on a GPU, if it is to compare them."""
    choose = partial(choose_plan, network, spec, X, rows, method, per_row=per_row, seed=seed, time_limit=limit)
    plan = None
    if device in ("cpu", "auto"):
        plan = choose()
    if plan is not None and (device == "cpu" or _is_short(plan)):
        return plan, None
    from fairmend.auditing.device_search import find_device

    search = find_device(device, network, spec)
    if plan is not None and search is None:
        return plan, None
    return choose(device=search), search


def _is_short(plan: AuditPlan) -> bool:
    """Return whether starting a GPU, and PyTorch before that, would take longer than the audit."""
    return plan.method == "enumerate" and plan.seconds < _SHORT


def _all_blocks(spec: Spec, inputs: SlicedInputs) -> Iterator[FloatArray]:
    for number in range(inputs.count):
        yield from read_blocks(spec, inputs, inputs.read(number), ahead=False)


def _audit_slices(
    job: AuditJob, inputs: SlicedInputs, tally: AuditTally, steps: _Steps, engine: Engine, kept: KeptResults | None
) -> None:
    """Add all slices to the tally, merged in their order as they come."""
    shared = job if engine.is_here else job.for_workers(inputs.for_workers(), engine.slots)
    tasks = (SliceTask(number, tally.sample_limit) for number in range(inputs.count))
    classes = (*TALLY_CLASSES, *inputs.note_classes)
    for _, part in run_tasks(engine, audit_slice, shared, tasks, kept, classes):
        inputs.take(part.notes, tally.total)
        tally.merge(part)
        steps.before = tally.total
        steps.report(0)


class _Steps:
    """Reports progress: the inputs of the slices before, and those done in the current one."""

    def __init__(self, progress: Progress | None, expected: int) -> None:
        self._progress, self._expected, self.before = progress, expected, 0

    def report(self, done: int) -> None:
        """Report that so many inputs of the current slice are done."""
        if self._progress is not None:
            self._progress("audit", self.before + done, self._expected)


def _worst_pairs(net: Model, spec: Spec, scanner: PlannedScan, tally: AuditTally, most: int) -> tuple[AuditPair, ...]:
    """Return the worst pairs of the inputs kept; the network itself evaluates their neighbours."""
    rows, inputs = tally.largest()
    if not rows:
        return ()
    X = np.stack(inputs)
    worst = scanner.worst(X)
    sure = np.flatnonzero(worst.unequal | (worst.gap > 0))
    first = worst.first[sure]
    known = np.array_equal(first, X[sure])
    people = ScoredRows(net, first, worst.logits[sure]) if known else ScoredRows.of(net, first)
    pairs = make_pairs(spec, [rows[i] for i in sure], people, worst.other[sure])
    # People who are similar may share the two whose scores differ most.
    once = {(pair.x.tobytes(), pair.other.tobytes()): pair for pair in reversed(pairs)}
    return tuple([pair for pair in pairs if once[pair.x.tobytes(), pair.other.tobytes()] is pair][:most])


def _as_in_data(
    pairs: tuple[AuditPair, ...], X: Inputs | SlicedInputs | None, spec: Spec, net: Model
) -> tuple[AuditPair, ...]:
    """Return the pairs with the values and ids of the people, if the inputs are a data frame."""
    column = spec.id_column
    if not is_frame(X):
        return pairs
    pairs = with_own_values(pairs, spec, X.iloc[[pair.row for pair in pairs]], net.dtype)
    if column is None or column not in X.columns:
        return pairs
    return tuple(replace(pair, id=as_text(X[column].iloc[pair.row])) for pair in pairs)


def _widest_pair(net: Model, spec: Spec, scanner: PlannedScan, tally: AuditTally) -> AuditPair | None:
    """Return the two similar people whose scores differ most; None if no scores differ."""
    on = disparity_score(spec)
    row, X = tally.widest()
    found = scanner.widest(X, on)
    if not found.difference[0] > 0:
        return None
    return make_pairs(spec, [row], ScoredRows.of(net, found.first), found.other, on=on)[0]


def _check(
    net: Model,
    spec: Spec,
    sampling: bool,
    *,
    samples: int,
    per_row: int,
    pairs: int,
    jobs: int,
    time_limit: float | None,
    device: str,
) -> None:
    check_device_name(device)
    require_scores(net, spec.claim)
    least = {
        "samples": (samples, 1 if sampling else 0),
        "per_row": (per_row, 1),
        "pairs": (pairs, 0),
        "jobs": (jobs, 1),
    }
    for name, (value, lowest) in least.items():
        if value < lowest:
            raise FairmendError(f"{name} is {value}; it must be at least {lowest}")
    if time_limit is not None and not time_limit > 0:
        raise FairmendError(f"time_limit is {time_limit}; give seconds above 0, or None for no limit")

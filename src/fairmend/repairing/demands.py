"""Step 2 until its result is proven: what it demands of the head, and how the demands grow where a proof fails.

A claim about classes demands a margin of each region; a claim about scores demands that they differ by a little less
than delta, which leaves room for the rounding errors of inference.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.network import Activation, Affine, Network, Node
from fairmend.network.decision import closing_gaps
from fairmend.network.graph import reached_columns
from fairmend.prove.proof import Proof, error_guess, is_large, prove_inputs
from fairmend.repairing.blind import columns_of
from fairmend.repairing.head.features import Box, FeatureSet, Linear, Points, require_few_points
from fairmend.repairing.head.problem import KeptRows
from fairmend.repairing.head.scores import repair_scores
from fairmend.repairing.head.solve import HeadSolution, repair_head
from fairmend.repairing.task import RepairTask
from fairmend.spec import Claim

_logger = logging.getLogger(__name__)

MOST_KEPT = 500
"""Calibration rows whose outputs step 2 keeps, a random choice if there are more: each adds two rows to its program."""

MOST_RELAXED, WORTH_MORE = 2, 1.05
"""Differences may be this much wider in another attempt, or it is not made, and there are so many attempts at most."""

_MOST_ATTEMPTS = 40
_GUESSED, _MORE_THAN_GUESSED = 4, 2
"""Inputs from whose errors the margin of a large network is guessed, and how many times as large it is."""

_LEAST_SOLVER_SECONDS = 0.1
"""What step 2 gets where training used up the time limit: enough for a change that can be proven."""


@dataclass(frozen=True)
class HeadToChange:
    """The weights and biases of a head in float64, the features that it reads, and `bias_shift` (see `repair_head`)."""

    weight: Floats
    bias: Floats
    features: FeatureSet
    bias_shift: Floats | None

    @staticmethod
    def of(network: Network, features: FeatureSet, unused: list[int]) -> HeadToChange:
        """Return the head of a network, in which the weights of ``unused`` features stay as they are."""
        head, derived = network.head, network.head.derived_bias
        shift = None if derived is None else derived.shift.copy()
        if shift is not None:
            shift[unused] = 0
        return HeadToChange(head.weight.astype(np.float64), head.bias.astype(np.float64), features, shift)


class Demands(ABC):
    """One demand for each region: the step 2 that meets them, and the demands to try next."""

    amount: Floats

    def __init__(self, task: RepairTask) -> None:
        self.task = task

    @staticmethod
    @abstractmethod
    def check_options(task: RepairTask) -> None:
        """Raise an error, before any training, for options of step 2 that do not fit the claim."""

    @property
    def margin(self) -> float:
        """The largest margin that is demanded of a region."""
        return max(0.0, float(self.amount.max()))

    @abstractmethod
    def solve(self, head: HeadToChange, seconds: float | None, progress: Progress | None) -> HeadSolution:
        """Return the smallest change of the head that meets the demands."""

    @abstractmethod
    def grow(self, failed: np.ndarray, missing: Floats) -> bool:
        """Demand more of the regions that failed, by what was ``missing``; return whether that is possible."""

    def relax(self, proof: Proof) -> bool:
        """Demand less where a proof shows that less would do; return whether it is worth another attempt."""
        return False


class ClassDemands(Demands):
    """Margins, at least as large as inference needs."""

    @staticmethod
    def check_options(task: RepairTask) -> None:
        """Take any options."""

    def __init__(self, network: Network, task: RepairTask, count: int) -> None:
        super().__init__(task)
        self.offset = network.offset
        # No smaller margin covers inference.
        closing = min(closing_gaps(network.threshold, network.dtype))
        least = 2 * closing if task.head_options.cover_inference else 0.0
        if task.head_options.cover_inference and is_large(network):  # an attempt that is not proven takes minutes
            rows = np.linspace(0, count - 1, min(count, _GUESSED)).astype(np.int64)
            least += _MORE_THAN_GUESSED * error_guess(network, task.spec, task.X_repair[rows])
        self.amount = np.full(count, max(task.head_options.margin, least))

    def solve(self, head: HeadToChange, seconds: float | None, progress: Progress | None) -> HeadSolution:
        """Return the smallest change that gives every region one class, with its margin.

        Step 2 decides at 0, or by the largest output. So the offset of the threshold is taken from the last bias; the
        change is that of the head itself.
        """
        settings = self.task.head_options
        centred = head.bias.copy()
        centred[-1] -= self.offset
        return repair_head(
            head.weight,
            centred,
            head.features,
            bias_shift=head.bias_shift,
            margin=self.amount,
            delta_limit=settings.delta_limit,
            solver=settings.solver,
            search=settings.search,
            time_limit=seconds,
            gap=settings.gap,
            most_solves=self.task.most_solves,
            seed=self.task.seed,
            progress=progress,
        )

    def grow(self, failed: np.ndarray, missing: Floats) -> bool:
        """Double the margins, or add what was missing if that is more."""
        self.amount[failed] = np.maximum(2 * self.amount[failed], self.amount[failed] + 1.5 * missing[failed])
        return bool(np.isfinite(self.amount).all())


class ScoreDemands(Demands):
    """How far below delta the differences of scores must stay."""

    @staticmethod
    def check_options(task: RepairTask) -> None:
        """Refuse a margin that leaves nothing of delta, and other solvers than that of linear programs."""
        settings, delta = task.head_options, task.spec.claim.limit
        if settings.margin >= delta:
            raise FairmendError(
                f"margin is {settings.margin:g}, but the claim allows differences of {delta:g} only; give a smaller "
                "margin"
            )
        if settings.solver != "highs" or settings.search is not None:
            raise FairmendError(
                "solver, search: step 2 of a claim about scores is a linear program, which HiGHS solves; leave both out"
            )

    def __init__(self, network: Network, task: RepairTask, count: int) -> None:
        super().__init__(task)
        settings, self.delta = task.head_options, task.spec.claim.limit
        rows = np.random.default_rng(task.seed).permutation(len(task.X_cal))[:MOST_KEPT]
        self.calibration = network.astype(np.float64).features(task.X_cal[np.sort(rows)]).astype(np.float64)
        self.relaxed, self.largest = 0, 0.99 if task.spec.claim.on == "probability" else np.inf
        self.amount = np.full(count, settings.margin)
        if settings.cover_inference:
            # The error of the network before step 2 is a good guess of the error after it.
            error = prove_repair_inputs(network, task).error
            self.amount = np.where(error < self.delta / 2, np.maximum(self.amount, 1.1 * error), self.amount)

    def solve(self, head: HeadToChange, seconds: float | None, progress: Progress | None) -> HeadSolution:
        """Return the smallest change that keeps the scores of every region together."""
        settings = self.task.head_options
        return repair_scores(
            head.weight,
            head.bias,
            head.features,
            bias_shift=head.bias_shift,
            delta=self.delta - self.amount,
            on=str(self.task.spec.claim.on),
            delta_limit=settings.delta_limit,
            time_limit=seconds,
            gap=settings.gap,
            kept=self._kept(head.weight, head.bias),
            progress=progress,
        )

    def _kept(self, weight: Floats, bias: Floats) -> KeptRows:
        """Return the calibration rows: bringing any score to 0 costs at most 1; numbers to predict count the same."""
        outputs = self.calibration @ weight.T + bias
        regression = self.task.spec.regression
        cost = np.ones_like(outputs) if regression else 1 / np.maximum(1.0, np.abs(outputs))
        offset = None if regression else self.task.network.offset
        return KeptRows(self.calibration, cost / len(cost), offset)

    def grow(self, failed: np.ndarray, missing: Floats) -> bool:
        """Leave room for what was missing, but never more than half of the room there is."""
        room = self.delta - self.amount[failed]
        wanted = np.maximum(2 * self.amount[failed], self.amount[failed] + 1.5 * missing[failed])
        self.amount[failed] = np.minimum(wanted, self.delta - room / 2)
        return bool((self.amount < self.delta).all())

    def relax(self, proof: Proof) -> bool:
        """Widen what is allowed by the factor by which the proof is tighter than the bounds of step 2."""
        spread = self.delta - proof.margin
        settings = self.task.head_options
        room = 1.1 * proof.error if settings.cover_inference else np.zeros_like(proof.error)
        allowed = self.delta - np.maximum(settings.margin, room)
        factor = float(np.min(allowed / np.maximum(spread, 1e-3 * self.delta)))
        if self.relaxed == MOST_RELAXED or factor < WORTH_MORE:
            return False
        self.relaxed += 1
        widened = np.minimum((self.delta - self.amount) * factor, self.largest)
        self.amount = self.delta - widened
        return True


def demands_of(claim: Claim) -> type[ClassDemands | ScoreDemands]:
    """Return the demands of a claim."""
    kinds: dict[str, type[ClassDemands | ScoreDemands]] = {"class": ClassDemands, "score": ScoreDemands}
    return claim.choose(kinds, "step 2 of a repair")


def prove_repair_inputs(network: Network, task: RepairTask) -> Proof:
    """Prove what holds for the repair inputs."""
    return prove_inputs(network, task.spec, task.X_repair)


def prove_by_blindness(network: Network, task: RepairTask) -> Proof:
    """Return the proof for a network that ignores all in which similar people may differ."""
    return Proof.by_blindness(network, task.spec.claim, task.X_repair)


@dataclass(frozen=True)
class ProvenHead:
    """A network after step 2 whose proof holds for every repair input."""

    network: Network
    head: HeadSolution | None
    proof: Proof
    margin: float
    attempts: int
    check_seconds: float


def _feature_set(network: Network, task: RepairTask) -> FeatureSet:
    """Return the features of the head: the inputs if it is the only layer."""
    if task.head_options.features == "points":
        return Points.from_network(network, task.spec, task.X_repair)
    return (Linear if task.head_options.features == "linear" else Box).from_network(network, task.regions)


def require_provable_size(task: RepairTask) -> None:
    """Raise an error, before any training, if neighbourhoods have too many pieces or points for a proof."""
    if task.head_options.features == "points":
        require_few_points(task.network, task.spec, task.X_repair)
    else:
        _logger.debug("%r", task.regions)


def _features_of(network: Network, columns: list[int]) -> list[int]:
    """Return the features that depend on these columns, which the network ignores: the head has no weight for them."""
    if not columns:
        return []
    reached = reached_columns(network.nodes)[network.nodes[-1].sources[0]]
    return np.flatnonzero(reached[:, columns].any(axis=1)).tolist()


def _without_features(network: Network, unused: list[int]) -> Network:
    """Return the network after whose features comes a layer that passes on all of them but these, which become 0."""
    width = network.head.weight.shape[1]
    kept = np.eye(width, dtype=network.dtype)
    kept[unused, unused] = 0
    *body, head = network.nodes
    layer = Affine(kept, np.zeros(width, network.dtype))
    nodes = [*body, Node(layer, head.sources, _free_name(network)), Node(Activation("identity"), (len(body),))]
    return Network.from_nodes([*nodes, Node(head.operation, (len(body) + 1,), head.name)])


def _free_name(network: Network) -> str:
    name = "kept"
    while name in network.names:
        name += "_"
    return name


def _proven_without_head(network: Network, task: RepairTask) -> ProvenHead:
    """Prove a network whose output is no affine layer, as it is: step 2 has no head to change."""
    started = time.perf_counter()
    proof = prove_repair_inputs(network, task)
    holds = proof.covers_inference if task.head_options.cover_inference else proof.holds
    if not holds.all():
        raise FairmendError(
            f"{int((~holds).sum())} of {len(holds)} neighbourhoods are not proven after step 1, and the output of this "
            "network is not an affine layer, which step 2 could change: train for longer, or make the network blind"
        )
    return ProvenHead(network, None, proof, task.head_options.margin, 0, time.perf_counter() - started)


def repair_until_proven(
    network: Network, task: RepairTask, progress: Progress | None, ignored: tuple[str, ...]
) -> ProvenHead:
    """Run step 2 and prove its result after casting; where the proof fails, demand more and repeat."""
    if network.head.is_fixed:
        return _proven_without_head(network, task)
    settings = task.head_options
    # A head may read inputs itself; a blind one must not use the ignored columns again.
    blinded = [feature for feature in task.spec.varying if feature.name in ignored]
    unused = _features_of(network, columns_of(task.spec, blinded))
    features = _feature_set(_without_features(network, unused) if unused else network, task)
    demands = demands_of(task.spec.claim)(network, task, features.count)
    before = HeadToChange.of(network, features, unused)
    best: ProvenHead | None = None
    checking = 0.0
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        seconds_left = task.deadline.seconds_left()
        seconds = None if seconds_left is None else max(_LEAST_SOLVER_SECONDS, seconds_left)
        head = demands.solve(before, seconds, progress)
        change = head.weight.copy()
        change[:, unused] = 0  # a solver may leave traces where nothing depends on a weight
        weight, bias = before.weight + change, before.bias + head.bias
        new_head = Affine(weight.astype(network.dtype), bias.astype(network.dtype))
        candidate = network.with_affines([*network.affines[:-1], new_head])
        check_started = time.perf_counter()
        proof = prove_repair_inputs(candidate, task)
        checking += time.perf_counter() - check_started
        wanted = proof.error if settings.cover_inference else np.zeros_like(proof.error)
        failed = ~(proof.covers_inference if settings.cover_inference else proof.holds)
        proven = int((~failed).sum())
        if progress is not None:
            progress("check", proven, len(failed))
        _logger.info("proof, attempt %d: %d of %d proven", attempt, proven, len(failed))
        if not failed.any():
            best = ProvenHead(candidate, head, proof, demands.margin, attempt, checking)
            if head.objective == 0 or task.deadline.passed or not demands.relax(proof):
                return best
            continue
        if best is not None:
            return replace(best, attempts=attempt, check_seconds=checking)
        if not demands.grow(failed, wanted - proof.margin):
            break
    raise FairmendError(
        f"{int(failed.sum())} of {features.count} neighbourhoods could not be proven after {attempt} attempts with "
        "growing margins: the rounding errors of this network are too large. The usual cause is inputs or weights of "
        "very different sizes; scale the inputs, or pass head=HeadOptions(cover_inference=False) for a proof in real "
        "arithmetic"
    )

"""The inputs of a repair, checked once: network, spec, repair inputs, calibration set, options and time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.device import WIDE
from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU, choose_device
from fairmend.models import RunModel
from fairmend.network import Network
from fairmend.network.model import ScoredRows
from fairmend.prove.fit import require_fit
from fairmend.prove.kernel_bounds import require_scores
from fairmend.repairing.measures import Measure, measure_of
from fairmend.repairing.options import HeadOptions, has_tolerances
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions


class TimeLimitError(FairmendError):
    """The time limit of a call ended before a part of its work did."""


class Deadline:
    """The end of one call's time limit, counted in seconds from the creation of this object."""

    def __init__(self, limit: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.limit, self._clock = limit, clock
        self._end = math.inf if limit is None else clock() + limit

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return self._end < math.inf and self._clock() >= self._end

    def check(self, what: str) -> None:
        """Raise TimeLimitError if the time is over; ``what`` is the work that does not go on."""
        if self.passed:
            raise TimeLimitError(f"time limit: the {self.limit:g} s ended {what}")

    def share(self, part: float) -> Deadline:
        """Return the deadline after this part of the time that is left."""
        left = self.seconds_left()
        found = Deadline(None if left is None else part * left, self._clock)
        found.limit = self.limit
        return found

    def seconds_left(self) -> float | None:
        """Return the seconds left, at least 0; None without a limit."""
        return None if self._end == math.inf else max(0.0, self._end - self._clock())


@dataclass(frozen=True)
class RepairTask:
    """The inputs of a repair: ``X_repair (inputs, width)``, ``X_cal (rows, width)``, ``y_cal (rows,)``.

    ``X_unlabelled (rows, width)`` holds further rows of the data without labels, possibly none. ``data`` are the
    calibration rows, then the unlabelled rows, with what the network computes for them. ``device`` is where networks
    are trained. ``split`` names whole-number features whose values are proven one by one, without those
    between them. ``cuts_training`` says whether training ends at the deadline with what it has reached.
    ``keep_form`` says whether the architecture must stay. ``most_solves`` limits the solver runs of step 2.
    """

    model: Network | RunModel
    spec: Spec
    X_repair: FloatArray
    X_cal: FloatArray
    y_cal: np.ndarray
    X_unlabelled: FloatArray
    data: ScoredRows
    head_options: HeadOptions
    seed: int
    deadline: Deadline
    device: torch.device = CPU
    split: tuple[str, ...] = ()
    cuts_training: bool = False
    keep_form: bool = False
    most_solves: float = math.inf

    @property
    def network(self) -> Network:
        """The model, for what needs a network."""
        if not isinstance(self.model, Network):
            raise FairmendError(f"{self.model!r} is no network that fairmend reads: {self.model.why_only_run}")
        return self.model

    @cached_property
    def regions(self) -> Regions:
        """The neighbourhoods of the repair inputs."""
        return self.spec.regions(self.X_repair, self.network.dtype, self.split)

    @property
    def strict(self) -> bool:
        """Whether similar people differ in protected features only: then blindness alone is a proof."""
        return not has_tolerances(self.spec)

    @cached_property
    def measure(self) -> Measure:
        """How networks are judged: by classes, or by the numbers of a regression."""
        return measure_of(self.spec)

    @cached_property
    def original_predictions(self) -> np.ndarray:
        """The original network's predictions for the rows of ``data``."""
        return self.measure.predictions(self.model, self.data.logits)

    def without_rows(self, labelled: Ints, unlabelled: Ints) -> RepairTask:
        """Return the same task without some calibration rows and some unlabelled rows, given by their numbers."""
        X_cal, X_unlabelled = (
            np.delete(self.X_cal, labelled, axis=0),
            np.delete(self.X_unlabelled, unlabelled, axis=0),
        )
        return replace(
            self,
            X_cal=X_cal,
            y_cal=np.delete(self.y_cal, labelled, axis=0),
            X_unlabelled=X_unlabelled,
            data=ScoredRows.of(self.model, np.concatenate([X_cal, X_unlabelled])),
        )


def prepare_task(
    network: Network | RunModel,
    spec: Spec,
    X_repair: pd.DataFrame | ArrayLike,
    X_cal: pd.DataFrame | ArrayLike,
    y_cal: ArrayLike,
    head_options: HeadOptions,
    seed: int,
    deadline: Deadline | None = None,
    X_unlabelled: pd.DataFrame | ArrayLike | None = None,
    device: str = "cpu",
) -> RepairTask:
    """Check and encode the arguments of a repair. There is no time limit unless a deadline is given."""
    head_options.check()
    if isinstance(network, Network):
        require_fit(network, spec)
        require_scores(network, spec.claim)
    if head_options.features == "points" and not spec.finite:
        raise FairmendError(
            'features="points" needs finite neighbourhoods, and a continuous feature varies here; use "linear"'
        )
    if not (isinstance(seed, int | np.integer) and 0 <= seed < 2**31):
        raise FairmendError(f"seed is {seed!r}; give a whole number from 0 to 2147483647")
    calibration = spec.as_inputs(X_cal, network.dtype)
    labels = measure_of(spec).check_labels(np.asarray(y_cal), len(calibration), network)
    repair_inputs = spec.as_inputs(X_repair, network.dtype)
    unlabelled = calibration[:0]
    if X_unlabelled is not None and len(np.asarray(X_unlabelled)):
        unlabelled = spec.as_inputs(X_unlabelled, network.dtype)
    return RepairTask(
        network,
        spec,
        repair_inputs,
        calibration,
        labels,
        unlabelled,
        ScoredRows.of(network, np.concatenate([calibration, unlabelled])),
        head_options,
        seed,
        deadline or Deadline(None),
        choose_device(device, "training", pays=isinstance(network, Network) and max(network.widths[:-1]) > WIDE),
    )

"""What a repair is given, checked once: the network, who counts as similar, the two sets, and how step 2 is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.repair.blind import blind_columns
from fairmend.repair.head.solve import check_search
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions

FEATURES = ("linear", "box", "points")


@dataclass(frozen=True)
class Step2:
    """How step 2 is run, see `repair_head`, and what its result must cover."""

    features: str = "linear"
    margin: float = 1e-6
    delta_limit: float = math.inf
    solver: str = "highs"
    search: str | None = None
    time_limit: float | None = None
    gap: float = 0.0
    cover_inference: bool = True

    def __post_init__(self) -> None:
        """Refuse what would only turn out wrong after the whole of step 1."""
        if self.features not in FEATURES:
            raise FairmendError(f"unknown features {self.features!r}; there are {', '.join(FEATURES)}")
        if not 0 < self.margin < math.inf:
            raise FairmendError(f"margin is {self.margin}; it must be positive, or ties would count as fair")
        if not self.delta_limit > 0:
            raise FairmendError(f"delta_limit is {self.delta_limit}; give a positive number, or leave it out")
        if self.time_limit is not None and not self.time_limit >= 0:
            raise FairmendError(f"time_limit is {self.time_limit}; give seconds, or None for no limit")
        if not 0 <= self.gap < math.inf:
            raise FairmendError(f"gap is {self.gap}; give a relative gap of 0 or more")
        check_search(self.solver, self.search)


@dataclass(frozen=True)
class Task:
    """The inputs of a repair: ``X_repair (inputs, width)``, ``X_cal (rows, width)``, ``y_cal (rows,)``."""

    network: Network
    spec: Spec
    X_repair: FloatArray
    X_cal: FloatArray
    y_cal: np.ndarray
    step2: Step2
    seed: int = 0

    @cached_property
    def regions(self) -> Regions:
        """The neighbourhoods of the repair inputs."""
        return self.spec.regions(self.X_repair, self.network.dtype)

    @cached_property
    def protected_columns(self) -> list[int]:
        """The network's inputs that hold protected features."""
        return blind_columns(self.spec)

    @property
    def strict(self) -> bool:
        """Whether similar people differ in protected features only: then blindness alone is a proof."""
        return all(feature.protected or not feature.varies for feature in self.spec.features)

    def calibrated_on(self, rows: Sequence[int] | np.ndarray) -> Task:
        """The same task with some of the calibration rows."""
        return replace(self, X_cal=self.X_cal[rows], y_cal=self.y_cal[rows])


def make_task(
    network: Network,
    spec: Spec,
    X_repair: pd.DataFrame | ArrayLike,
    X_cal: pd.DataFrame | ArrayLike,
    y_cal: ArrayLike,
    step2: Step2,
    seed: int,
) -> Task:
    """Check and encode what the user gave."""
    spec.require_inputs(network.inputs)
    if step2.features == "points" and not spec.finite:
        raise FairmendError('features="points" needs finite neighbourhoods; a continuous feature varies here')
    if not (isinstance(seed, int | np.integer) and 0 <= seed < 2**31):
        raise FairmendError(f"seed is {seed!r}; give a whole number from 0 to 2147483647")
    calibration = spec.as_inputs(X_cal, network.dtype)
    labels = _labels(y_cal, len(calibration), network)
    return Task(network, spec, spec.as_inputs(X_repair, network.dtype), calibration, labels, step2, seed)


def _labels(y_cal: ArrayLike, rows: int, network: Network) -> np.ndarray:
    labels = np.asarray(y_cal)
    classes = 2 if network.outputs == 1 else network.outputs
    if labels.shape != (rows,):
        raise FairmendError(f"y_cal has shape {labels.shape}; it must be ({rows},), one class for each row of X_cal")
    known = np.isin(labels, np.arange(classes))
    if not known.all():
        row = int(np.argmin(known))
        raise FairmendError(f"y_cal, row {row}: {labels[row]!r} is no class; there are 0 to {classes - 1}")
    return labels.astype(np.int64)

"""RepairedModel: a model behind the canonical map of a spec, whose output depends on a row only through its class.

The original stays what it is, and reads the representative of a class, or all members of it, whose scores are averaged.
As a file it is the original ONNX graph behind a few nodes; in PyTorch a module around the original's, in scikit-learn
an estimator around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically
from fairmend.models.averaging import LEAST_PROBABILITY, Average
from fairmend.models.canonical import CanonicalMap, spec_port
from fairmend.models.entry import Entry
from fairmend.models.ports import Port
from fairmend.models.run_model import RunModel, Runner
from fairmend.network import Network
from fairmend.network.model import scores_of
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from fairmend.models.repaired_estimator import FairEstimator


class _ClassRunner(Runner):
    """Runs a model on the representatives of classes, or on all members, and averages its scores."""

    sure = True

    def __init__(self, base: Network | RunModel, canonical: CanonicalMap, average: Average | None) -> None:
        self.base, self.average = base, average
        self.name = "the repaired model"
        self.runtime = base.runtime if isinstance(base, RunModel) else "fairmend"
        self.kind = "number" if canonical.spec.regression else "logit"
        self.dtype = base.dtype
        self._of_probabilities = isinstance(base, RunModel) and base.kind == "probability"
        self.single = isinstance(base, RunModel) and base.single
        (port,) = self.ports(canonical.spec)
        self._entry = canonical.entry([port])
        self._members = [] if average is None else average.entries([port])

    def ports(self, spec: Spec) -> tuple[Port, ...]:
        """Return the columns of the spec."""
        return (spec_port(spec, self.dtype.name),)

    def compared(self, scores: Floats) -> Floats:
        """Return the probabilities if the original gives these: rounding errors of small ones are large in logits."""
        return scores_of(scores, "probability") if self._of_probabilities else scores

    def run(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> npt.NDArray[Any]:
        """Return logits, or the number to predict."""
        canonical = self._entry.apply([X])
        if self.average is None:
            return self.base.logits(canonical[0]).astype(np.float64)
        members = [self.base.logits(member.apply(canonical)[0]) for member in self._members]
        return average_logits(members, self.average, canonical[0])


def average_logits(members: Sequence[FloatArray], average: Average, canonical: FloatArray) -> Floats:
    """Return the averaged logits (rows, outputs) of members, given those of each and canonical rows (rows, width)."""
    spec = average.canonical.spec
    weights = average.weights.compute(spec, canonical)
    on = None if spec.regression else "probability"
    mean = np.sum([weights[:, [k]] * scores_of(logits, on) for k, logits in enumerate(members)], axis=0)
    return mean if spec.regression else _closing(mean, average.shift)


def _closing(mean: Floats, shift: float) -> Floats:
    """Return the logits of averaged probabilities (rows, outputs), those of two classes shifted."""
    if mean.shape[1] > 2:
        return np.log(np.maximum(mean, LEAST_PROBABILITY))
    positive, negative = mean[:, -1], 1 - mean[:, 0] if mean.shape[1] == 1 else mean[:, 0]
    odds = np.log(np.maximum(positive, LEAST_PROBABILITY)) - np.log(np.maximum(negative, LEAST_PROBABILITY)) + shift
    return odds[:, None] if mean.shape[1] == 1 else np.column_stack([np.zeros(len(odds)), odds])


class RepairedModel(RunModel):
    """A model whose output depends on a row only through its class.

    Attributes
    ----------
    base : the original, or a network that was trained to take its place
    canonical : what stands for each class
    average : how the scores of members are averaged; None if the base reads the representative alone
    """

    def __init__(self, base: Network | RunModel, canonical: CanonicalMap, average: Average | None = None) -> None:
        self.base, self.canonical, self.average = base, canonical, average
        super().__init__(_ClassRunner(base, canonical, average), "it is repaired by classes of similar people")

    def bind(self, spec: Spec, frames: Iterable[pd.DataFrame] = ()) -> RepairedModel:
        """Return the model for rows of its spec, tried on some."""
        bound = super().bind(spec, frames)
        assert isinstance(bound, RepairedModel)
        return bound

    def __repr__(self) -> str:
        """Show what the repaired model reads, and how often it runs the original."""
        runs = "reads the representative of a class" if self.members == 1 else f"averages {self.members} members"
        return f"RepairedModel({runs}, run by {self.runtime})"

    @property
    def read_columns(self) -> Bools:
        """Which columns the scores can depend on, bool (inputs,): those that are not cut."""
        read = np.ones(self.inputs, dtype=np.bool_)
        read[[cut.column for cut in self.canonical.entry([spec_port(self.canonical.spec, self.dtype.name)]).cuts]] = (
            False
        )
        return read

    def logits(self, X: npt.ArrayLike) -> FloatArray:
        """Return the logits of X (rows, inputs); members of a class are run once, so they get the same bits."""
        rows = np.ascontiguousarray(X, dtype=self.dtype)
        fits = rows.ndim == 2 and rows.shape[1] == self.inputs
        return super().logits(self.canonical.apply(rows) if fits else rows)

    @property
    def members(self) -> int:
        """How often the original is run for each person."""
        return 1 if self.average is None else self.average.members.count

    @cached_property
    def exported(self) -> tuple[bytes, Entry]:
        """The bytes of the model as an ONNX file, and the entry that it has there, for the certificate."""
        from fairmend.models.export import export_repaired

        return export_repaired(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as an ONNX file; an existing file is replaced completely or not at all."""
        if Path(path).suffix.lower() != ".onnx":
            raise FairmendError(f"{path}: a model that is repaired by classes is saved as .onnx")
        write_atomically(Path(path), [self.exported[0]])

    def to_module(self) -> nn.Module:
        """Return a PyTorch module around the original's, with the same arguments and outputs."""
        from fairmend.models.repaired_module import as_module

        return as_module(self)

    def to_estimator(self) -> FairEstimator:
        """Return a scikit-learn estimator around the original, which takes what the original takes."""
        from fairmend.models.repaired_estimator import as_estimator

        return as_estimator(self)

"""How far an encoding of some rows is from the scores that the model gave for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fairmend.base.arrays import Floats
from fairmend.network import Network
from fairmend.network.scores import scores_of
from fairmend.spec.draft.readings import Reading
from fairmend.spec.encoding import encode_values
from fairmend.spec.read_values import read_values

State = tuple[Reading, ...]
"""The readings of the columns, in the order of the network's inputs."""

_BATCH = 16_384  # rows in one evaluation of the network
_LEAST_SHARE = 1e-9  # probabilities nearer to 0 or 1 tell no more


class Distance:
    """The distance of states from given scores (rows, columns) of the rows of a frame.

    Outputs and scores are compared as logits, so that errors near 0 and 1 count too; as outputs for a number to
    predict. Large errors count by their logarithm: a wrong scale must not hide which columns are right.
    """

    def __init__(self, net: Network, frame: pd.DataFrame, given: Floats, *, regression: bool) -> None:
        """Keep the network in float64, and the scores as logits."""
        self._net, self._frame, self._regression = net.astype(np.float64), frame, regression
        self._target = self._as_logits(given)
        self._limit = np.abs(self._target).max() if not regression else np.inf
        self._centre = np.median(self._target, axis=0)
        spread = self._target.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._wanted = self._squash(self._target)
        self._columns: dict[Reading, Floats] = {}
        self.evaluations = 0

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._frame)

    @property
    def target(self) -> Floats:
        """The given scores as logits (rows, outputs)."""
        return self._target

    def columns(self, reading: Reading) -> Floats:
        """Return the encoded columns (rows, width) of a reading."""
        if reading not in self._columns:
            feature = reading.feature
            self._columns[reading] = encode_values(feature, read_values(feature, self._frame))
        return self._columns[reading]

    def encode(self, state: State) -> Floats:
        """Return the encoded rows (rows, inputs)."""
        return np.hstack([self.columns(reading) for reading in state])

    def links(self, X: Floats) -> Floats:
        """Return the outputs of the network for X (rows, inputs) in the form of the target."""
        outputs = scores_of(self._net.logits(X), "logit")
        if self._regression or outputs.shape[1] == 1:
            return outputs
        if self._target.shape[1] == 1:
            return outputs[:, 1:2] - outputs[:, :1]
        return np.asarray(outputs - outputs.mean(axis=1, keepdims=True))

    def of(self, states: Sequence[State]) -> Floats:
        """Return the distance of each state (states,)."""
        self.evaluations += len(states)
        found = np.empty(len(states))
        step = max(1, _BATCH // self.rows)
        for start in range(0, len(states), step):
            batch = states[start : start + step]
            links = self.links(np.concatenate([self.encode(state) for state in batch]))
            limited = np.clip(links, -self._limit, self._limit)
            difference = self._squash(limited).reshape(len(batch), self.rows, -1) - self._wanted
            found[start : start + step] = (difference**2).mean(axis=(1, 2))
        return found

    def _squash(self, links: Floats) -> Floats:
        return np.arcsinh((links - self._centre) / self._spread)

    def _as_logits(self, given: Floats) -> Floats:
        """Return given scores as logits: of one or two classes (rows, 1), of several with mean 0 (rows, classes)."""
        if self._regression:
            return given
        shares = bool(((given >= 0) & (given <= 1)).all())
        if given.shape[1] == 2 and (self._net.outputs == 1 or shares):
            given = given[:, 1:] if shares else given[:, 1:] - given[:, :1]
        if not shares:
            return given if given.shape[1] == 1 else given - given.mean(axis=1, keepdims=True)
        inside = np.clip(given, _LEAST_SHARE, 1 - _LEAST_SHARE)
        if given.shape[1] == 1:
            return np.log(inside / (1 - inside))
        logs = np.log(inside)
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))

"""Choose pairs of similar people with different predictions as examples, and tabulate all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairmend.base.arrays import FloatArray, Ints
from fairmend.network import Network
from fairmend.spec import Spec

# This many rows are enough to find pairs of every kind, and take no time to enumerate.
_MOST_ROWS = 300


@dataclass(frozen=True, eq=False)
class ExamplePair:
    """Row `row` of the data, encoded as x (width,), and a neighbour that differs in the features `differs_in`."""

    row: int
    x: FloatArray
    other: FloatArray
    differs_in: tuple[str, ...]

    def answers(self, net: Network) -> tuple[int, int]:
        """Return the predictions for both."""
        first, second = net.predict(np.stack([self.x, self.other])).tolist()
        return first, second


def choose_example_pairs(net: Network, spec: Spec, X: FloatArray, rows: Ints, count: int) -> list[ExamplePair]:
    """Return up to `count` pairs from the unequal `rows`, with few differences each, and not always the same ones."""
    examined = rows[:_MOST_ROWS]
    if len(examined) == 0:
        return []
    chosen: list[ExamplePair] = []
    seen: Counter[tuple[int, tuple[str, ...]]] = Counter()
    streamed = [*spec.points(X[examined], dtype=X.dtype)]
    owner, points = (np.concatenate(parts) for parts in zip(*streamed, strict=True))
    classes, own = net.predict(points), net.predict(X[examined])
    for position, row in enumerate(examined.tolist()):
        others = points[(owner == position) & (classes != own[position])]
        kinds = _by_difference(spec, X[row], others)
        prediction = int(own[position])
        # Prefer the fewest differences; of equally few, those shown least so far with this prediction.
        kind = min(kinds, key=lambda names: (len(names), seen[prediction, names]))
        if seen[prediction, kind] > len(chosen) // 3:
            continue
        seen[prediction, kind] += 1
        chosen.append(ExamplePair(row, X[row], kinds[kind][len(kinds[kind]) // 2], kind))
        if len(chosen) == count:
            break
    return chosen


def _by_difference(spec: Spec, x: FloatArray, others: FloatArray) -> dict[tuple[str, ...], list[FloatArray]]:
    """Return others (points, width), grouped by the features in which they differ from x (width,)."""
    groups: dict[tuple[str, ...], list[FloatArray]] = {}
    features = spec.varying
    differs = np.array([(others[:, spec.columns(f.name)] != x[spec.columns(f.name)]).any(1) for f in features])
    for point, mask in zip(others, differs.T, strict=True):
        names = tuple(f.name for f, differing in zip(features, mask, strict=True) if differing)
        groups.setdefault(names, []).append(point)
    return groups


class UnequalRows:
    """Collects the rows that an audit finds to be treated unequally, each with its worst counterfactual."""

    def __init__(self) -> None:
        """Start without rows."""
        self._found: list[tuple[Ints, FloatArray, FloatArray]] = []

    def add(self, rows: Ints, X: FloatArray, other: FloatArray) -> None:
        """Add rows (k,), their inputs X (k, width), and a neighbour of each."""
        self._found.append((rows, X, other))

    def tabulate(self, spec: Spec, frame: pd.DataFrame, before: Network, after: Network) -> pd.DataFrame:
        """Return one line for each row: the row of the frame, the neighbour, and the predictions of both networks."""
        empty = np.zeros((0, spec.width), before.dtype)
        rows, X, other = (
            np.concatenate(parts) for parts in zip((np.zeros(0, np.int64), empty, empty), *self._found, strict=True)
        )
        table = frame.iloc[rows].reset_index(drop=True)
        decoded = spec.decode(other)
        for feature in spec.varying:
            table[f"other_{feature.name}"] = decoded[feature.name]
        for name, net in (("before", before), ("after", after)):
            table[f"answer_{name}"] = net.predict(X) if len(rows) else rows
            table[f"other_answer_{name}"] = net.predict(other) if len(rows) else rows
        return table

"""Unfair pairs: the same person twice, differing in what should not matter, with two answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.arrays import FloatArray
from fairmend.audit.neighbours import UnequalInputs
from fairmend.network import Network
from fairmend.spec import Spec

# Looking at this many people is enough to find pairs of every kind, and takes no time.
_LOOKED_AT = 300


@dataclass(frozen=True, eq=False)
class Pair:
    """Row `row` of the data, encoded as x, and a neighbour who differs in the features `differs_in`."""

    row: int
    x: FloatArray
    other: FloatArray
    differs_in: tuple[str, ...]

    def answers(self, net: Network) -> tuple[int, int]:
        """Return the classes of the two."""
        first, second = net.predict(np.stack([self.x, self.other])).tolist()
        return first, second


def telling_pairs(net: Network, spec: Spec, X: FloatArray, rows: npt.NDArray[np.int64], count: int) -> list[Pair]:
    """Return up to `count` pairs from the unequal `rows`: few differences each, not always the same ones."""
    looked_at = rows[:_LOOKED_AT]
    if len(looked_at) == 0:
        return []
    chosen: list[Pair] = []
    seen: Counter[tuple[int, tuple[str, ...]]] = Counter()
    streamed = [*spec.points(X[looked_at], dtype=X.dtype)]
    owner, points = (np.concatenate(parts) for parts in zip(*streamed, strict=True))
    answers, own = net.predict(points), net.predict(X[looked_at])
    for position, row in enumerate(looked_at.tolist()):
        others = points[(owner == position) & (answers != own[position])]
        kinds = _by_difference(spec, X[row], others)
        answer = int(own[position])
        # The fewest differences say most; of equally few, those shown least so far with this answer.
        kind = min(kinds, key=lambda names: (len(names), seen[answer, names]))
        if seen[answer, kind] > len(chosen) // 3:
            continue
        seen[answer, kind] += 1
        chosen.append(Pair(row, X[row], kinds[kind][len(kinds[kind]) // 2], kind))
        if len(chosen) == count:
            break
    return chosen


def _by_difference(spec: Spec, x: FloatArray, others: FloatArray) -> dict[tuple[str, ...], list[FloatArray]]:
    """Group others (points, width) by the features in which they differ from x (width,)."""
    groups: dict[tuple[str, ...], list[FloatArray]] = {}
    features = [f for f in spec.features if f.varies]
    differs = np.array([(others[:, spec.columns(f.name)] != x[spec.columns(f.name)]).any(1) for f in features])
    for point, mask in zip(others, differs.T, strict=True):
        names = tuple(f.name for f, differing in zip(features, mask, strict=True) if differing)
        groups.setdefault(names, []).append(point)
    return groups


def pairs_table(
    spec: Spec, frame: pd.DataFrame, X: FloatArray, unequal: UnequalInputs, before: Network, after: Network
) -> pd.DataFrame:
    """Return one row for each unequal row of the data: itself, a neighbour, and the answers to both."""
    rows = np.flatnonzero(unequal.rows)
    mine, others = X[rows], unequal.other[rows]
    table = frame.iloc[rows].reset_index(drop=True)
    decoded = spec.decode(others)
    for feature in spec.features:
        if feature.varies:
            table[f"other_{feature.name}"] = decoded[feature.name]
    for name, net in (("before", before), ("after", after)):
        table[f"answer_{name}"] = net.predict(mine) if len(rows) else np.zeros(0, np.int64)
        table[f"other_answer_{name}"] = net.predict(others) if len(rows) else np.zeros(0, np.int64)
    return table

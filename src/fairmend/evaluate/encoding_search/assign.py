"""A first guess of the order of columns: compare how strongly the scores and the network depend on each column.

The slope of the scores in a column of the data is that of their linear regression; the slope of the network in an input
is the mean of its derivative. For standardised inputs the two agree (Stein's lemma: exactly so for normal ones), so the
column belongs to the input with the same slope.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise, product

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.evaluate.encoding_search.distance import Distance, State

_ROUNDS = 6
_STEP = 1e-4
_MOST_PLACEMENTS = 3_000  # of the one-hot groups


def assign_order(state: State, distance: Distance) -> State:
    """Return the readings in the order in which their slopes agree best with those of the inputs."""
    nearest, best = float(distance.of([state])[0]), state
    slopes = _slopes_of_scores(state, distance)
    for _ in range(_ROUNDS):
        made = _arrange(state, slopes, _slopes_of_network(distance.encode(state), distance))
        if made is None or made == state:
            break
        state = made
        reached = float(distance.of([state])[0])
        if reached < nearest:
            nearest, best = reached, state
    return best


def _slopes_of_scores(state: State, distance: Distance) -> dict[str, Floats]:
    """Return the slopes (columns, outputs) of the scores in the columns of each reading."""
    parts = [distance.columns(reading) for reading in state]
    centred = np.hstack([part - part.mean(axis=0) for part in parts])
    target = distance.target - distance.target.mean(axis=0)
    found = np.linalg.lstsq(centred, target, rcond=1e-8)[0]  # of one-hot columns, the least slopes
    ends = np.cumsum([part.shape[1] for part in parts])
    names = [reading.feature.name for reading in state]
    return dict(zip(names, np.split(found, ends[:-1]), strict=True))


def _slopes_of_network(X: Floats, distance: Distance) -> Floats:
    """Return the mean slope (inputs, outputs) of the network in each input."""
    found = []
    for column in range(X.shape[1]):
        up, down = X.copy(), X.copy()
        up[:, column] += _STEP
        down[:, column] -= _STEP
        found.append((distance.links(up) - distance.links(down)).mean(axis=0) / (2 * _STEP))
    return np.array(found)


def _arrange(state: State, scores: dict[str, Floats], network: Floats) -> State | None:
    """Return the readings in the best order: every place of the one-hot groups, and the best places of the others."""
    wide = [reading for reading in state if reading.feature.width > 1]
    narrow = [reading for reading in state if reading.feature.width == 1]
    inputs = len(network)
    costs = np.array([[_cost(scores[r.feature.name], network[p : p + 1]) for p in range(inputs)] for r in narrow])
    best, found = np.inf, None
    widths = [reading.feature.width for reading in wide]
    group_costs = [
        np.array([_cost(scores[r.feature.name], network[s : s + width]) for s in range(inputs - width + 1)])
        for r, width in zip(wide, widths, strict=True)
    ]
    for starts in _placements(widths, group_costs):
        placed = {start: reading for reading, start in zip(wide, starts, strict=True)}
        cost = float(sum(own[start] for own, start in zip(group_costs, starts, strict=True)))
        if cost >= best:
            continue
        taken = {place for start, r in placed.items() for place in range(start, start + r.feature.width)}
        free = np.array([place for place in range(inputs) if place not in taken], dtype=np.int64)
        chosen = _assign(costs[:, free]) if narrow else free
        cost += float(costs[np.arange(len(narrow)), free[chosen]].sum()) if narrow else 0.0
        if cost < best:
            best = cost
            found = placed | {int(free[place]): reading for reading, place in zip(narrow, chosen, strict=True)}
    return None if found is None else tuple(found[place] for place in sorted(found))


def _placements(widths: list[int], costs: list[Floats]) -> Iterator[tuple[int, ...]]:
    """Yield first columns of groups that do not overlap, from the cheapest ones of each group."""
    kept = max(1, int(_MOST_PLACEMENTS ** (1 / max(1, len(widths)))))
    cheapest = [np.argsort(own, kind="stable")[:kept].tolist() for own in costs]
    for starts in islice(product(*cheapest), _MOST_PLACEMENTS):
        spans = sorted(zip(starts, widths, strict=True))
        if all(start + width <= after for (start, width), (after, _) in pairwise(spans)):
            yield starts


def _assign(costs: Floats) -> Ints:
    """Return a column for each row of a square matrix with a low sum: the least entry first, then better exchanges."""
    count = len(costs)
    chosen = np.full(count, -1, dtype=np.int64)
    left = costs.copy()
    for _ in range(count):
        row, column = np.unravel_index(int(left.argmin()), left.shape)
        chosen[row] = column
        left[row, :] = left[:, column] = np.inf
    improved = True
    while improved:
        own = costs[np.arange(count), chosen]
        crossed = costs[:, chosen]  # the cost of row i in the column of row j
        gain = own[:, None] + own[None, :] - crossed - crossed.T
        i, j = np.unravel_index(int(gain.argmax()), gain.shape)
        improved = bool(gain[i, j] > 1e-12)
        if improved:
            chosen[i], chosen[j] = chosen[j], chosen[i]
    return chosen


def _cost(ours: Floats, theirs: Floats) -> float:
    """Return how far two slopes (columns, outputs) differ; those of a one-hot group up to a constant."""
    difference = ours - theirs
    if len(difference) > 1:
        difference = difference - difference.mean(axis=0)
    return float((difference**2).sum())

"""Random regions, feature sets and oracles for the tests of the repair; the oracles share no code with it."""

from itertools import product

import numpy as np

from fairmend.milp import LinearProgram, Status
from fairmend.repairing.head.features import Box, FeatureSet, Linear, Points
from fairmend.spec.neighbourhoods import Regions

KINDS = ("box", "linear", "points")


def random_regions(rng, inputs, varying, count, pieces=1, width=1.0, dtype=np.float64) -> Regions:
    """``count`` inputs of ``pieces`` boxes each, of which the first ``varying`` columns vary."""
    total = count * pieces
    lower = rng.normal(size=(total, inputs)).astype(dtype)
    upper = lower.copy()
    upper[:, :varying] += rng.uniform(0, width, size=(total, varying)).astype(dtype)
    return Regions(lower, upper, np.repeat(np.arange(count), pieces), count)


def sampled(regions: Regions, rng, per_piece=30) -> tuple[np.ndarray, np.ndarray]:
    """Points in the boxes, and the inputs they belong to."""
    owner = np.repeat(regions.owner, per_piece)
    share = rng.random((len(owner), regions.lower.shape[1])).round(1)  # the ends too
    lower, upper = (np.repeat(side.astype(np.float64), per_piece, axis=0) for side in (regions.lower, regions.upper))
    return np.clip(lower + share * (upper - lower), lower, upper), owner


def random_features(rng, kind, count, dimension, varying=2, pieces=1, spread=1.0, width=0.3) -> FeatureSet:
    """Feature sets that overlap, so that regions conflict."""
    if kind == "points":
        pieces += 2
    total, owner = count * pieces, np.repeat(np.arange(count), pieces)
    centre = np.repeat(rng.normal(size=(count, dimension)) * spread, pieces, axis=0)
    centre = centre + rng.normal(size=(total, dimension)) * width
    if kind == "points":
        return Points(centre, centre, owner, count)
    if kind == "box":
        return Box(centre, centre + rng.uniform(0, width, size=centre.shape), owner, count)
    slopes = rng.normal(size=(2, varying, total, dimension)) * width / varying
    between = np.abs(slopes[1] - slopes[0]).sum(axis=0) + rng.uniform(0, width / 2, size=centre.shape)
    lower = np.concatenate([centre[None], slopes[0]])
    return Linear(lower, np.concatenate([(centre + between)[None], slopes[1]]), owner, count)


def extreme_points(features: FeatureSet, region: int) -> np.ndarray:
    """Every point of which the enclosing set of a region is the convex hull, and some more, ``(points, dimension)``."""
    found = []
    for piece in np.flatnonzero(features.owner == region):
        if isinstance(features, Linear):
            forms = features.lower[:, piece], features.upper[:, piece]
            ends = [
                tuple(form[0] + np.array(corner) @ form[1:] for form in forms)
                for corner in product((-1.0, 1.0), repeat=len(forms[0]) - 1)
            ]
        else:
            ends = [(features.below[piece], features.above[piece])]
        for below, above in ends:
            choices = product((False, True), repeat=features.dimension)
            found += [np.where(choice, above, below) for choice in choices]
    return np.unique(np.array(found), axis=0)


def smallest_change(weight, bias, features, margin, delta_limit=np.inf, bias_shift=None) -> float:
    """The optimum of step 2 by trying every class of every region; infinite where there is none.

    With ``bias_shift``, that of a head that stores no bias: the change of its bias is that of its weights times this.
    """
    outputs, dimension = weight.shape
    size = outputs * (dimension + 1)
    margins = np.broadcast_to(margin, (features.count,))
    program = LinearProgram(np.ones(2 * size), np.zeros(2 * size), np.full(2 * size, delta_limit))
    columns = np.arange(2 * size)
    if bias_shift is not None:
        tied = np.kron(np.eye(outputs), np.append(-bias_shift, 1.0))
        program.add_rows(columns, np.hstack([tied, -tied]), np.zeros(outputs), np.zeros(outputs))
    hulls = [extreme_points(features, region) for region in range(features.count)]
    corners = [np.column_stack([h, np.ones(len(h))]) for h in hulls]
    old = np.column_stack([weight, bias])

    def demand(region, label):
        h = corners[region]
        if outputs == 1:
            sides = [np.array([[1.0 if label else -1.0]])]
        else:
            sides = [np.eye(outputs)[[label]] - np.eye(outputs)[[j]] for j in range(outputs) if j != label]
        for side in sides:
            rows = np.kron(side, h)
            size_of_row = np.abs(rows).max(axis=1)  # the solver's tolerances are absolute
            right = (margins[region] - h @ (side @ old)[0]) / size_of_row
            rows = rows / size_of_row[:, None]
            program.add_rows(columns, np.hstack([rows, -rows]), right, np.full(len(h), np.inf))

    best = np.inf

    def descend(region):
        nonlocal best
        solution = program.solve()
        assert solution.status in (Status.OPTIMAL, Status.INFEASIBLE)
        if solution.status is Status.INFEASIBLE or solution.objective >= best:
            return
        if region == features.count:
            best = solution.objective
            return
        before = program.rows
        for label in range(max(2, outputs)):
            demand(region, label)
            descend(region + 1)
            program.remove_rows(np.arange(before, program.rows))

    descend(0)
    return best


def slack_of(weight, bias, features) -> np.ndarray:
    """By how much each region is in each class, from the extreme points, ``(count, classes)``."""
    rows = []
    for region in range(features.count):
        scores = extreme_points(features, region) @ weight.T + bias
        if scores.shape[1] == 1:
            rows.append([-scores.max(), scores.min()])
            continue
        lead = scores[:, :, None] - scores[:, None, :]
        lead[:, np.arange(len(bias)), np.arange(len(bias))] = np.inf
        rows.append(lead.min(axis=(0, 2)))
    return np.array(rows)

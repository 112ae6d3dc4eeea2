"""The regions of a certificate: whether their pieces cover them, and which margin can be confirmed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend_check.bounds import interval_layers, leads, margin_bounds
from fairmend_check.certificate import Region
from fairmend_check.coverage import Effort, find_uncovered
from fairmend_check.errors import CheckError
from fairmend_check.inference_error import inference_error, inference_error_of
from fairmend_check.model import Model
from fairmend_check.neighbourhood import Product, batches, count_points, neighbourhood
from fairmend_check.rounding import Array, down
from fairmend_check.spec import Spec

MAX_WORK = 10**12  # multiplications for the points of all regions together: about ten minutes
_PER_UNIT = 200  # what an input or output of a layer costs beside them
MAX_PARTS = 10**7  # of all neighbourhoods together, for each link: a few minutes
_BATCH = 2**20  # numbers in a batch of points, at the widest layer


@dataclass(frozen=True, eq=False)
class ProvenMargins:
    """For each region the confirmed margin, and whether it exceeds the error of inference; (regions,)."""

    margin: Array
    covers: np.ndarray


def check_coverage(model: Model, spec: Spec, regions: list[Region]) -> list[str]:
    """Return a reason for each input that is not possible, and for pieces that do not cover its neighbourhood."""
    reasons, total, parts, effort = [], 0, 0, Effort()
    most = MAX_WORK // sum(weight.size + _PER_UNIT * sum(weight.shape) for weight in model.weights)
    for number, region in enumerate(regions):
        try:
            around = neighbourhood(spec, region.x, model.dtype)
            if region.pieces is None:
                total += count_points(around)
        except CheckError as error:
            reasons.append(f"regions[{number}]: {error}")
            continue
        parts += len(around) * (1 + len(spec.links))
        if parts > MAX_PARTS:
            return [
                *reasons,
                f"regions: links divide the neighbourhoods into more parts than the limit ({MAX_PARTS:,})",
            ]
        if region.pieces is None:
            continue
        lower = np.stack([piece.lower for piece in region.pieces])
        upper = np.stack([piece.upper for piece in region.pieces])
        hole = find_uncovered(around, lower, upper, model.dtype, effort)
        if hole is not None:
            reasons.append(f"regions[{number}]: the pieces do not cover the neighbourhood: {hole}")
    if total > most:
        reasons.append(f"regions: there are more points to check than the limit for this model ({most:,})")
    return reasons


def prove(model: Model, spec: Spec, regions: list[Region]) -> ProvenMargins:
    """Return the margins of all regions, which must be covered."""
    margin = np.full(len(regions), np.inf)
    excess = np.full(len(regions), np.inf)  # of the margin over the error of inference
    boxes = [(number, piece) for number, region in enumerate(regions) for piece in region.pieces or ()]
    if boxes:
        owner = np.array([number for number, _ in boxes])
        lower = np.stack([piece.lower for _, piece in boxes])
        upper = np.stack([piece.upper for _, piece in boxes])
        slopes = [
            tuple(np.stack([piece.slopes[layer][side] for _, piece in boxes]) for side in (0, 1))
            for layer in range(len(model.between))
        ]
        classes = np.array([regions[number].label for number, _ in boxes])
        bound = margin_bounds(model, classes, lower, upper, [(below, above) for below, above in slopes])
        error = inference_error(model, classes, lower, upper)
        np.minimum.at(margin, owner, bound)
        np.minimum.at(excess, owner, _excess(bound, error))
    for number, region in enumerate(regions):
        if region.pieces is None:
            around = neighbourhood(spec, region.x, model.dtype)
            margin[number], excess[number] = _over_points(model, around, region.label)
    return ProvenMargins(margin, excess > 0)


def _over_points(model: Model, around: list[Product], label: int) -> tuple[float, float]:
    """Return the least margin over all points, and its least excess over the error of inference."""
    step = max(1, _BATCH // max(max(weight.shape) for weight in model.weights))
    least, least_excess = np.inf, np.inf
    with np.errstate(all="ignore"):
        for batch in batches(around, step):
            layers = interval_layers(model, batch, batch)
            low, high = layers[-1]
            if model.outputs == 1:
                bound = low[:, 0] if label == 1 else -high[:, 0]
            else:
                others = leads(model, np.array([label]))[0].argmin(axis=1)
                bound = down(low[:, label] - high[:, others].max(axis=1))
            error = inference_error_of(model, np.full(len(batch), label), batch, batch, layers)
            least = min(least, float(bound.min()))
            least_excess = min(least_excess, float(_excess(bound, error).min()))
    return least, least_excess


def _excess(bound: Array, error: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(bound > error, bound - error, -np.inf)

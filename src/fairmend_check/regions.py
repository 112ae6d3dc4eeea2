"""The regions of a certificate: whether their pieces cover them, and which margins or scores can be confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairmend_check.bounds import Slopes, form_bounds, interval_layers, leads
from fairmend_check.certificate import Region
from fairmend_check.coverage import Effort, find_uncovered
from fairmend_check.errors import CheckError
from fairmend_check.inference_error import inference_error, output_errors
from fairmend_check.model import Model
from fairmend_check.neighbourhood import batches, count_points, neighbourhood
from fairmend_check.rounding import Array, down
from fairmend_check.scores import Score
from fairmend_check.spec import Spec
from fairmend_check.threshold import Threshold

MAX_WORK = 10**12  # multiplications for the points of all regions together: about ten minutes
_PER_UNIT = 200  # what an input or output of a layer costs beside them
MAX_PARTS = 10**7  # of all neighbourhoods together, for each link: a few minutes
_BATCH = 2**20  # numbers in a batch of points, at the widest layer or for all pairs of outputs


@dataclass(frozen=True, eq=False)
class ProvenMargins:
    """For each region the confirmed margin, and whether it exceeds the error of inference; (regions,)."""

    margin: Array
    covers: np.ndarray


@dataclass(frozen=True, eq=False)
class ProvenScores:
    """For each region bounds of its scores (regions, outputs), and of the error of each raw output."""

    low: Array
    high: Array
    error: Array


def check_coverage(model: Model, spec: Spec, regions: list[Region]) -> list[str]:
    """Return a reason for each input that is not possible, and for pieces that do not cover its neighbourhood."""
    reasons, total, parts, effort = [], 0, 0, Effort()
    # Each output, or lead over another, has an error of its own.
    most = MAX_WORK // (model.outputs * sum(weight.size + _PER_UNIT * sum(weight.shape) for weight in model.weights))
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
    threshold = Threshold.of(spec.threshold, model.dtype)
    margin = np.full(len(regions), np.inf)
    excess = np.full(len(regions), np.inf)  # of the margin over the error of inference
    if any(region.pieces for region in regions):
        owner, lower, upper, slopes = _stacked_pieces(model, regions)
        classes = np.array([regions[number].label for number in owner])
        bounds, layers = form_bounds(model, leads(model, classes), lower, upper, slopes)
        bound = threshold.margins(bounds.min(axis=1), classes)
        np.minimum.at(margin, owner, bound)
        error = inference_error(model, classes, lower, upper, layers, bound, threshold.closing(classes))
        np.minimum.at(excess, owner, _excess(bound, error))
    for number, region in enumerate(regions):
        for batch, layers in _over_points(model, spec, region):
            low, high = layers[-1]
            classes = np.full(len(batch), region.label)
            if model.outputs == 1:
                lead = low[:, 0] if region.label == 1 else -high[:, 0]
            else:
                others = leads(model, np.array([region.label]))[0].argmin(axis=1)
                lead = down(low[:, region.label] - high[:, others].max(axis=1))
            bound = threshold.margins(lead, classes)
            error = inference_error(model, classes, batch, batch, layers, bound, threshold.closing(classes))
            margin[number] = min(margin[number], float(bound.min()))
            excess[number] = min(excess[number], float(_excess(bound, error).min()))
    return ProvenMargins(margin, excess > 0)


def prove_scores(model: Model, spec: Spec, regions: list[Region], score: Score) -> ProvenScores:
    """Return bounds of the scores of all regions, which must be covered."""
    shape = len(regions), model.outputs
    low, high, error = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape)
    if any(region.pieces for region in regions):
        owner, lower, upper, slopes = _stacked_pieces(model, regions)
        forms = np.broadcast_to(score.forms, (len(lower), *score.forms.shape))
        bounds, layers = form_bounds(model, forms, lower, upper, slopes)
        least, most = score.from_forms(bounds)
        np.minimum.at(low, owner, least)
        np.maximum.at(high, owner, most)
        np.maximum.at(error, owner, _output_errors(model, lower, upper, layers, thorough=True))
    for number, region in enumerate(regions):
        for batch, layers in _over_points(model, spec, region):
            least, most = score.from_outputs(*layers[-1])
            low[number] = np.minimum(low[number], least.min(axis=0))
            high[number] = np.maximum(high[number], most.max(axis=0))
            error[number] = np.maximum(error[number], _output_errors(model, batch, batch, layers).max(axis=0))
    return ProvenScores(low, high, error)


def _output_errors(
    model: Model, lower: Array, upper: Array, layers: list[tuple[Array, Array]], *, thorough: bool = False
) -> Array:
    """Return bounds of the error of each output in inference (boxes, outputs)."""
    each = np.broadcast_to(np.eye(model.outputs), (len(lower), model.outputs, model.outputs))
    return output_errors(model, lower, upper, layers, each, thorough=thorough)


def _stacked_pieces(model: Model, regions: list[Region]) -> tuple[np.ndarray, Array, Array, Slopes]:
    """Return the pieces of all regions as arrays, each with the number of its region."""
    boxes = [(number, piece) for number, region in enumerate(regions) for piece in region.pieces or ()]
    owner = np.array([number for number, _ in boxes])
    lower = np.stack([piece.lower for _, piece in boxes])
    upper = np.stack([piece.upper for _, piece in boxes])
    slopes = [
        tuple(np.stack([piece.slopes[layer][side] for _, piece in boxes]) for side in (0, 1))
        for layer in range(len(model.activations))
    ]
    return owner, lower, upper, [(below, above) for below, above in slopes]


def _over_points(model: Model, spec: Spec, region: Region) -> Iterator[tuple[Array, list[tuple[Array, Array]]]]:
    """Return the points of a region and intervals of every layer there, unless it is proven by pieces."""
    if region.pieces is None:
        # Leads and differences of outputs are as many as their pairs.
        step = max(1, _BATCH // max(model.outputs**2, *(max(weight.shape) for weight in model.weights)))
        for batch in batches(neighbourhood(spec, region.x, model.dtype), step):
            with np.errstate(all="ignore"):
                layers = interval_layers(model, batch, batch)
            yield batch, layers


def _excess(bound: Array, error: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(bound > error, bound - error, -np.inf)

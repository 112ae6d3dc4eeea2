"""The regions of a certificate as arrays, and how to read them from a list of objects; `region_blocks` reads blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.bounds import Slopes
from fairmend_check.errors import CheckError
from fairmend_check.json_reader import numbers, only_keys, take
from fairmend_check.model import Model

Array = NDArray[np.float64]
Piece = tuple[Array, Array, Slopes | None]  # lower and upper end of a box, and slopes if there are some


@dataclass(frozen=True, eq=False)
class Pieces:
    """Boxes that a certificate lists: piece k, from lower[k] to upper[k] (pieces, width), is of region owner[k].

    ``slopes`` are None if the checker chooses them.
    """

    owner: NDArray[np.int64]
    lower: Array
    upper: Array
    slopes: Slopes | None


@dataclass(frozen=True, eq=False)
class Regions:
    """Claims about the neighbourhoods of inputs; ``first`` is the number of the first one in the certificate.

    x : the inputs (regions, width)
    points : whether a region is proven by its points, else by boxes (regions,)
    pieces : the boxes; None if the checker chooses them
    classes : the class of each region (regions,); empty for a claim about scores
    margins : what the certificate claims of the margins (regions,); None if it claims only that they are positive
    bounds : what it claims of the scores, low and high (regions, outputs); None if it claims nothing but the limit
    """

    first: int
    x: Array
    points: NDArray[np.bool_]
    pieces: Pieces | None
    classes: NDArray[np.int64]
    margins: Array | None
    bounds: tuple[Array, Array] | None

    def subset(self, rows: NDArray[np.int64]) -> Regions:
        """Return some regions of a block about scores, which has no pieces, classes or bounds."""
        return replace(self, x=self.x[rows], points=self.points[rows])


def read_listed(entries: Sequence[Any], model: Model, scores: bool = False, version: int = 5) -> Regions:
    """Return the regions of a claim about classes, or scores; refuse lists that do not fit the model."""
    keys = ("input", "proof", "pieces", *(("low", "high") if scores else ("class", "margin")))
    x, points, classes, margins = [], [], [], []
    bounds: tuple[list[Array], list[Array]] = [], []
    owners: list[int] = []
    pieces: list[Piece] = []
    for number, entry in enumerate(entries):
        where = f"regions[{number}]"
        points.append(_proof(entry, where) == "points")
        only_keys(entry, keys, where)
        x.append(numbers(entry.get("input"), model.inputs, f"{where}.input"))
        if scores:
            for ends, key in zip(bounds, ("low", "high"), strict=True):
                ends.append(numbers(entry.get(key), model.outputs, f"{where}.{key}"))
        else:
            classes.append(_class(entry, where, model))
            margins.append(_margin(entry, where))
        found = [] if points[-1] else _pieces(entry, where, model, version)
        pieces += found
        owners += [number] * len(found)
    return Regions(
        first=0,
        x=np.stack(x),
        points=np.array(points),
        pieces=_stacked(owners, pieces, model),
        classes=np.array(classes, dtype=np.int64),
        margins=None if scores else np.array(margins),
        bounds=(np.stack(bounds[0]), np.stack(bounds[1])) if scores else None,
    )


def _proof(entry: Any, where: str) -> str:
    proof = take(entry, "proof", str, where)
    if proof not in ("linear", "points"):
        raise CheckError(f"{where}.proof is {proof[:40]!r}; it must be linear or points")
    if proof == "points" and "pieces" in entry:
        raise CheckError(f"{where} is proven by points, so it has no pieces")
    return proof


def _class(entry: Any, where: str, model: Model) -> int:
    label = take(entry, "class", int, where)
    if not 0 <= label < max(2, model.outputs):
        raise CheckError(f"{where}.class is {label}; the model has no such class")
    return label


def _margin(entry: Any, where: str) -> float:
    margin = take(entry, "margin", float, where)
    if not margin > 0:
        raise CheckError(f"{where}.margin is {margin!r}; it must be positive")
    return margin


def _pieces(entry: Any, where: str, model: Model, version: int) -> list[Piece]:
    entries = take(entry, "pieces", list, where)
    if not entries:
        raise CheckError(f"{where} has no pieces")
    return [_piece(piece, f"{where}.pieces[{i}]", model, version) for i, piece in enumerate(entries)]


def _piece(entry: Any, where: str, model: Model, version: int) -> Piece:
    given = take(entry, "slopes", list, where)
    only_keys(entry, ("lower", "upper", "slopes"), where)
    lower = numbers(entry.get("lower"), model.inputs, f"{where}.lower")
    upper = numbers(entry.get("upper"), model.inputs, f"{where}.upper")
    if not (lower <= upper).all():
        raise CheckError(f"{where} is empty: lower is above upper in column {int(np.argmax(lower > upper))}")
    if not model.is_chain or (version >= 5 and model.activations and not given):
        if given:
            raise CheckError(f"{where}.slopes must be empty, because the model is no chain")
        return lower, upper, None
    if len(given) != len(model.activations):
        raise CheckError(
            f"{where}.slopes has {len(given)} layers, but the model has {len(model.activations)} activations"
        )
    slopes = []
    for layer, pair in enumerate(given):
        place, width = f"{where}.slopes[{layer}]", len(model.layers[layer].weight)
        if type(pair) is not dict:
            raise CheckError(f"{place} must be an object")
        only_keys(pair, ("lower", "upper"), place)
        below = numbers(pair.get("lower"), width, f"{place}.lower")
        slopes.append((below, numbers(pair.get("upper"), width, f"{place}.upper")))
    return lower, upper, slopes


def _stacked(owners: list[int], pieces: list[Piece], model: Model) -> Pieces:
    lower = np.stack([piece[0] for piece in pieces]) if pieces else np.empty((0, model.inputs))
    upper = np.stack([piece[1] for piece in pieces]) if pieces else np.empty((0, model.inputs))
    given = [piece[2] for piece in pieces if piece[2] is not None]
    if 0 < len(given) < len(pieces):
        raise CheckError("regions: some pieces have slopes, and others have none")
    slopes: Slopes = []
    for layer in range(len(given[0]) if given else 0):
        below, above = (np.stack([piece[layer][side] for piece in given]) for side in (0, 1))
        slopes.append((below, above))
    return Pieces(np.array(owners, dtype=np.int64), lower, upper, slopes if len(given) == len(pieces) else None)

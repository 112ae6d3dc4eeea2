"""The certificate of a quantification: the tree of boxes, and the shares that the checker counts from it."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Ints
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.network import Network
from fairmend.prove.certificate import Certificate, certificate_of_shares, with_claim
from fairmend.quantifying.decide import CELLS
from fairmend.quantifying.search import Leaves
from fairmend.spec import Spec
from fairmend_check.shares.listing import LISTED_INPUTS, count_inputs
from fairmend_check.shares.people import Boxes, People
from fairmend_check.shares.prove import LINEAR, LISTED, MAX_ENDS, MAX_LEAVES, NOTHING, WHOLE

if TYPE_CHECKING:
    from fairmend_check import CheckResult

_SPLITS = 4  # node _SPLITS + k is split along axis k
_ROOM = 0.001  # of the undecided share: another machine may round differently, and count a little less
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a certificate of a quantification is made from; each protected feature is divided into ``parts``."""

    network: Network
    spec: Spec
    people: People
    parts: list[int]
    leaves: Leaves

    def certificate(self) -> Certificate:
        """Return a certificate that the checker has not confirmed yet.

        Raise an error if nothing is proven, or if there are too many boxes.
        """
        leaves, cells = self.leaves, self.people.everyone.last[0] + 1
        if not np.any(leaves.fair) and not np.any(leaves.unfair):
            raise FairmendError("nothing is proven yet, so there is nothing to certify; allow more seconds")
        most = min(MAX_LEAVES, MAX_ENDS // max(1, len(cells)))
        if leaves.count > most:
            raise FairmendError(
                f"the {leaves.count:,} boxes are more than a certificate can hold ({most:,}); allow fewer seconds, or "
                "stop at a share"
            )
        tree = tree_of_boxes(leaves.boxes, cells, self._proofs(), self.people.middles)
        fair, unfair, _ = leaves.totals()
        shares = {
            "fair": fair,
            "unfair": unfair,
            "cells": CELLS,
            "pieces": self.parts,
            "leaves": leaves.count,
            "nodes": _packed(tree.nodes, "<u2"),
            "cuts": _packed(tree.cuts, "<u4"),
        }
        return certificate_of_shares(self.network, self.spec, shares)

    def _proofs(self) -> Ints:
        """Return how the checker proves each box: those of few people that are not to be split, by listing them."""
        leaves = self.leaves
        listed = (leaves.axis == -1) & (count_inputs(self.people, leaves.boxes) <= LISTED_INPUTS)
        whole, some = (leaves.fair == 1) | (leaves.unfair == 1), (leaves.fair > 0) | (leaves.unfair > 0)
        return np.select([listed & some, whole, some], [LISTED, WHOLE, LINEAR], NOTHING)


def confirmed_certificate(
    evidence: Evidence, fair: float, unfair: float, progress: Progress | None = None
) -> Certificate:
    """Return a certificate of these shares, or of as much of them as a check of it confirms."""
    certificate = evidence.certificate()
    checked = _check(evidence, certificate, progress)
    if checked.fair is None or checked.unfair is None:
        raise FairmendError(f"the checker confirms nothing, so there is no certificate: {checked.reasons[0]}")
    undecided = 1 - checked.fair - checked.unfair
    room = _ROOM * undecided if undecided > _ROUNDING else 0.0  # none if everyone is decided
    fair = min(fair, max(0.0, checked.fair - room))
    unfair = min(unfair, checked.unfair * (1 - _ROOM) if room else checked.unfair)
    if not fair and not unfair:
        raise FairmendError("the checker confirms no share, so there is no certificate; allow more seconds")
    return claim_shares(certificate, fair, unfair)


def _check(evidence: Evidence, certificate: Certificate, progress: Progress | None) -> CheckResult:
    from fairmend_check import check

    report = None if progress is None else (lambda done, total: progress("check certificate", done, total))
    with TemporaryDirectory() as folder:
        model, file = Path(folder, "model.onnx"), Path(folder, "certificate.json")
        evidence.network.save(model)
        certificate.save(file, model)
        return check(file, model, run=False, progress=report)


def claim_shares(certificate: Certificate, fair: float, unfair: float) -> Certificate:
    """Return a certificate with the same boxes that claims these shares."""
    shares = {**certificate.content["shares"], "fair": fair, "unfair": unfair}
    return replace(certificate, content=with_claim({**certificate.content, "shares": shares}))


def _packed(numbers: npt.NDArray[np.int64], kind: str) -> str:
    """Return numbers as text: base64 of a zlib stream."""
    return base64.b64encode(zlib.compress(numbers.astype(kind).tobytes(), 6)).decode("ascii")


Middles = Callable[[Ints, Ints], Ints]
"""Returns the last cells of the lower halves of boxes low to high, along each axis ``(boxes, axes)``."""


def _halves(low: Ints, high: Ints) -> Ints:
    return np.asarray((low + high) // 2)


class SplitTree(NamedTuple):
    """Nodes of a tree level by level: how a leaf is proven, or along which axis a node is split.

    Of each level, ``nodes`` has those of all lower halves of the level before, then those of the upper ones. ``cuts``
    has the last cell of the lower half for each split, in the same order.
    """

    nodes: Ints
    cuts: Ints


def tree_of_boxes(boxes: Boxes, cells: Ints, proof: Ints, middles: Middles = _halves) -> SplitTree:
    """Return the tree whose leaves are these boxes, for axes of so many cells.

    ``proof (n,)`` says how each box is proven. A node is split in the middle, where ``middles`` says, if no box is on
    both sides, and otherwise where none is.
    """
    rows, node = np.arange(len(boxes)), np.zeros(len(boxes), np.int64)  # boxes that are left, and the node of each
    low, high = np.zeros((1, len(cells)), np.int64), cells[None] - 1
    nodes, cuts = [], [np.zeros(0, np.int64)]
    while True:
        sizes = np.bincount(node, minlength=len(low))
        level = np.empty(len(low), np.int64)
        single = sizes[node] == 1
        _require_same(boxes, rows[single], low[node[single]], high[node[single]])
        level[node[single]] = proof[rows[single]]
        splits = np.flatnonzero(sizes > 1)
        if not len(splits):
            nodes.append(level)
            break
        rows, node = rows[~single], np.searchsorted(splits, node[~single])
        axis, cut = _find_cuts(boxes, rows, node, low[splits], high[splits], middles)
        level[splits] = _SPLITS + axis
        nodes.append(level)
        cuts.append(cut)
        upper = boxes.first[rows, axis[node]] > cut[node]
        node = node + upper * len(splits)
        each = np.arange(len(splits))
        low, high = np.concatenate([low[splits]] * 2), np.concatenate([high[splits]] * 2)
        high[each, axis] = cut
        low[len(splits) + each, axis] = cut + 1
    return SplitTree(np.concatenate(nodes), np.concatenate(cuts))


def _find_cuts(boxes: Boxes, rows: Ints, node: Ints, low: Ints, high: Ints, middles: Middles) -> tuple[Ints, Ints]:
    """Return an axis and a cut for each node low..high ``(nodes, axes)`` so that no box is on both sides of a cut."""
    middle = middles(low, high)
    astride = (boxes.first[rows] <= middle[node]) & (boxes.last[rows] > middle[node])
    clean = low < high
    of_box, of_axis = np.nonzero(astride)
    clean[node[of_box], of_axis] = False
    axis = clean.argmax(axis=1)
    cut = middle[np.arange(len(low)), axis]
    for each in np.flatnonzero(~clean.any(axis=1)):
        axis[each], cut[each] = _find_any_cut(boxes.take(rows[node == each]))
    return axis, cut


def _find_any_cut(boxes: Boxes) -> tuple[int, int]:
    for axis in range(boxes.first.shape[1]):
        order = np.argsort(boxes.first[:, axis], kind="stable")
        first, last = boxes.first[order, axis], np.maximum.accumulate(boxes.last[order, axis])
        clean = np.flatnonzero(last[:-1] < first[1:])
        if len(clean):
            return axis, int(last[clean[len(clean) // 2]])
    raise ValueError("the boxes overlap, or are not the leaves of a tree of splits")


def _require_same(boxes: Boxes, rows: Ints, low: Ints, high: Ints) -> None:
    if not (np.array_equal(boxes.first[rows], low) and np.array_equal(boxes.last[rows], high)):
        raise ValueError("the boxes do not contain everyone exactly once")

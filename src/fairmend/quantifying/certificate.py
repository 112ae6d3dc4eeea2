"""The certificate of a quantification: the tree of boxes, and the shares that the checker can count from it."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import listed
from fairmend.network import Network
from fairmend.prove.certificate import Certificate, certificate_of_shares
from fairmend.quantifying.leaves import Leaves
from fairmend.quantifying.listing import count_inputs
from fairmend.quantifying.space import CELLS, MOST_COMBINATIONS, Space, make_space
from fairmend.quantifying.split_tree import LINEAR, LISTED, NOTHING, WHOLE, tree_of_boxes
from fairmend.spec import Spec
from fairmend.spec.describe import describe_claim

MOST_LEAVES, MOST_NUMBERS = 2**22, 2**25  # that the checker reads: boxes, and numbers in their ends
_MOST_LISTED = 2**14  # inputs of a box that it lists


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a certificate of a quantification is made from."""

    network: Network
    space: Space
    leaves: Leaves

    def certificate(self) -> Certificate:
        """Return a certificate that the checker has not confirmed yet; `confirm` lowers its shares to what it does.

        Raise an error if nothing is proven, or if there are too many boxes.
        """
        leaves, cells = self.leaves, np.array([axis.cells for axis in self.space.axes], np.int64)
        if not np.any(leaves.fair) and not np.any(leaves.unfair):
            raise FairmendError("nothing is proven yet, so there is nothing to certify; allow more seconds")
        most = min(MOST_LEAVES, MOST_NUMBERS // max(1, len(cells)))
        if leaves.count > most:
            raise FairmendError(
                f"the {leaves.count:,} boxes are more than a certificate can hold ({most:,}); allow fewer seconds, or "
                "stop at a share"
            )
        tree = tree_of_boxes(leaves.boxes, cells, self._proofs())
        fair, unfair = leaves.totals()
        shares = {
            "fair": fair,
            "unfair": unfair,
            "cells": CELLS,
            "pieces": list(self.space.parts),
            "leaves": leaves.count,
            "nodes": _packed(tree.nodes, "<u2"),
            "cuts": _packed(tree.cuts, "<u4"),
        }
        return certificate_of_shares(self.network, self.space.spec, shares, describe_shares(self.space.spec, shares))

    def finer(self) -> Evidence | None:
        """Return the same boxes with more pieces of protected values; None if there are no more."""
        space = make_space(self.network, self.space.spec, MOST_COMBINATIONS)
        return None if space.parts == self.space.parts else replace(self, space=space)

    def _proofs(self) -> Ints:
        """Return how the checker proves each box: those of few people that are not to be split, by listing them."""
        leaves = self.leaves
        listed = (leaves.axis == -1) & (count_inputs(self.space, leaves.boxes) <= _MOST_LISTED)
        whole, some = (leaves.fair == 1) | (leaves.unfair == 1), (leaves.fair > 0) | (leaves.unfair > 0)
        return np.select([listed & some, whole, some], [LISTED, WHOLE, LINEAR], NOTHING)


def claim_shares(certificate: Certificate, fair: float, unfair: float) -> Certificate:
    """Return a certificate with the same boxes that claims these shares."""
    shares = {**certificate.content["shares"], "fair": fair, "unfair": unfair}
    spec = Spec.from_dict(certificate.content["spec"])
    content = {**certificate.content, "shares": shares, "claim": describe_shares(spec, shares)}
    return replace(certificate, content=content)


def describe_shares(spec: Spec, shares: dict[str, Any]) -> str:
    """Return the claim in English; the checker writes a sentence of its own."""
    own = {name for link in spec.links for name in link.when}
    protected = listed([feature.name for feature in spec.protected if feature.name not in own], most=None)
    aside = f", {protected} aside," if protected else ","
    parts = [
        f"{'everyone' if share == 1 else f'a share of at least {share!r}'} is treated {how}"
        for share, how in ((shares["fair"], "equally"), (shares["unfair"], "unequally"))
        if share
    ]
    claim = f" {describe_claim(spec.claim)}" if spec.claim.is_score else ""
    return f"Among all people that the spec allows{aside} {listed(parts, most=None)}.{claim}"


def _packed(numbers: npt.NDArray[np.int64], kind: str) -> str:
    """Return numbers as text: base64 of a zlib stream."""
    return base64.b64encode(zlib.compress(numbers.astype(kind).tobytes(), 6)).decode("ascii")

"""How a certificate proves shares of all people: the tree of boxes that they are divided into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import only_keys, packed_array, take
from fairmend_check.kernel.spec import Spec
from fairmend_check.shares.people import count_axes
from fairmend_check.shares.split_tree import MAX_LEAVES, MAX_NUMBERS

MAX_DIVIDED = 2**32  # cells of a continuous feature
_WHERE = "certificate.shares"


@dataclass(frozen=True, eq=False)
class SharesProof:
    """How the shares that a certificate claims are proven.

    A continuous feature has so many ``cells``, and each protected feature is divided into so many ``pieces``. ``nodes``
    and ``cuts`` are the tree, as `split_tree` reads it.
    """

    cells: int
    pieces: list[int]
    nodes: NDArray[np.uint16]
    cuts: NDArray[np.uint32]

    @property
    def leaves(self) -> int:
        """The number of leaves of the tree."""
        return len(self.cuts) + 1


def read_shares(data: dict[str, Any], spec: Spec) -> SharesProof:
    """Return the proof; refuse trees that are too large."""
    only_keys(data, ("fair", "unfair", "cells", "pieces", "leaves", "nodes", "cuts"), _WHERE)
    cells, pieces = take(data, "cells", int, _WHERE), take(data, "pieces", list, _WHERE)
    if not 1 <= cells <= MAX_DIVIDED or cells & (cells - 1):
        raise CheckError(f"{_WHERE}.cells is {cells}; it must be a power of 2 up to {MAX_DIVIDED:,}")
    if not all(type(count) is int and count >= 1 for count in pieces):
        raise CheckError(f"{_WHERE}.pieces must be a list of whole numbers from 1")
    leaves, axes = take(data, "leaves", int, _WHERE), count_axes(spec)
    if not 1 <= leaves <= min(MAX_LEAVES, MAX_NUMBERS // max(1, axes)):
        raise CheckError(
            f"{_WHERE}.leaves is {leaves}; it must be 1 to {min(MAX_LEAVES, MAX_NUMBERS // max(1, axes)):,}"
        )
    nodes = packed_array(data, "nodes", (2 * leaves - 1,), "<u2", _WHERE)
    return SharesProof(cells, pieces, nodes, packed_array(data, "cuts", (leaves - 1,), "<u4", _WHERE))

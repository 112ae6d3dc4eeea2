"""What a network does not see is left out of pairs: or a proof and the pairs shown after it would seem to disagree."""

from __future__ import annotations

import numpy as np

from fairmend.arrays import FloatArray
from fairmend.network import Network
from fairmend.spec import Spec


def with_unseen_from(net: Network, spec: Spec, X: FloatArray, other: FloatArray) -> FloatArray:
    """Return the neighbours ``other (k, width)`` with X's own values in every feature that has no weight at all.

    They stay neighbours, and the network gives them the same scores bit for bit.
    """
    seen = np.asarray(net.affines[0].weight.any(axis=0))
    unseen = np.zeros(spec.width, dtype=np.bool_)
    for feature in spec.features:
        columns = spec.columns(feature.name)
        unseen[columns] = not seen[columns].any()
    return np.where(unseen, X, other)

"""Tables that a network looks up: every value of the spec must be a row of them."""

from __future__ import annotations

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.network import Network
from fairmend.network.operations import Columns, Input, Lookup
from fairmend.quantifying.space import Axis, Space


def require_rows(network: Network, space: Space) -> None:
    """Raise an error if people of the space have values that the network cannot look up."""
    for node in network.nodes:
        if isinstance(node.operation, Lookup):
            _require_rows(node.operation, _column_read(network, node.sources[0]), space)


def _column_read(network: Network, source: int) -> int:
    """Return the input column that holds the row numbers of a look-up."""
    node = network.nodes[source]
    if isinstance(node.operation, Columns) and isinstance(network.nodes[node.sources[0]].operation, Input):
        return node.operation.indices[0]
    if isinstance(node.operation, Input):
        return 0
    raise FairmendError("quantify takes look-ups of input columns only; this network looks up a number it computes")


def _require_rows(lookup: Lookup, column: int, space: Space) -> None:
    axes: tuple[Axis, ...] = (*space.free, *space.protected)
    axis = next(axis for axis in axes if axis.columns.start <= column < axis.columns.stop)
    values, ends = (part[:, column - axis.columns.start] for part in (axis.low, axis.high))
    rows = len(lookup.table)
    if not (np.all(values == ends) and np.all(values == np.rint(values)) and 0 <= values.min() <= values.max() < rows):
        raise FairmendError(
            f'feature "{axis.feature.name}": the network looks up its value in a table of {rows} rows. '
            f"Its encoded values must be whole numbers from 0 to {rows - 1}; correct the spec."
        )

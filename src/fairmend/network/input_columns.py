"""Where input columns go in a network: which numbers pass them on, which weights read them first, and how to cut them.

A number *passes on* a column if it is that column itself, chosen or put side by side with others. It *follows* a column
if it depends on that column alone, through scalings, functions and look-ups as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.network.graph import describe, reached_columns
from fairmend.network.network import Network
from fairmend.network.operations import Affine, Lookup, Operation


def passed_columns(network: Network) -> list[Ints]:
    """Return for each node which input column each of its numbers passes on (width,); -1 where it is none."""
    return _columns_of_nodes(network, rearranged=True)


def followed_columns(network: Network) -> list[Ints]:
    """Return for each node which single input column each of its numbers follows (width,); -1 where it is none."""
    return _columns_of_nodes(network, rearranged=False)


def _affine_readers(network: Network) -> dict[int, Ints]:
    """Return the affine layers, by their place in `network.affines`, that read passed columns, and which ones."""
    passed, found = passed_columns(network), {}
    for place, i in enumerate(network.affine_nodes):
        columns = passed[network.nodes[i].sources[0]]
        if (columns >= 0).any():
            found[place] = columns
    return found


def training_units(network: Network, X: FloatArray) -> tuple[Floats, Floats]:
    """Return mean and deviation (inputs,) with which columns of X are standardised, as far as the network allows it.

    Columns stay as they are, with mean 0 and deviation 1, if they are constant 0 or if something else than affine
    layers reads them. A layer without a bias cannot take in a mean: columns that it reads get the mean 0, and their
    root mean square as deviation. If a norm makes its bias follow from its weights, they stay as they are, and so they
    do if the layer has the same weights for other columns.
    """
    mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    scaled = _plain_columns(network)
    for place, columns in _affine_readers(network).items():
        derived, read = network.affines[place].derived_bias, columns[columns >= 0]
        if derived is not None:
            deviation[read], mean[read] = np.hypot(deviation[read], mean[read]), 0.0
            scaled[read] &= not derived.shift.any()
        tie = network.affines[place].tie
        scaled[read] &= tie is None or not tie.shared
    return np.where(scaled, mean, 0.0), np.where(scaled & (deviation > 0), deviation, 1.0)


def _plain_columns(network: Network) -> npt.NDArray[np.bool_]:
    """Return which input columns (inputs,) only affine layers read, passed on as they are."""
    passed = passed_columns(network)
    plain = np.ones(network.inputs, dtype=np.bool_)
    for node in network.nodes:
        if isinstance(node.operation, Affine) or node.operation.rearranges:
            continue
        for source in node.sources:
            plain[passed[source][passed[source] >= 0]] = False
    return plain


def in_units(network: Network, affines: Sequence[Affine], mean: Floats, deviation: Floats) -> list[Affine]:
    """Return affine layers that compute from inputs (x − mean) / deviation what these do from x, in float64.

    Mean and deviation are those of `training_units`, or 0 and 1.
    """
    found = []
    for affine, offset, scale in _with_units(network, affines, mean, deviation):
        weight = affine.weight.astype(np.float64)
        found.append(Affine(weight * scale, affine.bias + weight @ offset) if scale is not None else affine)
    return found


def in_raw_units(network: Network, affines: Sequence[Affine], mean: Floats, deviation: Floats) -> list[Affine]:
    """Undo `in_units`."""
    found = []
    for affine, offset, scale in _with_units(network, affines, mean, deviation):
        weight = affine.weight if scale is None else affine.weight / scale
        found.append(affine if scale is None else Affine(weight, affine.bias - weight @ offset))
    return found


def _with_units(
    network: Network, affines: Sequence[Affine], mean: Floats, deviation: Floats
) -> Iterator[tuple[Affine, Floats, Floats | None]]:
    """Yield each layer with the mean and the deviation of each number that it reads; None if it reads no columns."""
    readers = _affine_readers(network)
    for place, affine in enumerate(affines):
        columns = readers.get(place)
        if columns is None:
            yield affine, np.zeros(0), None
        else:
            known = columns >= 0
            yield affine, np.where(known, mean[columns], 0.0), np.where(known, deviation[columns], 1.0)


def fix_columns(network: Network, columns: Sequence[int], reference: npt.ArrayLike) -> Network:
    """Return the network that computes as if these columns always held ``reference (len(columns),)``.

    Weights that read them become 0, and what they read is added to the bias. A table that they look up gets equal rows;
    between whole numbers, those are interpolated. A layer without a bias keeps the weights that read such a table, as
    what they read is constant; of other columns, it computes as if they held 0.
    """
    values = np.zeros(network.inputs)
    values[list(columns)] = np.asarray(reference, dtype=np.float64)
    followed, fixed = followed_columns(network), _values_of(network, values)
    reading = [
        (i, node, np.isin(followed[node.sources[0]], list(columns)))
        for i, node in enumerate(network.nodes)
        if node.sources
    ]
    tables: dict[int, Operation] = {
        i: Lookup(np.broadcast_to(fixed[i].astype(node.operation.table.dtype), node.operation.table.shape))
        for i, node, cut in reading
        if cut.any() and isinstance(node.operation, Lookup) and node.operation.stored
    }
    _require_own_tables(network, tables)
    with_tables = network.with_operations(tables)
    reached = reached_columns(with_tables.nodes)
    changed: dict[int, Operation] = {}
    for i, node, cut in reading:
        operation, source = node.operation, node.sources[0]
        if not isinstance(operation, Affine):
            continue
        if operation.derived_bias is not None or operation.tie is not None:
            cut = cut & reached[source][:, list(columns)].any(axis=1)
        if cut.any():
            if operation.tie is not None and not operation.tie.can_cut(cut):
                raise FairmendError(
                    f"{describe(network.nodes, i)} reads a column that must be ignored with the weights that it has "
                    "for other columns as well, so it cannot be cut off; give the column weights of its own before it"
                )
            weight = operation.weight.astype(np.float64)
            bias = operation.bias + weight[:, cut] @ fixed[source][cut]
            weight[:, cut] = 0
            changed[i] = Affine(weight.astype(network.dtype), bias.astype(network.dtype)).stored_as(operation)
    found = with_tables.with_operations(changed)
    _require_cut(found, columns)
    return found


def _columns_of_nodes(network: Network, *, rearranged: bool) -> list[Ints]:
    """Return which input column each number follows; ``rearranged``: only those passed on as they are."""
    found: list[Ints] = []
    for i, (node, width) in enumerate(zip(network.nodes, network.widths, strict=True)):
        follows = i == 0 or node.operation.rearranges or not rearranged
        sources = [found[source] for source in node.sources]
        found.append(node.operation.follow(sources, width) if follows else np.full(width, -1))
    return found


def _values_of(network: Network, row: Floats) -> list[Floats]:
    """Return the numbers of each node that follows single columns, for one row of inputs (inputs,); others are 0."""
    followed = followed_columns(network)
    found: list[Floats] = []
    for node, width, columns in zip(network.nodes, network.widths, followed, strict=True):
        operation, own = node.operation, np.zeros(width)
        if not node.sources:
            own = row
        elif isinstance(operation, Lookup):
            own = _interpolated(operation.table.astype(np.float64), float(found[node.sources[0]][0]))
        elif (columns >= 0).any():
            operation.compute([found[source][None] for source in node.sources], own[None])
        found.append(own)
    return found


def _interpolated(table: Floats, place: float) -> Floats:
    low = int(np.clip(np.floor(place), 0, len(table) - 1))
    high = min(low + 1, len(table) - 1)
    share = float(np.clip(place - low, 0, 1))
    return np.asarray((1 - share) * table[low] + share * table[high])


def _require_own_tables(network: Network, changed: dict[int, Operation]) -> None:
    """Refuse to change a table that other columns look up as well."""
    for i, operation in changed.items():
        if not isinstance(operation, Lookup):
            continue
        name = network.nodes[i].name
        for k, node in enumerate(network.nodes):
            if isinstance(node.operation, Lookup) and node.name == name and changed.get(k) != operation:
                raise FairmendError(
                    f"the table {name!r} is looked up by several columns, and only some of them may be ignored; "
                    "give each column a table of its own"
                )


def _require_cut(network: Network, columns: Sequence[int]) -> None:
    reached = reached_columns(network.nodes)
    if not reached[-1][:, list(columns)].any():
        return
    for i in network.affine_nodes:
        if reached[i][:, list(columns)].any():
            source = network.nodes[i].sources[0]
            raise FairmendError(
                "the network adds a column that must be ignored to other numbers before any weight reads it "
                f"({describe(network.nodes, source)}), so it cannot be cut off; take it out of the skip connection"
            )

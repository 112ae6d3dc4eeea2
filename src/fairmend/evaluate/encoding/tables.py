"""The inputs that a network looks up in tables, such as embeddings: which data columns they can read, and how.

Such an input reads the number of a row, so it can only be a code: of a category from 0 or, where the table has a row
for unknown values, from 1, or a column of whole numbers. An encoding that puts anything else there is not tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairmend.evaluate.encoding.candidates import Column, State
from fairmend.network import Lookup, Network
from fairmend.network.input_columns import passed_columns
from fairmend.spec.draft.draft import Draft
from fairmend.spec.draft.readings import Reading

Tables = Mapping[int, int]
"""The number of rows of the table that an input is looked up in, by input."""

_FROM_1 = "ordinal from 1"  # the style of codes for a table whose row 0 is for unknown values
_FAR = 1e9  # the cost of what cannot be


def tables_of(net: Network) -> dict[int, int]:
    """Return the inputs that the network looks up in tables; the fewest rows, if it looks one up in several."""
    passed, found = passed_columns(net), dict[int, int]()
    for node in net.nodes:
        if isinstance(node.operation, Lookup):
            column = int(passed[node.sources[0]][0])
            rows = len(node.operation.table)
            found[column] = min(rows, found.get(column, rows))
    return {column: rows for column, rows in found.items() if column >= 0}


def fits_tables(state: State, tables: Tables) -> bool:
    """Return whether the readings give the numbers of rows wherever the network looks them up."""
    start = 0
    for reading in state:
        for place in range(start, start + reading.feature.width):
            if place in tables and not reading.feature.numbers_rows(tables[place]):
                return False
        start += reading.feature.width
    return True


def place_in_tables(
    state: State, columns: Sequence[Column], tables: Tables, *, fixed_order: bool, order: str, missing: str
) -> State | None:
    """Return the state with codes at the inputs that are looked up, and the other readings at the others; None if none.

    ``order`` and ``missing`` are the style of the codes. With ``fixed_order``, each reading stays where it is.
    """
    by_name = {column.name: column for column in columns}
    if any(reading.feature.width != 1 for reading in state):
        return None  # an input that is looked up is one column, and one-hot columns beside it are not common
    codes = {place: _codes(reading, by_name, order, missing) for place, reading in enumerate(state)}
    places = sorted(tables)
    if places[-1] >= len(state):
        return None
    if fixed_order:
        chosen = {place: place for place in places}
    else:
        from scipy.optimize import linear_sum_assignment

        costs = np.array([[_cost(codes[k], tables[place], k, place) for k in range(len(state))] for place in places])
        rows, found = linear_sum_assignment(costs)
        if costs[rows, found].max() >= _FAR:
            return None
        chosen = {places[row]: int(k) for row, k in zip(rows, found, strict=True)}
    taken = set(chosen.values())
    others = iter([k for k in range(len(state)) if k not in taken])
    made: list[Reading] = []
    for place in range(len(state)):
        if place not in tables:
            made.append(state[place] if fixed_order else state[next(others)])
            continue
        reading = _of_rows(codes[chosen[place]], tables[place])
        if reading is None:
            return None
        made.append(reading)
    return tuple(made)


def _codes(reading: Reading, columns: Mapping[str, Column], order: str, missing: str) -> list[Reading]:
    """Return the readings of a column as codes: from 0, and from 1."""
    marked = reading.feature.indicates
    if marked is not None:
        marks = columns[marked].indicator(standard=False)
        from_1 = replace(marks.feature, scale={"mean": -1.0, "std": 1.0})
        return [marks, Reading(from_1, (_FROM_1, *marks.style))]
    column = columns[reading.feature.name]
    treated = missing if column.gap_share > 0 else ""
    kinds = ("ordinal", _FROM_1)
    found = [column.categories[kind, order, treated] for kind in kinds if (kind, order, treated) in column.categories]
    plain = column.numbers.get(("none", ""))
    return [*found, plain] if plain is not None and not column.text else found


def _cost(codes: Sequence[Reading], rows: int, number: int, place: int) -> float:
    """Return how unlikely a table of so many rows is for a column.

    Networks commonly have a spare row in every table, for unknown values: so one spare row in each of two tables is
    likelier than none in one and two in the other.
    """
    reading = _of_rows(codes, rows)
    if reading is None:
        return _FAR
    spare = rows - _count_codes(reading, rows)
    return float(min(spare, 50) ** 1.5 + 0.001 * abs(number - place))


def _of_rows(codes: Sequence[Reading], rows: int) -> Reading | None:
    """Return the reading whose codes are rows of a table: from 1 if there is one row more than categories."""
    fitting = [reading for reading in codes if reading.feature.numbers_rows(rows)]
    if not fitting:
        return None
    shifted = [r for r in fitting if r.style[0] == _FROM_1 and _count_codes(r, rows) + 1 == rows]
    return shifted[0] if shifted else fitting[0]


def _count_codes(reading: Reading, rows: int) -> int:
    """Return how many codes there are: of missing values two, of whole numbers as many as the table has rows."""
    feature = reading.feature
    return len(feature.categories) if feature.categories else rows if feature.indicates is None else 2


def mark_spare_rows(draft: Draft, tables: Tables) -> Draft:
    """Return a verified draft, in which codes from 0 say so by a scale if the table has more rows than categories."""
    start, features = 0, []
    for drafted in draft.features:
        feature = drafted.feature
        if start in tables and feature.scale is None and not feature.one_hot and feature.categories:
            spare = len(feature.categories) < tables[start]
            feature = replace(feature, scale={"mean": 0.0, "std": 1.0} if spare else None)
        features.append(replace(drafted, feature=feature))
        start += feature.width
    return replace(draft, features=tuple(features))

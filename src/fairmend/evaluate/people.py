"""The people in a data file, as the network reads them, with the rows that they come from.

Values out of range are refused, moved, left out or let in, as `fairmend.spec.out_of_range` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fairmend.arrays import FloatArray, Ints
from fairmend.errors import FairmendError
from fairmend.evaluate.row_numbers import RowNumbers
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange, apply_policy, find_wider_ranges, require_policy
from fairmend.spec.read_values import RowsError
from fairmend.tables import FIRST_ROW, TableStream

__all__ = ["People", "PeopleStream", "choose_policy", "naming_file", "needs_range", "take_people"]


@dataclass(frozen=True, eq=False)
class People:
    """Some or all people of a file.

    Attributes
    ----------
    spec : the spec, with wider ranges if they were widened
    frame, X : the people in the user's values, and as the network reads them (people, width)
    rows : the row number of each (people,), as a spreadsheet counts
    ids : the id of each, None without ids
    out_of_range : what was done about values out of range
    """

    spec: Spec
    frame: pd.DataFrame
    X: FloatArray
    rows: Ints
    ids: list[str | None]
    out_of_range: OutOfRange


def choose_policy(out_of_range: str, needs_range: bool) -> str:
    """Return the policy: what is asked for, but nobody is refused for a range that no claim needs."""
    require_policy(out_of_range)
    return "widen" if out_of_range == "refuse" and not needs_range else out_of_range


def needs_range(net: Network, spec: Spec) -> bool:
    """Return whether the network reads a feature in which similar people differ; otherwise no range matters."""
    used = np.asarray(net.affines[0].weight.any(axis=0))
    return any(bool(used[spec.columns(f.name)].any()) for f in spec.varying)


def take_people(
    frame: pd.DataFrame,
    path: Path | str,
    spec: Spec,
    net: Network,
    policy: str = "refuse",
    *,
    most: int | None = None,
    seed: int = 0,
) -> People:
    """Return the people in the table of a file, all or `most` of them drawn at random."""
    chosen = np.arange(len(frame), dtype=np.int64)
    if most is not None and most < len(frame):
        chosen = np.sort(np.random.default_rng(seed).permutation(len(frame))[:most]).astype(np.int64)
    numbers = RowNumbers(FIRST_ROW, spec.id_column)
    with naming_file(path):
        inside = spec.bring_into_range(frame.iloc[chosen], policy, first_row=chosen + FIRST_ROW)
        left = chosen[inside.kept]
        X = inside.spec.as_inputs(inside.frame, net.dtype, first_row=left + FIRST_ROW)
        numbers.add(frame)
    return People(inside.spec, inside.frame, X, numbers.numbers(left), numbers.ids(left), inside.done)


class PeopleStream:
    """The people of a file that is read piece by piece, each time it is iterated over.

    Attributes
    ----------
    spec : the spec, with wider ranges if they were widened, for which the file is read once more
    rows : the rows and ids of the people, as far as they were read
    out_of_range : what was done about values out of range, as far as they were read
    """

    def __init__(self, spec: Spec, net: Network, table: TableStream, policy: str = "refuse") -> None:
        """Widen the ranges of the spec, if this is the policy."""
        require_policy(policy)
        self._net, self._table = net, table
        self.spec, self.rows, self.out_of_range = spec, RowNumbers(FIRST_ROW, spec.id_column), OutOfRange(policy)
        if policy == "widen":
            self._widen()

    def _widen(self) -> None:
        start = FIRST_ROW
        for frame in self._table:
            with naming_file(self._table.path, self._table):
                self.out_of_range += find_wider_ranges(self.spec.features, frame, start)
            start += len(frame)
        self.spec = self.spec.widen(self.out_of_range.ranges)

    def __iter__(self) -> Iterator[tuple[pd.DataFrame, FloatArray]]:
        """Yield the people in the user's values and as the network reads them (people, width)."""
        self.rows = RowNumbers(FIRST_ROW, self.spec.id_column)
        start, people = FIRST_ROW, 0
        for frame in self._table:
            with naming_file(self._table.path, self._table):
                inside, kept, done = apply_policy(self.spec.features, frame, self.out_of_range.policy, start)
                self.rows.add(frame, kept)
                X = self.spec.as_inputs(inside, self._net.dtype, first_row=start) if len(inside) else None
            self.out_of_range += done
            start, people = start + len(frame), people + len(inside)
            if X is not None:
                yield inside, X
        if not people:
            raise FairmendError(f"{self._table.path}: every row has a value out of range. Correct `range` in the spec.")


@contextmanager
def naming_file(path: Path | str, parts: Iterable[pd.DataFrame] | None = None) -> Iterator[None]:
    """Put the name of the file before the message of an error; count the rows with a problem in all its parts."""
    try:
        yield
    except FairmendError as error:
        shown = error.counted(parts) if isinstance(error, RowsError) and parts is not None else error
        raise FairmendError(f"{path}: {shown}") from error

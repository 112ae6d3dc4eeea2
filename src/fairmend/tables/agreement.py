"""Check that the files of a table have the same columns, with the same types."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fairmend.base.errors import FairmendError
from fairmend.base.text import suggest
from fairmend.tables.csv_files import CsvContents
from fairmend.tables.files import TableFile
from fairmend.tables.parquet_files import ParquetContents


class Columns:
    """The columns of the files that were added so far.

    Attributes
    ----------
    names : in the order of the first file, then those that the names of folders give
    """

    def __init__(self) -> None:
        """Start without files."""
        self.names: tuple[str, ...] = ()
        self._first: TableFile | None = None
        self._kinds: dict[str, set[str]] = {}
        self._types: dict[str, tuple[str, str]] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of CSV files of which some pieces look like text and others do not: they are text."""
        return tuple(name for name, kinds in self._kinds.items() if len(kinds) > 1)

    def add(self, file: TableFile, contents: CsvContents | ParquetContents) -> None:
        """Add a file, or raise an error if its columns are others."""
        if isinstance(contents, CsvContents):
            self.add_csv(file, contents.kinds)
        else:
            self.add_parquet(file, contents.types)

    def add_csv(self, file: TableFile, kinds: Mapping[str, set[str]]) -> None:
        """Add a CSV file; its columns have no types of their own, so what all files hold decides."""
        if kinds:  # a file without rows has no columns either
            self._add_names(file, kinds)
        for name, found in kinds.items():
            self._kinds.setdefault(name, set()).update(found)

    def add_parquet(self, file: TableFile, types: Mapping[str, str]) -> None:
        """Add a Parquet file with the type of each column; a column without values ("nothing") agrees with any."""
        self._add_names(file, types)
        for name, kind in types.items():
            before, where = self._types.get(name, ("nothing", file.name))
            if "nothing" not in (before, kind) and before != kind:
                raise FairmendError(
                    f'{file.name}: column "{name}" has the type {kind}, but {before} in {where}; convert one of them'
                )
            self._types[name] = (before, where) if kind == "nothing" else (kind, file.name)

    def _add_names(self, file: TableFile, names: Collection[str]) -> None:
        given = [name for name, _ in file.partition]
        for name in given:
            if name in names:
                raise FairmendError(f'{file.name}: has a column "{name}", and so has its folder; rename one of them')
        if self._first is None:
            self._first, self.names = file, (*names, *given)
            return
        found = {*names, *given}
        for name in self.names:
            if name not in found:
                hint = suggest(name, found - set(self.names))
                raise FairmendError(
                    f'{file.name}: has no column "{name}", which {self._first.name} has{hint}; give all files the same '
                    "columns"
                )
        for name in names:
            if name not in self.names:
                raise FairmendError(
                    f'{file.name}: has a column "{name}", which {self._first.name} does not have; give all files the '
                    "same columns"
                )

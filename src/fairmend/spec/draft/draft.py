"""A draft: a spec with remarks on each part of it, and the commented TOML that it is written as."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tomlkit
from tomlkit.items import Table

from fairmend.errors import FairmendError
from fairmend.spec import Spec
from fairmend.spec.features import Feature, Label
from fairmend.spec.toml import plain_feature, with_inline_scale
from fairmend.text import suggest


@dataclass(frozen=True)
class Part:
    """One feature and what to know about it: `notes` go above it, `look` is what its reader has to decide."""

    feature: Feature
    notes: tuple[str, ...] = ()
    look: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    """The parts of a spec, with remarks; `left_out` are columns that are no feature of it, and why."""

    parts: tuple[Part, ...]
    label: Label | None
    label_notes: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    look: tuple[str, ...] = field(default=())

    @property
    def spec(self) -> Spec:
        """The spec itself."""
        return Spec([part.feature for part in self.parts], self.label)

    @property
    def to_look_at(self) -> list[str]:
        """Everything its reader has to decide, in words."""
        own = [f'feature "{part.feature.name}": {words}' for part in self.parts for words in part.look]
        return [*self.look, *own]

    def toml(self, title: str) -> str:
        """Return the spec as TOML with the remarks as comments; what is read back is the spec and nothing else."""
        document = tomlkit.document()
        for line in (title, "Which columns the model reads, in its order, and who counts as similar.", *self.look):
            document.add(tomlkit.comment(_line(line)))
        for name, why in self.left_out:
            document.add(tomlkit.comment(_line(f'left out: "{name}": {why}')))
        if self.label is not None:
            table = tomlkit.table()
            _comment(table, self.label_notes)
            table["column"], table["positive"] = self.label.column, self.label.positive
            document.add("label", table)
        features = tomlkit.aot()
        for part in self.parts:
            table = tomlkit.table()
            _comment(table, part.notes)
            _comment(table, [f"LOOK: {words}" for words in part.look])
            for key, value in with_inline_scale(plain_feature(part.feature)).items():
                table[key] = value
            features.append(table)
        document.add("feature", features)
        text = tomlkit.dumps(document).replace("\n[[feature]]", "\n\n[[feature]]").replace("\n\n\n", "\n\n")
        if Spec.from_dict(tomlkit.parse(text).unwrap()) != self.spec:
            raise FairmendError("the spec cannot be written as TOML; rename columns with unusual characters")
        return text.rstrip("\n") + "\n"


def known_columns(names: Iterable[str], columns: Sequence[Any], what: str) -> list[str]:
    """Return names that are all columns, or say which is not, and which was meant."""
    known = [str(column) for column in columns]
    found = []
    for name in names:
        if name not in known:
            hint = suggest(name, known) or f"; there are {', '.join(known[:20])}{', …' if len(known) > 20 else ''}"
            raise FairmendError(f'{what}: there is no column "{name}"{hint}')
        if name not in found:
            found.append(name)
    return found


def _comment(table: Table, lines: Iterable[str]) -> None:
    for line in lines:
        table.add(tomlkit.comment(_line(line)))


def _line(words: str) -> str:
    """Return words on one line: a comment ends where the line does, whatever a column's name may hold."""
    return "".join(char if char.isprintable() else " " for char in words)

"""A draft: a spec with notes on every feature, and the commented TOML file that it is written to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import suggest
from fairmend.spec import Spec
from fairmend.spec.claim import Claim
from fairmend.spec.features import Feature
from fairmend.spec.label import Label
from fairmend.spec.spec import GUESSED
from fairmend.spec.toml import parse_toml, toml_lines

_MOST_COLUMNS = 20  # named in an error message
_RANGES = (
    "Ranges are the lowest and highest values of the data. Values of another file widen them, with a note. Remove this "
    "line when they are all possible values: then others are refused."
)


@dataclass(frozen=True)
class DraftFeature:
    """One feature of a draft: `notes` say how it was derived, `review` says what the user has to decide.

    `commonest` is the most frequent category, which an imputer may fill in.
    """

    feature: Feature
    notes: tuple[str, ...] = ()
    review: tuple[str, ...] = ()
    commonest: str | None = None


@dataclass(frozen=True)
class Draft:
    """A spec with notes; `left_out` lists the columns that are not features, with the reason.

    `several` says that the model could as well read the data in another way, as far as its number of columns tells.
    """

    features: tuple[DraftFeature, ...]
    label: Label | None
    label_notes: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    review: tuple[str, ...] = ()
    claim: Claim = field(default_factory=Claim)
    several: bool = False

    @property
    def spec(self) -> Spec:
        """The spec itself."""
        features = [drafted.feature for drafted in self.features]
        guessed = any(feature.range is not None and feature.indicates is None for feature in features)
        return Spec(features, self.label, self.claim, guessed_ranges=guessed)

    @property
    def to_review(self) -> list[str]:
        """Everything that the user has to decide, one sentence each."""
        own = [f'feature "{drafted.feature.name}": {line}' for drafted in self.features for line in drafted.review]
        return [*self.review, *own]

    def toml(self, title: str) -> str:
        """Return the spec as TOML with the notes as comments."""
        head = [title, "Lists the columns that the model reads, in order, and says who is similar.", *self.review]
        head += [f'left out: "{name}": {reason}' for name, reason in self.left_out]
        tables = [_comments(head)]
        if self.spec.guessed_ranges:
            tables.append(["[table]", *_comments([_RANGES]), *toml_lines({"ranges": GUESSED})])
        if self.label is not None:
            tables.append(["[label]", *_comments(self.label_notes), *toml_lines(self._label_table())])
        if self.claim.stated:
            tables.append(["[claim]", *toml_lines(self.claim.to_dict())])
        for drafted in self.features:
            notes = [*drafted.notes, *(f"REVIEW: {line}" for line in drafted.review)]
            tables.append(["[[feature]]", *_comments(notes), *toml_lines(drafted.feature.to_dict())])
        text = "\n\n".join("\n".join(lines) for lines in tables) + "\n"
        if Spec.from_dict(parse_toml(text)) != self.spec:
            raise FairmendError("the spec cannot be written as TOML. Rename columns with unusual characters.")
        return text

    def _label_table(self) -> dict[str, Any]:
        """Return the table of the label, with a threshold where people would not guess it: of scores in points."""
        assert self.label is not None
        written = self.label.to_dict()
        return written | {"threshold": self.label.threshold} if "score_range" in written else written


def require_columns(names: Iterable[str], columns: Sequence[Any], what: str) -> list[str]:
    """Return the names without duplicates; raise an error for a name that is not a column."""
    known = dict.fromkeys(str(column) for column in columns)
    found = dict.fromkeys(names)
    for name in found:
        if name not in known:
            more = ", …" if len(known) > _MOST_COLUMNS else ""
            parted = [column for column in known if "," in column and name in map(str.strip, column.split(","))]
            hint = suggest(name, known) or f". The columns are {', '.join(list(known)[:_MOST_COLUMNS])}{more}"
            if parted:  # the command line separates names by commas
                hint = f". Put a name with a comma in double quotes: '\"{parted[0]}\"'"
            raise FairmendError(f'{what}: there is no column "{name}"{hint}')
    return list(found)


def count_rows(count: int) -> str:
    """Return "1 row" or "2 rows"."""
    return f"{count} row" if count == 1 else f"{count} rows"


def _comments(lines: Iterable[str]) -> list[str]:
    return [f"# {_line(line)}" for line in lines]


def _line(text: str) -> str:
    """Return text on one line: a column name may contain line breaks, which would end the comment."""
    return "".join(char if char.isprintable() else " " for char in text)

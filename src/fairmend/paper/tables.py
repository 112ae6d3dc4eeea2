"""The tables of the paper as data: each entry holds our number and the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairmend.paper.cells import Cell
from fairmend.paper.protocol import paper_numbers, setting_names

PAPER_NAME = {"original": "Original", "flip": "FLIP", "care": "CARE", "grft": "GRFT", "prof": "Ours"}
METHODS = ("original", "flip", "care", "grft", "prof", "blind", "auto")
TESTERS = ("adf", "eidig", "neuronfair", "grft")
TESTED = ("flip", "care", "grft", "prof")
NAIVE_AND_SYMBOLIC = ("prof", "prof-concrete")


@dataclass(frozen=True)
class Entry:
    """Our number, the paper's if it has one, and a shade: "good", "fair", "bad", "best" or none."""

    ours: float | None
    paper: float | None = None
    shade: str = ""
    digits: int = 2
    word: str = ""
    """Text in place of our number."""

    def __str__(self) -> str:
        """Show our number, with the paper's in parentheses."""
        ours = self.word or "–" if self.ours is None else f"{self.ours:.{self.digits}f}"
        return ours if self.paper is None else f"{ours} ({self.paper:.{self.digits}f})"


@dataclass(frozen=True)
class Table:
    """Entries by row; the first column of the header is the name of the row."""

    name: str
    title: str
    header: Sequence[str]
    rows: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    note: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return the table as plain data: each entry is a pair of our number, or word, and the paper's."""
        rows = {name: [[entry.word or entry.ours, entry.paper] for entry in row] for name, row in self.rows.items()}
        return {"table": self.name, "title": self.title, "columns": list(self.header), "rows": rows}


Cells = Callable[[str, str], Cell]
"""A function that returns the repair cell of a setting and a method."""


def table1(cells: Cells) -> list[Table]:
    """Return CUR, IDI-D and IDI-S with one protected attribute."""
    return [_metric_table("table1", "single", metric, METHODS, cells) for metric in ("CUR", "IDI-D", "IDI-S")]


def table3(cells: Cells) -> list[Table]:
    """Return CUR, IDI-D and IDI-S with two protected attributes, and with a tolerance."""
    return [
        _metric_table("table3", kind, metric, METHODS, cells)
        for kind in ("multi", "relaxed")
        for metric in ("CUR", "IDI-D", "IDI-S")
    ]


def _metric_table(name: str, kind: str, metric: str, methods: Sequence[str], cells: Cells) -> Table:
    chosen = setting_names(kind)
    rows: dict[str, list[Entry]] = {}
    best = {setting: min(cells(setting, method)[metric] for method in methods[1:]) for setting in chosen}
    before = [cells(setting, "original")[metric] for setting in chosen]
    theirs_before = [_paper(setting, "original", metric) for setting in chosen]
    for method in methods:
        ours = [cells(setting, method)[metric] for setting in chosen]
        theirs = [_paper(setting, method, metric) for setting in chosen]
        shades = ["best" if v == best[s] and method != "original" else "" for s, v in zip(chosen, ours, strict=True)]
        entries = [Entry(o, t, shade) for o, t, shade in zip(ours, theirs, shades, strict=True)]
        known = None if None in theirs else float(np.mean([t for t in theirs if t is not None]))
        drop = [None, None] if method == "original" else [_drop(before, ours), _drop(theirs_before, theirs)]
        rows[method] = [*entries, Entry(float(np.mean(ours)), known), Entry(*drop)]
    title = {"single": "one protected attribute", "multi": "two protected attributes", "relaxed": "with a tolerance"}[
        kind
    ]
    return Table(
        name, f"{metric} in percent, {title}", ("method", *chosen, "mean", "relative drop"), rows, _PARENTHESES
    )


def table2(cells: Cells) -> list[Table]:
    """Return accuracy, balanced accuracy, AUC, positive rate and certificates."""
    chosen, rows = setting_names(), {}
    for setting in chosen:
        original = cells(setting, "original")["accuracy"]
        entries = []
        for method in METHODS:
            ours = cells(setting, method)["accuracy"]
            loss = original - ours
            shade = "good" if loss <= 3 else "fair" if loss <= 5 else "bad"
            entries.append(Entry(ours, _paper_accuracy(setting, method), shade))
        rows[setting] = entries
    for title, kind in (("mean, one attribute", "single"), ("mean, two", "multi"), ("mean, a tolerance", "relaxed")):
        columns = zip(*(rows[setting] for setting in setting_names(kind)), strict=True)
        rows[title] = [_mean_entry(column) for column in columns]
    tables = [Table("table2", "accuracy in percent", ("setting", *METHODS), rows, _PARENTHESES)]
    for key, title, digits in (("balanced", "balanced accuracy in percent", 1), ("AUC", "AUC", 3), ("positive", "positive rate in percent", 1)):  # fmt: skip  # noqa: E501
        body = {s: [Entry(cells(s, method)[key], digits=digits) for method in METHODS] for s in chosen}
        tables.append(Table("table2", title, ("setting", *METHODS), body, "The paper does not report this."))
    proven = {s: [_certificate(cells(s, method)["certificate"]) for method in METHODS] for s in chosen}
    note = (
        "Verdict of the checker on the saved files: valid for everyone, or for this many of the 100 repair inputs. "
        "flip, care and grft do not aim at a proof; fairmend certifies what it can prove about their result."
    )
    tables.append(Table("table2", "valid certificate, and whom it covers", ("setting", *METHODS), proven, note))
    return tables


def table4(ratio: Callable[[str, str, str], float | None]) -> list[Table]:
    """Return the IDIs that testers find after a repair, relative to before; `ratio(setting, method, tester)`."""
    header = ("setting", *(f"{method}: {tester}" for method in TESTED for tester in TESTERS))
    rows: dict[str, list[Entry]] = {}
    for setting in setting_names("strict"):
        rows[setting] = []
        for method in TESTED:
            for tester in TESTERS:
                ours = ratio(setting, method, tester)
                theirs = paper_numbers()["testers"][setting][PAPER_NAME[method]][tester]
                shade = "" if ours is None else "good" if ours < 1 else "fair" if ours <= 1.3 else "bad"
                rows[setting].append(Entry(ours, theirs, shade))
    rows["mean"] = [_mean_entry(column) for column in list(zip(*rows.values(), strict=True))]
    return [Table("table4", "IDIs found after the repair / before", header, rows, _PARENTHESES)]


def timing(cells: Cells) -> list[Table]:
    """Return the seconds of each repair."""
    rows = {s: [Entry(cells(s, method)["seconds"]) for method in METHODS[1:]] for s in setting_names()}
    columns = list(zip(*rows.values(), strict=True))
    theirs: dict[str, float] = {"flip": 1.0, "grft": 1.0, "care": 244.0, "prof": 18.0}
    rows["mean"] = [
        Entry(_mean([e.ours for e in column]), theirs.get(method))
        for method, column in zip(METHODS[1:], columns, strict=True)
    ]
    return [Table("timing", "seconds of a repair", ("setting", *METHODS[1:]), rows, _PARENTHESES)]


def naive(cells: Cells) -> Table:
    """Compare the naive with the symbolic method (RQ4)."""
    keys = {"accuracy": 2, "objective": 5}
    rows = {
        setting: [
            Entry(cells(setting, m)[key], digits=digits) for key, digits in keys.items() for m in NAIVE_AND_SYMBOLIC
        ]
        for setting in setting_names()
    }
    header = ("setting", "accuracy, symbolic", "accuracy, naive", "optimum, symbolic", "optimum, naive")
    return Table("rq4", "symbolic against concrete bounds", header, rows)


def summary(cells: Cells) -> Table:
    """Count the settings in which our numbers agree with the paper's."""
    rows = {
        "original, CUR": _within(cells, "original", "CUR", 0.005),
        "original, IDI-D": _within(cells, "original", "IDI-D", 0.005),
        "original, accuracy": _within(cells, "original", "accuracy", 0.005),
        "prof, CUR": _within(cells, "prof", "CUR", 0.005),
        "prof, IDI-D": _within(cells, "prof", "IDI-D", 0.3),
        "prof, accuracy": _within(cells, "prof", "accuracy", 0.5),
    }
    header = ("what", "settings", "of", "within", "exceptions")
    return Table("summary", "agreement with the paper's numbers", header, rows, _NO_ACCURACY)


def _within(cells: Cells, method: str, metric: str, limit: float) -> list[Entry]:
    known = _paper_accuracy if metric == "accuracy" else lambda setting, name: _paper(setting, name, metric)
    theirs = {setting: number for setting in setting_names() if (number := known(setting, method)) is not None}
    off = [s for s, number in theirs.items() if abs(round(cells(s, method)[metric], 2) - number) > limit + 1e-9]
    counts = (len(theirs) - len(off), len(theirs))
    return [*(Entry(n, digits=0) for n in counts), Entry(limit, digits=3), Entry(None, word=", ".join(off))]


_NO_ACCURACY = "The paper reports accuracies only for the 9 settings with one protected attribute."
_PARENTHESES = "In parentheses: the paper's number."


def _paper(setting: str, method: str, metric: str) -> float | None:
    number = paper_numbers()["repair"][setting].get(PAPER_NAME.get(method, ""), {}).get(metric)
    return None if number is None else float(number)


def _paper_accuracy(setting: str, method: str) -> float | None:
    number = paper_numbers()["accuracy"].get(setting, {}).get(PAPER_NAME.get(method, ""))
    return None if number is None else float(number)


def _mean_entry(entries: Sequence[Entry]) -> Entry:
    return Entry(_mean([entry.ours for entry in entries]), _mean([entry.paper for entry in entries]))


def _drop(before: Sequence[float | None], after: Sequence[float | None]) -> float | None:
    """Return by how many percent the mean fell."""
    if None in after:
        return None
    return 100 * (1 - (_mean(after) or 0.0) / (_mean(before) or np.nan))


def _certificate(valid_for: str) -> Entry:
    proven = valid_for == "everyone" or (" of " in valid_for and len(set(valid_for.split(" of "))) == 1)
    shade = "bad" if valid_for == "INVALID" else "good" if proven else ""
    return Entry(None, word=valid_for, shade=shade)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None

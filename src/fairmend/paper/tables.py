"""The tables and figures of the paper: as data, on the screen, and as files.

Each entry of a table holds our number and the paper's; figures are SVG texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fairmend.base.files import write_atomically
from fairmend.paper.protocol import Cell, paper_numbers, setting_names

PAPER_NAME = {"original": "Original", "flip": "FLIP", "care": "CARE", "grft": "GRFT", "prof": "Ours"}
METHODS = ("original", "flip", "care", "grft", "prof", "blind", "auto")
TESTERS = ("adf", "eidig", "neuronfair", "grft")
TESTED = ("flip", "care", "grft", "prof")
NAIVE_AND_SYMBOLIC = ("prof", "prof-concrete")


WIDTH, HEIGHT, LEFT, BOTTOM = 420, 240, 56, 28
COLOURS = ("#0969da", "#bc4c00")

_STYLES = {"good": "green", "fair": "yellow", "bad": "red", "best": "bold"}
_CSS = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:90rem;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;margin:.6rem 0 2rem;font-size:13px;display:block;overflow-x:auto}
th,td{border:1px solid #d0d7de;padding:.25rem .5rem;text-align:right;white-space:nowrap}th:first-child{text-align:left}
.good{background:#dafbe1}.fair{background:#fff1d6}.bad{background:#ffdcd7}.best{font-weight:700}.note{color:#59636e}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#3d444d}
.good{background:#12361f}.fair{background:#3d2f0b}.bad{background:#4a1a17}.note{color:#9198a1}}
"""


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


def show_tables(screen: Console, tables: Sequence[Table]) -> None:
    """Print tables."""
    for table in tables:
        shown = RichTable(title=table.title, caption=table.note or None)
        for number, heading in enumerate(table.header):
            shown.add_column(heading, justify="left" if number == 0 else "right")
        for name, entries in table.rows.items():
            shown.add_row(name, *(Text(str(entry), style=_STYLES.get(entry.shade, "")) for entry in entries))
        screen.print(shown)


def write_tables(folder: Path, tables: Sequence[Table], figures: Sequence[tuple[str, str]] = ()) -> list[Path]:
    """Write tables.csv, tables.md, tables.html and one file per figure; `figures` are titles and SVG texts."""
    written = {"tables.csv": _csv(tables), "tables.md": _markdown(tables), "tables.html": _html(tables, figures)}
    written |= {f"{title.replace(' ', '-').replace(',', '')}.svg": svg + "\n" for title, svg in figures}
    for name, text in written.items():
        write_atomically(folder / name, text.encode("utf-8"))
    return [folder / name for name in written]


def _csv(tables: Sequence[Table]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["table", "title", "row", "column", "ours", "paper"])
    for table in tables:
        for row, entries in table.rows.items():
            for column, entry in zip(table.header[1:], entries, strict=True):
                writer.writerow([table.name, table.title, row, column, entry.word or entry.ours, entry.paper])
    return out.getvalue()


def _markdown(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        lines = [f"### {table.title}", "", f"| {' | '.join(table.header)} |", f"|{'---|' * len(table.header)}"]
        for name, entries in table.rows.items():
            cells = (f"**{entry}**" if entry.shade == "best" else str(entry) for entry in entries)
            lines.append(f"| {name} | {' | '.join(cells)} |")
        parts.append("\n".join([*lines, "", table.note]).rstrip() + "\n")
    return "\n".join(parts)


def _html(tables: Sequence[Table], figures: Sequence[tuple[str, str]]) -> str:
    parts = [
        f"<!doctype html><meta charset=utf-8><title>fairmend bench</title><style>{_CSS}</style><h1>fairmend bench</h1>"
    ]
    for table in tables:
        head = "".join(f"<th>{escape(heading)}</th>" for heading in table.header)
        body = "".join(
            f"<tr><th>{escape(name)}</th>"
            + "".join(f'<td class="{entry.shade}">{escape(str(entry))}</td>' for entry in entries)
            + "</tr>"
            for name, entries in table.rows.items()
        )
        parts.append(f"<h2>{escape(table.title)}</h2><table><tr>{head}</tr>{body}</table>")
        parts.append(f'<p class="note">{escape(table.note)}</p>')
    parts += [f"<h2>{escape(title)}</h2>{svg}" for title, svg in figures]
    return "\n".join(parts) + "\n"


def loss_figure(title: str, curves: Mapping[str, NDArray[np.float64]]) -> str:
    """Return the mean of each loss over runs as a line, with a band of one standard deviation; curves (runs, steps)."""
    top = max(float((c.mean(0) + c.std(0)).max()) for c in curves.values()) * 1.05 or 1.0
    steps = max(c.shape[1] for c in curves.values())

    def place(values: NDArray[np.float64]) -> list[str]:
        x = LEFT + np.arange(len(values)) / max(1, steps - 1) * (WIDTH - LEFT - 8)
        y = (HEIGHT - BOTTOM) - values / top * (HEIGHT - BOTTOM - 24)
        return [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)]

    parts = [f'<text x="{LEFT}" y="14" font-size="13">{title}</text>', *_axes(top, steps)]
    for colour, (name, runs) in zip(COLOURS, curves.items(), strict=False):
        mean, deviation = runs.mean(0), runs.std(0)
        band = " ".join([*place(mean + deviation), *reversed(place(np.maximum(mean - deviation, 0)))])
        parts.append(f'<polygon points="{band}" fill="{colour}" opacity=".2"/>')
        parts.append(f'<polyline points="{" ".join(place(mean))}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        row = 30 + 14 * list(curves).index(name)
        parts.append(f'<text x="{WIDTH - 90}" y="{row}" font-size="11" fill="{colour}">{name}</text>')
    return _svg(WIDTH, HEIGHT, parts)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui,sans-serif" fill="currentColor">{"".join(parts)}</svg>'
    )


def _axes(top: float, steps: int) -> list[str]:
    floor = HEIGHT - BOTTOM
    line = f'<path d="M{LEFT} 24V{floor}H{WIDTH - 8}" fill="none" stroke="currentColor" opacity=".5"/>'
    labels = [
        f'<text x="{LEFT - 4}" y="{28}" font-size="10" text-anchor="end">{top:.2f}</text>',
        f'<text x="{LEFT - 4}" y="{floor}" font-size="10" text-anchor="end">0</text>',
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 12}" font-size="10" text-anchor="end">step {steps}</text>',
    ]
    return [line, *labels]


def comparison_figure(
    title: str, labels: Sequence[str], series: Mapping[str, Sequence[float | None]], *, logarithmic: bool = False
) -> str:
    """Return the values of each label as dots on a vertical line, without missing values and zeros on a log scale."""
    width, floor = LEFT + 30 * len(labels) + 8, HEIGHT - BOTTOM
    height = HEIGHT + 80  # room for the rotated labels
    known = [v for values in series.values() for v in values if v is not None and (v > 0 or not logarithmic)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if logarithmic:
        low, high = np.log10(low), np.log10(high)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low) or 1.0

    def place(value: float) -> float:
        at = np.log10(value) if logarithmic else value
        return float(floor - (at - low) / ((high - low) or 1.0) * (floor - 32))

    ends = (10**low, 10**high) if logarithmic else (low, high)
    scale = " (log scale; zeros are left out)" if logarithmic else ""
    parts = [f'<text x="{LEFT}" y="14" font-size="13">{escape(title)}{scale}</text>']
    parts.append(f'<path d="M{LEFT} 24V{floor}H{width - 8}" fill="none" stroke="currentColor" opacity=".5"/>')
    for end, y in zip(ends, (floor, 32), strict=True):
        parts.append(f'<text x="{LEFT - 4}" y="{y}" font-size="10" text-anchor="end">{end:.3g}</text>')
    for number, label in enumerate(labels):
        x = LEFT + 15 + 30 * number
        turned = f'transform="rotate(-60 {x} {floor + 14})" text-anchor="end"'
        parts.append(f'<text x="{x}" y="{floor + 14}" font-size="10" {turned}>{escape(label)}</text>')
        values = [values[number] for values in series.values()]
        heights = [None if v is None or (logarithmic and v <= 0) else place(v) for v in values]
        drawn = [h for h in heights if h is not None]
        if len(drawn) > 1:
            parts.append(f'<path d="M{x} {min(drawn):.1f}V{max(drawn):.1f}" stroke="currentColor" opacity=".35"/>')
        for place_in_turn, (colour, h) in enumerate(zip(COLOURS, heights, strict=False)):
            if h is not None:  # a dot with a ring around it, so that equal values stay visible
                inside = (
                    f'fill="{colour}"' if not place_in_turn else f'fill="none" stroke="{colour}" stroke-width="1.5"'
                )
                parts.append(f'<circle cx="{x}" cy="{h:.1f}" r="{3 + 3 * place_in_turn}" {inside}/>')
    for number, (colour, name) in enumerate(zip(COLOURS, series, strict=False)):
        x = width - 90 * (len(series) - number)
        parts.append(
            f'<text x="{x}" y="14" font-size="11" fill="{colour}">{"○" if number else "●"} {escape(name)}</text>'
        )
    return _svg(width, height, parts)

"""`fairmend spec check`: a spec in words, the size of its neighbourhoods, and whether data and model fit it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairmend._version import __version__
from fairmend.cli.console import console, show_json, show_warnings
from fairmend.errors import FairmendError
from fairmend.evaluate.split import read_classes
from fairmend.evaluate.utility import utility
from fairmend.network import Network, load_network
from fairmend.spec import Spec
from fairmend.spec.describe import neighbourhood_words, reading_words, role_words, similar_words, values_words
from fairmend.spec.encoding import Problem, problems_of
from fairmend.spec.features import Feature
from fairmend.spec.sanity import spec_doubts
from fairmend.tables import read_table
from fairmend.text import percent

FITS, DOES_NOT_FIT = 0, 2
_ROWS_NAMED = 5


@dataclass(frozen=True)
class Sizes:
    """How many people are in a neighbourhood: least, median and most over the rows of the data."""

    least: int
    median: float
    most: int


def run_check_spec(
    spec_file: Path, *, data: Path | None, model: Path | None, activation: str = "relu", json_output: bool = False
) -> int:
    """Explain a spec and hold data and model against it; returns 2 where one of them does not fit."""
    spec = Spec.load(spec_file)
    frame = None if data is None else read_table(data)
    net = None if model is None else load_network(model, activation)
    inputs = None if net is None else net.inputs
    problems = [] if frame is None else _problems(spec, frame)
    sizes = None if frame is None else _sizes(spec, frame, problems)
    width = None if inputs in (None, spec.width) else _misfit(spec, inputs or 0, model)
    if json_output:
        show_json(_document(spec, spec_file, frame, data, problems, sizes, inputs))
    else:
        screen = console()
        _show_spec(screen, spec, spec_file.name, sizes)
        if frame is not None and data is not None:
            _show_problems(screen, data, len(frame), problems)
        if model is not None:
            words = width or f"{model.name} reads {inputs} columns, as the spec says."
            screen.print(Text(words, style="bold red" if width else "green"), soft_wrap=True)
        if net is not None and frame is not None and not width and not problems:
            _show_fit(screen, spec, net, frame)
    return DOES_NOT_FIT if problems or width else FITS


def _show_fit(screen: Console, spec: Spec, net: Network, frame: pd.DataFrame) -> None:
    """Say how well the network does on the data: a spec that is wrong shows here first."""
    X = spec.as_inputs(frame, net.dtype)
    known = utility(net, X, read_classes(spec, net, frame, "the data")) if spec.label is not None else None
    if known is not None:
        ranks = "" if known.auc is None else f", AUC {known.auc:.3f}"
        screen.print(
            Text(
                f"With it the network is right for {percent(known.accuracy)} of them "
                f"(balanced {percent(known.balanced_accuracy)}{ranks}): is that what you know of it?"
            )
        )
    show_warnings(screen, spec_doubts(net.predict(X), None if known is None else known.auc))


def _problems(spec: Spec, frame: pd.DataFrame) -> list[Problem]:
    found = [problem for feature in spec.features for problem in problems_of(feature, frame)]
    label = spec.label
    if label is not None:
        try:
            present = spec.labels(frame[frame[label.column].notna()] if label.column in frame.columns else frame)
        except FairmendError as error:
            return [*found, Problem(label.column, np.zeros(0, np.int64), str(error))]
        gaps = np.flatnonzero(frame[label.column].isna().to_numpy(bool))
        if gaps.size:
            found.append(Problem(label.column, gaps, "the label is missing; fill it in or drop the row"))
        if not present.any():
            words = f'the label is never "{label.positive}"; check `positive`'
            found.append(Problem(label.column, np.zeros(0, np.int64), words))
    return found


def _sizes(spec: Spec, frame: pd.DataFrame, problems: list[Problem]) -> Sizes | None:
    """Return sizes over the rows that fit; None where neighbourhoods are no finite sets, or no row fits."""
    names = {feature.name for feature in spec.features}
    if not spec.finite or any(problem.feature in names and problem.rows.size == 0 for problem in problems):
        return None
    bad = np.zeros(len(frame), dtype=bool)
    for problem in problems:
        bad[problem.rows] |= problem.feature in names
    if bad.all():
        return None
    sizes = sorted(int(size) for size in spec.neighbourhood_sizes(frame[~bad]))
    middle = len(sizes) // 2
    median = sizes[middle] if len(sizes) % 2 else (sizes[middle - 1] + sizes[middle]) / 2
    return Sizes(sizes[0], median, sizes[-1])


def _misfit(spec: Spec, inputs: int, model: Path | None) -> str:
    name = "the model" if model is None else model.name
    options = [
        f'"{feature.name}" in {other} column{"" if other == 1 else "s"} instead of {feature.width}'
        for feature in spec.features
        for other in _other_widths(feature)
        if spec.width - feature.width + other == inputs
    ]
    hint = f" It would fit with {' or '.join(options)}." if options else ""
    return (
        f"{name} reads {inputs} columns, and the spec describes {spec.width} ({', '.join(spec.column_names)}). List "
        f"exactly the columns that the model reads, each encoded as it was trained.{hint}"
    )


def _other_widths(feature: Feature) -> list[int]:
    count = len(feature.categories or ())
    return [other for other in {0, 1, count - 1, count} if other not in (feature.width, -1)] if count else [0]


def _document(
    spec: Spec,
    spec_file: Path,
    frame: pd.DataFrame | None,
    data: Path | None,
    problems: list[Problem],
    sizes: Sizes | None,
    inputs: int | None,
) -> dict[str, Any]:
    features = [
        {
            "name": feature.name,
            "columns": [spec.columns(feature.name).start, spec.columns(feature.name).stop],
            "values": values_words(feature),
            "reads": reading_words(feature),
            "similar_people": role_words(feature),
        }
        for feature in spec.features
    ]
    document: dict[str, Any] = {
        "fairmend": __version__,
        "spec": spec_file.name,
        "columns": spec.width,
        "features": features,
        "similar": similar_words(spec),
        "neighbourhood": {"finite": spec.finite, "words": neighbourhood_words(spec)},
    }
    if sizes is not None:
        document["neighbourhood"] |= {"least": sizes.least, "median": sizes.median, "most": sizes.most}
    if frame is not None and data is not None:
        listed = [
            {"column": p.feature, "rows": p.rows.size, "first_rows": p.rows[:_ROWS_NAMED], "problem": p.words}
            for p in problems
        ]
        document["data"] = {"file": data.name, "rows": len(frame), "fits": not problems, "problems": listed}
    if inputs is not None:
        document["model"] = {"inputs": inputs, "fits": inputs == spec.width}
    return document


def _show_spec(screen: Console, spec: Spec, name: str, sizes: Sizes | None) -> None:
    title = f"{name}: the model reads {spec.width} columns, from {len(spec.features)} features"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    for heading in ("column", "feature", "values", "the model reads", "similar people"):
        table.add_column(heading)
    for feature in spec.features:
        where = spec.columns(feature.name)
        columns = f"{where.start}" if feature.width == 1 else f"{where.start}-{where.stop - 1}"
        cells = (columns, feature.name, values_words(feature), reading_words(feature), role_words(feature))
        table.add_row(*map(Text, cells), style="bold" if feature.protected else "")
    screen.print(table)
    screen.print(Text(f"\n{similar_words(spec)}"))
    screen.print(Text(neighbourhood_words(spec)))
    if sizes is not None and sizes.least < sizes.most:
        median = f"{sizes.median:,g} in the median"
        screen.print(Text(f"In the data: {sizes.least:,} people at least, {median}, {sizes.most:,} at most."))
    if spec.label is not None:
        screen.print(Text(f'The positive answer is "{spec.label.positive}" in column "{spec.label.column}".'))
    else:
        screen.print(Text("There is no label: audit and certify work without one, repair does not."))


def _show_problems(screen: Console, data: Path, rows: int, problems: list[Problem]) -> None:
    if not problems:
        screen.print(Text(f"All {rows:,} rows of {data.name} fit the spec.", style="green"))
        return
    screen.print(Text(f"{data.name} does not fit the spec:", style="bold red"))
    for problem in problems:
        named = ", ".join(str(row) for row in problem.rows[:_ROWS_NAMED])
        more = ", …" if problem.rows.size > _ROWS_NAMED else ""
        count = f"{problem.rows.size:,} row{'s' if problem.rows.size > 1 else ''} ({named}{more}), "
        words = problem.words if not problem.rows.size else f"{count}the first: {problem.words}"
        screen.print(Text(f'  - "{problem.feature}": {words}'), soft_wrap=True)

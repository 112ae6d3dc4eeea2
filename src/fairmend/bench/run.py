"""Run the evaluation: which cells a table needs, computed or read, and what is written of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np

from fairmend.bench import tables
from fairmend.bench.cells import Cell, Store, loss_cell, naive_cell, repair_cell, tester_cell
from fairmend.bench.figures import loss_figure
from fairmend.bench.protocol import Setting, Sources, load_setting, names
from fairmend.bench.tables import Table

WHAT = ("table1", "table2", "table3", "table4", "rq4", "timing")


@dataclass(frozen=True)
class Effort:
    """How much work a run does."""

    samples: int = 100_000
    seeds: int = 1000
    local_steps: int = 1000
    loss_runs: int = 10


QUICK = Effort(samples=10_000, seeds=200, local_steps=100, loss_runs=1)
Progress = Callable[[str, int, int], None]
_REPAIR_TABLES = {
    "table1": tables.table1,
    "table2": tables.table2,
    "table3": tables.table3,
    "timing": tables.timing,
}


@dataclass(frozen=True)
class Results:
    """What came of a run."""

    tables: list[Table]
    figures: list[tuple[str, str]]


def run(
    what: str, out: Path, sources: Sources, effort: Effort, *, resume: bool = False, progress: Progress | None = None
) -> Results:
    """Compute one of `WHAT`, or "all"; finished cells below ``out`` are not computed again."""
    store = Store(out, resume=resume)
    wanted = WHAT if what == "all" else (what,)

    @cache
    def setting(name: str) -> Setting:
        return load_setting(name, sources)

    def cell(name: str, method: str) -> Cell:
        return store.get(f"repair/{name}/{method}", lambda: repair_cell(setting(name), method, effort.samples))

    def found_by(name: str, method: str, tester: str) -> int:
        compute = partial(tester_cell, seeds=effort.seeds, local_steps=effort.local_steps)
        counted = store.get(f"testers/{name}/{method}/{tester}", lambda: compute(setting(name), method, tester))
        return int(counted["count"])

    def ratio(name: str, method: str, tester: str) -> float | None:
        before = found_by(name, "original", tester)
        return found_by(name, method, tester) / before if before else None

    _compute_ahead(wanted, cell, ratio, progress)
    found: list[Table] = []
    figures: list[tuple[str, str]] = []
    for name in wanted:
        if name == "table4":
            found += tables.table4(ratio)
        elif name == "rq4":
            found += tables.naive(lambda s: store.get(f"naive/{s}", lambda: naive_cell(setting(s))))
            figures = [_losses(store, s, sources, effort) for s in names("single")]
        else:
            found += _REPAIR_TABLES[name](cell)
    return Results(found, figures)


def _compute_ahead(
    wanted: tuple[str, ...],
    cell: Callable[[str, str], Cell],
    ratio: Callable[[str, str, str], float | None],
    progress: Progress | None,
) -> None:
    """Fill the store in an order that a progress bar can follow."""
    kinds = {"table1": ("single",), "table2": ("all",), "table3": ("multi", "relaxed"), "timing": ("all",)}
    settings = sorted({s for table in wanted for kind in kinds.get(table, ()) for s in names(kind)})
    work: list[Callable[[], object]] = [partial(cell, s, m) for s in settings for m in tables.METHODS]
    if "table4" in wanted:
        every = product(names("strict"), tables.TESTED, tables.TESTERS)
        work += [partial(ratio, *which) for which in every]
    for number, job in enumerate(work):
        job()
        if progress is not None:
            progress("bench", number + 1, len(work))


def _losses(store: Store, name: str, sources: Sources, effort: Effort) -> tuple[str, str]:
    """The figure of one setting: runs differ in the sets that are drawn."""
    cells = []
    for seed in range(effort.loss_runs):
        drawn = replace(sources, splits=None, seed=seed)
        cells.append(store.get(f"losses/{name}/{seed}", lambda: loss_cell(load_setting(name, drawn))))  # noqa: B023
    curves = {key: np.array([cell[key] for cell in cells]) for key in ("fair", "task")}
    title = f"losses of step 1, {name}"
    return title, loss_figure(title, {"L_fair": curves["fair"], "L_bce": curves["task"]})

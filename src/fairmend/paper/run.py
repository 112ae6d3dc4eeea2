"""Run the evaluation: compute the cells that the tables need, and build the tables from them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically
from fairmend.base.progress import Progress
from fairmend.paper import tables
from fairmend.paper.protocol import (
    Cell,
    Effort,
    Job,
    LossJob,
    RepairJob,
    Sources,
    Store,
    loss_key,
    repair_key,
    run_jobs,
    setting_names,
    tester_key,
)
from fairmend.paper.tables import Table, comparison_figure, loss_figure

WHAT = ("table1", "table2", "table3", "table4", "rq4", "timing")
_SETTINGS = {"table1": ("single",), "table2": ("all",), "table3": ("multi", "relaxed"), "timing": ("all",)}
_REPAIR_TABLES = {
    "table1": tables.table1,
    "table2": tables.table2,
    "table3": tables.table3,
    "timing": tables.timing,
}


@dataclass(frozen=True)
class Results:
    """The tables of a run, and its figures as titles and SVG texts."""

    tables: list[Table]
    figures: list[tuple[str, str]]


def run(
    what: str,
    out: Path,
    sources: Sources,
    effort: Effort,
    *,
    workers: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
) -> Results:
    """Compute one of `WHAT`, or "all"; cells that are finished in `out` are not computed again."""
    wanted = WHAT if what == "all" else (what,)
    store = _open(out, sources, effort, resume=resume)
    jobs = _jobs_of(wanted, effort)
    for done, _ in enumerate(run_jobs(jobs, store, sources, effort, workers), start=1):
        if progress is not None:
            progress("bench", done, len(jobs))
    return _build_results(wanted, store, effort)


def _jobs_of(wanted: tuple[str, ...], effort: Effort) -> list[Job]:
    """Return the jobs that these tables need, longest first, so that no core waits long for the last one."""
    kinds = {kind for table in wanted for kind in _SETTINGS.get(table, ())}
    measured = {(setting, method) for kind in kinds for setting in setting_names(kind) for method in tables.METHODS}
    if "rq4" in wanted:
        measured |= {(setting, method) for setting in setting_names() for method in tables.NAIVE_AND_SYMBOLIC}
    tested = set()
    if "table4" in wanted:
        tested = {(setting, method) for setting in setting_names("strict") for method in ("original", *tables.TESTED)}
    in_order = sorted(measured | tested, key=lambda job: (job[1] != "auto", -setting_names().index(job[0]), job[1]))
    jobs: list[Job] = [
        RepairJob(*job, measured=job in measured, testers=tables.TESTERS if job in tested else ()) for job in in_order
    ]
    if "rq4" in wanted:
        jobs += [LossJob(setting, seed) for setting in setting_names("single") for seed in range(effort.loss_runs)]
    return jobs


def _open(out: Path, sources: Sources, effort: Effort, *, resume: bool) -> Store:
    """Open the cells in a folder; refuse to mix them with cells of a different run."""
    store, note = Store(out / "cells"), out / "run.json"
    this_run = {"sources": {key: _as_text(value) for key, value in asdict(sources).items()}, "effort": asdict(effort)}
    if note.exists() and any(store.folder.rglob("*.json")):  # otherwise there is nothing to mix
        if not resume:
            raise FairmendError(
                f"{out} holds cells of an earlier run; continue it with --resume, or choose another --out"
            )
        if json.loads(note.read_text()) != this_run:
            raise FairmendError(
                f"{out} holds cells of a run with other folders, another seed or another --quick; "
                "use the same options, or choose another --out"
            )
    store.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(note, json.dumps(this_run, indent=1).encode())
    return store


def _as_text(source: object) -> str:
    """Return a source as text; folders by their full path, so that a run can continue from another folder."""
    return str(source.resolve() if isinstance(source, Path) else source)


def _build_results(wanted: tuple[str, ...], store: Store, effort: Effort) -> Results:
    def cell(setting: str, method: str) -> Cell:
        return store.read(repair_key(setting, method))

    def ratio(setting: str, method: str, tester: str) -> float | None:
        before, after = (store.read(tester_key(setting, which, tester))["count"] for which in ("original", method))
        return after / before if before else None

    results = Results([], [])
    for name in wanted:
        if name == "table4":
            results.tables.extend(tables.table4(ratio))
        elif name == "rq4":
            naive = tables.naive(cell)
            results.tables.append(naive)
            results.figures.extend(_naive_figures(naive))
            results.figures.extend(_losses(store, setting, effort) for setting in setting_names("single"))
        else:
            results.tables.extend(_REPAIR_TABLES[name](cell))
    if set(wanted) == set(WHAT):
        results.tables.insert(0, tables.summary(cell))
    return results


def _naive_figures(table: Table) -> list[tuple[str, str]]:
    """Return figures that compare the naive with the symbolic method in each setting."""
    columns = {
        title: [row[number].ours for row in table.rows.values()] for number, title in enumerate(table.header[1:])
    }
    settings = list(table.rows)
    found = []
    for title, kind in (("accuracy in percent after the repair", "accuracy"), ("optimum of step 2", "optimum")):
        series = {name: columns[f"{kind}, {name}"] for name in ("symbolic", "naive")}
        found.append((title, comparison_figure(title, settings, series, logarithmic=kind == "optimum")))
    return found


def _losses(store: Store, setting: str, effort: Effort) -> tuple[str, str]:
    """Return the figure of one setting; the runs differ in the sets that are drawn."""
    cells = [store.read(loss_key(setting, seed)) for seed in range(effort.loss_runs)]
    curves = {key: np.array([cell[key] for cell in cells]) for key in ("fair", "task")}
    title = f"losses of step 1, {setting}"
    return title, loss_figure(title, {"L_fair": curves["fair"], "L_bce": curves["task"]})

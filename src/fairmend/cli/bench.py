"""`fairmend bench`: reproduce the tables of the paper and show its numbers beside ours."""

from __future__ import annotations

from pathlib import Path

import click

from fairmend.base.errors import FairmendError
from fairmend.cli.group import Command, echo_line
from fairmend.cli.options import FILE, common_options, json_option, seed_option


@click.command("bench", cls=Command)
@click.argument("what", type=click.Choice(["table1", "table2", "table3", "table4", "rq4", "timing", "all"]))
@click.option("--out", type=FILE, default=Path("fairmend-bench"), show_default=True, help="Folder for the results.")
@click.option("--data-dir", type=FILE, help="Folder with the raw data sets. By default they are downloaded and cached.")
@click.option("--models-dir", type=FILE, help="Folder with the biased networks (.pth). By default they are trained.")
@click.option("--splits-dir", type=FILE, help="Folder with the paper's repair and calibration sets. By default drawn.")
@click.option("--quick", is_flag=True, help="Use fewer samples and steps, for a first impression.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run in the same folder.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of parallel jobs. By default one per core.")
@seed_option
@json_option
@common_options
def command(
    what: str,
    out: Path,
    models_dir: Path | None,
    data_dir: Path | None,
    splits_dir: Path | None,
    quick: bool,
    resume: bool,
    workers: int | None,
    seed: int,
    json_output: bool,
) -> None:
    """Reproduce the tables of the paper.

    Prints our numbers with those of the paper in parentheses, and writes them to the folder as .csv, .md and .html.
    Needs the extra "bench": pip install 'fairmend[bench]'.
    """
    from rich.console import Console

    from fairmend.base.folders import check_folder
    from fairmend.cli.console import progress_bars, show_json
    from fairmend.paper.protocol import QUICK, Effort, Sources, default_workers
    from fairmend.paper.run import run
    from fairmend.paper.tables import show_tables, write_tables

    for folder in (models_dir, data_dir, splits_dir):
        if folder is not None and not folder.is_dir():
            raise FairmendError(f"{folder}: no such folder")
    check_folder(out, ["run.json"], whole=False)
    sources, effort = Sources(models_dir, data_dir, splits_dir, seed), QUICK if quick else Effort()
    with progress_bars(quiet=json_output) as progress:
        workers = workers or default_workers()
        results = run(what, out, sources, effort, workers=workers, resume=resume, progress=progress)
    files = write_tables(out, results.tables, results.figures)
    if json_output:
        show_json({"tables": [table.as_dict() for table in results.tables], "files": [str(path) for path in files]})
        return
    screen = Console(width=max(Console().width, 200), highlight=False)
    show_tables(screen, results.tables)
    for path in files:
        echo_line(f"Saved {path}")

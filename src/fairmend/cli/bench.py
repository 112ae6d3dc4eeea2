"""`fairmend bench`: the paper's tables, with its numbers beside ours."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from joblib import cpu_count
from rich.console import Console

from fairmend.atomic import check_folder
from fairmend.bench.jobs import QUICK, Effort
from fairmend.bench.protocol import Sources
from fairmend.bench.render import show, write
from fairmend.bench.run import run
from fairmend.cli.console import bars, show_json
from fairmend.errors import FairmendError


def run_bench(
    what: str,
    out: Path,
    *,
    models_dir: Path | None = None,
    data_dir: Path | None = None,
    splits_dir: Path | None = None,
    quick: bool = False,
    resume: bool = False,
    workers: int | None = None,
    seed: int = 0,
    json_output: bool = False,
) -> None:
    """Compute tables, show them, and write them below `out`."""
    for folder in (models_dir, data_dir, splits_dir):
        if folder is not None and not folder.is_dir():
            raise FairmendError(f"{folder}: no such folder")
    check_folder(out, ["run.json"])
    sources = Sources(models_dir, data_dir, splits_dir, seed)
    with _stopped_like_ctrl_c(), bars(quiet=json_output) as report:
        effort = QUICK if quick else Effort()
        workers = workers or cpu_count()
        results = run(what, out, sources, effort, workers=workers, resume=resume, progress=report)
    files = write(out, results.tables, results.figures)
    if json_output:
        plain = [
            {
                "table": table.name,
                "title": table.title,
                "columns": list(table.header),
                "rows": {name: [[e.word or e.ours, e.paper] for e in entries] for name, entries in table.rows.items()},
            }
            for table in results.tables
        ]
        show_json({"tables": plain, "files": [str(path) for path in files]})
        return
    screen = Console(width=max(Console().width, 200), highlight=False)
    show(screen, results.tables)
    for path in files:
        screen.print(f"Saved {path}")


@contextmanager
def _stopped_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM, which schedulers send, end a run as Ctrl-C does, with words on how to go on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

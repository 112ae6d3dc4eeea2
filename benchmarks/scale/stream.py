"""Data of any size: rows and bytes a second that are read, encoded and audited, and memory against rows.

    python benchmarks/scale/stream.py [--rows 1000000] [--copies 1 4 16] [--of csv|parquet]
        [--jobs N] [--against FOLDER]

The table is that of million.py, with sex as the only protected feature: two counterfactuals each, so that
reading counts. Each stage is a process of its own, beside plain pandas (CSV) and plain pyarrow (Parquet) on the same
file and columns. It runs once, and then three times; the least processor time of these three counts. That is the rate
of the steady state, without what only the first run pays for, such as imports and memory that the system hands out.
Fixed costs of every run, such as reading the model, are in the figures. "ratio" is that of the processor times. Below
the table is the rate of the disk: a file is read once, in seconds on the wall, after the system has dropped it from its
memory (where it can).

Time and memory are measured on folders with copies of the Parquet file, or of the CSV file, as links. Memory is what
the process, or all of its processes with --jobs, cannot give back to the system (RssAnon), at most. With --against, the
folder "src" of another version: `fairmend audit`, and a short `fairmend search`, of each file in turn with that version
and with this one; the least processor time and the least peak memory of three runs each (start included), and their
ratios. The script exits with 1 if the two versions give different results, if an audit of a folder does not count the
multiple of what the file has, or if its memory grows by more than 6 bytes a row.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import fairmend
from fairmend import Spec, load_network
from fairmend.tables import TableStream, stream_table

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.scale import million

ROWS, COPIES, BYTES_PER_ROW, RUNS = 1_000_000, (1, 4, 16), 6, 3
FILES = ("people.csv", "people.csv.gz", "people.parquet")
STAGES = ("plain", "read", "encode", "audit")


def write_files(folder: Path, rows: int) -> None:
    """Write the network, the spec, and the table in three formats."""
    million.PROTECTED = ("sex",)
    million.write_files(folder, rows)
    with (folder / "people.csv").open("rb") as plain, gzip.open(folder / "people.csv.gz", "wb", 6) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)


def plain(file: Path, spec: Spec) -> None:
    """Read the columns as anyone would, in pieces of the same size."""
    needed, useful = spec.data_columns
    if file.suffix == ".parquet":
        from pyarrow.parquet import ParquetFile

        with ParquetFile(file) as parquet:
            names = [name for name in parquet.schema_arrow.names if name in {*needed, *useful}]
            for _ in parquet.iter_batches(16_384, columns=names, use_threads=False):
                pass
    else:
        with pd.read_csv(file, usecols=lambda name: name in {*needed, *useful}, chunksize=16_384) as frames:
            for _ in frames:
                pass


def read(file: Path, spec: Spec) -> None:
    """Read it as an audit does: a CSV file is parsed once, and then read from a temporary file."""
    for _ in table_of(file, spec):
        pass


def table_of(file: Path, spec: Spec) -> TableStream:
    needed, useful = spec.data_columns
    return stream_table(file, spool={*needed, *useful}).only(needed, useful)


def encode(file: Path, spec: Spec) -> None:
    from fairmend.evaluate.people_stream import PeopleStream

    net = load_network(file.parent / "model.onnx")
    people = PeopleStream(spec, net, table_of(file, spec))
    for _ in chain.from_iterable(people.read(number) for number in range(people.count)):
        pass


def audit(file: Path, _: Spec) -> None:
    from fairmend.workflows import audit_files

    audit_files(file.parent / "model.onnx", file.parent / "spec.toml", file)


def run_stage(name: str, file: Path) -> None:
    """Run one stage, then again as often as `RUNS` says, and print the least processor time of these runs."""

    stages: dict[str, Callable[[Path, Spec], None]] = {"plain": plain, "read": read, "encode": encode, "audit": audit}
    spec = Spec.load(file.parent / "spec.toml")
    stages[name](file, spec)
    used = []
    for _ in range(RUNS):
        started = time.process_time()
        stages[name](file, spec)
        used.append(time.process_time() - started)
    print(f"\n{min(used)}")


def seconds_of(name: str, file: Path) -> float:
    command = [sys.executable, __file__, "--stage", name, "--file", str(file)]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def show_rates(folder: Path, rows: int) -> None:
    table = Table(title=f"{rows:,} rows, one core: processor time in the steady state")
    for heading in ("file", "MB", "stage", "seconds", "rows/s", "MB/s", "ratio to plain"):
        table.add_column(heading, justify="left" if heading in ("file", "stage") else "right")
    for name in FILES:
        file = folder / name
        megabytes = file.stat().st_size / 1e6
        seconds = {stage: seconds_of(stage, file) for stage in STAGES}
        for stage, used in seconds.items():
            size = (name, f"{megabytes:.0f}") if stage == "plain" else ("", "")
            rates = (f"{used:.2f}", f"{rows / used:,.0f}", f"{megabytes / used:.0f}", f"{used / seconds['plain']:.1f}")
            table.add_row(*size, stage, *rates, end_section=stage == STAGES[-1])
    Console(width=110).print(table)


def show_disk(file: Path) -> None:
    """Print how fast the disk gives a file."""
    with file.open("rb", buffering=0) as opened:
        os.fsync(opened.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started = time.perf_counter()
        size = sum(len(part) for part in iter(lambda: opened.read(1 << 20), b""))
        print(f"the disk gives {size / 1e6 / (time.perf_counter() - started):,.0f} MB a second")


def audit_copies(folder: Path, copies: int, kind: str, jobs: int) -> tuple[int, float, float]:
    """Audit a folder with copies of the table; return who is treated unequally, seconds, and the memory in MB."""
    many = folder / f"copies-{copies}-{kind}"
    many.mkdir(exist_ok=True)
    for number in range(copies):
        link = many / f"{number:04}.{kind}"
        link.unlink(missing_ok=True)
        link.symlink_to(folder / f"people.{kind}")
    program = "import sys; from fairmend.cli.main import main; sys.exit(main())"
    options = ["--spec", "spec.toml", "--data", many.name, "--json", "--no-config", "--jobs", str(jobs)]
    command = [sys.executable, "-c", program, "audit", "model.onnx", *options]
    with (
        (folder / "stdout").open("w+") as out,
        subprocess.Popen(command, cwd=folder, stdout=out) as process,
    ):
        most, started = 0.0, time.perf_counter()
        while process.poll() is None:
            most = max(most, own_megabytes(process.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - started
        out.seek(0)
        return int(json.load(out)["count"]), seconds, most


def run_version(source: Path, folder: Path, command: tuple[str, ...]) -> tuple[float, float, dict[str, object]]:
    """Return the processor time, the peak memory in MB and the result of a command of the version in a folder."""
    program = "import sys; from fairmend.cli.main import main; sys.exit(main())"
    name, data, *more = command
    options = ["model.onnx", "--spec", "spec.toml", "--data", data, "--json", "--no-config", *more]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with (folder / "stdout").open("w+") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", program, name, *options], cwd=folder, stdout=out, env=environment
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        result = json.load(out)
    of_run = ("seconds", "exact_seconds", "origin", "warnings")
    kept = {key: value for key, value in result.items() if key not in of_run}
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, kept


def show_against(folder: Path, other: Path) -> bool:
    """Print time and memory of another version and of this one; return whether their results agree."""
    table = Table(title="processor time and peak memory")
    for heading in ("command", "file", "before", "now", "before / now", "before", "now", "before / now", "result"):
        table.add_column(heading, justify="left" if heading in ("command", "file") else "right")
    here, same = Path(fairmend.__file__).parents[1], True
    searches = [("search", name, "--seeds", "10", "--local-steps", "1") for name in FILES]
    for command in [*(("audit", name, "--no-report") for name in FILES), *searches]:
        runs = [[run_version(source, folder, command) for source in (other, here)] for _ in range(RUNS)]
        figures: list[str] = []
        for number, unit in ((0, "s"), (1, "MB")):
            before, now = (min(run[version][number] for run in runs) for version in (0, 1))
            figures += [f"{before:.3g} {unit}", f"{now:.3g} {unit}", f"{before / now:.2f}"]
        agree = all(run[version][2] == runs[0][0][2] for run in runs for version in (0, 1))
        same = same and agree
        table.add_row(*command[:2], *figures, "the same" if agree else "DIFFERS")
    Console(width=110).print(table)
    return same


def own_megabytes(process: int) -> float:
    """Return the memory of a process and of those that it started."""
    try:
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(found[1]) / 1024 if found else 0.0) + sum(own_megabytes(int(child)) for child in children)


def show_copies(folder: Path, rows: int, copies: list[int], kind: str, jobs: int) -> bool:
    """Print time and memory against rows; return whether counts and growth are as they should be."""
    table = Table(title=f"fairmend audit --jobs {jobs}, with its report, of a folder of {kind} files")
    for heading in ("files", "rows", "MB", "seconds", "rows/s", "treated unequally"):
        table.add_column(heading, justify="right")
    found = {number: audit_copies(folder, number, kind, jobs) for number in copies}
    for number, (unequal, seconds, memory) in found.items():
        counts = (f"{number:,}", f"{number * rows:,}", f"{memory:.0f}")
        table.add_row(*counts, f"{seconds:.1f}", f"{number * rows / seconds:,.0f}", f"{unequal:,}")
    Console(width=110).print(table)
    shares = {unequal / number for number, (unequal, _, _) in found.items()}
    if len(found) == 1:
        return True
    growth = np.polyfit([number * rows for number in found], [memory * 2**20 for _, _, memory in found.values()], 1)[0]
    print(f"memory grows by {growth:.1f} bytes a row; the limit is {BYTES_PER_ROW}")
    return len(shares) == 1 and growth < BYTES_PER_ROW


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--copies", type=int, nargs="+", default=COPIES)
    parser.add_argument("--of", choices=("parquet", "csv"), default="parquet", help="the file that is copied")
    parser.add_argument("--jobs", type=int, default=1, help="processes that audit the copies")
    parser.add_argument("--folder", type=Path, help="keep the files here, and use those that are there already")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--against", type=Path, help="the folder src of another version to compare audits with")
    arguments = parser.parse_args()
    if arguments.stage:
        run_stage(arguments.stage, arguments.file)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)).resolve()
        if not (folder / "people.csv.gz").exists():
            folder.mkdir(exist_ok=True)
            write_files(folder, arguments.rows)
        if arguments.against:
            return 0 if show_against(folder, arguments.against.resolve()) else 1
        show_rates(folder, arguments.rows)
        show_disk(folder / "people.csv")
        good = show_copies(folder, arguments.rows, arguments.copies, arguments.of, arguments.jobs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

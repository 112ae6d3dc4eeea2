"""Audit one table in 40 Parquet files in one process, on a Dask cluster and on Ray, and kill workers and clients.

    python benchmarks/scale/cluster.py [--rows 4000000] [--engines jobs,dask,ray] [--folder FOLDER]

Needs fairmend[dask,ray]. The people are those of million.py, with 10 counterfactuals each. Dask and Ray run
on this machine with two workers of one thread. On each there are two audits: one that nobody disturbs, and one of which
a worker is killed after a third of the parts, and the client after two thirds; it is then resumed. Every audit must
give the result of one process bit for bit: its JSON, but for times and the command, and the CSV file of everyone
treated unequally.

Throughput is that of a core: rows by the processor time of all processes, workers and engine included. Two parts of it
are printed and subtracted: that of an audit of 4,000 rows, which is that of starting, and what the engine uses while it
waits, which goes by the clock and not by the rows, and is measured before. Exits with 1 if a result differs, or if an
engine costs more than 15 % of the throughput of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from fairmend import Spec, load_network

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.scale.million import TRAINING_ROWS, people, spec_of

ROWS, FEW_ROWS, FILES, GROUP = 4_000_000, 4_000, 40, 100_000
WORKERS, MOST_OVERHEAD, IDLE_SECONDS = 2, 0.15, 20.0
PROTECTED = ("race", "sex")  # 10 combinations: as many counterfactuals of each person
OF_RUN = ("seconds", "exact_seconds", "origin")  # times, the date and the command
MARK = "FAIRMEND_BENCHMARK"  # in the environment of every process that is measured
# By default, Dask samples its workers, and lets them return memory to the system after every array.
DASK_SETTINGS = """distributed:
  worker: {profile: {enabled: false}}
  nanny: {pre-spawn-environ: {MALLOC_TRIM_THRESHOLD_: 1073741824, MALLOC_MMAP_THRESHOLD_: 1073741824}}
"""
PROGRAM = "import sys; from fairmend.cli.main import main; sys.exit(main())"


def write_files(folder: Path, rows: int) -> None:
    """Write model.onnx, spec.toml, and the tables people/ and few/."""
    from sklearn.neural_network import MLPClassifier

    training = people(TRAINING_ROWS, 0)
    plain = spec_of(training)
    spec = Spec([replace(f, protected=f.name in PROTECTED) for f in plain.features], plain.label)
    spec.save(folder / "spec.toml")
    classifier = MLPClassifier((32, 16), max_iter=15, random_state=0, early_stopping=True)
    classifier.fit(spec.encode(training), spec.labels(training))
    load_network(classifier).save(folder / "model.onnx")
    for name, count in (("few", FEW_ROWS), ("people", rows)):
        (folder / name).mkdir()
        for number in range(FILES if name == "people" else 2):
            size = count // (FILES if name == "people" else 2)
            frame = people(size, number + 1)
            frame.to_parquet(folder / name / f"{number:02d}.parquet", row_group_size=GROUP, index=False)


class ProcessorTime:
    """The processor time of all processes with a mark in their environment, also of those that have ended."""

    def __init__(self, mark: str) -> None:
        self._mark, self._found, self._others = mark, {}, set()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stopped.wait(0.2):
            self.look()

    def look(self) -> float:
        """Return the seconds so far."""
        for process in psutil.process_iter():
            key = (process.pid, process.create_time())
            if key in self._others:
                continue
            try:
                if key not in self._found and process.environ().get(MARK) != self._mark:
                    self._others.add(key)
                    continue
                times = process.cpu_times()
                self._found[key] = times.user + times.system
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return sum(self._found.values())

    def idle(self) -> float:
        """Return the seconds that the processes use in a second, now that they wait."""
        started, before = time.perf_counter(), self.look()
        time.sleep(IDLE_SECONDS)
        return (self.look() - before) / (time.perf_counter() - started)

    def stop(self) -> None:
        self._stopped.set()


@dataclass(frozen=True)
class Run:
    """An audit: its document without times and command, the people treated unequally, and what it took."""

    document: dict[str, Any]
    pairs: bytes
    seconds: float
    cpu: float


class Case:
    """A folder with a model, a spec and data, and audits of them."""

    def __init__(self, folder: Path, cpu: ProcessorTime, environment: dict[str, str]) -> None:
        self.folder, self._cpu, self._environment = folder, cpu, environment

    def start(self, data: str, *options: str) -> subprocess.Popen[bytes]:
        given = ["--spec", "spec.toml", "--data", data, "--method", "enumerate", "--out", "pairs.csv"]
        command = [sys.executable, "-c", PROGRAM, "audit", "model.onnx", *given, "--json", "--no-report", "--no-config"]
        with (self.folder / "result.json").open("wb") as out:
            return subprocess.Popen([*command, *options], cwd=self.folder, stdout=out, env=self._environment)

    def finish(self, process: subprocess.Popen[bytes]) -> tuple[dict[str, Any], bytes]:
        if process.wait() not in (0, 1):
            raise SystemExit(f"fairmend audit ended with exit code {process.returncode}")
        document = json.loads((self.folder / "result.json").read_text())
        kept = {key: value for key, value in document.items() if key not in OF_RUN}
        return kept, (self.folder / "pairs.csv").read_bytes()

    def audit(self, data: str, *options: str) -> Run:
        before, started = self._cpu.look(), time.perf_counter()
        document, pairs = self.finish(self.start(data, *options))
        return Run(document, pairs, time.perf_counter() - started, self._cpu.look() - before)

    def disturbed(self, *options: str) -> Run:
        """Kill a worker after a third of the parts and the client after two thirds, and resume."""
        state = self.folder / "state"
        shutil.rmtree(state, ignore_errors=True)
        before, started = self._cpu.look(), time.perf_counter()
        client = self.start("people", *options, "--resume", "state")
        self._wait_for(state, FILES // 3, client)
        kill_a_worker(self._environment[MARK])
        self._wait_for(state, 2 * FILES // 3, client)
        client.send_signal(signal.SIGKILL)
        client.wait()
        kept = len(list(state.glob("part-*")))
        document, pairs = self.finish(self.start("people", *options, "--resume", "state"))
        print(f"  killed a worker, and the client after {kept} parts; resumed")
        return Run(document, pairs, time.perf_counter() - started, self._cpu.look() - before)

    def _wait_for(self, state: Path, parts: int, client: subprocess.Popen[bytes]) -> None:
        while len(list(state.glob("part-*"))) < parts:
            if client.poll() is not None:
                raise SystemExit("the audit ended before it was killed; take more rows")
            time.sleep(0.02)


def kill_a_worker(mark: str) -> None:
    """Kill the busiest process that runs tasks."""
    names = ("ray::call_remotely", "multiprocessing.spawn import spawn_main")
    workers = [each for each in marked(mark) if any(name in " ".join(each.cmdline()) for name in names)]
    if not workers:
        raise SystemExit("no worker was found")
    max(workers, key=lambda process: sum(process.cpu_times()[:2])).kill()


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes that this script and its children started."""
    return [process for process in psutil.process_iter() if mark_of(process) == mark]


def mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


@contextmanager
def dask_cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a scheduler and two workers, set as docs/guides/clusters.md advises, and yield the address."""
    (folder / "dask.yaml").write_text(DASK_SETTINGS)
    environment |= {"DASK_CONFIG": str(folder / "dask.yaml")}
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    run = [sys.executable, "-m"]
    scheduler = [*run, "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    worker = [*run, "distributed.cli.dask_worker", "--nworkers", str(WORKERS), "--nthreads", "1", "--no-dashboard"]
    worker += ["--scheduler-file", str(file), "--local-directory", str(folder / "dask")]
    with (folder / "dask.log").open("w") as log:
        started = [subprocess.Popen(scheduler, cwd=folder, env=environment, stdout=log, stderr=log)]
        try:
            while not file.exists() or not file.read_text():
                time.sleep(0.1)
            started.append(subprocess.Popen(worker, cwd="/", env=environment, stdout=log, stderr=log))
            yield json.loads(file.read_text())["address"]
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


@contextmanager
def ray_cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a Ray with two workers on this machine, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = [sys.executable, "-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())", "start"]
    options = ["--head", "--num-cpus", str(WORKERS), "--port", str(port), "--include-dashboard", "false"]
    options += ["--temp-dir", tempfile.mkdtemp(prefix="ray-")]
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # of this Ray alone
    with (folder / "ray.log").open("w") as log:
        subprocess.run([*program, *options], cwd=folder, env=environment, stdout=log, stderr=log, check=True)
    environment["RAY_ADDRESS"] = f"127.0.0.1:{port}"
    try:
        yield "ray://auto"
    finally:
        for process in marked(environment[MARK]):
            process.kill()


@contextmanager
def processes(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Yield nothing: processes need no address."""
    yield None


ENGINES = {"jobs": processes, "dask": dask_cluster, "ray": ray_cluster}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--engines", default="jobs,dask,ray")
    parser.add_argument("--folder", type=Path, help="keep the files here, and use those that are there already")
    arguments = parser.parse_args()
    mark = secrets.token_hex(8)
    environment = {**os.environ, MARK: mark, "OMP_NUM_THREADS": "1"}
    table = Table(title=f"fairmend audit on {arguments.rows:,} rows in {FILES} files, {WORKERS} workers")
    for heading in (
        "audit",
        "seconds",
        "processor s",
        "start s",
        "waiting s",
        "rows a second, a core",
        "overhead",
        "result",
    ):
        table.add_column(heading, justify="left" if heading == "audit" else "right")
    good = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)).absolute()
        if not (folder / "people").exists():
            folder.mkdir(exist_ok=True)
            write_files(folder, arguments.rows)
        cpu = ProcessorTime(mark)
        case = Case(folder, cpu, environment)

        def show(name: str, few: Run, run: Run, idle: float = 0.0, disturbed: bool = False) -> float:
            nonlocal good
            waiting = idle * (run.seconds - few.seconds)
            rate = arguments.rows / (run.cpu - few.cpu - waiting)
            overhead = 1 - rate / first_rate if first_rate else 0.0
            same = run.document == one.document and run.pairs == one.pairs
            good &= same and (disturbed or overhead <= MOST_OVERHEAD)
            figures = [f"{run.seconds:.0f}", f"{run.cpu:.1f}", f"{few.cpu:.1f}", f"{waiting:.1f}"]
            figures += ["", ""] if disturbed else [f"{rate:,.0f}", f"{overhead:+.1%}"]
            table.add_row(name, *figures, "same" if same else "OTHER")
            print(f"{name}: {' '.join(figures)}, {'same' if same else 'OTHER'}", flush=True)
            return rate

        first_rate, few = 0.0, case.audit("few")
        one = case.audit("people")
        first_rate = show("one process", few, one)
        for name in arguments.engines.split(","):
            with ENGINES[name](folder, environment) as address:
                options = ["--jobs", str(WORKERS)] if address is None else ["--cluster", address]
                few, idle = case.audit("few", *options), cpu.idle()
                show(name, few, case.audit("people", *options), idle)
                if address is not None:
                    show(f"{name}, killed and resumed", few, case.disturbed(*options), idle, disturbed=True)
        cpu.stop()
    Console(width=120).print(table)
    print(
        f"{one.document['count']:,} of {one.document['total']:,} treated unequally; {len(one.pairs):,} bytes of pairs"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

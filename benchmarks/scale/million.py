"""Audit a million people in a file with `fairmend audit`: seconds, processor time and peak memory, CSV and Parquet.

    python benchmarks/scale/million.py [--rows 1000000]

The table is synthetic: 13 features, of text and numbers, and a label; each person has 630 counterfactuals. The network
is trained on 20,000 other people. Each audit, with its report, is a process of its own on two cores. The script exits
with 1 if one takes more than 30 s or 400 MB, or if the two files give different counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from fairmend import Feature, Spec, load_network

ROWS, TRAINING_ROWS, PIECE = 1_000_000, 20_000, 100_000
SECONDS, MEGABYTES, CORES = 30.0, 400.0, 2

CATEGORIES = {
    "work": ("private", "self-employed", "local government", "state", "federal", "without pay"),
    "education": ("school", "some college", "associate", "bachelor", "master", "doctor"),
    "marital": ("married", "never married", "divorced", "separated", "widowed"),
    "occupation": ("clerical", "craft", "farming", "machines", "management", "sales", "service", "tech", "transport"),
    "housing": ("own", "rent", "with family"),
    "region": ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west"),
    "race": ("Amer-Indian", "Asian", "Black", "Other", "White"),
    "sex": ("Female", "Male"),
}
NUMBERS = {"age": (18, 80), "hours": (1, 99), "years": (0, 45), "income": (0, 250_000), "debt": (0.0, 5.0)}
PROTECTED = ("race", "sex", "age")  # 630 combinations: as many counterfactuals of each person


def people(rows: int, seed: int) -> pd.DataFrame:
    """Return people whose label depends on their numbers, and a little on their sex."""
    rng = np.random.default_rng([seed, 11])
    frame = {name: rng.choice(values, rows) for name, values in CATEGORIES.items()}
    age = rng.integers(18, 81, rows)
    frame["age"] = age
    frame["hours"] = np.clip(rng.normal(40, 12, rows).round(), 1, 99).astype(np.int64)
    frame["years"] = np.clip((age - 18) * rng.random(rows), 0, 45).astype(np.int64)
    frame["income"] = np.clip(np.exp(rng.normal(10.3, 0.6, rows)).round(), 0, 250_000).astype(np.int64)
    frame["debt"] = np.clip(rng.gamma(2.0, 0.4, rows), 0, 5).round(4)
    odds = 2 * (np.log1p(frame["income"]) - 10.3) - frame["debt"] + 0.03 * frame["years"]
    odds = odds + 0.5 * (frame["sex"] == "Male") + 0.4 * (frame["education"] == "doctor")
    frame["repaid"] = np.where(odds + rng.logistic(0, 0.5, rows) > 0, "yes", "no")
    return pd.DataFrame(frame)


def spec_of(frame: pd.DataFrame) -> Spec:
    categorical = [
        Feature(name, "categorical", categories=values, encoding="one-hot", protected=name in PROTECTED)
        for name, values in CATEGORIES.items()
    ]
    numeric = [
        Feature(
            name,
            "continuous" if name == "debt" else "integer",
            range=ends,
            protected=name in PROTECTED,
            scale={"mean": float(frame[name].mean()), "std": float(frame[name].std())},
        )
        for name, ends in NUMBERS.items()
    ]
    return Spec([*categorical, *numeric], {"column": "repaid", "positive": "yes"})


def write_files(folder: Path, rows: int) -> None:
    """Write model.onnx, spec.toml, people.csv and people.parquet."""
    import pyarrow as pa
    from pyarrow.parquet import write_table
    from sklearn.neural_network import MLPClassifier

    training = people(TRAINING_ROWS, 0)
    spec = spec_of(training)
    spec.save(folder / "spec.toml")
    classifier = MLPClassifier((32, 16), max_iter=15, random_state=0, early_stopping=True)
    classifier.fit(spec.encode(training), spec.labels(training))
    load_network(classifier).save(folder / "model.onnx")
    tables = []
    with (folder / "people.csv").open("w") as csv:
        for number, start in enumerate(range(0, rows, PIECE)):
            frame = people(min(PIECE, rows - start), number + 1)
            frame.to_csv(csv, index=False, header=start == 0, lineterminator="\n")
            tables.append(pa.Table.from_pandas(frame, preserve_index=False))
    write_table(pa.concat_tables(tables), folder / "people.parquet")  # in one row group, as pandas does


@dataclass(frozen=True)
class Run:
    """One audit: how long it took, the processor time, the peak memory, and what it counted."""

    seconds: float
    cpu: float
    megabytes: float
    result: dict[str, object]

    @property
    def good(self) -> bool:
        return self.seconds < SECONDS and self.megabytes < MEGABYTES


def audit(folder: Path, data: str) -> Run:
    """Run `fairmend audit` in a process of its own, on at most two cores."""
    program = "import sys; from fairmend.cli.main import main; sys.exit(main())"
    options = ["--spec", "spec.toml", "--data", data, "--json", "--no-config"]
    command = [sys.executable, "-c", program, "audit", "model.onnx", *options]
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with (
        (folder / "stdout").open("w+") as out,
        subprocess.Popen(command, cwd=folder, stdout=out, preexec_fn=lambda: os.sched_setaffinity(0, cores)) as process,
    ):
        megabytes = 0.0
        while process.poll() is None:
            megabytes = max(megabytes, peak_megabytes(process.pid))
            time.sleep(0.05)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        text = out.read()
    if process.returncode not in (0, 1):
        raise SystemExit(f"fairmend audit ended with exit code {process.returncode}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(seconds, cpu, megabytes, json.loads(text))


def peak_megabytes(process: int) -> float:
    """Return the peak memory of a process so far; 0 if it has just ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", type=Path, help="keep the files here, and use those that are there already")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "people.parquet").exists():
            folder.mkdir(exist_ok=True)
            write_files(folder, arguments.rows)
        runs = {name: audit(folder, name) for name in ("people.csv", "people.parquet")}
    table = Table(title=f"fairmend audit on {arguments.rows:,} rows, {CORES} cores")
    for heading in ("file", "seconds", "processor time", "peak MB", "treated unequally", "limits"):
        table.add_column(heading, justify="left" if heading == "file" else "right")
    for name, run in runs.items():
        figures = (f"{run.seconds:.1f}", f"{run.cpu:.1f} s", f"{run.megabytes:.0f}", f"{run.result['count']:,}")
        table.add_row(name, *figures, "ok" if run.good else "EXCEEDED")
    Console(width=110).print(table)
    if len({run.result["count"] for run in runs.values()}) > 1:
        raise SystemExit("the two files give different counts")
    print(f"limits: {SECONDS:.0f} s and {MEGABYTES:.0f} MB")
    return 0 if all(run.good for run in runs.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

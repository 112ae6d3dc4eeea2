"""Take tables and models that nobody here tuned for from CSV and model file to a checked certificate.

    python benchmarks/strangers.py [--data NAME ...] [--framework NAME ...] [--show]

Four generated tables (strangers_data.py: missing values, codes, ids, money, unicode, sorted rows, many classes) meet
four frameworks (strangers_models.py), as a new user would use them. For each pair: `spec init` with the model's own
scores, at most two lines of the spec edited by hand, `spec check`, `audit`, `repair`, `check`. The script prints the
commands and their exit codes (with --show, their output too), and recomputes the figures of the audit and of the repair
with pandas and the framework itself. Exits with 1 if a command fails, a spec is not verified, or a figure differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from strangers_data import MAKERS, Stranger, make_stranger
from strangers_models import FRAMEWORKS, Encoding, run, train

TEST_ROWS = 1000
MOST_EDITS = 2
FAIRMEND = Path(sys.executable).with_name("fairmend")


@dataclass
class Visit:
    """One table with one framework: the commands so far, and what was wrong."""

    people: Stranger
    framework: str
    folder: Path
    show: bool
    problems: list[str] = field(default_factory=list)
    compared: int = 0

    def fairmend(self, *arguments: str, expect: tuple[int, ...] = (0,)) -> str:
        """Run a command in the folder, print it, and return what it printed."""
        command = [str(FAIRMEND), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        console.print(f"  $ fairmend {' '.join(arguments)}   [dim]exit {done.returncode}[/]", highlight=False)
        if self.show:
            console.print(done.stdout + done.stderr, highlight=False, markup=False)
        if done.returncode not in expect:
            self.problems.append(f"{arguments[0]} exits with {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
        return done.stdout

    def same(self, what: str, shown: Any, recomputed: Any, tolerance: float = 1e-9) -> None:
        """Compare a figure with the one that was recomputed."""
        self.compared += 1
        if shown is None or abs(shown - recomputed) > tolerance:
            self.problems.append(f"{what}: fairmend says {shown}, recomputed {recomputed}")


ENVIRONMENT = {**os.environ, "KERAS_BACKEND": "torch", "COLUMNS": "110"}
console = Console(width=120)


def visit(people: Stranger, framework: str, folder: Path, show: bool) -> Visit:
    seen = Visit(people, framework, folder, show)
    console.print(f"[bold]{people.name}, {framework}[/]")
    encode = Encoding(people)
    model = train(framework, people, encode(people.frame), folder)
    data, test = split(people)
    data.to_csv(folder / "people.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    outputs = 1 if len(people.classes) == 2 else len(people.classes)
    scores = run(framework, model, encode(data), outputs)
    columns = ["score"] if scores.ndim == 1 else people.classes
    pd.DataFrame(scores.reshape(len(data), -1), columns=columns).to_csv(folder / "scores.csv", index=False)
    label = ["--label", people.label, *(["--positive", people.positive] if people.positive else [])]
    told = seen.fairmend(
        "spec", "init", "people.csv", "--model", model.name, "--protected", ",".join(people.protected), *label,
        "--scores", "scores.csv", *people.options,
    )  # fmt: skip
    if "verified" not in told or "unverified" in told:
        seen.problems.append("spec init does not say that the spec is verified")
    if seen.problems:
        return seen
    edit(folder / "spec.toml", people.edits)
    console.print(f"  [dim]{len(people.edits)} lines of the spec edited by hand[/]")
    seen.fairmend("spec", "check", "spec.toml", "--data", "people.csv", "--model", model.name, "--scores", "scores.csv")
    files = (model.name, "--spec", "spec.toml", "--data", "people.csv")
    audited = seen.fairmend("audit", *files, "--json", "--report", "audit", expect=(0, 1))
    repaired = seen.fairmend("repair", *files, "--test-data", "test.csv", "--out", "repaired", "--json")
    if seen.problems:
        return seen
    new_model = folder / "repaired" / model.name
    seen.fairmend("check", "repaired/certificate.json", f"repaired/{model.name}", "--spec", "spec.toml")
    compare_audit(seen, json.loads(audited), data, encode, model, outputs)
    compare_repair(seen, json.loads(repaired), (data, test), encode, (model, new_model), outputs)
    return seen


def split(people: Stranger) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the data and the test data; whoever has the least or most of something is in the data."""
    chosen = np.zeros(len(people.frame), dtype=bool)
    chosen[np.random.default_rng(0).permutation(len(people.frame))[:TEST_ROWS]] = True
    numbers = people.frame[list(people.numbers)]
    chosen &= ~((numbers == numbers.min()) | (numbers == numbers.max())).any(axis=1).to_numpy()
    return people.frame[~chosen], people.frame[chosen]


def edit(path: Path, edits: tuple[tuple[str, str], ...]) -> None:
    """Add lines to the spec as a user would: below the heading of a table, or below the name of a feature."""
    text = path.read_text(encoding="utf-8")
    for place, line in edits:
        if place.startswith("feature "):
            heading = f'name = "{place.removeprefix("feature ")}"\n'
            text = text.replace(heading, f"{heading}{line}\n", 1)
        else:
            text = f"[{place}]\n{line}\n\n{text}" if f"[{place}]" not in text else text.replace(
                f"[{place}]\n", f"[{place}]\n{line}\n", 1)  # fmt: skip
    path.write_text(text, encoding="utf-8")


def decide(scores: np.ndarray) -> np.ndarray:
    return (scores >= 0.5).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


def counterfactuals(people: Stranger, frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the people with each combination of the protected values."""
    values = []
    for name in people.protected:
        known = people.frame[name]
        number = name in people.numbers
        values.append(range(int(known.min()), int(known.max()) + 1) if number else sorted(known.dropna().unique()))
    for combination in product(*values):
        yield frame.assign(**dict(zip(people.protected, combination, strict=True)))


def unequal(
    people: Stranger, frame: pd.DataFrame, encode: Encoding, framework: str, model: Path, outputs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return who gets different decisions (rows,), and how far scores differ (rows,), by enumeration."""
    scores = np.stack([run(framework, model, encode(other), outputs) for other in counterfactuals(people, frame)])
    decisions = np.stack([decide(each) for each in scores])
    spread = scores.max(axis=0) - scores.min(axis=0)
    return (decisions != decisions[0]).any(axis=0), spread if spread.ndim == 1 else spread.max(axis=1)


def labels(people: Stranger, frame: pd.DataFrame) -> np.ndarray:
    return frame[people.label].astype(str).map({str(v): n for n, v in enumerate(people.classes)}).to_numpy()


def compare_audit(
    seen: Visit, audited: dict[str, Any], data: pd.DataFrame, encode: Encoding, model: Path, outputs: int
) -> None:
    people = seen.people
    flagged, spread = unequal(people, data, encode, seen.framework, model, outputs)
    seen.same("audit, people", audited["total"], len(data))
    seen.same("audit, treated unequally", audited["count"], int(flagged.sum()))
    seen.same("audit, largest difference of scores", audited["disparity"]["largest"], float(spread.max()), 1e-5)
    for above in audited["disparity"]["above"]:
        limit = above["points"] / 100
        sure = int((spread > limit + 1e-6).sum()), int((spread > limit - 1e-6).sum())
        seen.same(f"audit, above {above['points']} points", above["count"], min(max(above["count"], sure[0]), sure[1]))
    answers = decide(run(seen.framework, model, encode(data), outputs))
    compare_utility(seen, "audit", audited["utility"], labels(people, data), answers)


def compare_repair(
    seen: Visit,
    repaired: dict[str, Any],
    frames: tuple[pd.DataFrame, pd.DataFrame],
    encode: Encoding,
    models: tuple[Path, Path],
    outputs: int,
) -> None:
    people, (data, test) = seen.people, frames
    for when, model in zip(("before", "after"), models, strict=True):
        figures = repaired[when]
        flagged, _ = unequal(people, data, encode, seen.framework, model, outputs)
        seen.same(f"{when}, treated unequally", figures["unfair_data_rows"], int(flagged.sum()))
        answers = decide(run(seen.framework, model, encode(test), outputs))
        compare_utility(seen, when, figures, labels(people, test), answers)
        for group in figures["groups"]:
            compare_group(seen, when, group, test, answers)
    seen.same("after, people treated unequally", repaired["after"]["unfair_data_rows"], 0)


def compare_utility(seen: Visit, when: str, figures: dict[str, Any], true: np.ndarray, answers: np.ndarray) -> None:
    seen.same(f"{when}, accuracy", figures["accuracy"], accuracy_score(true, answers))
    seen.same(f"{when}, balanced accuracy", figures["balanced_accuracy"], balanced_accuracy_score(true, answers))
    if len(seen.people.classes) == 2:
        seen.same(f"{when}, positive rate", figures["positive_rate"], float(answers.mean()))


def compare_group(seen: Visit, when: str, group: dict[str, Any], test: pd.DataFrame, answers: np.ndarray) -> None:
    """Compare the sizes of groups, and the difference of their selection rates; ranges of numbers are left out."""
    if group["binned"] or len(seen.people.classes) > 2:
        return
    own = test[group["feature"]].astype(str)
    sizes = own.value_counts()
    seen.same(f"{when}, people in groups", sum(group["groups"].values()), int(sizes.sum()))
    rates = pd.Series(answers, index=own.index).groupby(own).mean()
    shown = group["demographic_parity_difference"]
    if shown is not None:
        seen.same(f"{when}, demographic parity difference", shown, float(rates.max() - rates.min()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=list(MAKERS), choices=list(MAKERS))
    parser.add_argument("--framework", nargs="*", default=list(FRAMEWORKS), choices=FRAMEWORKS)
    parser.add_argument("--show", action="store_true", help="show the output of the commands")
    parser.add_argument("--keep", type=Path, help="keep the files in this folder")
    options = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "torch"
    visits = []
    for name in options.data:
        people = make_stranger(name)
        for framework in options.framework:
            with tempfile.TemporaryDirectory() as folder:
                visits.append(visit(people, framework, Path(folder), options.show))
                for problem in visits[-1].problems:
                    console.print(f"  [red]{problem}[/]", highlight=False)
                if options.keep is not None:
                    shutil.copytree(folder, options.keep / name / framework, dirs_exist_ok=True)
    table = Table(title="From CSV and model file to a checked certificate")
    for heading in ("table", "framework", "edits by hand", "figures recomputed", "result"):
        table.add_column(heading, justify="right" if heading in ("edits by hand", "figures recomputed") else "left")
    for seen in visits:
        good = not seen.problems and len(seen.people.edits) <= MOST_EDITS
        result = "all equal, certificate valid" if good else f"{len(seen.problems)} problems"
        table.add_row(seen.people.name, seen.framework, str(len(seen.people.edits)), str(seen.compared), result)
    console.print(table)
    return 0 if all(not seen.problems for seen in visits) else 1


if __name__ == "__main__":
    sys.exit(main())

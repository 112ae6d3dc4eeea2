"""Take tables and models that nobody here tuned for from CSV and model file to a checked certificate.

    python benchmarks/strangers/run.py [--data NAME ...] [--framework NAME ...] [--show]

Four generated tables (data.py: missing values, codes, ids, money, unicode, sorted rows, many classes) meet
four frameworks (models.py), as a new user would use them. For each pair: `spec init` with the model's own
scores, at most two lines of the spec edited by hand, `spec check`, `audit`, `repair`, `check`. The script prints the
commands and their exit codes (with --show, their output too).

Then every figure of both documents (result.json) is recomputed with NumPy, pandas and the framework itself
(expected.py), and every number on their pages and model cards must be one of those figures as it is written there
(pages.py). What --json prints must be the same document. Figures that cannot be recomputed are listed by name. Exits
with 1 if a command fails, a spec is not verified, or a figure differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.strangers.data import MAKERS, Stranger, make_stranger
from benchmarks.strangers.expected import NEAR, Between, Tally, World, carried_scores, compare, expected_document
from benchmarks.strangers.models import FRAMEWORKS, Encoding, run, train
from benchmarks.strangers.pages import NOT_FIGURES, check_card, check_page

TEST_ROWS = 1000
MOST_EDITS = 2
MOST_SHOWN = 20  # problems of one visit
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
    unknown: dict[str, int] = field(default_factory=dict)
    shown: int = 0
    shown_unknown: int = 0
    unnoticed: int = 0

    def fairmend(self, *arguments: str, expect: tuple[int, ...] = (0,)) -> str:
        """Run a command in the folder, print it, and return what it printed."""
        bare = arguments[0] != "check" and any(argument == "model.pth" for argument in arguments)
        arguments = (*arguments, "--activation", "relu") if bare else arguments  # a state dict does not say it
        command = [str(FAIRMEND), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        console.print(f"  $ fairmend {' '.join(arguments)}   [dim]exit {done.returncode}[/]", highlight=False)
        if self.show:
            console.print(done.stdout + done.stderr, highlight=False, markup=False)
        if done.returncode not in expect:
            self.problems.append(f"{arguments[0]} exits with {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
        return done.stdout


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
    world = World(people, framework, encode, folder)
    frames = {"data": data, "test": test, "repair": pd.read_csv(folder / "repaired" / "repair_inputs.csv")}
    for name, printed, models in (("audit", audited, [model]), ("repaired", repaired, [model, new_model])):
        compare_document(seen, world, name, json.loads(printed), frames, models)
    return seen


def split(people: Stranger) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the data and the test data; whoever has the least or most of something is in the data."""
    chosen = np.zeros(len(people.frame), dtype=bool)
    chosen[np.random.default_rng(0).permutation(len(people.frame))[:TEST_ROWS]] = True
    numbers = people.frame[list(people.numbers)]
    chosen &= ~((numbers == numbers.min()) | (numbers == numbers.max())).any(axis=1).to_numpy()
    return people.frame[~chosen].reset_index(drop=True), people.frame[chosen].reset_index(drop=True)


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


def compare_document(
    seen: Visit,
    world: World,
    name: str,
    printed: dict[str, Any],
    frames: dict[str, pd.DataFrame],
    models: list[Path],
) -> None:
    """Recompute every figure of a document, then check that the page and the model card show these and no others."""
    folder = seen.folder / name
    seen.fairmend("report", name, "--format", "md")
    seen.fairmend("report", name, "--format", "json", "--out", f"{name}.json")
    document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    if json.loads((seen.folder / f"{name}.json").read_text(encoding="utf-8")) != document:
        seen.problems.append(f"{name}: report --format json differs from result.json")
    if {**printed, "page": document["page"]} != document:
        seen.problems.append(f"{name}: --json differs from result.json")
    tally = Tally(0, [], {})
    compare(document, expected_document(world, document, frames, models), "", tally)
    if document["kind"] == "repair":
        compare(document["after"]["data"]["count"], 0, "people treated unequally after the repair", tally)
    for when, model in zip(("before", "after"), models, strict=False):
        scores = carried_scores(document["page"]["what_if"][when], world.encode(frames["data"]))
        apart = float(np.abs(scores - world.run(model, frames["data"])).max())
        compare(apart, Between(0, NEAR), f"largest difference of the scores of the carried network {when}", tally)
    seen.compared += tally.compared
    seen.problems += [f"{name}, {problem}" for problem in tally.different]
    for figure, times in tally.unknown.items():
        seen.unknown[figure] = seen.unknown.get(figure, 0) + times
    for shown in (
        check_page(folder / "report.html", document),
        check_card((folder / "report.md").read_text(encoding="utf-8"), document),
    ):
        seen.shown += shown.checked
        seen.unnoticed += shown.unnoticed
        seen.shown_unknown += shown.unrecomputed
        seen.problems += [f"{name}, {problem}" for problem in shown.strange]


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
                for problem in visits[-1].problems[:MOST_SHOWN]:
                    console.print(f"  [red]{problem}[/]", highlight=False)
                if options.keep is not None:
                    shutil.copytree(folder, options.keep / name / framework, dirs_exist_ok=True)
    table = Table(title="From CSV and model file to a checked certificate")
    for heading in ("table", "framework", "edits by hand", "figures compared", "numbers on pages", "result"):
        table.add_column(heading, justify="left" if heading in ("table", "framework", "result") else "right")
    for seen in visits:
        good = not seen.problems and len(seen.people.edits) <= MOST_EDITS
        result = "all equal, certificate valid" if good else f"{len(seen.problems)} problems"
        numbers = (f"{len(seen.people.edits)}", f"{seen.compared:,}", f"{seen.shown:,}")
        table.add_row(seen.people.name, seen.framework, *numbers, result)
    console.print(table)
    _print_tally(visits)
    return 0 if all(not seen.problems for seen in visits) else 1


def _print_tally(visits: list[Visit]) -> None:
    """Print how many figures were compared and were equal, and what was not compared."""
    compared, shown = (sum(getattr(seen, name) for seen in visits) for name in ("compared", "shown"))
    wrong = sum(len(seen.problems) for seen in visits)
    noticed = 1 - sum(seen.unnoticed for seen in visits) / max(1, shown)
    console.print(
        f"{compared:,} figures of result.json recomputed, and {shown:,} numbers on pages and model cards "
        f"compared with them: {compared + shown - wrong:,} of {compared + shown:,} equal. Another last digit of a "
        f"number on a page would be noticed in {noticed:.1%} of the places."
    )
    unknown: dict[str, int] = {}
    for seen in visits:
        for name, times in seen.unknown.items():
            unknown[name] = unknown.get(name, 0) + times
    console.print("Not recomputed, because no file holds what they come from:")
    for name, times in sorted(unknown.items()):
        console.print(f"  {name} ({times:,})", highlight=False)
    not_shown = sum(seen.shown_unknown for seen in visits)
    console.print(f"{not_shown:,} numbers on pages show these. Parts of pages that are not compared:")
    for name, why in NOT_FIGURES.items():
        console.print(f"  {name}: {why}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())

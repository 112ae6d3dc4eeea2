"""`fairmend demo`: a bank whose network learnt to be unfair, found out, repaired and proven, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairmend.atomic import check_folder, staged_folder
from fairmend.cli.console import bars, console, show_check, show_comparison, show_files, show_json
from fairmend.cli.report import REPORT_FILES, describe_repair, show_report, write_report
from fairmend.datasets.demo import loan_applicants, loan_spec, train_network
from fairmend.evaluate.compare import Measurement, RepairComparison, measure, repair_and_compare
from fairmend.evaluate.example_pairs import ExamplePair, choose_example_pairs, tabulate_unequal_rows
from fairmend.evaluate.split import DataSplit, split_data
from fairmend.network import Network
from fairmend.tables import write_csv, write_json
from fairmend.text import percent

FILES = {
    "applicants.csv": "the population",
    "spec.toml": "what its columns mean, and which are protected",
    "model.onnx": "the network the bank trained",
    "unfair_pairs.csv": "everybody it treats unequally, with a twin who gets another answer",
    "repaired-model.onnx": "the repaired network",
    "certificate.json": "the proof, for fairmend check",
    "repair_inputs.csv": "the applicants it was repaired with",
    "result.json": "every figure, with losses and warnings",
    **REPORT_FILES,
}
_ANSWERS = (("refused", "red"), ("approved", "green"))
_SHOWN = 5
_SOURCES = {"model": "model.onnx", "data": "applicants.csv", "spec": "spec.toml"}


def run_demo(
    out: Path,
    *,
    seed: int = 0,
    json_output: bool = False,
    command: str | None = None,
    rows: int = 5_000,
    epochs: int = 30,
    repair_rows: int = 100,
    calibration_rows: int = 500,
    method: str = "auto",
    steps: int = 200,
) -> None:
    """Make a population, train on it, show whom the network wrongs, repair it, and write the folder `out`."""
    check_folder(out, list(FILES))
    screen = Console(quiet=True) if json_output else console()
    spec, frame = loan_spec(), loan_applicants(rows, seed)
    X, y = spec.encode(frame), spec.labels(frame)
    _introduce(screen, rows, y.mean())

    with bars(quiet=json_output) as report:
        net = train_network(X, y, epochs=epochs, seed=seed, progress=report)
        people = split_data(spec, net, frame, repair_rows=repair_rows, calibration_rows=calibration_rows, seed=seed)
        before = measure(net, people, stage="audit original", seed=seed, progress=report)
    pairs = _choose_pairs(net, people, before)
    _show_bias(screen, people, before, pairs, net)

    _headline(screen, "The repair")
    with bars(quiet=json_output) as report:
        options = {"method": method, "steps": steps}
        comparison = repair_and_compare(net, people, before, seed=seed, progress=report, options=options)
    repaired = comparison.result.network
    show_comparison(screen, comparison, "The network before and after")
    _show_again(screen, comparison, pairs, net)

    document = {**comparison.as_dict(), "seed": seed, "pairs": _plain_pairs(comparison, pairs, net)}
    with staged_folder(out) as stage:
        write_csv(stage / "applicants.csv", frame)
        spec.save(stage / "spec.toml")
        net.save(stage / "model.onnx")
        write_csv(stage / "unfair_pairs.csv", tabulate_unequal_rows(spec, frame, X, before.data, net, repaired))
        repaired.save(stage / "repaired-model.onnx")
        assert comparison.result.certificate is not None
        comparison.result.certificate.save(stage / "certificate.json", stage / "repaired-model.onnx")
        write_csv(stage / "repair_inputs.csv", people.repair_frame)
        write_json(stage / "result.json", document)
        sources = {role: stage / name for role, name in _SOURCES.items()}
        write_report(stage, describe_repair(net, comparison, out, stage, "repaired-model.onnx", sources, command, seed))
    if json_output:
        show_json({**document, "files": {name: out / name for name in FILES}})
        return
    show_files(screen, out, FILES)
    show_check(screen, out / "certificate.json", out / "repaired-model.onnx")
    _say_what_next(screen, out)
    show_report(screen, out / "report.html")


def _choose_pairs(net: Network, people: DataSplit, before: Measurement) -> list[ExamplePair]:
    """Some who are among the repair inputs, and some who are not: the proof is about the former only."""
    assert people.repair is not None
    covered = people.repair[before.data.rows[people.repair]]
    others = np.setdiff1d(np.flatnonzero(before.data.rows), people.repair)
    pairs = choose_example_pairs(net, people.spec, people.X, covered, _SHOWN - 2)
    return pairs + choose_example_pairs(net, people.spec, people.X, others, _SHOWN - len(pairs))


def _headline(screen: Console, text: str) -> None:
    screen.print()
    screen.rule(Text(text, style="bold"), align="left", style="dim")
    screen.print()


def _introduce(screen: Console, rows: int, approved: float) -> None:
    _headline(screen, "A bank")
    screen.print(
        f"{rows:,} people applied for a loan, and {percent(approved)} of them got one. The clerks looked at "
        "income, work and missed payments, but they also held age against people, and being a woman. A "
        "neural network now learns from their decisions."
    )
    screen.print()


def _show_bias(
    screen: Console, people: DataSplit, before: Measurement, pairs: Sequence[ExamplePair], net: Network
) -> None:
    _headline(screen, "What the network learnt")
    screen.print(
        f"It agrees with the clerks on {percent(before.utility.accuracy)} of the applicants. "
        f"But [bold]{before.data.count:,} of {len(people.X):,} applicants ({percent(before.data.rate)})[/] "
        "would get another answer if nothing but their age or gender were different:"
    )
    screen.print()
    lines = Table.grid(padding=(0, 1))
    for pair in pairs:
        first, second = (_ANSWERS[answer] for answer in pair.answers(net))
        words = people.spec.describe_pair(pair.x, pair.other)
        who = Text.assemble(f"  Applicant {_number(people, pair)}: ", first, ".")
        lines.add_row(who, Text.assemble(f"{words[0].upper()}{words[1:]}: ", second, "."))
    screen.print(lines)


def _show_again(screen: Console, comparison: RepairComparison, pairs: Sequence[ExamplePair], net: Network) -> None:
    """The same pairs, as the repaired network answers them, and how far each answer can be relied on."""
    _headline(screen, "The same applicants again")
    people = comparison.split
    assert people.repair is not None
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for heading in ("Applicant", "The same person, …", "Before", "Now", "In every case"):
        table.add_column(heading)
    for pair in pairs:
        if comparison.result.blind or pair.row in people.repair:
            verdict = Text("equal, proven", style="bold green")
        elif comparison.after.data.rows[pair.row]:
            verdict = Text("not equal", style="yellow")
        else:
            verdict = Text("equal, all tried", style="green")
        words = people.spec.describe_pair(pair.x, pair.other).removeprefix("the same person, ")
        table.add_row(
            str(_number(people, pair)),
            words,
            _both(pair.answers(net)),
            _both(pair.answers(comparison.result.network)),
            verdict,
        )
    screen.print(table)
    if not comparison.result.blind:
        screen.print(
            "proven: a repair input, covered by the proof; all tried: not one, but every age and gender was "
            "tried, and the answer is the same",
            style="dim italic",
        )


def _both(answers: tuple[int, int]) -> Text:
    first, second = (_ANSWERS[answer] for answer in answers)
    return Text.assemble("both ", first) if first == second else Text.assemble(first, " / ", second)


def _number(people: DataSplit, pair: ExamplePair) -> int:
    return int(people.frame["applicant"].iloc[pair.row])


def _plain_pairs(comparison: RepairComparison, pairs: Sequence[ExamplePair], net: Network) -> list[dict[str, Any]]:
    people, result = comparison.split, comparison.result
    assert people.repair is not None
    return [
        {
            "applicant": _number(people, pair),
            "difference": people.spec.describe_pair(pair.x, pair.other),
            "before": [_ANSWERS[answer][0] for answer in pair.answers(net)],
            "after": [_ANSWERS[answer][0] for answer in pair.answers(result.network)],
            "proven": result.blind or bool(pair.row in people.repair),
        }
        for pair in pairs
    ]


def _say_what_next(screen: Console, out: Path) -> None:
    screen.print()
    screen.print("Next, your own network. The command has the same form as for this one:")
    screen.print(
        Text(
            f"  fairmend repair {out / 'model.onnx'} --data {out / 'applicants.csv'} \\\n"
            f"      --spec {out / 'spec.toml'} --out my-repair",
            style="bold",
        ),
        soft_wrap=True,
    )

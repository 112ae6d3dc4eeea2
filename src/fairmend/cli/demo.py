"""`fairmend demo`: a network of a bank learns a bias; the demo audits, repairs and certifies it in seconds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import FILE, common_options, json_option, seed_option
from fairmend.workflows.outputs import REPORT_FILES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from fairmend.evaluate.compare import Measurement, RepairComparison
    from fairmend.evaluate.demo_pairs import ExamplePair
    from fairmend.evaluate.split import DataSplit
    from fairmend.network import Network


FILES = {
    "applicants.csv": "the applicants",
    "spec.toml": "the spec: the features, and which are protected",
    "model.onnx": "the network of the bank",
    "unfair_pairs.csv": "everyone it treats unequally, each with a counterfactual",
    "repaired-model.onnx": "the repaired network",
    "certificate.json": "the certificate, for fairmend check",
    "repair_inputs.csv": "the applicants it was repaired with",
    "result.json": "all figures, losses and warnings",
    **REPORT_FILES,
}
_ANSWERS = (("refused", "red"), ("approved", "green"))
_SHOWN = 5
_SOURCES = {"model": "model.onnx", "data": "applicants.csv", "spec": "spec.toml"}


@click.command("demo", cls=Command)
@click.option("--out", type=FILE, default=Path("fairmend-demo"), show_default=True, help="Folder for the results.")
@seed_option
@json_option
@common_options
@click.pass_context
def command(ctx: click.Context, /, out: Path, seed: int, json_output: bool) -> None:
    """Run the demo on a biased network.

    Trains a network on biased loan decisions, shows who it treats unequally, repairs it, and proves the result.
    """
    run_demo(out, seed=seed, json_output=json_output, typed=typed_command(ctx))


def run_demo(
    out: Path,
    *,
    seed: int = 0,
    json_output: bool = False,
    typed: str | None = None,
    rows: int = 5_000,
    epochs: int = 30,
    repair_rows: int = 100,
    calibration_rows: int = 500,
    method: str = "auto",
) -> None:
    """Train a network on biased decisions, show who it treats unequally, repair it, and write the folder `out`."""
    from rich.console import Console

    from fairmend.base.files import write_json
    from fairmend.base.folders import check_folder, staged_folder
    from fairmend.cli.console import console, progress_bars, show_check, show_files, show_json, show_report
    from fairmend.cli.figures import show_comparison
    from fairmend.evaluate.compare import measure, repair_and_compare
    from fairmend.evaluate.demo_pairs import UnequalRows
    from fairmend.evaluate.split import split_data
    from fairmend.evaluate.what_if import WHAT_IF_ROWS
    from fairmend.tables import write_csv
    from fairmend.workflows.demo import loan_applicants, loan_spec, train_network
    from fairmend.workflows.outputs import check_certificate, describe_repair, write_report

    check_folder(out, list(FILES))
    screen = Console(quiet=True) if json_output else console()
    spec, frame = loan_spec(), loan_applicants(rows, seed)
    X, y = spec.encode(frame), spec.labels(frame)
    _introduce(screen, rows, y.mean())

    with progress_bars(quiet=json_output) as progress:
        net = train_network(X, y, epochs=epochs, seed=seed, progress=progress)
        people = split_data(spec, net, frame, repair_rows=repair_rows, calibration_rows=calibration_rows, seed=seed)
        unequal = UnequalRows()
        before = measure(net, people, stage="audit original", seed=seed, progress=progress, witnesses=unequal.add)
    pairs = _choose_pairs(net, people, before)
    _show_bias(screen, people, before, pairs, net)

    _headline(screen, "The repair")
    with progress_bars(quiet=json_output) as progress:
        options = {"method": method}
        comparison = repair_and_compare(net, people, before, seed=seed, progress=progress, options=options)
    repaired = comparison.result.network
    show_comparison(screen, comparison, "The network before and after the repair")
    _show_again(screen, comparison, pairs, net)

    document = {**comparison.as_dict(), "seed": seed, "pairs": _plain_pairs(comparison, pairs, net)}
    with staged_folder(out) as stage:
        write_csv(stage / "applicants.csv", frame)
        spec.save(stage / "spec.toml")
        net.save(stage / "model.onnx")
        write_csv(stage / "unfair_pairs.csv", unequal.tabulate(spec, frame, net, repaired))
        repaired.save(stage / "repaired-model.onnx")
        assert comparison.result.certificate is not None
        comparison.result.certificate.save(stage / "certificate.json", stage / "repaired-model.onnx")
        real = comparison.result.certificate.real_only
        checked = check_certificate(stage / "certificate.json", stage / "repaired-model.onnx", real=real)
        write_csv(stage / "repair_inputs.csv", people.repair_frame)
        write_json(stage / "result.json", document)
        sources = {role: stage / name for role, name in _SOURCES.items()}
        write_report(
            stage,
            describe_repair(
                net, comparison, out, stage, "repaired-model.onnx", sources, typed, seed, what_if_rows=WHAT_IF_ROWS
            ),
        )
    if json_output:
        show_json({**document, "certificate_check": checked.as_dict(), "files": {name: out / name for name in FILES}})
        return
    show_files(screen, out, FILES)
    show_check(screen, checked, out / "certificate.json", out / "repaired-model.onnx", real=real)
    _show_next_step(screen, out)
    show_report(screen, out / "report.html")


def _choose_pairs(net: Network, people: DataSplit, before: Measurement) -> list[ExamplePair]:
    """Choose pairs among the repair inputs and among the others: the proof may cover only the former."""
    import numpy as np

    from fairmend.evaluate.demo_pairs import choose_example_pairs

    assert people.repair is not None
    covered = people.repair[before.data.unequal[people.repair]]
    others = np.setdiff1d(np.flatnonzero(before.data.unequal), people.repair)
    pairs = choose_example_pairs(net, people.spec, people.X, covered, _SHOWN - 2)
    return pairs + choose_example_pairs(net, people.spec, people.X, others, _SHOWN - len(pairs))


def _headline(screen: Console, text: str) -> None:
    from rich.text import Text

    screen.print()
    screen.rule(Text(text, style="bold"), align="left", style="dim")
    screen.print()


def _introduce(screen: Console, rows: int, approved: float) -> None:
    from fairmend.base.text import percent

    _headline(screen, "The bank")
    screen.print(
        f"{rows:,} people applied for a loan, and {percent(approved)} of them got one. The loan officers considered "
        "income, employment and missed payments, but they also disadvantaged women and older people. A neural network "
        "now learns from their decisions."
    )
    screen.print()


def _show_bias(
    screen: Console, people: DataSplit, before: Measurement, pairs: Sequence[ExamplePair], net: Network
) -> None:
    from rich.text import Text

    from fairmend.base.text import percent
    from fairmend.cli.console import Rows

    _headline(screen, "What the network learned")
    accuracy = float((net.predict(people.X) == people.y).mean())
    unequal = f"{before.data.count:,} of {len(people.X):,} applicants ({percent(before.data.idi_rate)})"
    screen.print(
        Text.assemble(
            f"The network agrees with the loan officers on {percent(accuracy)} of the applicants. But ",
            (unequal, "bold"),
            " would get a different decision if only their age or gender were different:",
        )
    )
    screen.print()
    lines = Rows.grid(padding=(0, 1))
    for pair in pairs:
        first, second = (_ANSWERS[answer] for answer in pair.answers(net))
        difference = people.spec.describe_pair(pair.x, pair.other)
        who = Text.assemble(f"  Applicant {_number(people, pair)}: ", first, ".")
        lines.add_row(who, Text.assemble(f"{difference[0].upper()}{difference[1:]}: ", second, "."))
    screen.print(lines)


def _show_again(screen: Console, comparison: RepairComparison, pairs: Sequence[ExamplePair], net: Network) -> None:
    """Show the same pairs with the decisions of the repaired network, and how sure each is."""
    from rich.box import SIMPLE_HEAD
    from rich.text import Text

    from fairmend.cli.console import Rows

    _headline(screen, "The same applicants after the repair")
    people = comparison.split
    assert people.repair is not None
    table = Rows(box=SIMPLE_HEAD, show_edge=False)
    for heading in ("Applicant", "The same person, …", "Before", "After", "Treated equally"):
        table.add_column(heading)
    for pair in pairs:
        if comparison.result.blind or pair.row in people.repair:
            verdict = Text("yes, proven", style="bold green")
        elif comparison.after.data.unequal[pair.row]:
            verdict = Text("no", style="yellow")
        else:
            verdict = Text("yes, all tried", style="green")
        table.add_row(
            str(_number(people, pair)),
            people.spec.describe_pair(pair.x, pair.other).removeprefix("the same person, "),
            _both(pair.answers(net)),
            _both(pair.answers(comparison.result.network)),
            verdict,
        )
    screen.print(table)
    if not comparison.result.blind:
        screen.print(
            "proven: a repair input, which the proof covers. all tried: not covered by the proof, but every age and "
            "gender was tried and gives the same decision.",
            style="dim italic",
        )


def _both(answers: tuple[int, int]) -> Text:
    from rich.text import Text

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


def _show_next_step(screen: Console, out: Path) -> None:
    from rich.text import Text

    screen.print()
    screen.print("Next, repair your own network. The command is the same as for this one:")
    model, people, spec = (shlex.quote(str(out / name)) for name in ("model.onnx", "applicants.csv", "spec.toml"))
    for line in (f"  fairmend repair {model} --data {people} \\", f"      --spec {spec} --out my-repair"):
        screen.print(Text(line, style="bold"), soft_wrap=True)

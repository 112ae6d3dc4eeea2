"""`fairmend demo`: a network of a bank learns a bias; the demo audits, repairs and certifies it in seconds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.text import Text

from fairmend.base.folders import check_folder
from fairmend.base.text import percent
from fairmend.cli.console import Rows, console, progress_bars, show_json
from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import FILE, common_options, json_option, seed_option

if TYPE_CHECKING:
    from fairmend.evaluate.compare import RepairComparison
    from fairmend.workflows.demo import BiasedNetwork

_COLOURS = {"refused": "red", "approved": "green"}


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
    from fairmend.cli.figures import show_check, show_files, show_report
    from fairmend.cli.repaired import show_comparison
    from fairmend.evaluate.compare import repair_and_compare
    from fairmend.workflows.demo import FILES, learn_bias, loan_applicants, loan_spec, write_demo

    check_folder(out, list(FILES))
    screen = Console(quiet=True) if json_output else console()
    spec, frame = loan_spec(), loan_applicants(rows, seed)
    _introduce(screen, rows, spec.labels(frame).mean())

    with progress_bars(quiet=json_output) as progress:
        biased = learn_bias(
            spec,
            frame,
            epochs=epochs,
            repair_rows=repair_rows,
            calibration_rows=calibration_rows,
            seed=seed,
            progress=progress,
        )
    _show_bias(screen, biased)

    _headline(screen, "The repair")
    with progress_bars(quiet=json_output) as progress:
        comparison = repair_and_compare(
            biased.network, biased.people, biased.before, seed=seed, progress=progress, options={"method": method}
        )
    written = write_demo(out, biased, comparison, seed=seed, command=typed)
    show_comparison(screen, written.document, "The network before and after the repair")
    _show_again(screen, comparison, biased)
    if json_output:
        show_json(written.document.printed())
        return
    show_files(screen, out, FILES)
    assert written.check is not None
    assert comparison.result.certificate is not None
    real = comparison.result.certificate.real_only
    show_check(screen, written.check, out / "certificate.json", out / written.model, real=real)
    _show_next_step(screen, out)
    show_report(screen, out / "report.html")


def _headline(screen: Console, text: str) -> None:
    screen.print()
    screen.rule(Text(text, style="bold"), align="left", style="dim")
    screen.print()


def _introduce(screen: Console, rows: int, approved: float) -> None:
    _headline(screen, "The bank")
    screen.print(
        f"{rows:,} people applied for a loan, and {percent(approved)} of them got one. The loan officers considered "
        "income, employment and missed payments, but they also disadvantaged women and older people. A neural network "
        "now learns from their decisions."
    )
    screen.print()


def _show_bias(screen: Console, biased: BiasedNetwork) -> None:
    _headline(screen, "What the network learned")
    people, before, net = biased.people, biased.before, biased.network
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
    for pair in biased.pairs:
        first, second = map(_coloured, biased.answers(pair, net))
        difference = people.spec.describe_pair(pair.x, pair.other)
        who = Text.assemble(f"  Applicant {biased.number(pair)}: ", first, ".")
        lines.add_row(who, Text.assemble(f"{difference[0].upper()}{difference[1:]}: ", second, "."))
    screen.print(lines)


def _show_again(screen: Console, comparison: RepairComparison, biased: BiasedNetwork) -> None:
    """Show the same pairs with the decisions of the repaired network, and how sure each is."""
    _headline(screen, "The same applicants after the repair")
    people = comparison.split
    assert people.repair is not None
    table = Rows(box=SIMPLE_HEAD, show_edge=False)
    for heading in ("Applicant", "The same person, …", "Before", "After", "Treated equally"):
        table.add_column(heading)
    for pair in biased.pairs:
        if comparison.result.blind or pair.row in people.repair:
            verdict = Text("yes, proven", style="bold green")
        elif comparison.after.data.unequal[pair.row]:
            verdict = Text("no", style="yellow")
        else:
            verdict = Text("yes, all tried", style="green")
        table.add_row(
            str(biased.number(pair)),
            people.spec.describe_pair(pair.x, pair.other).removeprefix("the same person, "),
            _both(biased.answers(pair, biased.network)),
            _both(biased.answers(pair, comparison.result.network)),
            verdict,
        )
    screen.print(table)
    if not comparison.result.blind:
        screen.print(
            "proven: a repair input, which the proof covers. all tried: not covered by the proof, but every age and "
            "gender was tried and gives the same decision.",
            style="dim italic",
        )


def _both(answers: tuple[str, str]) -> Text:
    first, second = map(_coloured, answers)
    return Text.assemble("both ", first) if first == second else Text.assemble(first, " / ", second)


def _coloured(answer: str) -> tuple[str, str]:
    return answer, _COLOURS[answer]


def _show_next_step(screen: Console, out: Path) -> None:
    screen.print()
    screen.print("Next, repair your own network. The command is the same as for this one:")
    model, people, spec = (shlex.quote(str(out / name)) for name in ("model.onnx", "applicants.csv", "spec.toml"))
    for line in (f"  fairmend repair {model} --data {people} \\", f"      --spec {spec} --out my-repair"):
        screen.print(Text(line, style="bold"), soft_wrap=True)

"""What the demo tells between the figures: the bank, what its network learned, and the same people after the repair."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.text import Text

from fairmend.base.text import capitalized, percent
from fairmend.cli.console import Rows
from fairmend.evaluate.compare import RepairComparison
from fairmend.workflows.demo import BiasedNetwork

_COLOURS = {"refused": "red", "approved": "green"}


def headline(screen: Console, text: str) -> None:
    """Print the heading of a part."""
    screen.print()
    screen.rule(Text(text, style="bold"), align="left", style="dim")
    screen.print()


def introduce(screen: Console, rows: int, approved: float) -> None:
    """Tell who applied, and how the bank decided."""
    headline(screen, "The bank")
    screen.print(
        f"{rows:,} people applied for a loan, and {percent(approved)} of them got one. The loan officers considered "
        "income, employment and missed payments, but they also disadvantaged women and older people. A neural network "
        "now learns from their decisions."
    )
    screen.print()


def show_bias(screen: Console, biased: BiasedNetwork) -> None:
    """Tell what the network learned, and show some whom it treats unequally."""
    headline(screen, "What the network learned")
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
        lines.add_row(who, Text.assemble(f"{capitalized(difference)}: ", second, "."))
    screen.print(lines)


def show_again(screen: Console, comparison: RepairComparison, biased: BiasedNetwork) -> None:
    """Show the same pairs with the decisions of the repaired network, and how sure each is."""
    headline(screen, "The same applicants after the repair")
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


def show_next_step(screen: Console, out: Path) -> None:
    """Print the command that repairs a network of your own."""
    screen.print()
    screen.print("Next, repair your own network. The command is the same as for this one:")
    model, people, spec = (shlex.quote(str(out / name)) for name in ("model.onnx", "applicants.csv", "spec.toml"))
    for line in (f"  fairmend repair {model} --data {people} \\", f"      --spec {spec} --out my-repair"):
        screen.print(Text(line, style="bold"), soft_wrap=True)

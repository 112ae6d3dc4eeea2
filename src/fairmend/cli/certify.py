"""`fairmend certify`: decide for each person whether they are treated equally, with a proof or a counterfactual."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.base.paths import DataSource
from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import (
    FILE,
    POSITIVE,
    data_options,
    model_options,
    output_options,
    outputs_option,
    reading_options,
    refuse_together,
    resume_option,
    seed_option,
    worker_options,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.evaluate.document import CertifyDocument
    from fairmend.spec import Claim
    from fairmend.workflows import CertifiedFiles


ALL_FAIR, SOME_UNFAIR, UNDECIDED = 0, 1, 2

_SHOWN = 5
_REAL_ONLY = (
    "It is about exact arithmetic only: every margin is below the rounding errors of inference, which may change a "
    "prediction of the deployed model. Check it with fairmend check --real."
)
_STYLE = {"fair": "green", "unfair": "red", "unknown": "yellow"}
_UNDECIDED = "undecided: neither proven nor refuted"


@click.command("certify", cls=Command)
@model_options
@data_options("People to certify, {formats}", required=True)
@click.option(
    "--engine",
    type=click.Choice(["auto", "enumerate", "branch", "milp"]),
    default="auto",
    show_default=True,
    help="enumerate tries every counterfactual, branch uses branch and bound, milp a mixed-integer solver.",
)
@click.option("--rows", type=click.IntRange(min=1), help="Certify only this many rows, drawn at random.")
@click.option("--time-limit", type=POSITIVE, help="Seconds for all inputs; undecided inputs are reported as UNKNOWN.")
@reading_options
@outputs_option
@worker_options("certify people. The result is the same.")
@resume_option
@seed_option
@click.option("--certificate", type=FILE, help="Write a certificate for the FAIR inputs to this file.")
@output_options
def command(
    ctx: click.Context, /, model: Path, data: DataSource, spec_file: Path, json_output: bool, **options: Any
) -> None:
    """Prove for each person whether they are treated equally.

    MODEL is a file: {formats}. Any other .onnx file is run by ONNX Runtime on every counterfactual. The verdict on each
    person in the data is FAIR (proven, or run), UNFAIR (with a similar person who gets a different prediction, or two
    whose scores differ by more than delta if the spec claims scores) or UNKNOWN. Exits with 0 if all are FAIR, 1 if any
    is UNFAIR, else 2.
    """
    from fairmend.cli.console import console, progress_bars, show_json
    from fairmend.workflows import certify_files

    refuse_together(ctx, "jobs", "cluster")
    with progress_bars(quiet=json_output) as progress:
        certified = certify_files(model, spec_file, data, command=typed_command(ctx), progress=progress, **options)
    if json_output:
        show_json(certified.document.printed())
    else:
        _show_all(console(), certified)
    counts = certified.document.counts
    ctx.exit(SOME_UNFAIR if counts.unfair else UNDECIDED if counts.unknown else ALL_FAIR)


def _show_all(screen: Console, certified: CertifiedFiles) -> None:
    """Print the verdicts, what was done about the data, and what a certificate covers."""
    from rich.text import Text

    from fairmend.cli.console import (
        show_condition,
        show_doubts,
        show_other_warnings,
        show_out_of_range,
        show_runtime,
    )

    document = certified.document
    show_runtime(screen, certified.network)
    show_doubts(screen, document)
    _show(screen, document)
    show_condition(screen, document.condition)
    show_out_of_range(screen, document.out_of_range, certified.files["widened_spec"])
    show_other_warnings(screen, document)
    if document.certificate is None:
        return
    covered, fair = document.certificate.inputs, document.counts.fair
    inputs = f"{covered:,} of the {fair:,} FAIR inputs"
    if covered == fair:
        inputs = "the FAIR input" if fair == 1 else f"all {fair:,} FAIR inputs"
    screen.print()
    where = (str(certified.files["certificate"]), "bold")
    screen.print(Text.assemble(f"Certificate for {inputs}: ", where), soft_wrap=True)
    if document.certificate.arithmetic == "real":
        screen.print(Text(_REAL_ONLY, style="yellow"))


def _meanings(claim: Claim, runtime: str) -> dict[str, str]:
    """Return what each verdict means; `runtime` is what ran a model that is only run."""
    words = claim.words()
    return {"fair": f"{'run' if runtime else 'proven'}: {words.equal}", "unfair": words.unequal, "unknown": _UNDECIDED}


def _show(screen: Console, document: CertifyDocument) -> None:
    from rich.text import Text

    from fairmend.base.text import percent
    from fairmend.cli.console import ROW_NUMBERS, Rows, figures_table
    from fairmend.prove.result import decided_by

    table = figures_table(document.title, "verdict", "people", "share", "meaning", right=("people", "share"))
    for verdict, style in _STYLE.items():
        count = getattr(document.counts, verdict)
        name = Text(verdict.upper(), style=style if count else "dim")
        meaning = _meanings(document.claim, document.runtime)[verdict]
        table.add_row(name, f"{count:,}", percent(count / document.inputs), meaning)
    how = decided_by(document.engine, document.runtime)
    table.caption = f"{document.inputs:,} people, {how}, {document.seconds:.2f} s"
    screen.print(table)
    pairs = [pair for pair in document.witnesses if pair is not None]
    if pairs:
        some = "" if len(pairs) <= _SHOWN else f" ({_SHOWN} of {len(pairs):,})"
        screen.print(f"\nTreated unequally{some}:")
        lines = Rows.grid(padding=(0, 1))
        for pair in pairs[:_SHOWN]:
            lines.add_row(Text(f"  {pair.name}:"), Text(pair.describe_witness()))
        screen.print(lines)
        screen.print(Text(f"  {ROW_NUMBERS}", style="dim"))
    for reason in dict.fromkeys(reason for reason in document.reasons if reason):
        screen.print(Text(f"UNKNOWN for {document.reasons.count(reason):,}: {reason}", style="yellow"))

"""`fairmend demo`: a network of a bank learns a bias; the demo audits, repairs and certifies it in seconds."""

from __future__ import annotations

from pathlib import Path

import click

from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import FILE, common_options, json_option, seed_option


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

    from fairmend.base.folders import check_folder
    from fairmend.cli.console import console, progress_bars, show_json
    from fairmend.cli.demo_story import headline, introduce, show_again, show_bias, show_next_step
    from fairmend.cli.figures import show_check, show_files, show_report
    from fairmend.cli.repaired import show_comparison
    from fairmend.evaluate.compare import repair_and_compare
    from fairmend.workflows.demo import FILES, learn_bias, loan_applicants, loan_spec, write_demo

    check_folder(out, list(FILES))
    screen = Console(quiet=True) if json_output else console()
    spec, frame = loan_spec(), loan_applicants(rows, seed)
    introduce(screen, rows, spec.labels(frame).mean())

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
    show_bias(screen, biased)

    headline(screen, "The repair")
    with progress_bars(quiet=json_output) as progress:
        comparison = repair_and_compare(
            biased.network, biased.people, biased.before, seed=seed, progress=progress, options={"method": method}
        )
    written = write_demo(out, biased, comparison, seed=seed, command=typed)
    show_comparison(screen, written.document, "The network before and after the repair")
    show_again(screen, comparison, biased)
    if json_output:
        show_json(written.document.printed())
        return
    show_files(screen, out, FILES)
    assert written.check is not None
    assert comparison.result.certificate is not None
    real = comparison.result.certificate.real_only
    show_check(screen, written.check, out / "certificate.json", out / written.model, real=real)
    show_next_step(screen, out)
    show_report(screen, out / "report.html")

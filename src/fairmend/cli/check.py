"""`fairmend check`: does a certificate hold for a model file, as the independent checker sees it?"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairmend.cli.group import Command
from fairmend.cli.options import FILE, common_options, insert_formats, json_option
from fairmend.errors import FairmendError

if TYPE_CHECKING:
    from fairmend_check import CheckResult

HOLDS, REFUSED = 0, 1

_logger = logging.getLogger(__name__)


@click.command("check", cls=Command)
@click.argument("certificate", type=FILE)
@click.argument("model", type=FILE)
@click.option("--spec", "spec_file", type=FILE, help="Spec, .toml, that must equal the certificate's own.")
@json_option
@common_options
@click.pass_context
@insert_formats
def command(ctx: click.Context, /, certificate: Path, model: Path, spec_file: Path | None, json_output: bool) -> None:
    """Check a certificate independently.

    CERTIFICATE is the .json file that was written for MODEL ({formats}). The checker verifies every claim again
    and shares no code with the rest of fairmend. Exits with 0 if the certificate is valid, 1 if it is not.
    """
    ctx.exit(run_check(certificate, model, spec_file, json_output=json_output))


def run_check(certificate: Path, model: Path, spec_file: Path | None = None, *, json_output: bool = False) -> int:
    """Check the certificate and show the verdict; return the exit code."""
    from fairmend_check import check

    for path in (certificate, model, spec_file):
        if path is not None and not path.exists():
            raise FairmendError(f"{path}: there is no such file")
    report = check(certificate, model, spec_file)
    _logger.info("%s with %d regions, checked in %.2f s", certificate, report.regions, report.seconds)
    if json_output:
        import json

        click.echo(json.dumps({**report.as_dict(), "certificate": str(certificate), "model": str(model)}, indent=2))
    else:
        _show(report, certificate, model)
    return HOLDS if report.valid else REFUSED


def _show(report: CheckResult, certificate: Path, model: Path) -> None:
    if not report.valid:
        click.secho("INVALID", fg="red", bold=True, nl=False)
        click.echo(f": {certificate} does not hold for {model}.")
        for reason in report.reasons:
            click.echo(f"  - {reason}")
        return
    click.secho("VALID", fg="green", bold=True, nl=False)
    click.echo(f": {certificate} holds for {model}.")
    click.echo(f"Proven: {report.claim}")
    if report.least_margin is not None:
        inference = "above" if report.covers_inference else "not above"
        click.echo(
            f"The least margin of {report.regions:,} neighbourhoods is {report.least_margin:.3g}, "
            f"{inference} all rounding errors of inference."
        )
    click.echo(f"Checked in {report.seconds:.2f} s, with nothing taken from the certificate on trust.")

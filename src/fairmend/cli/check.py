"""`fairmend check`: does a certificate hold for a model file, as the independent checker sees it?"""

from __future__ import annotations

import logging
from pathlib import Path

import click

from fairmend.errors import FairmendError
from fairmend_check import CheckResult, check

HOLDS, REFUSED = 0, 1

_logger = logging.getLogger(__name__)


def run_check(certificate: Path, model: Path, spec_file: Path | None = None, *, json_output: bool = False) -> int:
    """Check the certificate and show the verdict; return the exit code."""
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

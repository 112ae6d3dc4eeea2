"""`fairmend check`: ask the independent checker whether a certificate holds for a model file."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from fairmend.base.errors import FairmendError
from fairmend.base.text import capitalized
from fairmend.cli.group import IndependentCommand
from fairmend.cli.options import FILE, MODEL, common_options, insert_formats, json_option

_logger = logging.getLogger(__name__)


@click.command("check", cls=IndependentCommand)
@click.argument("certificate", type=FILE)
@click.argument("model", type=MODEL, required=False)
@click.option(
    "--spec", "spec_file", type=FILE, help="Spec, .toml; the certificate is valid only if it is about this spec."
)
@click.option(
    "--real", is_flag=True, help="Also accept a claim about exact real arithmetic only, which does not cover inference."
)
@click.option(
    "--kernel-only",
    is_flag=True,
    help="Check the claim about the network that the certificate contains, and read no model file.",
)
@click.option("--no-run", is_flag=True, help="Do not run the model, even if its runtime is installed.")
@click.option("--require-run", is_flag=True, help="Give no verdict unless the model was run within its bounds.")
@click.option(
    "--attest",
    type=FILE,
    help="Write the result as in-toto statements: a test result into this file, a verification summary beside it.",
)
@click.option("--attest-failure", is_flag=True, help="With --attest, also attest INVALID, as FAILED.")
@click.option(
    "--attestation",
    type=FILE,
    help="An attestation of an earlier check: there is no verdict if it is about other files, and INVALID if it says "
    "something else than this check finds.",
)
@click.option("--junit", type=FILE, help="Write the result as JUnit XML.")
@click.option("--summary", type=FILE, help="Write the result in Markdown, for the summary of a CI job.")
@json_option
@common_options
@click.pass_context
@insert_formats
def command(
    ctx: click.Context,
    /,
    certificate: Path,
    model: Path | None,
    spec_file: Path | None,
    real: bool,
    kernel_only: bool,
    no_run: bool,
    require_run: bool,
    attest: Path | None,
    attest_failure: bool,
    attestation: Path | None,
    junit: Path | None,
    summary: Path | None,
    json_output: bool,
) -> None:
    """Check a certificate independently.

    CERTIFICATE is the .json file that was written for MODEL: {files}. The checker verifies every claim again and
    imports nothing of the rest of fairmend. Where the runtime of the file is installed (ONNX Runtime, Keras), it
    also runs the model and compares the outputs with its bounds. Exits with 0 if the certificate is VALID, 1 if it is
    INVALID, 2 if it is UNREADABLE: a file cannot be read, checked or run, so there is no verdict.

    With --kernel-only and no MODEL, it checks the claim about the network that the certificate contains. Whether a
    model file holds that network then remains open, and the verdict says so.
    """
    if kernel_only == (model is not None):
        raise click.UsageError("Pass either MODEL or --kernel-only.")
    if no_run and require_run:
        raise click.UsageError("--no-run and --require-run exclude each other.")
    from fairmend_check.errors import CannotAnswerError
    from fairmend_check.main import EXIT_CODES, Evidence, check_and_print

    evidence = Evidence(attest, attest_failure, attestation, junit, summary)
    problem = evidence.problem(kernel_only=kernel_only)
    if problem:
        raise click.UsageError(f"{capitalized(problem)}.")

    try:
        result = check_and_print(
            certificate,
            model,
            spec_file,
            real=real,
            run=not no_run,
            require_run=require_run,
            json_output=json_output,
            evidence=evidence,
        )
    except CannotAnswerError as error:
        raise FairmendError(str(error)) from error
    _logger.info("%s with %d regions, checked in %.2f s", certificate, result.regions, result.seconds)
    ctx.exit(EXIT_CODES[result.verdict])

"""`fairmend report`: regenerate the HTML page of a report from its data."""

from __future__ import annotations

from pathlib import Path

import click

from fairmend.cli.group import Command
from fairmend.cli.options import FILE, common_options, json_option
from fairmend.errors import FairmendError

__all__ = ["command"]


@click.command("report", cls=Command)
@click.argument("folder", type=FILE)
@click.option("--out", type=FILE, help="File for the page. By default report.html in the folder.")
@click.option(
    "--no-what-if",
    is_flag=True,
    help="Leave out the part that computes the scores of any person, with the networks and the rows that it carries.",
)
@json_option
@common_options
def command(folder: Path, out: Path | None, no_what_if: bool, json_output: bool) -> None:
    """Regenerate the HTML report.

    FOLDER is a folder that fairmend repair, audit or demo wrote. This version of fairmend turns its report.json into
    report.html again: one page that loads nothing else.
    """
    run_report(folder, out, no_what_if=no_what_if, json_output=json_output)


def run_report(folder: Path, out: Path | None = None, *, no_what_if: bool = False, json_output: bool = False) -> None:
    """Read the report's data from a folder, or from the file itself, and write the page."""
    from fairmend.cli.console import console, show_json
    from fairmend.cli.report_files import show_report
    from fairmend.report import load_report
    from fairmend.report.report import DATA_NAME, PAGE_NAME

    if not folder.exists():
        raise FairmendError(f"{folder}: no such folder; give a folder that fairmend repair, audit or demo wrote")
    report = load_report(folder)
    if no_what_if:
        report = report.without_what_if()
    data = folder / DATA_NAME if folder.is_dir() else folder
    page = out if out is not None else data.parent / PAGE_NAME
    if page.resolve() == data.resolve():
        raise FairmendError(f"{page}: would overwrite the report's data; choose another --out")
    report.save(page)
    if json_output:
        show_json({"kind": report.document.kind, "title": report.document.title, "report": page})
    else:
        show_report(console(), page)

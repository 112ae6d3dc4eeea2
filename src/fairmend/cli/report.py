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
@json_option
@common_options
def command(folder: Path, out: Path | None, json_output: bool) -> None:
    """Regenerate the HTML report.

    FOLDER is a folder that fairmend repair, audit or demo wrote. This version of fairmend turns its report.json into
    report.html again: one page that loads nothing else.
    """
    run_report(folder, out, json_output=json_output)


def run_report(folder: Path, out: Path | None = None, *, json_output: bool = False) -> None:
    """Read the report's data from a folder, or from the file itself, and write the page."""
    from fairmend.cli.console import console, show_json
    from fairmend.cli.report_files import show_report
    from fairmend.report import load_report
    from fairmend.report.report import DATA_NAME, PAGE_NAME

    if not folder.exists():
        raise FairmendError(f"{folder}: no such folder; give a folder that fairmend repair, audit or demo wrote")
    report = load_report(folder)
    data = folder / DATA_NAME if folder.is_dir() else folder
    page = out if out is not None else data.parent / PAGE_NAME
    if page.resolve() == data.resolve():
        raise FairmendError(f"{page}: would overwrite the report's data; choose another --out")
    report.save(page)
    if json_output:
        show_json({"kind": report.document.kind, "title": report.document.title, "report": page})
    else:
        show_report(console(), page)

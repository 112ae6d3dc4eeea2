"""`fairmend report`: the page of a repair or an audit, drawn anew; and how the other commands write theirs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from fairmend.cli.console import console, show_json
from fairmend.errors import FairmendError
from fairmend.report import Report, load_report
from fairmend.report.report import DATA_NAME, PAGE_NAME

if TYPE_CHECKING:
    from fairmend.evaluate.compare import RepairComparison
    from fairmend.evaluate.document import Document
    from fairmend.network import Network

REPORT_FILES = {
    PAGE_NAME: "the report, to open in a browser",
    DATA_NAME: "what it says as data, for fairmend report",
}


def run_report(folder: Path, out: Path | None = None, *, json_output: bool = False) -> None:
    """Read the report's data in a folder, or the file itself, and write the page."""
    if not folder.exists():
        raise FairmendError(f"{folder}: no such folder; give one that fairmend repair, audit or demo wrote")
    report = load_report(folder)
    beside = folder if folder.is_dir() else folder.parent
    page = out if out is not None else beside / PAGE_NAME
    if page.resolve() == (folder / DATA_NAME if folder.is_dir() else folder).resolve():
        raise FairmendError(f"{page}: would overwrite the report's data; choose another --out")
    report.save(page)
    if json_output:
        show_json({"kind": report.document.kind, "title": report.document.title, "report": page})
    else:
        show_report(console(), page)


def write_report(folder: Path, document: Document) -> None:
    """Write the page and its data into a folder."""
    report = Report(document)
    report.save_data(folder / DATA_NAME)
    report.save(folder / PAGE_NAME)


def describe_repair(
    original: Network,
    comparison: RepairComparison,
    folder: Path,
    stage: Path,
    repaired: str,
    sources: Mapping[str, Path],
    command: str | None,
    seed: int,
) -> Document:
    """Describe a repair whose files lie in `stage` and will lie in `folder`; `repaired` is the name of its model."""
    from fairmend.evaluate.provenance import describe_origin
    from fairmend.evaluate.repair_document import repair_document

    files, check = {**sources, "repaired model": stage / repaired}, None
    certificate = stage / "certificate.json"
    if certificate.exists():
        files["certificate"] = certificate
        check = shlex.join(["fairmend", "check", str(folder / certificate.name), str(folder / repaired)])
    where = describe_origin(files, command=command, seed=seed)
    return repair_document(original, comparison, where, title=sources["model"].name, check=check)


def show_report(screen: Console, page: Path) -> None:
    """Say where the page is."""
    screen.print()
    screen.print(Text.assemble("The report, to open in a browser: ", (str(page), "bold")), soft_wrap=True)

"""`fairmend report`: write the page of a report again, or a model card or JSON, from the report's data."""

from __future__ import annotations

from pathlib import Path

import click

from fairmend.base.errors import FairmendError
from fairmend.base.paths import require_inside
from fairmend.cli.group import Command
from fairmend.cli.options import FILE, common_options, json_option


@click.command("report", cls=Command)
@click.argument("folder", type=FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "json", "dossier"]),
    default="html",
    show_default=True,
    help="html is the page for a browser; md a model card in Markdown, which Hugging Face reads; json the data, as "
    "result.schema.json describes it; dossier a folder of evidence for examiners and auditors.",
)
@click.option(
    "--out", type=FILE, help="File to write; a folder for a dossier. By default report.html or report.md in the folder."
)
@click.option("--attestation", type=FILE, help="For a dossier: the attestation that fairmend check --attest wrote.")
@click.option(
    "--about",
    type=FILE,
    help="What the report says about the model, .toml: name, version, owner, purpose, contact, approved_by, date.",
)
@click.option(
    "--no-what-if",
    is_flag=True,
    help="Leave out the part that computes the scores of any person, with the networks and the rows that it carries.",
)
@json_option
@common_options
def command(
    folder: Path,
    form: str,
    out: Path | None,
    attestation: Path | None,
    about: Path | None,
    no_what_if: bool,
    json_output: bool,
) -> None:
    """Write the report again, also in other formats.

    FOLDER is a folder that fairmend repair, audit, quantify or demo wrote. This version of fairmend turns its
    result.json into report.html again: one page that loads nothing else. With --format, into a model card or JSON, or
    into a dossier: a folder with the model, the certificate, the spec and what they show, in which every sentence is
    marked as proven, recomputable or not claimed.
    """
    from fairmend.cli.console import console, show_json
    from fairmend.cli.figures import show_report
    from fairmend.report import load_report
    from fairmend.report.report import CARD_NAME, DATA_NAME, PAGE_NAME
    from fairmend.spec.label import load_about

    if not folder.exists():
        raise FairmendError(
            f"{folder}: no such folder; give a folder that fairmend repair, audit, quantify or demo wrote"
        )
    if form == "json" and out is None:
        raise FairmendError(f"--format json needs --out: the folder already holds {DATA_NAME}, the report's data")
    if form == "dossier" and out is None:
        raise FairmendError("--format dossier needs --out: a folder for the dossier")
    if attestation is not None and form != "dossier":
        raise FairmendError("--attestation is for --format dossier; leave out one of them")
    report = load_report(folder)
    if about is not None:
        report = report.with_about(load_about(about))
    if no_what_if:
        report = report.without_what_if()
    data = folder / DATA_NAME if folder.is_dir() else folder
    if form == "dossier" and out is not None:
        from fairmend.workflows.dossier import write_dossier

        file = write_dossier(report, data.parent, out, attestation)
    else:
        file = out if out is not None else data.parent / (CARD_NAME if form == "md" else PAGE_NAME)
        if out is None:  # the folder may come from someone else
            require_inside(file, data.parent, written=True)
        for source, what in ((data, "the report's data"), (about, "the file of --about")):
            if source is not None and file.resolve() == source.resolve():
                raise FairmendError(f"{file}: would overwrite {what}; choose another --out")
        {"html": report.save, "md": report.save_card, "json": report.save_data}[form](file)
    if json_output:
        show_json({"kind": report.document.kind, "title": report.document.title, "report": file, "format": form})
    else:
        show_report(console(), file, browser=form in ("html", "dossier"))

"""`fairmend export-vnnlib`: write the fairness of each person as a property that other verifiers read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairmend.cli.group import Command, echo_line
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    common_options,
    group_options,
    insert_formats,
    json_option,
    model_argument,
    reading_options,
    seed_option,
    spec_option,
    table_options,
)


@click.command("export-vnnlib", cls=Command)
@model_argument
@spec_option
@click.option("--data", type=DATA, required=True, help=f"People to export, {DATA_FORMATS}")
@table_options
@click.option("--out", type=FILE, required=True, help="Folder for the files; other files in it are kept.")
@click.option("--rows", type=click.IntRange(min=1), help="Export only this many rows, drawn at random.")
@click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="Seconds for each property, as written to instances.csv.",
)
@click.option(
    "--most-boxes",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Largest number of boxes in a property; above it, features are relaxed to intervals.",
)
@seed_option
@reading_options
@json_option
@common_options
@insert_formats
@group_options
def command(out: Path, json_output: bool, **options: Any) -> None:
    """Export fairness properties for other verifiers.

    MODEL is a file: {formats}. The folder gets one property for each person in the data, in the VNN-LIB format:
    it is satisfiable if a similar person gets a different prediction. Writes model.onnx, the .vnnlib files,
    instances.csv, and manifest.json, which explains what sat and unsat mean.
    """
    from fairmend.cli.console import show_json
    from fairmend.prove.vnnlib import INSTANCES, MANIFEST
    from fairmend.workflows import export_files

    exported = export_files(out=out, **options)
    if json_output:
        show_json(exported.document)
        return
    problems = exported.result.problems
    echo_line(f"{len(problems):,} properties in {out}: {INSTANCES} lists them, {MANIFEST} describes each.")
    if exported.out_of_range.rows:
        echo_line(exported.out_of_range.describe(), fg="yellow")
    click.echo("unsat: every similar person gets the same prediction, proven.")
    click.echo("sat:   a similar person gets a different prediction, or the point is an exact")
    click.echo("       tie, which VNN-LIB cannot exclude.")
    relaxed = [problem for problem in problems if problem.relaxed]
    if relaxed:
        names_of = ", ".join(sorted({name for problem in relaxed for name in problem.relaxed}))
        echo_line(
            f"{len(relaxed):,} properties are relaxed ({names_of}): for these, a sat point need not be a person. "
            "A larger --most-boxes relaxes fewer.",
            fg="yellow",
        )

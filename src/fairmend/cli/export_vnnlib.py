"""`fairmend export-vnnlib`: write the fairness of each person as a property that other verifiers read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairmend._version import __version__
from fairmend.base.data_source import DataSource
from fairmend.cli.group import Command, echo_line
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    activation_option,
    common_options,
    ignore_scores_option,
    insert_formats,
    json_option,
    model_argument,
    out_of_range_option,
    seed_option,
    spec_option,
    threshold_option,
)


@click.command("export-vnnlib", cls=Command)
@model_argument
@spec_option
@click.option("--data", type=DATA, required=True, help=f"People to export, {DATA_FORMATS}")
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
@out_of_range_option
@threshold_option
@activation_option
@ignore_scores_option
@json_option
@common_options
@insert_formats
def command(model: Path, data: DataSource, spec_file: Path, out: Path, **options: Any) -> None:
    """Export fairness properties for other verifiers.

    MODEL is a file: {formats}. The folder gets one property for each person in the data, in the VNN-LIB format:
    it is satisfiable if a similar person gets a different prediction. Writes model.onnx, the .vnnlib files,
    instances.csv, and manifest.json, which explains what sat and unsat mean.
    """
    run_export(model, data, spec_file, out, **options)


def run_export(
    model: Path,
    data: DataSource,
    spec_file: Path,
    out: Path,
    *,
    rows: int | None = None,
    timeout: int = 300,
    most_boxes: int = 1000,
    seed: int = 0,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    json_output: bool = False,
) -> None:
    """Write the properties and print what sat and unsat mean."""
    from fairmend.base.folders import check_folder, staged_folder
    from fairmend.cli.console import show_json
    from fairmend.prove.vnnlib import INSTANCES, MANIFEST, MODEL, export_vnnlib
    from fairmend.tables import local_files
    from fairmend.workflows.inputs import load_model, load_people, save_widened_spec

    check_folder(out, [MODEL, INSTANCES, MANIFEST, "spec.toml"], [model, *local_files(data), spec_file])
    spec, net = load_model(model, spec_file, activation, ignore_scores, threshold)
    people = load_people(data, spec, net, rows, seed, out_of_range)
    spec, numbers = people.spec, people.rows.tolist()
    with staged_folder(out) as stage:
        export = export_vnnlib(net, spec, people.X, stage, rows=numbers, timeout=timeout, most_boxes=most_boxes)
        wider = save_widened_spec(spec, people.out_of_range, stage / "spec.toml")
    problems = export.problems
    if json_output:
        names = {
            "fairmend": __version__,
            "model": model.name,
            "data": data.name,
            "seed": seed,
            "threshold": spec.threshold,
            "out": out,
        }
        done = {"out_of_range": people.out_of_range.as_dict(), "widened_spec": wider and out / wider.name}
        show_json({**names, **done, "problems": [problem.as_dict() for problem in problems]})
        return
    echo_line(f"{len(problems):,} properties in {out}: {INSTANCES} lists them, {MANIFEST} describes each.")
    if people.out_of_range.rows:
        echo_line(people.out_of_range.describe(), fg="yellow")
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

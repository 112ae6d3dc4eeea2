"""`fairmend export-vnnlib`: the neighbourhoods as problems for other verifiers."""

from __future__ import annotations

from pathlib import Path

import click

from fairmend._version import __version__
from fairmend.atomic import check_folder, staged_folder
from fairmend.cli.console import show_json
from fairmend.cli.inputs import load_model, load_people
from fairmend.vnnlib import INSTANCES, MANIFEST, MODEL, export_vnnlib


def run_export(
    model: Path,
    data: Path,
    spec_file: Path,
    out: Path,
    *,
    rows: int | None = None,
    timeout: int = 300,
    most_boxes: int = 1000,
    seed: int = 0,
    activation: str = "relu",
    json_output: bool = False,
) -> None:
    """Write the problems and say what they mean."""
    check_folder(out, [MODEL, INSTANCES, MANIFEST], [model, data, spec_file])
    spec, net = load_model(model, spec_file, activation)
    chosen, X = load_people(data, spec, net, rows, seed)
    with staged_folder(out) as stage:
        export = export_vnnlib(net, spec, X, stage, rows=chosen.tolist(), timeout=timeout, most_boxes=most_boxes)
    problems = export.problems
    if json_output:
        names = {"fairmend": __version__, "model": model.name, "data": data.name, "seed": seed, "out": out}
        show_json({**names, "problems": [problem.as_dict() for problem in problems]})
        return
    relaxed = [problem for problem in problems if problem.relaxed]
    click.echo(f"{len(problems):,} problems in {out}: {INSTANCES} lists them, {MANIFEST} says what each is about.")
    click.echo("unsat: everyone similar gets the same answer, proven.")
    click.echo("sat:   somebody does not, unless the point lies on a tie, which the form cannot exclude.")
    if relaxed:
        names_of = sorted({name for problem in relaxed for name in problem.relaxed})
        click.secho(
            f"{len(relaxed):,} of them are relaxed ({', '.join(names_of)}): there, a sat need not be a person; "
            "--most-boxes writes more values out.",
            fg="yellow",
        )

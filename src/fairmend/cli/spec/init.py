"""`fairmend spec init`: draft a spec from a data file."""

from __future__ import annotations

from pathlib import Path

import click

from fairmend.cli.group import Command
from fairmend.cli.options import FILE
from fairmend.cli.spec.drafting import drafting_options, finish, refuse_overwriting, split_names
from fairmend.errors import FairmendError

__all__ = ["command"]


@click.command("init", cls=Command)
@click.argument("data", type=FILE)
@click.option("--drop", default="", help="Columns that the model does not read, such as name,date.")
@click.option(
    "--scale",
    type=click.Choice(["none", "standard", "min-max"]),
    default="none",
    show_default=True,
    help="How the model's numeric inputs are scaled; the parameters are computed from the data.",
)
@drafting_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    data: Path,
    drop: str,
    scale: str,
    protected: str,
    label: str | None,
    positive: str | None,
    delta: float | None,
    on: str | None,
    model: Path | None,
    out: Path,
    force: bool,
    json_output: bool,
) -> None:
    """Draft a spec from a data file.

    DATA is a .csv or .parquet file. Kinds, ranges and categories are guessed; comments in the spec give the reasons and
    say what to review. Exits with 1 if the spec was written but does not fit the model.
    """
    from fairmend.network import load_network
    from fairmend.spec.draft.from_data import draft_from_data
    from fairmend.tables import read_table

    refuse_overwriting(out, force, [data, model])
    frame = read_table(data)
    net = None if model is None else load_network(model)
    inputs = None if net is None else net.inputs
    try:
        draft = draft_from_data(
            frame,
            split_names(protected),
            label,
            positive,
            drop=split_names(drop),
            scale=scale,
            inputs=inputs,
            delta=delta,
            on=on,
            outputs=None if net is None else net.outputs,
        )
    except FairmendError as error:
        raise FairmendError(f"{data}: {error}") from error
    title = f"Drafted from {data.name} by fairmend spec init"
    ctx.exit(finish(draft, frame, title, out, data, model, inputs, json_output=json_output))

"""`fairmend spec from-sklearn`: derive the spec from a fitted scikit-learn pipeline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from fairmend.cli.echo import echo_line
from fairmend.cli.group import Command
from fairmend.cli.options import FILE
from fairmend.cli.spec.drafting import drafting_options, finish, refuse_overwriting, split_names
from fairmend.errors import FairmendError

__all__ = ["command"]


@click.command("from-sklearn", cls=Command)
@click.argument("pipeline", type=FILE)
@click.option("--data", type=FILE, help="Raw rows for the ranges of numeric features, .csv or .parquet.")
@click.option("--trust-pickle", is_flag=True, help="Read .joblib and .pkl files, which can run any code.")
@drafting_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    pipeline: Path,
    data: Path | None,
    trust_pickle: bool,
    protected: str,
    label: str | None,
    positive: str | None,
    delta: float | None,
    on: str | None,
    model: Path | None,
    activation: str | None,
    out: Path,
    force: bool,
    json_output: bool,
) -> None:
    """Derive the spec from a fitted scikit-learn pipeline.

    PIPELINE is a file with a fitted ColumnTransformer, or with a Pipeline that contains one: .skops, or .joblib or .pkl
    if you trust it. Exits with 1 if the spec was written but does not fit the model.
    """
    from fairmend.network import load_network
    from fairmend.spec.draft.from_sklearn import draft_from_sklearn
    from fairmend.spec.draft.labels import guess_claim, label_from_options
    from fairmend.spec.draft.pipeline_file import read_pipeline
    from fairmend.tables import read_table

    refuse_overwriting(out, force, [pipeline, data, model])
    frame = None if data is None else read_table(data)
    fitted, warnings = read_pipeline(pipeline, trust_pickle)
    for warning in warnings:
        echo_line(f"Warning: {warning}", err=True)
    net = None if model is None else load_network(model, activation)
    try:
        known = getattr(fitted, "classes_", None)
        outputs = None if net is None else net.outputs
        found = label_from_options(label, positive, frame, on, outputs=outputs, classes=known)
        claim, review = guess_claim(found, frame, delta, on)
        draft = draft_from_sklearn(fitted, split_names(protected), found, frame, claim)
        draft = replace(draft, review=(*draft.review, *review))
    except FairmendError as error:
        raise FairmendError(f"{pipeline}: {error}") from error
    inputs = None if net is None else net.inputs
    title = f"Derived from {pipeline.name} by fairmend spec from-sklearn"
    ctx.exit(finish(draft, frame, title, out, data, model, inputs, json_output=json_output))

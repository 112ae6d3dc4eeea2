"""`fairmend spec init`: draft a spec from a data file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.cli.group import Command, echo_line
from fairmend.cli.options import DATA, FILE
from fairmend.cli.spec.drafting import Verification, drafting_options, finish, refuse_overwriting, split_names
from fairmend.cli.spec.given import (
    encoded_option,
    load_scores,
    matrix_document,
    require_with,
    scores_document,
    scores_option,
)

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.base.arrays import Floats
    from fairmend.network import Network
    from fairmend.spec.draft.draft import Draft


@click.command("init", cls=Command)
@click.argument("data", type=DATA)
@click.option("--drop", default="", help="Columns that the model does not read, such as name,date.")
@click.option("--categorical", default="", help="Columns of numbers that are codes of categories.")
@click.option("--integer", default="", help="Columns that hold only whole numbers, however large.")
@click.option("--order", default="", help="The columns that the model reads, in its order; others are left out.")
@click.option(
    "--scale",
    type=click.Choice(["none", "standard", "min-max"]),
    default="none",
    show_default=True,
    help="How the model's numeric inputs are scaled; the parameters are computed from the data.",
)
@click.option(
    "--scaler", type=FILE, help="The scales themselves: a fitted scaler or ColumnTransformer, .skops, or .json."
)
@scores_option
@click.option("--score-column", help="Column of the data with the scores of the model; the spec keeps its name.")
@encoded_option
@drafting_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    data: DataSource,
    drop: str,
    categorical: str,
    integer: str,
    order: str,
    scale: str,
    scaler: Path | None,
    scores: Path | None,
    score_column: str | None,
    encoded: Path | None,
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
    """Draft a spec from a data file.

    DATA is a .csv, .csv.gz or .parquet file, or several of them, as with --data of other commands. Kinds, ranges and
    categories are guessed; comments in the spec give the reasons and say what to review. With the scores that the model
    gave (--scores), or the matrix that it read (--encoded), the encoding and the order of the columns are searched and
    verified. A column name with a comma is written in double quotes. Exits with 1 if the spec was written but does not
    fit the model, or if several encodings fit.
    """
    from fairmend.network import load_network
    from fairmend.spec.draft.from_data import draft_from_data
    from fairmend.tables import local_files, read_table

    require_with("--scores", scores, model=model)
    if encoded is not None and (scores is not None or scaler is not None):
        raise FairmendError("--encoded tells the whole encoding; leave out --scores and --scaler")
    refuse_overwriting(out, force, [*local_files(data), model, scores, encoded, scaler])
    frame = read_table(data)
    net = None if model is None else load_network(model, activation)
    codes = split_names(categorical)
    scales = None if scaler is None else _scales(scaler, frame, [*split_names(drop), *codes, label, score_column])
    try:
        draft = draft_from_data(
            frame,
            split_names(protected),
            label,
            positive,
            drop=split_names(drop),
            categorical=codes,
            integer=split_names(integer),
            order=split_names(order),
            score=score_column,
            scale=scale,
            scales=scales,
            inputs=None if net is None else net.inputs,
            delta=delta,
            on=on,
            outputs=None if net is None else net.outputs,
        )
    except FairmendError as error:
        raise FairmendError(f"{data}: {error}") from error
    verification = None
    if encoded is not None:
        draft, verification = _from_matrix(draft, frame, encoded, net)
    elif net is not None and (scores is not None or score_column is not None):
        given = load_scores(scores, draft.label, frame, net, data)
        assert given is not None
        draft, verification = _from_scores(
            draft, frame, net, given, data, scales=scales, codes=not codes, fixed_order=bool(order), quiet=json_output
        )
    title = f"Drafted from {data.name} by fairmend spec init"
    ctx.exit(finish(draft, frame, title, out, data, model, net, json_output=json_output, verification=verification))


def _scales(scaler: Path, frame: pd.DataFrame, others: list[str | None]) -> Mapping[str, Mapping[str, float]]:
    """Return the scales in a file; `others` are columns that are not numbers that the model reads."""
    import pandas as pd

    from fairmend.spec.draft.from_sklearn import read_scales

    numbers = [
        str(name)
        for name in frame.columns
        if pd.api.types.is_numeric_dtype(frame[name].dtype) and str(name) not in others
    ]
    scales, warnings = read_scales(scaler, numbers)
    for warning in warnings:
        echo_line(f"Warning: {warning}", err=True)
    unknown = [name for name in scales if name not in frame.columns]
    if unknown:
        raise FairmendError(f'{scaler}: scales "{unknown[0]}", which is not a column of the data')
    return scales


def _from_scores(
    draft: Draft, frame: pd.DataFrame, net: Network, given: Floats, data: DataSource, *, quiet: bool, **known: Any
) -> tuple[Draft, Verification]:
    from fairmend.cli.console import progress_bars
    from fairmend.evaluate.encoding.search import draft_from_scores
    from fairmend.tables import FIRST_ROW

    with progress_bars(quiet=quiet) as progress:
        try:
            made, match = draft_from_scores(draft, frame, net, given, progress=progress, first_row=FIRST_ROW, **known)
        except FairmendError as error:
            raise FairmendError(f"{data}: {error}") from error
    return made, Verification(str(match), {"scores": scores_document(match)})


def _from_matrix(draft: Draft, frame: pd.DataFrame, encoded: Path, net: Network | None) -> tuple[Draft, Verification]:
    import numpy as np

    from fairmend.evaluate.encoding.given import match_matrix, read_matrix
    from fairmend.spec.draft.from_matrix import draft_from_matrix
    from fairmend.tables import FIRST_ROW

    matrix = read_matrix(encoded, len(frame))
    if net is not None and net.inputs != matrix.shape[1]:
        raise FairmendError(f"{encoded}: has {matrix.shape[1]} columns, but the network reads {net.inputs}")
    made = draft_from_matrix(draft, frame, matrix, encoded.name)
    match = match_matrix(made.spec.encode(frame, np.float64), matrix, made.spec.column_names)
    if not match.verified:
        first = replace(match.differing[0], row=match.differing[0].row + FIRST_ROW)
        raise FairmendError(f"{encoded}: {match}: {first}. Write the spec by hand.")
    return made, Verification(str(match), {"encoded": matrix_document(match)})

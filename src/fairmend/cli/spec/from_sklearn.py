"""`fairmend spec from-sklearn`: derive the spec from a fitted scikit-learn pipeline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.cli.group import Command, echo_line
from fairmend.cli.options import DATA, DATA_FORMATS, FILE
from fairmend.cli.spec.drafting import Verification, drafting_options, finish, refuse_overwriting, split_names
from fairmend.cli.spec.given import load_scores, require_with, scores_document, scores_option

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.network import Network
    from fairmend.spec.draft.draft import Draft


@click.command("from-sklearn", cls=Command)
@click.argument("pipeline", type=FILE)
@click.option("--data", type=DATA, help=f"Raw rows for the ranges of numeric features, {DATA_FORMATS}")
@scores_option
@click.option("--trust-pickle", is_flag=True, help="Read .joblib and .pkl files, which can run any code.")
@drafting_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    pipeline: Path,
    data: DataSource | None,
    scores: Path | None,
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
    if you trust it. With the scores that the model gave for the rows of the data (--scores), the spec is verified, or
    refused if spec and model do not reproduce them. Exits with 1 if the spec was written but does not fit the model.
    """
    from fairmend.network import load_network
    from fairmend.spec.draft.from_data import guess_claim, label_from_options
    from fairmend.spec.draft.from_sklearn import draft_from_sklearn, read_pipeline
    from fairmend.tables import local_files, read_table

    require_with("--scores", scores, data=data, model=model)
    refuse_overwriting(out, force, [pipeline, *local_files(data), model, scores])
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
    title = f"Derived from {pipeline.name} by fairmend spec from-sklearn"
    verification = None
    if scores is not None and frame is not None and net is not None:
        verification = _verify(draft, frame, net, scores, data)
    ctx.exit(finish(draft, frame, title, out, data, model, net, json_output=json_output, verification=verification))


def _verify(draft: Draft, frame: pd.DataFrame, net: Network, scores: Path, data: DataSource | None) -> Verification:
    """Compare the scores of the network with those that the model gave; refuse a spec that does not reproduce them."""
    from fairmend.evaluate.encoding.given import match_scores
    from fairmend.evaluate.people import naming_file
    from fairmend.prove.fit import require_fit
    from fairmend.tables import FIRST_ROW

    spec = draft.spec
    require_fit(net, spec)
    given = load_scores(scores, draft.label, frame, net, data)
    assert given is not None
    with naming_file(data or "the data"):
        X = spec.as_inputs(frame, net.dtype, first_row=FIRST_ROW)
    match = match_scores(net, X, given, regression=spec.regression)
    if not match.verified:
        raise FairmendError(f"{scores}: {match}. The model was not trained behind this pipeline; nothing was written.")
    return Verification(str(match), {"scores": scores_document(match)})

"""`fairmend spec init` and `from-sklearn`: a draft is checked against the data, written, and explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pandas as pd
from rich.text import Text

from fairmend._version import __version__
from fairmend.cli.console import console, show_json
from fairmend.errors import FairmendError
from fairmend.network import load_network
from fairmend.spec import Spec
from fairmend.spec.draft.draft import Draft
from fairmend.tables import read_table, write_text

FITS, DOES_NOT_FIT = 0, 1


def run_init(
    data: Path,
    *,
    protected: str,
    label: str | None,
    positive: str | None,
    drop: str,
    scale: str,
    model: Path | None,
    out: Path,
    force: bool,
    json_output: bool,
) -> int:
    """Guess a spec from a data file and write it; returns 1 where it does not fit the model."""
    from fairmend.spec.draft.from_data import draft_from_data

    _refuse_overwriting(out, force, [data, model])
    frame = read_table(data)
    net = None if model is None else load_network(model)
    try:
        draft = draft_from_data(
            frame,
            _names(protected),
            label,
            positive,
            drop=_names(drop),
            scale=scale,
            inputs=None if net is None else net.inputs,
        )
    except FairmendError as error:
        raise FairmendError(f"{data}: {error}") from error
    return _finish(draft, frame, f"Guessed from {data.name} by fairmend spec init", out, data, model, json_output)


def run_from_sklearn(
    pipeline: Path,
    *,
    protected: str,
    label: str | None,
    positive: str | None,
    data: Path | None,
    model: Path | None,
    out: Path,
    force: bool,
    trust_pickle: bool,
    json_output: bool,
) -> int:
    """Read the spec of a fitted pipeline and write it; returns 1 where it does not fit the model."""
    from fairmend.spec.draft.from_sklearn import draft_from_sklearn
    from fairmend.spec.draft.labels import label_from_options
    from fairmend.spec.draft.pipeline_file import read_pipeline

    _refuse_overwriting(out, force, [pipeline, data, model])
    frame = None if data is None else read_table(data)
    fitted, warnings = read_pipeline(pipeline, trust_pickle)
    for warning in warnings:
        click.echo(f"Warning: {warning}", err=True)
    try:
        draft = draft_from_sklearn(fitted, _names(protected), label_from_options(label, positive, frame), frame)
    except FairmendError as error:
        raise FairmendError(f"{pipeline}: {error}") from error
    title = f"Read from {pipeline.name} by fairmend spec from-sklearn"
    return _finish(draft, frame, title, out, data, model, json_output)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _refuse_overwriting(out: Path, force: bool, inputs: list[Path | None]) -> None:
    for path in inputs:
        if path is not None and out.resolve() == path.resolve():
            raise FairmendError(f"{out}: is one of the inputs; name another file with --out")
    if out.exists() and not force:
        raise FairmendError(f"{out}: exists already; name another file with --out, or say --force to replace it")


def _finish(
    draft: Draft,
    frame: pd.DataFrame | None,
    title: str,
    out: Path,
    data: Path | None,
    model: Path | None,
    as_json: bool,
) -> int:
    spec = draft.spec
    if frame is not None:  # what is written must do for the data it was written for
        try:
            spec.encode(frame)
        except FairmendError as error:
            raise FairmendError(f"{data}: {error}") from error
    inputs = None if model is None else load_network(model).inputs
    fits = inputs is None or inputs == spec.width
    write_text(out, draft.toml(title))
    if Spec.load(out) != spec:
        raise RuntimeError(f"{out}: what was written is not what was meant")
    following = _following(out, data, model)
    if as_json:
        show_json(_document(draft, out, inputs, fits, following))
    else:
        _show(draft, out, model, inputs, following)
    return FITS if fits else DOES_NOT_FIT


def _following(out: Path, data: Path | None, model: Path | None) -> list[str]:
    people, network = data or "DATA", model or "MODEL"
    return [
        f"fairmend spec check {out} --data {people} --model {network}",
        f"fairmend audit {network} --data {people} --spec {out}",
        f"fairmend repair {network} --data {people} --spec {out} --out repaired",
    ]


def _document(draft: Draft, out: Path, inputs: int | None, fits: bool, following: list[str]) -> dict[str, Any]:
    return {
        "fairmend": __version__,
        "out": out,
        "columns": draft.spec.width,
        "model_inputs": inputs,
        "fits": fits,
        "spec": draft.spec.to_dict(),
        "left_out": dict(draft.left_out),
        "look_at": draft.to_review,
        "next": following,
    }


def _show(draft: Draft, out: Path, model: Path | None, inputs: int | None, following: list[str]) -> None:
    spec, screen = draft.spec, console()
    screen.print(
        Text.assemble("Written: ", (str(out), "bold"), f", {len(spec.features)} features in {spec.width} columns.")
    )
    screen.print(Text("Protected: " + ", ".join(f.name for f in spec.protected)))
    if spec.label is None:
        screen.print(Text("No label: audit works without one, repair needs [label] with column and positive."))
    else:
        screen.print(Text(f'Label: {spec.label.column}, positive "{spec.label.positive}"'))
    for name, why in draft.left_out:
        screen.print(Text(f'Left out: "{name}": {why}'), soft_wrap=True)
    if model is not None and inputs is not None and inputs != spec.width:
        words = f"It does not fit {model.name}, which reads {inputs} columns: see below."
        screen.print(Text(words, style="bold yellow"), soft_wrap=True)
    if draft.to_review:
        screen.print(Text("\nLook at these in the file before you go on:", style="bold"))
        for words in draft.to_review:
            screen.print(Text(f"  - {words}"), soft_wrap=True)
    screen.print(Text("\nThen:", style="bold"))
    for command in following:
        screen.print(Text(f"  {command}", style="cyan"), soft_wrap=True)

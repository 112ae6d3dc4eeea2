"""What the two commands that write a spec share: their options, and how they write and show a draft."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend._version import __version__
from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.cli.options import FILE, activation_option, add_options, common_options, json_option
from fairmend.cli.spec.given import HOW_TO_VERIFY

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.network import Network
    from fairmend.spec.draft.draft import Draft


FITS, DOES_NOT_FIT = 0, 1


@dataclass(frozen=True)
class Verification:
    """What verified a draft: as a sentence without the final stop, and as plain data."""

    sentence: str
    document: dict[str, Any]


drafting_options = add_options(
    click.option("--protected", required=True, help="Protected features, such as sex,race."),
    click.option("--label", help="Column with the outcome; repair needs it."),
    click.option("--positive", help="Positive value of the label; guessed if there are two values."),
    click.option("--delta", type=float, help="Claim scores: how far those of similar people may differ."),
    click.option(
        "--on",
        type=click.Choice(["probability", "logit", "output"]),
        help="The score of the claim: output for a number to predict, probability (the default) or logit for classes.",
    ),
    click.option(
        "--model", type=FILE, help="Model file, to check that the spec describes as many columns as it reads."
    ),
    activation_option,
    click.option("--out", type=FILE, default=Path("spec.toml"), show_default=True, help="File for the spec."),
    click.option("--force", is_flag=True, help="Replace the file if it exists."),
    json_option,
    common_options,
)


_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*|([^,]*))(?:,|\Z)')


def split_names(text: str) -> list[str]:
    """Return the names in a list such as "sex, race"; a name with a comma is in double quotes."""
    parts = ((quoted.replace('""', '"') or plain).strip() for quoted, plain in _NAME.findall(text))
    return [name for name in parts if name]


def refuse_overwriting(out: Path, force: bool, inputs: list[Path | None]) -> None:
    """Refuse to write over an input file, or over an existing file without --force."""
    for path in inputs:
        if path is not None and out.resolve() == path.resolve():
            raise FairmendError(f"{out}: this is one of the inputs; choose another --out")
    if out.exists() and not force:
        raise FairmendError(f"{out}: already exists; choose another --out, or replace it with --force")


def finish(
    draft: Draft,
    frame: pd.DataFrame | None,
    title: str,
    out: Path,
    data: DataSource | None,
    model: Path | None,
    net: Network | None,
    *,
    json_output: bool,
    verification: Verification | None = None,
) -> int:
    """Write the draft, show it and return the exit code; `net` is the network in the file `model`."""
    from fairmend.base.files import write_text
    from fairmend.cli.console import console, show_json, show_warnings
    from fairmend.evaluate.encoding.check import check_spec

    spec, inputs = draft.spec, None if net is None else net.inputs
    if frame is not None:  # the spec must fit the data that it was drafted from
        try:
            spec.encode(frame)
        except FairmendError as error:
            raise FairmendError(f"{data}: {error}") from error
    fits = inputs is None or inputs == spec.width
    warnings: tuple[str, ...] = ()
    if net is not None and frame is not None and fits:
        warnings = check_spec(spec, frame, net).warnings
    write_text(out, draft.toml(title))
    next_steps = _next_steps(out, data, model)
    if json_output:
        show_json({**_document(draft, out, inputs, fits, next_steps, verification), "warnings": warnings})
    else:
        _show(draft, out, model, inputs, next_steps, verification)
        show_warnings(console(), warnings)
    return FITS if fits and not draft.several else DOES_NOT_FIT


def _next_steps(out: Path, data: DataSource | None, model: Path | None) -> list[str]:
    spec, people, network = (shlex.quote(str(name)) for name in (out, data or "DATA", model or "MODEL"))
    return [
        f"fairmend spec check {spec} --data {people} --model {network}",
        f"fairmend audit {network} --data {people} --spec {spec}",
        f"fairmend repair {network} --data {people} --spec {spec} --out repaired",
    ]


def _document(
    draft: Draft,
    out: Path,
    inputs: int | None,
    fits: bool,
    next_steps: list[str],
    verification: Verification | None,
) -> dict[str, Any]:
    return {
        "fairmend": __version__,
        "out": out,
        "columns": draft.spec.width,
        "model_inputs": inputs,
        "fits": fits,
        "several_fit": draft.several,
        "verified": verification is not None,
        **({} if verification is None else verification.document),
        "spec": draft.spec.to_dict(),
        "left_out": dict(draft.left_out),
        "look_at": draft.to_review,
        "next": next_steps,
    }


def _show(
    draft: Draft,
    out: Path,
    model: Path | None,
    inputs: int | None,
    next_steps: list[str],
    verification: Verification | None,
) -> None:
    from rich.text import Text

    from fairmend.base.text import listed
    from fairmend.cli.console import console
    from fairmend.spec.describe import describe_claim

    spec, screen = draft.spec, console()
    size = f" ({len(spec.features)} features in {spec.width} columns)"
    screen.print(Text.assemble("Spec: ", (str(out), "bold"), size), soft_wrap=True)
    screen.print(Text("Protected: " + ", ".join(f.name for f in spec.protected)))
    if spec.label is None:
        screen.print(Text("Label: none. audit works without a label; repair needs [label] with column and positive."))
    else:
        kind = "a number to predict" if spec.label.is_number else f'positive "{spec.label.positive}"'
        if spec.label.classes:
            kind = f"{len(spec.label.classes)} classes: {listed(spec.label.classes)}"
        screen.print(Text(f"Label: {spec.label.column}, {kind}"))
    if spec.claim.is_score:
        screen.print(Text(f"Claim: {describe_claim(spec.claim)}"))
    for name, reason in draft.left_out:
        screen.print(Text(f'Left out: "{name}": {reason}'), soft_wrap=True)
    if model is not None and inputs is not None and inputs != spec.width:
        message = f"The spec does not fit {model.name}, which reads {inputs} columns: see below."
        screen.print(Text(message, style="bold yellow"), soft_wrap=True)
    if draft.to_review:
        screen.print()
        screen.print(Text("Review these points in the file:", style="bold"))
        for point in draft.to_review:
            screen.print(Text(f"  - {point}"), soft_wrap=True)
    screen.print()
    screen.print(Text("Next:", style="bold"))
    for step in next_steps:
        screen.print(Text(f"  {step}", style="cyan"), soft_wrap=True)
    screen.print()
    if verification is None:
        screen.print(Text(f"The encoding is unverified. {HOW_TO_VERIFY}", style="yellow"), soft_wrap=True)
    else:
        screen.print(Text(f"Encoding {verification.sentence}.", style="green"), soft_wrap=True)
    if draft.several:
        message = (
            "But others fit as well: see above." if verification is not None else "Several encodings fit: see above."
        )
        screen.print(Text(message, style="bold yellow"), soft_wrap=True)

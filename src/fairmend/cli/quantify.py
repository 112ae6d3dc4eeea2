"""`fairmend quantify`: prove which share of all people is treated equally, and which unequally."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend._version import __version__
from fairmend.cli.group import Command
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    POSITIVE,
    activation_option,
    common_options,
    device_option,
    ignore_scores_option,
    insert_formats,
    json_option,
    keep_going_option,
    model_argument,
    out_of_range_option,
    seed_option,
    spec_option,
    threshold_option,
)
from fairmend.data_source import DataSource
from fairmend.errors import FairmendError

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.progress import Progress
    from fairmend.quantify.result import QuantifyResult

__all__ = ["command"]

ALL_FAIR, SOME_UNFAIR, UNDECIDED = 0, 1, 2

_ROOM = 0.001  # of the undecided share: another machine may round differently, and count a little less


@click.command("quantify", cls=Command)
@model_argument
@spec_option
@click.option("--data", type=DATA, help=f"People to count as well, {DATA_FORMATS}")
@keep_going_option
@click.option("--seconds", type=POSITIVE, default=60.0, show_default=True, help="Stop after so many seconds.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, max_open=True),
    help="Stop as soon as at most this share of all people is undecided, such as 0.05.",
)
@click.option(
    "--boxes",
    type=click.IntRange(min=0, max=100),
    default=10,
    show_default=True,
    help="How many of the largest boxes of people who are treated unequally to show.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=20_000,
    show_default=True,
    help="How many random people to compare, for an estimate beside the proof.",
)
@device_option
@click.option("--certificate", type=FILE, help="Write a certificate of the shares, for fairmend check, to this file.")
@seed_option
@out_of_range_option
@threshold_option
@activation_option
@ignore_scores_option
@json_option
@common_options
@click.pass_context
@insert_formats
def command(ctx: click.Context, /, model: Path, spec_file: Path, **options: Any) -> None:
    """Prove which share of all people is treated equally.

    MODEL is a file: {formats}. All people are those that the spec allows, each combination of values with the same
    weight, protected features aside. The shares hold whenever the command stops. Exits with 0 if no one is proven to be
    treated unequally and no one is undecided (or at most --share is), 1 if someone is treated unequally, 2 otherwise.
    """
    ctx.exit(run_quantify(model, spec_file, **options))


def run_quantify(
    model: Path,
    spec_file: Path,
    *,
    data: DataSource | None = None,
    keep_going: bool = False,
    seconds: float = 60.0,
    share: float | None = None,
    boxes: int = 10,
    samples: int = 20_000,
    device: str = "cpu",
    certificate: Path | None = None,
    seed: int = 0,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    json_output: bool = False,
) -> int:
    """Quantify, show the shares and the map, and return the exit code."""
    from fairmend.cli.console import at_threshold, console, progress_bars, show_json, show_out_of_range, show_warnings
    from fairmend.cli.inputs import load_model, load_people, save_widened_spec, widened_spec_file
    from fairmend.quantify.run import quantify
    from fairmend.tables import describe_broken, local_files

    if certificate is not None and not certificate.absolute().parent.is_dir():
        raise FairmendError(f"{certificate}: no such folder; choose another --certificate")
    spec, net = load_model(model, spec_file, activation, ignore_scores, threshold)
    people = None if data is None else load_people(data, spec, net, out_of_range=out_of_range, keep_going=keep_going)
    spec = spec if people is None else people.spec
    inputs = [model, spec_file, *([] if data is None else local_files(data))]
    spec_out = None if certificate is None else widened_spec_file(certificate, inputs)
    with progress_bars(quiet=json_output) as progress:
        found = quantify(
            net,
            spec,
            seconds=seconds,
            share=share,
            seed=seed,
            device=device,
            X=None if people is None else people.X,
            samples=samples,
            progress=progress,
        )
    names = {
        "fairmend": __version__,
        "model": model.name,
        "data": None if data is None else data.name,
        "seed": seed,
        "threshold": spec.threshold,
        "out_of_range": None if people is None else people.out_of_range.as_dict(),
        "broken_files": [] if people is None else [file.as_dict() for file in people.broken],
    }
    screen = console()
    if not json_output:  # before the certificate: its errors must not cost the result of a long run
        title = f"{model.name}, everyone that {spec_file.name} allows{at_threshold(spec)}"
        _show(screen, title, found, boxes, None if data is None else data.name)
    written: dict[str, Any] = {}
    if certificate is not None:
        with progress_bars(quiet=json_output) as progress:
            certified = _write_certificate(certificate, model, found, progress)
        wider = None if people is None else save_widened_spec(spec, people.out_of_range, spec_out)
        written = {"certificate": certificate, "certified": certified, "widened_spec": wider}
    if json_output:
        document = found.as_dict()
        show_json({**names, **document, "boxes": document["boxes"][:boxes], **written})
    else:
        if certificate is not None:
            _show_certificate(screen, certificate, written["certified"])
        if people is not None:
            show_out_of_range(screen, people.out_of_range, written.get("widened_spec"))
            show_warnings(screen, describe_broken(people.broken))
    return _exit_code(found, share)


def _write_certificate(path: Path, model: Path, found: QuantifyResult, progress: Progress | None) -> dict[str, float]:
    """Write a certificate of as much as the checker confirms, and return the shares that it claims."""
    from tempfile import TemporaryDirectory

    from fairmend import check
    from fairmend.quantify.certificate import claim_shares

    report = None if progress is None else (lambda done, total: progress("check certificate", done, total))
    with TemporaryDirectory() as folder:
        found.certificate.save(Path(folder, "certificate.json"), model)
        checked = check(Path(folder, "certificate.json"), model, progress=report)
    if checked.fair is None or checked.unfair is None:
        raise FairmendError(f"the checker confirms nothing, so no certificate was written: {checked.reasons[0]}")
    room = _ROOM * max(0.0, 1 - checked.fair - checked.unfair)  # none if everyone is decided
    fair = min(found.fair, max(0.0, checked.fair - room))
    unfair = min(found.unfair, checked.unfair * (1 - _ROOM) if room else checked.unfair)
    if not fair and not unfair:
        raise FairmendError("the checker confirms no share, so no certificate was written; allow more --seconds")
    claim_shares(found.certificate, fair, unfair).save(path, model)
    return {"fair": fair, "unfair": unfair}


def _show_certificate(screen: Console, path: Path, certified: dict[str, float]) -> None:
    from rich.text import Text

    shares = f"{_percent(certified['fair'])} equally, {_percent(certified['unfair'])} unequally"
    screen.print(Text.assemble(f"Certificate for {shares}: ", (str(path), "bold")), soft_wrap=True)


def _exit_code(found: QuantifyResult, share: float | None) -> int:
    if found.unfair > 0 or (found.rows is not None and found.rows.unfair > 0):
        return SOME_UNFAIR
    return ALL_FAIR if found.undecided <= (share or 0.0) else UNDECIDED


def _show(screen: Console, title: str, found: QuantifyResult, boxes: int, data: str | None) -> None:
    from rich.text import Text

    from fairmend.cli.console import figures_table

    columns = ["", "Of all people"] + ([] if found.rows is None else [f"Rows of {data}"])
    table = figures_table(title, *columns, right=columns[1:])
    rows = found.rows
    for label, name, colour in (
        ("Proven to be treated equally", "fair", "green"),
        ("Proven to be treated unequally", "unfair", "red"),
        ("Undecided", "undecided", "yellow"),
    ):
        figures = [Text(_percent(getattr(found, name)), f"bold {colour}" if getattr(found, name) else "")]
        figures += [] if rows is None else [Text(f"{getattr(rows, name):,}")]
        table.add_row(label, *figures)
    screen.print(table)
    if found.sampled is not None:
        estimate = f"{found.sampled:.2%}".replace("%", " %")
        screen.print(Text(f"Of {found.samples:,} random people, {estimate} were found to be treated unequally."))
    screen.print(
        Text(f"{found.leaves:,} boxes in {found.seconds:.1f} s. The proof holds for the network's own arithmetic.")
    )
    if found.boxes[:boxes]:
        screen.print()
        _show_map(screen, found, boxes)


def _show_map(screen: Console, found: QuantifyResult, boxes: int) -> None:
    from fairmend.cli.console import figures_table

    columns = ["Of all people", "Of the box"] + ([] if found.rows is None else ["Rows in it"])
    table = figures_table(
        "Where people are treated unequally, the largest shares first", *columns, "Box", right=columns
    )
    for box in found.boxes[:boxes]:
        rows = [] if box.rows is None else [f"{box.rows:,}"]
        table.add_row(_percent(box.share), _percent(box.of_box), *rows, box.text)
    screen.print(table)


def _percent(share: float) -> str:
    """Return a share in per cent with three digits after the point, and more if it is small; exact at the ends."""
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    value = 100 * share
    return f"{value:.3f} %" if 0.001 <= value <= 99.999 else f"{value:.3g} %" if value < 1 else f"{value:.8f} %"

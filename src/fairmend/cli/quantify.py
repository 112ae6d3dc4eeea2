"""`fairmend quantify`: prove which share of all people is treated equally, and which unequally."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend._version import __version__
from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    POSITIVE,
    about_option,
    activation_option,
    cluster_option,
    common_options,
    device_option,
    ignore_scores_option,
    insert_formats,
    jobs_option,
    json_option,
    keep_going_option,
    model_argument,
    out_of_range_option,
    refuse_together,
    seed_option,
    spec_option,
    threshold_option,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.base.progress import Progress
    from fairmend.quantifying.result import QuantifyResult


ALL_FAIR, SOME_UNFAIR, UNDECIDED = 0, 1, 2

_SECONDS = (
    "Stop after this many seconds, of which the rows of the data take at most half. The map and the random people come "
    "after that."
)


@click.command("quantify", cls=Command)
@model_argument
@spec_option
@click.option("--data", type=DATA, help=f"People to count as well, {DATA_FORMATS}")
@keep_going_option
@click.option("--seconds", type=POSITIVE, default=60.0, show_default=True, help=_SECONDS)
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
    help="How many of the largest boxes of people who are treated unequally to show, also in the report.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=20_000,
    show_default=True,
    help="How many random people to compare, for an estimate beside the proof.",
)
@click.option(
    "--report",
    type=FILE,
    default=Path("fairmend-quantify"),
    show_default=True,
    help="Folder for the HTML report; other files in it are kept.",
)
@click.option("--no-report", is_flag=True, help="Do not write a report.")
@jobs_option("decide boxes of people.")
@device_option
@cluster_option
@click.option("--certificate", type=FILE, help="Write a certificate of the shares, for fairmend check, to this file.")
@seed_option
@out_of_range_option
@threshold_option
@about_option
@activation_option
@ignore_scores_option
@json_option
@common_options
@click.pass_context
@insert_formats
def command(ctx: click.Context, /, model: Path, spec_file: Path, report: Path, no_report: bool, **options: Any) -> None:
    """Prove which share of all people is treated equally.

    MODEL is a file: {formats}. All people are those that the spec allows, each combination of values with the same
    weight; of the protected features, only those that links depend on count. The shares hold whenever the command
    stops. Exits with 0 if no one is proven to be treated unequally and no one is undecided (or at most --share is), 1
    if someone is proven to be treated unequally, 2 otherwise.
    """
    refuse_together(ctx, "jobs", "cluster")
    refuse_together(ctx, "report", "no_report")
    refuse_together(ctx, "about", "no_report")
    if options["data"] is None and options["out_of_range"] != "refuse":
        raise FairmendError("--out-of-range needs --data: everyone whom the spec allows is in range")
    if options["data"] is None and options["keep_going"]:
        raise FairmendError("--keep-going needs --data: there are no files to leave out")
    folder = None if no_report else report
    ctx.exit(run_quantify(model, spec_file, report=folder, typed=typed_command(ctx), **options))


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
    report: Path | None = None,
    typed: str | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | None = None,
    certificate: Path | None = None,
    seed: int = 0,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    about: Path | None = None,
    json_output: bool = False,
) -> int:
    """Quantify, show the shares and the map, and return the exit code."""
    from fairmend.base.folders import check_folder, staged_folder
    from fairmend.cli.console import (
        at_threshold,
        console,
        progress_bars,
        show_json,
        show_out_of_range,
        show_report,
        show_warnings,
    )
    from fairmend.evaluate.build_document import quantify_document
    from fairmend.evaluate.document_parts import describe_origin
    from fairmend.quantifying.run import quantify
    from fairmend.spec.out_of_range import spec_warnings
    from fairmend.tables import describe_broken, find_files, local_files
    from fairmend.workers.engine import open_engine
    from fairmend.workflows.inputs import add_about, load_model, load_people, save_widened_spec, widened_spec_file
    from fairmend.workflows.outputs import REPORT_FILES, write_report

    if certificate is not None and not certificate.absolute().parent.is_dir():
        raise FairmendError(f"{certificate}: no such folder; choose another --certificate")
    spec, net = load_model(model, spec_file, activation, ignore_scores, threshold)
    spec = add_about(spec, about)
    inputs = [model, spec_file, *([] if data is None else local_files(data)), *([] if about is None else [about])]
    if report is not None:
        check_folder(report, [*REPORT_FILES], inputs, "--report, or pass --no-report")
    with open_engine(cluster, jobs) as workers, progress_bars(quiet=json_output) as progress:
        people = (
            None if data is None else load_people(data, spec, net, out_of_range=out_of_range, keep_going=keep_going)
        )
        spec = spec if people is None else people.spec
        spec_out = None if certificate is None else widened_spec_file(certificate, inputs)
        found = quantify(
            net,
            spec,
            seconds=seconds,
            share=share,
            seed=seed,
            device=device,
            cluster=workers,
            X=None if people is None else people.X,
            samples=samples,
            progress=progress,
        )
    warnings: list[str] = []
    if people is not None:
        warnings = [*describe_broken(people.broken), *spec_warnings(net.predict(people.X), classes=spec.classes)]
    within = f", {spec.claim.on} within {spec.claim.delta:g}" if spec.claim.is_score else ""
    title = f"{model.name}, everyone that {spec_file.name} allows{at_threshold(spec)}{within}"
    page = None if report is None else report / "report.html"
    if report is not None:
        sources = {"model": model, "spec": spec_file} | ({} if data is None else {"data": data})
        broken = [] if people is None else [file.name for file in people.broken]
        parts = None if data is None else {"data": [f.name for f in find_files(data) if f.name not in broken]}
        document = quantify_document(
            net,
            spec,
            found,
            describe_origin(sources, parts=parts, command=typed, seed=seed),
            title=title,
            boxes=boxes,
            frame=None if people is None else people.frame,
            out_of_range=None if people is None else people.out_of_range,
            warnings=warnings,
        )
        with staged_folder(report) as stage:
            write_report(stage, document)
    names = {
        "fairmend": __version__,
        "model": model.name,
        "data": None if data is None else data.name,
        "seed": seed,
        "threshold": spec.threshold,
        "out_of_range": None if people is None else people.out_of_range.as_dict(),
        "broken_files": [] if people is None else [file.as_dict() for file in people.broken],
        "report": page,
        "warnings": warnings,
    }
    screen = console()
    if not json_output:  # before the certificate: its errors must not cost the result of a long run
        _show(screen, title, found, boxes, None if data is None else data.name)
    written: dict[str, Any] = {}
    if certificate is not None:
        with progress_bars(quiet=json_output) as progress:
            certified = _write_certificate(certificate, model, found, progress)
        wider = None if people is None else save_widened_spec(spec, people.out_of_range, spec_out)
        written = {"certificate": certificate, "certified": certified, "widened_spec": wider}
    if json_output:
        figures = found.as_dict()
        show_json({**names, **figures, "boxes": figures["boxes"][:boxes], **written})
    else:
        if certificate is not None:
            _show_certificate(screen, certificate, written["certified"])
        if people is not None:
            show_out_of_range(screen, people.out_of_range, written.get("widened_spec"))
            show_warnings(screen, warnings)
        if page is not None:
            show_report(screen, page)
    return _exit_code(found, share)


def _write_certificate(path: Path, model: Path, found: QuantifyResult, progress: Progress | None) -> dict[str, float]:
    """Write a certificate of as much as the checker confirms, and return the shares that it claims."""
    from fairmend.quantifying.confirm import confirmed_certificate

    certificate = confirmed_certificate(found.evidence, found.fair, found.unfair, progress)
    certificate.save(path, model)
    return {name: certificate.content["shares"][name] for name in ("fair", "unfair")}


def _show_certificate(screen: Console, path: Path, certified: dict[str, float]) -> None:
    from rich.text import Text

    from fairmend.base.text import at_least_percent

    shares = f"{at_least_percent(certified['fair'])} equally, {at_least_percent(certified['unfair'])} unequally"
    screen.print(Text.assemble(f"Certificate for {shares}: ", (str(path), "bold")), soft_wrap=True)


def _exit_code(found: QuantifyResult, share: float | None) -> int:
    if found.unfair > 0 or (found.rows is not None and found.rows.unfair > 0):
        return SOME_UNFAIR
    return ALL_FAIR if found.undecided <= (share or 0.0) else UNDECIDED


def _show(screen: Console, title: str, found: QuantifyResult, boxes: int, data: str | None) -> None:
    from rich.text import Text

    from fairmend.base.text import at_least_percent, at_most_percent
    from fairmend.cli.console import figures_table, show_condition

    columns = ["", "Of all people"] + ([] if found.rows is None else [f"Rows of {data}"])
    table = figures_table(title, *columns, right=columns[1:])
    rows = found.rows
    for label, name, colour, percent in (
        ("Proven to be treated equally", "fair", "green", at_least_percent),
        ("Proven to be treated unequally", "unfair", "red", at_least_percent),
        ("Undecided", "undecided", "yellow", at_most_percent),
    ):
        figures = [Text(percent(getattr(found, name)), f"bold {colour}" if getattr(found, name) else "")]
        figures += [] if rows is None else [Text(f"{getattr(rows, name):,}")]
        table.add_row(label, *figures)
    screen.print(table)
    if found.sampled is not None:
        estimate = f"{found.sampled:.2%}".replace("%", " %")
        screen.print(Text(f"Of {found.samples:,} random people, {estimate} were found to be treated unequally."))
    divided = f"{found.leaves:,} {'box' if found.leaves == 1 else 'boxes'} in {found.seconds:.1f} s."
    screen.print(Text(f"{divided} The proof holds for the network's own arithmetic."))
    show_condition(screen, found.condition)
    if found.boxes[:boxes]:
        screen.print()
        _show_map(screen, found, boxes)


def _show_map(screen: Console, found: QuantifyResult, boxes: int) -> None:
    from fairmend.base.text import at_least_percent
    from fairmend.cli.console import figures_table

    columns = ["Of all people", "Of the box"] + ([] if found.rows is None else ["Rows in it"])
    table = figures_table(
        "Where people are treated unequally, the largest shares first", *columns, "Box", right=columns
    )
    for box in found.boxes[:boxes]:
        rows = [] if box.rows is None else [f"{box.rows:,}"]
        table.add_row(at_least_percent(box.share), at_least_percent(box.of_box), *rows, box.text)
    screen.print(table)

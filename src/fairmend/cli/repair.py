"""`fairmend repair`: repair a network and write the repaired network, its certificate and its report into a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    POSITIVE,
    DeviceName,
    about_option,
    activation_option,
    common_options,
    ignore_scores_option,
    insert_formats,
    json_option,
    model_argument,
    out_of_range_option,
    refuse_together,
    seed_option,
    spec_option,
    threshold_option,
    what_if_options,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend import CheckResult
    from fairmend.evaluate.compare import RepairComparison
    from fairmend.network import Network


GOOD, BAD = 0, 1


@click.command("repair", cls=Command)
@model_argument
@click.option("--data", type=DATA, required=True, help=f"People with their label, {DATA_FORMATS}")
@spec_option
@click.option("--out", type=FILE, required=True, help="Folder for the results; other files in it are kept.")
@click.option(
    "--method",
    type=click.Choice(["auto", "prof", "prof-concrete", "blind", "flip", "grft", "care"]),
    default="auto",
    show_default=True,
    help="auto runs several recipes and selects the strongest guarantee that keeps the model; prof is the method of "
    "the paper, prof-concrete its naive variant; blind makes the network ignore the protected features; flip, grft and "
    "care are baselines without a proof.",
)
@click.option(
    "--keep",
    type=click.FloatRange(0, 1),
    help="For auto: the most that accuracy and balanced accuracy (with --prefer decisions: the agreement with the "
    "original network's decisions) may fall. By default 0.02, or more with a warning if no candidate stays within it.",
)
@click.option(
    "--guarantee",
    type=click.Choice(["everyone", "listed", "any"]),
    help="For auto: everyone accepts only a proof for everyone, tolerances and links included; listed accepts a proof "
    "for the repair inputs; any, the default, takes the strongest guarantee that keeps the model.",
)
@click.option(
    "--prefer",
    type=click.Choice(["accuracy", "decisions"]),
    help="For auto: what to keep, the accuracy or the decisions of the original network. By default the accuracy, or "
    "the decisions if all calibration rows have the same label.",
)
@click.option("--repair-data", type=DATA, help="Data with the repair inputs. By default they are drawn from the data.")
@click.option(
    "--test-data",
    type=DATA,
    help="Labelled people that the network was not trained on, .csv, .csv.gz or .parquet: accuracy and group "
    "figures are measured on them. By default they come from rows of the data, which may have been used for training.",
)
@click.option(
    "--repair-rows",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Number of repair inputs to draw from the data.",
)
@click.option(
    "--calibration-rows",
    type=click.IntRange(min=1),
    default=500,
    show_default=True,
    help="Number of other rows for the calibration set, which keeps the accuracy.",
)
@seed_option
@click.option(
    "--steps", type=click.IntRange(min=0), help="Training steps. The default depends on the method: 200 for prof."
)
@click.option(
    "--learning-rate", type=POSITIVE, help="Learning rate. The default depends on the method: 0.001 for prof."
)
@click.option(
    "--bounds",
    type=click.Choice(["linear", "interval"]),
    help="Bounds that calibration tightens. By default linear.",
)
@click.option(
    "--device",
    type=DeviceName(),
    help="Where networks are trained and bounds are computed, those of the proof in float64. By default cpu. cuda is a "
    "GPU (cuda:1 the second one), and auto takes a GPU, if there is one, for networks with a layer of more than 128 "
    "units.",
)
@click.option(
    "--margin",
    type=POSITIVE,
    help="Smallest margin of each repair input: how far its score stays from the decision threshold. By default 1e-06.",
)
@click.option(
    "--solver",
    type=click.Choice(["highs", "scip", "gurobi"]),
    help="Mixed-integer solver. By default highs.",
)
@click.option(
    "--time-limit",
    type=POSITIVE,
    help="Seconds for the whole repair. Then training ends, the solver returns its best solution, and auto selects "
    "among the recipes that it has evaluated.",
)
@click.option(
    "--gap",
    type=click.FloatRange(0, 1),
    help="Relative gap at which the solver may stop. By default 0.",
)
@out_of_range_option
@threshold_option
@about_option
@what_if_options
@activation_option
@ignore_scores_option
@json_option
@common_options
@click.pass_context
@insert_formats
def command(
    ctx: click.Context,
    /,
    model: Path,
    data: DataSource,
    spec_file: Path,
    out: Path,
    repair_data: DataSource | None,
    test_data: DataSource | None,
    repair_rows: int,
    calibration_rows: int,
    seed: int,
    out_of_range: str,
    threshold: float | None,
    about: Path | None,
    no_what_if: bool,
    what_if_rows: int,
    activation: str | None,
    ignore_scores: bool,
    json_output: bool,
    **options: Any,
) -> None:
    """Repair a network and prove the result.

    MODEL is a file: {formats}. The repair changes the network as little as possible so that each repair input provably
    gets the same prediction (or, if the spec claims scores, scores that differ by at most delta) for all values of the
    protected features and for all changes within a tolerance or by a link. With blind, and with auto where it can be
    proven, the protected features change no prediction at all. Exits with 0 if all repair inputs are treated equally,
    and 1 if some are not, which happens only with a baseline (flip, grft, care), or if the network (with auto, every
    candidate) collapsed: it lost a class, or agrees with the original hardly more than chance would.

    Writes into the folder: the network (model, with the suffix of MODEL), certificate.json (for fairmend check),
    spec.toml, repair_inputs.csv, result.json (all figures), report.html and report.json.
    """
    refuse_together(ctx, "repair_rows", "repair_data")
    refuse_together(ctx, "what_if_rows", "no_what_if")
    code = run_repair(
        model,
        data,
        spec_file,
        out,
        repair_data=repair_data,
        test_data=test_data,
        repair_rows=repair_rows,
        calibration_rows=calibration_rows,
        seed=seed,
        out_of_range=out_of_range,
        threshold=threshold,
        about=about,
        activation=activation,
        ignore_scores=ignore_scores,
        json_output=json_output,
        typed=typed_command(ctx),
        what_if_rows=None if no_what_if else what_if_rows,
        options={name: value for name, value in options.items() if name == "method" or _is_given(ctx, name)},
    )
    ctx.exit(code)


def _is_given(ctx: click.Context, name: str) -> bool:
    """Return whether the user set an option: the repair refuses options that its method does not use."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def run_repair(
    model: Path,
    data: DataSource,
    spec_file: Path,
    out: Path,
    *,
    repair_data: DataSource | None = None,
    test_data: DataSource | None = None,
    repair_rows: int = 100,
    calibration_rows: int = 500,
    seed: int = 0,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    about: Path | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    json_output: bool = False,
    typed: str | None = None,
    what_if_rows: int | None = None,
    options: Mapping[str, Any],
) -> int:
    """Repair the network in `model`, write the folder `out`, show the result and return the exit code."""
    from fairmend.base.folders import check_folder
    from fairmend.cli.console import (
        at_threshold,
        console,
        progress_bars,
        show_check,
        show_files,
        show_json,
        show_out_of_range,
        show_report,
        warn_before,
    )
    from fairmend.cli.figures import show_comparison
    from fairmend.evaluate.compare import claim_needs_range, measure, repair_and_compare
    from fairmend.evaluate.people import choose_policy, require_given_scores
    from fairmend.evaluate.split import split_data
    from fairmend.network.formats import require_room
    from fairmend.repairing.options import check_applicable, has_tolerances
    from fairmend.tables import local_files, read_table
    from fairmend.workflows.inputs import add_about, load_model, without_scores
    from fairmend.workflows.outputs import REPORT_FILES, form_warning

    repaired = f"model{model.suffix.lower()}"
    files = {
        repaired: "the repaired network",
        "certificate.json": "the certificate, for fairmend check",
        "spec.toml": "the spec",
        "repair_inputs.csv": "the repair inputs",
        "result.json": "all figures, losses and warnings",
        **REPORT_FILES,
    }
    roles = {"data": data, "repair data": repair_data, "test data": test_data}
    tables = {role: source for role, source in roles.items() if source is not None}
    files_of_tables = [path for source in tables.values() for path in local_files(source)]
    inputs = [path for path in (model, *files_of_tables, spec_file, about) if path is not None]
    check_folder(out, list(files), inputs)
    replaces = (out / "result.json").exists()
    replaced_model = _model_of_earlier_repair(out, inputs)
    spec, net = load_model(model, spec_file, activation, ignore_scores, threshold)
    method_options = {name: value for name, value in options.items() if name != "method"}
    check_applicable(options["method"], method_options, has_tolerances(spec))  # before the data is read and audited
    require_room(net, model)
    warn_before(form_warning(net, model.suffix.lower()))
    spec = add_about(spec, about)
    frame, policy = read_table(data), choose_policy(out_of_range, claim_needs_range(spec, options))
    require_given_scores(spec, net, frame, data, policy)
    people = split_data(
        without_scores(spec),  # they are those of the original network, and this spec goes with the repaired one
        net,
        read_table(data),
        source=data,
        repair_frame=None if repair_data is None else read_table(repair_data),
        repair_source=repair_data or "",
        test_frame=None if test_data is None else read_table(test_data),
        test_source=test_data or "",
        repair_rows=repair_rows,
        calibration_rows=calibration_rows,
        seed=seed,
        policy=policy,
    )
    with progress_bars(quiet=json_output) as progress:
        before = measure(net, people, stage="audit original", seed=seed, progress=progress)
        comparison = repair_and_compare(net, people, before, seed=seed, progress=progress, options=options)
    about_run = {
        "seed": seed,
        "threshold": spec.threshold,
        "about": spec.about.to_dict(),
        "model": model.name,
        "data": data.name,
        "test_data": None if test_data is None else test_data.name,
    }
    sources = {"model": model, "data": data, "spec": spec_file, **tables}
    comparison, checked = _write(
        out, net, comparison, about_run, sources, typed, seed, what_if_rows, without=replaced_model
    )
    certificate = comparison.result.certificate
    covers = comparison.guarantee.partial_coverage()
    if checked is None:
        del files["certificate.json"]
    elif covers:
        files["certificate.json"] = f"a certificate for {covers}, for fairmend check"
    collapsed = comparison.result.collapsed
    code = BAD if comparison.after.repair.count or collapsed else GOOD
    if json_output:
        check = None if checked is None else checked.as_dict()
        written = {name: out / name for name in files}
        show_json({**comparison.as_dict(), **about_run, "certificate_check": check, "files": written})
        return code
    screen = console()
    if collapsed:
        _show_collapse(screen, comparison)
    show_comparison(
        screen, comparison, f"{model.name}, repaired with method {comparison.result.method}{at_threshold(spec)}"
    )
    show_out_of_range(screen, people.out_of_range, out / "spec.toml" if people.out_of_range.ranges else None)
    show_files(screen, out, files)
    if replaces:
        _show_replaced(screen, out, files, replaced_model)
    if certificate is not None and checked is not None:
        show_check(screen, checked, out / "certificate.json", out / repaired, covers, real=certificate.real_only)
    show_report(screen, out / "report.html")
    return code


def _show_collapse(screen: Console, comparison: RepairComparison) -> None:
    """Say in the first line that the network is worth little, whatever is proven about it, and what may help."""
    from rich.text import Text

    from fairmend.evaluate.summary import describe_collapse

    people = comparison.split
    sentence = describe_collapse(comparison.result, people.spec, len(people.calibration))
    screen.print(Text(sentence, style="bold red"))
    screen.print()


def _model_of_earlier_repair(out: Path, inputs: Sequence[Path]) -> list[str]:
    """Return the name of the network that an earlier repair wrote into the folder, if the file is still the same.

    Beside a new certificate it would pass for the network that the certificate is about.
    """
    from fairmend.evaluate.document_parts import file_digest
    from fairmend.report import load_report

    try:
        files = load_report(out).document.origin.files
    except FairmendError:  # no report, or one that cannot be read: then the folder says nothing about its files
        return []
    return [
        file.name
        for file in files
        if file.role == "repaired model"
        and Path(file.name).name == file.name
        and (out / file.name).is_file()
        and file_digest(out / file.name) == file.sha256
        and not any((out / file.name).samefile(path) for path in inputs)
    ]


def _show_replaced(screen: Console, out: Path, files: Mapping[str, str], removed: Sequence[str]) -> None:
    """Say that an earlier repair in the same folder was replaced, and which of its files are gone or still there."""
    from rich.text import Text

    screen.print(Text(f"These files replace an earlier repair in {out}.", style="yellow"))
    gone = [name for name in removed if name not in files]
    if gone:
        screen.print(Text(f"The network of the earlier repair was deleted: {', '.join(gone)}.", style="yellow"))
    stale = [path for path in sorted(out.glob("model.*")) if path.name not in files]
    if stale:
        names = ", ".join(path.name for path in stale)
        screen.print(Text(f"Left over from the earlier repair: {names}.", style="yellow"))


def _write(
    out: Path,
    original: Network,
    comparison: RepairComparison,
    about_run: Mapping[str, object],
    sources: Mapping[str, DataSource],
    typed: str | None,
    seed: int,
    what_if_rows: int | None,
    *,
    without: Sequence[str],
) -> tuple[RepairComparison, CheckResult | None]:
    """Write the folder, once the certificate is checked; return the result of that check, or None without one.

    The comparison is returned with a warning if the file has another form than the original. Files named in `without`
    are deleted, unless they are written anew.
    """
    from fairmend.base.files import write_json
    from fairmend.base.folders import staged_folder
    from fairmend.tables import write_csv
    from fairmend.workflows.outputs import describe_repair, save_checked, save_unchecked, write_report

    certificate, checked = comparison.result.certificate, None
    # a certificate of an earlier repair is about another network
    outdated = [*without, *(["certificate.json"] if certificate is None else [])]
    with staged_folder(out, without=outdated) as stage:
        model = stage / f"model{Path(sources['model'].name).suffix.lower()}"
        if certificate is None:
            other = save_unchecked(comparison.result.network, model)
        else:
            checked, other = save_checked(comparison.result.network, certificate, stage / "certificate.json", model)
        if other:
            comparison = replace(comparison, warnings=(*comparison.warnings, other))
        comparison.split.spec.save(stage / "spec.toml")
        write_csv(stage / "repair_inputs.csv", comparison.split.repair_frame)
        write_json(stage / "result.json", {**comparison.as_dict(), **about_run})
        page = describe_repair(original, comparison, out, stage, model.name, sources, typed, seed, what_if_rows)
        write_report(stage, page if checked is None else replace(page, condition=checked.condition))
    return comparison, checked

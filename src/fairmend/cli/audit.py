"""`fairmend audit`: count the people who are treated unequally, in a file or in samples, and show the worst pairs."""

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
    resume_option,
    seed_option,
    spec_option,
    threshold_option,
    what_if_options,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairmend.auditing.disparity import ScoreSummary
    from fairmend.auditing.plan import AuditPlan
    from fairmend.auditing.result import AuditResult
    from fairmend.base.progress import Progress
    from fairmend.evaluate.labelled import LabelledFigures
    from fairmend.spec import Spec
    from fairmend.tables import TableStream
    from fairmend.workers.engine import Engine


NONE_UNEQUAL, SOME_UNEQUAL = 0, 1
WIDENED = "spec.toml"  # in the folder of the report, if ranges were widened
_LONG = 5.0  # seconds that an audit may take without announcing it


@click.command("audit", cls=Command)
@model_argument
@spec_option
@click.option("--data", type=DATA, help=f"People to audit, {DATA_FORMATS} Without it, audit random samples.")
@keep_going_option
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Number of random samples without --data.",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "exact", "enumerate", "branch", "sample"]),
    default="auto",
    show_default=True,
    help="How to compare people with their counterfactuals: all of them (enumerate), with bounds over all of them "
    "(branch), or random ones, which gives a lower bound (sample). exact takes the faster of the first two, and auto "
    "samples if that takes more than five minutes.",
)
@click.option("--time-limit", type=POSITIVE, help="Seconds for branch; people who are not decided by then are unknown.")
@jobs_option("compare people with their counterfactuals. The result is the same.")
@device_option
@cluster_option
@resume_option
@seed_option
@click.option("--pairs", type=click.IntRange(min=0), default=5, show_default=True, help="Number of pairs to show.")
@click.option("--out", type=FILE, help="CSV file for everyone who is treated unequally, each with a counterfactual.")
@click.option(
    "--report",
    type=FILE,
    default=Path("fairmend-audit"),
    show_default=True,
    help="Folder for the HTML report; other files in it are kept.",
)
@click.option("--no-report", is_flag=True, help="Do not write a report.")
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
    spec_file: Path,
    report: Path,
    no_report: bool,
    no_what_if: bool,
    what_if_rows: int,
    **options: Any,
) -> None:
    """Count the people who are treated unequally.

    MODEL is a file: {formats}. A person is treated unequally if changing only protected features (and others within
    their tolerance) changes the prediction; if the spec claims scores, if the scores of similar people differ by more
    than delta. Exits with 0 if no one is treated unequally, 1 if at least one person is.
    """
    refuse_together(ctx, "samples", "data")
    refuse_together(ctx, "jobs", "cluster")
    refuse_together(ctx, "report", "no_report")
    if options["data"] is None and options["out_of_range"] != "refuse":
        raise FairmendError("--out-of-range needs --data: random samples are always in range")
    if options["data"] is None and options["keep_going"]:
        raise FairmendError("--keep-going needs --data: random samples come from no files")
    refuse_together(ctx, "about", "no_report")
    refuse_together(ctx, "no_what_if", "no_report")
    refuse_together(ctx, "what_if_rows", "no_report")
    refuse_together(ctx, "what_if_rows", "no_what_if")
    folder, rows = None if no_report else report, None if no_what_if else what_if_rows
    ctx.exit(run_audit(model, spec_file, report=folder, what_if_rows=rows, typed=typed_command(ctx), **options))


def run_audit(
    model: Path,
    spec_file: Path,
    *,
    data: DataSource | None = None,
    keep_going: bool = False,
    samples: int = 100_000,
    method: str = "auto",
    time_limit: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | None = None,
    resume: Path | None = None,
    seed: int = 0,
    pairs: int = 5,
    out: Path | None = None,
    report: Path | None = None,
    what_if_rows: int | None = None,
    typed: str | None = None,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    about: Path | None = None,
    json_output: bool = False,
) -> int:
    """Audit the people in the file, or samples, show the result and return the exit code."""
    from rich.text import Text

    from fairmend.auditing.neighbours import reads_what_varies
    from fairmend.auditing.run import audit
    from fairmend.base.folders import check_folder, staged_folder
    from fairmend.cli.console import (
        at_threshold,
        console,
        progress_bars,
        show_condition,
        show_json,
        show_out_of_range,
        show_report,
        show_warnings,
    )
    from fairmend.cli.figures import show_disparity
    from fairmend.evaluate.build_document import audit_document, audit_warnings
    from fairmend.evaluate.document_parts import describe_origin
    from fairmend.evaluate.labelled import LabelledRows
    from fairmend.evaluate.pairs_file import PairsFile
    from fairmend.evaluate.people import choose_policy
    from fairmend.evaluate.people_stream import PeopleStream
    from fairmend.evaluate.row_numbers import RowNumbers, number_pairs
    from fairmend.evaluate.what_if import add_what_if
    from fairmend.spec.out_of_range import OutOfRange
    from fairmend.tables import describe_broken, local_files
    from fairmend.workers.engine import open_engine
    from fairmend.workflows.inputs import add_about, load_model, save_widened_spec, widened_spec_file
    from fairmend.workflows.outputs import REPORT_FILES, write_report

    spec, net = load_model(model, spec_file, activation, ignore_scores, threshold)
    spec = add_about(spec, about)
    inputs = [path for path in (model, spec_file, *local_files(data), about) if path is not None]
    if report is not None:
        check_folder(report, [*REPORT_FILES, WIDENED], inputs, "--report, or pass --no-report")
    spec_out = None if out is None else widened_spec_file(out, inputs)
    with open_engine(cluster, jobs) as engine, progress_bars(quiet=json_output) as progress:
        table = None if data is None else _open_table(data, spec, engine, progress, keep_going=keep_going)
        people = None
        if table is not None:
            policy = choose_policy(out_of_range, reads_what_varies(net, spec))
            people = PeopleStream(spec, net, table, policy, engine=engine, asked=out_of_range)
            spec = people.spec
        numbers = RowNumbers(first=1) if people is None else people.rows
        with PairsFile(out, spec, net, inputs, with_ids=people is not None, table=table) as file:
            if people is not None:
                people.write_pairs(file)
            result = audit(
                net,
                spec,
                people,
                samples,
                seed,
                pairs=pairs,
                method=method,
                time_limit=time_limit,
                device=device,
                cluster=engine,
                resume=resume,
                progress=progress,
                on_plan=None if json_output else _announce,
                witnesses=None if out is None else lambda rows, X, other: file.write_people(numbers, rows, X, other),
            )
    labelled = LabelledRows(spec, net) if people is None else people.labelled
    result = number_pairs(result, numbers).name_classes(spec.label, labelled.distinct_values)
    done = OutOfRange(out_of_range) if people is None else people.out_of_range
    figures = labelled.figures(result.rows)
    broken = () if table is None else table.broken
    warnings = [*describe_broken(broken), *labelled.warnings(data), *audit_warnings(net, spec, result, figures)]
    title = f"{model.name} on {data.name if data else 'random samples'}{at_threshold(spec)}"
    if report is not None:
        sources: dict[str, DataSource] = {"model": model, "spec": spec_file}
        sources |= {} if data is None else {"data": data}
        document = audit_document(
            net,
            spec,
            result,
            describe_origin(sources, parts=None if table is None else {"data": table.files}, command=typed, seed=seed),
            title=title,
            labelled=figures,
            frame=labelled.distinct_labels(),
            warnings=warnings,
            rows=numbers,
            out_of_range=done,
        )
        if what_if_rows is not None:
            document = add_what_if(
                document,
                spec,
                result.examined.X,
                net,
                people=result.examined.rows,
                numbers=numbers,
                rows=what_if_rows,
                seed=seed,
            )
        with staged_folder(report) as stage:
            write_report(stage, document)
            save_widened_spec(spec, done, stage / WIDENED)
    wider = save_widened_spec(spec, done, spec_out)
    wider = report / WIDENED if report is not None and done.ranges else wider
    page = None if report is None else report / "report.html"
    if json_output:
        names = {"fairmend": __version__, "model": model.name, "data": None if data is None else data.name}
        measured = {
            "seed": seed,
            "threshold": spec.threshold,
            "about": spec.about.to_dict(),
            **result.as_dict(),
            **_labelled_figures(figures),
        }
        handled: dict[str, Any] = {"out_of_range": done.as_dict(), "widened_spec": wider}
        handled |= {"broken_files": [file.as_dict() for file in broken]}
        show_json({**names, **measured, "out": out, "report": page, **handled, "warnings": warnings})
    else:
        screen = console()
        _show(screen, title, result, figures)
        show_disparity(screen, spec, net.outputs, result)
        _show_pairs(screen, spec, net.outputs, result)
        show_condition(screen, result.condition)
        show_out_of_range(screen, done, wider)
        show_warnings(screen, warnings)
        if out is not None:
            screen.print()
            screen.print(Text.assemble("Everyone who is treated unequally: ", (str(out), "bold")), soft_wrap=True)
        if page is not None:
            show_report(screen, page)
    return SOME_UNEQUAL if result.count else NONE_UNEQUAL


def _open_table(data: DataSource, spec: Spec, engine: Engine, progress: Progress, *, keep_going: bool) -> TableStream:
    """Return the table with the columns that the spec names."""
    from fairmend.tables import stream_table

    needed, useful = spec.data_columns
    wanted = {*needed, *useful}
    table = stream_table(data, keep_going=keep_going, spool=wanted, engine=engine, progress=progress)
    return table.only(needed, useful)


def _announce(plan: AuditPlan) -> None:
    """Print how long the audit may take, if that is long."""
    from fairmend.cli.console import stderr_console

    if plan.seconds < _LONG:
        return
    line = f"{plan.describe()[0].upper()}{plan.describe()[1:]}."
    if plan.method != "sample":
        line += " --method sample gives a lower bound sooner."
    stderr_console().print(line)


def _labelled_figures(labelled: LabelledFigures) -> dict[str, object]:
    from dataclasses import asdict

    utility = None if labelled.utility is None else asdict(labelled.utility)
    if utility is not None:
        del utility["changed"]  # there is no other network to compare with
    return {
        "labelled_rows": labelled.rows,
        "utility": utility,
        "regression": None if labelled.regression is None else asdict(labelled.regression),
        "groups": [asdict(group) for group in labelled.groups],
    }


def _show(screen: Console, title: str, result: AuditResult, labelled: LabelledFigures) -> None:
    from rich.text import Text

    from fairmend.base.text import percent
    from fairmend.cli.console import figures_table
    from fairmend.cli.figures import add_disparity

    table = figures_table(title, "", " ", right=(" ",))
    least = "" if result.exact else "at least "
    style = "bold red" if result.count else "bold green"
    table.add_row("Random samples of the input space" if result.sampled else "People in the data", f"{result.total:,}")
    figure = "IDI-S" if result.sampled else "IDI-D"
    none_found = not result.exact and not result.count
    people = "none found" if none_found else f"{least}{result.count:,}"
    table.add_row(f"Treated unequally ({figure})", Text(people, style=style))
    if not none_found:
        table.add_row("Share treated unequally", Text(f"{least}{percent(result.idi_rate, 2)}", style=style))
    if result.unknown and result.method == "branch":
        table.add_row("Undecided", f"{result.unknown:,}")
    if result.interval:
        low, high = result.interval
        table.add_row("95 % confidence interval", f"{percent(low, 2)} to {percent(high, 2)}")
    table.add_row("Scores compared", f"{result.evaluations:,} in {result.seconds:.2f} s")
    if result.scores is not None:
        _add_scores(
            table,
            result.scores,
            "" if result.method == "enumerate" else "at least ",
            same=result.scores.claim.on == result.disparity.on,
        )
    _add_utility(table, labelled)
    add_disparity(table, result.disparity)
    screen.print(table)
    if not result.exact:
        screen.print(Text(_explain_lower_bound(result), style="yellow"))


def _explain_lower_bound(result: AuditResult) -> str:
    from fairmend.auditing.plan import describe_seconds

    if result.method == "branch":
        return (
            f"{result.unknown:,} more may be treated unequally: their scores come within rounding error of the "
            "decision, or the time limit was reached."
        )
    line = "Only random counterfactuals were tried: more people may be treated unequally."
    seconds = result.plan.exact_seconds
    if seconds is not None:
        line += f" An exact count would take about {describe_seconds(seconds)} or more: pass --method exact."
    return line


def _add_scores(table: Table, scores: ScoreSummary, least: str, *, same: bool) -> None:
    """Add what the claim allows, and the differences unless the disparity shows the same ones."""
    claim = scores.claim
    table.add_section()
    table.add_row(f"Allowed difference of the {claim.on}", f"{claim.delta:.4g}")
    if not same:
        table.add_row("Largest difference within a neighbourhood", f"{least}{scores.largest:.4g}")
        table.add_row("Median difference / 90th percentile", f"{scores.median:.4g} / {scores.most:.4g}")


def _add_utility(table: Table, labelled: LabelledFigures) -> None:
    from fairmend.base.text import percent
    from fairmend.cli.console import group_figures, group_heading, regression_figures

    utility, regression = labelled.utility, labelled.regression
    caption = f"* on the {labelled.rows:,} rows with a label"
    if regression is not None:
        table.add_section()
        for name, figure in regression_figures(regression):
            table.add_row(f"{name} *", figure)
        table.caption = caption
    if utility is None:
        return
    table.add_section()
    table.add_row("Accuracy *", percent(utility.accuracy))
    table.add_row("Balanced accuracy *", percent(utility.balanced_accuracy))
    if utility.positive_rate is not None:
        table.add_row("Positive rate *", percent(utility.positive_rate))
    if utility.auc is not None and utility.average_precision is not None:
        table.add_row("AUC / average precision *", f"{utility.auc:.3f} / {utility.average_precision:.3f}")
    for group in labelled.groups:
        table.add_row(f"{group_heading(group)} *", group_figures(group))
    table.caption = caption


def _show_pairs(screen: Console, spec: Spec, outputs: int, result: AuditResult) -> None:
    from fairmend.cli.console import show_pairs

    if not result.pairs:
        return
    shown = len(result.pairs)
    if result.scores is not None:
        screen.print("\nThe largest differences:")
    else:
        screen.print("\nThe worst pairs:" if shown < result.count else "\nTreated unequally:")
    show_pairs(screen, spec, outputs, result.pairs, "sample" if result.sampled else "row")

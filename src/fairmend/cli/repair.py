"""`fairmend repair`: repair a network and write the repaired network, its certificate and its report into a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend.base.paths import DataSource
from fairmend.cli.group import Command, typed_command
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    POSITIVE,
    DeviceName,
    about_option,
    group_option,
    model_options,
    output_options,
    outputs_option,
    reading_options,
    refuse_together,
    seed_option,
    table_options,
    what_if_options,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.evaluate.compare import RepairComparison
    from fairmend.workflows import RepairedFiles


GOOD, BAD = 0, 1
_OF_METHOD = [
    "keep",
    "guarantee",
    "prefer",
    "keep_form",
    "candidate",
    "keep_candidates",
    "steps",
    "learning_rate",
    "bounds",
    "device",
    "margin",
    "solver",
    "time_limit",
    "gap",
]


_USUAL = [
    "data",
    "spec_file",
    "out",
    "method",
    "keep",
    "guarantee",
    "test_data",
    "group",
    "candidate",
    "time_limit",
    "json_output",
    "help",
    "help_all",
]


@click.command("repair", cls=Command, usual=_USUAL)
@model_options
@click.option("--data", type=DATA, required=True, help=f"People with their label, {DATA_FORMATS}")
@click.option("--out", type=FILE, required=True, help="Folder for the results; other files in it are kept.")
@click.option(
    "--method",
    type=click.Choice(["auto", "average", "prof", "prof-concrete", "blind", "flip", "grft", "care"]),
    default="auto",
    show_default=True,
    help="auto runs several recipes and selects the strongest guarantee that keeps the model; average lets any model "
    "read classes of similar people, and averages its scores over their members; prof is the method of the paper, "
    "prof-concrete its naive variant; blind makes the network ignore the protected features; flip, grft and "
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
@click.option(
    "--keep-form",
    is_flag=True,
    default=None,
    help="For auto: leave out repairs that put nodes in front of the network, which are saved as .onnx.",
)
@click.option(
    "--candidate",
    type=click.IntRange(min=1),
    help="For auto: take the candidate with this number in the table of candidates, instead of the selected one.",
)
@click.option(
    "--keep-candidates",
    is_flag=True,
    default=None,
    help="For auto: write the other proven candidates to the folder too, each with its certificate.",
)
@table_options
@click.option("--repair-data", type=DATA, help="Data with the repair inputs. By default they are drawn from the data.")
@click.option(
    "--test-data",
    type=DATA,
    help="Labelled people that the network was not trained on, in the formats of --data: accuracy and group "
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
@group_option
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
@reading_options
@outputs_option
@about_option
@what_if_options
@output_options
def command(
    ctx: click.Context,
    /,
    model: Path,
    data: DataSource,
    spec_file: Path,
    out: Path,
    no_what_if: bool,
    what_if_rows: int,
    json_output: bool,
    **options: Any,
) -> None:
    """Repair a network and prove the result.

    MODEL is a file: {formats}. Any other .onnx file is repaired by classes of similar people (average). The repair
    changes the network as little as possible so that each repair input provably gets the same prediction as all similar
    people (or, if the spec claims scores, scores that differ by at most delta). With blind and average, and with auto
    where it can be proven, the protected features change no prediction at all. Exits with 0 if all repair inputs are
    treated equally, and 1 if some are not, which happens only with a baseline (flip, grft, care), or if the network
    (with auto, every candidate) collapsed: it lost a class, or agrees with the original hardly more than chance would.

    Writes into the folder: the network (model, with the suffix of MODEL), certificate.json (for fairmend check),
    spec.toml, repair_inputs.csv, result.json (all figures) and report.html. For a pipeline, it writes the network as
    model.onnx, and the pipeline with the repaired network in it.
    """
    from fairmend.cli.console import console, progress_bars, show_json, warn_before
    from fairmend.workflows import repair_files

    refuse_together(ctx, "repair_rows", "repair_data")
    refuse_together(ctx, "what_if_rows", "no_what_if")
    of_method = {name: options.pop(name) for name in _OF_METHOD}
    with progress_bars(quiet=json_output) as progress:
        repaired = repair_files(
            model,
            spec_file,
            data,
            out,
            what_if_rows=None if no_what_if else what_if_rows,
            options={name: value for name, value in of_method.items() if _is_given(ctx, name)},
            command=typed_command(ctx),
            progress=progress,
            warn=warn_before,
            **options,
        )
    if json_output:
        show_json(repaired.document.printed())
    else:
        _show(console(), repaired, model)
    ctx.exit(BAD if repaired.document.after.repair_inputs.count or repaired.document.collapsed else GOOD)


def _is_given(ctx: click.Context, name: str) -> bool:
    """Return whether the user set an option: the repair refuses options that its method does not use."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _show(screen: Console, repaired: RepairedFiles, model: Path) -> None:
    """Print the comparison, and what is in the folder."""
    from fairmend.cli.console import show_check, show_files, show_out_of_range, show_report
    from fairmend.cli.figures import show_comparison, show_proxies
    from fairmend.workflows.inputs import at_threshold

    comparison, folder, document = repaired.comparison, repaired.folder, repaired.document
    done, at = document.out_of_range, at_threshold(comparison.split.spec)
    if document.collapsed:
        _show_collapse(screen, comparison)
    show_comparison(screen, document, f"{model.name}, repaired with method {document.method}{at}")
    show_proxies(screen, document.proxies)
    show_out_of_range(screen, done, folder / "spec.toml" if done is not None and done.ranges else None)
    show_files(screen, folder, repaired.contents)
    if repaired.replaced:
        _show_replaced(screen, folder, repaired.contents, repaired.removed)
    if document.certificate is not None and repaired.check is not None:
        covers, real = comparison.guarantee.partial_coverage(), document.certificate.arithmetic == "real"
        show_check(screen, repaired.check, folder / "certificate.json", folder / repaired.model, covers, real=real)
    show_report(screen, folder / "report.html")


def _show_collapse(screen: Console, comparison: RepairComparison) -> None:
    """Say in the first line that the network is worth little, whatever is proven about it, and what may help."""
    from rich.text import Text

    from fairmend.evaluate.summary import describe_collapse

    people = comparison.split
    sentence = describe_collapse(comparison.result, people.spec, len(people.calibration))
    screen.print(Text(sentence, style="bold red"))
    screen.print()


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

"""`fairmend repair`: repair a network and write the repaired network, its certificate and its report into a folder."""

from __future__ import annotations

from typing import Any

import click

from fairmend.cli.group import Command
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
def command(ctx: click.Context, /, json_output: bool, **options: Any) -> None:
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
    from fairmend.cli.console import run_and_show, warn_before
    from fairmend.cli.repaired import show_repair
    from fairmend.workflows import repair_files

    refuse_together(ctx, "repair_rows", "repair_data")
    of_method = {name: options.pop(name) for name in _OF_METHOD}
    repaired = run_and_show(
        ctx,
        repair_files,
        show_repair,
        json_output,
        options={name: value for name, value in of_method.items() if _is_given(ctx, name)},
        warn=warn_before,
        **options,
    )
    ctx.exit(BAD if repaired.document.after.repair_inputs.count or repaired.document.collapsed else GOOD)


def _is_given(ctx: click.Context, name: str) -> bool:
    """Return whether the user set an option: the repair refuses options that its method does not use."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT

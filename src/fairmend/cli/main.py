"""The command line. Commands import what they need when they run, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairmend._version import __version__
from fairmend.cli.completion import SHELLS, completion_script
from fairmend.cli.group import TYPED as _TYPED
from fairmend.cli.group import BareCommand, Group, config_of
from fairmend.cli.group import common_options as _verbose
from fairmend.cli.options import FILE as _FILE
from fairmend.cli.options import POSITIVE as _POSITIVE
from fairmend.cli.options import activation_option as _activation
from fairmend.cli.options import json_option as _json
from fairmend.cli.options import names_formats as _names_formats
from fairmend.cli.options import seed_option as _seed
from fairmend.cli.spec import spec


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fairmend", message="%(prog)s %(version)s")
@_verbose
def main() -> None:
    """Find, repair and prove individual fairness of neural networks that score people.

    Options may have a project's defaults in fairmend.toml, in this folder or one above: a table for each command, such
    as [repair] with method = "prof", and [defaults] for all that have such an option. Exits with 0 when the answer is
    good, 1 when it is bad, 2 when there was none, and 130 after Ctrl-C.
    """


@main.command()
@click.argument("model", type=_FILE)
@click.option("--data", type=_FILE, required=True, help="People, .csv or .parquet, with the label.")
@click.option("--spec", "spec_file", type=_FILE, required=True, help="What the columns mean, .toml.")
@click.option("--out", type=_FILE, required=True, help="Folder to write; other files in it stay.")
@click.option(
    "--method",
    type=click.Choice(["auto", "prof", "prof-concrete", "blind", "flip", "grft", "care"]),
    default="auto",
    show_default=True,
    help="auto takes the proven recipe that keeps most of the model; prof is the paper's, prof-concrete its naive "
    "variant; blind makes the network ignore the protected columns; flip, grft and care are baselines that prove "
    "nothing.",
)
@click.option("--repair-data", type=_FILE, help="The inputs to repair; else rows drawn from the data.")
@click.option(
    "--repair-rows",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many rows of the data to repair.",
)
@click.option(
    "--calibration-rows",
    type=click.IntRange(min=1),
    default=500,
    show_default=True,
    help="How many other rows to keep the accuracy with.",
)
@_seed
@click.option("--steps", type=click.IntRange(min=0), help="Training steps; the method's own by default, 200 for prof.")
@click.option("--learning-rate", type=_POSITIVE, help="Of training; the method's own by default, 0.001 for prof.")
@click.option(
    "--bounds",
    type=click.Choice(["linear", "interval"]),
    show_default="linear",
    help="Bounds that calibration tightens.",
)
@click.option(
    "--margin",
    type=_POSITIVE,
    show_default="1e-06",
    help="By how much every repair input must clear the decision.",
)
@click.option(
    "--solver",
    type=click.Choice(["highs", "scip", "gurobi"]),
    show_default="highs",
    help="Solver of the mixed-integer program.",
)
@click.option(
    "--time-limit",
    type=_POSITIVE,
    help="Seconds for the whole repair. The solver stops with its best change, and auto runs no further recipe.",
)
@click.option(
    "--gap",
    type=click.FloatRange(0, 1),
    show_default="0.0",
    help="Relative gap at which the solver may stop.",
)
@_activation
@_json
@_verbose
@click.pass_context
@_names_formats
def repair(
    ctx: click.Context,
    /,
    model: Path,
    data: Path,
    spec_file: Path,
    out: Path,
    repair_data: Path | None,
    repair_rows: int,
    calibration_rows: int,
    seed: int,
    activation: str,
    json_output: bool,
    **options: Any,
) -> None:
    """Repair a network and prove it.

    MODEL is a file: {formats}. The network in it is changed as little as possible so that
    each repair input provably gets the same answer whatever its protected features are, also when it differs in
    others by up to their tolerance. With blind, and with auto wherever that can be proven, protected features make no
    difference for anyone. Exits with 1 if repair inputs are still treated unequally, which only a baseline (flip,
    grft, care) can leave.

    Writes into the folder: the network as model with MODEL's suffix, certificate.json (the proof, for fairmend check),
    spec.toml, repair_inputs.csv, result.json (every figure), report.html and report.json.
    """
    from fairmend.cli.repair import run_repair

    code = run_repair(
        model,
        data,
        spec_file,
        out,
        repair_data=repair_data,
        repair_rows=repair_rows,
        calibration_rows=calibration_rows,
        seed=seed,
        activation=activation,
        json_output=json_output,
        command=ctx.meta[_TYPED],
        options=options,
    )
    ctx.exit(code)


@main.command()
@click.argument("model", type=_FILE)
@click.option("--data", type=_FILE, required=True, help="People, .csv or .parquet.")
@click.option("--spec", "spec_file", type=_FILE, required=True, help="What the columns mean, .toml.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "enumerate", "branch", "milp"]),
    default="auto",
    show_default=True,
    help="Point by point, branch and bound, or a mixed-integer solver.",
)
@click.option("--rows", type=click.IntRange(min=1), help="Only so many rows of the data, drawn at random.")
@click.option("--time-limit", type=_POSITIVE, help="Seconds; who is not decided by then is UNKNOWN.")
@_activation
@_seed
@click.option("--certificate", type=_FILE, help="Write a certificate of those that are FAIR, for fairmend check.")
@_json
@_verbose
@click.pass_context
@_names_formats
def certify(ctx: click.Context, /, model: Path, data: Path, spec_file: Path, **options: Any) -> None:
    """Decide who is treated like everyone similar.

    MODEL is a file: {formats}. For each person in the data the answer is FAIR (proven), UNFAIR (with
    a similar person who gets another answer) or UNKNOWN. Exits with 0 if all are FAIR, 1 if any is UNFAIR, else 2.
    """
    from fairmend.cli.certify import run_certify

    ctx.exit(run_certify(model, data, spec_file, **options))


@main.command()
@click.argument("model", type=_FILE)
@click.option("--spec", "spec_file", type=_FILE, required=True, help="What the columns mean, .toml.")
@click.option("--data", type=_FILE, help="People, .csv or .parquet, of any size; else samples of the input space.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="How many samples, without --data.",
)
@_seed
@click.option("--pairs", type=click.IntRange(min=0), default=10, show_default=True, help="How many pairs to show.")
@click.option("--out", type=_FILE, help="CSV to write: everybody treated unequally, with a neighbour.")
@click.option(
    "--report",
    type=_FILE,
    default=Path("fairmend-audit"),
    show_default=True,
    help="Folder to write the report into, report.html; other files in it stay.",
)
@click.option("--no-report", is_flag=True, help="Write no report.")
@_activation
@_json
@_verbose
@click.pass_context
@_names_formats
def audit(ctx: click.Context, /, model: Path, spec_file: Path, report: Path, no_report: bool, **options: Any) -> None:
    """Count who is treated unequally, and show the worst.

    MODEL is a file: {formats}. Somebody is treated unequally who would get another answer with other
    protected features. Exits with 0 if there is nobody, 1 if there is somebody.
    """
    from fairmend.cli.audit import run_audit

    ctx.exit(run_audit(model, spec_file, report=None if no_report else report, command=ctx.meta[_TYPED], **options))


@main.command()
@click.argument("model", type=_FILE)
@click.option("--spec", "spec_file", type=_FILE, required=True, help="What the columns mean, .toml.")
@click.option("--data", type=_FILE, required=True, help="People to start from, .csv or .parquet.")
@click.option(
    "--method",
    type=click.Choice(["adf", "eidig", "neuronfair", "grft"]),
    default="adf",
    show_default=True,
    help="The tester: by gradients of the loss, of the output or of biased neurons, or by a genetic search.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=1000, show_default=True, help="People to start from.")
@click.option(
    "--local-steps",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Steps around each seed that led to somebody.",
)
@_seed
@click.option("--out", type=_FILE, help="CSV to write: everybody found, with a neighbour.")
@_activation
@_json
@_verbose
@click.pass_context
@_names_formats
def search(ctx: click.Context, /, model: Path, spec_file: Path, data: Path, **options: Any) -> None:
    """Search for people who are treated unequally.

    MODEL is a file: {formats}. A fairness tester goes from the people in the data to others who would
    get another answer with other protected features. Exits with 0 if nobody was found, 1 if somebody was.
    """
    from fairmend.cli.search import run_search

    ctx.exit(run_search(model, spec_file, data, **options))


@main.command()
@click.argument("certificate", type=_FILE)
@click.argument("model", type=_FILE)
@click.option("--spec", "spec_file", type=_FILE, help="A spec, .toml, that must be the certificate's own.")
@_json
@_verbose
@click.pass_context
@_names_formats
def check(ctx: click.Context, /, certificate: Path, model: Path, spec_file: Path | None, json_output: bool) -> None:
    """Check a certificate without trusting it.

    CERTIFICATE is the .json file that came with MODEL ({formats}). Every claim in it is verified
    anew, by code that shares nothing with what wrote it. Exits with 0 if it holds, 1 if not.
    """
    from fairmend.cli.check import run_check

    ctx.exit(run_check(certificate, model, spec_file, json_output=json_output))


@main.command()
@click.argument("what", type=click.Choice(["table1", "table2", "table3", "table4", "rq4", "timing", "all"]))
@click.option("--out", type=_FILE, default=Path("fairmend-bench"), show_default=True, help="Folder to write.")
@click.option("--data-dir", type=_FILE, help="Raw files of the data sets; else the cache, or a download.")
@click.option("--models-dir", type=_FILE, help="The biased networks as state dicts; else networks are trained.")
@click.option("--splits-dir", type=_FILE, help="The paper's repair and calibration sets; else they are drawn.")
@click.option("--quick", is_flag=True, help="Fewer samples and steps: for a first look.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run in the same folder stopped.")
@click.option("--workers", type=click.IntRange(min=1), help="Jobs at a time; as many as there are cores by default.")
@_seed
@_json
@_verbose
def bench(what: str, out: Path, **options: Any) -> None:
    """Print the paper's tables, its numbers beside ours."""
    from fairmend.cli.bench import run_bench

    run_bench(what, out, **options)


@main.command()
@click.option("--out", type=_FILE, default=Path("fairmend-demo"), show_default=True, help="Folder to write.")
@_seed
@_json
@_verbose
@click.pass_context
def demo(ctx: click.Context, /, out: Path, seed: int, json_output: bool) -> None:
    """Watch a biased network being found out and repaired."""
    from fairmend.cli.demo import run_demo

    run_demo(out, seed=seed, json_output=json_output, command=ctx.meta[_TYPED])


@main.command("export-vnnlib")
@click.argument("model", type=_FILE)
@click.option("--spec", "spec_file", type=_FILE, required=True, help="What the columns mean, .toml.")
@click.option("--data", type=_FILE, required=True, help="People, .csv or .parquet.")
@click.option("--out", type=_FILE, required=True, help="Folder to write; other files in it stay.")
@click.option("--rows", type=click.IntRange(min=1), help="Only so many rows of the data, drawn at random.")
@click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="Seconds that instances.csv grants each problem.",
)
@click.option(
    "--most-boxes",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Write values out up to so many boxes; beyond, relax features to intervals.",
)
@_seed
@_activation
@_json
@_verbose
@_names_formats
def export_vnnlib(model: Path, data: Path, spec_file: Path, out: Path, **options: Any) -> None:
    """Write problems for other verifiers (ONNX, VNN-LIB).

    MODEL is a file: {formats}. For each person in the data the folder gets a property that is
    satisfied where somebody similar gets another answer, in the form that VNN-COMP's tools read: model.onnx, .vnnlib
    files, instances.csv, and manifest.json with what sat and unsat mean.
    """
    from fairmend.cli.export_vnnlib import run_export

    run_export(model, data, spec_file, out, **options)


@main.command(cls=BareCommand)
@_json
@_verbose
@click.pass_context
def doctor(ctx: click.Context, /, json_output: bool) -> None:
    """Check that fairmend has what it needs here.

    Looks at versions, solvers and their licences, threads, a GPU, extras and fairmend.toml. Exits with 0 if fairmend
    can work, 2 if something it requires is missing or too old.
    """
    from fairmend.cli.doctor import run_doctor

    ctx.exit(run_doctor(main, config_of(ctx), json_output=json_output))


@main.command(cls=BareCommand)
@click.argument("shell", type=click.Choice(SHELLS))
@_verbose
def completion(shell: str) -> None:
    """Print what makes a shell complete fairmend.

    \b
    bash: eval "$(fairmend completion bash)" in ~/.bashrc
    zsh:  eval "$(fairmend completion zsh)" in ~/.zshrc
    fish: fairmend completion fish > ~/.config/fish/completions/fairmend.fish
    """
    click.echo(completion_script(shell, main))


@main.command()
@click.argument("folder", type=_FILE)
@click.option("--out", type=_FILE, help="Where to write the page instead of report.html in the folder.")
@_json
@_verbose
def report(folder: Path, out: Path | None, json_output: bool) -> None:
    """Draw a report anew.

    FOLDER is one that fairmend repair, audit or demo wrote. Its report.json becomes report.html, as this version of
    fairmend draws it: one page that needs nothing else.
    """
    from fairmend.cli.report import run_report

    run_report(folder, out, json_output=json_output)


main.add_command(spec)

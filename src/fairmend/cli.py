"""The command line. Commands import what they need when they run, so that --help answers at once."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from fairmend._version import __version__
from fairmend.errors import FairmendError

COULD_NOT_ANSWER, INTERRUPTED = 2, 130
MODEL_FORMATS = ".onnx, .h5, .keras, .nnet, .pth or .safetensors"

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path)
_POSITIVE = click.FloatRange(min=0, min_open=True)


class _Group(click.Group):
    """A group whose commands fail with a message and an exit code, never with a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what goes wrong is said on stderr."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's own business
        except FairmendError as error:
            _fail(ctx, str(error))
        except KeyboardInterrupt:
            _fail(ctx, "interrupted; nothing was written", INTERRUPTED)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(ctx, f"{where}{error.strerror or error}")
        except MemoryError:
            _fail(ctx, "out of memory; give fewer rows or a smaller network")
        except Exception as error:
            if ctx.meta.get(_VERBOSE):
                click.echo(traceback.format_exc(), err=True)
            hint = "" if ctx.meta.get(_VERBOSE) else "; --verbose shows where"
            _fail(ctx, f"unexpected {type(error).__name__}: {error}. This is a bug in fairmend{hint}")


_VERBOSE = "fairmend.verbose"


def _fail(ctx: click.Context, message: str, code: int = COULD_NOT_ANSWER) -> NoReturn:
    click.secho(f"Error: {message}" if code != INTERRUPTED else message, fg="red", err=True)
    ctx.exit(code)


def _set_verbose(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_VERBOSE] = True  # shared by all contexts of one call


def _verbose(command: _Command) -> _Command:
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_set_verbose,
        help="Show the traceback of unexpected errors.",
    )(command)


def _json(command: _Command) -> _Command:
    return click.option("--json", "json_output", is_flag=True, help="Print one JSON document and nothing else.")(
        command
    )


def _activation(command: _Command) -> _Command:
    return click.option(
        "--activation",
        default="relu",
        show_default=True,
        help="Activation of a network whose file holds weights only (.pth, .safetensors).",
    )(command)


def _names_formats(command: _Command) -> _Command:
    """Put the model formats into the command's help."""
    command.__doc__ = (command.__doc__ or "").replace("{formats}", MODEL_FORMATS)
    return command


def _seed(command: _Command) -> _Command:
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Of every random choice.",
    )(command)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fairmend", message="%(prog)s %(version)s")
@_verbose
def main() -> None:
    """Find, repair and prove individual fairness of neural networks that score people."""


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
    default="linear",
    show_default=True,
    help="Bounds that calibration tightens.",
)
@click.option(
    "--margin",
    type=_POSITIVE,
    default=1e-6,
    show_default=True,
    help="By how much every repair input must clear the decision.",
)
@click.option(
    "--solver",
    type=click.Choice(["highs", "scip", "gurobi"]),
    default="highs",
    show_default=True,
    help="Solver of the mixed-integer program.",
)
@click.option("--time-limit", type=_POSITIVE, help="Seconds for the solver; then the best change so far.")
@click.option(
    "--gap",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
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
    each repair input (with auto and blind, where nothing has a tolerance: everyone) provably gets the same answer
    whatever its protected features are. The proof is written as a certificate that fairmend check reads. Exits
    with 1 if repair inputs are still treated unequally, which only a baseline (flip, grft, care) can leave.
    """
    from fairmend.commands.repair import run_repair

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
    from fairmend.commands.certify import run_certify

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
@_activation
@_json
@_verbose
@click.pass_context
@_names_formats
def audit(ctx: click.Context, /, model: Path, spec_file: Path, **options: Any) -> None:
    """Count who is treated unequally, and show the worst.

    MODEL is a file: {formats}. Somebody is treated unequally who would get another answer with other
    protected features. Exits with 0 if there is nobody, 1 if there is somebody.
    """
    from fairmend.commands.audit import run_audit

    ctx.exit(run_audit(model, spec_file, **options))


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
    from fairmend.commands.search import run_search

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
    from fairmend.commands.check import run_check

    ctx.exit(run_check(certificate, model, spec_file, json_output=json_output))


@main.command()
@click.argument("what", type=click.Choice(["table1", "table2", "table3", "table4", "rq4", "timing", "all"]))
@click.option("--out", type=_FILE, default=Path("fairmend-bench"), show_default=True, help="Folder to write.")
@click.option("--data-dir", type=_FILE, help="Raw files of the data sets; else the cache, or a download.")
@click.option("--models-dir", type=_FILE, help="The biased networks as state dicts; else networks are trained.")
@click.option("--splits-dir", type=_FILE, help="The paper's repair and calibration sets; else they are drawn.")
@click.option("--quick", is_flag=True, help="Fewer samples and steps: for a first look.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run in the same folder stopped.")
@_seed
@_json
@_verbose
def bench(what: str, out: Path, **options: Any) -> None:
    """Print the paper's tables, its numbers beside ours."""
    from fairmend.commands.bench import run_bench

    run_bench(what, out, **options)


@main.command()
@click.option("--out", type=_FILE, default=Path("fairmend-demo"), show_default=True, help="Folder to write.")
@_seed
@_json
@_verbose
def demo(out: Path, seed: int, json_output: bool) -> None:
    """Watch a biased network being found out and repaired."""
    from fairmend.commands.demo import run_demo

    run_demo(out, seed=seed, json_output=json_output)

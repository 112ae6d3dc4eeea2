"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from fairmend.base.device import is_device_name
from fairmend.base.errors import FairmendError
from fairmend.base.paths import DataSource, DataURL, TableSource, is_model_folder, is_model_uri, is_url
from fairmend.cli.group import CONFIG, COULD_NOT_ANSWER, LOG_FILE, NO_CONFIG, RESUMABLE, VERBOSE

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class DeviceName(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """The name of a device."""

    name = "device"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return what the help shows."""
        return "[auto|cpu|cuda]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail if there is no such device anywhere."""
        if not is_device_name(value):
            self.fail(f"{value!r} is not auto, cpu, cuda, or cuda:1 for the second GPU.", param, ctx)
        return str(value)


FILE = click.Path(path_type=Path)


class _DataType(click.Path):
    """A file, a folder or a pattern, or a URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or the URL as it was typed."""
        return DataURL(value) if isinstance(value, str) and is_url(value) else super().convert(value, param, ctx)


class _NoModelError(click.ClickException):
    """A model of MLflow cannot be had."""

    exit_code = COULD_NOT_ANSWER


class _ModelType(click.Path):
    """A model file, or the one in a model folder of MLflow, which a URI may name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the file."""
        of_mlflow = isinstance(value, str) and (is_model_uri(value) or is_model_folder(Path(value)))
        if not of_mlflow or (ctx is not None and ctx.resilient_parsing):
            return super().convert(value, param, ctx)
        from fairmend.network.formats.mlflow import model_file

        try:
            return model_file(value)
        except FairmendError as error:
            raise _NoModelError(str(error)) from error


MODEL = _ModelType(path_type=Path)
DATA = _DataType(path_type=Path)
DATA_FORMATS = (
    '.csv, .csv.gz, .parquet or .xlsx: a file, a folder of files, a pattern such as "people/*.parquet", or a URL.'
)
POSITIVE = click.FloatRange(min=0, min_open=True)
MODEL_FORMATS = ".onnx, .h5, .keras, .nnet, .pt2, .pth, .ckpt or .safetensors"
_PIPELINE, _FOLDER = "a fitted pipeline of scikit-learn, .skops", "a model folder of MLflow"

model_argument = click.argument("model", type=MODEL)
trust_pickle_option = click.option(
    "--trust-pickle", is_flag=True, help="Read MODEL from a .joblib or .pkl file, which can run any code."
)
spec_option = click.option("--spec", "spec_file", type=FILE, required=True, help="Spec of the features, .toml.")
threshold_option = click.option(
    "--threshold",
    type=float,
    help="Probability of the positive class from which a prediction is positive, or the score, where [label] has a "
    "score_range. By default that of the spec, or 0.5.",
)
about_option = click.option(
    "--about",
    type=FILE,
    help="What the report says about the model, .toml: name, version, owner, purpose, contact, approved_by, date. "
    "It replaces what [about] in the spec says.",
)
json_option = click.option("--json", "json_output", is_flag=True, help="Print one JSON document and nothing else.")
device_option = click.option(
    "--device",
    type=DeviceName(),
    default="cpu",
    show_default=True,
    help="Where to compute: cpu, cuda (a GPU; cuda:1 is the second one), or auto, which takes a GPU, if there is one, "
    "for work that is large enough.",
)
seed_option = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
group_option = click.option(
    "--group",
    multiple=True,
    metavar="COLUMN",
    help="A column of the data that the model does not read, such as race: its groups are compared, and a table says "
    "how well the features predict it. Can be given several times.",
)

outputs_option = click.option(
    "--outputs",
    type=click.Choice(["logit", "probability", "number"]),
    help="What a model that is only run gives, if that is not what fairmend takes it for.",
)

activation_option = click.option(
    "--activation",
    help="Activation between the layers of a model file that holds only weights (.pth, .ckpt, .safetensors), which "
    "must be one chain in the order of its keys: relu, tanh, leaky_relu, leaky_relu(0.2) for a slope other than 0.01.",
)

out_of_range_option = click.option(
    "--out-of-range",
    type=click.Choice(["refuse", "clip", "skip", "widen"]),
    default="refuse",
    show_default=True,
    help="What to do about a value outside of the range of its feature: refuse the file, move the value to the nearest "
    "end (clip), leave out the row (skip), or widen the range for this run (widen). Unknown categories can only be "
    "refused or skipped.",
)
keep_going_option = click.option(
    "--keep-going",
    is_flag=True,
    help="Leave out files of the data that cannot be read, and say in the result that it is partial. Without it, one "
    "such file is an error.",
)
scores_option = click.option(
    "--scores",
    type=FILE,
    help="The scores that the model itself gave for the rows of the data, .csv, .parquet or .npy: probabilities or raw "
    "outputs, in one column or one for each class.",
)
encoded_option = click.option(
    "--encoded",
    type=FILE,
    help="The data as the model read it, .npy, .csv or .parquet: one row for each row of the data.",
)
ignore_scores_option = click.option(
    "--ignore-scores",
    is_flag=True,
    help="Do not compare the network with the scores in the data that [label] names: another model gave them.",
)


def add_options(*options: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds options in the given order."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def refuse_together(ctx: click.Context, unused: str, given: str) -> None:
    """Refuse an option on the command line that has no effect beside another one."""
    typed = ctx.get_parameter_source(unused) is click.core.ParameterSource.COMMANDLINE
    if typed and ctx.params[given]:
        first, second = (f"--{name.replace('_', '-')}" for name in (unused, given))
        raise FairmendError(f"{first} has no effect with {second}; leave out one of them")


_TABLES = ("data", "repair_data", "test_data")  # parameters that name tables


def table_options(command: Decorated) -> Decorated:
    """Add --sep, --decimal and --sheet, and give the command tables that are read so."""

    @wraps(command)
    def wrapped(*args: Any, sep: str | None, decimal: str | None, sheet: str | None, **options: Any) -> Any:
        tables = {name: options[name] for name in _TABLES if options.get(name) is not None}
        if sep is not None or decimal is not None or sheet is not None:
            tables = {name: TableSource(place, sep, decimal, sheet) for name, place in tables.items()}
        if not options.get("json_output"):
            for source in tables.values():
                _say_how_read(source)
        return command(*args, **{**options, **tables})

    added: Any = wrapped
    for option in (
        click.option("--sheet", help="Sheet of an .xlsx file. By default the first."),
        click.option("--decimal", help='Decimal mark of .csv files: "." or ",". By default found in the file.'),
        click.option(
            "--sep",
            help='What separates the columns of .csv files: ",", ";", "|" or tab. By default found in the file.',
        ),
    ):
        added = option(added)
    return cast(Decorated, added)


def _say_how_read(source: DataSource) -> None:
    """Print how the first file of a table is read, if that is not the usual way and nobody said it."""
    from fairmend.cli.group import echo_line
    from fairmend.tables.csv_files import style_of
    from fairmend.tables.excel_files import other_sheets
    from fairmend.tables.files import find_files
    from fairmend.tables.styles import PLAIN

    place = source.place if isinstance(source, TableSource) else source
    if isinstance(place, DataURL):
        return  # it would be fetched twice
    try:
        file = find_files(source)[0]
        style = style_of(file) if file.is_csv and file.sep is None else PLAIN
        others = other_sheets(file) if file.is_excel and file.sheet is None else []
    except FairmendError:
        return  # the command itself raises it
    if style != PLAIN:
        echo_line(f"{file.name}: {style.describe()}, as its first rows show (--sep, --decimal).", err=True, dim=True)
    if others:
        echo_line(f"{file.name}: the first of {len(others) + 1} sheets is read (--sheet).", err=True, dim=True)


def insert_formats(command: Decorated) -> Decorated:
    """Replace {formats} in the help of a command by what MODEL can be, and {files} by the files that can be checked."""
    text = (command.__doc__ or "").replace("{files}", f"{MODEL_FORMATS}, or {_FOLDER}")
    command.__doc__ = text.replace("{formats}", f"{MODEL_FORMATS}; or {_PIPELINE}, or {_FOLDER}")
    return command


def _remember(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            ctx.meta[key] = value

    return callback


def _start_logging(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Log as far as the options are known by now; -v and --log-file may come before or after the command."""
    if not value or ctx.resilient_parsing:
        return
    if parameter.name == "verbose":
        ctx.meta[VERBOSE] = ctx.meta.get(VERBOSE, 0) + value
    else:
        ctx.meta[LOG_FILE] = value
    from fairmend.cli.group import start_logging

    try:
        stop = start_logging(ctx.meta.get(VERBOSE, 0), ctx.meta.get(LOG_FILE))
    except FairmendError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    ctx.find_root().call_on_close(stop)


_what_if_options = add_options(
    click.option(
        "--no-what-if",
        is_flag=True,
        help="Leave out the part of the report that computes the scores of any person: it carries the networks, "
        "if they have at most 100,000 weights, and some rows of the data.",
    ),
    click.option(
        "--what-if-rows",
        type=click.IntRange(min=0),
        default=20,
        show_default=True,
        help="Number of random rows of the data that this part of the report holds; 0 for none.",
    ),
)


def what_if_options(command: Decorated) -> Decorated:
    """Add the options of the part "What if?" of the report, and give the command the rows that it holds, or None."""

    @wraps(command)
    def wrapped(*args: Any, no_what_if: bool, what_if_rows: int, **options: Any) -> Any:
        refuse_together(click.get_current_context(), "what_if_rows", "no_what_if")
        return command(*args, what_if_rows=None if no_what_if else what_if_rows, **options)

    return cast(Decorated, _what_if_options(wrapped))


def _remember_folder(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    if value is not None:
        ctx.meta[RESUMABLE] = True
    return value


cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run on the workers of a cluster: tcp://host:port (Dask), ray://host:port (Ray), ray://auto for the Ray "
    "that this machine is part of, or ray://local to start Ray for this run.",
)
resume_option = click.option(
    "--resume",
    type=FILE,
    metavar="FOLDER",
    callback=_remember_folder,
    help="Keep finished parts in this folder; the same command continues from them after it was interrupted.",
)


model_options = add_options(model_argument, trust_pickle_option, spec_option)
"""Add MODEL, whether it may be a pickle, and --spec."""

reading_options = add_options(out_of_range_option, threshold_option, activation_option, ignore_scores_option)
"""Add how model and data are read, where the spec or the file leaves that open."""


def data_options(use: str, *, required: bool = False) -> Callable[[Decorated], Decorated]:
    """Return --data, of which `use` says what it is for, with how its files are read."""
    option = click.option("--data", type=DATA, required=required, help=use.format(formats=DATA_FORMATS))
    return add_options(option, table_options, keep_going_option)


def worker_options(work: str) -> Callable[[Decorated], Decorated]:
    """Return the options for where to compute; `work` says what the processes of --jobs do."""
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help=f"Number of processes that {work}",
    )
    return add_options(jobs, device_option, cluster_option)


common_options = add_options(
    click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_start_logging,
        help="Log progress to stderr (-vv: in detail), and show the traceback of unexpected errors.",
    ),
    click.option(
        "--log-file", type=FILE, expose_value=False, callback=_start_logging, help="Append a detailed log to this file."
    ),
    click.option(
        "--config",
        type=FILE,
        expose_value=False,
        is_eager=True,
        callback=_remember(CONFIG),
        help="File with defaults for options. By default fairmend.toml in this folder or a parent folder.",
    ),
    click.option(
        "--no-config",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_remember(NO_CONFIG),
        help="Ignore fairmend.toml.",
    ),
)
"""Add the options that every command has."""


def report_options(folder: str, *of_the_report: str) -> Callable[[Decorated], Decorated]:
    """Return --report and --no-report, and give the command the folder, or None.

    Options `of_the_report` have no effect without one, and are refused then.
    """

    def decorate(command: Decorated) -> Decorated:
        @wraps(command)
        def wrapped(*args: Any, report: Path, no_report: bool, **options: Any) -> Any:
            ctx = click.get_current_context()
            for unused in ("report", *of_the_report):
                refuse_together(ctx, unused, "no_report")
            return command(*args, report=None if no_report else report, **options)

        where = "Folder for the HTML report; other files in it are kept."
        added = click.option("--no-report", is_flag=True, help="Do not write a report.")(wrapped)
        return cast(
            Decorated, click.option("--report", type=FILE, default=Path(folder), show_default=True, help=where)(added)
        )

    return decorate


def group_options(command: Decorated) -> Decorated:
    """Give the command the files and two objects, `inputs` and `workers`, in place of the options that they hold."""

    @wraps(command)
    def wrapped(*args: Any, **given: Any) -> Any:
        from fairmend.workflows import InputOptions, WorkerOptions

        if "cluster" in given:
            refuse_together(click.get_current_context(), "jobs", "cluster")
        for name, kind in (("inputs", InputOptions), ("workers", WorkerOptions)):
            held = {field.name for field in fields(kind)} & given.keys()
            if name == "inputs" or "jobs" in held:
                given[name] = kind(**{option: given.pop(option) for option in held})
        return command(*args, spec=given.pop("spec_file"), **given)

    return cast(Decorated, wrapped)


output_options = add_options(json_option, common_options, click.pass_context, insert_formats, group_options)
"""Add --json and what every command has, and give the command its context and grouped options."""

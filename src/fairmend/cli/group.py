"""How a command runs: it is imported when it is called, logs, and turns errors into messages and exit codes.

Nothing here needs rich: `fairmend check` and `fairmend doctor` work without it. SIGTERM, which schedulers and
containers send, ends a command like Ctrl-C: temporary files are deleted.
"""

from __future__ import annotations

import json
import logging
import re
import shlex
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.base.paths import require_inside
from fairmend.base.text import printable
from fairmend.cli.config import OUTPUTS, command_defaults, find_config, key_of

COULD_NOT_ANSWER, INTERRUPTED = 2, 130

# Keys of a context's meta, which all contexts of one call share.
TYPED = "fairmend.typed"
VERBOSE = "fairmend.verbose"
LOG_FILE = "fairmend.log-file"
CONFIG = "fairmend.config"
NO_CONFIG = "fairmend.no-config"
RESUMABLE = "fairmend.resumable"

# What a command that writes before its end leaves behind, and how to continue.
_AFTER_INTERRUPT = {"bench": "interrupted; finished cells are kept: continue with --resume"}
_NOTHING_WRITTEN = "interrupted; nothing was written; run the same command again"
_PARTS_KEPT = "interrupted; finished parts are kept: run the same command again to continue"

_FROM_FILE = click.core.ParameterSource.DEFAULT_MAP


_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_LOG_LINE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")

_logger = logging.getLogger(__name__)


def typed_command(ctx: click.Context) -> str:
    """Return the command as the user typed it."""
    typed: str = ctx.meta.get(TYPED, ctx.command_path)
    return typed


def config_in_use(ctx: click.Context) -> Path | None:
    """Return the fairmend.toml in use, or None."""
    file: Path | None = ctx.meta.get(CONFIG)
    return file


def _show_all_help(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[_ALL_OPTIONS] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_ALL_OPTIONS = "fairmend.all_options"
_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all_help,
    help="Show all options and exit.",
)


class Command(click.Command):
    """A command whose options can have defaults in fairmend.toml."""

    takes_defaults = reads_config = True

    def __init__(self, *args: Any, usual: Collection[str] = (), **options: Any) -> None:
        """Show only the `usual` options with --help, and all with --help-all; without usual ones, --help shows all."""
        super().__init__(*args, **options)
        self._usual = frozenset(usual)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with --help-all if --help leaves some out."""
        params = super().get_params(ctx)
        return [*params, _HELP_ALL] if self._usual else params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that the user asks for."""
        found = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        whole = not self._usual or ctx.meta.get(_ALL_OPTIONS)
        shown = [record for name, record in found.items() if record and (whole or name in self._usual)]
        with formatter.section("Options"):
            formatter.write_dl(shown)
        left_out = sum(record is not None for record in found.values()) - len(shown)
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(f"{left_out} further options: {ctx.command_path} --help-all")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the project's defaults before the options are parsed; explicit options take precedence."""
        if not ctx.resilient_parsing:  # which is set during shell completion
            given: dict[str, Any] = self.make_parser(ctx).parse_args(list(args))[0]
            config = _choose_config(ctx, given, may_read=self.reads_config)
            help_option = self.get_help_option(ctx)
            asks = given.get("help_all") or (help_option is not None and given.get(help_option.name or ""))
            wanted = self.takes_defaults and not asks
            ctx.default_map = command_defaults(config, ctx) if wanted else {}
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and log it."""
        started = time.perf_counter()
        _logger.info("fairmend %s: %s", __version__, typed_command(ctx))
        config = config_in_use(ctx)
        if config is not None:
            used = ", ".join(_settings_in_use(ctx))
            _logger.info("defaults from %s: %s", config, used or "none used")
            if used:  # these influence the answer, so the user must see them
                echo_line(f"Defaults from {config}: {used}", err=True, dim=True)
        _require_outputs_here(ctx)
        try:
            with sigterm_as_ctrl_c():
                return super().invoke(ctx)
        finally:
            _logger.info("%s ended after %.2f s", ctx.command_path, time.perf_counter() - started)


class BareCommand(Command):
    """A command that ignores fairmend.toml, so that it works even if the file is invalid."""

    takes_defaults = False


class IndependentCommand(BareCommand):
    """A command that does not even look for fairmend.toml: nothing but what is typed decides about its answer."""

    reads_config = False


class Group(click.Group):
    """A group that imports its commands on demand and reports their errors without a traceback.

    `summaries` maps each command to its line in the help. Unless it was added, the command ``a-b`` is the object
    ``command`` of the module whose name is that of `modules` and ``a_b``.
    """

    def __init__(self, *args: Any, modules: str = "", summaries: Mapping[str, str] | None = None, **options: Any):
        super().__init__(*args, **options)
        self._modules = modules
        self._summaries = dict(summaries or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name."""
        if cmd_name not in self._summaries:
            return None
        if cmd_name not in self.commands:
            module = import_module(f"{self._modules}{cmd_name.replace('-', '_')}")
            self.add_command(module.command, cmd_name)
        return self.commands[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember the command line for logs and reports."""
        if ctx.parent is None:
            ctx.meta[TYPED] = shlex.join(["fairmend", *args])
        try:
            return super().parse_args(ctx, args)
        except click.ClickException as error:
            _make_printable(error)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; write errors to stderr and set the exit code."""
        try:
            with _warnings_on_one_line():
                return super().invoke(ctx)
        except click.ClickException as error:
            _make_printable(error)
            raise
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click handles these
        except FairmendError as error:
            _fail(ctx, str(error))
        except KeyboardInterrupt:
            kept = _PARTS_KEPT if ctx.meta.get(RESUMABLE) else _NOTHING_WRITTEN
            _fail(ctx, _AFTER_INTERRUPT.get(ctx.invoked_subcommand or "", kept), INTERRUPTED)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(ctx, f"{where}{error.strerror or error}")
        except MemoryError:
            _fail(ctx, "out of memory; use fewer rows or a smaller network")
        except ModuleNotFoundError as error:
            from fairmend.cli.doctor import how_to_install

            remedy = how_to_install(error.name or "")
            if remedy is None:
                _fail_unexpectedly(ctx, error)
            typed = f"fairmend {ctx.invoked_subcommand}" if ctx.invoked_subcommand else "fairmend"
            _fail(ctx, f"{typed} needs {remedy}")
        except Exception as error:
            _fail_unexpectedly(ctx, error)


def _make_printable(error: click.ClickException) -> None:
    """Escape control characters in a message of click, which may name a file or an argument."""
    error.message = printable(error.message)  # type: ignore[misc]


@contextmanager
def _warnings_on_one_line() -> Iterator[None]:
    """Print warnings of other libraries on one line each: they may name a column."""

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        echo_line(f"Warning: {message} ({category.__name__})", err=True)

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def _fail(ctx: click.Context, message: str, code: int = COULD_NOT_ANSWER) -> NoReturn:
    _logger.debug("exit %d: %s", code, message)
    echo_line(f"Error: {message}" if code != INTERRUPTED else message, fg="red", err=True)
    ctx.exit(code)


def _fail_unexpectedly(ctx: click.Context, error: Exception) -> NoReturn:
    if ctx.meta.get(VERBOSE):
        for line in traceback.format_exc().splitlines():
            echo_line(f"  {line}", err=True)  # indented: a message in it could look like output
    _logger.debug("unexpected error", exc_info=True)
    hint = "" if ctx.meta.get(VERBOSE) else "; run again with --verbose to see the traceback"
    _fail(ctx, f"unexpected {type(error).__name__}: {error}. This is a bug in fairmend{hint}")


def _settings_in_use(ctx: click.Context) -> list[str]:
    """Return the settings from fairmend.toml that were not overridden, as the file has them."""
    found = ctx.default_map or {}
    used = {
        key_of(each): found[each.name] for each in ctx.command.params if each.name in found and _from_file(ctx, each)
    }
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in used.items()]


def _from_file(ctx: click.Context, parameter: click.Parameter) -> bool:
    return ctx.get_parameter_source(parameter.name or "") is _FROM_FILE


def _require_outputs_here(ctx: click.Context) -> None:
    """Refuse a file to be written under a name by default if a symbolic link in the current folder leads elsewhere."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        by_default = ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT
        unused = ctx.params.get(name) is None or ctx.params.get(f"no_{name}")  # --no-report
        if by_default and key_of(parameter) in OUTPUTS and not unused:
            require_inside(Path.cwd() / ctx.params[name], Path.cwd(), written=True)


def _choose_config(ctx: click.Context, given: dict[str, Any], *, may_read: bool) -> Path | None:
    """Return the file that --config names, before or after the command, or the nearest fairmend.toml, if any."""
    named = given.get("config") or ctx.meta.get(CONFIG)
    none = given.get("no_config") or ctx.meta.get(NO_CONFIG)
    if named and none:
        raise click.UsageError("--config and --no-config exclude each other", ctx)
    if named and not may_read:
        raise click.UsageError(f"{ctx.command_path} reads no file of defaults; leave out --config", ctx)
    found = None if none or not may_read else Path(named) if named else find_config(Path.cwd())
    ctx.meta[CONFIG] = found
    return found


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt; only the main thread can receive signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def echo_line(text: str, **options: Any) -> None:
    """Print text as one line; what files contributed to it is escaped. `options` are those of `click.secho`."""
    click.secho(printable(text), **options)


class _Formatter(logging.Formatter):
    """Writes a message on one line, with control characters escaped, and indents a traceback below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # its name in logging
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  # its name in logging
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).splitlines())


def start_logging(verbosity: int, file: Path | None) -> Callable[[], None]:
    """Log to stderr (verbosity 1: INFO, 2: DEBUG) and, in full, to a file; return a function that stops it."""
    logger = logging.getLogger("fairmend")
    handlers: list[logging.Handler] = []
    if verbosity:
        handlers.append(_stderr_handler(logging.INFO if verbosity == 1 else logging.DEBUG))
    if file is not None:
        handlers.append(_file_handler(file))
    before = logger.level, logger.handlers[:]
    for handler in logger.handlers[:]:
        if not isinstance(handler, logging.NullHandler):
            logger.removeHandler(handler)
    for handler in handlers:
        handler.setFormatter(_Formatter(_FORMAT))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if file is not None or verbosity > 1 else logging.INFO)

    def stop() -> None:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
        logger.handlers[:] = before[1]
        logger.setLevel(before[0])

    return stop


def _stderr_handler(level: int) -> logging.Handler:
    try:
        from rich.logging import RichHandler

        from fairmend.cli.console import stderr_console
    except ModuleNotFoundError:  # `fairmend check` works without rich
        plain = logging.StreamHandler()
        plain.setLevel(level)
        return plain

    class Handler(RichHandler):
        """Prints each record as one line of `_FORMAT`, without rich's columns."""

        def render(self, *, message_renderable: object, **_: object) -> object:  # type: ignore[override]
            return message_renderable

    # The progress bars use the same console, so they stay below the log lines.
    return Handler(level, console=stderr_console(), highlighter=None, markup=False)


def _file_handler(file: Path) -> logging.Handler:
    """Append to the file, unless it is something other than a log: a typing error must not damage a model."""
    try:
        if file.exists():
            with file.open("rb") as existing:
                start = existing.read(64)
            if start and not _LOG_LINE.match(start):
                raise FairmendError(f"{file}: exists and is not a log file of fairmend; choose another name")
        return logging.FileHandler(file, mode="a", encoding="utf-8")
    except OSError as error:
        raise FairmendError(f"{file}: cannot write the log: {error.strerror or error}") from error

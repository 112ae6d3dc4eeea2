"""The group of commands: what goes wrong in one is a message and an exit code, never a traceback."""

from __future__ import annotations

import logging
import shlex
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from fairmend._version import __version__
from fairmend.cli.config import command_defaults, find_config
from fairmend.cli.logs import log_to
from fairmend.errors import FairmendError

COULD_NOT_ANSWER, INTERRUPTED = 2, 130
TYPED = "fairmend.typed"  # of a context's meta: the command as it was typed

# What a command that does not write everything at its very end has left, and how to go on.
_AFTER_INTERRUPT = {"bench": "interrupted; what was finished is kept: go on with --resume"}
_NOTHING_WRITTEN = "interrupted; nothing was written; run the same command again"

_VERBOSE, _LOG_FILE, _CONFIG, _NO_CONFIG = (f"fairmend.{name}" for name in ("verbose", "log", "config", "no-config"))

_FROM_FILE = click.core.ParameterSource.DEFAULT_MAP

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_logger = logging.getLogger(__name__)


class Command(click.Command):
    """A command whose options may have their defaults in fairmend.toml."""

    takes_defaults = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the project's defaults before the options are looked at; explicit options win over them."""
        if not ctx.resilient_parsing:  # that is, not while a shell completes
            given: dict[str, Any] = self.make_parser(ctx).parse_args(list(args))[0]
            config = _chosen_config(ctx, given)
            help_option = self.get_help_option(ctx)
            wanted = self.takes_defaults and (help_option is None or not given.get(help_option.name or ""))
            ctx.default_map = command_defaults(config, ctx) if wanted else {}
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and log that it ran."""
        started = time.perf_counter()
        _logger.info("fairmend %s: %s", __version__, ctx.meta.get(TYPED, ctx.command_path))
        if ctx.meta.get(_CONFIG):
            used = [name for name in ctx.default_map or {} if ctx.get_parameter_source(name) is _FROM_FILE]
            _logger.info("defaults from %s: %s", ctx.meta[_CONFIG], ", ".join(used) or "none used")
            if used:  # what decides an answer must be seen beside it
                click.secho(f"Defaults from {ctx.meta[_CONFIG]}: {', '.join(used)}", err=True, dim=True)
        try:
            return super().invoke(ctx)
        finally:
            _logger.info("%s ended after %.2f s", ctx.command_path, time.perf_counter() - started)


class BareCommand(Command):
    """A command that works whatever fairmend.toml says, and without it."""

    takes_defaults = False


class Group(click.Group):
    """A group whose commands fail with a message and an exit code, never with a traceback."""

    command_class = Command
    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what was typed: logs and reports say how they came about."""
        if ctx.parent is None:
            ctx.meta[TYPED] = shlex.join(["fairmend", *args])
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what goes wrong is said on stderr."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's own business
        except FairmendError as error:
            _fail(ctx, str(error))
        except KeyboardInterrupt:
            _fail(ctx, _AFTER_INTERRUPT.get(ctx.invoked_subcommand or "", _NOTHING_WRITTEN), INTERRUPTED)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(ctx, f"{where}{error.strerror or error}")
        except MemoryError:
            _fail(ctx, "out of memory; give fewer rows or a smaller network")
        except Exception as error:
            if ctx.meta.get(_VERBOSE):
                click.echo(traceback.format_exc(), err=True)
            _logger.debug("unexpected", exc_info=True)
            hint = "" if ctx.meta.get(_VERBOSE) else "; --verbose shows where"
            _fail(ctx, f"unexpected {type(error).__name__}: {error}. This is a bug in fairmend{hint}")


def _fail(ctx: click.Context, message: str, code: int = COULD_NOT_ANSWER) -> NoReturn:
    _logger.debug("exit %d: %s", code, message)
    click.secho(f"Error: {message}" if code != INTERRUPTED else message, fg="red", err=True)
    ctx.exit(code)


def config_of(ctx: click.Context) -> Path | None:
    """Return the fairmend.toml in force, if there is one."""
    file: Path | None = ctx.meta.get(_CONFIG)
    return file


def _chosen_config(ctx: click.Context, given: dict[str, Any]) -> Path | None:
    """The file that --config names, on the command or before it; else the one that lies nearest, if any."""
    named = given.get("config") or ctx.meta.get(_CONFIG)
    none = given.get("no_config") or ctx.meta.get(_NO_CONFIG)
    if named and none:
        raise click.UsageError("--config and --no-config exclude each other", ctx)
    found = None if none else Path(named) if named else find_config(Path.cwd())
    ctx.meta[_CONFIG] = found
    return found


def _remember(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            ctx.meta[key] = value  # shared by all contexts of one call

    return callback


def _log(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Start to log as far as is known by now; -v and --log-file may stand before the command and after it."""
    if not value or ctx.resilient_parsing:
        return
    if parameter.name == "verbose":
        ctx.meta[_VERBOSE] = ctx.meta.get(_VERBOSE, 0) + value
    else:
        ctx.meta[_LOG_FILE] = value
    try:
        stop = log_to(ctx.meta.get(_VERBOSE, 0), ctx.meta.get(_LOG_FILE))
    except FairmendError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    ctx.find_root().call_on_close(stop)


def common_options(command: _Decorated) -> _Decorated:
    """Give a command the options that every command has."""
    path = click.Path(path_type=Path)
    options = [
        click.option(
            "-v",
            "--verbose",
            count=True,
            expose_value=False,
            callback=_log,
            help="Say on stderr what is being done (-vv: in detail), and show the traceback of unexpected errors.",
        ),
        click.option(
            "--log-file", type=path, expose_value=False, callback=_log, help="Append what is being done to this file."
        ),
        click.option(
            "--config",
            type=path,
            expose_value=False,
            is_eager=True,
            callback=_remember(_CONFIG),
            help="Defaults for options; else fairmend.toml here or in a folder above.",
        ),
        click.option(
            "--no-config",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_remember(_NO_CONFIG),
            help="Ignore every fairmend.toml.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command

"""fairmend.toml: a project's defaults for the options of commands.

    [defaults]              # for every command that has such an option
    spec = "spec.toml"      # paths are relative to this file
    seed = 7

    [repair]                # for one command; takes precedence over [defaults]
    method = "prof"

The file may come with someone else's folder, so it sets only what cannot do harm: which files of its own folder are
read and written, and how results are computed, all of which a result states. Anything else must be typed, and
`fairmend check` reads no file. An unknown key or a value of the wrong type is an error: a default that is silently
ignored could change what is proven.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from fairmend.base.errors import FairmendError
from fairmend.base.paths import require_inside, require_plain_name

_FILE_NAME = "fairmend.toml"
_SHARED = "defaults"

OUTPUTS = {"out", "report", "certificate"}
"""Keys of options that name a file or a folder to be written."""

# What the file can set, and why it may. Whatever is not here must be typed: options that reach a network or start
# processes (cluster, device, jobs, solver), write elsewhere (log-file), believe files (resume, trust-pickle, force),
# accept less (real, ignore-scores, keep-going, out-of-range), say what a model computes (activation) or who is
# protected (spec init), or show more of people (pairs, what-if-rows).
_INPUTS = {"model", "spec", "data", "repair-data", "test-data", "about"}  # read as data, and named in the result
_VALUES = (
    {"seed", "threshold", "method", "engine", "bounds"}  # choices between computations; the claim states the threshold
    | {"margin", "gap", "steps", "learning-rate", "prefer", "keep"}  # of a repair, whose proof is checked all the same
    | {"guarantee"}  # by default any is enough, so it can only demand more
    | {"rows", "repair-rows", "calibration-rows", "samples", "seeds", "local-steps"}  # counts, which results state
    | {"share", "boxes", "seconds", "time-limit", "timeout", "most-boxes"}  # when to stop, and what stays undecided
    | {"json", "format", "no-report", "no-what-if"}  # the form of a result, or less of it
)
_SETTABLE = OUTPUTS | _INPUTS | _VALUES
_NOT_IN_A_FILE = {"help", "version", "config", "no-config"}
_WITHOUT_FILE = {("check",), ("doctor",), ("completion",)}  # commands that read no file


def find_config(start: Path) -> Path | None:
    """Return the nearest fairmend.toml, in `start` or a parent folder, up to the home folder or the root; or None.

    In a parent folder it must belong to the owner of `start`, to the user or to root: anyone can put it into /tmp.
    """
    home = Path(os.path.expanduser("~")).resolve()
    for folder in (start, *start.parents):
        file = folder / _FILE_NAME
        if file.is_file():
            if file.lstat().st_uid not in {start.stat().st_uid, 0, *_own_uid()}:
                raise FairmendError(
                    f"{file}: belongs to another user; name it with --config if you trust it, or pass --no-config"
                )
            return file
        if folder == home:
            break
    return None


def _own_uid() -> set[int]:
    return {os.getuid()} if hasattr(os, "getuid") else set()  # Windows has none, and 0 for all owners


def command_defaults(file: Path | None, ctx: click.Context) -> dict[str, Any]:
    """Check the whole file, and return its defaults for the command of `ctx` by parameter name."""
    if file is None:
        return {}
    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    tables = _Tables(file, root)
    names: list[str] = []
    here: click.Context | None = ctx
    while here is not None and here.parent is not None:
        names.insert(0, here.info_name or "")
        here = here.parent
    return tables.defaults(tuple(names), ctx.command)


def check_config(file: Path, root: click.Group) -> None:
    """Raise `FairmendError` if the file has an invalid default for any command."""
    tables = _Tables(file, root)
    for path, command in commands_of(root):
        if path not in _WITHOUT_FILE:
            tables.defaults(path, command)


def commands_of(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command of a group and of its subgroups, with the names that call it."""
    for name, command in _commands(group).items():
        if isinstance(command, click.Group):
            yield from commands_of(command, (*path, name))
        else:
            yield (*path, name), command


def _commands(group: click.Group) -> dict[str, click.Command]:
    ctx = click.Context(group)
    found = {name: group.get_command(ctx, name) for name in group.list_commands(ctx)}
    return {name: command for name, command in found.items() if command is not None}


class _Tables:
    """The tables of a file. Creating it checks every key; values in [defaults] are checked for each command."""

    def __init__(self, file: Path, root: click.Group) -> None:
        self.file = file
        self.commands = dict(commands_of(root))
        data = _read(file)
        self.shared: Mapping[str, Any] = data.pop(_SHARED, {})
        self.of_command: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._take(data, root, ())
        everywhere = {key: each for command in self.commands.values() for key, each in _keys(command).items()}
        self._check_keys(self.shared, everywhere)
        for path, table in self.of_command.items():
            command = self.commands[path]
            self._check_keys(table, _keys(command), path)
            self._values(table, command, path)

    def defaults(self, path: tuple[str, ...], command: click.Command) -> dict[str, Any]:
        """Return the defaults of one command by parameter name."""
        shared = {key: value for key, value in self.shared.items() if key in _keys(command)}
        return {
            **self._values(shared, command, (_SHARED,)),
            **self._values(self.of_command.get(path, {}), command, path),
        }

    def _take(self, data: Mapping[str, Any], group: click.Group, path: tuple[str, ...]) -> None:
        commands = _commands(group)
        for name, table in data.items():
            command = commands.get(name)
            if command is None:
                known = list(commands) if path else [_SHARED, *commands]
                where = f" of [{'.'.join(path)}]" if path else ""
                raise FairmendError(f'{self.file}: there is no command "{name}"{where}{_hint(name, known)}')
            if not isinstance(table, Mapping):
                raise FairmendError(f"{self.file}: {name} must be a table; write [{name}] and put its options below it")
            if (*path, name) in _WITHOUT_FILE:
                raise FairmendError(
                    f"{self.file}: [{name}] cannot be set in a file: fairmend {name} reads none; type its options on "
                    "the command line"
                )
            if isinstance(command, click.Group):
                self._take(table, command, (*path, name))
            else:
                self.of_command[(*path, name)] = table

    def _check_keys(
        self, table: object, known: Mapping[str, click.Parameter], path: tuple[str, ...] = (_SHARED,)
    ) -> None:
        where = ".".join(path)
        if not isinstance(table, Mapping):
            raise FairmendError(f"{self.file}: {where} must be a table; write [{where}] and put its options below it")
        for key in table:
            if key not in known:
                settable = [name for name in known if name in _SETTABLE]
                raise FairmendError(f'{self.file}: [{where}] has an unknown key "{key}"{_hint(key, settable)}')
            if key not in _SETTABLE:
                option = f"--{key}" if isinstance(known[key], click.Option) else "it"
                raise FairmendError(
                    f"{self.file}: [{where}] {key} cannot be set in a file, which may come with someone else's folder; "
                    f"remove it, and type {option} on the command line"
                )

    def _values(self, table: Mapping[str, Any], command: click.Command, path: tuple[str, ...]) -> dict[str, Any]:
        keys = _keys(command)
        values = {}
        for key, value in table.items():
            parameter = keys[key]
            try:
                values[str(parameter.name)] = _checked(value, parameter, key, self.file.parent)
            except (FairmendError, click.BadParameter) as error:
                message = error.message if isinstance(error, click.BadParameter) else str(error)
                raise FairmendError(f"{self.file}: [{'.'.join(path)}] {key}: {message.rstrip('.')}") from error
        return values


def _read(file: Path) -> dict[str, Any]:
    from fairmend.spec.toml import read_toml

    return read_toml(file, "the defaults")


def _keys(command: click.Command) -> dict[str, click.Parameter]:
    """Return the parameters of a command by their key in the file: options as on the command line, without dashes."""
    keys = {key_of(parameter): parameter for parameter in command.params}
    return {key: parameter for key, parameter in keys.items() if key not in _NOT_IN_A_FILE}


def key_of(parameter: click.Parameter) -> str:
    """Return the key of a parameter in the file."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len).lstrip("-")
    return parameter.human_readable_name.lower()


def _checked(value: object, parameter: click.Parameter, key: str, folder: Path) -> Any:
    """Return the value if its type is that of the parameter; unlike text from a shell, it is not converted."""
    if parameter.multiple or parameter.nargs != 1:
        if not isinstance(value, list):
            raise FairmendError(f"must be a list, got {_shown(value)}")
        return [_one(entry, parameter, key, folder) for entry in value]
    return _one(value, parameter, key, folder)


def _one(value: object, parameter: click.Parameter, key: str, folder: Path) -> Any:
    kind = parameter.type
    if isinstance(parameter, click.Option) and parameter.is_flag:
        what, fits = "true or false", isinstance(value, bool)
    elif isinstance(kind, click.types.IntParamType):
        what, fits = "a whole number", isinstance(value, int) and not isinstance(value, bool)
    elif isinstance(kind, click.types.FloatParamType):
        what, fits = "a number", isinstance(value, int | float) and not isinstance(value, bool)
    else:
        what, fits = "text", isinstance(value, str)
    if not fits:
        raise FairmendError(f"must be {what}, got {_shown(value)}")
    if isinstance(kind, click.Path):
        written = key in OUTPUTS
        require_plain_name(str(value), written=written)
        require_inside(folder / str(value), folder, written=written)
        value = str(value) if folder == Path.cwd() else str(folder / str(value))
    kind.convert(value, parameter, None)  # ranges and choices
    return value


def _shown(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


def _hint(word: str, known: Iterable[str]) -> str:
    from fairmend.base.text import suggest

    known = list(known)
    return suggest(word, known) or f"; choose from {', '.join(known)}"

"""Completion in a shell: the script that turns it on, and files that fit an option."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
_TABLES = (".csv", ".parquet")
_SUFFIXES = {"data": _TABLES, "repair_data": _TABLES, "spec_file": (".toml",), "certificate": (".json",)}


class FileType(click.Path):
    """A path; a shell completes it to files of the suffixes that its parameter reads."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the files that fit, or leave it to the shell where there are folders to choose as well."""
        suffixes = _readable() if param.name == "model" else _SUFFIXES.get(param.name or "", ())
        path = Path(incomplete)
        folder, start = (path, "") if incomplete.endswith("/") or not incomplete else (path.parent, path.name)
        try:
            entries = sorted(entry for entry in folder.iterdir() if entry.name.startswith(start))
        except OSError:  # no such folder: nothing to add to what the shell itself knows
            entries = []
        fitting = [entry for entry in entries if entry.suffix.lower() in suffixes and entry.is_file()]
        if not fitting or any(entry.is_dir() for entry in entries):
            return [CompletionItem(incomplete, type="file")]
        prefix = incomplete[: len(incomplete) - len(start)]
        return [CompletionItem(prefix + entry.name) for entry in fitting]


def completion_script(shell: str, command: click.Command, name: str = "fairmend") -> str:
    """Return the script that makes the shell complete `name`."""
    kind = get_completion_class(shell)
    assert kind is not None
    # Not kind.source(), which runs bash to learn its version.
    return ShellComplete.source(kind(command, {}, name, f"_{name.upper()}_COMPLETE"))


def _readable() -> Sequence[str]:
    from fairmend.network.formats.suffixes import MODULES

    return tuple(MODULES)

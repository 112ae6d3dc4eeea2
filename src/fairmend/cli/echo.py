"""Print a line where rich may not be installed: `fairmend check` and `fairmend doctor` work without it."""

from __future__ import annotations

from typing import Any

import click

from fairmend.base.text import printable


def echo_line(text: str, **options: Any) -> None:
    """Print text as one line; what files contributed to it is escaped. `options` are those of `click.secho`."""
    click.secho(printable(text), **options)

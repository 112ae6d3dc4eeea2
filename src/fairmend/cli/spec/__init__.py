"""`fairmend spec`: write a spec from data or from a scikit-learn pipeline, and check one."""

from __future__ import annotations

import click

from fairmend.cli.group import Group

__all__ = ["command"]

_COMMANDS = {
    "init": "Draft a spec from a data file.",
    "from-sklearn": "Derive the spec from a fitted scikit-learn pipeline.",
    "check": "Explain a spec and check that data and model fit it.",
}


@click.group("spec", cls=Group, package="fairmend.cli.spec", summaries=_COMMANDS)
def command() -> None:
    """Write or check a spec.

    A spec describes the features that a model reads, and which people count as similar.
    """

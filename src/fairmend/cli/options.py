"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fairmend.cli.completion import FileType

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
FILE = FileType(path_type=Path)
MODEL_FORMATS = ".onnx, .h5, .keras, .nnet, .pth or .safetensors"
POSITIVE = click.FloatRange(min=0, min_open=True)


def json_option(command: Decorated) -> Decorated:
    """Add --json."""
    return click.option("--json", "json_output", is_flag=True, help="Print one JSON document and nothing else.")(
        command
    )


def activation_option(command: Decorated) -> Decorated:
    """Add --activation."""
    return click.option(
        "--activation",
        default="relu",
        show_default=True,
        help="Activation of a network whose file holds weights only (.pth, .safetensors): relu, leaky_relu, "
        "leaky_relu(0.2) with another slope than 0.01, tanh or sigmoid.",
    )(command)


def seed_option(command: Decorated) -> Decorated:
    """Add --seed."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Of every random choice.",
    )(command)


def names_formats(command: Decorated) -> Decorated:
    """Put the model formats into the command's help, in place of {formats}."""
    command.__doc__ = (command.__doc__ or "").replace("{formats}", MODEL_FORMATS)
    return command

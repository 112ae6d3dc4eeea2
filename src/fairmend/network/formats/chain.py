"""The steps of a model in which each reads the one before it, and the Network that they form (see `build`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.folding import Norm
from fairmend.network.form import Form
from fairmend.network.formats.build import SUPPORTED, GraphBuilder, scaling, unsupported

__all__ = [
    "SUPPORTED",
    "Collapse",
    "Linear",
    "Nonlinear",
    "Norm",
    "Softmax",
    "Step",
    "build_network",
    "scaling",
    "unsupported",
]


@dataclass(frozen=True)
class Linear:
    """An affine layer: weight (out, in), bias (out,) or None for zeros; `name` is its key prefix, if any."""

    where: str
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None
    name: str | None


@dataclass(frozen=True)
class Nonlinear:
    """An activation; a sigmoid after the last affine layer is the closing."""

    where: str
    activation: Activation


@dataclass(frozen=True)
class Softmax:
    """Softmax over the last axis."""

    where: str


@dataclass(frozen=True)
class Collapse:
    """Drops the axis of outputs, as squeeze does; `single` where that is right for 1 output only."""

    where: str
    single: bool


Step = Linear | Norm | Nonlinear | Softmax | Collapse


def build_network(steps: Sequence[Step], source: str, form: Form | None = None) -> Network:
    """Return the Network of steps that follow each other; `source` names the file or module in errors."""
    first = next((step for step in steps if isinstance(step, Linear)), None)
    if first is None:
        raise FairmendError(f"{source}: holds no affine layer; {SUPPORTED}")
    builder = GraphBuilder(source)
    value = builder.input(first.weight.shape[-1] if first.weight.ndim == 2 else 1)
    for step in steps:
        if isinstance(step, Linear):
            value = builder.linear(value, step.where, step.weight, step.bias, step.name)
        elif isinstance(step, Norm):
            value = builder.norm(value, step)
        elif isinstance(step, Nonlinear):
            value = builder.function(value, step.where, step.activation)
        elif isinstance(step, Softmax):
            value = builder.softmax(value, step.where)
        else:
            value = builder.collapse(value, step.where, single=step.single)
    return builder.network(value, form)

"""Build a Network from the layers that a format found.

A format lists the layers of a model in order, as the steps below. Which step may follow which, where BatchNorm is
folded and what closes the network is decided here, once for all formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.network.folding import Fold, Norm
from fairmend.network.form import Form

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

SUPPORTED = (
    "fairmend supports chains of affine layers with relu, leaky_relu, tanh or sigmoid between them, batch "
    "normalisation and scaling next to an affine layer, dropout, and a closing sigmoid (1 output) or softmax (several)"
)


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


def scaling(where: str, gain: npt.ArrayLike, shift: npt.ArrayLike, mean: npt.ArrayLike = 0.0) -> Norm:
    """Return (x − mean)·gain + shift as a step; each is (width,), or one number for all."""
    return Norm(where, np.asarray(mean), None, np.asarray(gain), np.asarray(shift))


def unsupported(source: str, where: str, why: str) -> FairmendError:
    """Return the error for a layer that is not supported: which file, which layer, why, and what is supported."""
    return FairmendError(f"{source}: {where} {why}; {SUPPORTED}")


def build_network(steps: Sequence[Step], source: str, form: Form | None = None) -> Network:
    """Return the Network that `steps` describe; `source` names the file or module in errors."""
    last = max((i for i, step in enumerate(steps) if isinstance(step, Linear)), default=None)
    if last is None:
        raise FairmendError(f"{source}: holds no affine layer; {SUPPORTED}")
    while last + 1 < len(steps) and isinstance(steps[last + 1], Norm):
        last += 1
    layers, activations = _body(steps[: last + 1], source)
    affines = [layer.affine(source) for layer in layers]
    closing = _tail(steps[last + 1 :], len(affines[-1].bias), source)
    names = [layer.linear.name if layer.linear.name is not None else f"layers.{i}" for i, layer in enumerate(layers)]
    try:
        return Network(affines, activations, closing, names if len(set(names)) == len(names) else None, form=form)
    except FairmendError as error:
        raise FairmendError(f"{source}: {error}") from error


@dataclass(frozen=True)
class _Layer:
    """An affine layer with the norms before and after it."""

    linear: Linear
    before: list[Norm]
    after: list[Norm]

    def affine(self, source: str) -> Affine:
        linear = self.linear
        bias = np.zeros(linear.weight.shape[:1], linear.weight.dtype) if linear.bias is None else linear.bias
        try:
            plain = Affine(linear.weight, bias)
        except FairmendError as error:
            raise FairmendError(f"{source}: {linear.where}: {error}") from error
        if not self.before and not self.after:
            return plain
        stored = None if linear.bias is None else plain.bias
        return Affine.from_fold(Fold(plain.weight, stored, tuple(self.before), tuple(self.after), source))


def _body(steps: Sequence[Step], source: str) -> tuple[list[_Layer], list[Activation]]:
    """Return the affine layers, with BatchNorm and scales beside them, and the activations between them."""
    layers: list[_Layer] = []
    activations: list[Activation] = []
    waiting: list[Norm] = []  # a BatchNorm after an activation goes into the affine layer after it
    for step in steps:
        if isinstance(step, Linear):
            if 0 < len(layers) == len(activations) + 1:
                activations.append(Activation("identity"))
            layers.append(_Layer(step, waiting, []))
            waiting = []
        elif isinstance(step, Norm):
            (layers[-1].after if len(layers) == len(activations) + 1 else waiting).append(step)
        elif isinstance(step, Nonlinear):
            if waiting:
                raise unsupported(source, waiting[-1].where, "is followed by an activation, not by an affine layer")
            if not layers:
                raise unsupported(source, step.where, "comes before the first affine layer")
            if len(activations) == len(layers):
                raise unsupported(source, step.where, "directly follows another activation")
            activations.append(step.activation)
        else:
            raise unsupported(source, step.where, "is supported only after the last affine layer")
    return layers, activations


def _tail(steps: Sequence[Step], outputs: int, source: str) -> str:
    """Return what closes the network: 'none', 'sigmoid' or 'softmax'."""
    closing = "none"
    for step in steps:
        if isinstance(step, Collapse):
            if step.single and outputs > 1:
                raise unsupported(source, step.where, f"would mix the {outputs} outputs of different rows")
            continue
        if closing != "none":
            raise unsupported(source, step.where, f"follows the closing {closing}")
        if isinstance(step, Softmax):
            if outputs == 1:
                raise unsupported(source, step.where, "closes a network of 1 output, and is then always 1")
            closing = "softmax"
        elif isinstance(step, Nonlinear) and step.activation.name == "sigmoid":
            if outputs > 1:
                raise unsupported(source, step.where, f"closes a network of {outputs} outputs (several labels at once)")
            closing = "sigmoid"
        else:
            raise unsupported(source, step.where, "closes the network")
    return closing

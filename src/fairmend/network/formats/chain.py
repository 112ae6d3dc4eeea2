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

__all__ = [
    "SUPPORTED",
    "BatchNorm",
    "Collapse",
    "Linear",
    "Nonlinear",
    "Scale",
    "Softmax",
    "Step",
    "build_network",
    "unsupported",
]

SUPPORTED = (
    "fairmend supports chains of affine layers with relu, leaky_relu, tanh or sigmoid between them, batch "
    "normalisation and scaling next to an affine layer, dropout, and a closing sigmoid (1 output) or softmax (several)"
)

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Linear:
    """An affine layer: weight (out, in), bias (out,) or None for zeros; `name` is its key prefix, if any."""

    where: str
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None
    name: str | None


@dataclass(frozen=True)
class BatchNorm:
    """(x − mean) / √(variance + epsilon) · gain + shift, all (width,); gain and shift None for 1 and 0."""

    where: str
    mean: npt.NDArray[Any]
    variance: npt.NDArray[Any]
    gain: npt.NDArray[Any] | None
    shift: npt.NDArray[Any] | None
    epsilon: float
    name: str | None = None


@dataclass(frozen=True)
class Scale:
    """gain·x + shift, each (width,), or one number for all."""

    where: str
    gain: npt.NDArray[Any]
    shift: npt.NDArray[Any]


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


Norm = BatchNorm | Scale
Step = Linear | Norm | Nonlinear | Softmax | Collapse


def unsupported(source: str, where: str, why: str) -> FairmendError:
    """Return the error for a layer that is not supported: which file, which layer, why, and what is supported."""
    return FairmendError(f"{source}: {where} {why}; {SUPPORTED}")


def build_network(steps: Sequence[Step], source: str) -> Network:
    """Return the Network that `steps` describe; `source` names the file or module in errors."""
    last = max((i for i, step in enumerate(steps) if isinstance(step, Linear)), default=None)
    if last is None:
        raise FairmendError(f"{source}: holds no affine layer; {SUPPORTED}")
    while last + 1 < len(steps) and isinstance(steps[last + 1], Norm):
        last += 1
    affines, activations = _body(steps[: last + 1], source)
    closing = _tail(steps[last + 1 :], len(affines[-1].bias), source)
    linears = [step for step in steps if isinstance(step, Linear)]
    names = [step.name if step.name is not None else f"layers.{i}" for i, step in enumerate(linears)]
    try:
        return Network(affines, activations, closing, names if len(set(names)) == len(names) else None)
    except FairmendError as error:
        raise FairmendError(f"{source}: {error}") from error


def _body(steps: Sequence[Step], source: str) -> tuple[list[Affine], list[Activation]]:
    """Return the affine layers, with BatchNorm and scales folded in, and the activations between them."""
    affines: list[Affine] = []
    activations: list[Activation] = []
    waiting: list[Norm] = []  # a BatchNorm after an activation goes into the affine layer after it
    for step in steps:
        if isinstance(step, Linear):
            if 0 < len(affines) == len(activations) + 1:
                activations.append(Activation("identity"))
            affine = _affine(step, source)
            while waiting:
                affine = _fold_before(waiting.pop(), affine, source)
            affines.append(affine)
        elif isinstance(step, Norm):
            if len(affines) == len(activations) + 1:
                affines[-1] = _fold_after(affines[-1], step, source)
            else:
                waiting.append(step)
        elif isinstance(step, Nonlinear):
            if waiting:
                raise unsupported(source, waiting[-1].where, "is followed by an activation, not by an affine layer")
            if not affines:
                raise unsupported(source, step.where, "stands before the first affine layer")
            if len(activations) == len(affines):
                raise unsupported(source, step.where, "directly follows another activation")
            activations.append(step.activation)
        else:
            raise unsupported(source, step.where, "is supported only after the last affine layer")
    return affines, activations


def _affine(step: Linear, source: str) -> Affine:
    bias = np.zeros(step.weight.shape[:1], step.weight.dtype) if step.bias is None else step.bias
    try:
        return Affine(step.weight, bias)
    except FairmendError as error:
        raise FairmendError(f"{source}: {step.where}: {error}") from error


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


def _gain_and_shift(norm: Norm, width: int, source: str) -> tuple[Float64, Float64]:
    """Return BatchNorm at inference, or a scale, as gain and shift of x ↦ gain·x + shift: both (width,), float64."""
    if isinstance(norm, Scale):
        return _wide(norm.gain, norm, width, source), _wide(norm.shift, norm, width, source)
    mean, variance = _wide(norm.mean, norm, width, source), _wide(norm.variance, norm, width, source)
    if not (variance + norm.epsilon > 0).all():
        raise FairmendError(f"{source}: {norm.where} has a variance that is not positive")
    factor = 1 / np.sqrt(variance + norm.epsilon)
    gain = 1.0 if norm.gain is None else _wide(norm.gain, norm, width, source)
    shift = 0.0 if norm.shift is None else _wide(norm.shift, norm, width, source)
    with np.errstate(over="ignore", invalid="ignore"):
        return factor * gain, shift - mean * (factor * gain)


def _wide(part: npt.NDArray[Any], norm: Norm, width: int, source: str) -> Float64:
    """Return a part in float64 with the shape (width,); a single number of a scale is repeated."""
    values = np.asarray(part, np.float64)
    if isinstance(norm, Scale) and values.ndim == 0:
        values = np.full(width, values)
    if values.shape != (width,):
        raise FairmendError(f"{source}: {norm.where} is {values.size} wide, and the affine layer beside it {width}")
    return values


def _fold_after(affine: Affine, norm: Norm, source: str) -> Affine:
    """Return gain·(Wx + b) + shift as one affine layer."""
    gain, shift = _gain_and_shift(norm, affine.weight.shape[0], source)
    with np.errstate(over="ignore", invalid="ignore"):  # Network refuses what is not finite, by name
        folded = Affine(gain[:, None] * affine.weight, gain * affine.bias + shift)
    return folded.astype(affine.weight.dtype)


def _fold_before(norm: Norm, affine: Affine, source: str) -> Affine:
    """Return W(gain·x + shift) + b as one affine layer."""
    gain, shift = _gain_and_shift(norm, affine.weight.shape[1], source)
    with np.errstate(over="ignore", invalid="ignore"):
        folded = Affine(affine.weight * gain, affine.weight @ shift + affine.bias)
    return folded.astype(affine.weight.dtype)

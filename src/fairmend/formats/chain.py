"""From a sequence of layer descriptions, as a format reads them, to a Network.

A format says what it found, in order, as the steps below; what may follow what, where BatchNorm goes
and what closes the network is decided here, once for all formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network

SUPPORTED = (
    "supported is a chain of affine layers with relu, leaky_relu, tanh or sigmoid between them, BatchNorm1d "
    "next to an affine layer, dropout, and a closing sigmoid (1 output) or softmax (several)"
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


Step = Linear | BatchNorm | Nonlinear | Softmax | Collapse


def refuse(source: str, where: str, why: str) -> FairmendError:
    """The one form of refusal: which file, which layer, why, and what would work."""
    return FairmendError(f"{source}: {where} {why}; {SUPPORTED}")


def build(steps: Sequence[Step], source: str) -> Network:
    """The Network that `steps` describe; `source` names the file or module in errors."""
    last = max((i for i, step in enumerate(steps) if isinstance(step, Linear)), default=None)
    if last is None:
        raise FairmendError(f"{source}: holds no affine layer; {SUPPORTED}")
    while last + 1 < len(steps) and isinstance(steps[last + 1], BatchNorm):
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
    """The affine layers, BatchNorm folded in, and the activations between them."""
    affines: list[Affine] = []
    activations: list[Activation] = []
    waiting: BatchNorm | None = None  # a BatchNorm after an activation goes into the affine layer after it
    for step in steps:
        if isinstance(step, Linear):
            if 0 < len(affines) == len(activations) + 1:
                activations.append(Activation("identity"))
            affine = _affine(step, source)
            affines.append(affine if waiting is None else _fold_before(waiting, affine, source))
            waiting = None
        elif isinstance(step, BatchNorm):
            if waiting is not None:
                raise refuse(source, step.where, f"follows {waiting.where} with no affine layer between them")
            if len(affines) == len(activations) + 1:
                affines[-1] = _fold_after(affines[-1], step, source)
            else:
                waiting = step
        elif isinstance(step, Nonlinear):
            if waiting is not None:
                raise refuse(source, waiting.where, "is followed by an activation, not by an affine layer")
            if not affines:
                raise refuse(source, step.where, "stands before the first affine layer")
            if len(activations) == len(affines):
                raise refuse(source, step.where, "directly follows another activation")
            activations.append(step.activation)
        else:
            raise refuse(source, step.where, "is understood only after the last affine layer")
    return affines, activations


def _affine(step: Linear, source: str) -> Affine:
    bias = np.zeros(step.weight.shape[:1], step.weight.dtype) if step.bias is None else step.bias
    try:
        return Affine(step.weight, bias)
    except FairmendError as error:
        raise FairmendError(f"{source}: {step.where}: {error}") from error


def _tail(steps: Sequence[Step], outputs: int, source: str) -> str:
    """What closes the network: 'none', 'sigmoid' or 'softmax'."""
    closing = "none"
    for step in steps:
        if isinstance(step, Collapse):
            if step.single and outputs > 1:
                raise refuse(source, step.where, f"would mix the {outputs} outputs of different rows")
            continue
        if closing != "none":
            raise refuse(source, step.where, f"follows the closing {closing}")
        if isinstance(step, Softmax):
            if outputs == 1:
                raise refuse(source, step.where, "closes a network of 1 output, and is then always 1")
            closing = "softmax"
        elif isinstance(step, Nonlinear) and step.activation.name == "sigmoid":
            if outputs > 1:
                raise refuse(source, step.where, f"closes a network of {outputs} outputs (several labels at once)")
            closing = "sigmoid"
        else:
            raise refuse(source, step.where, "closes the network")
    return closing


def _gain_and_shift(norm: BatchNorm, width: int, source: str) -> tuple[Float64, Float64]:
    """BatchNorm in inference as x ↦ gain·x + shift, both (width,), in float64."""
    given = (norm.mean, norm.variance, norm.gain, norm.shift)
    mean, variance, gain, shift = (None if part is None else np.asarray(part, np.float64) for part in given)
    for part in (mean, variance, gain, shift):
        if part is not None and part.shape != (width,):
            raise FairmendError(f"{source}: {norm.where} is {part.size} wide; the affine layer beside it {width}")
    assert mean is not None
    assert variance is not None
    if not (variance + norm.epsilon > 0).all():
        raise FairmendError(f"{source}: {norm.where} has a variance that is not positive")
    factor = 1 / np.sqrt(variance + norm.epsilon)
    if gain is not None:
        factor = factor * gain
    return factor, (0.0 if shift is None else shift) - mean * factor


def _fold_after(affine: Affine, norm: BatchNorm, source: str) -> Affine:
    """gain·(Wx + b) + shift as one affine layer."""
    gain, shift = _gain_and_shift(norm, affine.weight.shape[0], source)
    folded = Affine(gain[:, None] * affine.weight, gain * affine.bias + shift)
    return folded.astype(affine.weight.dtype)


def _fold_before(norm: BatchNorm, affine: Affine, source: str) -> Affine:
    """W(gain·x + shift) + b as one affine layer."""
    gain, shift = _gain_and_shift(norm, affine.weight.shape[1], source)
    folded = Affine(affine.weight * gain, affine.weight @ shift + affine.bias)
    return folded.astype(affine.weight.dtype)

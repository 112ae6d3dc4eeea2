"""A model from the steps that a reader found: affine layers, norms beside them, activations, and what closes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.model import Activation, Model, make_model
from fairmend_check.norms import Norm, fold_layer


@dataclass(frozen=True, eq=False)
class Affine:
    """W x + b: weight (out, in), bias (out,) or None."""

    weight: NDArray[np.floating]
    bias: NDArray[np.floating] | None


@dataclass(frozen=True, eq=False)
class _Layer:
    affine: Affine
    before: list[Norm]
    after: list[Norm] = field(default_factory=list)


Step = Affine | Norm | Activation


def assemble(steps: Sequence[Step]) -> Model:
    """Return the model; a sigmoid of one output or a softmax of several may close it."""
    layers: list[_Layer] = []
    activations: list[Activation] = []
    waiting: list[Norm] = []  # norms after an activation belong to the next layer
    for step in steps:
        fresh = len(layers) > len(activations)  # no activation since the last affine layer
        if isinstance(step, Affine):
            if fresh:
                activations.append(Activation("identity"))
            layers.append(_Layer(step, waiting))
            waiting = []
        elif isinstance(step, Norm):
            (layers[-1].after if fresh else waiting).append(step)
        elif fresh:
            activations.append(step)
        else:
            raise CheckError(f"the activation {step.name} is in a position that cannot be checked")
    if waiting:
        raise CheckError("batch normalisation or scaling is in a position that cannot be checked")
    closed = len(activations) == len(layers) > 0
    if closed:
        closing = activations.pop().name
        if closing != ("sigmoid" if len(layers[-1].affine.weight) == 1 else "softmax"):
            raise CheckError(f"the model ends with {closing}, which cannot be checked there")
    pairs, folds = [], []
    for layer in layers:
        pair, fold = fold_layer(layer.affine.weight, layer.affine.bias, layer.before, layer.after)
        pairs.append(pair)
        folds.append(fold)
    return replace(make_model(pairs, activations), folds=tuple(folds), closed=closed)

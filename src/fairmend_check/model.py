"""A model: matrices, the activations between them, and the digest that identifies them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.norms import Fold

Array = NDArray[np.float64]

ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "identity")
MAX_WIDTH = 2**20  # the error bounds of the arithmetic assume dot products no longer than this


@dataclass(frozen=True)
class Activation:
    """An activation by name; ``slope`` is that of leaky_relu below zero, and 0 for all others."""

    name: str
    slope: float = 0.0


@dataclass(frozen=True)
class Layer:
    """A layer of a state dict as a certificate names it, and the activation after it; "none" after the last.

    Batch normalisation has an ``epsilon``, an affine layer has none.
    """

    name: str
    activation: Activation
    epsilon: float | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """Affine layers (out, in) with an activation after each but the last.

    A closing sigmoid (of one output) or softmax does not change the prediction, so it is left out; ``closed`` says
    whether the file has one. ``condition`` says what a program must do with the file to compute this model, if the file
    itself does not fix that. ``folds`` has the parts of each layer that batch normalisation or scaling is folded into,
    and None for the others; it is empty if there are none.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activations: tuple[Activation, ...]
    dtype: str
    condition: str = ""
    closed: bool = False
    folds: tuple[Fold | None, ...] = ()

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return int(self.weights[0].shape[1])

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return int(self.weights[-1].shape[0])


def make_model(
    layers: list[tuple[NDArray[np.floating], NDArray[np.floating] | None]], activations: list[Activation]
) -> Model:
    """Return the model made of these layers, after checking that they form a chain of finite numbers."""
    if not layers:
        raise CheckError("the model has no layers")
    dtypes = {array.dtype.name for pair in layers for array in pair if array is not None}
    if len(dtypes) != 1 or not dtypes <= {"float32", "float64"}:
        raise CheckError(f"the model's weights must all be float32 or all be float64, got {', '.join(sorted(dtypes))}")
    weights, biases = [], []
    for number, (weight, bias) in enumerate(layers):
        if weight.ndim != 2 or not 0 < min(weight.shape) <= max(weight.shape) <= MAX_WIDTH:
            raise CheckError(f"the model's layer {number} has weights of shape {weight.shape}")
        bias = np.zeros(len(weight), weight.dtype) if bias is None else bias
        if bias.shape != weight.shape[:1]:
            raise CheckError(f"the model's layer {number} has weights {weight.shape} and biases {bias.shape}")
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise CheckError(f"the model's layer {number} contains a weight that is not finite")
        weights.append(np.ascontiguousarray(weight, dtype=np.float64))
        biases.append(np.ascontiguousarray(bias, dtype=np.float64))
    for number, (before, after) in enumerate(pairwise(weights)):
        if after.shape[1] != len(before):
            raise CheckError(f"the model's layer {number + 1} reads {after.shape[1]} of {len(before)} values")
    if len(activations) != len(layers) - 1:
        raise CheckError(f"the model has {len(layers)} layers and {len(activations)} activations between them")
    dtype = dtypes.pop()
    for activation in activations:
        known = activation.name in ACTIVATIONS and (activation.slope == 0 or activation.name == "leaky_relu")
        if not known or not 0 <= activation.slope < np.inf:
            raise CheckError(f"the model's activation {activation.name} with slope {activation.slope} is unknown")
        with np.errstate(over="ignore"):
            if float(np.dtype(dtype).type(activation.slope)) != activation.slope:
                raise CheckError(f"the slope {activation.slope} of an activation is not a {dtype} number")
    return Model(tuple(weights), tuple(biases), tuple(activations), dtype)


def weights_digest(model: Model) -> str:
    """Return the digest of docs/certificate.md, "The weights digest"."""
    digest = hashlib.sha256(f"fairmend weights 1\n{model.dtype}\n".encode("ascii"))
    for number, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        digest.update(f"{weight.shape[0]} {weight.shape[1]}\n".encode("ascii"))
        digest.update(weight.astype("<f8").tobytes())
        digest.update(bias.astype("<f8").tobytes())
        if number < len(model.activations):
            activation = model.activations[number]
            digest.update(f"{activation.name} {activation.slope.hex()}\n".encode("ascii"))
    return digest.hexdigest()

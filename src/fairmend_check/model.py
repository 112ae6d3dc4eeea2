"""A model: matrices, the activations between them, and the digest that identifies them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError

Array = NDArray[np.float64]

ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "identity")
MAX_WIDTH = 2**20  # the error bounds of the arithmetic assume dot products no longer than this


@dataclass(frozen=True)
class Activation:
    """An activation by name; ``slope`` is that of leaky_relu below zero, and 0 for all others."""

    name: str
    slope: float = 0.0


@dataclass(frozen=True, eq=False)
class Model:
    """Affine layers (out, in) with an activation after each but the last; None if the file does not name them.

    A closing sigmoid or softmax does not change the prediction, so it is left out.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activations: tuple[Activation, ...] | None
    dtype: str

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return int(self.weights[0].shape[1])

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return int(self.weights[-1].shape[0])

    @property
    def between(self) -> tuple[Activation, ...]:
        """The activations, which must be known."""
        assert self.activations is not None
        return self.activations


def make_model(
    layers: list[tuple[NDArray[np.floating], NDArray[np.floating] | None]], activations: list[Activation] | None
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
    if activations is not None:
        if len(activations) != len(layers) - 1:
            raise CheckError(f"the model has {len(layers)} layers and {len(activations)} activations between them")
        for activation in activations:
            known = activation.name in ACTIVATIONS and (activation.slope == 0 or activation.name == "leaky_relu")
            if not known or not 0 <= activation.slope < np.inf:
                raise CheckError(f"the model's activation {activation.name} with slope {activation.slope} is unknown")
    return Model(tuple(weights), tuple(biases), None if activations is None else tuple(activations), dtypes.pop())


def weights_digest(model: Model) -> str:
    """Return the digest of docs/certificate.md, "The weights digest"."""
    digest = hashlib.sha256(f"fairmend weights 1\n{model.dtype}\n".encode("ascii"))
    for number, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        digest.update(f"{weight.shape[0]} {weight.shape[1]}\n".encode("ascii"))
        digest.update(weight.astype("<f8").tobytes())
        digest.update(bias.astype("<f8").tobytes())
        if number < len(model.between):
            activation = model.between[number]
            digest.update(f"{activation.name} {activation.slope.hex()}\n".encode("ascii"))
    return digest.hexdigest()


def with_activations_of(model: Model, digest: str) -> Model:
    """Return the model with the activations that give this digest, if its file stores weights only and names none."""
    if model.activations is not None:
        return model
    tried = [Activation(name) for name in ACTIVATIONS if name != "leaky_relu"]
    tried += [Activation("leaky_relu", 0.01), Activation("leaky_relu", float(np.float32(0.01)))]
    candidates = [replace(model, activations=(kind,) * (len(model.weights) - 1)) for kind in tried]
    return next((candidate for candidate in candidates if weights_digest(candidate) == digest), candidates[0])

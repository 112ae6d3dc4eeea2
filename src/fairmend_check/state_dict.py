"""The model in a state dict (.pth, .safetensors): tensors of the file in the layers that the certificate names.

A state dict stores weights by name. In which order they are applied, and with which activations between them, is
written in the code of a module, which nobody can read from the file. The certificate names both, and the claim holds on
the condition that the module computes just that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.model import Layer, Model, make_model

_ROUNDED = {"float32": "", "float64": " A module in float32 would round the weights, which the claim does not cover."}


def model_of_tensors(tensors: dict[str, NDArray[np.floating]], layers: Sequence[Layer] | None) -> Model:
    """Return the model that applies these layers in this order; every tensor must belong to one of them."""
    if layers is None:
        raise CheckError(
            "a state dict stores weights only, and the certificate does not name the layers of the module "
            "(model.layers is null). Save the certificate with the model file: certificate.save(path, model)"
        )
    left = dict(tensors)
    pairs = []
    for layer in layers:
        prefix = f"{layer.name}." if layer.name else ""
        if f"{prefix}weight" not in left:
            raise NotConfirmedError(f'the file has no tensor "{prefix[:40]}weight", or the certificate names it twice')
        pairs.append((left.pop(f"{prefix}weight"), left.pop(f"{prefix}bias", None)))
    if left:
        raise NotConfirmedError(
            f'the file contains the tensor "{next(iter(left))[:40]}", which belongs to no layer of the certificate'
        )
    without_bias = [f'"{layer.name}"' for layer, (_, bias) in zip(layers, pairs, strict=True) if bias is None]
    model = make_model(pairs, [layer.activation for layer in layers[:-1]])
    return replace(model, condition=_condition(model, layers, without_bias))


def _condition(model: Model, layers: Sequence[Layer], without_bias: Sequence[str]) -> str:
    steps = []
    for layer, weight in zip(layers, model.weights, strict=True):
        steps.append(f'"{layer.name}" ({weight.shape[1]} to {weight.shape[0]})')
        if layer is not layers[-1]:
            slope = np.dtype(model.dtype).type(layer.activation.slope)
            leaky = layer.activation.name == "leaky_relu"
            steps.append(f"{layer.activation.name}{f' with slope {slope!s}' if leaky else ''}")
    bias = f" Without a bias: {', '.join(without_bias)}." if without_bias else ""
    return (
        "the file stores weights only. The claim is about a module that computes in "
        f"{model.dtype}, in this order: {', '.join(steps)}. Each layer computes W x + b, as torch.nn.Linear does with "
        f"W = weight (out, in) and b = bias.{bias} Nothing else may come before or between them, and only a "
        f"{'sigmoid' if model.outputs == 1 else 'softmax'} after them.{_ROUNDED[model.dtype]}"
    )

"""Biases that no layer stores, in training: they follow from the weights, and so do their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from fairmend.network import Network

Layers = list[tuple[Tensor, Tensor]]


class DerivedBiases:
    """The layers of a network that store no bias, by their numbers, with what gives it (`Affine.derived_bias`)."""

    def __init__(self, network: Network, dtype: torch.dtype, device: torch.device) -> None:
        found = {number: affine.derived_bias for number, affine in enumerate(network.affines)}
        self._parts = {
            number: (
                torch.tensor(bias.shift, dtype=dtype, device=device),
                torch.tensor(bias.constant, dtype=dtype, device=device),
            )
            for number, bias in found.items()
            if bias is not None
        }

    def replace(self, layers: Layers) -> Layers:
        """Return the layers, weights ``(..., out, in)`` and biases ``(..., out)``, with the biases that follow."""
        return [
            (weight, weight @ self._parts[i][0] + self._parts[i][1] if i in self._parts else bias)
            for i, (weight, bias) in enumerate(layers)
        ]

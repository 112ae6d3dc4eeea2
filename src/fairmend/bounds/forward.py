"""A network in PyTorch, differentiable in its affine layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.network import Network

Layers = Sequence[tuple[Tensor, Tensor]]
"""The affine layers in the order of the nodes, the head last: ``(weight (out, in), bias (out,))``.

Of several networks of one shape: ``(weight (networks, out, in), bias (networks, out))``.
"""


def forward(network: Network, layers: Layers, X: Tensor) -> Tensor:
    """Return the outputs ``(rows, outputs)`` of inputs ``(rows, inputs)`` with these layers.

    Of several networks at once: ``(networks, rows, outputs)`` of inputs ``(networks, rows, inputs)``.
    """
    return forward_nodes(network, layers, {0: X})[len(network.nodes) - 1]


def affine(weight: Tensor, bias: Tensor, h: Tensor) -> Tensor:
    """Return an affine layer of values ``(rows, in)``, or those of several networks of ``(networks, rows, in)``."""
    return F.linear(h, weight, bias) if weight.ndim == 2 else torch.baddbmm(bias[:, None], h, weight.mT)


def forward_nodes(
    network: Network,
    layers: Layers,
    given: Mapping[int, Tensor],
    affine: Callable[[Tensor, Tensor, Tensor], Tensor] = affine,
) -> dict[int, Tensor]:
    """Return the values of all nodes; those that are ``given``, the input among them, are not computed.

    ``affine`` computes an affine layer from its weight, its bias and the values that it reads.
    """
    values = dict(given)
    given_layers = dict(zip(network.affine_nodes, layers, strict=True))
    for i, node in enumerate(network.nodes):
        if i not in values:
            sources, layer = [values[source] for source in node.sources], given_layers.get(i)
            values[i] = node.operation.torch(sources) if layer is None else affine(*layer, sources[0])
    return values

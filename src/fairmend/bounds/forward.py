"""A network in PyTorch, differentiable in its affine layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.bounds.relaxation import apply_activation
from fairmend.network import Activation, Affine, Network
from fairmend.network.operations import Columns, Concatenate, Lookup, Operation, Scale, Sum

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
    remaining = iter(layers)
    for i, node in enumerate(network.nodes):
        layer = next(remaining) if isinstance(node.operation, Affine) else None
        if i not in values:
            sources = [values[source] for source in node.sources]
            values[i] = _compute(node.operation, sources) if layer is None else affine(*layer, sources[0])
    return values


def _compute(operation: Operation, values: Sequence[Tensor]) -> Tensor:
    if isinstance(operation, Activation):
        return apply_activation(operation, values[0])
    if isinstance(operation, Scale):
        factor, shift = (_like(values[0], part) for part in (operation.factor, operation.shift))
        return values[0] * factor + shift
    if isinstance(operation, Sum):
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total
    if isinstance(operation, Concatenate):
        return torch.cat(list(values), dim=-1)
    if isinstance(operation, Columns):
        return values[0][..., list(operation.indices)]
    if isinstance(operation, Lookup):
        return _like(values[0], operation.table)[values[0][..., 0].long()]
    raise NotImplementedError(f"{operation.kind} in PyTorch")


def _like(value: Tensor, array: object) -> Tensor:
    return torch.tensor(array, dtype=value.dtype, device=value.device)

"""Derivatives of a network with respect to its inputs, for a batch of rows.

Backpropagation in NumPy, not autograd, because a search then runs without PyTorch. `benchmarks/speed/gradients.py`
compares the two: both find the same IDIs, autograd takes 1.5 times the CPU time of the whole search (5.3 s against
3.4 s over nine searches), and importing PyTorch adds 1.3 s. On a GPU, the products of wide layers are computed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.device import current_device
from fairmend.network.network import Network
from fairmend.network.operations import Affine

_WORTH_MOVING = 10_000_000  # multiplications that take a CPU longer than the numbers take to a GPU and back


def forward(net: Network, X: FloatArray) -> list[Floats]:
    """Return the result of every node for X (rows, width), in float64; the logits come last."""
    values: list[Floats] = [X.astype(np.float64)]
    for node, width in zip(net.nodes[1:], net.widths[1:], strict=True):
        sources = [values[source] for source in node.sources]
        operation = node.operation
        if isinstance(operation, Affine):
            result = _product(sources[0], operation.weight.T.astype(np.float64)) + operation.bias
        else:
            result = np.empty((len(X), width))
            operation.compute(sources, result)
        values.append(result)
    return values


def _product(first: Floats, second: Floats) -> Floats:
    """Return a matrix product, computed on the current device if that is worth the way there."""
    device = current_device()
    if device is None or first.size * second.shape[1] < _WORTH_MOVING:
        return first @ second
    import torch

    one, other = (torch.tensor(part, dtype=torch.float64, device=device) for part in (first, second))
    return np.asarray((one @ other).cpu().numpy())


def backward(net: Network, values: Sequence[Floats], slopes: Mapping[int, Floats]) -> Floats:
    """Return the gradient (rows, width) of a function, from its derivatives with respect to some results of nodes."""
    gradients: dict[int, Floats] = dict(slopes)
    for i in range(len(net.nodes) - 1, 0, -1):
        if i not in gradients:
            continue
        node, gradient = net.nodes[i], gradients.pop(i)
        if isinstance(node.operation, Affine):
            parts: Sequence[Floats] = [_product(gradient, node.operation.weight.astype(np.float64))]
        else:
            parts = node.operation.gradients(gradient, [values[source] for source in node.sources], values[i])
        for source, part in zip(node.sources, parts, strict=True):
            gradients[source] = gradients[source] + part if source in gradients else part
    return gradients.get(0, np.zeros((len(values[0]), net.inputs)))

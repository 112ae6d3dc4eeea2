"""Small networks that multiply activations, as PyTorch modules and as models of the checker: for benchmarks.

Each has one output. ``build`` says node by node what ``forward`` computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.functions import Activation
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.operations.groups import Normalise, Softmax
from fairmend_check.kernel.operations.product import Product

EPSILON = 1e-5


class Builder(Graph):
    """A graph of tokens: a linear layer acts on each of them."""

    def linear(self, source: Any, layer: torch.nn.Linear, tokens: int = 1) -> Any:
        """Apply a layer to every token."""
        weight, bias = (part.detach().numpy() for part in (layer.weight, layer.bias))
        return self.affine(source, np.kron(np.eye(tokens), weight).astype(weight.dtype), np.tile(bias, tokens))


class Gated(torch.nn.Module):
    """A gated unit around a sum, sigmoid(a) b, and one after it, relu(a) b."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(4))
        self.last = torch.nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b, c, d = self.layers
        y = x + torch.sigmoid(a(x)) * b(x)
        return self.last(torch.relu(c(y)) * d(y))

    def build(self, graph: Builder) -> Model:
        a, b, c, d = (lambda source, layer=layer: graph.linear(source, layer) for layer in self.layers)
        width, x = self.last.in_features, graph.input
        y = graph.sum(x, graph.apply(Product(width), graph.function(a(x), Activation("sigmoid")), b(x)))
        gated = graph.apply(Product(width), graph.function(c(y), Activation("relu")), d(y))
        return graph.finish(graph.linear(gated, self.last))


class Normalised(torch.nn.Module):
    """Two layers, each after a layer normalisation, around a sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3))
        self.norm = torch.nn.LayerNorm(width, EPSILON)
        self.last = torch.nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third = self.layers
        y = first(x)
        y = y + torch.relu(second(self.norm(y)))
        return self.last(torch.relu(third(self.norm(y))))

    def build(self, graph: Builder) -> Model:
        first, second, third = (lambda source, layer=layer: graph.linear(source, layer) for layer in self.layers)
        norm, relu = Normalise(self.last.in_features, EPSILON), Activation("relu")
        y = first(graph.input)
        y = graph.sum(y, graph.function(second(graph.apply(norm, y)), relu))
        return graph.finish(graph.linear(graph.function(third(graph.apply(norm, y)), relu), self.last))


class Attention(torch.nn.Module):
    """Attention of one head around a sum; with ``whole``, with layer normalisation before it and gated units after.

    ``fused`` lets PyTorch compute it in one call.
    """

    def __init__(self, tokens: int, width: int, *, whole: bool = False) -> None:
        super().__init__()
        self.tokens, self.width, self.whole, self.fused = tokens, width, whole, False
        self.scale = float(np.float32(width**-0.5))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(5))
        self.norm = torch.nn.LayerNorm(width, EPSILON)
        self.last = torch.nn.Linear(tokens * width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value, gate, up = self.layers
        x = x.reshape(-1, self.tokens, self.width)
        y = self.norm(x) if self.whole else x
        if self.fused:
            parts = (part(y)[:, None] for part in (query, key, value))
            x = x + torch.nn.functional.scaled_dot_product_attention(*parts, scale=self.scale)[:, 0]
        else:
            x = x + torch.softmax(query(y) @ key(y).transpose(1, 2) * self.scale, -1) @ value(y)
        if self.whole:
            x = x + torch.sigmoid(gate(x)) * up(x)
        return self.last(x.reshape(-1, self.tokens * self.width))

    def build(self, graph: Builder) -> Model:
        n, width, x = self.tokens, self.width, graph.input
        query, key, value, gate, up = (
            lambda source, layer=layer: graph.linear(source, layer, n) for layer in self.layers
        )
        y = graph.apply(Normalise(width, EPSILON), x) if self.whole else x
        scores = graph.apply(Product(1, n, n, width), query(y), key(y))
        scaled = graph.affine(scores, np.eye(n * n, dtype=self.last.weight.detach().numpy().dtype) * self.scale)
        turned = graph.columns(value(y), [token * width + unit for unit in range(width) for token in range(n)])
        x = graph.sum(x, graph.apply(Product(1, n, width, n), graph.apply(Softmax(n), scaled), turned))
        if self.whole:
            x = graph.sum(x, graph.apply(Product(n * width), graph.function(gate(x), Activation("sigmoid")), up(x)))
        return graph.finish(graph.linear(x, self.last))

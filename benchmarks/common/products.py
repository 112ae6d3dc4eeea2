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
from fairmend_check.kernel.operations.affine import scaling
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


class Channels(torch.nn.Module):
    """Two layers, each after a normalisation of four groups of channels with gains and shifts, around a sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(2))
        self.norm = torch.nn.GroupNorm(4, width, EPSILON)
        torch.nn.init.normal_(self.norm.weight, 1.0, 0.5)
        torch.nn.init.normal_(self.norm.bias)
        self.last = torch.nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.layers
        y = first(x)
        y = y + torch.relu(second(self.norm(y)))
        return self.last(torch.relu(self.norm(y)))

    def build(self, graph: Builder) -> Model:
        width = self.last.in_features
        gain, shift = (part.detach().numpy().astype(np.float64) for part in (self.norm.weight, self.norm.bias))

        def norm(source: Any) -> Any:
            return graph.norm(graph.apply(Normalise(width // 4, EPSILON), source), scaling(0.0, gain, shift))

        first, second = (lambda source, layer=layer: graph.linear(source, layer) for layer in self.layers)
        y = first(graph.input)
        y = graph.sum(y, graph.function(second(norm(y)), Activation("relu")))
        return graph.finish(graph.linear(graph.function(norm(y), Activation("relu")), self.last))


class Factors(torch.nn.Module):
    """Experts weighed by gates, times the input, as one einsum of three; beside products of four numbers each."""

    equation = "be,ben,bn->bn"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.experts = torch.nn.Linear(width, 4), torch.nn.Linear(width, 4 * width)
        self.parts, self.last = torch.nn.Linear(width, width), torch.nn.Linear(width + width // 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        experts = self.experts(x).reshape(-1, 4, x.shape[1])
        mixed = torch.einsum(self.equation, torch.softmax(self.gate(x), -1), experts, x)
        return self.last(torch.cat([mixed, torch.prod(self.parts(x).reshape(-1, x.shape[1] // 4, 4), 2)], 1))

    def build(self, graph: Builder) -> Model:
        width, x = self.parts.in_features, graph.input
        gates, experts = graph.apply(Softmax(4), graph.linear(x, self.gate)), graph.linear(x, self.experts)
        pairs = graph.apply(Product(1, 4, width, 1), gates, x)  # the experts have the axis that is added up
        each = [
            graph.columns(part, [k * width + n for n in range(width) for k in range(4)]) for part in (pairs, experts)
        ]
        mixed = graph.apply(Product(width, 1, 1, 4), *each)
        parts = graph.linear(x, self.parts)
        found = graph.columns(parts, list(range(0, width, 4)))
        for place in range(1, 4):
            found = graph.apply(Product(width // 4), found, graph.columns(parts, list(range(place, width, 4))))
        return graph.finish(graph.linear(graph.concatenate(mixed, found), self.last))


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

"""Networks as users of PyTorch write them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.zoo.product_networks import PRODUCTS

INPUTS, HIDDEN = 6, 12

ACTIVATIONS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "ReLU": ("A", nn.ReLU),
    "LeakyReLU": ("A", lambda: nn.LeakyReLU(0.2)),
    "Tanh": ("A", nn.Tanh),
    "Sigmoid": ("A", nn.Sigmoid),
    "ReLU6": ("B", nn.ReLU6),
    "Hardtanh": ("B", nn.Hardtanh),
    "PReLU": ("B", nn.PReLU),
    "PReLU per unit": ("B", lambda: nn.PReLU(HIDDEN)),
    "ELU": ("C", nn.ELU),
    "SELU": ("C", nn.SELU),
    "CELU": ("C", lambda: nn.CELU(1.5)),
    "Softplus": ("C", nn.Softplus),
    "Softsign": ("C", nn.Softsign),
    "Hardsigmoid": ("C", nn.Hardsigmoid),
    "GELU": ("D", nn.GELU),
    "GELU tanh": ("D", lambda: nn.GELU(approximate="tanh")),
    "SiLU": ("D", nn.SiLU),
    "Mish": ("D", nn.Mish),
    "Hardswish": ("D", nn.Hardswish),
}


def plain(activation: Callable[[], nn.Module], outputs: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Linear(INPUTS, HIDDEN), activation(), nn.Linear(HIDDEN, HIDDEN), activation(), nn.Linear(HIDDEN, outputs)
    )


def without_biases(*biased: bool, outputs: int = 1) -> nn.Module:
    """Return a chain of three layers, of which only some have a bias."""
    widths = (INPUTS, HIDDEN, HIDDEN, outputs)
    first, second, head = (nn.Linear(widths[i], widths[i + 1], bias=bias) for i, bias in enumerate(biased))
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), head)


class Skip(nn.Module):
    """A residual block."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, 1, bias=bias)

    def forward(self, x):
        h = F.relu(self.first(x))
        return self.head(h + F.relu(self.inner(h)))


class DenselyConnected(nn.Module):
    """Every layer reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(INPUTS, 8), nn.Linear(INPUTS + 8, 8), nn.Linear(INPUTS + 16, 1)

    def forward(self, x):
        h = torch.cat([x, torch.relu(self.a(x))], dim=1)
        return self.c(torch.cat([h, torch.relu(self.b(h))], dim=-1)).squeeze(1)


class WideAndDeep(nn.Module):
    """A linear model beside a network."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(INPUTS, 1)
        self.deep = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def forward(self, x):
        return self.wide(x) + self.deep(x)


class Ensemble(nn.Module):
    """The mean of the logits of three networks."""

    def __init__(self, how: str = "stack") -> None:
        super().__init__()
        self.members = nn.ModuleList(nn.Sequential(nn.Linear(INPUTS, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(3))
        self.how = how

    def forward(self, x):
        logits = [member(x) for member in self.members]
        if self.how == "stack":
            return torch.stack(logits).mean(0)
        if self.how == "cat":
            return torch.cat(logits, dim=1).mean(dim=1, keepdim=True)
        return sum(logits) / len(logits)


class ResNet(nn.Module):
    """The residual network for tables of Gorishniy et al. (2021): blocks of norm, layer, ReLU, dropout, layer."""

    def __init__(self, width: int = 16, blocks: int = 2, bias: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm1d(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(0.1),
                nn.Linear(2 * width, width), nn.Dropout(0.1),
            )
            for _ in range(blocks)
        )  # fmt: skip
        self.head = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 1, bias=bias))

    def forward(self, x):
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)


class Normalised(nn.Module):
    """Inputs are scaled in forward()."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.5, 1.5, 44.0, 30.0, 3.0, 0.5]))
        self.register_buffer("std", torch.tensor([0.5, 1.1, 15.0, 17.0, 2.0, 0.3]))
        self.layers = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def forward(self, x):
        return self.layers((x.float() - self.mean) / self.std)


class Calibrated(nn.Module):
    """A temperature divides the logit."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.temperature = plain(nn.ReLU), nn.Parameter(torch.tensor(1.7))

    def forward(self, x):
        return self.layers(x).view(-1) / self.temperature


class ClassOne(nn.Module):
    """Two logits, and the probability of the second class."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = plain(nn.ReLU, outputs=2)

    def forward(self, x):
        return torch.softmax(self.layers(x), dim=1)[:, 1]


class Embedded(nn.Module):
    """An embedding of the codes beside the numbers, as fastai's TabularModel has it, in one row."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(2, 2), nn.Embedding(4, 3)])
        self.bn_cont = nn.BatchNorm1d(4)
        self.layers = nn.Sequential(
            nn.Linear(9, HIDDEN, bias=bias), nn.ReLU(inplace=True), nn.BatchNorm1d(HIDDEN), nn.Dropout(0.1),
            nn.Linear(HIDDEN, 1, bias=bias),
        )  # fmt: skip

    def forward(self, x):
        codes = x[:, :2].long()
        parts = [embed(codes[:, i]) for i, embed in enumerate(self.embeds)]
        return self.layers(torch.cat([*parts, self.bn_cont(x[:, 2:])], 1))


class TwoInputs(nn.Module):
    """Codes and numbers as two inputs, as fastai and pytorch-tabular have them."""

    def __init__(self) -> None:
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(2, 2), nn.Embedding(4, 3)])
        self.emb_drop, self.bn_cont = nn.Dropout(0.1), nn.BatchNorm1d(4)
        self.layers = nn.Sequential(nn.Linear(9, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def forward(self, x_cat, x_cont):
        parts = self.emb_drop(torch.cat([embed(x_cat[:, i]) for i, embed in enumerate(self.embeds)], 1))
        return self.layers(torch.cat([parts, self.bn_cont(x_cont)], 1))


class Bags(nn.Module):
    """The sum of the rows of a table for two codes, those of the job, beside numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(4, 3, mode="sum")
        self.layers = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, x):
        return self.layers(torch.cat([self.bag(x[:, [1, 1]].long()), x[:, [0, 2, 3, 4, 5]]], dim=1))


class OneHot(nn.Module):
    """Codes become one-hot columns in forward()."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(9, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def forward(self, x):
        job = F.one_hot(x[:, 1].long(), 4).float()
        return self.layers(torch.cat([x[:, :1], job, x[:, 2:] / 10], dim=1))


class OutOfOrder(nn.Module):
    """Layers are defined in another order than they are used in."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.second, self.first = nn.Linear(8, 1), nn.Linear(8, 8), nn.Linear(INPUTS, 8)

    def forward(self, x):
        return self.head(F.gelu(self.second(F.silu(self.first(x)))))


class Clamped(nn.Module):
    """Functions called in forward()."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, x):
        return torch.flatten(self.b(torch.clamp(self.a(x), -1, 2)), 0)


class Product(nn.Module):
    """The product of two layers, or one gated by the sigmoid of the other."""

    def __init__(self, gated: bool = False) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(INPUTS, 8), nn.Linear(INPUTS, 8), nn.Linear(8, 1)
        self.gated = gated

    def forward(self, x):
        value, other = self.a(x), self.b(x)
        return self.head(F.glu(torch.cat([value, other], dim=1), dim=1) if self.gated else value * other)


class Attention(nn.Module):
    """Attention of two heads over a token for each column, as the FT-Transformer has it."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.zeros(INPUTS, width)) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, x):
        tokens = x[:, :, None] * self.weight + self.bias
        tokens = tokens + self.attention(tokens, tokens, tokens)[0]
        return self.head(torch.relu(self.norm(tokens.mean(1))))


def _around(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(INPUTS, 8), norm, nn.ReLU(), nn.Linear(8, 1))


def _data_parallel() -> nn.Module:
    return nn.DataParallel(plain(nn.ReLU))


# name: (class of the zoo, whether it reads raw columns, how it is made)
MODULES: dict[str, tuple[str, bool, Callable[[], nn.Module]]] = {
    **{name: (kind, False, lambda make=make: plain(make)) for name, (kind, make) in ACTIVATIONS.items()},
    "bare Linear": ("A", False, lambda: nn.Linear(INPUTS, 1)),
    "nested Sequential": ("A", False, lambda: nn.Sequential(
        nn.Sequential(nn.Linear(INPUTS, 8), nn.ReLU()), nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 1)), nn.Sigmoid())),
    "BatchNorm before": ("A", False, lambda: nn.Sequential(
        nn.Linear(INPUTS, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))),
    "BatchNorm after": ("A", False, lambda: nn.Sequential(
        nn.Linear(INPUTS, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 1))),
    "BatchNorm of inputs": ("A", True, lambda: nn.Sequential(
        nn.BatchNorm1d(INPUTS), nn.Linear(INPUTS, 8), nn.Tanh(), nn.Linear(8, 1))),
    "(x - mean) / std": ("A", True, Normalised),
    "temperature": ("A", False, Calibrated),
    "DataParallel": ("A", False, _data_parallel),
    "head without a bias": ("A", False, lambda: without_biases(True, True, False)),
    "two outputs without a bias": ("A", False, lambda: without_biases(True, True, False, outputs=2)),
    "first without a bias": ("A", False, lambda: without_biases(False, True, True)),
    "no bias at all": ("A", False, lambda: without_biases(False, False, False)),
    "no bias after BatchNorm": ("A", False, lambda: nn.Sequential(
        nn.Linear(INPUTS, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 1, bias=False))),
    "softmax of two": ("B", False, lambda: nn.Sequential(plain(nn.ReLU, 2), nn.Softmax(dim=1))),
    "LogSoftmax": ("B", False, lambda: nn.Sequential(plain(nn.ReLU, 2), nn.LogSoftmax(dim=-1))),
    "softmax(...)[:, 1]": ("B", False, ClassOne),
    "skip": ("B", False, Skip),
    "skip, head without a bias": ("B", False, lambda: Skip(bias=False)),
    "densely connected": ("B", False, DenselyConnected),
    "wide & deep": ("B", False, WideAndDeep),
    "ensemble, stack": ("B", False, Ensemble),
    "ensemble, sum": ("B", False, lambda: Ensemble("sum")),
    "ensemble, cat": ("B", False, lambda: Ensemble("cat")),
    "ResNet": ("B", False, ResNet),
    "ResNet, head without a bias": ("B", False, lambda: ResNet(bias=False)),
    "embeddings": ("B", True, Embedded),
    "embeddings without a bias": ("B", True, lambda: Embedded(bias=False)),
    "embeddings, two inputs": ("B", True, TwoInputs),
    "one-hot in forward": ("B", True, OneHot),
    "bags of embeddings": ("B", True, Bags),
    "defined out of order": ("D", False, OutOfOrder),
    "clamp": ("B", False, Clamped),
    "LayerNorm": ("E", False, lambda: _around(nn.LayerNorm(8))),
    "RMSNorm": ("E", False, lambda: _around(nn.RMSNorm(8))),
    "GroupNorm": ("E", False, lambda: _around(nn.GroupNorm(2, 8))),
    "GLU": ("E", False, lambda: Product(gated=True)),
    "product of two layers": ("E", False, Product),
    "attention": ("E", False, Attention),
    **{name: ("E", False, make) for name, make in PRODUCTS.items()},
}  # fmt: skip
# Not by both exporters: TorchScript has neither Bilinear nor RMSNorm, and computes norms of weights in the file.
NOT_EXPORTED = ("bilinear", "attention, fused", "shared, spectral and weight norm")
# These are exported to ONNX as well, and saved with torch.export.
EXPORTED = [
    "ReLU", "LeakyReLU", "PReLU per unit", "ReLU6", "ELU", "SELU", "Softplus", "Softsign", "Hardsigmoid", "GELU",
    "GELU tanh", "SiLU", "Mish", "Hardswish", "BatchNorm after", "(x - mean) / std", "softmax of two", "skip",
    "wide & deep", "ensemble, stack", "ResNet", "embeddings", "head without a bias", "no bias at all",
    "no bias after BatchNorm", "ResNet, head without a bias", "LayerNorm", "GroupNorm", "product of two layers",
    *(name for name in PRODUCTS if name not in NOT_EXPORTED),
]  # fmt: skip
SAVED_PROGRAMS = [
    "ReLU",
    "GELU",
    "SiLU",
    "skip",
    "wide & deep",
    "ResNet",
    "BatchNorm after",
    "temperature",
    "LogSoftmax",
    "head without a bias",
    "no bias at all",
    "no bias after BatchNorm",
    "bags of embeddings",
    *(name for name in PRODUCTS if "norm" not in name),
]
# The state dicts of these, alone in a file, are read with the activation that their owner names.
STATE_DICTS = ["ReLU", "head without a bias", "no bias at all"]


def arguments(module: nn.Module, X: np.ndarray) -> tuple[torch.Tensor, ...]:
    """Return rows as the module reads them: one tensor, or codes and numbers."""
    rows = torch.from_numpy(np.ascontiguousarray(X))
    return (rows[:, :2].long(), rows[:, 2:]) if isinstance(module, TwoInputs) else (rows,)


def train(module: nn.Module, X: np.ndarray, y: np.ndarray, seed: int = 0) -> nn.Module:
    """Train a module for some steps, and return it in eval mode."""
    torch.manual_seed(seed)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.kaiming_uniform_(parameter, a=1)
    inner = module.module if isinstance(module, nn.DataParallel) else module
    optimizer = torch.optim.Adam(inner.parameters(), lr=0.02)
    given, labels = arguments(module, X), torch.from_numpy(y)
    for _ in range(60):
        optimizer.zero_grad()
        _loss(inner(*given), labels).backward()
        optimizer.step()
    return module.eval()


def _loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if outputs.dim() == 2 and outputs.shape[1] == 2:
        return F.cross_entropy(outputs, labels)
    return ((outputs.reshape(-1) - labels.float() * 2 + 1) ** 2).mean()


def decisions(module: nn.Module, X: np.ndarray) -> np.ndarray:
    """Return the classes that the module predicts (rows,)."""
    with torch.no_grad():
        outputs = (module.module if isinstance(module, nn.DataParallel) else module)(*arguments(module, X)).numpy()
    if outputs.ndim == 2 and outputs.shape[1] == 2:
        return outputs.argmax(axis=1)
    return (outputs.reshape(-1) >= (0.5 if gives_probability(module) else 0)).astype(np.int64)


def gives_probability(module: nn.Module) -> bool:
    """Return whether a module of one output ends with a probability."""
    last = list(module.modules())[-1]
    return isinstance(module, ClassOne) or (isinstance(last, nn.Sigmoid) and isinstance(module[-1], nn.Sigmoid))

"""Networks that multiply activations, as their papers and users write them in PyTorch: the E class of the zoo."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

INPUTS, WIDTH = 6, 8


class Gate(nn.Module):
    """GLU, ReGLU, SwiGLU, GEGLU (Shazeer, 2020): a(x) f(b(x)), and a layer after it."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.up, self.gate, self.down = (nn.Linear(INPUTS, WIDTH), nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, INPUTS))
        self.head = nn.Linear(INPUTS, 1)

    def forward(self, x):
        return self.head(x + self.down(self.up(x) * self.function(self.gate(x))))


class GRN(nn.Module):
    """Global response normalisation (ConvNeXt V2, 2023) over tokens: sizes along the tokens, relative to their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.head = nn.Linear(2, 4), nn.Linear(4, 1)
        self.gamma, self.beta = nn.Parameter(torch.ones(1, 1, 4)), nn.Parameter(torch.zeros(1, 1, 4))

    def forward(self, x):
        x = F.gelu(self.up(x.reshape(-1, 3, 2)))
        size = torch.sqrt((x * x).sum(1, keepdim=True) + 1e-6)
        x = self.gamma * (x * (size / (size.mean(-1, keepdim=True) + 1e-6))) + self.beta + x
        return self.head(x.mean(1))


class GatedResidual(nn.Module):
    """The gated residual network of the temporal fusion transformer: a GLU, a skip and a layer normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * INPUTS)
        self.norm, self.head = nn.LayerNorm(INPUTS), nn.Linear(INPUTS, 1)

    def forward(self, x):
        return self.head(self.norm(x + F.glu(self.c(self.b(F.elu(self.a(x)))), dim=-1)))


class SqueezeExcite(nn.Module):
    """Squeeze and excitation (Hu et al., 2018): channels times the sigmoid of layers over their means."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(2, 4)
        self.squeeze, self.excite, self.head = nn.Linear(4, 2), nn.Linear(2, 4), nn.Linear(12, 1)

    def forward(self, x):
        tokens = torch.relu(self.up(x.view(-1, 3, 2)))
        weights = torch.sigmoid(self.excite(torch.relu(self.squeeze(tokens.mean(dim=1)))))
        return self.head((tokens * weights.unsqueeze(1)).flatten(1))


class DCN(nn.Module):
    """Deep & cross network (Wang et al., 2017): x0 (xᵀ w) + b + x; ``version`` 2 has a matrix for w."""

    def __init__(self, version: int) -> None:
        super().__init__()
        outputs = 1 if version == 1 else INPUTS
        self.cross = nn.ModuleList(nn.Linear(INPUTS, outputs, bias=version == 2) for _ in range(2))
        self.bias = nn.ParameterList(nn.Parameter(torch.zeros(INPUTS)) for _ in range(2)) if version == 1 else [0, 0]
        self.deep, self.head = nn.Linear(INPUTS, WIDTH), nn.Linear(INPUTS + WIDTH, 1)

    def forward(self, x):
        crossed = x
        for layer, bias in zip(self.cross, self.bias, strict=True):
            crossed = x * layer(crossed) + bias + crossed
        return self.head(torch.cat([crossed, torch.relu(self.deep(x))], dim=1))


class FactorisationMachine(nn.Module):
    """Half of the square of the sum less the sum of squares (Rendle, 2010), beside the inputs and deep layers."""

    def __init__(self) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.randn(INPUTS, 4) / 4)
        self.deep, self.head = nn.Linear(INPUTS * 4, WIDTH), nn.Linear(1 + INPUTS + WIDTH, 1)

    def forward(self, x):
        factors = x.unsqueeze(2) * self.v
        pairs = 0.5 * (factors.sum(dim=1).pow(2) - factors.pow(2).sum(dim=1)).sum(dim=1, keepdim=True)
        return self.head(torch.cat([pairs, x, torch.relu(self.deep(factors.flatten(1)))], dim=1))


class Bilinear(nn.Module):
    """x1ᵀ A x2 + b, and a layer after it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Bilinear(3, 3, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.layer(x[:, :3], x[:, 3:])))


class Maxout(nn.Module):
    """The largest of three layers (Goodfellow et al., 2013)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(INPUTS, 3 * WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.head(self.layer(x).view(-1, 3, WIDTH).amax(dim=1))


class Periodic(nn.Module):
    """Periodic embeddings of numbers (Gorishniy et al., 2022): sines and cosines of learned frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(torch.randn(INPUTS, 3) * 0.2)
        self.layer, self.head = nn.Linear(INPUTS * 6, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        angles = 2 * torch.pi * self.frequencies * x[..., None]
        waves = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)
        return self.head(torch.relu(self.layer(waves.flatten(1))))


class PiecewiseLinear(nn.Module):
    """Piecewise-linear embeddings of numbers (Gorishniy et al., 2022): how far into each bin a number is."""

    def __init__(self) -> None:
        super().__init__()
        edges = torch.linspace(-2, 2, 5).expand(INPUTS, 5)
        self.register_buffer("left", edges[:, :-1].contiguous())
        self.register_buffer("width", (edges[:, 1:] - edges[:, :-1]).contiguous())
        self.layer, self.head = nn.Linear(INPUTS * 4, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        inside = torch.clamp((x[:, :, None] - self.left) / self.width, 0.0, 1.0)
        return self.head(torch.relu(self.layer(inside.flatten(1))))


class Experts(nn.Module):
    """A mixture of experts with soft gates (Jacobs et al., 1991)."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(INPUTS, 4), nn.ReLU()) for _ in range(3))
        self.gate, self.head = nn.Linear(INPUTS, 3), nn.Linear(4, 1)

    def forward(self, x):
        weights = torch.softmax(self.gate(x), dim=-1)
        given = torch.stack([expert(x) for expert in self.experts], dim=1)
        return self.head((weights.unsqueeze(-1) * given).sum(dim=1))


class LogSumExp(nn.Module):
    """The logarithm of a mean of exponentials of three layers, and attention that pools their values."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(INPUTS, 4) for _ in range(3))
        self.query, self.head = nn.Linear(4, 1, bias=False), nn.Linear(8, 1)

    def forward(self, x):
        given = torch.stack([torch.tanh(expert(x)) for expert in self.experts], dim=1)
        pooled = (self.query(given).softmax(dim=1) * given).sum(dim=1)
        return self.head(torch.cat([torch.logsumexp(given, dim=1), pooled], dim=1))


class AutoInt(nn.Module):
    """AutoInt (Song et al., 2019): heads that are split and stacked, and a residual layer, by tensordot."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(INPUTS, 4))
        self.query, self.key, self.value, self.rest = (nn.Parameter(torch.randn(4, 4) / 2) for _ in range(4))
        self.head = nn.Linear(INPUTS * 4, 1)

    def forward(self, x):
        fields = x.unsqueeze(-1) * self.embedding
        parts = [torch.tensordot(fields, w, dims=([-1], [0])) for w in (self.query, self.key, self.value)]
        q, k, v = (torch.stack(torch.split(part, 2, dim=2)) for part in parts)
        attended = torch.einsum("bnik,bnjk->bnij", q, k).softmax(-1) @ v
        joined = torch.cat(torch.split(attended, 1), dim=-1).squeeze(0)
        rest = torch.tensordot(fields, self.rest, dims=([-1], [0]))
        return self.head(torch.relu(joined + rest).flatten(1))


class Transformer(nn.Module):
    """A class token and one for each column, attention that is written out, and a gated layer after it.

    ``causal`` masks later tokens; ``fused`` calls scaled_dot_product_attention; ``rms`` normalises without a mean.
    """

    def __init__(self, heads: int = 2, *, causal: bool = False, fused: bool = False, rms: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.fused = heads, causal, fused
        self.weight, self.bias = (nn.Parameter(torch.randn(INPUTS, 4) / 2) for _ in range(2))
        self.token = nn.Parameter(torch.randn(1, 1, 4) / 2)
        self.norm = nn.RMSNorm(4) if rms else nn.LayerNorm(4)
        self.qkv, self.out, self.head = nn.Linear(4, 12), nn.Linear(4, 4), nn.Linear(4, 1)
        self.register_buffer("mask", torch.triu(torch.ones(INPUTS + 1, INPUTS + 1, dtype=torch.bool), 1))

    def forward(self, x):
        tokens = x[:, :, None] * self.weight + self.bias
        tokens = torch.cat([tokens, self.token.expand(x.shape[0], -1, -1)], dim=1)
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(tokens)).chunk(3, -1)
        )
        if self.fused:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) / (4 / self.heads) ** 0.5
            scores = scores.masked_fill(self.mask, float("-inf")) if self.causal else scores
            attended = scores.softmax(-1) @ v
        tokens = tokens + self.out(attended.transpose(1, 2).flatten(2))
        return self.head(torch.relu(tokens[:, -1]))


class Encoder(nn.Module):
    """PyTorch's own encoder layer over tokens, and their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Linear(2, 4)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.layer(self.tokens(x.reshape(-1, 3, 2))).mean(dim=1))


class TabM(nn.Module):
    """Batched linear layers with adapters, one for each of four members (Gorishniy et al., 2025); their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.r, self.s = (nn.Parameter(1 + torch.randn(4, size) / 4) for size in (INPUTS, WIDTH))
        self.layer, self.b = nn.Linear(INPUTS, WIDTH, bias=False), nn.Parameter(torch.zeros(4, WIDTH))
        self.out, self.c = nn.Parameter(torch.randn(4, WIDTH, 1) / 4), nn.Parameter(torch.zeros(4, 1))

    def forward(self, x):
        x = x.unsqueeze(1).expand(-1, 4, -1)
        x = torch.relu(self.layer(x * self.r) * self.s + self.b)
        return (torch.einsum("bki,kio->bko", x, self.out) + self.c).mean(dim=1)


class Shared(nn.Module):
    """One layer for both halves of a row, whose weight is spectrally normalised, and one with a weight norm."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))
        self.head = nn.utils.parametrizations.weight_norm(nn.Linear(8, 1))

    def forward(self, x):
        return self.head(torch.cat([F.silu(self.shared(x[:, :3])), F.silu(self.shared(x[:, 3:]))], dim=1))


class Pieces(nn.Module):
    """addcmul with parameters, an einsum of a weight, expand, and minimum and maximum of two values."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(INPUTS, WIDTH), nn.Linear(INPUTS, WIDTH)
        self.scale, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.weight, self.head = nn.Parameter(torch.randn(2, WIDTH, 3) / 3), nn.Linear(6, 1)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        y = torch.addcmul(self.shift, torch.maximum(a, b), self.scale) + torch.minimum(a, b).abs()
        y = torch.einsum("bki,kio->bko", y.unsqueeze(1).expand(-1, 2, -1), self.weight)
        return self.head(torch.tanh(y).flatten(1))


class Quotient(nn.Module):
    """A value over one plus a square, its logarithm, and a root: functions that need what they read to be positive."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(INPUTS, WIDTH), nn.Linear(INPUTS, WIDTH), nn.Linear(3 * WIDTH, 1)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        positive = 1 + b * b
        return self.head(torch.cat([a / positive, positive.log(), positive.rsqrt() * a.exp().clamp(max=4)], dim=1))


class SharedHead(nn.Module):
    """A head applied to each token, and the mean of what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.mix, self.head = nn.Linear(2, 8), nn.Linear(3, 3), nn.Linear(8, 1)

    def forward(self, x):
        tokens = self.tokens(x.view(-1, 3, 2))
        tokens = tokens + F.gelu(self.mix(tokens.transpose(1, 2))).transpose(1, 2)
        return self.head(torch.relu(tokens)).mean(dim=1)


class TwoTowers(nn.Module):
    """The product of what two towers give, added up, and a bias of one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Sequential(nn.Linear(3, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return (self.a(x[:, :3]) * self.b(x[:, 3:])).sum(dim=1, keepdim=True) + self.bias


class DeepFM(nn.Module):
    """DeepFM (Guo et al., 2017): a layer, pairs of factors and deep layers, added up at the output."""

    def __init__(self) -> None:
        super().__init__()
        self.v, self.first = nn.Parameter(torch.randn(INPUTS, 4) / 4), nn.Linear(INPUTS, 1)
        self.deep = nn.Sequential(nn.Linear(INPUTS * 4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, x):
        factors = x.unsqueeze(2) * self.v
        pairs = 0.5 * (factors.sum(dim=1).pow(2) - factors.pow(2).sum(dim=1)).sum(dim=1, keepdim=True)
        return self.first(x) + pairs + self.deep(factors.flatten(1))


class LowRankExperts(nn.Module):
    """DCN-v2 with a mixture of experts of low rank (Wang et al., 2021): x0 times each, weighed by gates."""

    def __init__(self) -> None:
        super().__init__()
        self.u, self.v = (nn.Parameter(torch.randn(3, INPUTS, 2) / 2) for _ in range(2))
        self.c, self.gate, self.head = nn.Parameter(torch.randn(3, 2, 2)), nn.Linear(INPUTS, 3), nn.Linear(INPUTS, 1)

    def forward(self, x):
        low = torch.tanh(torch.einsum("bn,enr->ber", x, self.v))
        given = torch.einsum("bes,ens->ben", torch.tanh(torch.einsum("ber,ers->bes", low, self.c)), self.u)
        return self.head(torch.einsum("be,ben,bn->bn", self.gate(x).softmax(dim=1), given, x) + x)


class SoftTrees(nn.Module):
    """Soft trees (Irsoy et al., 2012): the products of the choices on the way to each leaf, and the mean of trees."""

    def __init__(self) -> None:
        super().__init__()
        self.choices, self.leaves = nn.Linear(INPUTS, 4 * 3), nn.Parameter(torch.randn(4, 8) / 2)
        self.register_buffer("sides", torch.tensor([[leaf >> k & 1 for k in range(3)] for leaf in range(8)]).float())

    def forward(self, x):
        chosen = torch.sigmoid(self.choices(x)).view(-1, 4, 1, 3)
        reached = torch.prod(chosen * self.sides + (1 - chosen) * (1 - self.sides), dim=3)
        return (reached * self.leaves).sum(dim=2).mean(dim=1, keepdim=True)


class Channels(nn.Module):
    """``norm`` of channels of three numbers each (rows, channels, 3), their gates, and a layer after them."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Linear(2, 4), norm
        self.gate, self.head = nn.Linear(4, 4), nn.Linear(12, 1)

    def forward(self, x):
        channels = self.norm(self.tokens(x.reshape(-1, 3, 2)).transpose(1, 2))
        gates = torch.sigmoid(self.gate(channels.mean(dim=2)))
        return self.head((channels * gates.unsqueeze(2)).flatten(1))


class CrossAttention(nn.Module):
    """Attention of one token to others, with PyTorch's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.others = nn.Linear(2, 4), nn.Linear(1, 4)
        self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        query, others = self.one(x[:, :2]).unsqueeze(1), self.others(x[:, 2:, None])
        return self.head(torch.relu(query + self.attention(query, others, others)[0]).flatten(1))


PRODUCTS: dict[str, Callable[[], nn.Module]] = {
    "ReGLU": lambda: Gate(torch.relu),
    "SwiGLU": lambda: Gate(F.silu),
    "GEGLU": lambda: Gate(F.gelu),
    "gated residual": GatedResidual,
    "GRN": GRN,
    "squeeze and excitation": SqueezeExcite,
    "DCN": lambda: DCN(1),
    "DCN-v2": lambda: DCN(2),
    "factorisation machine": FactorisationMachine,
    "bilinear": Bilinear,
    "maxout": Maxout,
    "periodic embeddings": Periodic,
    "piecewise-linear embeddings": PiecewiseLinear,
    "mixture of experts": Experts,
    "attention, class token": lambda: Transformer(1),
    "attention, causal": lambda: Transformer(causal=True),
    "attention, fused": lambda: Transformer(fused=True, rms=True),
    "attention, fused and causal": lambda: Transformer(fused=True, causal=True),
    "log-sum-exp, pooling": LogSumExp,
    "AutoInt": AutoInt,
    "encoder layer": Encoder,
    "TabM": TabM,
    "shared, spectral and weight norm": Shared,
    "addcmul, einsum, expand, maximum": Pieces,
    "quotient, logarithm, root": Quotient,
    "shared head": SharedHead,
    "two towers": TwoTowers,
    "DeepFM": DeepFM,
    "DCN-v2, experts of low rank": LowRankExperts,
    "soft trees": SoftTrees,
    "groups of channels": lambda: Channels(nn.GroupNorm(2, 4)),
    "instances": lambda: Channels(nn.InstanceNorm1d(4, affine=True)),
    "cross attention": CrossAttention,
}

"""Modules with products of activations, as people write them for tables: small, and all of one input of N columns."""

import torch
from torch import nn
from torch.nn import functional as F


class FTTransformer(nn.Module):
    """Tokens of numbers and of categories, a class token, PreNorm attention and ReGLU, a head on the class token."""

    def __init__(self, numbers: int, categories: tuple[int, ...] = (), width: int = 4, heads: int = 2, blocks: int = 1):
        super().__init__()
        self.numbers = numbers
        self.weight = nn.Parameter(torch.randn(numbers, width) / 2)
        self.bias = nn.Parameter(torch.randn(numbers, width) / 2)
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in categories)
        self.cls = nn.Parameter(torch.randn(1, 1, width) / 2)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(width),
                    "attention": nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True),
                    "norm_2": nn.LayerNorm(width),
                    "gate": nn.Linear(width, 4 * width),
                    "out": nn.Linear(2 * width, width),
                }
            )
            for _ in range(blocks)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, x):
        tokens = [self.cls.expand(x.shape[0], -1, -1), x[:, : self.numbers, None] * self.weight + self.bias]
        looked = [table(x[:, self.numbers + i].long()) for i, table in enumerate(self.tables)]
        z = torch.cat([*tokens, *([torch.stack(looked, 1)] if looked else [])], 1)
        for block in self.blocks:
            h = block["norm"](z)
            z = z + block["attention"](h, h, h, need_weights=False)[0]
            value, gate = block["gate"](block["norm_2"](z)).chunk(2, dim=-1)
            z = z + block["out"](value * F.relu(gate))
        return self.head(F.relu(self.norm(z[:, 0])))


class DCN2(nn.Module):
    """Cross layers of DCN-v2, x0 * (W x + b) + x, of full and of low rank, beside a deep part."""

    def __init__(self, columns: int):
        super().__init__()
        self.cross, self.deep = nn.Linear(columns, columns), nn.Linear(columns, 6)
        self.down, self.up = nn.Linear(columns, 2, bias=False), nn.Linear(2, columns)
        self.head = nn.Linear(columns + 6, 1)

    def forward(self, x):
        first = x * self.cross(x) + x
        second = torch.addcmul(first, x, self.up(self.down(first)))
        return self.head(torch.cat([second, torch.relu(self.deep(x))], dim=1))


class GatedResNet(nn.Module):
    """Residual blocks with LayerNorm and GLU, and one layer that both blocks share."""

    def __init__(self, columns: int, width: int = 6):
        super().__init__()
        self.first, self.shared = nn.Linear(columns, width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.gates = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(2))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, 1)

    def forward(self, x):
        z = self.first(x)
        for norm, gate in zip(self.norms, self.gates, strict=True):
            z = z + self.shared(F.glu(gate(norm(z))))
        return self.head(self.norm(z))


class TabM(nn.Module):
    """TabM-mini: one layer scaled by each member of the ensemble, then matrices of its own; the mean of the logits."""

    def __init__(self, columns: int, members: int = 3, width: int = 5):
        super().__init__()
        self.members, self.r = members, nn.Parameter(1 + torch.randn(members, columns) / 4)
        self.first = nn.Linear(columns, width)
        self.weight = nn.Parameter(torch.randn(members, width, width) / 2)
        self.bias = nn.Parameter(torch.randn(members, width) / 4)
        self.out = nn.Parameter(torch.randn(members, width, 1) / 2)
        self.out_bias = nn.Parameter(torch.randn(members, 1) / 4)

    def forward(self, x):
        z = torch.relu(self.first(x[:, None].expand(-1, self.members, -1) * self.r))
        z = torch.relu(torch.einsum("bki,kio->bko", z, self.weight) + self.bias)
        logits = (z.transpose(0, 1) @ self.out).transpose(0, 1) + self.out_bias
        return logits.mean(1)


class SqueezeExcitation(nn.Module):
    """Embedded columns, each weighed by a gate that all of them decide, and a bilinear layer."""

    def __init__(self, columns: int, width: int = 3):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns, width) / 2)
        self.squeeze, self.excite = nn.Linear(columns, 2), nn.Linear(2, columns)
        self.pair = nn.Bilinear(columns, width, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        z = torch.tanh(x[:, :, None] * self.weight)
        gates = torch.sigmoid(self.excite(torch.relu(self.squeeze(z.mean(2)))))
        z = z * gates.unsqueeze(-1)
        return self.head(torch.relu(self.pair(gates, z.sum(1))))


ZOO = {
    "FT-Transformer": lambda columns: FTTransformer(columns),
    "DCN-v2": DCN2,
    "gated ResNet": GatedResNet,
    "TabM": TabM,
    "squeeze and excitation": SqueezeExcitation,
}


def zoo_module(name: str, columns: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return ZOO[name](columns).eval()

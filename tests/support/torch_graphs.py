"""PyTorch modules as practitioners write them, of which none is a plain chain of layers."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from support.torch_modules import trained_norm


class Model(nn.Module):
    """A forward() given as a function of the module and x; tensors become buffers."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, torch.Tensor):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)
        self.run = forward

    def forward(self, x):
        return self.run(self, x)


class Residual(nn.Module):
    """A block of the RTDL ResNet."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.first, self.second = (
            trained_norm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )
        self.relu, self.drop = nn.ReLU(inplace=True), nn.Dropout(0.3)

    def forward(self, x):
        return x + self.drop(self.second(self.drop(self.relu(self.first(self.norm(x))))))


class Tabular(nn.Module):
    """Embeddings and numbers, as fastai's TabularModel takes them."""

    def __init__(self, as_dict=False):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(5, 2), nn.Embedding(3, 2)])
        self.bn_cont, self.drop = trained_norm(4), nn.Dropout(0.1)
        self.layers = nn.Sequential(nn.Linear(8, 6), nn.ReLU(inplace=True), trained_norm(6), nn.Linear(6, 2))

    def forward(self, x_cat, x_cont):
        x = self.drop(torch.cat([e(x_cat[:, i]) for i, e in enumerate(self.embeds)], 1))
        return self.layers(torch.cat([x, self.bn_cont(x_cont)], 1))


class FastaiTabular(Tabular):
    """The same with both inputs optional, as fastai has it: an input without columns is None."""

    def __init__(self, categories=True, numbers=True):
        super().__init__()
        self.embeds = self.embeds if categories else nn.ModuleList()
        self.bn_cont = self.bn_cont if numbers else None
        self.layers[0] = nn.Linear(4 * categories + 4 * numbers, 6)

    def forward(self, x_cat, x_cont=None):
        if len(self.embeds):
            x = self.drop(torch.cat([e(x_cat[:, i]) for i, e in enumerate(self.embeds)], 1))
        if self.bn_cont is not None:
            x_cont = self.bn_cont(x_cont)
            x = torch.cat([x, x_cont], 1) if len(self.embeds) else x_cont
        return self.layers(x)


class TabularDict(Tabular):
    """The same with a dict in and a dict out, as pytorch-tabular has it."""

    def forward(self, x):
        return {"logits": super().forward(x["categorical"], x["continuous"])}


class Branching(nn.Module):
    """Control flow on shapes, which torch.fx cannot trace."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask
        assert x.shape[1] == 4
        return self.fc(x)


def mlp(*widths):
    layers = [layer for a, b in pairwise(widths[:-1]) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(*widths[-2:]))


def pair(forward, width=6, outputs=1, **parts):
    """A module with two layers a and b."""
    return Model(forward, a=nn.Linear(4, 6), b=nn.Linear(width, outputs), **parts)


def heads(count=3, outputs=1):
    return nn.ModuleList(mlp(4, 5, outputs) for _ in range(count))


def added(x, y):
    x += y
    return x


GRAPHS = {
    "resnet": lambda: nn.Sequential(
        nn.Linear(4, 6), Residual(6), Residual(6), trained_norm(6), nn.ReLU(), nn.Linear(6, 1)
    ),
    "skip of a tensor changed in place": lambda: pair(lambda m, x: m.b(m.r(h := m.a(x)) + h), r=nn.ReLU(inplace=True)),
    "iadd": lambda: pair(lambda m, x: m.b(added(m.a(x).relu(), m.c(x))), c=nn.Linear(4, 6)),
    "standardised": lambda: pair(
        lambda m, x: m.b(F.relu(m.a((x - m.mean) / (m.std + 1e-6)))) / 1.7, mean=torch.randn(4), std=torch.rand(4) + 1
    ),
    "buffers": lambda: pair(lambda m, x: m.b(m.a((x - m.mean) / m.std)), mean=torch.randn(4), std=torch.rand(4) + 1),
    "wide and deep": lambda: Model(
        lambda m, x: torch.sigmoid(m.wide(x) + m.deep(x)), wide=nn.Linear(4, 1), deep=mlp(4, 6, 1)
    ),
    "stacked": lambda: Model(lambda m, x: torch.stack([h(x) for h in m.heads]).mean(0), heads=heads()),
    "stacked inside": lambda: Model(
        lambda m, x: torch.stack([h(x) for h in m.heads], 1).mean(dim=1), heads=heads(2, 2)
    ),
    "sum of logits": lambda: Model(lambda m, x: sum(h(x) for h in m.heads) / len(m.heads), heads=heads()),
    "side by side": lambda: Model(
        lambda m, x: torch.cat([h(x) for h in m.heads], 1).mean(1, keepdim=True), heads=heads()
    ),
    "embedding of a column": lambda: Model(
        lambda m, x: m.b(torch.cat([m.e(x[:, 0].long()), m.a(x[:, 1:])], 1)),
        e=nn.Embedding(4, 3),
        a=nn.Linear(5, 6),
        b=nn.Linear(9, 1),
    ),
    "one embedding for two columns": lambda: Model(
        lambda m, x: m.b(m.e(x.long()).flatten(1)), e=nn.Embedding(4, 3), b=nn.Linear(6, 1)
    ),
    **{
        name: lambda forward=forward: Model(
            forward,
            a=nn.Linear(2, 4),
            b=nn.Linear(4, 1),
            c=nn.Linear(6, 4),
            d=nn.Linear(6, 6),
            u=nn.Linear(6, 1),
            v=nn.Linear(6, 4),
            norm=nn.InstanceNorm1d(3, affine=True),
        )
        for name, forward in {
            "mean of one head": lambda m, x: m.b(m.a(m.d(x).view(-1, 3, 2)).relu()).mean(1),
            "head of one token": lambda m, x: m.b(m.a(m.d(x).view(-1, 3, 2)).relu())[:, 0],
            "gated logit": lambda m, x: m.u(x).sigmoid() * m.b(m.c(x).relu()),
            "bilinear score": lambda m, x: (m.c(x) * m.v(x)).sum(1),
            "factorisation machine": lambda m, x: m.u(x) + ((m.c(x) ** 2) - m.v(x) ** 2).sum(1, keepdim=True) / 2,
            "channels of tokens": lambda m, x: m.b(m.norm(m.a(m.d(x).view(-1, 3, 2))).relu().mean(1)),
            "product along an axis": lambda m, x: m.u(torch.prod(m.a(m.d(x).view(-1, 3, 2)).view(-1, 6, 2).tanh(), 2)),
            "three factors": lambda m, x: m.b(torch.einsum("bi,bi,bi->bi", m.c(x), m.v(x).sigmoid(), m.c(x).exp())),
        }.items()
    },
    "one-hot": lambda: Model(
        lambda m, x: m.b(torch.cat([F.one_hot(x[:, 0].long(), 4).float(), x[:, 1:]], 1)), b=nn.Linear(9, 1)
    ),
    **{
        f"{mode} of the rows of a table": lambda mode=mode: Model(
            lambda m, x: m.b(torch.cat([m.e(x[:, :3].long()).relu(), x[:, 3:5]], 1)),
            e=nn.EmbeddingBag(5, 4, mode=mode),
            b=nn.Linear(6, 2),
        )
        for mode in ("mean", "sum")
    },
    "function of a bag": lambda: Model(
        lambda m, x: m.b(F.embedding_bag(x[:, :2].long(), m.e.weight)), e=nn.Embedding(5, 4), b=nn.Linear(4, 1)
    ),
    **{
        f"{name} with tokens": lambda scaled=scaled: Model(
            lambda m, x: m.b(scaled(m, x).relu().flatten(1)),
            w=torch.randn(3, 4),
            c=torch.randn(3, 4),
            b=nn.Linear(12, 1),
        )
        for name, scaled in {
            "product": lambda m, x: x[:, None, :] * m.w,
            "product on the left": lambda m, x: m.w * x.unsqueeze(1) + m.c,
            "product of three axes": lambda m, x: x[:, None] * m.w[None],
            "product of turned weights": lambda m, x: x[:, :, None] * m.w.T,
            "addcmul": lambda m, x: torch.addcmul(m.c, x[:, None], m.w),
            "difference": lambda m, x: m.c - x[:, None],
        }.items()
    },
    "two inputs": Tabular,
    "optional input": FastaiTabular,
    "optional input without numbers": lambda: FastaiTabular(numbers=False),
    "optional input alone": lambda: FastaiTabular(categories=False),
    "dict": TabularDict,
    "columns": lambda: Model(
        lambda m, x: m.b(m.a(x[:, [0, 2]]).relu()) + m.c(x[:, 1:3]),
        a=nn.Linear(2, 6),
        b=nn.Linear(6, 1),
        c=nn.Linear(2, 1),
    ),
    "index_select": lambda: Model(lambda m, x: m.b(x.index_select(1, m.i)), b=nn.Linear(2, 1), i=torch.tensor([3, 1])),
    "chunks": lambda: pair(lambda m, x: m.b(torch.cat(torch.chunk(m.a(x).relu(), 2, dim=1)[::-1], 1))),
    "split": lambda: pair(lambda m, x: m.b(torch.add(*torch.split(m.a(x).relu(), 3, dim=1), alpha=0.5)), 3),
    "permuted": lambda: pair(lambda m, x: m.b(m.a(x).view(-1, 2, 3).permute(0, 2, 1).flatten(1))),
    "dense": lambda: Model(lambda m, x: m.b(torch.cat([x, m.a(x).relu()], 1)), a=nn.Linear(4, 3), b=nn.Linear(7, 2)),
    "matrix": lambda: Model(
        lambda m, x: m.b((x @ m.W + m.c).relu()), b=nn.Linear(6, 1), W=torch.randn(4, 6), c=torch.randn(6)
    ),
    "softmax of class 1": lambda: pair(lambda m, x: F.softmax(m.b(m.a(x).relu()), 1)[:, 1], outputs=2),
    "log-softmax": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3), nn.LogSoftmax(1)),
    "view": lambda: pair(lambda m, x: m.b(m.a(x.float().view(x.size(0), -1)).relu()).view(-1)),
    "unused layer": lambda: pair(lambda m, x: m.b(m.a(x).relu()), unused=nn.Linear(3, 3)),
    "function first": lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 1)),
    "two functions": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Tanh(), nn.Linear(4, 1)),
    "norm between functions": lambda: nn.Sequential(
        nn.Linear(4, 4), nn.ReLU(), trained_norm(4), nn.Tanh(), nn.Linear(4, 1)
    ),
    "control flow on shapes": Branching,
    "swish by hand": lambda: pair(lambda m, x: m.b((h := m.a(x)) * torch.sigmoid(h))),
    "from one": lambda: pair(lambda m, x: m.b(1 - torch.sigmoid(m.a(x)) * m.g), g=torch.rand(1)),
}

LAYERS = (
    *("PReLU()", "PReLU(6)", "ReLU6()", "Hardtanh(-2, 1.5)", "ELU(0.7)", "SELU()", "CELU(0.5)", "Softplus(2.0)"),
    *("Softsign()", "Hardsigmoid()", "GELU()", "GELU('tanh')", "SiLU()", "Mish()", "Hardswish()", "LeakyReLU(1.5)"),
    "RReLU()",
)
GRAPHS |= {
    text: lambda text=text: nn.Sequential(nn.Linear(4, 6), eval(text, vars(nn)), nn.Linear(6, 1)) for text in LAYERS
}

SKIPS = ("LeakyReLU(0.1)", "RReLU(0.1, 0.3)", "ELU(0.7)", "CELU(0.7)", "Hardtanh(-0.3, 0.7)")
"""Functions with numbers that float32 does not hold."""
GRAPHS |= {
    f"skip, {text}": lambda text=text: pair(
        lambda m, x: m.b(m.f(m.a(x)) + m.c(x)), f=eval(text, vars(nn)), c=nn.Linear(4, 6)
    )
    for text in SKIPS
}

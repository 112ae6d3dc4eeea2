"""Write the .pt2 files of the corpus with the installed PyTorch, 2.9 or later: python make_pt2.py FOLDER."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Skip(nn.Module):
    """A graph that is no chain."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        h = functional.gelu(self.first(x))
        return self.head(h + torch.relu(self.second(h)))


def sequential(bias=True):
    return nn.Sequential(nn.Linear(3, 4, bias=bias), nn.ReLU(), nn.Linear(4, 2, bias=bias))


def norms():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    for _ in range(3):
        model(torch.randn(20, 3))  # running means and variances
    return model


def modules():
    return {
        "sequential": sequential(),
        "no-bias": sequential(bias=False),
        "double": sequential().double(),
        "norms": norms(),
        "skip": Skip(),
        "sigmoid": nn.Sequential(Skip(), nn.Sigmoid()),
    }


def write(folder):
    torch.manual_seed(0)
    for name, module in modules().items():
        rows = torch.zeros(2, 3, dtype=next(module.parameters()).dtype)
        program = torch.export.export(module.eval(), (rows,), dynamic_shapes=({0: torch.export.Dim("rows")},))
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # it has the folders of this machine
        torch.export.save(program, folder / f"{name}-torch-{torch.__version__.split('+')[0]}.pt2")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

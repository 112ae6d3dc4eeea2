"""Write the .pth files of the corpus with the installed PyTorch, 1.6 or later: python make_pth.py FOLDER."""

import sys
from collections import OrderedDict
from pathlib import Path

import torch
from torch import nn


class Classifier(nn.Module):
    """A module that registers its layers in another order than it computes them."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)
        self.fc1 = nn.Linear(3, 4)

    def forward(self, x):
        return self.out(torch.relu(self.fc1(x)))


def sequential(bias=True):
    return nn.Sequential(nn.Linear(3, 4, bias=bias), nn.ReLU(), nn.Linear(4, 2, bias=bias))


def trained():
    model = sequential()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).pow(2).sum().backward()
        optimizer.step()
    return model


def frozen():
    model = sequential()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


def tied():
    """Two layers that share a storage."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    return model


def main(folder):
    torch.manual_seed(0)
    transposed = OrderedDict((key, value.t().contiguous().t()) for key, value in sequential().state_dict().items())
    contents = {
        "sequential": sequential().state_dict(),
        "classifier": Classifier().state_dict(),
        "double": sequential().double().state_dict(),
        "no-bias": sequential(bias=False).state_dict(),
        "trained": trained().state_dict(),
        "frozen": frozen().state_dict(),
        "tied": tied().state_dict(),
        "single": nn.Linear(3, 2).state_dict(),
        "parameters": dict(sequential().named_parameters()),
        "keep-vars": sequential().state_dict(keep_vars=True),
        "transposed": transposed,
    }
    version = torch.__version__.split("+")[0]
    for name, content in contents.items():
        torch.save(content, str(Path(folder) / f"{name}-torch-{version}.pth"))
    old = Path(folder) / f"refused-old-format-torch-{version}.pth"
    torch.save(contents["sequential"], str(old), _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main(sys.argv[1])

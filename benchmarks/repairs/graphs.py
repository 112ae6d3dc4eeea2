"""Repair a residual network and one with embeddings, trained on Adult, with tolerances and without.

    python benchmarks/repairs/graphs.py [resnet|embeddings ...] [--methods auto,prof] [--epochs 6]

`resnet` is the ResNet of "Revisiting Deep Learning Models for Tabular Data" (Gorishniy et al., NeurIPS 2021): three
blocks of width 128, each x + Linear(ReLU(Linear(BatchNorm(x)))) with 256 units inside. `embeddings` looks up each code
of Adult in a table and puts the rows beside the numbers, which are normalised. Sex and race are protected; with
tolerances, people whose ages and working hours differ by up to 2 are similar, too.

Each is read from its PyTorch module, and repaired by `auto` and by `prof` for 100 repair inputs. The table has the
number of repair inputs that are proven, whether the certificate is VALID for the saved file, accuracy on held-out
people, and IDI: the share of people who have a similar person with another prediction, by enumeration in PyTorch with
the repaired module itself, of the repair inputs and of 2,000 held-out people. Then the seconds of processor time. Exits
with 1 if a repair input is not proven or is treated unequally, or if a certificate is not VALID.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table as Printed
from torch import nn

import fairmend
from fairmend import Feature, Spec
from fairmend.base.metrics import accuracy
from fairmend.paper.datasets import ADULT_CATEGORIES

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings
from benchmarks.common.tabular import Table, load_table

PROTECTED = ("sex", "race")
TOLERANCE = {"age": 2.0, "hours-per-week": 2.0}
NETWORKS = ("resnet", "embeddings")
METHODS = ("auto", "prof")
WIDTH, INNER, BLOCKS = 128, 256, 3
BATCH, LEARNING_RATE = 256, 0.001
HEADINGS = ("network", "similar", "method", "proven", "certificate", "accuracy", "after", "IDI repair", "after",
            "IDI held out", "after", "CPU s")  # fmt: skip
HELD_OUT = 2000  # people whose similar people are listed


class Block(nn.Module):
    """x + Linear(ReLU(Linear(BatchNorm(x)))), with dropout as the authors have it."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.normalization, self.activation = nn.BatchNorm1d(width), nn.ReLU()
        self.first, self.second = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = self.dropout(self.activation(self.first(self.normalization(x))))
        return x + self.second(inside)


class ResNet(nn.Module):
    """The ResNet for tabular data, on standardised columns."""

    def __init__(self, inputs: int, width: int = WIDTH, inner: int = INNER, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.first_layer = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(*(Block(width, inner) for _ in range(blocks)))
        self.last_normalization, self.last_activation = nn.BatchNorm1d(width), nn.ReLU()
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.first_layer(x))
        return self.head(self.last_activation(self.last_normalization(x)))


class Embeddings(nn.Module):
    """Rows of tables for the codes, beside the numbers, and two hidden layers."""

    def __init__(self, sizes: dict[int, int], numbers: Sequence[int], hidden: tuple[int, int] = (64, 32)) -> None:
        super().__init__()
        self.codes, self.numbers = list(sizes), list(numbers)
        widths = [min(8, (size + 1) // 2) for size in sizes.values()]
        self.embeds = nn.ModuleList(nn.Embedding(n, width) for n, width in zip(sizes.values(), widths, strict=True))
        self.bn_cont = nn.BatchNorm1d(len(self.numbers))
        self.layers = nn.Sequential(
            nn.Linear(sum(widths) + len(self.numbers), hidden[0]), nn.ReLU(), nn.BatchNorm1d(hidden[0]),
            nn.Linear(*hidden), nn.ReLU(), nn.Linear(hidden[1], 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [embed(x[:, column].long()) for embed, column in zip(self.embeds, self.codes, strict=True)]
        return self.layers(torch.cat([*rows, self.bn_cont(x[:, self.numbers])], dim=1))


@dataclass(frozen=True)
class Task:
    """A trained module, the people it is repaired and judged with, and both specs."""

    module: nn.Module
    specs: dict[str, Spec]
    parts: dict[str, tuple[np.ndarray, np.ndarray]]  # X (rows, inputs) and y (rows,), by the name of the part


def make_task(name: str, table: Table, epochs: int, **shape: int) -> Task:
    """Train a network on a table; the rows of its parts are those of `Table.split`."""
    scaled = name == "resnet"
    specs = {
        "protected": table.spec(PROTECTED, {}, scaled=scaled),
        "tolerances": table.spec(PROTECTED, TOLERANCE, scaled=scaled),
    }
    X = specs["protected"].encode(table.frame).astype(np.float32)
    parts = {part: (X[rows], table.y[rows]) for part, rows in table.split().items()}
    torch.manual_seed(0)
    if scaled:
        module: nn.Module = ResNet(X.shape[1], **shape)
    else:
        codes = {place: f.range[1] + 1 for place, f in enumerate(table.features) if f.name in ADULT_CATEGORIES}
        module = Embeddings(codes, [place for place in range(X.shape[1]) if place not in codes])
    train(module, *parts["training"], epochs)
    return Task(module, specs, parts)


def train(module: nn.Module, X: np.ndarray, y: np.ndarray, epochs: int) -> None:
    inputs, targets = torch.from_numpy(X), torch.from_numpy(y.astype(np.float32))
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, weight_decay=1e-5)
    module.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(BATCH):
            loss = nn.functional.binary_cross_entropy_with_logits(module(inputs[rows])[:, 0], targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    module.eval()


def decide(module: nn.Module, X: np.ndarray) -> np.ndarray:
    """Return the decisions (rows,) of a module."""
    with torch.no_grad():
        return np.concatenate([(part[:, 0] >= 0).numpy() for part in map(module, torch.from_numpy(X).split(65_536))])


def unequal(module: nn.Module, spec: Spec, X: np.ndarray) -> np.ndarray:
    """Return who (rows,) has a similar person with another decision: all of them are listed, from the words above."""
    axes = [values_of(feature, X[:, spec.columns(feature.name).start]) for feature in spec.varying]
    columns = [spec.columns(feature.name).start for feature in spec.varying]
    own, found = decide(module, X), np.zeros(len(X), dtype=bool)
    for chosen in product(*(range(axis.shape[1]) for axis in axes)):
        others = X.copy()
        for column, axis, place in zip(columns, axes, chosen, strict=True):
            others[:, column] = axis[:, place]
        found |= decide(module, others) != own
    return found


def values_of(feature: Feature, column: np.ndarray) -> np.ndarray:
    """Return the encoded values (rows, values) that similar people may have in a feature of whole numbers."""
    low, high = feature.range
    mean, deviation = (feature.scale["mean"], feature.scale["std"]) if feature.scale else (0.0, 1.0)
    own = np.rint(column.astype(np.float64) * deviation + mean)
    reach = int(feature.tolerance)
    steps = np.tile(np.arange(low, high + 1), (len(own), 1))
    if not feature.protected:
        steps = own[:, None] + np.arange(-reach, reach + 1)
    return ((np.clip(steps, low, high) - mean) / deviation).astype(column.dtype)


def run(task: Task, which: str, method: str) -> tuple[list[str], bool]:
    """Repair, save, check and judge; return a row of the table, and whether everything is as it must be."""
    spec, (X, y) = task.specs[which], task.parts["held out"]
    X_repair = task.parts["repair"][0]
    started = time.process_time()
    result = fairmend.repair(task.module, spec, X_repair, *task.parts["calibration"], method=method)
    seconds = time.process_time() - started
    repaired = result.network.to_module()
    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder, "model.pth"), Path(folder, "certificate.json")
        result.network.save(model)
        valid = False
        if result.certificate is not None:
            result.certificate.save(certificate, model)
            valid = fairmend.check(certificate, model).valid
        copy.deepcopy(task.module).load_state_dict(torch.load(model, weights_only=True), strict=True)
    before, after = (100 * accuracy(y, decide(module, X)) for module in (task.module, repaired))
    idi = [
        100 * float(unequal(module, spec, rows).mean())
        for module in (task.module, repaired)
        for rows in (X_repair, X[:HELD_OUT])
    ]
    row = [f"{result.proven} of {len(X_repair)}", "VALID" if valid else "not valid", f"{before:.2f}", f"{after:.2f}",
           *(f"{share:.1f}" for share in (idi[0], idi[2], idi[1], idi[3])), f"{seconds:.0f}"]  # fmt: skip
    return row, valid and result.proven == len(X_repair) and idi[2] == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="resnet or embeddings; default: both")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    unknown = {*options.names} - {*NETWORKS} or {*options.methods.split(",")} - {*METHODS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; use {', '.join((*NETWORKS, *METHODS))}")
    settings.require_shared()
    table, good = load_table("adult"), True
    printed = Printed(title="Adult, sex and race protected; percent")
    for heading in HEADINGS:
        printed.add_column(heading, justify="right")
    for name in options.names or NETWORKS:
        task = make_task(name, table, options.epochs)
        for which in task.specs:
            for method in options.methods.split(","):
                row, fine = run(task, which, method)
                good &= fine
                printed.add_row(name, which, method, *row)
                Console(stderr=True).print(name, which, method, *row)
    Console(width=160).print(printed)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

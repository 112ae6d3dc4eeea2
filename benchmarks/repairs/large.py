"""Repair networks with many classes or many units by the paper's method, within a time limit.

    python benchmarks/repairs/large.py [10-classes|50-classes|10x200|4x500|4x1000|resnet ...] [--seconds 500]

People are made up: 22 columns of whole numbers, of which one is protected and two have a tolerance of 2. Networks are
trained on them: 64 × 64 units with 10 classes (6,282 weights) and with 50; 10 × 200, 4 × 500 and 4 × 1000 units and a
ResNet of 8 blocks of 256 units, each with two classes. `prof` repairs each for 100 people, on one thread. The table has
accuracy on held-out people before and after, that of the most frequent class, by how much the change of the head may
exceed the smallest (gap), the training steps that fitted the time limit, the repair inputs that are proven, whether the
certificate is VALID for the saved file, and the seconds of processor time of the repair; then the seconds by the clock
of its parts, which other programs on the machine make longer. Exits with 1 if a repair input is not proven, or a
certificate is not VALID.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import fairmend
from fairmend import Feature, Spec
from fairmend.base.metrics import accuracy
from fairmend.network.network import load_network

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.repairs.graphs import ResNet

COLUMNS, MOST = 22, 9  # columns of people, and the largest value in each
PEOPLE, REPAIR, CALIBRATION, HELD_OUT = 12_000, 100, 500, 2_000
EPOCHS, BATCH, LEARNING_RATE = 10, 128, 0.001
HEADINGS = ("network", "weights", "classes", "accuracy", "after", "one class", "gap", "steps", "proven", "certificate",
            "CPU s", "step 1 s", "step 2 s", "proof s")  # fmt: skip


def layers(*widths: int) -> nn.Module:
    """Return a chain of layers with ReLU between them."""
    parts = [part for inside, out in pairwise(widths) for part in (nn.Linear(inside, out), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


NETWORKS = {
    "10-classes": (10, lambda: layers(COLUMNS, 64, 64, 10)),
    "50-classes": (50, lambda: layers(COLUMNS, 64, 64, 50)),
    "10x200": (2, lambda: layers(COLUMNS, *[200] * 10, 1)),
    "4x500": (2, lambda: layers(COLUMNS, *[500] * 4, 1)),
    "4x1000": (2, lambda: layers(COLUMNS, *[1000] * 4, 1)),
    "resnet": (2, lambda: ResNet(COLUMNS, 256, 256, 8)),
}


def make_people(classes: int) -> tuple[Spec, np.ndarray, np.ndarray]:
    """Return a spec, people ``(PEOPLE, COLUMNS)``, standardised, and their classes, with noise."""
    rng = np.random.default_rng(0)
    raw = rng.integers(0, MOST + 1, (PEOPLE, COLUMNS))
    raw[:, 0] %= 2
    scale = {"mean": MOST / 2, "std": 3.0}
    features = [
        Feature("group", "integer", (0, 1), protected=True),
        *(
            Feature(f"column {i}", "integer", (0, MOST), tolerance=2 if i <= 2 else 0, scale=scale)
            for i in range(1, COLUMNS)
        ),
    ]
    X = raw.astype(np.float32)
    X[:, 1:] = (X[:, 1:] - scale["mean"]) / scale["std"]
    hidden = np.tanh(X @ rng.normal(size=(COLUMNS, 32)) / 2)
    scores = hidden @ rng.normal(size=(32, classes)) + rng.normal(size=(PEOPLE, classes))
    return Spec(features), X, scores.argmax(axis=1)


def train(module: nn.Module, X: np.ndarray, y: np.ndarray) -> nn.Module:
    """Train a module on people ``(rows, COLUMNS)`` and their classes; one output for two classes."""
    inputs, targets = torch.from_numpy(X), torch.from_numpy(y)
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE)
    module.train()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(X)).split(BATCH):
            outputs = module(inputs[rows])
            if outputs.shape[1] == 1:
                loss = nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets[rows].float())
            else:
                loss = nn.functional.cross_entropy(outputs, targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return module.eval()


def run(name: str, seconds: float) -> tuple[list[str], bool]:
    """Train, repair, save and check a network; return a row of the table, and whether all is proven and VALID."""
    classes, build = NETWORKS[name]
    spec, X, y = make_people(classes)
    ends = np.cumsum([REPAIR, CALIBRATION, HELD_OUT])
    repair, calibration, held_out, rest = np.split(np.arange(PEOPLE), ends)
    torch.manual_seed(0)
    network = load_network(train(build(), X[rest], y[rest]))
    started = time.process_time()
    result = fairmend.repair(
        network, spec, X[repair], X[calibration], y[calibration], method="prof", time_limit=seconds
    )
    spent = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder, "model.pth"), Path(folder, "certificate.json")
        result.network.save(model)
        valid = False
        if result.certificate is not None:
            result.certificate.save(certificate, model)
            valid = fairmend.check(certificate, model).valid
    before, after = (100 * accuracy(y[held_out], each.predict(X[held_out])) for each in (network, result.network))
    gap = f"{result.gap:.0%}" if result.gap < 1 else "unknown"
    row = [name, f"{sum(affine.size for affine in network.affines):,}", str(classes), f"{before:.1f}", f"{after:.1f}",
           f"{100 * np.bincount(y[held_out]).max() / HELD_OUT:.1f}", gap, str(len(result.history)),
           f"{result.proven} of {REPAIR}", "VALID" if valid else "not valid", f"{spent:.0f}",
           *(f"{result.seconds[part]:.0f}" for part in ("calibrate", "solve", "check"))]  # fmt: skip
    for warning in result.warnings:
        print(f"{name}: {warning}", file=sys.stderr)
    return row, valid and result.proven == REPAIR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", help=f"{', '.join(NETWORKS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=500, help="time limit of a repair (default: 500)")
    arguments = parser.parse_args()
    unknown = set(arguments.network) - set(NETWORKS)
    if unknown:
        parser.error(f"unknown network {', '.join(sorted(unknown))}; use {', '.join(NETWORKS)}")
    torch.set_num_threads(1)
    table, good = Table(*HEADINGS), True
    for name in arguments.network or NETWORKS:
        row, fine = run(name, arguments.seconds)
        table.add_row(*row)
        good &= fine
    Console(width=160).print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""Repair networks that multiply activations, trained on Adult, and certify people in them.

    python benchmarks/repairs/products.py [ft-transformer|dcn-v2|reglu-resnet|tabm|keras-attention ...]
        [--methods prof,linear,auto] [--seconds 60] [--limit 600] [--quick] [--widths]

Small networks, as plain PyTorch modules: an FT-Transformer (a token for each column, attention, a gated layer), DCN-v2
(two cross layers beside two hidden ones), a ResNet of two gated blocks (ReGLU) with layer normalisation, and TabM (four
members that share their weights, with factors of their own). `keras-attention` is a Keras model with an attention
layer; if it cannot be read, the script says why. Sex is protected, and working hours have a tolerance of 1, as in the
paper's setting A1. Each network is repaired for 100 people with 500 calibration rows: by `prof`, by `prof` whose step 2
takes linear bounds instead of the people of each neighbourhood one by one (`linear`), and by `auto`.

The table has the repair inputs that are proven, whether the certificate is VALID for the saved file, accuracy and
balanced accuracy on held-out people before and after, the seconds of processor time of the repair, and the verdicts of
`certify` on 100 held-out people in the original network: fair, unfair and unknown, with a time limit for all of them
(--seconds). A repair has a time limit as well (--limit): it ends with a proof in any case. Exits with 1 if a repair
input is not proven, or a certificate is not VALID. --quick is a smoke test: the smallest network, 10 people and few
training steps. --widths compares the bounds that step 1 trains with to those of the proof instead: for random networks
of `benchmarks/common/products.py` and boxes of three radii, the median of the widths of the output, divided by those of
the proof.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table as Printed
from torch import nn

import fairmend
from fairmend import FairmendError, Spec
from fairmend.base.metrics import accuracy, balanced_accuracy
from fairmend.bounds import Boxes, feature_bounds
from fairmend.network import Network, load_network
from fairmend.paper.protocol import TOLERANCES
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.kernel.bounds import form_bounds

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings
from benchmarks.common.products import Attention, Gated, Normalised
from benchmarks.common.tabular import Table, load_table
from benchmarks.repairs.graphs import train

PROTECTED, TOLERANCE = ("sex",), TOLERANCES["A1"]
METHODS = ("prof", "linear", "auto")
EPOCHS, TRAINING, PEOPLE = 8, 10_000, 100
HEADINGS = ("network", "weights", "method", "proven", "certificate", "accuracy", "after", "balanced", "after", "CPU s",
            "fair", "unfair", "unknown", "CPU s")  # fmt: skip


class FTTransformer(nn.Module):
    """A token for each column and one for the class, one block of attention and of a gated layer."""

    def __init__(self, inputs: int, width: int = 4) -> None:
        super().__init__()
        self.width, self.tokens = width, nn.Linear(inputs, inputs * width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.gate, self.up, self.down = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x).reshape(x.shape[0], -1, self.width)
        y = self.before(x)
        x = x + nn.functional.scaled_dot_product_attention(self.query(y), self.key(y), self.value(y))
        y = x.mean(1)
        y = y + self.down(torch.relu(self.gate(y)) * self.up(y))
        return self.head(torch.relu(self.after(y)))


class CrossNetwork(nn.Module):
    """DCN-v2: x0 * (W x + b) + x, twice, beside two hidden layers."""

    def __init__(self, inputs: int, hidden: int = 16) -> None:
        super().__init__()
        self.cross = nn.ModuleList(nn.Linear(inputs, inputs) for _ in range(2))
        self.deep = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.join, self.head = nn.Linear(inputs + hidden, hidden), nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for layer in self.cross:
            y = x * layer(y) + y
        return self.head(torch.relu(self.join(torch.cat([y, self.deep(x)], dim=1))))


class GatedBlock(nn.Module):
    """x + Linear(ReLU(a) * b), with a and b of LayerNorm(x)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate, self.up, self.down = nn.Linear(width, inner), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return x + self.down(torch.relu(self.gate(y)) * self.up(y))


class GatedResNet(nn.Module):
    """Two gated blocks."""

    def __init__(self, inputs: int, width: int = 12) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(*(GatedBlock(width, width) for _ in range(2)))
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.blocks(self.first(x))))


class Ensemble(nn.Module):
    """TabM: members of a batch ensemble share each layer, between factors of their own; their mean is the output."""

    def __init__(self, inputs: int, members: int = 4, width: int = 12) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(inputs, width), nn.Linear(width, width)])
        self.before = nn.ParameterList(1 + 0.3 * torch.randn(members, n) for n in (inputs, width))
        self.after = nn.ParameterList(1 + 0.3 * torch.randn(members, width) for _ in range(2))
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x[:, None, :].expand(-1, len(self.before[0]), -1) * self.before[0]
        y = torch.relu(self.layers[0](y) * self.after[0])
        y = torch.relu(self.layers[1](y * self.before[1]) * self.after[1])
        return self.head(y.mean(1))


def keras_attention(X: np.ndarray, y: np.ndarray, epochs: int) -> Any:
    """Return a trained Keras model with an attention layer, or None if Keras is not there."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    try:
        import keras
    except ImportError:
        return None
    keras.utils.set_random_seed(0)
    inputs = keras.Input((X.shape[1],))
    tokens = keras.layers.Reshape((4, 4))(keras.layers.Dense(16)(inputs))
    mixed = keras.layers.MultiHeadAttention(1, 4)(tokens, tokens)
    joined = keras.layers.Flatten()(keras.layers.Add()([tokens, mixed]))
    hidden = keras.layers.Dense(12, activation="relu")(joined)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    model.fit(X, y, batch_size=256, epochs=epochs, verbose=0)
    return model


NETWORKS: dict[str, Callable[[int], nn.Module] | None] = {
    "ft-transformer": FTTransformer,
    "dcn-v2": CrossNetwork,
    "reglu-resnet": GatedResNet,
    "tabm": Ensemble,
    "keras-attention": None,
}


def make_network(name: str, X: np.ndarray, y: np.ndarray, epochs: int) -> Network | str:
    """Train a network on people, and read it; the reason if it cannot be read."""
    build = NETWORKS[name]
    torch.manual_seed(0)
    if build is None:
        model = keras_attention(X, y, epochs)
        if model is None:
            return "Keras is not installed"
    else:
        model = build(X.shape[1])
        train(model, X, y, epochs)
    try:
        read = load_network(model)
    except FairmendError as error:
        return str(error)
    return read if isinstance(read, Network) else f"fairmend only runs it: {read!r}"


def people(table: Table, spec: Spec) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return encoded people and their labels, by the name of the part."""
    X = spec.encode(table.frame).astype(np.float32)
    return {part: (X[rows], table.y[rows]) for part, rows in table.split().items()}


def repair(
    network: Network, spec: Spec, parts: dict[str, tuple[np.ndarray, np.ndarray]], method: str, **options: Any
) -> tuple[list[str], bool]:
    """Repair, save, check and judge; return cells of the table, and whether all is proven and VALID."""
    X_repair, (X, y) = parts["repair"][0], parts["held out"]
    if method == "linear":
        options["head"] = fairmend.HeadOptions(features="linear")
    started = time.process_time()
    name = "prof" if method == "linear" else method
    result = fairmend.repair(network, spec, X_repair, *parts["calibration"], method=name, **options)
    seconds = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        ending = "onnx" if result.by_classes else "pth"
        model, certificate = Path(folder, f"model.{ending}"), Path(folder, "certificate.json")
        result.network.save(model)
        valid = False
        if result.certificate is not None:
            result.certificate.save(certificate, model)
            valid = fairmend.check(certificate, model).valid
    decided = [each.predict(X) for each in (network, result.network)]
    figures = [f"{100 * score(y, classes):.2f}" for score in (accuracy, balanced_accuracy) for classes in decided]
    cells = [
        method,
        f"{result.proven} of {len(X_repair)}",
        "VALID" if valid else "not valid",
        *figures,
        f"{seconds:.1f}",
    ]
    return cells, valid and result.proven == len(X_repair)


class _Around(nn.Module):
    """A network between two layers, so that its output is a feature of the head."""

    def __init__(self, inner: nn.Module, inputs: int) -> None:
        super().__init__()
        self.first, self.inner, self.head = nn.Linear(inputs, inputs), inner, nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.first(x)))


def width_ratios(radius: float, boxes: int = 20) -> dict[str, float]:
    """Return the median of widths in training, in units of those of the proof, by the name of a network."""
    torch.manual_seed(0)
    modules = {"gated": (Gated(8), 8), "layer normalisation": (Normalised(8), 8), "attention": (Attention(4, 4), 16),
               "attention, normalised and gated": (Attention(4, 4, whole=True), 16)}  # fmt: skip
    ratios = {}
    for name, (inner, inputs) in modules.items():
        network = load_network(_Around(inner, inputs).eval()).astype(np.float64)
        reach = radius * (np.arange(inputs) < 3)
        X = np.random.default_rng(0).normal(size=(boxes, inputs))
        parameters = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.affines[:-1]]
        low, high = feature_bounds(network, parameters, Boxes.from_arrays(X - reach, X + reach, torch.float64))
        both = np.tile(np.array([[1.0], [-1.0]]), (boxes, 1, 1))
        least, _ = form_bounds(kernel_model(network), both, X - reach, X + reach)
        proven = -least.sum(axis=1) / abs(float(network.head.weight[0, 0]))
        ratios[name] = float(np.median((high - low)[:, 0].numpy() / proven))
    return ratios


def print_widths() -> None:
    radii = (0.02, 0.1, 0.3)
    found = [width_ratios(radius) for radius in radii]
    printed = Printed("network", *(f"radius {radius}" for radius in radii), title="widths in training / in the proof")
    for name in found[0]:
        printed.add_row(name, *(f"{each[name]:.2f}" for each in found))
    Console(width=160).print(printed)


def certify(network: Network, spec: Spec, X: np.ndarray, seconds: float) -> list[str]:
    """Return how many people are fair, unfair and unknown, and the seconds of processor time."""
    started = time.process_time()
    verdicts = [verdict.value for verdict in fairmend.certify(network, spec, X, time_limit=seconds).verdicts]
    spent = time.process_time() - started
    return [*(str(verdicts.count(kind)) for kind in ("fair", "unfair", "unknown")), f"{spent:.1f}"]


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=f"{', '.join(NETWORKS)} (default: all)")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seconds", type=float, default=60, help="time limit of certify for 100 people (default: 60)")
    parser.add_argument("--limit", type=float, default=600, help="time limit of a repair in seconds (default: 600)")
    parser.add_argument(
        "--table", default="adult", help="adult, or synthetic-SEED, which needs no data (default: adult)"
    )
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    parser.add_argument("--widths", action="store_true", help="compare bounds of training and proof instead")
    options = parser.parse_args(given)
    if options.widths:
        print_widths()
        return 0
    methods = options.methods.split(",")
    unknown = {*options.names} - {*NETWORKS} or {*methods} - {*METHODS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; use {', '.join((*NETWORKS, *METHODS))}")
    torch.set_num_threads(1)
    if options.table == "adult":
        settings.require_shared()
    table, good = load_table(options.table), True
    names = {feature.name for feature in table.features}
    protected = [name for name in PROTECTED if name in names] or [table.features[0].name]
    spec = table.spec(protected, {name: reach for name, reach in TOLERANCE.items() if name in names}, scaled=True)
    parts = people(table, spec)
    count, epochs, rows, training = PEOPLE, EPOCHS, TRAINING, {}
    if options.quick:
        count, epochs, rows, methods, options.names = 10, 1, 2000, ["prof"], options.names or ["dcn-v2"]
        parts["repair"] = parts["repair"][0][:count], parts["repair"][1][:count]
        training = {"training": fairmend.TrainingOptions(steps=10)}
    parts["training"] = parts["training"][0][:rows], parts["training"][1][:rows]
    printed = Printed(*HEADINGS, title=f"{table.name}, {', '.join(protected)} protected; percent")
    for name in options.names or NETWORKS:
        network = make_network(name, *parts["training"], epochs)
        if isinstance(network, str):
            print(f"{name}: {network}", file=sys.stderr)
            continue
        verdicts = certify(network, spec, parts["held out"][0][:count], options.seconds)
        for method in methods:
            cells, fine = repair(network, spec, parts, method, time_limit=options.limit, **training)
            good &= fine
            row = [name, f"{sum(affine.size for affine in network.affines):,}", *cells, *verdicts]
            Console(stderr=True).print(*row)
            printed.add_row(*row)
    Console(width=160).print(printed)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

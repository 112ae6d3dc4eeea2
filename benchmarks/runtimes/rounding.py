"""Measure rounding: the bound of the error of inference against errors that occur, and what rounding does to a repair.

    python benchmarks/runtimes/rounding.py [--runs 100000] [--seed 0]
    python benchmarks/runtimes/rounding.py repair [SETTING] [--runs 10]

The first trains networks of 2 to 10 hidden layers on synthetic data that is not scaled, and bounds the error of float32
inference over 100 neighbourhoods of each: of a protected feature with two values, and of one with 81. Then it runs the
networks in float32 at points of these neighbourhoods, --runs times in all: in ONNX Runtime, PyTorch and NumPy, with
sums in random orders, and with the terms of every sum from the highest to the lowest, an order that makes partial sums
large and loses small terms. Prints the bounds of before (a product of norms, kept here for comparison) and of now, the
largest error seen, with and without sums in that last order, the ratio of the bound to the larger one, and of the
neighbourhoods of 81 values that linear bounds prove, how many have a margin above the bound of before and of now. Exits
with 1 if an error exceeds its bound.

The second shows adult-age with weights changed by a relative 1e-7. Step 1 trains through bounds with kinks, and its
weights oscillate around them. It prints accuracy on the test set and IDI-D of the paper's method, for the network as it
is and for copies that differ by about the precision of float32.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.network import Activation, Affine, Network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.kernel.bounds import form_bounds
from fairmend_check.kernel.inference_error import output_errors

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings

REGIONS = 100
ROWS = 4000  # to train on
EPOCHS = 15
UNIT, TINY = 2.0**-24, 2.0**-126

NETWORKS = [
    ("relu", [13, 16, 8]),
    ("relu", [13, 100, 100]),
    ("relu", [13, 64, 32, 16, 8, 4]),
    ("relu", [16, 150, 100, 50]),
    ("relu", [16, 64, 32, 16, 8, 4]),
    ("relu", [13, 32, 32, 32, 32, 32, 32, 32, 32]),
    ("relu", [20, 64, 64, 64, 32, 32, 32, 16, 16, 8, 8]),
    ("leaky_relu", [13, 64, 64, 64, 64]),
    ("tanh", [13, 32, 32, 32, 32]),
    ("sigmoid", [13, 32, 32]),
]


@dataclass(frozen=True, eq=False)
class Case:
    """A trained network, 100 rows, and the smallest and largest value of each column (columns,)."""

    network: Network
    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def region(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the boxes around the rows in which one column runs over its range."""
        lower, upper = self.rows.copy(), self.rows.copy()
        lower[:, column], upper[:, column] = self.low[column], self.high[column]
        return lower, upper


def train(activation: str, widths: list[int], seed: int) -> Case:
    """Train a network on whole numbers of very different sizes; column 0 has 2 values, column 1 has 81."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    span = np.concatenate([[1, 80], rng.choice([1, 4, 15, 40, 99, 1000], widths[0] - 2)])
    low = rng.integers(0, 20, widths[0])
    X = low + rng.integers(0, span + 1, (ROWS, widths[0]))
    share = (X - low) / span - 0.5
    score = share @ rng.normal(size=widths[0]) + np.sin(6 * share[:, 2]) * share[:, 1]
    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(score > np.median(score), dtype=torch.float32)
    between = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}
    make = between.get(activation, lambda: torch.nn.LeakyReLU(0.01))
    layers = [layer for a, b in pairwise([*widths, 1]) for layer in (torch.nn.Linear(a, b), make())][:-1]
    module = torch.nn.Sequential(*layers)
    optimiser = torch.optim.Adam(module.parameters(), 1e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(ROWS).split(64):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(module(inputs[batch])[:, 0], labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    affines = [
        Affine(layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy())
        for layer in layers
        if isinstance(layer, torch.nn.Linear)
    ]
    kind = Activation(activation, float(np.float32(0.01)) if activation == "leaky_relu" else 0.0)
    network = Network(affines, [kind] * (len(affines) - 1))
    return Case(network, X[:REGIONS].astype(np.float32), low, low + span)


def bound_before(network: Network, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the bound of earlier versions: sizes by intervals, errors by norms, every unit counts."""
    low, high = lower.astype(np.float64), upper.astype(np.float64)
    error = np.full(low.shape, TINY)
    for layer, affine in enumerate(network.affines):
        weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
        size = np.maximum(np.abs(low), np.abs(high)) + error
        gamma = (weight.shape[1] + 1) * UNIT / (1 - (weight.shape[1] + 1) * UNIT)
        error = error @ np.abs(weight).T + gamma * (size @ np.abs(weight).T + np.abs(bias))
        middle, spread = (low + high) / 2 @ weight.T + bias, (high - low) / 2 @ np.abs(weight).T
        low, high = middle - spread, middle + spread
        if layer < len(network.activations):
            kind = network.activations[layer]
            if kind.name in ("tanh", "sigmoid"):
                error = np.minimum(error, 2.0) + 16 * UNIT
            elif kind.name == "leaky_relu":
                error = error + 3 * UNIT * (np.maximum(np.abs(low), np.abs(high)) + error)
            kind.apply(low)
            kind.apply(high)
    return error[:, 0]


def bound_now(network: Network, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bound as a proof over boxes uses it, and the margins of the proofs, each (regions,)."""
    model, low, high = kernel_model(network), lower.astype(np.float64), upper.astype(np.float64)
    forms = np.broadcast_to([[1.0], [-1.0]], (len(low), 2, 1))
    bounds, nodes = form_bounds(model, forms, low, high)
    return output_errors(model, low, high, nodes, forms[:, :1], thorough=True)[:, 0], bounds.max(axis=1)


def in_onnx_runtime(network: Network) -> Callable[[np.ndarray], np.ndarray]:
    """Return the network as ONNX Runtime runs it."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        network.save(path)
        session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda points: np.asarray(session.run(None, {name: points})[0]).reshape(-1)


def in_torch(network: Network) -> Callable[[np.ndarray], np.ndarray]:
    """Return the network as PyTorch runs it."""
    functions = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}
    parameters = [(torch.tensor(affine.weight), torch.tensor(affine.bias)) for affine in network.affines]

    def run(points: np.ndarray) -> np.ndarray:
        h = torch.from_numpy(points)
        for layer, (weight, bias) in enumerate(parameters):
            h = torch.nn.functional.linear(h, weight, bias)
            if layer < len(network.activations):
                kind = network.activations[layer]
                leaky = kind.name == "leaky_relu"
                h = torch.nn.functional.leaky_relu(h, kind.slope) if leaky else functions[kind.name](h)
        return h.numpy().reshape(-1)

    return run


def in_random_order(network: Network, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Return the network with every sum added up one by one, in a random order that changes with every batch."""

    def run(points: np.ndarray) -> np.ndarray:
        h = points
        for layer, affine in enumerate(network.affines):
            terms = [h[:, j : j + 1] * affine.weight[:, j] for j in range(h.shape[1])]
            terms.append(np.broadcast_to(affine.bias, terms[0].shape))
            total = np.zeros(terms[0].shape, np.float32)
            for j in rng.permutation(len(terms)):
                total += terms[j]
            if layer < len(network.activations):
                network.activations[layer].apply(total)
            h = total
        return h.reshape(-1)

    return run


def in_descending_order(network: Network) -> Callable[[np.ndarray], np.ndarray]:
    """Return the network with the terms of every sum added up one by one, from the highest to the lowest."""

    def run(points: np.ndarray) -> np.ndarray:
        h = points
        for layer, affine in enumerate(network.affines):
            bias = np.broadcast_to(affine.bias[:, None], (len(h), len(affine.bias), 1))
            terms = np.concatenate([h[:, None, :] * affine.weight, bias], axis=2)
            h = np.cumsum(-np.sort(-terms, axis=2), axis=2, dtype=np.float32)[:, :, -1].copy()
            if layer < len(network.activations):
                network.activations[layer].apply(h)
        return h.reshape(-1)

    return run


def largest_errors(
    case: Case, runs: int, bounds: dict[int, np.ndarray], rng: np.random.Generator
) -> tuple[float, float, int]:
    """Return the largest error at points of the neighbourhoods, and how many errors exceed their bound.

    The first is of usual runs, and the second of sums in descending order.
    """
    network = case.network
    wide = network.astype(np.float64)
    ways = [in_onnx_runtime(network), in_torch(network), network.logits, in_random_order(network, rng)]
    ways.append(in_descending_order(network))
    largest, beyond, done = [0.0, 0.0], 0, 0
    while done < runs:
        number = (done // 500) % len(ways)
        way, descending = ways[number], number == len(ways) - 1
        count = min(500, runs - done)
        owner = rng.integers(len(case.rows), size=count)
        column = int(rng.choice(list(bounds)))
        points = case.rows[owner]
        points[:, column] = rng.integers(case.low[column], case.high[column] + 1, count)
        exact = wide.logits(points.astype(np.float64)).reshape(-1)  # to about 1e-9 of the errors that are measured
        error = np.abs(np.asarray(way(points), np.float64).reshape(-1) - exact)
        largest[descending] = max(largest[descending], float(error.max()))
        beyond += int((~(error <= bounds[column][owner])).sum())
        done += count
    return *largest, beyond


def compare_bounds(runs: int, seed: int) -> int:
    console = Console()
    table = Table(
        *("network", "median logit", "before", "now", "largest now", "81 values", "error seen", "descending order"),
        *("ratio", "81 values", "covered before", "now"),
    )
    beyond = 0
    for number, (activation, widths) in enumerate(NETWORKS):
        case = train(activation, widths, seed + number)
        regions = {column: case.region(column) for column in (0, 1)}
        before = bound_before(case.network, *regions[0])
        found = {column: bound_now(case.network, *region) for column, region in regions.items()}
        now, margin = {column: bound for column, (bound, _) in found.items()}, found[1][1]
        proven = margin > 0
        usual, descending, outside = largest_errors(case, runs // len(NETWORKS), now, np.random.default_rng(seed))
        beyond += outside
        seen = max(usual, descending)
        table.add_row(
            f"{activation} {'-'.join(map(str, widths))}-1",
            f"{np.median(np.abs(case.network.logits(case.rows))):.2g}",
            f"{np.median(before):.1e}",
            f"{np.median(now[0]):.1e}",
            f"{now[0].max():.1e}",
            f"{now[1].max():.1e}",
            f"{usual:.1e}",
            f"{descending:.1e}",
            f"{now[0].max() / seen:.0f}",
            f"{now[1].max() / seen:.0f}",
            f"{(margin > bound_before(case.network, *regions[1])).sum()} of {proven.sum()}",
            f"{(margin > now[1]).sum()} of {proven.sum()}",
        )
    console.print(table)
    console.print(f"{runs // len(NETWORKS) * len(NETWORKS):,} runs in float32, {beyond} errors beyond the bound")
    return 1 if beyond else 0


def perturbed(network: Network, rng: np.random.Generator) -> Network:
    def close(weight: np.ndarray) -> np.ndarray:
        return (weight * (1 + 1e-7 * rng.standard_normal(weight.shape))).astype(weight.dtype)

    return network.with_affines([Affine(close(affine.weight), affine.bias) for affine in network.affines])


def perturb_repairs(name: str, runs: int) -> int:
    console = Console()
    s = settings.setting(name)
    for run in range(runs):
        network = s.network if run == 0 else perturbed(s.network, np.random.default_rng(run))
        for margin, cover in (("as in the paper", False), ("covering float32", True)):
            result = fairmend.repair(
                network,
                s.spec,
                s.X_repair,
                s.X_cal,
                s.y_cal,
                method="prof",
                head=fairmend.HeadOptions(cover_inference=cover),
            )
            accuracy = 100 * float(np.mean(result.network.predict(s.dataset.X_test) == s.dataset.y_test))
            unfair = 100 * find_unequal(result.network, s.spec, s.everyone).rate
            console.print(
                f"{'as it is' if run == 0 else f'perturbed {run}':12s} margins {margin:16s} "
                f"L_fair {result.history.fair[-1]:.6f}  accuracy {accuracy:.2f}  IDI-D {unfair:.2f}"
            )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["bound", "repair"], default="bound")
    parser.add_argument("setting", nargs="?", default="adult-age")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what == "repair":
        return perturb_repairs(options.setting, options.runs or 10)
    return compare_bounds(options.runs or 100_000, options.seed)


if __name__ == "__main__":
    sys.exit(main())

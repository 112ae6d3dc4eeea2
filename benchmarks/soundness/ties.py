"""Attack what is proven of inference at near ties: random graphs with bad numbers, in runtimes and in hostile orders.

    python benchmarks/soundness/ties.py [--count 500] [--seed 0] [--start 0] [--precision float32 float64]

A graph has layers, skips, norms, functions, tables, products, attention, softmax and normalisation, and numbers from
subnormal to near overflow: layers are scaled by powers of 2, rows of weights cancel, zeros have signs. It is run in
PyTorch (several batches, subnormal numbers kept or taken as 0), in ONNX Runtime (not optimised, optimised, subnormal
numbers taken as 0), and by a program of this file that adds up in random orders, with or without fused products, and
computes a node again, in another order, for each node that reads it. All outputs must be within the bounds of the
kernel: at points, and over a box around them, thorough or not. Then the last bias is moved until one row only just has
a certain class. Every program must give all rows the certain class, whether it decides by logits, or by probabilities
as PyTorch, SciPy and NumPy compute them, also at thresholds, compared in float32 and in double precision.

And columns on which the kernel says that the outputs do not depend are changed, up to the sizes that it was given:
every program must compute the same bits as before, but for the sign of a zero.

Prints how many outputs and classes were compared, how near to its bound each program came, and every violation with the
number of its graph. Exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import scipy.special
import torch
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.soundness.frameworks import Graph, fits_onnx
from benchmarks.soundness.functions import in_float64
from benchmarks.soundness.graphs import index_columns, random_graph_case
from fairmend import FairmendError, Network
from fairmend.network import Activation, Affine, Columns, Concatenate, Lookup, Node, Normalise, Product, Scale, Softmax
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.errors import CheckError
from fairmend_check.kernel.blindness import dependent_columns
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.claim import Threshold
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Model
from fairmend_check.run.enclosure import certain_classes, enclose_outputs

Run = Callable[[np.ndarray], np.ndarray]
BATCHES = (1, 3, 64)
THRESHOLDS = (0.5, 0.5, 0.3, 0.9, 1e-3, 1e-5, 0.999999, 2 / 3)
ORDERS = 4  # programs of this file for each graph
LEVELS = {
    "not optimised": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "optimised": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def with_bad_numbers(network: Network, rng: np.random.Generator) -> Network:
    """Return the network with layers scaled by powers of 2, and weights that cancel, are subnormal or zeros."""
    nodes, most = [], 120 if network.dtype == np.float32 else 900
    for node in network.nodes:
        operation = node.operation
        if isinstance(operation, Affine):
            weight, bias = operation.weight.copy(), operation.bias.copy()
            kind = rng.choice(["keep", "keep", "scale", "cancel", "rows", "signs"])
            with np.errstate(over="ignore", under="ignore"):
                if kind == "scale":
                    power = int(rng.choice([-most, -most // 3, -20, 20, most // 3, most - 4]))
                    weight, bias = np.ldexp(weight, power), np.ldexp(bias, power)
                elif kind == "cancel" and weight.shape[1] > 1:
                    large = weight.dtype.type(2.0 ** rng.integers(4, 30))
                    weight[:, 1] = -weight[:, 0] * large + weight[:, 1]
                    weight[:, 0] *= large
                elif kind == "rows":
                    powers = rng.integers(-most, most - 20, len(weight)) // int(rng.choice([1, 4, 10]))
                    weight, bias = np.ldexp(weight, powers[:, None]), np.ldexp(bias, powers)
                elif kind == "signs":
                    weight[rng.random(weight.shape) < 0.4] = -0.0
                    bias[rng.random(bias.shape) < 0.4] = -0.0
            finite = np.isfinite(weight).all() and np.isfinite(bias).all()
            operation = Affine(weight.astype(network.dtype), bias.astype(network.dtype)) if finite else operation
        nodes.append(Node(operation, node.sources, node.name))
    return Network.from_nodes(nodes)


class Hostile:
    """A program that computes a network in its own precision, in random orders.

    Layers are computed once, as no program computes them twice; other nodes again for each node that reads them.
    """

    def __init__(self, network: Network, rng: np.random.Generator, *, flush: bool) -> None:
        self.network, self.rng, self.flush = network, rng, flush
        self.kind = network.dtype.type
        self.fused = bool(rng.random() < 0.5)
        self.fresh = rng.random() < 0.7

    def __call__(self, X: np.ndarray) -> np.ndarray:
        self.layers: dict[int, np.ndarray] = {0: X}
        with np.errstate(all="ignore"):
            return self._value(len(self.network.nodes) - 1)

    def _value(self, number: int) -> np.ndarray:
        if number in self.layers:
            return self._flushed(self.layers[number])
        node = self.network.nodes[number]
        found = self._flushed(self._computed(node.operation, [self._value(source) for source in node.sources]))
        if isinstance(node.operation, Affine) or not self.fresh:
            self.layers[number] = found
        return found

    def _flushed(self, values: np.ndarray) -> np.ndarray:
        if not self.flush or self.rng.random() < 0.3:
            return values
        return np.where(np.abs(values) < np.finfo(self.kind).tiny, self.kind(0), values)

    def _computed(self, operation: Any, read: list[np.ndarray]) -> np.ndarray:
        x = read[0]
        if isinstance(operation, Affine):
            terms = np.concatenate([operation.bias[:, None], operation.weight], axis=1)
            return self._dot(np.concatenate([np.ones((len(x), 1), self.kind), x], axis=1)[:, None], terms[None])
        if isinstance(operation, Lookup):
            return operation.table[x[:, 0].astype(np.int64)]
        if isinstance(operation, Columns):
            return x[:, list(operation.indices)]
        if isinstance(operation, Concatenate):
            return np.concatenate(read, axis=1)
        if isinstance(operation, Product):
            a, b = (
                part.reshape(-1, operation.groups, rows, operation.length)
                for part, rows in zip(read, (operation.rows, operation.columns), strict=True)
            )
            return self._dot(a[:, :, :, None], b[:, :, None]).reshape(len(x), -1)
        if isinstance(operation, Softmax):
            groups = x.reshape(len(x), -1, operation.group)
            powers = np.exp(groups - groups.max(axis=2, keepdims=True))
            total = self._added(powers)[..., None]
            return np.reshape(powers / total if self.rng.random() < 0.5 else powers * (1 / total), x.shape)
        if isinstance(operation, Normalise):
            return self._normalised(operation, x.reshape(len(x), -1, operation.group)).reshape(x.shape)
        if isinstance(operation, Scale):
            return self._scaled(operation, x)
        if isinstance(operation, Activation):
            return in_float64(operation, x.astype(np.float64)).astype(self.kind)
        return self._added(np.stack(read, axis=-1))

    def _scaled(self, operation: Scale, x: np.ndarray) -> np.ndarray:
        for norm in operation.norms:
            if norm.variance is None or norm.gain is None or norm.shift is None:
                return (x * operation.factor.astype(self.kind) + operation.shift.astype(self.kind)).astype(self.kind)
            root = np.sqrt(norm.variance.astype(self.kind) + self.kind(norm.epsilon))
            if self.rng.random() < 0.5:
                x = (x - norm.mean) / root * norm.gain + norm.shift
            else:
                factor = norm.gain / root
                x = x * factor + (norm.shift - norm.mean * factor)
        return x.astype(self.kind)

    def _normalised(self, operation: Normalise, x: np.ndarray) -> np.ndarray:
        n = self.kind(operation.group)
        mean = self._added(x)[..., None] / n if operation.centred else self.kind(0)
        if self.rng.random() < 0.5:
            variance = self._added((x - mean) * (x - mean))[..., None] / n
        else:
            variance = np.maximum(self._added(x * x)[..., None] / n - mean * mean, self.kind(0))
        root = np.sqrt(variance + self.kind(operation.epsilon))
        return np.asarray((x - mean) / root if self.rng.random() < 0.5 else (x - mean) * (1 / root))

    def _dot(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return sums of products over the last axis."""
        if not self.fused or self.kind is np.float64:
            return self._added(self._flushed(a * b))
        order = self.rng.permutation(max(a.shape[-1], b.shape[-1]))
        a, b = np.broadcast_arrays(a, b)
        total = np.zeros(a.shape[:-1], np.float32)
        for place in order:  # of two float32, a product is exact in double precision
            total = (total + a[..., place].astype(np.float64) * b[..., place]).astype(np.float32)
        return total

    def _added(self, terms: np.ndarray) -> np.ndarray:
        """Return sums over the last axis: in a random order, one by one, or two and two."""
        terms = terms[..., self.rng.permutation(terms.shape[-1])]
        if self.rng.random() < 0.5:
            total = terms[..., 0]
            for place in range(1, terms.shape[-1]):
                total = self._flushed(total + terms[..., place])
            return total
        while terms.shape[-1] > 1:
            odd = terms[..., terms.shape[-1] // 2 * 2 :]
            pairs = terms[..., 0 : terms.shape[-1] // 2 * 2 : 2] + terms[..., 1::2]
            terms = np.concatenate([pairs, odd], axis=-1)
        return terms[..., 0]


def in_batches(run: Run, size: int) -> Run:
    """Return a run of so many rows at once."""
    return lambda X: np.concatenate([run(X[start : start + size]) for start in range(0, len(X), size)])


def programs(network: Network, folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, Run]]:
    """Return programs that compute a network."""
    module = Graph(network)

    def in_torch(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(module(torch.from_numpy(X)).numpy())

    def flushing(X: np.ndarray) -> np.ndarray:
        torch.set_flush_denormal(True)
        try:
            return in_torch(X)
        finally:
            torch.set_flush_denormal(False)

    for size in BATCHES:
        yield f"PyTorch, batches of {size}", in_batches(in_torch, size)
    yield "PyTorch, subnormal numbers taken as 0", flushing
    if fits_onnx(network):
        network.save(folder / "model.onnx")
        for name, level in LEVELS.items():
            for flush in (False, True):
                run = in_onnx_runtime(folder / "model.onnx", level, flush=flush)
                if run is not None:
                    yield f"ONNX Runtime, {name}{', subnormal numbers taken as 0' if flush else ''}", run
    for number in range(ORDERS):
        hostile = Hostile(network, np.random.default_rng(rng.integers(2**32)), flush=number % 2 == 1)
        yield "random orders", hostile


def in_onnx_runtime(path: Path, level: Any, *, flush: bool) -> Run | None:
    """Return a run of a file; None if ONNX Runtime has no kernel for it at this level."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = level
    if flush:
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in type(error).__name__:
            return None
        raise
    name = session.get_inputs()[0].name
    return lambda X: np.asarray(session.run(None, {name: X})[0])


class Campaign:
    """What was compared, and what was found."""

    def __init__(self, console: Console) -> None:
        self.console, self.tally, self.worst = console, Counter[str](), dict[str, float]()

    def compare_outputs(self, number: int, model: Model, rows: np.ndarray, runs: list[tuple[str, np.ndarray]]) -> None:
        """Compare the outputs of every program with bounds at points, and over a box around all rows."""
        points = rows.astype(np.float64)
        with np.errstate(all="ignore"):
            layers = interval_layers(model, points, points)
            each = np.broadcast_to(np.eye(model.outputs), (len(points), model.outputs, model.outputs))
            bounds = [
                output_errors(model, points, points, layers, each, thorough=thorough) for thorough in (False, True)
            ]
            ends = points.min(axis=0)[None], points.max(axis=0)[None]
            around = interval_layers(model, *ends)
            for thorough in (False, True):
                wide = output_errors(model, *ends, around, each[:1], thorough=thorough)
                bounds.append(np.broadcast_to(wide, bounds[0].shape))
        low, high = layers[-1]
        for bound in bounds:
            self.tally["bounds that are finite"] += int(np.isfinite(bound).sum())
            self.tally["bounds that are not"] += int((~np.isfinite(bound)).sum())
            for name, outputs in runs:
                given = outputs.astype(np.float64).reshape(bound.shape)
                with np.errstate(all="ignore"):
                    off = np.maximum(np.maximum(low - given, given - high), 0.0) / bound
                off = np.where(np.isfinite(bound), np.where(np.isnan(given), np.inf, np.nan_to_num(off, nan=0.0)), 0.0)
                self.worst[name] = max(self.worst.get(name, 0.0), float(off.max()))
                self.tally["outputs compared"] += off.size
                if (off > 1).any():
                    self.fail(number, f"{name}: an output is off by {off.max():.3g} times its bound")

    def compare_classes(
        self, number: int, network: Network, folder: Path, rows: np.ndarray, rng: np.random.Generator
    ) -> None:
        """Move the last bias until one row only just has a certain class, and compare classes of all rows."""
        threshold = float(rng.choice(THRESHOLDS)) if network.outputs <= 2 else 0.5
        moved = _near_tie(network, rows, threshold, rng)
        if moved is None:
            return
        model = kernel_model(moved)
        sure = certain_classes(model, *enclose_outputs(model, rows.astype(np.float64)), threshold)
        at = np.flatnonzero(sure >= 0)
        if not len(at):
            return
        self.tally["graphs at a near tie"] += 1
        for name, run in programs(moved, folder, rng):
            with np.errstate(all="ignore"):
                outputs = run(rows)
            for way, classes in decisions(outputs, threshold):
                self.tally["classes compared"] += len(at)
                if (classes[at] != sure[at]).any():
                    self.fail(number, f"{name}, {way}: another class than is certain, at the threshold {threshold}")

    def compare_ignored(
        self, number: int, network: Network, folder: Path, rows: np.ndarray, rng: np.random.Generator
    ) -> None:
        """Change the columns that a network is said to ignore, and compare bits."""
        sizes = 2.0 ** rng.integers(0, 100) * (1 + np.abs(rows.astype(np.float64)).max(axis=0))
        depends, overflows = dependent_columns(kernel_model(network), list(range(network.inputs)), sizes)
        ignored = np.flatnonzero(~(depends | overflows))
        if not len(ignored):
            return
        self.tally["graphs that ignore columns"] += 1
        others, listed = rows.copy(), index_columns(network)
        for column in ignored:
            others[:, column] = rng.permutation(rows[:, column])
            if column not in listed:
                signs = rng.choice([-1.0, -0.0, 0.0, 1.0], len(rows))
                others[:, column] = np.where(rng.random(len(rows)) < 0.5, signs * sizes[column], others[:, column])
        seed = int(rng.integers(2**32))
        both = (programs(network, folder, np.random.default_rng(seed)) for _ in range(2))
        for (name, one), (_, other) in zip(*both, strict=True):
            with np.errstate(all="ignore"):
                before, after = one(rows), other(others)
            self.tally["outputs compared bit for bit"] += before.size
            if not ((before == after) | (np.isnan(before) & np.isnan(after))).all():
                self.fail(number, f"{name}: an output depends on one of the columns {ignored.tolist()}")

    def fail(self, number: int, what: str) -> None:
        """Note a violation."""
        self.tally["violations"] += 1
        self.console.print(f"graph {number}: {what}", markup=False)


def _near_tie(network: Network, rows: np.ndarray, threshold: float, rng: np.random.Generator) -> Network | None:
    """Return the network with another last bias, so that one row only just has a certain class; None if it has none."""
    last = network.nodes[-1].operation
    if not isinstance(last, Affine) or network.outputs > 2:
        return network
    row, sign = rows[[rng.integers(len(rows))]].astype(np.float64), float(rng.choice([-1, 1]))
    found = network
    for _ in range(4):  # the bound depends on the bias a little
        model = kernel_model(found)
        low, high = enclose_outputs(model, row)
        limit = Threshold.of(threshold, model.dtype)
        if model.outputs == 2:
            low, high = low[:, 1:] - high[:, :1], high[:, 1:] - low[:, :1]
        if not (np.isfinite(low).all() and np.isfinite(high).all() and np.isfinite([limit.above, limit.below]).all()):
            return None
        move = limit.high + limit.above - low[0, 0] if sign > 0 else limit.low - limit.below - high[0, 0]
        bias = last.bias.astype(np.float64)
        bias[-1] += move * (1 + 1e-7) + sign * np.finfo(network.dtype).eps * abs(bias[-1])
        if not np.isfinite(bias.astype(network.dtype)).all():
            return None
        last = replace(last, bias=bias.astype(network.dtype))
        found = Network.from_nodes([*network.nodes[:-1], replace(network.nodes[-1], operation=last)])
    return found


def decisions(outputs: np.ndarray, threshold: float) -> Iterator[tuple[str, np.ndarray]]:
    """Return the classes that programs decide on, from computed outputs."""
    with np.errstate(all="ignore"):
        if outputs.shape[1] > 2 or (outputs.shape[1] == 2 and threshold == 0.5):
            yield "by outputs", outputs.argmax(axis=1)
            yield "by torch.softmax", torch.softmax(torch.from_numpy(outputs), 1).numpy().argmax(axis=1)
            yield "by scipy.special.softmax", scipy.special.softmax(outputs, axis=1).argmax(axis=1)
            return
        if threshold == 0.5:
            yield "by outputs", (outputs[:, 0] >= 0).astype(np.int64)
        computed = torch.from_numpy(outputs)
        if outputs.shape[1] == 2:
            ways = {
                "torch.softmax": torch.softmax(computed, 1)[:, 1].numpy(),
                "scipy.special.softmax": scipy.special.softmax(outputs, axis=1)[:, 1],
                "a sigmoid of the difference": torch.sigmoid(computed[:, 1] - computed[:, 0]).numpy(),
            }
        else:
            z, one = outputs[:, 0], outputs.dtype.type(1)
            ways = {
                "torch.sigmoid": torch.sigmoid(computed)[:, 0].numpy(),
                "scipy.special.expit": scipy.special.expit(z),
                "1 / (1 + exp(-z))": one / (one + np.exp(-z)),
                "exp(z) / (1 + exp(z))": np.where(z > 80, one, np.exp(z) / (one + np.exp(z))),
                "(1 + tanh(z / 2)) / 2": (one + np.tanh(z / 2)) / 2,
            }
        for name, shares in ways.items():
            yield f"by {name}", (shares >= shares.dtype.type(threshold)).astype(np.int64)
            yield f"by {name} as a double", (shares.astype(np.float64) >= threshold).astype(np.int64)


def attack(number: int, seed: int, precision: list[str], folder: Path, campaign: Campaign) -> None:
    """Make one graph and compare it."""
    rng = np.random.default_rng([seed, number])
    case = random_graph_case(rng, 12, products=number % 2 == 0)
    if case.network.dtype.name not in precision:
        return
    network = with_bad_numbers(case.network, rng) if rng.random() < 0.8 else case.network
    rows, model = case.X.astype(network.dtype), kernel_model(network)
    campaign.tally["graphs"] += 1
    with np.errstate(all="ignore"):
        runs = [(name, run(rows)) for name, run in programs(network, folder, rng)]
    campaign.compare_outputs(number, model, rows, runs)
    campaign.compare_classes(number, network, folder, rows, rng)
    campaign.compare_ignored(number, network, folder, rows, rng)


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="how many graphs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first graph")
    parser.add_argument("--precision", nargs="+", default=["float32", "float64"])
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    console, started = Console(), time.perf_counter()
    campaign = Campaign(console)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.start, options.start + options.count):
            with suppress(CheckError, FairmendError):  # of numbers that are too large or too small, for example
                attack(number, options.seed, options.precision, Path(folder), campaign)
    for name, count in campaign.tally.items():
        console.print(f"{name}: {count:,}", markup=False)
    for name, ratio in campaign.worst.items():
        console.print(f"{name}: at most {ratio:.3f} of the bound", markup=False)
    violations = campaign.tally["violations"]
    console.print(f"{violations or 'no'} violations in {time.perf_counter() - started:.0f} s")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

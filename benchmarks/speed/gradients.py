"""Input gradients of the fairness testers: NumPy (`fairmend.network.gradients`) against PyTorch's autograd.

    python benchmarks/speed/gradients.py [SETTING ...]

For each tester that uses gradients: the CPU seconds of a whole search with either, how many IDIs it finds, and how many
of them are the same. Then the CPU seconds to import PyTorch, which a search with NumPy does not need.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import fairmend
from fairmend.network import Network, predicted_classes
from fairmend.searching import testers
from fairmend.searching.oracle import Oracle

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings

SETTINGS = ("compas-race", "adult-sex", "german-sex")
SIZES = {"seeds": 300, "local_steps": 300}


def torch_layers(net: Network, X: torch.Tensor) -> list[torch.Tensor]:
    """The output of every layer, with its graph."""
    layers, values = [], X
    for i, affine in enumerate(net.affines):
        weight, bias = (torch.from_numpy(part.astype(np.float64)) for part in (affine.weight, affine.bias))
        values = torch.addmm(bias, values, weight.T)
        if i < len(net.activations):
            activation = net.activations[i]
            if activation.name in ("relu", "leaky_relu"):
                values = torch.nn.functional.leaky_relu(values, activation.slope)
            elif activation.name in ("tanh", "sigmoid"):
                values = getattr(torch, activation.name)(values)
        layers.append(values)
    return layers


def inputs(oracle: Oracle, V: np.ndarray) -> torch.Tensor:
    oracle.calls += len(V)
    return torch.from_numpy(oracle.space.encode(V).astype(np.float64)).requires_grad_()


def gradient(function: torch.Tensor, X: torch.Tensor) -> np.ndarray:
    return torch.autograd.grad(function, X)[0].numpy()


def predictions(logits: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(predicted_classes(logits.detach().numpy()))


def loss_gradient(oracle: Oracle, V: np.ndarray) -> np.ndarray:
    X = inputs(oracle, V)
    logits = torch_layers(oracle.net, X)[-1]
    if logits.shape[1] == 1:
        labels = predictions(logits)[:, None].to(logits.dtype)
        return gradient(torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum"), X)
    return gradient(torch.nn.functional.cross_entropy(logits, predictions(logits), reduction="sum"), X)


def output_gradient(oracle: Oracle, V: np.ndarray) -> np.ndarray:
    X = inputs(oracle, V)
    logits = torch_layers(oracle.net, X)[-1]
    if logits.shape[1] == 1:
        sign = 2 * predictions(logits)[:, None] - 1
        return gradient((torch.sigmoid(logits) * sign).sum(), X)
    return gradient(torch.softmax(logits, 1).max(1).values.sum(), X)


def difference_gradient(oracle: Oracle, biased: list[np.ndarray], V: np.ndarray, others: np.ndarray) -> np.ndarray:
    X, Y = inputs(oracle, V), inputs(oracle, others)
    pairs = zip(torch_layers(oracle.net, X), torch_layers(oracle.net, Y), biased, strict=True)
    total = sum(((here - there).abs() * torch.from_numpy(mask)).sum() for here, there, mask in pairs)
    first, second = torch.autograd.grad(total, (X, Y))
    return (first + second).numpy()


@contextmanager
def autograd() -> Iterator[None]:
    """Let the testers use autograd."""
    gradients = {"loss_gradient": loss_gradient, "output_gradient": output_gradient}
    own = {name: getattr(testers, name) for name in (*gradients, "difference_gradient")}
    methods = dict(testers.METHODS)
    for name, value in (*gradients.items(), ("difference_gradient", difference_gradient)):
        setattr(testers, name, value)
    for name, tester in methods.items():
        if tester.rule.gradient is not None:
            rule = replace(tester.rule, gradient=gradients[tester.rule.gradient.__name__])
            testers.METHODS[name] = replace(tester, rule=rule)
    try:
        yield
    finally:
        testers.METHODS.update(methods)
        for name, value in own.items():
            setattr(testers, name, value)


def timed(s: settings.Setting, method: str) -> tuple[float, np.ndarray]:
    started = time.process_time()
    found = fairmend.search(s.network, s.spec, s.everyone, method, **SIZES)
    return time.process_time() - started, found.idis


def common(first: np.ndarray, second: np.ndarray) -> int:
    return len({row.tobytes() for row in first} & {row.tobytes() for row in second})


def import_seconds(module: str) -> float:
    code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    torch.set_num_threads(1)
    console = Console(width=max(Console().width, 120))
    table = Table("setting", "tester", "NumPy s", "autograd s", "IDIs NumPy", "IDIs autograd", "the same")
    totals = np.zeros(2)
    for name in settings.parse_arguments(__doc__).names or SETTINGS:
        s = settings.setting(name)
        for method in ("adf", "eidig", "neuronfair"):
            timed(s, method)  # warm up
            ours, mine = timed(s, method)
            with autograd():
                theirs, other = timed(s, method)
            totals += ours, theirs
            figures = (f"{ours:.2f}", f"{theirs:.2f}", len(mine), len(other), common(mine, other))
            table.add_row(name, method, *map(str, figures))
    console.print(table)
    console.print(f"searches: NumPy {totals[0]:.1f} s, autograd {totals[1]:.1f} s of CPU time")
    console.print(f"importing PyTorch: {import_seconds('torch') - import_seconds('numpy'):.1f} s of CPU time")


if __name__ == "__main__":
    main()

"""Compare linear bounds of networks with products of activations with those of auto_LiRPA, in one run.

    python benchmarks/speed/products.py PATH [--rounds 5] [--boxes 8] [--device cuda]

PATH is a checkout of https://github.com/Verified-Intelligence/auto_LiRPA; its few packages must be installed. Both
bound the one output of the same networks over the same boxes: this checker with `form_bounds`, whose bounds hold for
exact arithmetic, auto_LiRPA with its backward bounds (CROWN), in double precision as well, which are rounded as they
come. Ratios are those of this checker and auto_LiRPA: of the widths of the bounds (geometric mean over the boxes, and
the largest), and of processor time (median over the rounds), with one thread. Both have all boxes at once, and both
set up the network beforehand. "sampled" is the width of what both bound: the outputs of random points and corners.

With `--device`, both run there, and seconds are those of the clock: the kernel runs on CPUs alone, so the bounds of
training, which are rounded as those of auto_LiRPA, stand for fairmend.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import fairmend
from fairmend.bounds.forms import Boxes
from fairmend.bounds.linear import feature_bounds
from fairmend_check.kernel.bounds import form_bounds

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common.products import Attention, Builder, Gated, Normalised

RADII = (0.01, 0.05)
SAMPLES = 2000


NETWORKS: dict[str, Callable[[], tuple[torch.nn.Module, int]]] = {
    **{f"gated, {n}": lambda n=n: (Gated(n), n) for n in (16, 64)},
    **{f"LayerNorm, {n}": lambda n=n: (Normalised(n), n) for n in (16, 64)},
    **{
        f"attention, {t} x {n}": lambda t=t, n=n: (Attention(t, n), t * n)
        for t, n in ((4, 8), (4, 32), (8, 16), (16, 8), (16, 32))
    },
    **{f"block, {t} x {n}": lambda t=t, n=n: (Attention(t, n, whole=True), t * n) for t, n in ((4, 8), (8, 16))},
}


@dataclass(frozen=True)
class Found:
    """Bounds of the output (boxes, 2), and processor seconds of each round."""

    bounds: np.ndarray
    seconds: list[float]

    @property
    def width(self) -> np.ndarray:
        """How far the bounds are apart (boxes,)."""
        return np.asarray(self.bounds[:, 1] - self.bounds[:, 0])


def timed(bound: Callable[[], np.ndarray], rounds: int, clock: Callable[[], float] = time.process_time) -> Found:
    """Bound once to warm up, and then so many times. The bounds are copied from the device within the time."""
    found, seconds = bound(), []
    for _ in range(rounds):
        started = clock()
        bound()
        seconds.append(clock() - started)
    return Found(found, seconds)


def clock_of(device: torch.device) -> Callable[[], float]:
    """Return what measures time on a device."""
    return time.process_time if device.type == "cpu" else time.perf_counter


def of_checker(module: Any, centre: np.ndarray, radius: float, rounds: int) -> Found:
    model = module.build(Builder(centre.shape[1]))
    forms = np.broadcast_to(np.array([[1.0], [-1.0]]), (len(centre), 2, 1))
    return timed(lambda: form_bounds(model, forms, centre - radius, centre + radius)[0] * [1, -1], rounds)


def of_training(module: Any, centre: np.ndarray, radius: float, rounds: int, device: torch.device) -> Found:
    # A layer behind the output makes it a feature, which is what training bounds.
    network = fairmend.load_network(torch.nn.Sequential(module, torch.nn.Linear(1, 1)), example=centre)
    layers = [tuple(torch.tensor(part, device=device) for part in (a.weight, a.bias)) for a in network.affines[:-1]]
    boxes = Boxes.from_arrays(centre - radius, centre + radius, torch.float64).to(device)

    def bound() -> np.ndarray:
        return torch.cat(feature_bounds(network, layers, boxes), 1).cpu().numpy()

    with torch.no_grad():
        return timed(bound, rounds, clock_of(device))


def of_auto_lirpa(module: Any, centre: np.ndarray, radius: float, rounds: int, device: torch.device) -> Found:
    from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm  # type: ignore[import-not-found]

    x = torch.tensor(centre, device=device)
    bounded = BoundedModule(copy.deepcopy(module).to(device), x, verbose=False, device=device)
    around = BoundedTensor(x, PerturbationLpNorm(norm=np.inf, eps=radius))

    def bound() -> np.ndarray:
        return torch.cat(bounded.compute_bounds(x=(around,), method="backward"), 1).detach().cpu().numpy()

    with torch.no_grad():
        return timed(bound, rounds, clock_of(device))


def sampled(module: torch.nn.Module, centre: np.ndarray, radius: float, rng: np.random.Generator) -> np.ndarray:
    """Return the least and the largest output of random points and corners of each box (boxes, 2)."""
    shares = rng.uniform(-1, 1, (SAMPLES, *centre.shape))
    shares[::2] = np.sign(shares[::2])
    with torch.no_grad():
        values = module(torch.tensor((centre + radius * shares).reshape(-1, centre.shape[1])))
    each = values.numpy().reshape(SAMPLES, len(centre))
    return np.stack([each.min(axis=0), each.max(axis=0)], axis=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, metavar="PATH", help="a checkout of auto_LiRPA")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--boxes", type=int, default=8)
    parser.add_argument("--only", default="", help="networks whose names begin so")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cuda (default: cpu)")
    options = parser.parse_args()
    sys.path.insert(0, str(options.path))
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    table = Table("network", "radius", "width", "largest", "width / sampled", "time", "seconds", "auto_LiRPA")
    wrong = 0
    for name, make in NETWORKS.items():
        if not name.startswith(options.only):
            continue
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        module, inputs = make()
        centre = rng.normal(size=(options.boxes, inputs))
        for radius in RADII:
            given = module, centre, radius, options.rounds
            seen = sampled(module, centre, radius, rng)
            on_cpu = options.device.type == "cpu"
            ours = of_checker(*given) if on_cpu else of_training(*given, options.device)
            theirs = of_auto_lirpa(*given, options.device)
            wrong += int((seen[:, 0] < ours.bounds[:, 0]).sum() + (seen[:, 1] > ours.bounds[:, 1]).sum())
            ratios = ours.width / theirs.width
            seconds = [statistics.median(found.seconds) for found in (ours, theirs)]
            table.add_row(
                name, str(radius), f"{np.exp(np.log(ratios).mean()):.3f}", f"{ratios.max():.3f}",
                f"{np.exp(np.log(ours.width / (seen[:, 1] - seen[:, 0])).mean()):.2f}",
                f"{seconds[0] / seconds[1]:.2f}", f"{seconds[0]:.4f}", f"{seconds[1]:.4f}",
            )  # fmt: skip
    Console(width=120).print(table, f"{wrong} sampled outputs beyond the bounds")
    return 1 if wrong else 0


if __name__ == "__main__":
    with threadpool_limits(1):  # NumPy has threads of its own, and processor time counts them all
        sys.exit(main())

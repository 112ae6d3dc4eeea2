"""Measure the error of inference of networks that multiply activations: its bound against errors that occur.

    python benchmarks/runtimes/products.py [--runs 1000000] [--seed 0] [--only TEXT]

Gated networks, normalisation of rows and of groups, several factors, attention and a block of a transformer, in
float32, with random weights, at random points of 20 neighbourhoods of different sizes and places: in ONNX Runtime with
and without its optimisations, in PyTorch as it is and compiled (if a compiler is there), with every back end of its
fused attention that runs here, and some of them with all terms of a sum from the highest to the lowest, the variance in
one pass, and factors in another order. And, as bounds hold for any order, at the points of a neighbourhood where it
loses most, with the sums of layers and products of matrices in the worst order, as far as a greedy choice finds both. A
run is one row in one of them.

"bound" is what the checker has for all points of a neighbourhood, "point" at one of its points. Ratios are those of the
bound and the largest error seen in a neighbourhood: the median, and the least; what is below 1 is wrong. "not worst"
leaves out the worst order, and "in runtimes" the descending one as well: no runtime has them. "at a point" is the bound
at one point and the error there, in the worst order. Exits with 1 if an error exceeds its bound.
"""

from __future__ import annotations

import argparse
import copy
import functools
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common.products import EPSILON, Attention, Builder, Channels, Factors, Gated, Normalised
from fairmend_check.kernel.bounds import form_bounds
from fairmend_check.kernel.inference_error import output_errors

NETWORKS: dict[str, Callable[[], tuple[Any, int]]] = {
    "gated, 16": lambda: (Gated(16), 16),
    "gated, 64": lambda: (Gated(64), 64),
    "LayerNorm, 16": lambda: (Normalised(16), 16),
    "LayerNorm, 64": lambda: (Normalised(64), 64),
    "groups of channels, 16": lambda: (Channels(16), 16),
    "groups of channels, 64": lambda: (Channels(64), 64),
    "several factors, 16": lambda: (Factors(16), 16),
    "several factors, 64": lambda: (Factors(64), 64),
    "attention, 4 x 8": lambda: (Attention(4, 8), 32),
    "attention, 8 x 16": lambda: (Attention(8, 16), 128),
    "block, 4 x 8": lambda: (Attention(4, 8, whole=True), 32),
    "block, 8 x 16": lambda: (Attention(8, 16, whole=True), 128),
}
NEIGHBOURHOODS = 20
DESCENDING, WORST = "sums in descending order", "sums in the worst order"
SOME = 50  # points of each neighbourhood, and corners, that are run in orders which no runtime has
RISKIEST = 4  # of these, the ones that are run in the worst order, beside the first one
BACK_ENDS = (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
Run = Callable[[np.ndarray], np.ndarray]


def in_torch(module: Any) -> Run:
    def run(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(module(torch.from_numpy(rows)).numpy())[:, 0]

    return run


def in_onnx_runtime(module: Any, inputs: int, *, optimised: bool) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        torch.onnx.export(module, (torch.zeros(2, inputs),), path, dynamo=False, dynamic_axes={"x": [0]},
                          input_names=["x"], opset_version=17)  # fmt: skip
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        if not optimised:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda rows: np.asarray(session.run(None, {"x": rows})[0])[:, 0]


class Descending(TorchFunctionMode):
    """Sums from the highest term to the lowest, one after the other, and the variance in one pass."""

    def add_up(self, terms: torch.Tensor) -> torch.Tensor:
        """Add up the last axis, for a layer or a product of matrices."""
        return descending(terms)

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = keywords or {}
        if function is torch.nn.functional.linear:
            x, weight, bias = arguments
            terms = x[..., None, :] * weight
            return self.add_up(torch.cat([terms, bias[:, None].expand(*terms.shape[:-1], 1)], -1))
        if function in (torch.Tensor.__matmul__, torch.Tensor.matmul, torch.matmul):
            return self.add_up(arguments[0][..., :, None, :] * arguments[1].transpose(-1, -2)[..., None, :, :])
        if function is torch.softmax:
            parts = (arguments[0] - arguments[0].amax(-1, keepdim=True)).exp()
            return parts / descending(parts)[..., None]
        if function is torch.nn.functional.layer_norm:
            x, n = arguments[0], arguments[0].shape[-1]
            mean, squares = (descending(terms)[..., None] / n for terms in (x, x * x))
            return (x - mean) * (squares - mean * mean + EPSILON).rsqrt()
        if function is torch.nn.functional.group_norm:
            return self.in_groups(*arguments, **keywords)
        if function is torch.einsum:  # the products of the first two factors last
            names, _, out = arguments[0].partition("->")
            first, second, third = names.split(",")
            inner = "".join(dict.fromkeys(second + third))
            pair = torch.einsum(f"{second},{third}->{inner}", *arguments[2:])
            summed = next(name for name in inner if name not in out)
            return self.add_up(torch.einsum(f"{first},{inner}->{out}{summed}", arguments[1], pair))
        if function is torch.prod:
            return functools.reduce(torch.mul, reversed(arguments[0].unbind(arguments[1])))
        return function(*arguments, **keywords)

    def in_groups(self, x: Any, groups: int, weight: Any, bias: Any, eps: float) -> Any:
        """Normalise groups of columns as x (r gain) and (shift - mean (r gain)), with the variance in one pass."""
        parts = x.reshape(len(x), groups, -1)
        n = parts.shape[-1]
        mean, squares = (descending(terms)[..., None] / n for terms in (parts, parts * parts))
        factor = (squares - mean * mean + eps).rsqrt() * weight.reshape(groups, n)
        return (parts * factor + (bias.reshape(groups, n) - mean * factor)).reshape(x.shape)


def descending(terms: Any) -> Any:
    """Add up the last axis in float32."""
    ordered = terms.sort(-1, descending=True).values
    total = torch.zeros_like(ordered[..., 0])
    for term in ordered.unbind(-1):
        total = total + term
    return total


class Recorded(Descending):
    """Keeps all sums of layers and products of matrices, for their derivatives, and how much they can lose."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: list[torch.Tensor] = []
        self.sizes: list[torch.Tensor] = []

    def add_up(self, terms: torch.Tensor) -> torch.Tensor:
        self.sums.append(terms.sum(-1))
        self.sizes.append(terms.detach().abs().sum(-1) * terms.shape[-1])
        self.sums[-1].retain_grad()
        return self.sums[-1]


class Worst(Descending):
    """Sums in which the next term is always the one whose addition moves the output furthest in one direction."""

    def __init__(self, signs: list[torch.Tensor]) -> None:
        super().__init__()
        self.signs = iter(signs)

    def add_up(self, terms: torch.Tensor) -> torch.Tensor:
        sign, exact = next(self.signs)[..., None], terms.double()
        total, done = torch.zeros_like(exact[..., :1]), torch.zeros_like(exact, dtype=torch.bool)
        for _ in range(terms.shape[-1]):
            sums = total + exact  # of two numbers in float32, exact in float64 but for very small ones
            rounded = sums.float().double()
            gain = sign * (rounded - sums) + 2.0**-26 * sums.abs()  # large sums are rounded more
            chosen = gain.masked_fill(done, -torch.inf).argmax(-1, keepdim=True)
            total, done = rounded.gather(-1, chosen), done.scatter(-1, chosen, True)
        return total[..., 0].float()


def recorded(module: Any, rows: np.ndarray) -> tuple[np.ndarray, Recorded]:
    """Return the exact outputs for these rows, and all sums in them with derivatives."""
    exact = copy.deepcopy(module).double()
    for part in exact.parameters():
        part.requires_grad_(False)
    with Recorded() as found:
        values = exact(torch.from_numpy(rows.astype(np.float64)).requires_grad_())
    values.sum().backward()
    return values.detach().numpy()[:, 0], found


def worst_errors(module: Any, rows: np.ndarray) -> np.ndarray:
    """Return the errors for these rows with sums in the order that loses most, upward or downward."""
    values, sums = recorded(module, rows)
    found = []
    for direction in (1, -1):
        signs = [direction * each.grad.sign() for each in sums.sums]
        with torch.no_grad(), Worst(signs):
            found.append(module(torch.from_numpy(rows))[:, 0].double().numpy() - values)
    return np.abs(found).max(axis=0)


def riskiest(module: Any, rows: np.ndarray) -> np.ndarray:
    """Return those of some rows whose sums can lose most: their sizes and lengths times their derivatives."""
    risks = []
    for part in np.array_split(rows, -(-len(rows) // 256)):
        _, found = recorded(module, part)
        each = [(size * sums.grad.abs()).flatten(1).sum(1) for size, sums in zip(found.sizes, found.sums, strict=True)]
        risks.append(torch.stack(each).sum(0).numpy())
    return rows[np.argsort(-np.concatenate(risks))[:RISKIEST]]


def in_descending_order(module: Any) -> Run:
    run = in_torch(module)

    def inside(rows: np.ndarray) -> np.ndarray:
        with Descending():
            return np.concatenate([run(part) for part in np.array_split(rows, -(-len(rows) // 256))])

    return inside


def with_back_end(module: Any, back_end: SDPBackend) -> Run:
    fused = copy.deepcopy(module)
    fused.fused = True
    run = in_torch(fused)

    def inside(rows: np.ndarray) -> np.ndarray:
        with sdpa_kernel(back_end):
            return run(rows)

    return inside


def engines(module: Any, inputs: int) -> Iterator[tuple[str, Run]]:
    """Return all programs that can run the module here."""
    yield "PyTorch", in_torch(module)
    yield "ONNX Runtime", in_onnx_runtime(module, inputs, optimised=True)
    yield "ONNX Runtime, not optimised", in_onnx_runtime(module, inputs, optimised=False)
    if shutil.which("g++"):
        torch._dynamo.reset()
        yield "PyTorch, compiled", in_torch(torch.compile(module))
    for back_end in BACK_ENDS if isinstance(module, Attention) else ():
        run = with_back_end(module, back_end)
        try:
            run(np.zeros((2, inputs), np.float32))
        except RuntimeError:  # not on this device
            continue
        yield f"attention: {back_end.name.lower()}", run


def bound_errors(module: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Bound the error of the output over boxes (boxes,)."""
    model = module.build(Builder(low.shape[1]))
    assert model.dtype == "float32"
    forms = np.ones((len(low), 1, 1))
    with np.errstate(all="ignore"):
        _, nodes = form_bounds(model, forms, low, high)
        return np.asarray(output_errors(model, low, high, nodes, forms, thorough=True))[:, 0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="networks with this in their name")
    options = parser.parse_args()
    networks = {name: make for name, make in NETWORKS.items() if options.only in name}
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    table = Table("network", "programs", "runs", "largest error", "bound / largest", "least", "not worst",
                  "in runtimes", "at a point")  # fmt: skip
    beyond = total = 0
    names: set[str] = set()
    for name, make in networks.items():
        torch.manual_seed(options.seed)
        rng = np.random.default_rng(options.seed)
        module, inputs = make()
        module.eval()
        exactly = in_torch(copy.deepcopy(module).double())
        programs = dict(engines(module, inputs))
        each = max(SOME, options.runs // (len(networks) * len(programs) * NEIGHBOURHOODS))
        centre = rng.normal(size=(NEIGHBOURHOODS, inputs)) * 10.0 ** rng.uniform(-1, 0.5, (NEIGHBOURHOODS, 1))
        radius = 10.0 ** rng.uniform(-3, -1, (NEIGHBOURHOODS, 1))
        low, high = centre - radius, centre + radius
        shares = rng.random((NEIGHBOURHOODS, each, inputs))
        rows = (low[:, None] + shares * (high - low)[:, None]).astype(np.float32)
        low, high = rows.min(axis=1).astype(np.float64), rows.max(axis=1).astype(np.float64)
        bounds = bound_errors(module, low, high)
        first = rows[:, 0].astype(np.float64)
        points = bound_errors(module, first, first)
        flat = rows.reshape(-1, inputs)
        values = exactly(flat.astype(np.float64))
        errors = [
            np.abs(run(flat).astype(np.float64) - values).reshape(NEIGHBOURHOODS, each) for run in programs.values()
        ]
        usual = np.max([error.max(axis=1) for error in errors], axis=0)
        corners = np.where(rng.random((NEIGHBOURHOODS, SOME, inputs)) < 0.5, low[:, None], high[:, None])
        reached = np.concatenate([rows[:, :SOME], corners.astype(np.float32)], axis=1)
        exact = exactly(reached.reshape(-1, inputs).astype(np.float64))
        computed = in_descending_order(module)(reached.reshape(-1, inputs)).astype(np.float64)
        descending_errors = np.abs(computed - exact).reshape(NEIGHBOURHOODS, 2 * SOME)
        largest = np.maximum(usual, descending_errors.max(axis=1))
        at_first = np.max([error[:, 0] for error in [*errors, descending_errors]], axis=0)
        worst = worst_errors(module, rows[:, 0])
        chosen = np.concatenate([riskiest(module, part) for part in reached])
        anywhere = np.maximum(worst, worst_errors(module, chosen).reshape(NEIGHBOURHOODS, RISKIEST).max(axis=1))
        seen = np.maximum(largest, anywhere)
        beyond += int((seen > bounds).sum() + (at_first > points).sum() + (worst > points).sum())
        runs = len(flat) * len(programs) + 2 * NEIGHBOURHOODS * (SOME + 1 + RISKIEST)
        total += runs
        names |= {*programs, DESCENDING, WORST}
        ratios = bounds / seen
        table.add_row(name, str(len(programs) + 2), f"{runs:,}", f"{seen.max():.1e}", f"{np.median(ratios):.0f}",
                      f"{ratios.min():.1f}", f"{np.median(bounds / largest):.0f}", f"{np.median(bounds / usual):.0f}",
                      f"{np.median(points / worst):.1f}")  # fmt: skip
    console = Console(width=140)
    console.print(table)
    console.print(f"{total:,} runs in {', '.join(sorted(names))}; {beyond} errors beyond their bound")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())

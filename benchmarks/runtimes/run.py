"""Attack the bounds of the inference error: random programs in ONNX Runtime and PyTorch, optimised and not.

    python benchmarks/runtimes/run.py [--seconds 300] [--seed 0] [--precision float32 float64] [--start 0]
                                  [--compile-every 0]

Programs are graphs of the operations that exporters write: layers of up to 700 units, skips, sums, differences of
nearly equal values, batch normalisation, scalings, and functions as one operator or as several. Their numbers have
sizes from 1e-4 to 1e6. Runtimes fuse operators, fold constants and add up in other orders. None may be further from
the exact network than the bounds of the kernel say, thorough or not. Exact values are those of the
same program in extended precision. Prints how many programs each runtime ran, its largest error as a share of the least
bound, and the operators that ONNX Runtime made. With --compile-every, each so many-th program is also run by
torch.compile, which takes seconds. Exits with 1 if an error exceeds a bound; --start repeats the program.
`readers/onnx_graphs.py` attacks the readers of ONNX and the bounds with graphs of all operators, in several versions.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import fairmend
from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.readers.read_model import read_model

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.runtimes.engines import OnnxFile, Run, in_onnx_runtime, in_torch
from benchmarks.runtimes.programs import Program, Writer

ROWS = 3
EXTENDED = 63  # bits of extended precision


class Campaign:
    """What was run so far, and what was found."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.path, self.console = folder / "program.onnx", console
        self.outcomes: Counter[str] = Counter()
        self.runs: Counter[tuple[str, str]] = Counter()
        self.worst: dict[tuple[str, str], float] = {}
        self.operators: Counter[str] = Counter()
        self.violations = 0

    def attack(self, program: Program, X: np.ndarray, where: str, *, compiled: bool) -> None:
        """Run a program everywhere and compare with its bounds."""
        OnnxFile(program).save(self.path)
        try:
            bounds = bounds_of(self.path, X)
        except (CheckError, fairmend.FairmendError):
            self.outcomes["refused"] += 1
            return
        exact = program.exact(X)
        if not all(np.isfinite(bound).any() for bound in bounds.values()) or not np.isfinite(exact).all():
            self.outcomes["without a bound"] += 1
            return
        self.outcomes["compared"] += 1
        for engine, run in self.engines(program, compiled=compiled):
            error = np.abs(run(X).astype(np.longdouble) - exact)
            share = max(largest_share(error, bound) for bound in bounds.values())
            key = engine, program.dtype.name
            self.runs[key] += 1
            self.worst[key] = max(self.worst.get(key, 0.0), share)
            if not share <= 1:
                self.violations += 1
                by = [name for name, bound in bounds.items() if not largest_share(error, bound) <= 1]
                kinds = " ".join(step.kind for step in program.steps)
                self.console.print(f"VIOLATION {where}: {engine}, {share:.3g} times {', '.join(by)}: {kinds}")

    def engines(self, program: Program, *, compiled: bool) -> Iterator[tuple[str, Run]]:
        plain, before = in_onnx_runtime(self.path, optimised=False)
        yield "ONNX Runtime, no optimisation", plain
        try:
            fused, after = in_onnx_runtime(self.path, optimised=True)
        except Exception as error:  # of its own: it cannot run some programs that it optimised
            self.outcomes[f"refused by ONNX Runtime: {type(error).__name__}"] += 1
        else:
            self.operators.update(set(after) - set(before))
            yield "ONNX Runtime, all optimisations", fused
        for how in ("eager", *([] if program.norm_beside_others else ["frozen"]), *(["compiled"] if compiled else [])):
            yield f"PyTorch, {how}", in_torch(program, how)

    def print(self) -> None:
        table = Table("runtime", "precision", "programs", "largest share of a bound")
        for (engine, precision), count in sorted(self.runs.items()):
            table.add_row(engine, precision, f"{count:,}", f"{self.worst[engine, precision]:.3f}")
        self.console.print(table)
        self.console.print(", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.most_common()))
        made = ", ".join(f"{name} in {count:,}" for name, count in self.operators.most_common())
        self.console.print(f"operators that ONNX Runtime made: {made or 'none'}")
        self.console.print(f"{self.violations} errors beyond a bound")


def bounds_of(path: Path, X: np.ndarray) -> dict[str, np.ndarray]:
    """Return every bound of the error of each output at each row (rows, outputs)."""
    model, network, wide = read_model(path, None)[0], fairmend.load_network(path), X.astype(np.float64)
    forms = np.broadcast_to(np.eye(network.outputs), (len(X), network.outputs, network.outputs))
    intervals, found = interval_layers(model, wide, wide), dict[str, np.ndarray]()
    for thorough, name in ((False, "quick"), (True, "thorough")):
        found[f"the {name} bound"] = output_errors(model, wide, wide, intervals, forms, thorough=thorough)
    return found


def largest_share(error: Any, bound: np.ndarray) -> float:
    """Return the largest error as a share of its bound, where there is one; nan if an error is none."""
    finite = np.isfinite(bound)
    return float((error[finite] / np.maximum(bound[finite], 1e-300)).max(initial=0.0))


def draw(seed: int, number: int, precision: str) -> tuple[Program, np.ndarray]:
    """Return a program, and rows to run it on."""
    rng = np.random.default_rng([seed, number, int(precision == "float64")])
    program = Writer(rng, np.dtype(precision)).write()
    X = rng.normal(size=(ROWS, program.inputs)) * 10.0 ** rng.uniform(-2, 4)
    return program, X.astype(program.dtype)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--precision", nargs="+", choices=["float32", "float64"], default=["float32", "float64"])
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--compile-every", type=int, default=0)
    options = parser.parse_args()
    if np.finfo(np.longdouble).nmant < EXTENDED:
        raise SystemExit("this machine has no extended precision to compare with")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    console, end, number = Console(), time.monotonic() + options.seconds, options.start
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        campaign = Campaign(Path(folder), console)
        while time.monotonic() < end:
            for precision in options.precision:
                program, X = draw(options.seed, number, precision)
                compiled = options.compile_every > 0 and (number + 1) % options.compile_every == 0
                where = f"--seed {options.seed} --precision {precision} --start {number}"
                campaign.attack(program, X, where, compiled=compiled)
            number += 1
        campaign.print()
    return 1 if campaign.violations else 0


if __name__ == "__main__":
    sys.exit(main())

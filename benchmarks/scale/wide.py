"""Measure wide and deep networks on the CPU: step 1 with symbols against backward passes, the proof, and the checker.

    python benchmarks/scale/wide.py [--quick]

Networks are trained from a seed on synthetic people. "before" is the same code with `fairmend.bounds.linear.WIDE` so
large that every layer takes a backward pass; both are measured in this run, in turns. Peak memory is that of a process
of its own. `--quick` takes 10 regions for the comparison, and leaves out the largest problems. "many" repairs the
network of adult-race for 100 to 10,000 people of the data, from the call to the certificate.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import fairmend
import fairmend.bounds.linear as linear
from fairmend.prove.certificate import certificate_of_inputs
from fairmend.prove.proof import prove_inputs
from fairmend.repairing.calibrate import calibrate

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings
from benchmarks.scale import wide_cases

NEVER = 10**9
REGIONS = (100, 300, 1000, 3000, 10_000)
MANY = (100, 1000, 3000, 10_000)


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def step_1(case: wide_cases.Case, regions: int, steps: int = 3) -> tuple[float, float]:
    """Return the CPU seconds of one step of step 1, the best of those after the first, and the last fairness loss."""
    ends: list[float] = []
    found = calibrate(
        case.network, case.regions(regions), case.X, case.y, steps=steps,
        progress=lambda *_: ends.append(time.process_time()),
    )  # fmt: skip
    return float(np.diff(ends).min()), found.history.fair[-1]


def before_and_after(console: Console, quick: bool) -> None:
    table = Table(title="one step of step 1 (CPU seconds), and the fairness loss before the third")
    for heading in ("network", "regions", "before", "after", "times faster", "loss before", "loss after"):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    regions = 10 if quick else 100
    for name, hidden in wide_cases.SHAPES.items():
        case = wide_cases.case(hidden, regions)
        after, loss_after = step_1(case, regions)
        usual, linear.WIDE = linear.WIDE, NEVER
        try:
            before, loss_before = step_1(case, regions)
        finally:
            linear.WIDE = usual
        table.add_row(
            name, f"{regions}", f"{before:.2f}", f"{after:.2f}", f"{before / after:.1f}", f"{loss_before:.6f}",
            f"{loss_after:.6f}",
        )  # fmt: skip
    console.print(table)


def growth(console: Console, quick: bool) -> None:
    table = Table(title="one step of step 1 against regions and width (CPU seconds; per region, milliseconds)")
    for heading in ("network", "regions", "seconds", "per region"):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    cases = [("3 x 200", n) for n in REGIONS if not quick or n <= 1000]
    cases += [(f"3 x {width}", 100) for width in (100, 200, 400, 800)]
    for name, regions in cases:
        hidden = (int(name.split()[-1]),) * 3
        seconds, _ = step_1(wide_cases.case(hidden, regions), regions)
        table.add_row(name, f"{regions:,}", f"{seconds:.2f}", f"{1000 * seconds / regions:.2f}")
    console.print(table)


def proofs(console: Console) -> None:
    table = Table(title="10 regions: proof, certificate and checker (seconds)")
    for heading in ("network", "proven", "prove", "certify branch", "check"):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    for name, hidden in wide_cases.SHAPES.items():
        case = wide_cases.case(hidden, 10)
        started = time.perf_counter()
        proof = prove_inputs(case.network, case.spec, case.to_repair)
        prove = time.perf_counter() - started
        branch = seconds_of(
            lambda case=case: fairmend.certify(case.network, case.spec, case.to_repair, engine="branch", time_limit=60)
        )
        proven = np.flatnonzero(proof.holds)
        table.add_row(name, f"{len(proven)}", f"{prove:.2f}", f"{branch:.2f}", check_seconds(case, proof, proven))
    console.print(table)


def check_seconds(case: wide_cases.Case, proof: object, proven: np.ndarray) -> str:
    if not len(proven):
        return "nothing proven"
    certificate = certificate_of_inputs(
        case.network, case.spec, case.to_repair[proven], proof.subset(proven), method="benchmark"
    )
    with tempfile.TemporaryDirectory() as folder:
        model, file = Path(folder) / "model.onnx", Path(folder) / "certificate.json"
        case.network.save(model)
        certificate.save(file)
        seconds = seconds_of(lambda: fairmend.check(file, model, run=False))
    return f"{seconds:.2f}"


def peak(regions: int, results: multiprocessing.Queue) -> None:
    case = wide_cases.case(wide_cases.SHAPES["4 x 1000"], regions)
    seconds = seconds_of(lambda: calibrate(case.network, case.regions(regions), case.X, case.y, steps=1))
    results.put((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))


def memory(console: Console, quick: bool) -> None:
    for regions in (100,) if quick else (100, 1000):
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        process = context.Process(target=peak, args=(regions, results))
        process.start()
        seconds, gigabytes = results.get()
        process.join()
        console.print(f"4 x 1000, {regions:,} regions, one step of step 1: {seconds:.1f} s, peak {gigabytes:.2f} GB")


def many(console: Console) -> None:
    s = settings.setting("adult-race")
    people = s.everyone[np.random.default_rng(0).permutation(len(s.everyone))]
    table = Table(title="prof on adult-race, from the call to the certificate (seconds)")
    for heading in ("people", "step 1", "step 2", "proof", "whole call", "CPU", "per person, milliseconds"):
        table.add_column(heading, justify="right")
    for count in MANY:
        cpu, started = time.process_time(), time.perf_counter()
        result = fairmend.repair(s.network, s.spec, people[:count], s.X_cal, s.y_cal, method="prof")
        whole, cpu = time.perf_counter() - started, time.process_time() - cpu
        steps = (f"{result.seconds[step]:.2f}" for step in ("calibrate", "solve", "check"))
        table.add_row(f"{count:,}", *steps, f"{whole:.2f}", f"{cpu:.2f}", f"{1000 * whole / count:.2f}")
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["step", "growth", "proofs", "memory", "many"])
    arguments = parser.parse_args()
    out = Console(width=max(Console().width, 120))
    parts = {
        "step": lambda: before_and_after(out, arguments.quick),
        "growth": lambda: growth(out, arguments.quick),
        "proofs": lambda: proofs(out),
        "memory": lambda: memory(out, arguments.quick),
        "many": lambda: many(out),
    }
    for name, part in parts.items():
        if arguments.only in (None, name):
            part()

"""Measure fairmend on a GPU, against the CPU of the same machine: training, proofs, audits, certify, quantify, search.

    python benchmarks/scale/gpu.py [--cpu] [--jobs N] [--only step repair audit certify quantify search]

Networks are trained from a seed on synthetic people. A step of step 1 is the mean over a second, after two steps, in
milliseconds, as it runs and in variants; the same network twice must give the same bytes. Losses after 30 steps depend
on rounding: those with and without compiled kernels, which round differently, show by how much. Audits count
evaluations of a 13-16-8-1 network a second over the whole call, and must give the same answer as on the CPU; `--jobs`
repeats the first with so many processes and four times the people. `--cpu` measures the CPU too, which takes minutes.
Without a GPU it exits with 2.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import fairmend
from fairmend import Feature, Spec
from fairmend.auditing.device_search import DeviceSearch
from fairmend.auditing.fast_scores import FastScores
from fairmend.bounds import linear, stacked
from fairmend.network import Activation, Affine, Network
from fairmend.repairing.calibrate import Calibration, calibrate
from fairmend.spec.neighbourhoods import Regions

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.scale import wide_cases

FIRST, SECONDS, MOST_STEPS = 2, 1.0, 1000
LOSS_STEPS = 30
PROBLEMS = [((16, 8), 100), ((16, 8), 10_000), *((hidden, 100) for hidden in wide_cases.SHAPES.values())]
PEOPLE = 1_000_000
GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


def table_of(title: str, *headings: str) -> Table:
    table = Table(title=title)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - started


# Step 1


def train(
    case: wide_cases.Case,
    regions: int,
    steps: int,
    device: torch.device,
    tf32: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Calibration:
    return calibrate(
        case.network, case.regions(regions), case.X, case.y, steps=steps, device=device, tf32=tf32, progress=progress
    )


def seconds_a_step(case: wide_cases.Case, regions: int, device: torch.device, tf32: bool, steps: int) -> float:
    """Return the mean of so many steps after the first ones, which prepare the rest."""
    times = {}

    def note(_: str, step: int, __: int) -> None:
        if step in (FIRST, FIRST + steps):
            if device.type == "cuda":
                torch.cuda.synchronize()
            times[step] = time.perf_counter()

    train(case, regions, FIRST + steps, device, tf32, note)
    return (times[FIRST + steps] - times[FIRST]) / steps


def milliseconds(case: wide_cases.Case, regions: int, device: torch.device, tf32: bool = False) -> str:
    try:
        once = seconds_a_step(case, regions, device, tf32, 2)
        steps = min(MOST_STEPS, max(2, round(SECONDS / once)))
        return f"{1000 * seconds_a_step(case, regions, device, tf32, steps):.2f}"
    except (RuntimeError, fairmend.FairmendError) as error:
        return type(error).__name__


@contextmanager
def with_setting(name: str, value: bool) -> Iterator[None]:
    with patch.object(stacked, name, value):
        yield


@contextmanager
def without_recording() -> Iterator[None]:
    with patch.object(sys.modules[calibrate.__module__], "record_step", lambda step, parameters: None):
        yield


@contextmanager
def with_symbols(least_work: int) -> Iterator[None]:
    with patch.object(linear, "_WORK_FOR_SYMBOLS", least_work):
        yield


def same_bytes(case: wide_cases.Case, regions: int) -> bool:
    first, second = (train(case, regions, 3, GPU).network for _ in range(2))
    pairs = zip(first.affines, second.affines, strict=True)
    return all(a.weight.tobytes() == b.weight.tobytes() and a.bias.tobytes() == b.bias.tobytes() for a, b in pairs)


VARIANTS = {
    "float32": (lambda: with_setting("TF32_GRADIENTS", False), False),
    "TF32 gradients": (lambda: with_setting("TF32_GRADIENTS", True), False),
    "TF32": (nullcontext, True),
    "no compiled kernels": (lambda: with_setting("COMPILED_KERNELS", False), False),
}


def step(console: Console, cpu: bool) -> None:
    device = torch.cuda.get_device_name(0)
    table = table_of(
        f"one step of step 1 on {device} (milliseconds)",
        *("network", "regions", *VARIANTS, "not recorded", "symbols", "symbols, TF32", "backward", "CPU"),
        *("same bytes", "with TF32 gradients", "GPU memory, GB"),
    )
    ends = table_of(f"fairness loss after {LOSS_STEPS} steps", "network", "regions", *VARIANTS)
    for hidden, regions in PROBLEMS:
        case = wide_cases.case(hidden, regions)
        name = ("-".join(map(str, hidden)), f"{regions:,}")
        times, losses = [], []
        torch.cuda.reset_peak_memory_stats()
        for settings, tf32 in VARIANTS.values():
            with settings():
                times.append(milliseconds(case, regions, GPU, tf32))
                losses.append(train(case, regions, LOSS_STEPS, GPU, tf32).history.fair[-1])
        memory = torch.cuda.max_memory_allocated() / 2**30
        with without_recording():
            times.append(milliseconds(case, regions, GPU))
            with with_symbols(0):
                times += [milliseconds(case, regions, GPU, tf32) for tf32 in (False, True)]
            with with_symbols(10**30):
                times.append(milliseconds(case, regions, GPU))
        same = same_bytes(case, regions)
        with with_setting("TF32_GRADIENTS", True):
            same_with_tf32 = same_bytes(case, regions)
        table.add_row(
            *name, *times, milliseconds(case, regions, CPU) if cpu else "", "yes" if same else "NO",
            "yes" if same_with_tf32 else "NO", f"{memory:.1f}",
        )  # fmt: skip
        ends.add_row(*name, *(f"{loss:.6g}" for loss in losses))
    console.print(table)
    console.print(ends)


# A repair and its proof


def repair(console: Console, _: bool) -> None:
    case = wide_cases.case(wide_cases.SHAPES["4 x 1000"], 100)
    started = time.perf_counter()
    result = fairmend.repair(case.network, case.spec, case.to_repair, case.X, case.y, method="prof", device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder) / "model.onnx", Path(folder) / "certificate.json"
        result.network.save(model)
        result.certificate.save(certificate)
        checking = time.perf_counter()
        checked = fairmend.check(certificate, model, run=False)
    ended = time.perf_counter()
    console.print(f"repair of 4 x 1000 with 100 regions, checked: {ended - started:.1f} s, {checked}")
    console.print(
        f"{ {stage: round(spent, 1) for stage, spent in result.seconds.items()} }, check {ended - checking:.1f}"
    )


# Audits


def audit_case(rows: int, tolerance: int) -> tuple[Network, Spec, np.ndarray]:
    """Return a network trained on people of 13 features, and people; sex, race and age are protected: 740 values."""
    rng = np.random.default_rng(13)
    protected = {"sex": (0, 1), "race": (0, 4), "age": (17, 90)}
    columns = [rng.integers(low, high + 1, rows) for low, high in protected.values()]
    hours = rng.normal(40, 12, rows).round().clip(1, 99)
    others = rng.normal(size=(rows, 9)).clip(-4, 4)
    scales = [{"mean": float(column.mean()), "std": float(column.std())} for column in (*columns, hours)]
    features = [
        Feature(name, "integer", range=ends, protected=True, scale=scale)
        for (name, ends), scale in zip(protected.items(), scales, strict=False)
    ]
    features.append(Feature("hours", "integer", range=(1, 99), tolerance=tolerance, scale=scales[3]))
    features += [Feature(f"x{i}", "continuous", range=(-4, 4)) for i in range(9)]
    spec = Spec(features)
    scaled = [(column - s["mean"]) / s["std"] for column, s in zip((*columns, hours), scales, strict=True)]
    X = np.column_stack([*scaled, others]).astype(np.float32)
    odds = others @ rng.normal(size=9) + 0.4 * scaled[0] + 0.3 * np.sin(2 * scaled[2]) + 0.2 * scaled[3] * scaled[1]
    shapes = [(16, 13), (8, 16), (1, 8)]
    affines = [
        Affine((rng.normal(size=shape) * np.sqrt(2 / shape[1])).astype(np.float32), np.zeros(shape[0], np.float32))
        for shape in shapes
    ]
    nobody = Regions(X[:1], X[:1], np.zeros(1, np.int64), 1)
    network = Network(affines, [Activation("relu")] * 2)
    y = (odds[:2000] > 0).astype(np.int64)
    trained = calibrate(network, nobody, X[:2000], y, steps=200, fairness_weight=0.0, learning_rate=0.01)
    return trained.network, spec, X


def audit(console: Console, cpu: bool) -> None:
    table = table_of(
        "audit of a 13-16-8-1 network, million evaluations a second",
        *("people", "points each", "scores alone", "audit on the GPU", "seconds", "audit on the CPU", "same answer"),
    )
    for rows, tolerance in ((PEOPLE, 0), (PEOPLE, 2)):
        network, spec, X = audit_case(rows, tolerance)
        search = DeviceSearch(network, GPU)
        fast = FastScores(network, spec, search)
        block = X[:16_384]
        points = int(spec.neighbourhood_sizes(block).sum())
        fast.extremes(block)
        alone = points / min(seconds(lambda fast=fast, block=block: fast.extremes(block)) for _ in range(3))
        options = {"method": "enumerate", "device": "cuda"}
        fairmend.audit(network, spec, X, **options)  # every thread starts its part of the GPU's libraries
        started = time.perf_counter()
        found = fairmend.audit(network, spec, X, **options)
        spent = time.perf_counter() - started
        few = X[:100_000] if cpu else X[:20_000]
        here, expected = (
            fairmend.audit(network, spec, few, **options),
            fairmend.audit(network, spec, few, method="enumerate"),
        )
        table.add_row(
            f"{rows:,}", f"{points / len(block):.0f}", f"{alone / 1e6:,.0f}", f"{found.evaluations / spent / 1e6:,.0f}",
            f"{spent:.2f}", f"{expected.evaluations / expected.seconds / 1e6:,.0f}",
            "yes" if same_audit(here, expected) else "NO",
        )  # fmt: skip
    console.print(table)


def audit_with_jobs(console: Console, jobs: int) -> None:
    network, spec, X = audit_case(4 * PEOPLE, 0)
    options = {"method": "enumerate", "device": "cuda"}
    for processes in (1, jobs):
        started = time.perf_counter()
        found = fairmend.audit(network, spec, X, jobs=processes, **options)
        spent = time.perf_counter() - started
        console.print(
            f"audit of {len(X):,} people at 740 points, {processes} processes: {spent:.1f} s, "
            f"{found.evaluations / spent / 1e6:,.0f} million evaluations a second, {found.count:,} unequal"
        )


def same_audit(first: fairmend.AuditResult, second: fairmend.AuditResult) -> bool:
    ends = [
        (
            r.count,
            r.evaluations,
            r.disparity.differences.tobytes(),
            [(p.x.tobytes(), p.other.tobytes()) for p in r.pairs],
        )
        for r in (first, second)
    ]
    return ends[0] == ends[1]


# Certify, quantify, search


def tolerant(case: wide_cases.Case) -> Spec:
    """Return the spec of a case with a tolerance, so that neighbourhoods are not finite."""
    first = Feature("x1", "continuous", range=(-4, 4), tolerance=0.05)
    return Spec([case.spec.features[0], first, *case.spec.features[2:]])


def certify(console: Console, cpu: bool) -> None:
    table = table_of(
        "certify by branch and bound, 50 people, at most 20 s", "network", "GPU", "seconds", "CPU", "seconds"
    )
    for name, hidden in wide_cases.SHAPES.items():
        case = wide_cases.case(hidden, 50)
        row = []
        for device in ("cuda", "cpu") if cpu else ("cuda",):
            found = fairmend.certify(
                case.network, tolerant(case), case.to_repair, "branch", time_limit=20.0, device=device
            )
            row += [" ".join(f"{count} {verdict}" for verdict, count in found.counts.items()), f"{found.seconds:.1f}"]
        table.add_row(name, *row)
    console.print(table)


def integer_case(hidden: tuple[int, ...], inputs: int = 6, rows: int = 2000) -> tuple[Network, Spec]:
    """Return a network trained on people with integers from 0 to 9, whose sex has a small part in their label."""
    rng = np.random.default_rng([7, len(hidden)])
    people = np.column_stack([rng.integers(0, 2, rows), rng.integers(0, 10, (rows, inputs - 1))])
    spread = {"mean": 4.5, "std": 2.9}
    features = [Feature("sex", "integer", range=(0, 1), protected=True)]
    features += [Feature(f"x{i}", "integer", range=(0, 9), scale=spread) for i in range(1, inputs)]
    X = np.column_stack([people[:, 0], (people[:, 1:] - spread["mean"]) / spread["std"]]).astype(np.float32)
    odds = X[:, 1:] @ rng.normal(size=inputs - 1) + 0.3 * X[:, 0] + 0.5 * np.sin(2 * X[:, 1])
    widths = (inputs, *hidden, 1)
    affines = [
        Affine((rng.normal(size=(n, m)) * np.sqrt(2 / m)).astype(np.float32), np.zeros(n, np.float32))
        for m, n in pairwise(widths)
    ]
    network = Network(affines, [Activation("relu")] * len(hidden))
    nobody = Regions(X[:1], X[:1], np.zeros(1, np.int64), 1)
    y = (odds > 0).astype(np.int64)
    trained = calibrate(network, nobody, X, y, steps=100, fairness_weight=0.0, learning_rate=3e-3)
    return trained.network, Spec(features)


def quantify(console: Console, cpu: bool) -> None:
    table = table_of("quantify for 10 s", "network", "device", "fair %", "unfair %", "undecided %", "boxes")
    for hidden in ((64,) * 3, (200,) * 3):
        network, spec = integer_case(hidden)
        for device in ("cuda", "cpu") if cpu else ("cuda",):
            found = fairmend.quantify(network, spec, seconds=10, samples=0, device=device)
            shares = (f"{100 * share:.3f}" for share in (found.fair, found.unfair, found.undecided))
            table.add_row("-".join(map(str, hidden)), device, *shares, f"{found.leaves:,}")
    console.print(table)


def search(console: Console, cpu: bool) -> None:
    table = table_of("search with adf, seconds", "network", "GPU", "found", "CPU", "found")
    for hidden in ((16, 8), *wide_cases.SHAPES.values()):
        case = wide_cases.case(hidden, 10)
        row = []
        for device in ("cuda", "cpu") if cpu else ("cuda",):
            found = fairmend.search(case.network, case.spec, case.X, seeds=200, local_steps=50, device=device)
            row += [f"{found.seconds:.1f}", f"{found.count:,}"]
        table.add_row("-".join(map(str, hidden)), *row)
    console.print(table)


PARTS = {
    "step": step, "repair": repair, "audit": audit, "certify": certify, "quantify": quantify,
    "search": search,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here, or PyTorch cannot use it", file=sys.stderr)
        return 2
    console = Console(width=max(Console().width, 200))
    for name in arguments.only:
        spent = seconds(lambda name=name: PARTS[name](console, arguments.cpu))
        console.print(f"({name}: {spent:.0f} s)", style="dim")
    if arguments.jobs:
        audit_with_jobs(console, arguments.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())

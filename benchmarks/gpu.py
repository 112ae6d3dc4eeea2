"""Measure step 1 and a whole repair on a GPU, against the CPU of the same machine.

    python benchmarks/gpu.py [--cpu]

Networks are trained from a seed on synthetic people. Milliseconds of one step of step 1, the mean of ten after two; the
same network twice must give the same bytes. `--cpu` measures the CPU too, which takes minutes. The last line is a
whole repair of 4 x 1000 with 100 regions, from the call to the checked certificate. Without a GPU it exits with 2.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import fairmend
import wide_cases
from fairmend.repair.calibrate import Calibration, calibrate

STEPS, FIRST = 10, 2
PROBLEMS = [((16, 8), 100), ((16, 8), 10_000), *((hidden, 100) for hidden in wide_cases.SHAPES.values())]


def train(case: wide_cases.Case, regions: int, steps: int, device: torch.device) -> tuple[Calibration, float]:
    started = time.perf_counter()
    found = calibrate(case.network, case.regions(regions), case.X, case.y, steps=steps, device=device)
    return found, time.perf_counter() - started


def milliseconds(case: wide_cases.Case, regions: int, device: torch.device) -> float:
    train(case, regions, FIRST, device)
    short, long = (train(case, regions, steps, device)[1] for steps in (FIRST, FIRST + STEPS))
    return 1000 * (long - short) / STEPS


def same_bytes(case: wide_cases.Case, regions: int, device: torch.device) -> bool:
    first, second = (train(case, regions, 3, device)[0].network for _ in range(2))
    pairs = zip(first.affines, second.affines, strict=True)
    return all(a.weight.tobytes() == b.weight.tobytes() and a.bias.tobytes() == b.bias.tobytes() for a, b in pairs)


def whole_repair(console: Console) -> None:
    case = wide_cases.case(wide_cases.SHAPES["4 x 1000"], 100)
    started = time.perf_counter()
    result = fairmend.repair(case.network, case.spec, case.to_repair, case.X, case.y, method="prof", device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder) / "model.onnx", Path(folder) / "certificate.json"
        result.network.save(model)
        result.certificate.save(certificate)
        checked = fairmend.check(certificate, model)
    console.print(f"repair of 4 x 1000 with 100 regions, checked: {time.perf_counter() - started:.1f} s, {checked}")
    console.print({stage: round(seconds, 1) for stage, seconds in result.seconds.items()})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here, or PyTorch cannot use it", file=sys.stderr)
        return 2
    console = Console(width=max(Console().width, 120))
    table = Table(title=f"one step of step 1 on {torch.cuda.get_device_name(0)} (milliseconds)")
    for heading in ("network", "regions", "GPU", "CPU", "times faster", "same bytes", "GPU memory, GB"):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    gpu, cpu = torch.device("cuda", 0), torch.device("cpu")
    for hidden, regions in PROBLEMS:
        case = wide_cases.case(hidden, regions)
        torch.cuda.reset_peak_memory_stats()
        fast = milliseconds(case, regions, gpu)
        slow = milliseconds(case, regions, cpu) if arguments.cpu else None
        table.add_row(
            "-".join(map(str, hidden)), f"{regions:,}", f"{fast:.1f}", "" if slow is None else f"{slow:.1f}",
            "" if slow is None else f"{slow / fast:.1f}", "yes" if same_bytes(case, regions, gpu) else "NO",
            f"{torch.cuda.max_memory_allocated() / 2**30:.1f}",
        )  # fmt: skip
    console.print(table)
    whole_repair(console)
    return 0


if __name__ == "__main__":
    sys.exit(main())

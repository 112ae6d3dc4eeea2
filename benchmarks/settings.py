"""The 22 settings of the paper's protocol, from the reference folder (FAIRMEND_SHARED, default ../shared)."""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fairmend.bench import protocol

T = TypeVar("T")
SHARED = Path(os.environ.get("FAIRMEND_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@dataclass(frozen=True)
class Setting(protocol.Setting):
    """A setting, with the original method's results on it."""

    original: dict[str, float | str]


def peak_megabytes() -> float:
    """The most memory this process has had. (getrusage would count its parent's, from before exec.)"""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def timed(run: Callable[[], T], repeat: int = 3) -> tuple[T, float]:
    """What it gives, and the least seconds it took: these machines are shared, and noise only adds."""
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - started)
    return result, best


def require_shared() -> None:
    if not (SHARED / "reference").is_dir():
        sys.exit(f"no reference data at {SHARED}; point FAIRMEND_SHARED at it")


def names() -> list[str]:
    require_shared()
    return list(_results())


def setting(name: str) -> Setting:
    require_shared()
    sources = protocol.Sources(SHARED / "models", SHARED / "data", SHARED / "reference" / "splits")
    return Setting(**vars(protocol.load_setting(name, sources)), original=_results()[name])


def _results() -> dict[str, dict[str, float | str]]:
    with (SHARED / "reference" / "original_results.csv").open() as file:
        return {
            row["setting"]: {
                key: value if key.startswith(("setting", "status")) else float(value) for key, value in row.items()
            }
            for row in csv.DictReader(file)
        }

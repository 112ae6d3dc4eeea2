"""The 22 settings of the paper's protocol, from the reference folder (FAIRMEND_SHARED, default ../shared)."""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fairmend.paper import protocol

T = TypeVar("T")
SHARED = Path(os.environ.get("FAIRMEND_SHARED", Path(__file__).resolve().parents[3] / "shared"))


@dataclass(frozen=True)
class Setting(protocol.Setting):
    """A setting, with the original method's results on it."""

    original: dict[str, float | str]


def peak_megabytes() -> float:
    """Return the peak memory of this process. (getrusage would include that of its parent, from before exec.)"""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def timed(run: Callable[[], T], repeat: int = 3) -> tuple[T, float]:
    """Return the result and the fewest seconds that a call took: other programs on the machine only add time."""
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - started)
    return result, best


def parse_arguments(description: str | None, *flags: str, positional: str | None = "setting") -> argparse.Namespace:
    """Read the names (into `names`) and the flags of the command line; --help prints the description."""
    return argument_parser(description, *flags, positional=positional).parse_args()


def argument_parser(
    description: str | None, *flags: str, positional: str | None = "setting"
) -> argparse.ArgumentParser:
    """Return the parser of `parse_arguments`, for scripts with options of other kinds."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if positional is not None:
        parser.add_argument("names", nargs="*", metavar=positional.upper(), help=f"default: every {positional}")
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true")
    return parser


def require_shared() -> None:
    if not (SHARED / "reference").is_dir():
        sys.exit(f"no reference data in {SHARED}; set FAIRMEND_SHARED to its folder")


def names() -> list[str]:
    require_shared()
    return list(_results())


def setting(name: str, draw: int | None = None) -> Setting:
    """Load a setting with the published sets, or with sets of the same sizes that are drawn with a seed."""
    require_shared()
    splits = SHARED / "reference" / "splits" if draw is None else None
    sources = protocol.Sources(SHARED / "models", SHARED / "data", splits, seed=draw or 0)
    return Setting(**vars(protocol.load_setting(name, sources)), original=_results()[name])


def _results() -> dict[str, dict[str, float | str]]:
    with (SHARED / "reference" / "original_results.csv").open() as file:
        return {
            row["setting"]: {
                key: value if key.startswith(("setting", "status")) else float(value) for key, value in row.items()
            }
            for row in csv.DictReader(file)
        }

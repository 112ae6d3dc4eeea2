"""Repairs: step 1 (`calibrate`), step 2 (`features`, `head`) and the re-check (`proof`).

`recipe` puts them together, `auto` chooses among recipes, `methods` holds the public call.

Light to import: `fairmend.repair` is also the public function, and PyTorch is only needed once it runs.
"""

from typing import Any

__all__ = ["RepairResult", "repair"]


def __getattr__(name: str) -> Any:
    if name == "repair":
        from fairmend.repair.run import repair

        return repair
    if name == "RepairResult":
        from fairmend.repair.result import RepairResult

        return RepairResult
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

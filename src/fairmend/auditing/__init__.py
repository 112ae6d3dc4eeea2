"""Audits: count the inputs that are treated unequally, by comparing them with their neighbours.

- `run`: `fairmend.audit`, the public function, and `result`, what it returns
- `input_blocks`: inputs of any origin, in blocks
- `neighbours`: inputs compared with all of their neighbours, or with random ones (`random_neighbours`)
- `planned_scan`, `scan_processes`: blocks of inputs, scanned as planned, in one process or in several
- `fast_scores`: the lowest and highest score in a finite neighbourhood, from `later_layers` by `extremes_search`
- `score_spread`, `score_disparity`: how far scores differ in each neighbourhood, and over all inputs
- `audited_rows`, `row_sample`: what is kept of every input, and a random sample of them, for reports

Importing this package loads none of them: `fairmend.audit` is both this package and the public function.
"""

from typing import Any

__all__ = ["AuditPair", "AuditResult", "audit"]


def __getattr__(name: str) -> Any:
    if name == "audit":
        from fairmend.auditing.run import audit

        return audit
    if name in ("AuditPair", "AuditResult"):
        from fairmend.auditing import result

        return getattr(result, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Repair networks.

`run` holds the public call and `options` its options. `blind`, `distil`, `calibrate` (step 1), `certified` and `head`
(step 2) are the stages; `recipe` combines them. The method `auto` is `selection`: it judges `candidates` and makes a
`choice` by a policy. `baselines` holds the methods of other papers.

Importing this package does not load PyTorch: `fairmend.repair` is also the public function, and only a call needs it.
"""

from typing import Any

__all__ = ["RepairResult", "repair"]


def __getattr__(name: str) -> Any:
    if name == "repair":
        from fairmend.repairing.run import repair

        return repair
    if name == "RepairResult":
        from fairmend.repairing.result import RepairResult

        return RepairResult
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

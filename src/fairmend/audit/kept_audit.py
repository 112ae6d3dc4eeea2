"""The folder from which an audit continues: finished parts, and digests of all that they depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.audit.audit_slice import SCAN_CLASSES
from fairmend.audit.plan import AuditPlan
from fairmend.audit.sliced_inputs import SlicedInputs
from fairmend.audit.tally import TALLY_CLASSES
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.workers.kept_results import KeptResults

__all__ = ["keep_plan", "open_kept_audit"]


def open_kept_audit(
    folder: Path, net: Network, spec: Spec, inputs: SlicedInputs, options: Mapping[str, Any]
) -> KeptResults:
    """Open the folder, or refuse it by name if its parts are of another model, spec, data or options."""
    about = {
        "model": _network_digest(net),
        "spec": _digest({**spec.to_dict(), "about": None}),
        "data": inputs.describe(),
        "options": json.dumps(options),
    }
    classes = SCAN_CLASSES if inputs.count == 1 else (*TALLY_CLASSES, *inputs.note_classes)
    return KeptResults(folder, about, classes)


def keep_plan(kept: KeptResults, plan: AuditPlan) -> AuditPlan:
    """Return the plan of the first run: the choice of a method depends on measured times."""
    return AuditPlan(**kept.settle("plan", asdict(plan)))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _network_digest(net: Network) -> str:
    digest = hashlib.sha256()
    _add(digest, (tuple((node.operation, node.sources) for node in net.nodes), net.closing, net.threshold))
    return digest.hexdigest()


def _add(digest: Any, value: object) -> None:
    """Add a value that consists of data classes, tuples, arrays, and what `repr` tells apart."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, tuple | list):
        digest.update(f"({len(value)}".encode())
        for each in value:
            _add(digest, each)
    elif is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for field in fields(value):
            _add(digest, getattr(value, field.name))
    else:
        digest.update(f"{value!r};".encode())

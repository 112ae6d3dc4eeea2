"""The folder from which an audit continues: finished parts, and digests of all that they depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairmend.auditing.audit_slice import SCAN_CLASSES
from fairmend.auditing.plan import AuditPlan
from fairmend.auditing.sliced_inputs import SlicedInputs
from fairmend.auditing.tally import TALLY_CLASSES
from fairmend.network import Network
from fairmend.prove.model_digests import digest_network, digest_spec
from fairmend.spec import Spec
from fairmend.workers.kept_results import KeptResults


def open_kept_audit(
    folder: Path, net: Network, spec: Spec, inputs: SlicedInputs, options: Mapping[str, Any]
) -> KeptResults:
    """Open the folder, or refuse it by name if its parts are of another model, spec, data or options."""
    about = {
        "model": digest_network(net),
        "spec": digest_spec(spec),
        "data": inputs.describe(),
        "options": json.dumps(options),
    }
    classes = SCAN_CLASSES if inputs.count == 1 else (*TALLY_CLASSES, *inputs.note_classes)
    return KeptResults(folder, about, classes)


def keep_plan(kept: KeptResults, plan: AuditPlan) -> AuditPlan:
    """Return the plan of the first run: the choice of a method depends on measured times."""
    return AuditPlan(**kept.settle("plan", asdict(plan)))

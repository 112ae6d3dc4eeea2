"""`certify`: is each of these inputs treated like everyone who counts as similar to it?"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.network import NetworkSource, load_network
from fairmend.progress import Progress
from fairmend.prove.engines.enumerate import by_enumeration
from fairmend.prove.engines.findings import Findings
from fairmend.prove.result import CertifyResult
from fairmend.prove.witness import with_unseen_from
from fairmend.spec import Spec
from fairmend.text import suggest

if TYPE_CHECKING:
    import pandas as pd

_logger = logging.getLogger(__name__)

ENGINES = ("auto", "enumerate", "branch", "milp")

# Up to this size looking at every point is the fastest proof there is.
_SMALL = 50_000


def certify(
    net: NetworkSource,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    engine: str = "auto",
    *,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> CertifyResult:
    """Decide for each input whether every similar person gets the same answer.

    FAIR means proven, in real arithmetic and for the weights as they are: every point of the neighbourhood gets the
    class that the network gives the input. UNFAIR comes with a witness, a neighbour that the plain forward pass was
    seen to answer differently. All else is UNKNOWN, with the reason.

    Parameters
    ----------
    engine : "enumerate" (finite neighbourhoods, point by point), "branch" (any network: branch and bound on rigorous
        bounds), "milp" (piecewise linear networks; FAIR is then as good as the solver), or "auto": enumerate where
        every neighbourhood is finite and small, else branch
    time_limit : seconds for the whole call; inputs not decided by then are UNKNOWN
    seed : of the MILP solver; the other engines make no random choice
    progress : called with "certify", the inputs done and the inputs in all
    """
    network = load_network(net)
    if engine not in ENGINES:
        raise FairmendError(f"unknown engine {engine!r}{suggest(str(engine), ENGINES)}; use {', '.join(ENGINES)}")
    if time_limit is not None and not time_limit > 0:
        raise FairmendError(f"time_limit is {time_limit}; give seconds above 0, or None for no limit")
    spec.require_inputs(network.inputs)
    inputs = spec.as_inputs(X, network.dtype)
    chosen = _automatic(spec, inputs) if engine == "auto" else engine
    _logger.info("certify %d inputs with engine %s", len(inputs), chosen)
    findings = Findings(network, inputs, time_limit, progress)
    if chosen == "enumerate":
        by_enumeration(network, spec, inputs, findings)
    elif chosen == "branch":
        from fairmend.prove.engines.branch import by_branching

        by_branching(network, spec, inputs, findings)
    else:
        from fairmend.prove.engines.milp import by_milp

        by_milp(network, spec, inputs, findings, seed)
    report = findings.report(chosen)
    shown = [
        w and replace(w, other=with_unseen_from(network, spec, w.x[None], w.other[None])[0]) for w in report.witnesses
    ]
    report = replace(report, witnesses=tuple(shown))
    _logger.info("engine %s: %s in %.2f s", chosen, report.counts, report.seconds)
    for reason in dict.fromkeys(filter(None, report.reasons)):
        _logger.debug("unknown for %d: %s", report.reasons.count(reason), reason)
    return report


def _automatic(spec: Spec, X: FloatArray) -> str:
    small = spec.finite and int(np.max(spec.neighbourhood_sizes(X))) <= _SMALL
    return "enumerate" if small else "branch"

"""`certify`: decide for each input whether it is treated equally."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.device.current import choose_wide_device, compute_on
from fairmend.device.names import check_device_name
from fairmend.errors import FairmendError
from fairmend.network import Network, NetworkSource, load_network
from fairmend.progress import Progress, shows_progress
from fairmend.prove.engines.enumerate import certify_by_enumeration
from fairmend.prove.engines.findings import Findings
from fairmend.prove.fit import require_fit
from fairmend.prove.result import CertifyResult
from fairmend.prove.score_bounds import require_scores
from fairmend.prove.threshold import network_of_spec
from fairmend.prove.witness import keep_ignored_features
from fairmend.spec import Spec
from fairmend.text import suggest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["certify"]

_logger = logging.getLogger(__name__)

_ENGINES = ("auto", "enumerate", "branch", "milp")

# The largest neighbourhood, in points, for which enumeration is the fastest proof.
_SMALL = 50_000


@shows_progress
def certify(
    net: NetworkSource,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    engine: str = "auto",
    *,
    time_limit: float | None = None,
    device: str = "cpu",
    seed: int = 0,
    progress: Progress | None = None,
) -> CertifyResult:
    """Decide for each input whether every similar person gets the same prediction.

    If the spec claims scores, decide whether the scores of any two people in the neighbourhood differ by at most delta.
    FAIR is then proven for inference as well, in the network's own precision, and a witness is a pair whose scores
    differ by more than delta, in inference and in real arithmetic. The engine "milp" does not support these claims.

    FAIR means proven, in real arithmetic and for the weights as stored: every point of the neighbourhood gets the
    class that the network predicts for the input. UNFAIR comes with a witness: a counterfactual with a different class,
    in inference and in real arithmetic. If a score of the pair is within the rounding error of inference, the witness
    is a `tie`. Every other input is UNKNOWN, with the reason; "a tie" if two classes differ by rounding only.

    Parameters
    ----------
    net : the network, or anything that `load_network` reads
    spec : the features; they define which people are similar
    X : the inputs, encoded or as a DataFrame
    engine : "enumerate" (finite neighbourhoods, point by point), "branch" (any network: branch and bound on rigorous
        bounds), "milp" (piecewise linear networks: a MILP solver searches for a witness, and a tree of linear programs
        proves, with rigorous bounds), or "auto": "enumerate" if every neighbourhood is finite and small, else "branch"
    time_limit : seconds for the whole call; undecided inputs are UNKNOWN
    device : where the bounds of "branch" are computed, in float64 and with every rounding error accounted for: "cpu",
        "cuda" (a GPU; "cuda:1" is the second), or "auto": a GPU, if there is one, for networks with a layer of more
        than 128 units. Points are always computed on the CPU, and so are the other engines.
    seed : random seed of the MILP solver; the other engines make no random choices
    progress : called with "certify", the number of inputs done and the number of inputs
    """
    network = network_of_spec(load_network(net), spec)
    if engine not in _ENGINES:
        raise FairmendError(f"unknown engine {engine!r}{suggest(str(engine), _ENGINES)}; use {', '.join(_ENGINES)}")
    if time_limit is not None and not time_limit > 0:
        raise FairmendError(f"time_limit is {time_limit}; give seconds above 0, or None for no limit")
    check_device_name(device)
    require_fit(network, spec)
    require_scores(network, spec.claim)
    if engine == "milp":
        spec.require_class_claim("engine milp", "engine branch")
    inputs = spec.as_inputs(X, network.dtype)
    chosen = _choose_engine(spec, inputs) if engine == "auto" else engine
    _logger.info("certify %d inputs with engine %s", len(inputs), chosen)
    on = None
    if chosen == "branch" or device != "auto":
        on = choose_wide_device(device, network.widths, "computing bounds")
    if on is not None and chosen != "branch":
        _logger.warning("the GPU is not used: engine %s computes on the CPU", chosen)
        on = None
    with compute_on(on):
        if spec.claim.is_score:
            findings = _certify_scores(network, spec, inputs, chosen, time_limit, progress)
        else:
            findings = _certify_classes(network, spec, inputs, chosen, time_limit, progress, seed)
    result = findings.result(chosen)
    witnesses = [
        w and replace(w, other=keep_ignored_features(network, spec, w.x[None], w.other[None])[0])
        for w in result.witnesses
    ]
    result = replace(result, witnesses=tuple(witnesses))
    _logger.info("engine %s: %s in %.2f s", chosen, result.counts, result.seconds)
    for reason in dict.fromkeys(filter(None, result.reasons)):
        _logger.debug("unknown for %d: %s", result.reasons.count(reason), reason)
    return result


def _certify_classes(
    net: Network,
    spec: Spec,
    X: FloatArray,
    engine: str,
    time_limit: float | None,
    progress: Progress | None,
    seed: int,
) -> Findings:
    findings = Findings(net, X, time_limit, progress)
    if engine == "enumerate":
        certify_by_enumeration(net, spec, X, findings)
    elif engine == "branch":
        from fairmend.prove.engines.branch import certify_by_branching

        certify_by_branching(net, spec, X, findings)
    else:
        from fairmend.prove.engines.milp import certify_by_milp

        certify_by_milp(net, spec, X, findings, seed)
    return findings


def _certify_scores(
    net: Network, spec: Spec, X: FloatArray, engine: str, time_limit: float | None, progress: Progress | None
) -> Findings:
    from fairmend.prove.engines.score_branch import certify_scores_by_branching
    from fairmend.prove.engines.score_enumerate import certify_scores_by_enumeration
    from fairmend.prove.engines.score_findings import ScoreFindings

    findings = ScoreFindings(net, spec.claim, X, time_limit, progress)
    if engine == "enumerate":
        certify_scores_by_enumeration(net, spec, X, findings)
    else:
        certify_scores_by_branching(net, spec, X, findings)
    return findings


def _choose_engine(spec: Spec, X: FloatArray) -> str:
    small = spec.finite and int(np.max(spec.neighbourhood_sizes(X, X.dtype))) <= _SMALL
    return "enumerate" if small else "branch"

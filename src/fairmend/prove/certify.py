"""`certify`: decide for each input whether it is treated equally."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.device import check_device_name, choose_wide_device, device_of_workers
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.text import suggest
from fairmend.models import ModelSource, RunModel
from fairmend.network import Network
from fairmend.prove.chunks import ChunkJob, certify_chunks, open_kept_chunks
from fairmend.prove.condition import model_condition
from fairmend.prove.fit import model_of_spec
from fairmend.prove.kernel_bounds import require_scores
from fairmend.prove.result import CertifyResult, keep_ignored_features
from fairmend.spec import Spec
from fairmend.workers.engine import Engine, use_engine, works_here

if TYPE_CHECKING:
    import pandas as pd


_logger = logging.getLogger(__name__)

_ENGINES = ("auto", "enumerate", "branch", "milp")

# The largest neighbourhood, in points, for which enumeration is the fastest proof.
_SMALL = 50_000


@shows_progress
def certify(
    net: ModelSource,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    engine: str = "auto",
    *,
    time_limit: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | Engine | None = None,
    resume: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> CertifyResult:
    """Decide for each input whether every similar person gets the same prediction.

    If the spec claims scores, decide whether the scores of any two people in the neighbourhood differ by at most delta.
    FAIR is then proven for inference as well, in the network's own precision, and a witness is a pair whose scores
    differ by more than delta, in inference and in real arithmetic. The engine "milp" does not support these claims.

    FAIR means proven, in real arithmetic and for the weights as stored: every point of the neighbourhood gets the
    class that the network predicts for the input, here; where a score is within rounding of a tie, inference in another
    batch may predict another one. UNFAIR comes with a witness: a counterfactual with a different class,
    in inference and in real arithmetic. If a score of the pair is within the rounding error of inference, the witness
    is a `tie`. Every other input is UNKNOWN, with the reason; "a tie" if two classes differ by rounding only.

    A model that is only run is run on every counterfactual, and `runtime` names what ran it. FAIR then means that they
    all got one class there, in batches; nothing is proven about another program, version or precision. Inputs with
    infinitely many counterfactuals, or more than a million, are UNKNOWN.

    Parameters
    ----------
    net : the model, or anything that `load_model` takes
    spec : the features; they define which people are similar
    X : the inputs, encoded or as a DataFrame
    engine : "enumerate" (finite neighbourhoods, point by point), "branch" (any network: branch and bound on the
        kernel's bounds), "milp" (piecewise linear networks: a MILP solver searches for a witness, and "branch"
        proves), or "auto": "enumerate" if every neighbourhood is finite and small, else "branch"
    time_limit : seconds for the whole call; undecided inputs are UNKNOWN
    jobs : how many processes certify chunks of the inputs; the answer is the same, but for what a time limit leaves
        open. With more than one, call this under ``if __name__ == "__main__":`` in a script.
    device : "cpu", "auto" or "cuda", as for other commands; proofs are always computed on the CPU
    cluster : the address of an engine that certifies the chunks instead: "tcp://host:port" of a Dask scheduler,
        "ray://host:port" of Ray, or "ray://local" for a Ray of this call
    resume : a folder that keeps finished chunks; the same call with the same folder continues from them
    seed : random seed of the MILP solver; the other engines make no random choices
    progress : called with "certify", the number of inputs done and the number of inputs
    """
    network = model_of_spec(net, spec)
    if engine not in _ENGINES:
        raise FairmendError(f"unknown engine {engine!r}{suggest(str(engine), _ENGINES)}; use {', '.join(_ENGINES)}")
    if time_limit is not None and not time_limit > 0:
        raise FairmendError(f"time_limit is {time_limit}; give seconds above 0, or None for no limit")
    if jobs < 1:
        raise FairmendError(f"jobs is {jobs}; it must be at least 1")
    check_device_name(device)
    if not works_here(cluster, jobs):
        device = device_of_workers(device)
    if isinstance(network, RunModel) and engine not in ("auto", "enumerate"):
        raise FairmendError(
            f"engine {engine} needs a network, and {network.runner.name} is only run; use engine enumerate"
        )
    if device.startswith("cuda"):
        widths = network.widths if isinstance(network, Network) else ()
        choose_wide_device(device, widths, "computing bounds")  # refuses a GPU that is not there
        _logger.warning("the GPU is not used: proofs are computed on the CPU")
    require_scores(network, spec.claim)
    if engine == "milp":
        spec.require_class_claim("engine milp", "engine branch")
    with use_engine(cluster, jobs) as workers:
        inputs = spec.as_inputs(X, network.dtype)
        chosen = _choose_engine(network, spec, inputs) if engine == "auto" else engine
        _logger.info("certify %d inputs with engine %s", len(inputs), chosen)
        job = ChunkJob(network, spec, chosen, seed)
        kept = None if resume is None else open_kept_chunks(Path(resume), job, time_limit)
        result = certify_chunks(job, inputs, time_limit, progress, workers, kept)
    witnesses = [
        w and replace(w, other=keep_ignored_features(network, spec, w.x[None], w.other[None])[0])
        for w in result.witnesses
    ]
    result = replace(result, witnesses=tuple(witnesses), condition=model_condition(network))
    _logger.info("engine %s: %s in %.2f s", chosen, result.counts, result.seconds)
    for reason in dict.fromkeys(filter(None, result.reasons)):
        _logger.debug("unknown for %d: %s", result.reasons.count(reason), reason)
    return result


def _choose_engine(net: Network | RunModel, spec: Spec, X: FloatArray) -> str:
    if isinstance(net, RunModel):
        return "enumerate"
    small = spec.finite and int(np.max(spec.neighbourhood_sizes(X, X.dtype))) <= _SMALL
    return "enumerate" if small else "branch"

"""The public functions, light to import: each fetches its implementation, and PyTorch with it, when it is called."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import ArrayLike
    from sklearn.neural_network import MLPClassifier
    from torch import nn

    from fairmend.audit.report import AuditReport
    from fairmend.audit.run import Witnesses
    from fairmend.audit.stream import Inputs
    from fairmend.certify.verdict import CertifyReport
    from fairmend.network import Network
    from fairmend.repair.progress import Progress
    from fairmend.repair.result import RepairResult
    from fairmend.search.report import SearchReport
    from fairmend.spec import Spec
    from fairmend.vnnlib import VnnlibExport


def load_network(
    source: str | PathLike[str] | nn.Module | MLPClassifier | Network, activation: str = "relu"
) -> Network:
    """Read a network from a file (.onnx, .h5, .keras, .nnet, .pth, .safetensors), a module or a fitted MLPClassifier.

    A state dict (.pth, or .safetensors that fairmend did not write) does not say its activations; ``activation`` does.
    """
    from fairmend.network import load_network as load

    return load(source, activation)


def certify(
    net: Network | str | PathLike[str] | nn.Module | MLPClassifier,
    spec: Spec,
    X: pd.DataFrame | ArrayLike,
    engine: str = "auto",
    *,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> CertifyReport:
    """Decide for each input whether everyone similar to it gets the same answer: FAIR, UNFAIR or UNKNOWN.

    ``engine`` is "enumerate", "branch", "milp" or "auto", and ``time_limit`` counts seconds for the whole call;
    `fairmend.certify.run.certify` says more.
    """
    from fairmend.certify.run import certify as run

    return run(load_network(net), spec, X, engine, time_limit=time_limit, seed=seed, progress=progress)


def repair(
    net: Network | str | PathLike[str] | nn.Module | MLPClassifier,
    spec: Spec,
    X_repair: pd.DataFrame | ArrayLike,
    X_cal: pd.DataFrame | ArrayLike,
    y_cal: ArrayLike,
    method: str = "auto",
    seed: int = 0,
    **options: Any,
) -> RepairResult:
    """Repair a network so that every neighbourhood of the repair inputs provably gets one answer.

    ``options`` are those of `fairmend.repair.methods.repair`: steps, learning_rate, bounds, margin, solver, time_limit,
    gap, progress and others.
    """
    from fairmend.repair.methods import repair as run

    return run(load_network(net), spec, X_repair, X_cal, y_cal, method, seed, **options)


def audit(
    net: Network | str | PathLike[str] | nn.Module | MLPClassifier,
    spec: Spec,
    X: Inputs | None = None,
    samples: int = 100_000,
    seed: int = 0,
    *,
    per_row: int = 64,
    pairs: int = 20,
    progress: Progress | None = None,
    witnesses: Witnesses | None = None,
) -> AuditReport:
    """Count the inputs that have a neighbour with another answer: IDI-D of X, or IDI-S of samples without X.

    X is an array, a DataFrame, or an iterator of chunks of either; `fairmend.audit.run.audit` says more.
    """
    from fairmend.audit.run import audit as run

    return run(
        load_network(net),
        spec,
        X,
        samples,
        seed,
        per_row=per_row,
        pairs=pairs,
        progress=progress,
        witnesses=witnesses,
    )


def export_vnnlib(
    net: Network | str | PathLike[str] | nn.Module,
    spec: Spec,
    X: pd.DataFrame | ArrayLike,
    out: str | PathLike[str],
    *,
    rows: Sequence[int] | None = None,
    timeout: int = 300,
    most_boxes: int = 1000,
) -> VnnlibExport:
    """Write, for each input, whether anybody similar gets another answer, as a problem for other verifiers.

    ``out`` gets model.onnx, VNN-LIB properties, instances.csv and manifest.json; `fairmend.vnnlib` says what sat and
    unsat mean.
    """
    from fairmend.vnnlib import export_vnnlib as run

    return run(load_network(net), spec, X, out, rows=rows, timeout=timeout, most_boxes=most_boxes)


def search(
    net: Network | str | PathLike[str] | nn.Module | MLPClassifier,
    spec: Spec,
    X: pd.DataFrame | ArrayLike,
    method: str = "adf",
    seed: int = 0,
    *,
    seeds: int = 1000,
    local_steps: int = 1000,
    global_steps: int = 10,
    progress: Progress | None = None,
) -> SearchReport:
    """Search, from the inputs X, for people who would get another answer if only protected features were different.

    ``method`` is a published tester: "adf", "eidig", "neuronfair" or "grft"; `fairmend.search.run.search` says more.
    """
    from fairmend.search.run import search as run

    return run(
        load_network(net),
        spec,
        X,
        method,
        seed,
        seeds=seeds,
        local_steps=local_steps,
        global_steps=global_steps,
        progress=progress,
    )

"""The evaluation of the paper: its 22 settings, the cells of its tables, and the jobs that compute and store them."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.auditing.neighbours import find_unequal
from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically
from fairmend.evaluate.utility import utility
from fairmend.network import Network, load_network
from fairmend.paper.datasets import load, train_biased
from fairmend.paper.raw_files import Dataset
from fairmend.spec import Spec

if TYPE_CHECKING:
    from fairmend.repairing.result import RepairResult


_logger = logging.getLogger(__name__)


MODELS = {"adult": "AC1", "compas": "compas1", "german": "GC1", "bank": "BM0"}
COLUMNS = {
    "compas": {"sex": "Female", "race": "Race", "age": "Age"},
    "adult": {"sex": "sex", "race": "race", "age": "age"},
    "german": {"sex": "sex", "age": "age"},
    "bank": {"age": "age"},
}
TOLERANCES = {"A1": {"hours-per-week": 1.0}, "B1": {"duration": 1.0}, "G1": {"credit_amount": 100.0}}
REPAIR_ROWS = 100
CALIBRATION_ROWS = {"adult": 500, "compas": 500, "german": 100, "bank": 500}
_MOST_POINTS = 40_000_000  # inputs that IDI-S may evaluate


@dataclass(frozen=True)
class Sources:
    """Folders of the data, the networks and the sets.

    models  state dicts; without it, networks of the paper's sizes are trained
    data    raw files of the data sets; without it, `fairmend.paper.datasets.load` finds them
    splits  the paper's repair and calibration sets; without it, they are drawn with `seed`
    """

    models: Path | None = None
    data: Path | None = None
    splits: Path | None = None
    seed: int = 0


@dataclass(frozen=True)
class Setting:
    """One row of the paper's tables."""

    name: str
    dataset: Dataset
    network: Network
    spec: Spec
    X_repair: FloatArray
    X_cal: FloatArray
    y_cal: np.ndarray

    @property
    def everyone(self) -> FloatArray:
        """All rows of the data set, for IDI-D."""
        return np.concatenate([self.dataset.X_train, self.dataset.X_test])

    def uniform(self, count: int, seed: int = 2025) -> FloatArray:
        """Return samples of the published input space (count, features), for IDI-S."""
        low, high = self.dataset.bounds.astype(int).T
        return np.random.default_rng(seed).integers(low, high + 1, (count, len(low))).astype(np.float32)


@cache
def paper_numbers() -> dict[str, Any]:
    """Return the paper's numbers: "repair" (CUR, IDI-D, IDI-S), "accuracy" and "testers", by setting and method."""
    content: dict[str, Any] = json.loads(resources.files("fairmend.paper").joinpath("paper.json").read_text())
    return content


def setting_names(kind: str = "all") -> list[str]:
    """Return the settings in the paper's order; `kind` is "single", "multi", "relaxed", "strict" or "all"."""
    every = list(paper_numbers()["repair"])
    relaxed = [name for name in every if name.count("-") == 2]
    multi = [name for name in every if "+" in name]
    strict = [name for name in every if name not in relaxed]
    single = [name for name in strict if name not in multi]
    return {"single": single, "multi": multi, "relaxed": relaxed, "strict": strict, "all": every}[kind]


def load_setting(name: str, sources: Sources) -> Setting:
    """Load one setting."""
    if name not in paper_numbers()["repair"]:
        raise FairmendError(f"unknown setting {name!r}; there are {', '.join(setting_names())}")
    dataset_name, attributes, *tolerance = name.split("-")
    dataset = _dataset(dataset_name, sources.data)
    protected = [COLUMNS[dataset_name][attribute] for attribute in attributes.split("+")]
    network = _network(dataset_name, sources)
    spec = dataset.spec(protected, TOLERANCES[tolerance[0]] if tolerance else None)
    if sources.splits is None:
        rows = np.random.default_rng(sources.seed).permutation(len(dataset.X_train))
        chosen, rest = rows[:REPAIR_ROWS], rows[REPAIR_ROWS:][: CALIBRATION_ROWS[dataset_name]]
        X_repair, X_cal, y_cal = dataset.X_train[chosen], dataset.X_train[rest], dataset.y_train[rest]
    else:
        path = sources.splits / f"{name}.npz"
        if not path.is_file():
            raise FairmendError(
                f"{path}: no such file; give the folder of the paper's sets, or leave out --splits-dir to draw them"
            )
        with np.load(path, allow_pickle=False) as splits:
            X_repair, X_cal, y_cal = splits["X_r"], splits["X_c"], splits["y_c"]
    return Setting(name, dataset, network, spec, X_repair, X_cal, y_cal)


@cache
def _network(dataset: str, sources: Sources) -> Network:
    if sources.models is None:
        return train_biased(_dataset(dataset, sources.data))
    return load_network(sources.models / f"{MODELS[dataset]}.pth", "relu")


@cache
def _dataset(name: str, data: Path | None) -> Dataset:
    return load(name, data)


Cell = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A folder of finished cells."""

    folder: Path

    def path(self, key: str) -> Path:
        """Return the file of a cell."""
        return self.folder / f"{key}.json"

    def get(self, key: str, compute: Callable[[], Cell]) -> Cell:
        """Return a cell; compute and write it if it does not exist."""
        path = self.path(key)
        if path.is_file():
            return self.read(key)
        started = time.perf_counter()
        cell = compute()
        _logger.info("cell %s in %.2f s", key, time.perf_counter() - started)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(cell, allow_nan=False).encode())
        return cell

    def read(self, key: str) -> Cell:
        """Return a cell that exists."""
        found: Cell = json.loads(self.path(key).read_text())
        return found


@dataclass(frozen=True)
class RepairedNetwork:
    """The network that a method returns, with the seconds, the objective and the certificate of the repair."""

    network: Network
    seconds: float = 0.0
    objective: float | None = None
    certificate: str = "none"
    """Whom the valid certificate covers: "everyone" or "97 of 100" repair inputs; otherwise "none" or "INVALID"."""


def repair_network(setting: Setting, method: str, seed: int = 0) -> RepairedNetwork:
    """Repair the network of a setting; the method "original" returns it unchanged."""
    if method == "original":
        return RepairedNetwork(setting.network)
    from fairmend.repairing.run import repair

    started = time.perf_counter()
    result = repair(setting.network, setting.spec, setting.X_repair, setting.X_cal, setting.y_cal, method, seed)
    seconds = time.perf_counter() - started
    assert isinstance(result.network, Network)  # the settings have neither links nor bands
    return RepairedNetwork(result.network, seconds, result.objective, _check_certificate(result))


def _check_certificate(result: RepairResult) -> str:
    if result.certificate is None:
        return "none"
    from fairmend import check

    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder, "model.onnx"), Path(folder, "certificate.json")
        result.network.save(model)
        result.certificate.save(certificate, model)
        if not check(certificate, model, run=False).valid:
            return "INVALID"
    regions = result.certificate.count
    return f"{regions} of {result.regions}" if regions else "everyone"


def repair_cell(setting: Setting, repaired: RepairedNetwork, samples: int) -> Cell:
    """Return all figures of a repaired network; rates in percent."""
    network = repaired.network
    figures = utility(network, setting.dataset.X_test, setting.dataset.y_test)
    assert figures.accuracy is not None
    assert figures.balanced_accuracy is not None
    size = int(setting.spec.neighbourhood_sizes(setting.X_repair[:1])[0])
    uniform = setting.uniform(min(samples, max(1000, _MOST_POINTS // size)))
    return {
        "CUR": 100 * find_unequal(network, setting.spec, setting.X_repair).rate,
        "IDI-D": 100 * find_unequal(network, setting.spec, setting.everyone).rate,
        "IDI-S": 100 * find_unequal(network, setting.spec, uniform).rate,
        "accuracy": 100 * figures.accuracy,
        "balanced": 100 * figures.balanced_accuracy,
        "AUC": figures.auc,
        "positive": None if figures.positive_rate is None else 100 * figures.positive_rate,
        "seconds": repaired.seconds,
        "objective": repaired.objective,
        "certificate": repaired.certificate,
    }


def tester_cell(setting: Setting, repaired: RepairedNetwork, tester: str, seeds: int, local_steps: int) -> Cell:
    """Return how many IDIs a tester finds on a repaired network."""
    from fairmend.searching.run import search

    result = search(repaired.network, setting.spec, setting.everyone, tester, 0, seeds=seeds, local_steps=local_steps)
    return {"count": result.count, "calls": result.calls, "seconds": result.seconds}


def loss_cell(setting: Setting) -> Cell:
    """Return the two losses of step 1 after each step."""
    from fairmend.repairing.calibrate import calibrate

    regions = setting.spec.regions(setting.X_repair)
    history = calibrate(setting.network, regions, setting.X_cal, setting.y_cal).history
    return {"fair": list(history.fair), "task": list(history.task)}


@dataclass(frozen=True)
class Effort:
    """The amount of work of a run."""

    samples: int = 100_000
    seeds: int = 1000
    local_steps: int = 1000
    loss_runs: int = 10


QUICK = Effort(samples=10_000, seeds=200, local_steps=100, loss_runs=1)


@dataclass(frozen=True)
class RepairJob:
    """Repair one network, measure it if a table shows it, and run testers on it."""

    setting: str
    method: str
    measured: bool = True
    testers: tuple[str, ...] = ()

    def run(self, store: Store, sources: Sources, effort: Effort) -> None:
        """Compute the cells that are missing."""
        setting = _setting(self.setting, sources)
        repaired = lru_cache(1)(lambda: repair_network(setting, self.method))
        if self.measured:
            key = repair_key(self.setting, self.method)
            store.get(key, lambda: repair_cell(setting, repaired(), effort.samples))
        for tester in self.testers:
            key = tester_key(self.setting, self.method, tester)
            store.get(key, partial(_run_tester, setting, repaired, tester, effort))


@dataclass(frozen=True)
class LossJob:
    """Run step 1 on sets drawn with one seed."""

    setting: str
    seed: int

    def run(self, store: Store, sources: Sources, effort: Effort) -> None:
        """Compute the cell if it is missing."""
        drawn = replace(sources, splits=None, seed=self.seed)
        store.get(loss_key(self.setting, self.seed), lambda: loss_cell(load_setting(self.setting, drawn)))


Job = RepairJob | LossJob


def repair_key(setting: str, method: str) -> str:
    """Return the name of a repair cell."""
    return f"repair/{setting}/{method}"


def tester_key(setting: str, method: str, tester: str) -> str:
    """Return the name of a tester cell."""
    return f"testers/{setting}/{method}/{tester}"


def loss_key(setting: str, seed: int) -> str:
    """Return the name of a cell with losses."""
    return f"losses/{setting}/{seed}"


def default_workers() -> int:
    """Return the number of cores that this process may use."""
    return int(_import_joblib().cpu_count())


def run_jobs(jobs: Sequence[Job], store: Store, sources: Sources, effort: Effort, workers: int) -> Iterator[None]:
    """Run jobs, and yield once for each that is done; a job whose cells are on disk takes no time."""
    joblib = _import_joblib()
    pool = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
    yield from pool(joblib.delayed(_run)(job, store, sources, effort) for job in jobs)


def _import_joblib() -> Any:
    try:
        import joblib
    except ModuleNotFoundError as error:
        raise FairmendError(
            "the evaluation needs the package joblib of the extra bench. Run pip install 'fairmend[bench]'"
        ) from error
    return joblib


def _run_tester(setting: Setting, repaired: Callable[[], RepairedNetwork], tester: str, effort: Effort) -> Cell:
    return tester_cell(setting, repaired(), tester, effort.seeds, effort.local_steps)


def _run(job: Job, store: Store, sources: Sources, effort: Effort) -> None:
    job.run(store, sources, effort)


_setting = lru_cache(4)(load_setting)  # jobs of one setting follow each other

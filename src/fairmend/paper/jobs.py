"""The work behind the tables as jobs that run in parallel; each job writes its cells to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.paper.cells import Cell, RepairedNetwork, Store, loss_cell, repair_cell, repair_network, tester_cell
from fairmend.paper.protocol import Setting, Sources, load_setting


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

"""The work behind the tables, cut into jobs that run side by side; each leaves its cells on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from joblib import Parallel, delayed

from fairmend.bench.cells import Cell, Made, Store, loss_cell, make, repair_cell, tester_cell
from fairmend.bench.protocol import Setting, Sources, load_setting


@dataclass(frozen=True)
class Effort:
    """How much work a run does."""

    samples: int = 100_000
    seeds: int = 1000
    local_steps: int = 1000
    loss_runs: int = 10


QUICK = Effort(samples=10_000, seeds=200, local_steps=100, loss_runs=1)


@dataclass(frozen=True)
class RepairJob:
    """Make one network, measure it where the tables show it, and let testers loose on it."""

    setting: str
    method: str
    measured: bool = True
    testers: tuple[str, ...] = ()

    def run(self, store: Store, sources: Sources, effort: Effort) -> None:
        """Fill the cells that are missing."""
        setting = _setting(self.setting, sources)
        made = lru_cache(1)(lambda: make(setting, self.method))
        if self.measured:
            key = repair_key(self.setting, self.method)
            store.get(key, lambda: repair_cell(setting, made(), effort.samples))
        for tester in self.testers:
            key = tester_key(self.setting, self.method, tester)
            store.get(key, partial(_tested, setting, made, tester, effort))


@dataclass(frozen=True)
class LossJob:
    """Step 1 on sets drawn with one seed."""

    setting: str
    seed: int

    def run(self, store: Store, sources: Sources, effort: Effort) -> None:
        """Fill the cell if it is missing."""
        drawn = replace(sources, splits=None, seed=self.seed)
        store.get(loss_key(self.setting, self.seed), lambda: loss_cell(load_setting(self.setting, drawn)))


Job = RepairJob | LossJob


def repair_key(setting: str, method: str) -> str:
    """The name of a repair cell."""
    return f"repair/{setting}/{method}"


def tester_key(setting: str, method: str, tester: str) -> str:
    """The name of a tester cell."""
    return f"testers/{setting}/{method}/{tester}"


def loss_key(setting: str, seed: int) -> str:
    """The name of a cell with losses."""
    return f"losses/{setting}/{seed}"


def run_jobs(jobs: Sequence[Job], store: Store, sources: Sources, effort: Effort, workers: int) -> Iterator[None]:
    """Run jobs, yielding once for each that is done; a job whose cells are on disk costs nothing."""
    pool = Parallel(n_jobs=workers, return_as="generator_unordered")
    yield from pool(delayed(_run)(job, store, sources, effort) for job in jobs)


def _tested(setting: Setting, made: Callable[[], Made], tester: str, effort: Effort) -> Cell:
    return tester_cell(setting, made(), tester, effort.seeds, effort.local_steps)


def _run(job: Job, store: Store, sources: Sources, effort: Effort) -> None:
    job.run(store, sources, effort)


_setting = lru_cache(4)(load_setting)  # jobs of one setting follow each other

"""A Dask cluster gives the answer of one process, also after a worker was killed; skipped where Dask is missing."""

import time

import pytest

from fairmend.base.errors import FairmendError
from fairmend.workers import dask_engine
from fairmend.workers.engine import open_engine, run_tasks
from support.killed_workers import COMMANDS, KillAtProgress, content, small_parts
from support.worker_tasks import answer_with_code, square

distributed = pytest.importorskip("distributed", reason="needs fairmend[dask]")
pytestmark = pytest.mark.filterwarnings("default")  # those of Dask are not ours


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, scheduler_port=0
    ) as cluster:
        yield cluster


@pytest.fixture
def address(cluster):
    return cluster.scheduler_address


def test_results_are_complete_after_a_worker_was_killed(address, tmp_path):
    with open_engine(address) as engine:
        assert engine.slots == 2
        shared = {"killed": str(tmp_path / "killed")}
        found = list(run_tasks(engine, square, shared, range(12)))
    assert (tmp_path / "killed").exists()
    assert found == [(task, task * task) for task in range(12)]


def test_an_error_of_a_task_is_raised_here(address, tmp_path):
    with (
        open_engine(address) as engine,
        pytest.raises(FairmendError, match="a wrong task"),
    ):
        list(run_tasks(engine, square, {"wrong": 3, "killed": str(tmp_path)}, range(5)))


def test_a_cluster_that_loses_all_workers_ends_with_an_error(monkeypatch):
    """Without nannies, nothing starts a killed worker again, and a run would wait forever."""
    monkeypatch.setattr(dask_engine, "_PATIENCE", 0.2)
    monkeypatch.setattr(dask_engine, "_ASK_AGAIN", 0.1)
    alone = distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp", dashboard_address=None, scheduler_port=0
    )
    with alone as cluster, open_engine(cluster.scheduler_address) as engine:
        cluster.scale(0)
        while engine._client.nthreads():
            time.sleep(0.01)
        with pytest.raises(FairmendError, match="has lost all its workers; start some"):
            list(run_tasks(engine, square, {}, range(3)))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_gives_the_same_after_workers_were_killed(cluster, monkeypatch, command):
    small_parts(monkeypatch)
    kill = KillAtProgress(command, lambda: [worker.pid for worker in cluster.workers.values() if worker.pid])
    found = content(command, cluster.scheduler_address, kill)
    assert kill.killed
    assert found == content(command)


def test_an_answer_that_is_an_object_is_refused_and_not_unpickled(address, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_engine, "call_for_data", answer_with_code)
    file = tmp_path / "created"
    with open_engine(address) as engine, pytest.raises(FairmendError, match="something else than plain data"):
        list(run_tasks(engine, square, {}, [str(file)]))
    assert not file.exists()

"""Jobs run in other processes, and say which extra they need."""

import sys

import pytest

from fairmend import FairmendError
from fairmend.paper import jobs
from fairmend.paper.cells import Store
from fairmend.paper.protocol import Sources


def test_jobs_run_in_other_processes(tmp_path):
    store = Store(tmp_path)
    effort = jobs.QUICK
    failing = [jobs.LossJob("compas-shoe", seed) for seed in range(2)]
    with pytest.raises(FairmendError, match="unknown setting"):
        list(jobs.run_jobs(failing, store, Sources(), effort, workers=2))


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    message = r"needs the package joblib of the extra bench\. Run pip install 'fairmend\[bench\]'"
    with pytest.raises(FairmendError, match=message):
        list(jobs.run_jobs([], Store(tmp_path), Sources(), jobs.QUICK, workers=1))
    with pytest.raises(FairmendError, match=message):
        jobs.default_workers()

"""Processes give what one process gives, and one that ends is an error that says what to do."""

import os

import pytest

from fairmend.errors import FairmendError
from fairmend.workers.engine import run_tasks
from fairmend.workers.processes import Processes
from support.worker_tasks import end_at


def test_tasks_run_in_other_processes_in_order():
    found = list(run_tasks(Processes(2), end_at, None, range(6)))
    assert [result[1] for _, result in found] == list(range(6))
    assert os.getpid() not in {result[0] for _, result in found}


def test_a_process_that_ends_is_an_error_that_says_what_to_do():
    with pytest.raises(FairmendError, match="pass fewer jobs"):
        list(run_tasks(Processes(2), end_at, 2, range(6)))

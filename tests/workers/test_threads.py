"""Threads give what one thread gives, in order, each with a copy of what is shared."""

import threading

import pytest

from fairmend.base.errors import FairmendError
from fairmend.workers.engine import run_tasks
from fairmend.workers.threads import Threads


def work(shared, task):
    shared.append(task)
    if task == 5:
        raise FairmendError("task 5 is wrong")
    return threading.get_ident(), len(shared), task


def test_tasks_run_in_other_threads_in_order():
    shared = []
    found = [result for _, result in run_tasks(Threads(2), work, shared, range(5))]
    assert [task for _, _, task in found] == list(range(5))
    assert threading.get_ident() not in {thread for thread, _, _ in found}
    assert shared == []  # the threads have copies
    for thread in {thread for thread, _, _ in found}:
        counts = [count for other, count, _ in found if other == thread]
        assert counts == list(range(1, len(counts) + 1))  # and keep them


def test_an_error_comes_in_the_place_of_its_task():
    results = run_tasks(Threads(3), work, [], range(8))
    assert [next(results)[0] for _ in range(5)] == list(range(5))
    with pytest.raises(FairmendError, match="task 5 is wrong"):
        next(results)

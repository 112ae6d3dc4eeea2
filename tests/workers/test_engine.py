"""Results come in the order of the tasks, from any engine, and few tasks are under way at a time."""

import pytest

from fairmend.base.errors import FairmendError
from fairmend.workers.engine import HERE, run_in_pool, run_tasks
from support.engines import PickledEngine


def square(shared, task):
    if task in shared.get("wrong", ()):
        raise FairmendError(f"task {task} is wrong")
    return task * task


@pytest.mark.parametrize("engine", [HERE, PickledEngine()], ids=["here", "elsewhere"])
def test_results_come_in_the_order_of_the_tasks(engine):
    assert list(run_tasks(engine, square, {}, range(20))) == [(n, n * n) for n in range(20)]
    assert list(run_tasks(engine, square, {}, range(0))) == []


def test_tasks_are_made_only_when_there_is_room():
    made = []

    def tasks():
        for number in range(50):
            made.append(number)
            yield number

    engine = PickledEngine()
    for done, _ in enumerate(run_tasks(engine, square, {}, tasks()), start=1):
        assert len(made) <= done - 1 + engine.window
    assert engine.most_waiting == engine.window


@pytest.mark.parametrize("engine", [HERE, PickledEngine()], ids=["here", "elsewhere"])
def test_of_several_errors_the_first_is_raised_after_the_results_before_it(engine):
    found = []
    with pytest.raises(FairmendError, match="task 7 is wrong"):
        found.extend(run_tasks(engine, square, {"wrong": (7, 8)}, range(20)))
    assert [task for task, _ in found] == list(range(7))


@pytest.mark.parametrize("engine", [HERE, PickledEngine()], ids=["here", "elsewhere"])
def test_one_pool_takes_several_runs(engine):
    with engine.open(square, {}) as pool:
        for count in (7, 1, 9):
            assert list(run_in_pool(pool, engine.window, range(count))) == [(n, n * n) for n in range(count)]

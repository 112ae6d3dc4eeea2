"""Results come in the order of the tasks, from any engine, and few tasks are under way at a time."""

import contextlib
import socket
import sys
import threading

import pytest

from fairmend.base.errors import FairmendError
from fairmend.workers import engine as module
from fairmend.workers.engine import HERE, open_engine, run_in_pool, run_tasks, works_here
from fairmend.workers.local import Processes
from support.engines import PickledEngine


@pytest.fixture
def server():
    """Return a function that listens, greets with some bytes, and returns its address."""
    listening = []

    def start(greeting):
        sock = socket.create_server(("127.0.0.1", 0))
        listening.append(sock)

        def answer():
            connection, _ = sock.accept()
            with connection, contextlib.suppress(OSError):  # the client is gone
                connection.sendall(greeting)
                connection.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        return f"127.0.0.1:{sock.getsockname()[1]}"

    yield start
    for sock in listening:
        sock.close()


def test_without_an_address_work_is_done_here_or_in_processes():
    assert open_engine() is HERE
    assert isinstance(open_engine(jobs=3), Processes)
    assert open_engine(jobs=3).slots == 3
    assert open_engine(HERE) is HERE
    with pytest.raises(FairmendError, match="give either jobs or cluster"):
        open_engine("tcp://localhost:8786", 2)


@pytest.mark.parametrize("address", ["localhost:8786", "http://localhost:1", "tcp://", "spark"])
def test_an_address_of_no_known_engine_is_refused(address):
    with pytest.raises(FairmendError, match=r"is not known; give tcp://host:port \(Dask\)"):
        open_engine(address)


@pytest.mark.parametrize("address", ["tcp://localhost", "ray://localhost", "tcp://host:x"])
def test_an_address_without_a_port_is_refused(address):
    with pytest.raises(FairmendError, match="has no port"):
        open_engine(address)


@pytest.mark.parametrize("scheme", ["tcp", "ray"])
def test_an_address_where_nothing_answers_is_refused(scheme):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(FairmendError, match=f"{scheme}://127.0.0.1:{port}: nothing answers there"):
        open_engine(f"{scheme}://127.0.0.1:{port}")


def test_a_server_that_stays_silent_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.1)
    with pytest.raises(FairmendError, match=r"nothing answers there \(timed out\)"):
        open_engine(f"tcp://{server(b'')}")


def test_a_name_that_takes_long_to_look_up_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.1)
    slow, called = threading.Event(), []

    def look_up(*args, **options):
        called.append(args)
        slow.wait()
        raise OSError("unknown")

    monkeypatch.setattr(module.socket, "create_connection", look_up)
    with pytest.raises(FairmendError, match=r"tcp://far:1: nothing answers there \(timed out\)"):
        open_engine("tcp://far:1")
    slow.set()
    assert called == [(("far", 1),)]


def test_what_works_here():
    assert works_here(None, 1)
    assert works_here(HERE, 1)
    assert not works_here(None, 2)
    assert not works_here("tcp://localhost:1", 1)
    assert not works_here(Processes(1), 1)


@pytest.mark.parametrize(("scheme", "name"), [("tcp", "Dask"), ("ray", "Ray")])
def test_another_server_is_refused(server, scheme, name):
    with pytest.raises(FairmendError, match=f"what answers there is not {name}"):
        open_engine(f"{scheme}://{server(b'SSH-2.0-server')}")


@pytest.mark.parametrize(
    ("address", "greeting", "package", "extra"),
    [
        ("tcp", b":\0\0\0\0\0\0\0", "distributed", "dask"),
        ("ray", b"\0\0\x18\x04\0\0\0\0", "ray", "ray"),
    ],
)
def test_an_engine_that_is_not_installed_names_what_to_install(server, monkeypatch, address, greeting, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FairmendError, match=rf"pip install 'fairmend\[{extra}\]'"):
        open_engine(f"{address}://{server(greeting)}")


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

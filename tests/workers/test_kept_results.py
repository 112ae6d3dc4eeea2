"""Results are kept as they come, continue the same run, and are refused for any other; nothing else is unpickled."""

import hashlib
import hmac
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.workers.engine import run_tasks
from fairmend.workers.kept_results import KeptResults, dump, key_file, user_key
from support.engines import PickledEngine

VARIABLE = "APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME"
posix = pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")


@pytest.fixture(autouse=True)
def configuration(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / ".config"))


def test_the_key_is_made_once(tmp_path):
    first = user_key()
    assert len(first) == 32
    assert user_key() == first
    assert [path.name for path in (tmp_path / ".config" / "fairmend").iterdir()] == ["resume.key"]
    key_file().unlink()
    assert user_key() != first


@posix
def test_only_the_user_can_read_it(tmp_path):
    before = os.umask(0)
    try:
        user_key()
    finally:
        os.umask(before)
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file().parent.stat().st_mode) == 0o700


def test_all_processes_that_start_at_once_get_the_same():
    with ThreadPoolExecutor(16) as executor:
        assert len(set(executor.map(lambda _: user_key(), range(64)))) == 1


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(mode):
    user_key()
    key_file().chmod(mode)
    with pytest.raises(FairmendError, match="not yours alone; delete it"):
        user_key()


@posix
def test_a_key_of_another_user_is_refused(monkeypatch):
    user_key()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(FairmendError, match="not yours alone"):
        user_key()


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_damaged_key_is_refused(content):
    user_key()
    key_file().write_bytes(content)
    with pytest.raises(FairmendError, match="damaged; delete it"):
        user_key()


@posix
def test_a_key_that_is_no_file_is_refused(tmp_path):
    key_file().parent.mkdir(parents=True)
    (tmp_path / "other").write_bytes(bytes(32))
    key_file().symlink_to(tmp_path / "other")
    with pytest.raises(FairmendError, match="cannot keep the key"):
        user_key()
    key_file().unlink()
    os.mkfifo(key_file())
    with pytest.raises(FairmendError, match="is not a file"):
        user_key()


@pytest.mark.parametrize("relative", ["", ".", "config", "./config"])
def test_a_relative_folder_is_ignored(tmp_path, monkeypatch, relative):
    """It would be in the current folder, which may be someone else's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, relative)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    assert key_file().is_relative_to(tmp_path / "home")
    monkeypatch.setenv("HOME", ".")
    monkeypatch.setenv("USERPROFILE", ".")
    with pytest.raises(FairmendError, match="home folder is not known"):
        key_file()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    Path(tmp_path / ".config").write_text("")
    with pytest.raises(FairmendError, match=rf"cannot keep the key for resume there .*set {VARIABLE}"):
        user_key()


ABOUT = {"model": "m", "spec": "s", "data": "d", "options": "o"}


@dataclass(frozen=True)
class Task:
    number: int
    content: str = ""

    def digest(self):
        return f"{self.number} {self.content}"


@dataclass(frozen=True, eq=False)
class Result:
    values: np.ndarray


class Evil:
    def __reduce__(self):
        return os.system, ("exit 1",)


def compute(shared, task):
    return Result(np.full(3, task.number + 0.5))


def kept(folder, **changes):
    return KeptResults(folder, {**ABOUT, **changes}, [Result])


TASKS = [Task(number) for number in range(12)]


def run(folder, engine, tasks=TASKS):
    return [float(result.values[0]) for _, result in run_tasks(engine, compute, None, tasks, kept(folder), [Result])]


def test_a_run_continues_where_the_client_died(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "state", PickledEngine(dies_after=7))
    again = PickledEngine()
    assert run(tmp_path / "state", again) == [number + 0.5 for number in range(12)]
    assert len(again.sent) == 12 - 7
    assert run(tmp_path / "state", (third := PickledEngine())) == [number + 0.5 for number in range(12)]
    assert third.sent == []


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": "x"}, "another model"),
        ({"spec": "x"}, "another spec"),
        ({"data": "x"}, "other data"),
        ({"options": "x"}, "another set of options"),
        ({"model": "x", "data": "y"}, "another model and other data"),
        ({"fairmend": "0"}, "another version of fairmend"),
    ],
)
def test_results_of_something_else_are_refused_by_name(tmp_path, changes, named):
    kept(tmp_path)
    with pytest.raises(FairmendError, match=f"holds results for {named}; choose another folder"):
        kept(tmp_path, **changes)


def test_a_task_with_other_content_is_refused(tmp_path):
    run(tmp_path, PickledEngine())
    with pytest.raises(FairmendError, match="part-000003: is of other data"):
        run(tmp_path, PickledEngine(), [Task(number, "x" if number == 3 else "") for number in range(12)])


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.doc").write_text("")
    with pytest.raises(FairmendError, match="holds other files"):
        kept(tmp_path)
    with pytest.raises(FairmendError, match="cannot keep results there"):
        kept(tmp_path / "thesis.doc")


def test_what_was_settled_stays(tmp_path):
    assert kept(tmp_path).settle("plan", {"method": "sample"}) == {"method": "sample"}
    assert kept(tmp_path).settle("plan", {"method": "enumerate"}) == {"method": "sample"}


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:40], lambda b: b"", lambda b: b[:-3] + b"xyz"])
def test_a_damaged_result_is_named(tmp_path, damage):
    run(tmp_path, PickledEngine())
    file = tmp_path / "part-000003"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FairmendError, match="part-000003: damaged, or not written by you on this computer"):
        run(tmp_path, PickledEngine())


@pytest.mark.parametrize("content", [Evil(), np.array([Evil()], dtype=object), KeptResults, ("0 ", 1)])
def test_nothing_else_is_unpickled(tmp_path, content):
    """Not even under the right tag."""
    kept(tmp_path)._write("part-000000", pickle.dumps(content, protocol=4))
    with pytest.raises(FairmendError, match="not written by fairmend"):
        run(tmp_path, PickledEngine())


@pytest.mark.parametrize("content", ["text", (1, 2, 3), None])
def test_no_other_data_is_taken_for_a_result(tmp_path, content):
    kept(tmp_path)._write("part-000000", dump(content, ()))
    with pytest.raises(FairmendError, match="not written by fairmend"):
        run(tmp_path, PickledEngine())


FORGED = "not written by you on this computer, so it is not believed; delete it"


def forge(content):
    """Return a part as anyone can write it, who knows all but the key."""
    return dump(content, [Result])


@pytest.mark.parametrize(
    "tag", [hashlib.sha256, lambda c: hmac.new(b"", c, "sha256"), lambda c: hmac.new(bytes(32), c, "sha256")]
)
def test_a_forged_result_is_refused(tmp_path, tag):
    """Results in someone else's folder were believed: their digest needs no key."""
    kept(tmp_path)
    content = forge((TASKS[0].digest(), Result(np.full(3, 77.0))))
    (tmp_path / "part-000000").write_bytes(tag(content).digest() + content)
    with pytest.raises(FairmendError, match=FORGED):
        run(tmp_path, PickledEngine())


def test_a_result_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "theirs"))
    run(tmp_path / "state", PickledEngine())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    with pytest.raises(FairmendError, match=FORGED):
        run(tmp_path / "state", PickledEngine())


def test_a_result_cannot_be_moved(tmp_path):
    """To another place of the same run, or to a run about something else: not even for a task with the same digest."""
    tasks = [Task(0), Task(0)]
    run(tmp_path / "one", PickledEngine(), tasks)
    (tmp_path / "one" / "part-000001").write_bytes((tmp_path / "one" / "part-000000").read_bytes())
    with pytest.raises(FairmendError, match=f"part-000001: .*{FORGED}"):
        run(tmp_path / "one", PickledEngine(), tasks)
    for name in ABOUT:
        other = KeptResults(tmp_path / name, {**ABOUT, name: "x"}, [Result])
        (tmp_path / name / "part-000000").write_bytes((tmp_path / "one" / "part-000000").read_bytes())
        with pytest.raises(FairmendError, match=FORGED):
            other.load(0, tasks[0])


def test_what_was_settled_cannot_be_forged(tmp_path):
    kept(tmp_path).settle("plan", {"method": "enumerate"})
    file = tmp_path / "plan"
    file.write_bytes(file.read_bytes().replace(b"enumerate", b"sample"))
    with pytest.raises(FairmendError, match=FORGED):
        kept(tmp_path).settle("plan", {"method": "enumerate"})
    (tmp_path / "part-000000").write_bytes(file.read_bytes())
    with pytest.raises(FairmendError, match=FORGED):
        kept(tmp_path).load(0, TASKS[0])


@pytest.mark.parametrize("name", ["part-000003", "plan"])
def test_nothing_is_written_through_a_link(tmp_path, name):
    state = tmp_path / "state"
    kept(state)
    (state / name).symlink_to(tmp_path / "profile")
    use = (lambda: kept(state).settle("plan", 1)) if name == "plan" else (lambda: run(state, PickledEngine()))
    with pytest.raises(FairmendError, match=f"{name}: is a symbolic link"):
        use()
    assert not (tmp_path / "profile").exists()

"""Two folders trade their names, or nothing happens."""

import ctypes
import errno
import sys

import pytest

from fairmend.base import files as module
from fairmend.base.files import exchange


@pytest.fixture
def folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "content").write_text(name)
    return tmp_path / "a", tmp_path / "b"


def contents(folders):
    return [(folder / "content").read_text() for folder in folders]


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="no system call")
def test_two_folders_trade_their_names(folders):
    if not exchange(*folders):
        pytest.skip("this file system cannot exchange folders")
    assert contents(folders) == ["b", "a"]


def test_a_folder_that_does_not_exist_is_an_error(folders):
    if module._system_call() is None:
        pytest.skip("no system call")
    with pytest.raises(FileNotFoundError):
        exchange(folders[0], folders[1] / "missing")
    assert contents(folders) == ["a", "b"]


def failing_with(code):
    def call(first, second):
        ctypes.set_errno(code)
        return -1

    return lambda: call


@pytest.mark.parametrize("call", [failing_with(errno.EINVAL), failing_with(errno.ENOSYS), lambda: None])
def test_a_system_that_cannot_exchange_changes_nothing(folders, monkeypatch, call):
    monkeypatch.setattr(module, "_system_call", call)
    assert exchange(*folders) is False
    assert contents(folders) == ["a", "b"]


def test_another_failure_is_an_error(folders, monkeypatch):
    monkeypatch.setattr(module, "_system_call", failing_with(errno.EBUSY))
    with pytest.raises(OSError, match="busy"):
        exchange(*folders)

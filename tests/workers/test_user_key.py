"""The key for resume: made once, for the user alone, and never in the current folder."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairmend.base.errors import FairmendError
from fairmend.workers.user_key import key_file, user_key

VARIABLE = "APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME"
posix = pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")


@pytest.fixture(autouse=True)
def configuration(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "config"))


def test_the_key_is_made_once(tmp_path):
    first = user_key()
    assert len(first) == 32
    assert user_key() == first
    assert [path.name for path in (tmp_path / "config" / "fairmend").iterdir()] == ["resume.key"]
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
    Path(tmp_path / "config").write_text("")
    with pytest.raises(FairmendError, match=rf"cannot keep the key for resume there .*set {VARIABLE}"):
        user_key()

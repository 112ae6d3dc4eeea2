"""Files are written completely or not at all."""

import os
import signal
import threading

import pytest

from fairmend.atomic import check_folder, staged_folder, write_atomically
from fairmend.errors import FairmendError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_and_no_temporary_file_stays(tmp_path):
    path = tmp_path / "a.txt"
    for content in (b"first", b"second"):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert names(tmp_path) == ["a.txt"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FairmendError, match=r"a\.txt: cannot write: No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need a privilege")
def test_a_symbolic_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(FairmendError, match="is a folder; give the name of a file"):
        write_atomically(tmp_path, b"")


def test_a_new_folder_appears_with_all_its_files(tmp_path):
    out = tmp_path / "a" / "b"
    with staged_folder(out) as stage:
        (stage / "x").write_text("1")
        (stage / "y").write_text("2")
        assert not out.exists()
    assert names(out) == ["x", "y"]
    assert names(tmp_path / "a") == ["b"]


def test_an_existing_folder_keeps_its_other_files(tmp_path):
    (tmp_path / "mine").write_text("1")
    (tmp_path / "x").write_text("old")
    with staged_folder(tmp_path) as stage:
        (stage / "x").write_text("new")
    assert names(tmp_path) == ["mine", "x"]
    assert (tmp_path / "x").read_text() == "new"


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_an_error_leaves_the_folder_as_it_was(tmp_path, error):
    (tmp_path / "x").write_text("old")

    def write():
        with staged_folder(tmp_path) as stage:
            (stage / "x").write_text("new")
            raise error

    with pytest.raises(type(error)):
        write()
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_text() == "old"


def test_an_error_of_the_disk_names_the_file(tmp_path):
    with pytest.raises(FairmendError, match="cannot write: out of luck"), staged_folder(tmp_path):
        raise OSError(5, "out of luck", "x")


def test_ctrl_c_during_the_move_waits(tmp_path, monkeypatch):
    real = os.replace

    def interrupted(source, target):
        signal.raise_signal(signal.SIGINT)
        real(source, target)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(os, "replace", interrupted)
    with staged_folder(tmp_path) as stage:
        (stage / "x").write_text("1")
        (stage / "y").write_text("2")
    assert names(tmp_path) == ["x", "y"]
    assert signal.getsignal(signal.SIGINT) == before


def test_it_works_in_another_thread(tmp_path):
    def write():
        with staged_folder(tmp_path / "out") as stage:
            (stage / "x").write_text("1")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert names(tmp_path / "out") == ["x"]


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "out" / "x").mkdir(parents=True)
    for out, message in (
        (file, r"file: this is a file; choose a folder for --out"),
        (file / "below", "is not a folder; choose another --out"),
        (tmp_path / "out", "x: this is a folder, but a file of this name has to be written"),
    ):
        with pytest.raises(FairmendError, match=message):
            check_folder(out, ["x"])
    with pytest.raises(FairmendError, match="would overwrite an input file; choose another --report"):
        check_folder(tmp_path, ["file"], [file], "--report")
    check_folder(tmp_path / "new" / "deep", ["x"])
    assert names(tmp_path) == ["file", "out"]

"""Files are written completely or not at all."""

import os

import pytest

from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically


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

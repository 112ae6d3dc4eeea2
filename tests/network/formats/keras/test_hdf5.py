"""HDF5 in a process of its own: what it finds, what stops it, and that it trusts nothing around it."""

import io
import subprocess
import sys

import h5py
import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.network.formats.keras import hdf5
from fairmend.network.formats.keras.hdf5 import read_hdf5
from support.hostile_models import endless_heap


@pytest.fixture(autouse=True)
def _start_it_as_users_do(monkeypatch):
    monkeypatch.setattr(hdf5, "subprocess", subprocess)


@pytest.fixture
def content() -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.attrs["title"] = "weights"
        group = file.create_group("root")
        group["a"] = np.arange(6, dtype=np.float32).reshape(2, 3)
        group["link"] = h5py.SoftLink("/root/a")
    return buffer.getvalue()


def test_a_file_is_read_by_paths(content):
    file = read_hdf5(content, ["root"], "m.h5", ["title"])
    assert file.names() == ["root"]
    assert file.names("root") == ["a", "link"]
    assert file.names("root", "a") is None
    assert file.names("nowhere") is None
    assert file.texts("title") == ["weights"]
    assert file.texts("title", "root") is None
    assert np.array_equal(file.array("root", "a"), np.arange(6, dtype=np.float32).reshape(2, 3))


@pytest.mark.parametrize(
    ("path", "words"),
    [("root/b", "has no array 'root/b'"), ("root", "no array"), ("root/link", "'root/link' is a link")],
)
def test_what_is_not_there_is_named(content, path, words):
    with pytest.raises(FairmendError, match=f"m.h5: .*{words}.*save the model with Keras again"):
        read_hdf5(content, ["root"], "m.h5").array(*path.split("/"))


def test_a_file_that_is_none_is_refused():
    with pytest.raises(FairmendError, match=r"m\.h5: not a readable HDF5 file \(.*signature"):
        read_hdf5(b"text" * 99, ["root"], "m.h5")


def test_a_file_on_which_the_library_runs_forever_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "_CPU_SECONDS", 1)
    (tmp_path / "m.h5").write_bytes(endless_heap(tmp_path))
    with pytest.raises(FairmendError, match=r"m\.h5: this is a damaged HDF5 file: its library does not finish"):
        load_network(tmp_path / "m.h5")


def test_a_process_that_waits_or_crashes_is_an_error_of_the_file(content, monkeypatch):
    def wait(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(hdf5.subprocess, "run", wait)
    with pytest.raises(FairmendError, match=r"m\.h5: .*does not finish"):
        read_hdf5(content, ["root"], "m.h5")
    crash = subprocess.CompletedProcess([], -11, b"", b"")
    monkeypatch.setattr(hdf5.subprocess, "run", lambda *_, **__: crash)
    with pytest.raises(FairmendError, match=r"m\.h5: .*its library fails on it \(signal 11\)"):
        read_hdf5(content, ["root"], "m.h5")


def test_a_process_without_an_answer_is_an_error_of_the_file(content, monkeypatch):
    silent = subprocess.CompletedProcess([], 0, b"", b"")
    monkeypatch.setattr(hdf5.subprocess, "run", lambda *_, **__: silent)
    with pytest.raises(FairmendError, match=r"m\.h5: .*its library gives no answer"):
        read_hdf5(content, ["root"], "m.h5")


def test_entries_of_the_module_path_that_are_no_texts_are_left_out(content, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path, tmp_path])
    assert read_hdf5(content, ["root"], "m.h5").names() == ["root"]


def test_modules_in_the_current_folder_are_not_imported(content, tmp_path, monkeypatch):
    for name in ("h5py", "numpy", "json", "config"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert read_hdf5(content, ["root"], "m.h5").names() == ["root"]
    assert not (tmp_path / "imported").exists()

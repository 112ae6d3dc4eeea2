"""Folders are replaced all at once: whatever happens, all files are old or all are new, and other files stay."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fairmend.base import folders
from fairmend.base.errors import FairmendError
from fairmend.base.folders import check_folder, staged_folder
from support.kills import digests

TESTS = Path(__file__).parents[1]
POSIX = pytest.mark.skipif(os.name == "nt", reason="no such links, permissions or signals")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(folder, version, *, without=()):
    with staged_folder(folder, without=without) as stage:
        for name in ("certificate", "model", "report"):
            (stage / name).write_text(f"{version} {name}")


@pytest.fixture
def out(tmp_path):
    """A folder with the old version of three files, and with files of the user."""
    folder = tmp_path / "out"
    write(folder, "old")
    (folder / "mine").write_text("mine")
    (folder / "sub" / "deeper").mkdir(parents=True)
    (folder / "sub" / "deeper" / "mine").write_text("mine too")
    if os.name != "nt":
        (folder / "link").symlink_to("sub/deeper")
        (folder / "dangling").symlink_to("nowhere")
    return folder


@pytest.fixture(params=[pytest.param(True, id="exchange"), pytest.param(False, id="renames")])
def way(request, monkeypatch):
    """Both ways to replace a folder: in one step, or where the system has none."""
    if not request.param:
        monkeypatch.setattr(folders, "exchange", lambda first, second: False)
    return request.param


def expected(out, version):
    """Return the digests of the folder with another version of the three files."""
    copy = out.with_name("copy")
    shutil.copytree(out, copy, symlinks=True)
    for name in ("certificate", "model", "report"):
        (copy / name).write_text(f"{version} {name}")
    found = digests(copy)
    shutil.rmtree(copy)
    return found


def test_a_new_folder_appears_with_all_its_files(tmp_path):
    out = tmp_path / "a" / "b"
    with staged_folder(out) as stage:
        (stage / "x").write_text("1")
        (stage / "y").write_text("2")
        assert not out.exists()
    assert names(out) == ["x", "y"]
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == ["b"]


def test_an_existing_folder_keeps_its_other_files(out, way):
    new = expected(out, "new")
    before = (out / "mine").stat()
    write(out, "new")
    assert digests(out) == new
    assert names(out.parent) == ["out"]
    after = (out / "mine").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_nlink) == (before.st_ino, before.st_mtime_ns, 1)


def test_an_old_file_that_has_no_successor_goes_with_the_exchange(out, way):
    with staged_folder(out, without=["certificate", "never there"]) as stage:
        (stage / "model").write_text("new")
        assert (out / "certificate").exists()
    assert not (out / "certificate").exists()
    assert (out / "report").read_text() == "old report"


def test_files_are_copied_where_they_cannot_be_linked(out, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    new = expected(out, "new")
    monkeypatch.setattr(os, "link", refused)
    write(out, "new")
    assert digests(out) == new


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_an_error_leaves_the_folder_as_it_was(out, error):
    old = digests(out)

    def fail():
        with staged_folder(out) as stage:
            (stage / "model").write_text("new")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert digests(out) == old
    assert names(out.parent) == ["out"]


def test_an_error_of_the_disk_names_the_file(tmp_path):
    with pytest.raises(FairmendError, match="cannot write: out of luck"), staged_folder(tmp_path):
        raise OSError(5, "out of luck", "x")


class Faults:
    """Lets the k-th call of the system fail, for lack of space."""

    CALLS = ("link", "listdir", "mkdir", "open", "rename", "replace", "unlink", "rmdir", "scandir", "chmod")

    def __init__(self, patch) -> None:
        self.calls, self.fatal = 0, 0
        for name in self.CALLS:
            patch.setattr(os, name, self.wrap(getattr(os, name)))
        patch.setattr(os, "fsync", self.wrap(lambda _: None))  # the real one is slow
        patch.setattr(shutil, "copystat", self.wrap(shutil.copystat))
        patch.setattr(folders, "exchange", self.wrap(folders.exchange))

    def wrap(self, real):
        def call(*arguments, **options):
            if self.fatal:
                self.calls += 1
                if self.calls == self.fatal:
                    raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments, **options)

        return call


@POSIX
def test_a_full_disk_at_any_call_leaves_all_old_or_all_new(out, way, monkeypatch):
    old, new = digests(out), expected(out, "new")
    faults, seen = Faults(monkeypatch), set()
    for fatal in range(1, 1000):
        faults.calls, faults.fatal = 0, fatal
        said = ""
        try:
            write(out, "new")
        except FairmendError as error:
            said = str(error)
        faults.fatal = 0
        assert not said or "No space left on device" in said
        found = digests(out)
        assert found in (old, new)
        assert not said or found == old
        seen.add(bool(said))
        if faults.calls < fatal:
            break
        for left in out.parent.glob(".fairmend-*"):  # where the deletion failed
            shutil.rmtree(left)
        write(out, "old")
        assert digests(out) == old
    assert faults.calls < fatal, "the fault came at every call"
    assert fatal > 20
    assert seen == {True, False}


@POSIX
@pytest.mark.parametrize("arguments", [[], ["no-exchange"]])
def test_sigkill_at_any_moment_leaves_all_old_or_all_new(arguments, tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "support.kills", str(tmp_path), "12", "1", *arguments],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert sum(json.loads(result.stdout).values()) >= 12


@POSIX
def test_ctrl_c_during_the_exchange_waits(out, monkeypatch):
    real = folders._swap

    def interrupted(stage, folder):
        signal.raise_signal(signal.SIGINT)
        return real(stage, folder)

    new, before = expected(out, "new"), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(folders, "_swap", interrupted)
    write(out, "new")
    assert digests(out) == new
    assert names(out.parent) == ["out"]
    assert signal.getsignal(signal.SIGINT) == before


def test_it_works_in_another_thread(tmp_path):
    thread = threading.Thread(target=write, args=(tmp_path / "out", "new"))
    thread.start()
    thread.join()
    assert names(tmp_path / "out") == ["certificate", "model", "report"]


def test_what_another_program_writes_meanwhile_stays(out, way, monkeypatch):
    real = folders._swap

    def meanwhile(stage, folder):
        (folder / "sub" / "log").write_text("late")
        (folder / "mine").unlink()
        (folder / "mine").write_text("rewritten")
        return real(stage, folder)

    monkeypatch.setattr(folders, "_swap", meanwhile)
    write(out, "new")
    assert (out / "sub" / "log").read_text() == "late"
    assert (out / "mine").read_text() == "rewritten"
    assert (out / "model").read_text() == "new model"
    assert names(out.parent) == ["out"]


def test_two_runs_into_one_folder_both_succeed(out, way, monkeypatch):
    real, started = folders._keep_others, []

    def meanwhile(source, target, replaced=()):
        if not started:
            started.append(True)
            write(out, "other")
        return real(source, target, replaced)

    new = expected(out, "new")
    monkeypatch.setattr(folders, "_keep_others", meanwhile)
    write(out, "new")
    assert digests(out) == new
    assert names(out.parent) == ["out"]


@POSIX
def test_the_folder_keeps_its_permissions_and_a_link_stays_a_link(out):
    out.chmod(0o2750)
    (out / "sub").chmod(0o500)
    link = out.with_name("link")
    link.symlink_to(out)
    write(link, "new")
    assert link.is_symlink()
    assert (out / "model").read_text() == "new model"
    assert out.stat().st_mode & 0o7777 == 0o2750
    assert (out / "sub").stat().st_mode & 0o7777 == 0o500
    assert names(out.parent) == ["link", "out"]


def test_nobody_else_can_look_into_the_stage_of_a_private_folder(out):
    out.chmod(0o700)
    with staged_folder(out) as stage:
        assert stage.stat().st_mode & 0o077 == 0


# Folders that cannot be replaced


def test_the_current_folder_is_refused(out, monkeypatch):
    monkeypatch.chdir(out / "sub")
    for folder in (Path(".."), Path(), out):
        with pytest.raises(FairmendError, match=r"this is the current folder, or contains it; .* choose a "):
            check_folder(folder, ["model"])
        with pytest.raises(FairmendError, match="this is the current folder"):
            write(folder, "new")
    check_folder(Path("new"), ["model"])
    check_folder(Path(), ["model"], whole=False)
    assert (out / "model").read_text() == "old model"


def test_a_mount_point_is_refused(out, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == out)
    with pytest.raises(FairmendError, match=r"a file system is mounted here; .* choose a folder inside it"):
        check_folder(out, ["model"])


def test_a_mount_point_among_the_other_files_is_refused(out, monkeypatch):
    old = digests(out)
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == out / "sub")
    with pytest.raises(FairmendError, match="sub: a file system is mounted here"):
        write(out, "new")
    assert digests(out) == old


@POSIX
def test_a_folder_without_permission_is_refused(out, monkeypatch):
    for forbidden, message in ((out, "cannot write there .*choose another --out"), (out.parent, "you may not write")):
        monkeypatch.setattr(os, "access", lambda path, mode, forbidden=forbidden: Path(path) != forbidden)
        with pytest.raises(FairmendError, match=message):
            check_folder(out, ["model"])


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
    check_folder(tmp_path / "out", [])
    assert names(tmp_path) == ["file", "out"]


# What killed runs leave behind


@POSIX
def test_only_stages_of_dead_processes_are_deleted(out, monkeypatch):
    monkeypatch.setattr(folders, "_YOUNG", -1)
    dead = out.with_name(".fairmend-0123456789ab-0123456789abcdef")
    others = [out.with_name(name) for name in (".fairmend", ".fairmend-notes", ".fairmend-0123456789ab-old")]
    for folder in (dead, *others):
        folder.mkdir()
        (folder / "x").write_text("x")
    with staged_folder(out.with_name("living")) as living:
        (living / "x").write_text("x")
        write(out, "new")
        assert living.exists()
        assert not dead.exists()
    assert names(out.parent) == sorted(["living", "out", *(folder.name for folder in others)])


@POSIX
def test_a_young_stage_is_left_alone(out):
    young = out.with_name(".fairmend-0123456789ab-0123456789abcdef")
    young.mkdir()  # and its process is about to lock it
    write(out, "new")
    assert young.exists()


@POSIX
def test_a_folder_that_was_renamed_away_comes_back(out, caplog):
    old = digests(out)
    out.rename(out.with_name(f".fairmend-{folders._key(out)}-0123456789abcdef-old"))
    check_folder(out, ["model"])
    assert digests(out) == old
    assert names(out.parent) == ["out"]
    assert "its files are back" in caplog.text


def test_an_error_names_the_folder_and_not_its_stage(tmp_path):
    out = tmp_path / "out"
    for error in (FairmendError, lambda text: OSError(28, "No space left on device", text)):
        with pytest.raises(FairmendError) as raised, staged_folder(out) as stage:
            raise error(f"{stage / 'report.json'}")
        assert str(raised.value).startswith(str(out / "report.json"))

"""Replace the files of a folder all at once: whoever looks finds all old files or all new ones, even after kill -9.

The new folder is prepared beside the old one under a name of its own (the stage). The files of the old folder that are
not replaced are linked into it. When everything is on the disk, the two folders trade names in one step, and the old
one is deleted. Where the system has no such step, the old folder is renamed away first; if the process is killed at
that very moment, the folder is missing until the next run puts it back.

A process locks its stage. The lock ends with the process, so the next run can tell what a killed one left behind.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fairmend.base.errors import FairmendError
from fairmend.base.files import exchange

_STAGE = re.compile(r"\.fairmend-[0-9a-f]{12}-[0-9a-f]{16}")
_OLD = "-old"  # ends the name of a folder that was renamed away
_YOUNG = 60  # seconds in which a stage without a lock may belong to a process that is about to lock it

_logger = logging.getLogger(__name__)


def check_folder(
    out: Path, names: Sequence[str], inputs: Iterable[Path] = (), option: str = "--out", *, whole: bool = True
) -> None:
    """Raise `FairmendError` if files of these names cannot be written into a folder; call it before the long work.

    `inputs` are files that must not be overwritten; `option` is the option that names the folder; `whole` says that the
    files will be replaced all at once, with `staged_folder`.
    """
    if os.path.lexists(out) and not out.is_dir():
        raise FairmendError(f"{out}: this is a file; choose a folder for {option}")
    parent = _nearest_folder(out)
    if not parent.is_dir():
        raise FairmendError(f"{out}: {parent} is not a folder; choose another {option}")
    for name in names:
        target = out / name
        if target.is_dir():
            raise FairmendError(
                f"{target}: this is a folder, but a file of this name has to be written; move the folder away"
            )
        for source in inputs:
            if target.exists() and source.exists() and target.samefile(source):
                raise FairmendError(f"{target}: would overwrite an input file; choose another {option}")
    try:
        if whole:
            with _stage_beside(out) as probe:
                probe.rmdir()
        else:
            _new_stage(parent, out).rmdir()
    except OSError as error:
        reason = error.strerror or error
        raise FairmendError(f"{out}: cannot write there ({reason}); choose another {option}") from error


@contextmanager
def staged_folder(out: Path, without: Collection[str] = ()) -> Iterator[Path]:
    """Yield an empty folder; on success its files replace those of `out` all at once, and on an error they are deleted.

    Other files in `out` stay, except those named in `without`.
    """
    stage: Path | None = None
    try:
        with _stage_beside(out) as stage:
            yield stage
            _publish(stage, _real(out), without)
        _logger.info("wrote %s", out)
    except (OSError, FairmendError) as error:
        message = str(error)
        if isinstance(error, OSError):
            message = f"{error.filename or out}: cannot write: {error.strerror or error}"
        if stage is not None:  # whoever reads the message knows the folder, not its stage
            message = message.replace(str(stage), str(out))
        if message == str(error):
            raise
        raise FairmendError(message) from error


def _real(out: Path) -> Path:
    """Return the folder itself: a symbolic link to it stays a link."""
    return Path(os.path.realpath(out))


def _nearest_folder(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


# The stage


@contextmanager
def _stage_beside(out: Path) -> Iterator[Path]:
    """Yield a new folder beside a folder, with its permissions; delete it after an error."""
    folder = _real(out)
    _put_back(folder)
    reason = _why_irreplaceable(folder)
    if reason:
        raise FairmendError(f"{out}: {reason}; results are replaced as a whole, so choose a folder inside it")
    parent = _nearest_folder(folder.parent)
    _delete_what_killed_runs_left(parent, folder)
    stage = _new_stage(parent, folder)
    lock = _lock(stage)
    try:
        if folder.exists():
            _copy_permissions(folder, stage)
        yield stage
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    finally:
        _unlock(lock)


def _new_stage(parent: Path, folder: Path) -> Path:
    stage = parent / f".fairmend-{_key(folder)}-{secrets.token_hex(8)}"
    stage.mkdir(0o700 if folder.exists() else 0o777)
    return stage


def _key(folder: Path) -> str:
    """Return what a stage's name says about its folder; the name itself could be too long."""
    return hashlib.sha256(os.fsencode(folder.name)).hexdigest()[:12]


def _why_irreplaceable(folder: Path) -> str:
    """Return why a folder cannot be renamed and replaced; empty if it can, or does not exist."""
    if not folder.exists():
        return ""
    if folder in (Path.cwd(), *Path.cwd().parents):
        return "this is the current folder, or contains it"
    if os.path.ismount(folder):
        return "a file system is mounted here"
    if not os.access(folder.parent, os.W_OK):
        return f"you may not write into {folder.parent}"
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    return ""


def _copy_permissions(source: Path, target: Path) -> None:
    shutil.copystat(source, target, follow_symlinks=False)
    owner = source.lstat()
    if hasattr(os, "chown") and (owner.st_uid, owner.st_gid) != (target.lstat().st_uid, target.lstat().st_gid):
        with suppress(PermissionError):  # then it belongs to whoever wrote it, like any new file
            os.chown(target, owner.st_uid, owner.st_gid, follow_symlinks=False)


# Replacing


def _publish(stage: Path, folder: Path, without: Collection[str]) -> None:
    """Put the stage in the place of the folder, whose other files stay."""
    written = os.listdir(stage)
    _sync_files(stage / name for name in written)
    if not folder.exists():
        _sync_folder(stage)
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(stage, folder)
        _sync_folder(folder.parent)
        return
    replaced = {*written, *without}
    kept = _keep_others(folder, stage, replaced)
    _sync_folder(stage)
    lock = _lock(folder)
    try:
        with _uninterrupted():
            old = _swap(stage, folder)
            try:
                _sync_folder(folder.parent)
                _delete_old(old, folder, replaced, kept)
            except OSError as error:  # the new files are in place
                _logger.warning("%s: cannot delete the replaced files: %s", old, error.strerror or error)
    finally:
        _unlock(lock)


def _keep_others(source: Path, target: Path, replaced: Collection[str] = ()) -> dict[Path, int]:
    """Link what is in one folder into another, and return the inode of each file that was linked by its path."""
    kept: dict[Path, int] = {}
    for entry in sorted(source.iterdir()):
        copy = target / entry.name
        if entry.name in replaced:
            continue
        if not entry.is_dir() or entry.is_symlink():
            with suppress(FileNotFoundError):  # deleted a moment ago
                kept[entry] = entry.lstat().st_ino
                _link(entry, copy)
            continue
        if os.path.ismount(entry):
            raise FairmendError(f"{entry}: a file system is mounted here; choose another folder for the results")
        copy.mkdir(0o700)
        kept |= _keep_others(entry, copy)
        _copy_permissions(entry, copy)
    return kept


def _link(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system, or the owner of the file, does not allow that."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except (OSError, NotImplementedError):
        shutil.copy2(source, target, follow_symlinks=False)


def _swap(stage: Path, folder: Path) -> Path:
    """Put the stage in the place of the folder, and return where the old folder is now."""
    if exchange(stage, folder):
        return stage
    old = folder.with_name(stage.name + _OLD)
    os.rename(folder, old)
    try:
        os.rename(stage, folder)
    except OSError:
        os.rename(old, folder)
        raise
    return old


def _delete_old(old: Path, new: Path, replaced: Collection[str], kept: dict[Path, int]) -> None:
    """Delete the old folder; what another program has written into it meanwhile moves into the new one.

    `kept` has the paths that the files had before the folder was replaced, which are those in the new folder.
    """
    old.chmod(old.stat().st_mode | 0o700)
    for entry in sorted(old.iterdir()):
        now = new / entry.name
        if entry.is_dir() and not entry.is_symlink():
            now.mkdir(exist_ok=True)
            _delete_old(entry, now, (), kept)
        elif entry.name in replaced or kept.get(now) == entry.lstat().st_ino:
            entry.unlink()
        else:
            os.replace(entry, now)
    old.rmdir()


def _sync_files(paths: Iterable[Path]) -> None:
    """Wait until the files are on the disk."""
    for path in paths:
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":  # which cannot open a folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C for a moment, so that the old folder is deleted once the new one is in its place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# What killed runs leave behind


def _put_back(folder: Path) -> None:
    """Put the folder back if a run was killed after it renamed it away; see `_swap`."""
    if folder.exists() or not folder.parent.is_dir():
        return
    for old in _renamed_away(folder):
        if sys.platform == "win32" or _belongs_to_no_one(old):
            _logger.warning("%s: a run was killed while it replaced this folder; its files are back", folder)
            os.rename(old, folder)
            return


def _delete_what_killed_runs_left(parent: Path, folder: Path) -> None:
    """Delete stages of any folder in `parent`, and what `folder` was before it was replaced."""
    stages = [path for path in sorted(parent.glob(".fairmend-*")) if _STAGE.fullmatch(path.name)]
    for left in stages + (_renamed_away(folder) if folder.exists() else []):
        if _age(left) > _YOUNG and _belongs_to_no_one(left):
            _logger.info("deleting %s, which a killed run left behind", left)
            shutil.rmtree(left, ignore_errors=True)


def _renamed_away(folder: Path) -> list[Path]:
    """Return what killed runs renamed away to replace this folder."""
    found = sorted(folder.parent.glob(f".fairmend-{_key(folder)}-*{_OLD}"))
    return [path for path in found if _STAGE.fullmatch(path.name.removesuffix(_OLD))]


def _age(folder: Path) -> float:
    """Return the seconds since the folder was changed or renamed; 0 if it is gone."""
    try:
        return time.time() - folder.lstat().st_ctime
    except FileNotFoundError:
        return 0.0


def _belongs_to_no_one(folder: Path) -> bool:
    """Return whether no process has locked the folder."""
    lock = _lock(folder)
    _unlock(lock)
    return lock is not None


def _lock(folder: Path) -> int | None:
    """Lock a folder until the process ends; None if another process has locked it, or if it cannot be locked."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _unlock(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)

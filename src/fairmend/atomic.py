"""Write a file, or the files of a folder, completely or not at all."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fairmend.errors import FairmendError

__all__ = ["check_folder", "staged_folder", "write_atomically", "write_text"]

_logger = logging.getLogger(__name__)


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file in the same folder, then rename it to `path`."""
    target = Path(os.path.realpath(path))  # a symbolic link stays a link
    if target.is_dir():
        raise FairmendError(f"{path}: this is a folder; give the name of a file")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FairmendError(f"{path}: cannot write: {error.strerror or error}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text; the file is replaced completely or not at all."""
    write_atomically(Path(path), text.encode("utf-8"))


def check_folder(out: Path, names: Sequence[str], inputs: Iterable[Path] = (), option: str = "--out") -> None:
    """Raise `FairmendError` if files of these names cannot be written into a folder; call it before the long work.

    `inputs` are files that must not be overwritten; `option` is the option that names the folder.
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
        probe = _make_stage(parent)
        probe.rmdir()
    except OSError as error:
        reason = error.strerror or error
        raise FairmendError(f"{out}: cannot write there ({reason}); choose another {option}") from error


@contextmanager
def staged_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder; on success its files move into `out`, and on an error they are deleted."""
    stage: Path | None = None
    try:
        stage = _make_stage(_nearest_folder(out))
        yield stage
        with _uninterrupted():
            _move(stage, out)
        _logger.info("wrote %s", out)
    except OSError as error:
        raise FairmendError(f"{error.filename or out}: cannot write: {error.strerror or error}") from error
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)


def _nearest_folder(out: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())


def _make_stage(parent: Path) -> Path:
    stage = parent / f".fairmend-{secrets.token_hex(8)}"
    stage.mkdir()
    return stage


def _move(stage: Path, out: Path) -> None:
    """Rename the stage to a new folder, or move its files into an existing folder, whose other files stay."""
    if not out.exists():
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        os.rename(stage, out)
        return
    for file in sorted(stage.iterdir()):
        os.replace(file, out / file.name)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C for a moment, so that files that belong together arrive together."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

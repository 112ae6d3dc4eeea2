"""Untrusted HDF5 files: what h5py finds in them, decoded in a process with limits on time and memory.

HDF5's C library runs forever on some damaged files and cannot be interrupted within a process. `hdf5_process` is the
program that runs there. fairmend_check decodes HDF5 with code of its own, so that no bug is common to the two.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network.formats.keras import hdf5_process

# Processor time is what an endless loop uses up: a good file of a few MB takes hundredths of a second of it.
_CPU_SECONDS, _WALL_SECONDS, _BYTES_PER_SECOND = 2, 120, 20 * 2**20
_MEMORY, _COPIES = 2**30, 64
# No filter plug-ins, and no pool of threads that is never used.
_ENVIRONMENT = {
    "HDF5_PLUGIN_PRELOAD": "::",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_OUT_OF_TIME = getattr(signal, "SIGXCPU", 0)
_ENDLESS = "this is a damaged HDF5 file: its library does not finish reading it"
_AGAIN = "save the model with Keras again"


class Hdf5File:
    """Groups, texts and arrays of an HDF5 file, by their paths from its root."""

    def __init__(self, entries: Sequence[dict[str, Any]], arrays: Any, source: str) -> None:
        self._entries = {tuple(entry["path"]): entry for entry in entries}
        self._arrays, self._source = arrays, source

    def names(self, *path: str) -> list[str] | None:
        """Return what the group at a path holds; None where there is no group."""
        names = self._find(path).get("names")
        return None if names is None else list(names)

    def texts(self, name: str, *path: str) -> list[str] | None:
        """Return a text attribute of the object at a path as a list; None where there is none."""
        texts = self._find(path).get("texts", {}).get(name)
        return None if texts is None else list(texts)

    def array(self, *path: str) -> npt.NDArray[Any]:
        """Return the numbers at a path."""
        where = "/".join(path)[-80:]
        number = self._find(path).get("array")
        if number is None:
            raise FairmendError(f"{self._source}: has no array {where!r}; {_AGAIN}")
        return np.asarray(self._arrays[str(number)])

    def _find(self, path: tuple[str, ...]) -> dict[str, Any]:
        for length in range(1, len(path) + 1):
            reason = self._entries.get(path[:length], {}).get("refused")
            if reason is not None:
                where = "/".join(path[:length])[-80:]
                raise FairmendError(f"{self._source}: {where!r} {reason}; {_AGAIN}")
        return self._entries.get(path, {})


def read_hdf5(content: bytes, roots: Sequence[str], source: str, attributes: Sequence[str] = ()) -> Hdf5File:
    """Return the file in `content`: its groups `roots` and all below them, with the named text attributes.

    Raise a FairmendError that names `source` for whatever makes the file unreadable.
    """
    answer, archive = _ask(content, {"roots": list(roots), "attributes": list(attributes)}, source)
    return Hdf5File(answer["entries"], archive, source)


def change_hdf5(content: bytes, arrays: Mapping[str, npt.NDArray[Any]], source: str) -> bytes:
    """Return the file in `content` with other numbers in the arrays at these paths; all else stays."""
    packed = io.BytesIO()
    np.savez(packed, **{str(i): array for i, array in enumerate(arrays.values())})  # type: ignore[arg-type]
    _, archive = _ask(content + packed.getvalue(), {"paths": list(arrays), "size": len(content)}, source)
    return bytes(archive[hdf5_process.FILE].tobytes())


def _ask(content: bytes, request: dict[str, Any], source: str) -> tuple[dict[str, Any], Any]:
    """Return the listing and the archive that the process answers a request about `content` with."""
    seconds = _CPU_SECONDS + len(content) // _BYTES_PER_SECOND
    request = {
        "sys.path": [entry for entry in sys.path if isinstance(entry, str)],  # Python ignores others, such as a Path
        "seconds": seconds,
        "memory": _MEMORY + _COPIES * len(content),
        **request,
    }
    try:
        # -I keeps modules in the current folder and in PYTHONPATH out; the child takes this process's own sys.path.
        result = subprocess.run(
            [sys.executable or "python", "-I", str(Path(hdf5_process.__file__)), json.dumps(request)],
            input=content,
            capture_output=True,
            timeout=_WALL_SECONDS + seconds,
            env=os.environ | _ENVIRONMENT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FairmendError(f"{source}: {_ENDLESS}; {_AGAIN}") from error
    except OSError as error:
        reason = error.strerror or error
        raise FairmendError(f"{source}: cannot start {sys.executable!r} to read the HDF5 file ({reason})") from error
    return _parse(result, source)


def _parse(result: subprocess.CompletedProcess[bytes], source: str) -> tuple[dict[str, Any], Any]:
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace").strip().splitlines()
        if result.returncode == -_OUT_OF_TIME:
            raise FairmendError(f"{source}: {_ENDLESS}; {_AGAIN}")
        ended = f"signal {-result.returncode}" if result.returncode < 0 else (said or ["no reason given"])[-1][:200]
        raise FairmendError(f"{source}: this is a damaged HDF5 file: its library fails on it ({ended}); {_AGAIN}")
    try:
        archive = np.load(io.BytesIO(result.stdout), allow_pickle=False)
        answer = json.loads(archive[hdf5_process.LISTING].tobytes())
    except (EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        # No answer, yet the exit status is 0: a parent that ignores SIGCHLD is not told how the process ended.
        raise FairmendError(f"{source}: this is a damaged HDF5 file: its library gives no answer; {_AGAIN}") from error
    if "unreadable" in answer:
        raise FairmendError(f"{source}: not a readable HDF5 file ({answer['unreadable']}); {_AGAIN}")
    return answer, archive

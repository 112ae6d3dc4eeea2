"""HDF5 from an untrusted file, read twice: by the checker's own decoder and by h5py, which must agree.

HDF5 can point to other files, run filter plug-ins and declare arrays far larger than the file, and its C library runs
forever on some damaged files. The decoder refuses all of that; what it lets through is safe to give to h5py.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend_check.errors import CheckError as Refused
from fairmend_check.hdf5 import Hdf5, Node


class Hdf5File:
    """An HDF5 file in memory, by paths from its root."""

    def __init__(self, content: bytes, library: Any) -> None:
        self._plain, self._library = Hdf5(memoryview(content)), library

    def names(self, *path: str) -> list[str] | None:
        """What the group at a path holds; None where there is no group."""
        node = self._find(*path)
        return None if node is None or node.links is None else list(node.links)

    def texts(self, name: str, *path: str) -> list[str] | None:
        """An attribute of texts of the object at a path; None where there is none."""
        node = self._find(*path)
        return None if node is None else self._plain.texts(node, name)

    def array(self, *path: str) -> npt.NDArray[Any]:
        """The numbers at a path."""
        node = self._find(*path)
        if node is None:
            raise Refused(f"it lacks the array {'/'.join(path)[-60:]!r}")
        values = self._plain.array(node)
        other = np.asarray(self._library["/".join(path)][()])
        if other.shape != values.shape or other.dtype != values.dtype or other.tobytes() != values.tobytes():
            raise Refused(f"two readers disagree on its array {'/'.join(path)[-60:]!r}")
        return values

    def _find(self, *path: str) -> Node | None:
        return self._plain.find(self._plain.root, list(path))


@contextmanager
def open_hdf5(content: bytes, source: str) -> Iterator[Hdf5File]:
    """Yield the file in `content`; whatever makes it unreadable becomes one error."""
    try:
        _ = Hdf5(memoryview(content)).root
        with h5py.File(io.BytesIO(content), "r") as library:
            yield Hdf5File(content, library)
    except Refused as error:
        raise FairmendError(f"{source}: cannot be read: {error}; save the model with Keras again") from error
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError, OverflowError, struct.error) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise FairmendError(f"{source}: is a damaged HDF5 file ({reason}); save the model again") from error

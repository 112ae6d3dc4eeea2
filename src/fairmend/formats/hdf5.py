"""HDF5 from an untrusted file, through h5py: only what lies plainly in the file itself is read.

HDF5 can point to other files (external links, external storage, virtual datasets), run filter plug-ins, and declare
arrays far larger than the file. Keras needs none of that, so all of it is refused before anything is allocated.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError

Group = Any  # h5py.Group, whose package carries no types
MAX_TEXT = 64 * 2**20


class Hdf5File:
    """An HDF5 file in memory; every read names what it reads, link by link."""

    def __init__(self, root: Group, source: str, size: int) -> None:
        self.root, self.source, self._size = root, source, size

    def group(self, *path: str) -> Group | None:
        """The group at a path from the root; None where there is none."""
        found = self._find(self.root, path)
        if found is not None and not isinstance(found, h5py.Group):
            raise FairmendError(f"{self.source}: {'/'.join(path)!r} is no group; save the model again")
        return found

    def array(self, group: Group, path: str) -> npt.NDArray[Any]:
        """The numbers of a dataset, by its path below a group."""
        found = self._find(group, path.split("/"))
        where = f"{self.source}: the weight {path[:80]!r}"
        if found is None:
            raise FairmendError(f"{where} is missing; save the model again")
        if not isinstance(found, h5py.Dataset):
            raise FairmendError(f"{where} is no array; save the model again")
        if found.dtype.kind != "f" or found.shape is None or found.ndim > 2:
            raise FairmendError(f"{where} holds {found.dtype} of shape {found.shape}, not a matrix of numbers")
        plan = found.id.get_create_plist()
        if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count():
            raise FairmendError(f"{where} lies in another file; save the model as one file")
        if plan.get_nfilters():
            raise FairmendError(f"{where} is compressed or filtered, as Keras never writes it; save the model again")
        declared = int(np.prod([int(n) for n in found.shape], dtype=object)) * found.dtype.itemsize
        if declared > min(self._size, found.id.get_storage_size()):
            raise FairmendError(f"{where} declares {declared:,} bytes, more than the file holds; save the model again")
        values = np.asarray(found[()])
        return values.astype(values.dtype.newbyteorder("="), copy=False)

    def text(self, group: Group, name: str) -> str | None:
        """A text attribute; None where there is none."""
        texts = self.texts(group, name)
        if texts is not None and len(texts) != 1:
            raise FairmendError(f"{self.source}: the attribute {name!r} is no single text; save the model again")
        return None if texts is None else texts[0]

    def texts(self, group: Group, name: str) -> list[str] | None:
        """An attribute of texts; None where there is none. Keras writes an empty list as numbers."""
        if name not in group.attrs:
            return None
        held = group.attrs.get_id(name)
        count = int(np.prod([int(n) for n in held.shape], dtype=object))
        if count == 0:
            return []
        if held.get_storage_size() > min(self._size, MAX_TEXT):
            raise FairmendError(f"{self.source}: the attribute {name!r} is larger than the file; save the model again")
        if h5py.check_string_dtype(held.dtype) is None and held.dtype.kind != "S":
            raise FairmendError(f"{self.source}: the attribute {name!r} holds {held.dtype}, not text")
        found = np.asarray(group.attrs[name], dtype=object).reshape(-1).tolist()
        return [part.decode("utf-8") if isinstance(part, bytes) else str(part) for part in found]

    def _find(self, group: Group, path: Sequence[str]) -> Any:
        """Follow a path by hard links alone; a soft or external link could lead anywhere."""
        found = group
        for part in path:
            if not isinstance(found, h5py.Group) or not part or part == ".":
                return None
            links, name = found.id.links, part.encode("utf-8")  # `part in found` would already follow the link
            if not links.exists(name):
                return None
            if links.get_info(name).type != h5py.h5l.TYPE_HARD:
                raise FairmendError(f"{self.source}: {part[:80]!r} is a link to elsewhere; save the model as one file")
            found = found[part]
        return found


@contextmanager
def open_hdf5(content: bytes, source: str) -> Iterator[Hdf5File]:
    """Yield the file in `content`; what the library says of damage becomes one error."""
    if not content.startswith(b"\x89HDF\r\n\x1a\n"):
        raise FairmendError(f"{source}: is not an HDF5 file; save the model with Keras again")
    try:
        with h5py.File(io.BytesIO(content), "r") as root:
            yield Hdf5File(root, source, len(content))
    except FairmendError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError, OverflowError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise FairmendError(f"{source}: is a damaged HDF5 file ({reason}); save the model again") from error

"""The program that decodes and changes HDF5 files with h5py, in a process of its own; `hdf5` starts and limits it.

HDF5's C library runs forever or crashes on some damaged files, and HDF5 files can point to other files, load filter
plug-ins and declare arrays far larger than themselves. This program copies numbers and texts out of a file that it
gets on standard input, and refuses everything else. It imports nothing of fairmend, so it starts quickly.

The argument is a request in JSON; the answer on standard output is an .npz archive of the arrays, with a listing. To
change arrays of a file, the request names their paths, and an .npz archive of the new numbers follows the file on
standard input, with new text attributes of groups; the answer is the changed file.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

FILE = "changed"  # the archive's member that is a changed file
LISTING = "listing"  # the archive's member that says which array is which, in JSON
_MOST_OBJECTS, _MOST_TEXTS, _DEEPEST = 50_000, 100_000, 32
_SMALL, _RATIO = 16 * 2**20, 20  # weights hardly shrink: what grows more than this is not weights
_FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32"}  # those built into HDF5; others would load plug-ins


class UnreadableError(Exception):
    """The reason why a file, or one object in it, is not read."""


class _Extract:
    """What is copied out of one file."""

    def __init__(self, size: int, attributes: list[str]) -> None:
        self.entries: list[dict[str, Any]] = []
        self.arrays: list[Any] = []
        self._left = max(_SMALL, _RATIO * size)
        self._attributes = attributes
        self._addresses: set[int] = set()

    def visit(self, item: Any, path: list[str]) -> None:
        """Add an object and everything below it."""
        import h5py

        if len(self.entries) >= _MOST_OBJECTS or len(path) > _DEEPEST:
            raise UnreadableError("it holds too many groups within groups")
        entry: dict[str, Any] = {"path": path}
        self.entries.append(entry)
        try:
            self._refuse_second_visit(item)
            entry["texts"] = {name: _texts(item, name) for name in self._attributes if name in item.attrs}
            if isinstance(item, h5py.Group):
                entry["names"] = _names(item)
            else:
                entry["array"] = self._add_array(item)
        except UnreadableError as error:
            entry.pop("names", None)
            entry["refused"] = str(error)
        for name in entry.get("names", ()):
            if isinstance(item.get(name, getlink=True), h5py.HardLink):
                self.visit(item[name], [*path, name])
            else:
                self.entries.append({"path": [*path, name], "refused": "is a link to another place or file"})

    def _refuse_second_visit(self, item: Any) -> None:
        import h5py

        address = h5py.h5o.get_info(item.id).addr
        if address in self._addresses:
            raise UnreadableError("has two places in the file")
        self._addresses.add(address)

    def _add_array(self, dataset: Any) -> int:
        """Copy a dataset of numbers, after checking that they lie in this file and how many there are."""
        import h5py

        if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "fiu":
            raise UnreadableError("is not an array of numbers")
        if dataset.external or dataset.is_virtual:
            raise UnreadableError("has its numbers in another file")
        settings = dataset.id.get_create_plist()
        for code in (settings.get_filter(i)[0] for i in range(settings.get_nfilters())):
            if code not in _FILTERS:
                raise UnreadableError(f"is compressed with filter {code}; only {', '.join(_FILTERS.values())} are read")
        count = math.prod(dataset.shape or ())
        needed = max(count, math.prod(dataset.chunks or ())) * dataset.dtype.itemsize
        if needed > self._left:
            raise UnreadableError(f"claims {needed:,} bytes, far more than the file has")
        if count and not dataset.id.get_storage_size():
            raise UnreadableError("was never written")
        self._left -= needed
        self.arrays.append(dataset[()])
        return len(self.arrays) - 1


def extract(content: bytes, roots: list[str], attributes: list[str]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the objects below `roots` as a listing, with the named text attributes, and the arrays it refers to."""
    import h5py

    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            found = _Extract(len(content), attributes)
            texts = {name: _texts(file, name) for name in attributes if name in file.attrs}
            found.entries.append({"path": [], "texts": texts, "names": _names(file)})
            for root in roots:
                if isinstance(file.get(root, getlink=True), h5py.HardLink):
                    found.visit(file[root], [root])
    except UnreadableError:
        raise
    except MemoryError as error:
        raise UnreadableError("it needs more memory than its size allows") from error
    except Exception as error:  # h5py raises what a damaged file makes it raise
        raise UnreadableError((str(error).strip().splitlines() or [type(error).__name__])[0][:200]) from error
    return found.entries, found.arrays


def replace_arrays(content: bytes, paths: list[str], arrays: list[Any]) -> bytes:
    """Return the file with other numbers in the arrays at these paths, of the same shape and type."""
    import h5py

    buffer = io.BytesIO(content)
    try:
        with h5py.File(buffer, "r+") as file:
            for path, array in zip(paths, arrays, strict=True):
                dataset = file[path]
                if dataset.shape != array.shape or dataset.dtype != array.dtype:
                    raise UnreadableError(f"{path[-80:]!r} has another shape or type than the new weights")
                dataset[...] = array
    except UnreadableError:
        raise
    except Exception as error:  # h5py raises what a damaged file makes it raise
        raise UnreadableError((str(error).strip().splitlines() or [type(error).__name__])[0][:200]) from error
    return buffer.getvalue()


def _names(group: Any) -> list[str]:
    names = list(group)
    if not all(isinstance(name, str) for name in names):  # h5py gives bytes that are no UTF-8 as bytes
        raise UnreadableError("has a name that is not text")
    return names


def _texts(item: Any, name: str) -> list[str]:
    """Return a text attribute as a list; Keras writes an empty list of floats where there are no names."""
    import h5py

    kind = item.attrs.get_id(name)
    count = 0 if kind.shape is None else math.prod(kind.shape)
    if count == 0:
        return []
    if h5py.check_string_dtype(kind.dtype) is None or count > _MOST_TEXTS:
        raise UnreadableError(f"the attribute {name!r} is not a list of texts")
    value = item.attrs[name]
    return [text if isinstance(text, str) else bytes(text).decode() for text in _flat(value)]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, str | bytes):
        yield value
    else:
        yield from value.reshape(-1).tolist()


def _limit(seconds: int, memory: int) -> None:
    """Ask the system to end this process when it uses more processor time or memory than a good file needs."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # where there are no such limits, the caller's remains
        import resource

        end = math.ceil(time.process_time()) + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (end, end + 5))
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))


def main() -> None:
    """Answer the request in the first argument about the file on standard input."""
    request = json.loads(sys.argv[1])
    sys.path[:] = request["sys.path"]
    import h5py  # noqa: F401  its libraries are loaded before memory is limited
    import numpy as np

    content = sys.stdin.buffer.read()
    _limit(request["seconds"], request["memory"])
    arrays: list[Any] = []
    members: dict[str, Any] = {}
    answer: dict[str, Any] = {}
    try:
        if "paths" in request:
            new = np.load(io.BytesIO(content[request["size"] :]), allow_pickle=False)
            numbers = [new[str(i)] for i in range(len(request["paths"]))]
            changed = replace_arrays(content[: request["size"]], request["paths"], numbers)
            members[FILE] = np.frombuffer(changed, np.uint8)
        else:
            answer["entries"], arrays = extract(content, request["roots"], request["attributes"])
    except UnreadableError as error:
        answer = {"unreadable": str(error)}
    members |= {str(i): array for i, array in enumerate(arrays)}
    members[LISTING] = np.frombuffer(json.dumps(answer).encode(), np.uint8)
    out = io.BytesIO()
    np.savez(out, **members)
    sys.stdout.buffer.write(out.getbuffer())


if __name__ == "__main__":
    main()

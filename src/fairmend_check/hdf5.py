"""Read HDF5 as Keras writes it: plain groups, contiguous arrays of floats, and attributes of text.

The format allows far more: links out of the file, data in other files, filters that run code, arrays of any declared
size. The reader refuses all of that, and checks every read against the end of the file before it allocates memory. The
C library does not: damaged files can make it run forever. Names in brackets are those of the HDF5 specification.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError

SIGNATURE = b"\x89HDF\r\n\x1a\n"

_MOST = 100_000  # links, messages and heap objects in one file
_DATASPACE, _DATATYPE, _LAYOUT, _ATTRIBUTE, _CONTINUATION, _SYMBOL_TABLE = 0x01, 0x03, 0x08, 0x0C, 0x10, 0x11
_REFUSED = {
    0x02: "a group of a newer kind",
    0x06: "a link of a newer kind, maybe to another file",
    0x07: "data in another file",
    0x0B: "compressed or filtered data",
}
# Class, bit field, size and properties of an IEEE number, little-endian.
_FLOATS = {
    bytes.fromhex("11201f0004000000" + "0000200017080017" + "7f000000"): "<f4",
    bytes.fromhex("11203f0008000000" + "00004000340b0034" + "ff030000"): "<f8",
}
_TEXT, _VARIABLE = 3, 9

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class _Message:
    kind: int
    flags: int
    body: memoryview


@dataclass(frozen=True)
class Node:
    """A group or an array. ``links`` maps names in a group to addresses (None: a symbolic link); None for an array."""

    path: str
    messages: tuple[_Message, ...]
    links: dict[str, int | None] | None


@dataclass
class Hdf5:
    """An HDF5 file. Start from `root` and find its parts by name."""

    content: memoryview
    _budget: list[int] = field(default_factory=lambda: [_MOST])

    @property
    def root(self) -> Node:
        """The root group, after checking that the file is of the oldest version, which h5py writes by default."""
        if bytes(self.content[:8]) != SIGNATURE:
            raise CheckError("this is not an HDF5 file")
        head = self._cut(0, 96)
        if head[8] != 0 or (head[13], head[14]) != (8, 8) or _number(head, 24) != 0:
            raise CheckError("this is an HDF5 file of a newer version; save it with h5py's default settings")
        if _number(head, 40) > len(self.content):
            raise CheckError("the file is truncated")
        return self._node(_number(head, 64), "")

    def find(self, start: Node, path: list[str]) -> Node | None:
        """Return the group or array at a path; None if there is none."""
        node = start
        for name in path:
            if node.links is None or name not in node.links:
                return None
            address = node.links[name]
            if address is None:
                raise CheckError(f'"{name[:40]}" is a link, which is not followed')
            node = self._node(address, f"{node.path}/{name}")
        return node

    def array(self, node: Node) -> Floats:
        """Return an array of at most two dimensions, which must be stored contiguously."""
        where = f'array "{node.path[-60:]}"'
        space, kind, layout = (self._one(node, part) for part in (_DATASPACE, _DATATYPE, _LAYOUT))
        shape, stored = _shape(space), next((f for known, f in _FLOATS.items() if bytes(kind[:20]) == known), None)
        if stored is None or shape is None or len(shape) > 2:
            raise CheckError(f"{where} does not consist of float32 or float64 numbers in at most two dimensions")
        dtype = np.dtype(stored)
        size = math.prod(shape) * dtype.itemsize
        if layout[0] != 3 or layout[1] not in (0, 1):
            raise CheckError(f"{where} is not stored contiguously")
        if layout[1] == 0:
            data = _part(layout, 4, struct.unpack_from("<H", layout, 2)[0])
        else:
            data = self._cut(_number(layout, 2), _number(layout, 10))
        if len(data) != size:
            raise CheckError(f"{where} has {len(data):,} bytes, but its shape needs {size:,}")
        return np.frombuffer(data, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))

    def texts(self, node: Node, name: str) -> list[str] | None:
        """Return an attribute of texts; None if there is none of that name."""
        for message in node.messages:
            if message.kind == _ATTRIBUTE:
                found, kind, space, data = _attribute(message)
                if found == name.encode("utf-8"):
                    return self._texts(kind, space, data, f'attribute "{name[:40]}"')
        return None

    def _texts(self, kind: memoryview, space: memoryview, data: memoryview, where: str) -> list[str]:
        shape = _shape(space)
        if shape is None or len(shape) > 1:
            raise CheckError(f"{where} is not a text or a list of texts")
        count, size = math.prod(shape), struct.unpack_from("<I", kind, 4)[0]
        if count == 0:
            return []  # Keras writes an empty list as numbers
        self._spend(count)
        if kind[0] & 15 == _TEXT:
            pieces = [bytes(_part(data, i * size, size)).rstrip(b"\0") for i in range(count)]
        elif kind[0] & 15 == _VARIABLE and kind[1] & 15 == 1:
            pieces = [self._heap_object(_part(data, i * 16, 16)) for i in range(count)]
        else:
            raise CheckError(f"{where} contains a value that is not a text")
        return [piece.decode("utf-8") for piece in pieces]

    def _heap_object(self, reference: memoryview) -> bytes:
        """Return a text of variable length from the global heap [GCOL]."""
        length, address, index = struct.unpack("<IQI", reference)
        if length == 0:
            return b""
        head = self._cut(address, 16)
        if bytes(head[:4]) != b"GCOL":
            raise CheckError("a text is missing from the file")
        heap, position = self._cut(address, _number(head, 8)), 16
        while position + 16 <= len(heap):
            self._spend(1)
            number, size = struct.unpack_from("<H", heap, position)[0], _number(heap, position + 8)
            if number == index:
                if length > size:
                    raise CheckError("a text is longer than its space in the file")
                return bytes(_part(heap, position + 16, length))
            if number == 0:
                break
            position += 16 + size + -size % 8
        raise CheckError("a text is missing from the file")

    def _node(self, address: int, path: str) -> Node:
        messages = tuple(self._messages(address))
        for message in messages:
            if message.kind in _REFUSED:
                raise CheckError(f'"{path[-60:] or "/"}" is {_REFUSED[message.kind]}, which cannot be checked')
        tables = [message.body for message in messages if message.kind == _SYMBOL_TABLE]
        if not tables:
            return Node(path, messages, None)
        heap = self._cut(_number(tables[0], 8), 32)
        if bytes(heap[:4]) != b"HEAP":
            raise CheckError(f'group "{path[-60:]}" is damaged')
        names = self._cut(_number(heap, 24), _number(heap, 8))
        links: dict[str, int | None] = {}
        for name, target in self._entries(_number(tables[0], 0), names, 0):
            if name in links:
                raise CheckError(f'the file contains "{name[:40]}" twice')
            links[name] = target
        return Node(path, messages, links)

    def _messages(self, address: int) -> Iterator[_Message]:
        """Yield the messages of an object header of version 1, its continuations among them."""
        head = self._cut(address, 16)
        if head[0] != 1:
            raise CheckError("the file contains an object of a newer version; save it with h5py's default settings")
        blocks = [self._cut(address + 16, struct.unpack_from("<I", head, 8)[0])]
        for block in blocks:
            position = 0
            while position + 8 <= len(block):
                self._spend(1)
                kind, size, flags = struct.unpack_from("<HHB", block, position)
                message = _Message(kind, flags, _part(block, position + 8, size))
                position += 8 + size
                if kind == _CONTINUATION:
                    blocks.append(self._cut(_number(message.body, 0), _number(message.body, 8)))
                yield message

    def _entries(self, address: int, names: memoryview, depth: int) -> Iterator[tuple[str, int | None]]:
        """Yield name and address of what a group holds, from the tree [TREE] of leaves [SNOD] of the group."""
        head = self._cut(address, 24)
        if bytes(head[:4]) != b"TREE" or head[4] != 0 or depth > 8:
            raise CheckError("a group is damaged")
        count = struct.unpack_from("<H", head, 6)[0]
        children = self._cut(address + 24, 16 * count + 8)
        for number in range(count):
            self._spend(1)
            child = _number(children, 16 * number + 8)
            if head[5]:
                yield from self._entries(child, names, depth + 1)
            else:
                yield from self._leaf(child, names)

    def _leaf(self, address: int, names: memoryview) -> Iterator[tuple[str, int | None]]:
        head = self._cut(address, 8)
        if bytes(head[:4]) != b"SNOD":
            raise CheckError("a group is damaged")
        for number in range(struct.unpack_from("<H", head, 6)[0]):
            self._spend(1)
            entry = self._cut(address + 8 + 40 * number, 40)
            start = _number(entry, 0)
            text = bytes(_part(names, start, min(1024, max(0, len(names) - start)))).split(b"\0")[0]
            plain = struct.unpack_from("<I", entry, 16)[0] in (0, 1)  # 2 is a symbolic link
            yield text.decode("utf-8"), _number(entry, 8) if plain else None

    def _one(self, node: Node, kind: int) -> memoryview:
        found = [message for message in node.messages if message.kind == kind]
        if len(found) != 1 or found[0].flags & 2:
            raise CheckError(f'"{node.path[-60:]}" is not a plain array')
        return found[0].body

    def _cut(self, start: int, size: int) -> memoryview:
        return _part(self.content, start, size)

    def _spend(self, amount: int) -> None:
        """Count the parts read, so that reading ends even if they refer to each other in a circle."""
        self._budget[0] -= amount
        if self._budget[0] < 0:
            raise CheckError("the file has too many parts, or its parts refer to each other in a circle")


def _part(data: memoryview, start: int, size: int) -> memoryview:
    if start + size > len(data):
        raise CheckError("the file is truncated or damaged")
    return data[start : start + size]


def _number(data: memoryview, position: int) -> int:
    return int(struct.unpack("<Q", _part(data, position, 8))[0])


def _attribute(message: _Message) -> tuple[bytes, memoryview, memoryview, memoryview]:
    """Return an attribute's name, datatype, dataspace and data."""
    body = message.body
    version, flags, *sizes = struct.unpack_from("<BBHHH", body)
    if version not in (1, 2, 3) or message.flags & 2 or (version > 1 and flags):
        raise CheckError("the file contains an attribute of an unknown kind")
    position, parts = 8 + (version == 3), []
    for size in sizes:
        parts.append(_part(body, position, size))
        position += size + (-size % 8 if version == 1 else 0)
    return bytes(parts[0]).split(b"\0")[0], parts[1], parts[2], body[position:]


def _shape(space: memoryview) -> list[int] | None:
    """Return the shape in a dataspace; None for an empty one."""
    version, rank, _, kind = struct.unpack_from("<BBBB", space)
    if version not in (1, 2) or (version == 2 and kind == 2):
        return None
    start = 8 if version == 1 else 4
    return [_number(space, start + 8 * i) for i in range(rank)]

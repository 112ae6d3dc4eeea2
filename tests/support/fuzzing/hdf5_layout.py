"""Where the fields of an HDF5 file lie, for tests that change single ones; for files that libhdf5 wrote by default."""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["Field", "fields"]


@dataclass(frozen=True)
class Field:
    """A field: its place, its number of bytes, what it is, and the object it belongs to, as a path."""

    start: int
    size: int
    label: str
    path: str = ""


def fields(content: bytes) -> list[Field]:
    """Return the fields of a file, from the superblock down to the texts."""
    walk = _Walk(content)
    walk.superblock()
    return walk.found


class _Walk:
    def __init__(self, content: bytes) -> None:
        self.content, self.found = content, []
        self._heaps: set[int] = set()

    def _add(self, start: int, path: str, *parts: tuple[str, int]) -> None:
        for label, size in parts:
            self.found.append(Field(start, size, label, path))
            start += size

    def _number(self, place: int) -> int:
        return int(struct.unpack_from("<Q", self.content, place)[0])

    def superblock(self) -> None:
        self._add(0, "/", ("signature", 8), *[("superblock", 1)] * 8, ("leaf rank", 2), ("tree rank", 2), ("flags", 4))
        self._add(24, "/", ("base", 8), ("free space", 8), ("end", 8), ("driver", 8))
        self._entry(56, "/")
        self._object(self._number(64), "/")

    def _entry(self, place: int, path: str) -> None:
        self._add(place, path, ("name place", 8), ("header address", 8), ("cache", 4), ("reserved", 4))
        self._add(place + 24, path, ("cached tree", 8), ("cached heap", 8))

    def _object(self, address: int, path: str) -> None:
        parts = (("version", 1), ("reserved", 1), ("messages", 2), ("references", 4), ("header size", 4), ("pad", 4))
        self._add(address, path, *parts)
        blocks = [(address + 16, struct.unpack_from("<I", self.content, address + 8)[0])]
        for start, size in blocks:
            place = start
            while place < start + size:
                kind, length = struct.unpack_from("<HH", self.content, place)
                self._add(place, path, ("kind", 2), ("length", 2), ("message flags", 1), ("reserved", 3))
                self._message(kind, place + 8, length, path, blocks)
                place += 8 + length

    def _message(self, kind: int, place: int, length: int, path: str, blocks: list[tuple[int, int]]) -> None:
        if kind == 0x10:
            self._add(place, path, ("continuation", 8), ("continuation size", 8))
            blocks.append((self._number(place), self._number(place + 8)))
        elif kind == 0x11:
            self._add(place, path, ("tree", 8), ("heap", 8))
            self._heap(self._number(place + 8), path)
            heap = self._number(self._number(place + 8) + 24)
            self._tree(self._number(place), heap, path)
        elif kind == 0x0C:
            self._attribute(place, path)
        elif kind == 0x08:
            self._add(place, path, ("layout version", 1), ("layout class", 1), ("data address", 8), ("data size", 8))
            self._add(self._number(place + 2), path, ("data", self._number(place + 10)))
        elif kind == 0x01:
            self._space(place, path)
        else:
            self._add(place, path, *[(f"message {kind:#x}", 1)] * length)

    def _space(self, place: int, path: str) -> None:
        rank = self.content[place + 1]
        self._add(
            place, path, ("space", 1), ("rank", 1), ("space flags", 1), ("reserved", 5), *[("shape", 8)] * 2 * rank
        )

    def _attribute(self, place: int, path: str) -> None:
        sizes = struct.unpack_from("<HHH", self.content, place + 2)
        parts = (("attribute version", 1), ("reserved", 1), ("name size", 2), ("type size", 2), ("space size", 2))
        self._add(place, path, *parts)
        name, kind, space = place + 8, place + 8 + sizes[0] + -sizes[0] % 8, 0
        space = kind + sizes[1] + -sizes[1] % 8
        self._add(name, path, ("attribute name", sizes[0]))
        self._add(kind, path, *[("attribute type", 1)] * 4, ("text size", 4), *[("attribute type", 1)] * (sizes[1] - 8))
        self._space(space, path)
        count = 1
        for i in range(self.content[space + 1]):
            count *= self._number(space + 8 + 8 * i)
        data = space + sizes[2] + -sizes[2] % 8
        for i in range(count):
            if self.content[kind] & 15 == 9:
                self._add(data + 16 * i, path, ("text length", 4), ("text heap", 8), ("text index", 4))
                self._texts(self._number(data + 16 * i + 4), path)
            else:
                size = struct.unpack_from("<I", self.content, kind + 4)[0]
                self._add(data + size * i, path, ("text", size))

    def _texts(self, address: int, path: str) -> None:
        if address in self._heaps:
            return
        self._heaps.add(address)
        self._add(address, path, ("signature", 4), ("version", 1), ("reserved", 3), ("heap size", 8))
        place, end = address + 16, address + self._number(address + 8)
        while place + 16 <= end:
            index, size = struct.unpack_from("<H", self.content, place)[0], self._number(place + 8)
            self._add(place, path, ("object index", 2), ("references", 2), ("reserved", 4), ("object size", 8))
            if index == 0:
                break
            self._add(place + 16, path, ("text", size))
            place += 16 + size + -size % 8

    def _heap(self, address: int, path: str) -> None:
        self._add(address, path, ("signature", 4), ("version", 4), ("heap size", 8), ("free list", 8), ("names at", 8))
        start, size = self._number(address + 24), self._number(address + 8)
        self._add(start, path, ("names", size))
        free = self._number(address + 16)
        if free != 1:
            self._add(start + free, path, ("next free", 8), ("free size", 8))

    def _tree(self, address: int, heap: int, path: str) -> None:
        level, count = struct.unpack_from("<BH", self.content, address + 5)
        parts = (("signature", 4), ("tree kind", 1), ("level", 1), ("entries", 2), ("left", 8), ("right", 8))
        self._add(address, path, *parts, ("key", 8))
        for number in range(count):
            child = self._number(address + 32 + 16 * number)
            self._add(address + 32 + 16 * number, path, ("child", 8), ("key", 8))
            if level:
                self._tree(child, heap, path)
                continue
            self._add(child, path, ("signature", 4), ("version", 1), ("reserved", 1), ("entries", 2))
            for place in range(child + 8, child + 8 + 40 * struct.unpack_from("<H", self.content, child + 6)[0], 40):
                start = heap + self._number(place)
                name = self.content[start : self.content.index(b"\0", start)]
                below = f"{path.rstrip('/')}/{name.decode(errors='replace')}"
                self._entry(place, below)
                self._add(start, below, ("name", len(name) + 1))
                self._object(self._number(place + 8), below)

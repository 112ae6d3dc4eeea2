"""Read HDF5 as libhdf5 writes it for Keras: plain groups, contiguous arrays, and attributes of text.

The format allows far more: links out of the file, data in other files, filters that run code, newer kinds of groups.
It also allows to say one thing in many ways, so that two readers of one file can find different networks. This reader
therefore takes only the one way in which libhdf5 writes such files (through h5py, with its default settings):

- Every field must have the value that libhdf5 writes, reserved fields and flags included.
- The whole file is read, from the root down, and no two parts may share a byte: `_Reader._claim` keeps the account.
  Bytes that belong to no part are free space, which no reader looks at.
- Names are sorted and agree with the keys of their tree, so that a search by halves, as in libhdf5, finds what a scan
  finds. No name is empty, is "." or contains "/", which have a meaning in paths.
- No name occurs twice, and no object has two names. Text ends where its padding begins, and contains no zero byte.

Every read is checked against the end of the file before memory is allocated. The C library does not do that: damaged
files can make it run forever. Names in brackets are those of the HDF5 specification.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError

_MOST = 100_000  # links, messages and texts in one file
_DEEPEST = 32  # groups within groups
_NOWHERE = 2**64 - 1  # the address of what does not exist

# What follows the signature: versions, sizes of addresses, ranks of trees, no base address, no list of free space.
_SUPERBLOCK = b"\x89HDF\r\n\x1a\n" + bytes.fromhex("0000000000080800" + "0400100000000000" + "00" * 8 + "ff" * 8)
_LEAF_ENTRIES, _TREE_ENTRIES = 8, 32  # twice the ranks above

_NIL, _DATASPACE, _DATATYPE, _FILL, _LAYOUT, _ATTRIBUTE, _CONTINUATION, _SYMBOL_TABLE, _TIME = (
    0x00, 0x01, 0x03, 0x05, 0x08, 0x0C, 0x10, 0x11, 0x12,
)  # fmt: skip
# The kinds of messages of a group and of an array, with the flags that libhdf5 gives them.
_GROUP = {_NIL: (0,), _ATTRIBUTE: (0, 4), _CONTINUATION: (0,), _SYMBOL_TABLE: (0,)}
_ARRAY = {
    _NIL: (0,), _ATTRIBUTE: (0, 4), _CONTINUATION: (0,), _TIME: (0,),
    _DATASPACE: (0,), _DATATYPE: (1,), _FILL: (1,), _LAYOUT: (0,),
}  # fmt: skip
_NO_FILL_VALUE = bytes.fromhex("0202020100000000")
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
_FIXED_TEXT = bytes.fromhex("13010000")  # padded with zeros, ASCII; its size follows
_VARIABLE_TEXT = [  # ASCII and UTF-8
    bytes.fromhex(f"1901{code}0010000000" + "100000000100000000000800") for code in ("00", "01")
]

Floats = NDArray[np.floating]
Text = str | list[str]


@dataclass(frozen=True, eq=False)
class Array:
    """Numbers of any type, and the texts attached to them."""

    shape: tuple[int, ...]
    datatype: bytes
    data: memoryview
    attributes: dict[str, Text]

    def floats(self, where: str) -> Floats:
        """Return the numbers if they are float32 or float64 in at most four dimensions."""
        if self.datatype not in _FLOATS or len(self.shape) > 4:
            raise CheckError(f"{where} does not consist of float32 or float64 numbers in at most four dimensions")
        stored = np.dtype(_FLOATS[self.datatype])
        return np.frombuffer(self.data, dtype=stored).reshape(self.shape).astype(stored.newbyteorder("="))


@dataclass(frozen=True, eq=False)
class Group:
    """Groups and arrays by their names, and the texts attached to the group: one text, or a list."""

    members: dict[str, Group | Array]
    attributes: dict[str, Text]

    def find(self, *path: str) -> Group | Array | None:
        """Return the group or array at a path; None if there is none."""
        node: Group | Array | None = self
        for name in path:
            node = node.members.get(name) if isinstance(node, Group) else None
        return node


def read_hdf5(content: bytes) -> Group:
    """Return the root group of an HDF5 file."""
    if content[:8] != _SUPERBLOCK[:8]:
        raise CheckError("this is not an HDF5 file")
    reader = _Reader(memoryview(content))
    head = reader.take(0, 96)
    if bytes(head[:40]) != _SUPERBLOCK:
        raise CheckError("this is an HDF5 file of a newer version; save it with h5py's default settings")
    end, driver, name, address, cached, reserved = struct.unpack_from("<QQQQII", head, 40)
    if end != len(content):
        raise CheckError(f"the file has {len(content):,} bytes instead of {end:,}")
    if (driver, name, cached, reserved) != (_NOWHERE, 0, 1, 0):
        raise CheckError("the file is damaged at its root")
    root = reader.object(address, bytes(head[80:]), "", 0)
    if not isinstance(root, Group):
        raise CheckError("the root of the file is not a group")
    return root


@dataclass(frozen=True)
class _Entry:
    """A name in a group: its place in the heap, the address of its object, and what is cached of the object."""

    place: int
    name: str
    address: int
    cached: bytes | None


@dataclass
class _Reader:
    content: memoryview
    _starts: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)
    _heaps: dict[int, dict[int, bytes]] = field(default_factory=dict)
    _left: int = _MOST

    def take(self, start: int, size: int) -> memoryview:
        """Return a part of the file, and keep account of it: no byte belongs to two parts."""
        part = _part(self.content, start, size)
        if size:
            after = bisect(self._starts, start)
            if (after and self._ends[after - 1] > start) or (
                after < len(self._starts) and self._starts[after] < start + size
            ):
                raise CheckError("two parts of the file overlap, or one has two names")
            self._starts.insert(after, start)
            self._ends.insert(after, start + size)
        return part

    def object(self, address: int, cached: bytes | None, path: str, depth: int) -> Group | Array:
        """Return the group or array whose header is at an address, and everything below it."""
        where = f'"{path[-60:] or "/"}"'
        if depth > _DEEPEST:
            raise CheckError("the groups of the file are nested too deeply")
        messages = self._messages(address, where)
        table = _only(messages, _SYMBOL_TABLE, where) if any(kind == _SYMBOL_TABLE for kind, _, _ in messages) else None
        known = _ARRAY if table is None else _GROUP
        for kind, flags, _ in messages:
            if flags not in known.get(kind, ()):
                what = _REFUSED.get(kind, "of a kind that Keras does not write")
                raise CheckError(f"{where} is {what}, which cannot be checked")
        attributes: dict[str, Text] = {}
        for body in (body for kind, _, body in messages if kind == _ATTRIBUTE):
            name, text = self._attribute(body, where)
            if name in attributes:
                raise CheckError(f'{where} has the attribute "{name[:40]}" twice')
            attributes[name] = text
        if cached is not None and (table is None or cached != bytes(table)):
            raise CheckError(f"{where} is damaged: its cached addresses are not its own")
        if table is None:
            return self._array(messages, attributes, where)
        members: dict[str, Group | Array] = {}
        for entry in self._entries(table, where):
            members[entry.name] = self.object(entry.address, entry.cached, f"{path}/{entry.name}", depth + 1)
        return Group(members, attributes)

    def _array(self, messages: list[tuple[int, int, memoryview]], attributes: dict[str, Text], where: str) -> Array:
        space, kind, fill, layout = (_only(messages, part, where) for part in (_DATASPACE, _DATATYPE, _FILL, _LAYOUT))
        shape, datatype = _shape(space, where), _datatype(kind, where)
        if bytes(fill) != _NO_FILL_VALUE:
            raise CheckError(f"{where} has a fill value")
        if len(layout) != 24 or bytes(layout[:2]) != b"\x03\x01" or any(layout[18:]):
            raise CheckError(f"{where} is not stored contiguously")
        address, size = struct.unpack_from("<QQ", layout, 2)
        needed = math.prod(shape) * _item_size(datatype)
        if size != needed:
            raise CheckError(f"{where} has {size:,} bytes, but its shape needs {needed:,}")
        data = self.take(address, size) if size else memoryview(b"")
        return Array(shape, datatype, data, attributes)

    def _messages(self, address: int, where: str) -> list[tuple[int, int, memoryview]]:
        """Return kind, flags and body of the messages in an object header of version 1 and in its continuations."""
        head = self.take(address, 16)
        version, reserved, count, references, size, padding = struct.unpack("<BBHIII", head)
        if version != 1:
            raise CheckError("the file contains an object of a newer version; save it with h5py's default settings")
        if (reserved, references, padding) != (0, 1, 0):
            raise CheckError(f"{where} has two names or is damaged")
        blocks, messages = [self.take(address + 16, size)], []
        for block in blocks:
            position = 0
            while position < len(block):
                self._spend(1)
                kind, length, flags = struct.unpack_from("<HHB", _part(block, position, 8))
                body = _part(block, position + 8, length)
                if length % 8 or any(block[position + 5 : position + 8]):
                    raise CheckError(f"{where} is damaged")
                position += 8 + length
                messages.append((kind, flags, body))
                if kind == _CONTINUATION:
                    blocks.append(self.take(*struct.unpack("<QQ", body)))
        if len(messages) != count:
            raise CheckError(f"{where} has {len(messages)} messages instead of {count}")
        return messages

    def _attribute(self, body: memoryview, where: str) -> tuple[str, Text]:
        """Return name and value of an attribute [version 1], each part of which is padded to 8 bytes."""
        version, reserved, *sizes = struct.unpack_from("<BBHHH", body)
        position, parts = 8, []
        for size in sizes:
            parts.append(_part(body, position, size))
            position += size + -size % 8
            if any(_part(body, position - (-size % 8), -size % 8)):
                raise CheckError(f"{where} has an attribute with data in its padding")
        name = bytes(parts[0]).rstrip(b"\0").decode("ascii")
        if (version, reserved) != (1, 0) or bytes(parts[0]) != name.encode("ascii") + b"\0" or "\0" in name:
            raise CheckError(f"{where} has an attribute of an unknown kind")
        shape, datatype = _shape(parts[2], where), bytes(parts[1])
        if len(shape) > 1:
            raise CheckError(f'attribute "{name[:40]}" is not a text or a list of texts')
        count, size = math.prod(shape), _item_size(datatype)
        data = _part(body, position, count * size)
        if len(body) - position != len(data) + -len(data) % 8 or any(body[position + len(data) :]):
            raise CheckError(f'attribute "{name[:40]}" does not have the size of its values')
        self._spend(count)
        texts = [
            self._text(datatype, data[i * size : (i + 1) * size], f'attribute "{name[:40]}"') for i in range(count)
        ]
        return name, texts if shape else texts[0]

    def _text(self, datatype: bytes, data: memoryview, where: str) -> str:
        if datatype[:4] == _FIXED_TEXT and len(datatype) == 8:
            text = bytes(data).rstrip(b"\0")
        elif datatype in _VARIABLE_TEXT:
            length, address, index = struct.unpack("<IQI", data)
            text = self._heap(address).pop(index, b"")
            if len(text) != length or length == 0:
                raise CheckError(f"{where} contains a text that is missing from the file, empty or used twice")
        else:
            raise CheckError(f"{where} contains a value that is not a text as h5py writes it")
        if b"\0" in text:
            raise CheckError(f"{where} contains a zero byte within a text")
        return text.decode("utf-8")

    def _heap(self, address: int) -> dict[int, bytes]:
        """Return the texts of variable length in a global heap [GCOL] by their numbers."""
        if address in self._heaps:
            return self._heaps[address]
        head = _part(self.content, address, 16)
        if bytes(head[:8]) != b"GCOL\x01\0\0\0":
            raise CheckError("a text is missing from the file")
        heap, position = self.take(address, _number(head, 8)), 16
        found: dict[int, bytes] = {}
        while position + 16 <= len(heap):
            self._spend(1)
            index, _, reserved, size = struct.unpack_from("<HHIQ", heap, position)
            if reserved or index in found or (index == 0 and size != len(heap) - position):
                raise CheckError("a heap of texts is damaged")
            if index == 0:  # free space up to the end
                break
            found[index] = bytes(_part(heap, position + 16, size))
            position += 16 + size + -size % 8
        self._heaps[address] = found
        return found

    def _entries(self, table: memoryview, where: str) -> list[_Entry]:
        """Return what a group holds, in the order of names."""
        if len(table) != 16:
            raise CheckError(f"{where} is damaged")
        tree, heap = struct.unpack("<QQ", table)
        entries: list[_Entry] = []
        nodes: dict[int, list[tuple[int, int, int]]] = {}
        self._tree(tree, None, self._names(heap, where), entries, nodes)
        for level in nodes.values():
            for number, (_, left, right) in enumerate(level):
                before = level[number - 1][0] if number else _NOWHERE
                after = level[number + 1][0] if number + 1 < len(level) else _NOWHERE
                if (left, right) != (before, after):
                    raise CheckError(f"{where} is damaged: its tree is not linked in order")
        return entries

    def _names(self, address: int, where: str) -> memoryview:
        """Return the part of a local heap [HEAP] that holds names; one free block may follow it, up to the end."""
        head = self.take(address, 32)
        size, free, start = struct.unpack_from("<QQQ", head, 8)
        names = self.take(start, size)
        if bytes(head[:8]) != b"HEAP\0\0\0\0" or bytes(names[:8]) != bytes(8):
            raise CheckError(f"{where} is damaged: it has no names")
        if free != 1:  # there is a free block
            following, length = struct.unpack("<QQ", _part(names, free, 16))
            if following != 1 or free + length != size or free % 8:
                raise CheckError(f"{where} is damaged: its names have gaps")
            names = names[:free]
        return names

    def _tree(
        self,
        address: int,
        level: int | None,
        names: memoryview,
        entries: list[_Entry],
        nodes: dict[int, list[tuple[int, int, int]]],
    ) -> None:
        """Add the entries of a tree [TREE] over leaves [SNOD], whose keys are the last names before and in each."""
        node = self.take(address, 24 + 16 * _TREE_ENTRIES + 8)
        signature, kind, own, count, left, right = struct.unpack_from("<4sBBHQQ", node)
        known = signature == b"TREE" and kind == 0 and own < 8 and own == (own if level is None else level)
        if not known or count > _TREE_ENTRIES or (count == 0 and level is not None):
            raise CheckError("a group is damaged: its tree is not of the kind that holds names")
        nodes.setdefault(own, []).append((address, left, right))
        for number in range(count):
            before, child, last = struct.unpack_from("<QQQ", node, 24 + 16 * number)
            if before != (entries[-1].place if entries else 0):
                raise CheckError("a group is damaged: its tree and its names differ")
            if own:
                self._tree(child, own - 1, names, entries, nodes)
            else:
                self._leaf(child, names, entries)
            if last != entries[-1].place:
                raise CheckError("a group is damaged: its tree and its names differ")

    def _leaf(self, address: int, names: memoryview, entries: list[_Entry]) -> None:
        leaf = self.take(address, 8 + 40 * _LEAF_ENTRIES)
        signature, version, reserved, count = struct.unpack_from("<4sBBH", leaf)
        if (signature, version, reserved) != (b"SNOD", 1, 0) or not 0 < count <= _LEAF_ENTRIES:
            raise CheckError("a group is damaged: it has a leaf of an unknown kind")
        for number in range(count):
            self._spend(1)
            place, target, cached, reserved, scratch = struct.unpack_from("<QQII16s", leaf, 8 + 40 * number)
            name = _name(names, place)
            if cached not in (0, 1) or reserved:
                raise CheckError(f'"{name[:40]}" is a link, which is not followed')
            if not cached and any(scratch):
                raise CheckError(f'"{name[:40]}" is damaged')
            if entries and not entries[-1].name.encode("utf-8") < name.encode("utf-8"):
                raise CheckError(f'the names in a group are not sorted, at "{name[:40]}"')
            entries.append(_Entry(place, name, target, scratch if cached else None))

    def _spend(self, amount: int) -> None:
        """Count the parts read, so that the work is limited."""
        self._left -= amount
        if self._left < 0:
            raise CheckError("the file has too many parts")


def _part(data: memoryview, start: int, size: int) -> memoryview:
    if start + size > len(data):
        raise CheckError("the file is truncated or damaged")
    return data[start : start + size]


def _number(data: memoryview, position: int) -> int:
    return int(struct.unpack("<Q", _part(data, position, 8))[0])


def _only(messages: list[tuple[int, int, memoryview]], wanted: int, where: str) -> memoryview:
    """Return the one message of a kind."""
    found = [body for kind, _, body in messages if kind == wanted]
    if len(found) != 1:
        raise CheckError(f"{where} is not a plain group or array")
    return found[0]


def _name(names: memoryview, place: int) -> str:
    """Return the name at a place of the heap: it ends with a zero byte, and is one step of a path."""
    text, end, _ = bytes(_part(names, place, min(1024, max(0, len(names) - place)))).partition(b"\0")
    name = text.decode("utf-8")
    if place % 8 or not end or name in ("", ".") or "/" in name:
        raise CheckError(f'the name "{name[:40]}" cannot be part of a path')
    return name


def _datatype(body: memoryview, where: str) -> bytes:
    """Return a datatype without the zeros that pad it to 8 bytes."""
    length = 20 if len(body) == 24 else 12 if len(body) == 16 else 8
    if any(body[length:]):
        raise CheckError(f"{where} has a datatype of an unknown kind")
    return bytes(body[:length])


def _item_size(datatype: bytes) -> int:
    return int(struct.unpack_from("<I", datatype, 4)[0])


def _shape(space: memoryview, where: str) -> tuple[int, ...]:
    """Return the shape in a dataspace [version 1], which gives the largest possible shape as well."""
    rank = _part(space, 0, 8)[1]
    head = struct.pack("<BBBBI", 1, rank, rank > 0, 0, 0)
    sizes = struct.unpack_from(f"<{2 * rank}Q", space, 8)
    if bytes(space[:8]) != head or len(space) != 8 + 16 * rank or sizes[:rank] != sizes[rank:]:
        raise CheckError(f"{where} has a shape that is not fixed")
    return sizes[:rank]

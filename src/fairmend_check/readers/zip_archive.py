"""Read zip archives (.pth, .keras) that all programs read alike.

A zip file describes each member twice, in a header before its data and in a directory at the end, and programs differ
in what they believe. Here the headers and the end are encoded again from the directory, in the two ways in which
PyTorch and Python write them, and must equal the bytes of the file. Nothing may come before, between or after them.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from fairmend_check.errors import CheckError

MAX_BYTES = 2**30
_MAX_MEMBERS = 10_000
_END_SIZE, _END64_SIZE, _LOCATOR_SIZE = 22, 56, 20
_ENTRY = struct.Struct("<4s6H3I5H2I")
_STORED, _DEFLATED = 0, 8
_UTF8, _STREAMED = 0x800, 0x808  # flags; streamed: the sizes follow the data, as PyTorch writes them
_REGULAR_FILE = 0o100000
_LARGE = 0xFFFFFFFF
_TORCH_VERSIONS = 0x031E, 45  # of the zip64 end record


@dataclass(frozen=True)
class _Member:
    """An entry of the directory."""

    made_by: int
    needed: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    stored_size: int
    size: int
    name: bytes
    attributes: int
    header_at: int

    def directory_entry(self) -> bytes:
        return self._pack(b"PK\1\2", self.made_by, self.needed, 0, 0, 0, 0, self.attributes, self.header_at)

    def _pack(self, signature: bytes, made_by: int, needed: int, *rest: int) -> bytes:
        common = (self.flags, self.method, self.time, self.date, self.crc, self.stored_size, self.size, len(self.name))
        return _ENTRY.pack(signature, made_by, needed, *common, *rest) + self.name

    def headers(self) -> list[bytes]:
        """Return what the header before the data may be."""
        fixed = struct.pack("<4s5H", b"PK\3\4", self.needed, self.flags, self.method, self.time, self.date)
        name = struct.pack("<H", len(self.name))
        if self.flags == _STREAMED:  # PyTorch pads the header so that the data starts at a multiple of 64
            start = self.header_at + 30 + len(self.name) + 4
            padding = -start % 64
            extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
            return [fixed + bytes(12) + name + struct.pack("<H", len(extra)) + self.name + extra]
        plain = fixed + struct.pack("<3I", self.crc, self.stored_size, self.size) + name + bytes(2) + self.name
        sizes = struct.pack("<HHQQ", 1, 16, self.size, self.stored_size)
        large = struct.pack("<3I", self.crc, _LARGE, _LARGE) + name + struct.pack("<H", len(sizes)) + self.name + sizes
        return [plain, fixed + large]

    def footer(self) -> bytes:
        """Return what follows the data."""
        if self.flags != _STREAMED:
            return b""
        return struct.pack("<4s3I", b"PK\7\x08", self.crc, self.stored_size, self.size)


def read_archive(content: bytes, *, compressed: bool = False) -> dict[str, bytes]:
    """Return the members of an archive by name, in the order of the file; they must be stored unless ``compressed``."""
    members = _directory(content, compressed)
    found: dict[str, bytes] = {}
    position = 0
    for member in members:
        name = _name(member)
        header = next((h for h in member.headers() if content.startswith(h, position)), None)
        if header is None or member.header_at != position:
            raise CheckError(f"the archive describes {name[:60]!r} in two different ways")
        start = position + len(header)
        position = start + member.stored_size
        if not content.startswith(member.footer(), position):
            raise CheckError(f"the archive describes {name[:60]!r} in two different ways")
        found[name] = _data(content[start:position], member, name)
        position += len(member.footer())
    if position != _directory_position(content):
        raise CheckError("the archive contains bytes that belong to no file in it")
    if len({name.casefold() for name in found}) != len(members):
        raise CheckError("the archive contains two files whose names are equal or differ only in case")
    return found


def _directory_position(content: bytes) -> int:
    return struct.unpack_from("<I", content, len(content) - _END_SIZE + 16)[0]  # type: ignore[no-any-return]


def _directory(content: bytes, compressed: bool) -> list[_Member]:
    """Return the entries of the directory, which reaches to the end of the file."""
    end_at = len(content) - _END_SIZE
    if not content.startswith(b"PK\3\4") or not content.startswith(b"PK\5\6", max(end_at, 0)):
        raise CheckError("the file is not a zip archive from its first byte to its last")
    count, size, start = struct.unpack_from("<HII", content, end_at + 10)
    if count > _MAX_MEMBERS or start + size > end_at:
        raise CheckError("the directory of the archive does not fit the file")
    members, position = [], start
    for _ in range(count):
        member = _entry(content, position, start + size)
        if member.method != _STORED and not (compressed and member.method == _DEFLATED):
            raise CheckError("the archive is compressed, but this format is always stored uncompressed")
        members.append(member)
        position += len(member.directory_entry())
    if position != start + size or content[position:] not in _ends(count, size, start):
        raise CheckError("the archive does not end with its directory")
    if sum(member.size for member in members) > MAX_BYTES:
        raise CheckError(f"the archive contains more than {MAX_BYTES:,} bytes")
    return members


def _entry(content: bytes, position: int, end: int) -> _Member:
    if position + _ENTRY.size > end:
        raise CheckError("the directory of the archive is truncated")
    _, made_by, needed, flags, method, time, date, crc, stored_size, size, length, *_, attributes, header_at = (
        _ENTRY.unpack_from(content, position)
    )
    name = content[position + _ENTRY.size : position + _ENTRY.size + length]
    member = _Member(
        made_by, needed, flags, method, time, date, crc, stored_size, size, name, attributes, header_at
    )  # fmt: skip
    if flags not in (0, _UTF8, _STREAMED) or (method == _STORED and size != stored_size) or not stored_size < _LARGE:
        raise CheckError("the archive uses flags or sizes that neither PyTorch nor Python writes")
    if attributes & 0xFFFF or (attributes >> 16) & 0o170000 not in (0, _REGULAR_FILE):
        raise CheckError("the archive contains an entry that is not a plain file")
    if not content.startswith(member.directory_entry(), position):
        raise CheckError("the archive contains comments or fields that neither PyTorch nor Python writes")
    return member


def _ends(count: int, size: int, start: int) -> list[bytes]:
    """Return what may follow the directory: the end record, and before it PyTorch's 64-bit form of the same."""
    end = struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, count, count, size, start, 0)
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", _END64_SIZE - 12, *_TORCH_VERSIONS, 0, 0, count, count, size, start)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, start + size, 1)
    return [end, end64 + locator + end]


def _name(member: _Member) -> str:
    try:
        name = member.name.decode("utf-8" if member.flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        raise CheckError("the archive contains a name that is not UTF-8 text") from error
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise CheckError(f"the archive contains a file with the name {name[:60]!r}, which is not a plain path")
    return name


def _data(stored: bytes, member: _Member, name: str) -> bytes:
    data = stored
    if member.method == _DEFLATED:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = stream.decompress(stored, member.size + 1)
        except zlib.error as error:
            raise CheckError(f"{name[:60]!r} in the archive is damaged ({error})") from error
        if not stream.eof or stream.unused_data or stream.unconsumed_tail:
            raise CheckError(f"{name[:60]!r} in the archive does not have the size that the archive says")
    if len(data) != member.size or zlib.crc32(data) != member.crc:
        raise CheckError(f"{name[:60]!r} in the archive is damaged")
    return data

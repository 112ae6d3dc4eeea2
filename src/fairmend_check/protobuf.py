"""Read the wire format of protocol buffers, as far as ONNX files use it."""

from __future__ import annotations

from collections.abc import Iterator

from fairmend_check.errors import CheckError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Value = int | memoryview


def fields(message: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Yield number, wire type and value of each field of a message, in order."""
    position, end = 0, len(message)
    while position < end:
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        value: Value
        if kind == VARINT:
            value, position = _varint(message, position)
        else:
            if kind == BYTES:
                size, position = _varint(message, position)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
            else:
                raise CheckError("not an ONNX file (unknown wire type)")
            if size > end - position:
                raise CheckError("the file is truncated")
            value, position = message[position : position + size], position + size
        yield number, kind, value


def collect(message: memoryview) -> dict[int, list[tuple[int, Value]]]:
    """Return all fields of a message by number: wire type and value of each occurrence."""
    found: dict[int, list[tuple[int, Value]]] = {}
    for number, kind, value in fields(message):
        found.setdefault(number, []).append((kind, value))
    return found


def messages(found: dict[int, list[tuple[int, Value]]], number: int) -> list[memoryview]:
    """Return a repeated field of messages, texts or bytes."""
    out = []
    for kind, value in found.get(number, []):
        if kind != BYTES or isinstance(value, int):
            raise CheckError(f"field {number} has an unexpected type")
        out.append(value)
    return out


def text(found: dict[int, list[tuple[int, Value]]], number: int) -> str:
    """Return a single text; empty where it is not set."""
    values = messages(found, number)
    return bytes(values[-1]).decode("utf-8") if values else ""


def integers(found: dict[int, list[tuple[int, Value]]], number: int) -> list[int]:
    """Return a repeated field of signed whole numbers, packed or not."""
    out = []
    for kind, value in found.get(number, []):
        if isinstance(value, int):
            out.append(value)
        elif kind == BYTES:
            position = 0
            while position < len(value):
                one, position = _varint(value, position)
                out.append(one)
        else:
            raise CheckError(f"field {number} has an unexpected type")
    return [one - 2**64 if one >= 2**63 else one for one in out]


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise CheckError("the file is truncated")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (2**64 - 1), position
    raise CheckError("not an ONNX file (an unterminated number)")

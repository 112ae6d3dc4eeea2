"""ONNX files byte by byte, as no library writes them: fields in any order, of any wire type, repeated or missing."""

import struct
from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(number: int, length: int = 1) -> bytes:
    """Return a number in at least this many bytes; more than needed are read as the same number."""
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80 or len(out) < length - 1:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number: int, value: int | float | str | bytes, wire: int | None = None) -> bytes:
    """Return a field as libraries write it, or with another wire type."""
    if isinstance(value, int):
        kind, payload = VARINT, varint(value)
    elif isinstance(value, float):
        kind, payload = FIXED32, struct.pack("<f", value)
    else:
        kind, payload = BYTES, value.encode() if isinstance(value, str) else value
    kind = kind if wire is None else wire
    return varint(number << 3 | kind) + (varint(len(payload)) if kind == BYTES else b"") + payload


def tensor(name: str, dims: list[int], *data: bytes, data_type: int = 1) -> bytes:
    return b"".join([*(field(1, one) for one in dims), field(2, data_type), field(8, name), *data])


def attribute(name: str, *value: bytes, kind: int) -> bytes:
    """Return an attribute; kind 1 is a float, 2 a whole number."""
    return field(1, name) + b"".join(value) + field(20, kind)


def node(operator: str, inputs: str, output: str, *attributes: bytes, extra: bytes = b"") -> bytes:
    names = b"".join(field(1, name) for name in inputs.split())
    return names + field(2, output) + field(4, operator) + b"".join(field(5, one) for one in attributes) + extra


def value_info(name: str, columns: int, element: int = 1) -> bytes:
    dims = field(1, field(2, "batch")) + field(1, field(1, columns))
    return field(1, name) + field(2, field(1, field(1, element) + field(2, dims)))


@dataclass
class Parts:
    """The parts of a model, each as bytes, which a test may replace."""

    nodes: list[bytes]
    tensors: list[bytes]
    inputs: list[bytes]
    outputs: list[bytes]
    head: bytes = field(1, 8)
    opsets: bytes = field(8, field(1, "") + field(2, 17))
    graph_end: bytes = b""
    end: bytes = b""

    def content(self) -> bytes:
        parts = [field(1, one) for one in self.nodes] + [field(2, "g")] + [field(5, one) for one in self.tensors]
        parts += [field(11, one) for one in self.inputs] + [field(12, one) for one in self.outputs] + [self.graph_end]
        return self.head + field(7, b"".join(parts)) + self.opsets + self.end

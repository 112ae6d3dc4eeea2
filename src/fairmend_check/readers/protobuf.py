"""Read the protocol buffers of ONNX files, and only those that can be read in one way.

Programs disagree about unusual bytes: a field with another wire type is skipped by some and believed by others, and of
a field that occurs twice either may count. So a message is read by the schema of ONNX, written again in the one order
and form that Google's own library writes, and refused if that does not give the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np

from fairmend_check.errors import CheckError

Message = dict[str, Any]  # field name: value, or the list of values of a repeated field; absent fields have no key

# Field number: name and type, as in onnx.proto; * marks a repeated field. Left out are the fields that hold subgraphs,
# functions, other kinds of tensors and the like: "refused" fields are known by name, and no file with them is read.
_TYPE = {
    1: "tensor_type TensorType", 4: "sequence_type refused", 5: "map_type refused", 6: "denotation refused",
    7: "opaque_type refused", 8: "sparse_tensor_type refused", 9: "optional_type refused",
}  # fmt: skip
_SCHEMA = {
    "Model": {
        1: "ir_version int64", 2: "producer_name string", 3: "producer_version string", 4: "domain string",
        5: "model_version int64", 6: "doc_string string", 7: "graph Graph", 8: "opset_import OperatorSetId*",
        14: "metadata_props StringStringEntry*", 20: "training_info refused", 25: "functions refused",
        26: "configuration refused",
    },
    "OperatorSetId": {1: "domain string", 2: "version int64"},
    "StringStringEntry": {1: "key string", 2: "value string"},
    "Graph": {
        1: "node Node*", 2: "name string", 5: "initializer Tensor*", 10: "doc_string string", 11: "input ValueInfo*",
        12: "output ValueInfo*", 13: "value_info ValueInfo*", 14: "quantization_annotation refused",
        15: "sparse_initializer refused", 16: "metadata_props StringStringEntry*",
    },
    "Node": {
        1: "input string*", 2: "output string*", 3: "name string", 4: "op_type string", 5: "attribute Attribute*",
        6: "doc_string string", 7: "domain string", 8: "overload refused", 9: "metadata_props StringStringEntry*",
        10: "device_configurations refused",
    },
    "Attribute": {
        1: "name string", 2: "f float", 3: "i int64", 4: "s string", 5: "t Tensor", 6: "g refused",
        7: "floats float*", 8: "ints int64*", 9: "strings string*", 10: "tensors refused", 11: "graphs refused",
        13: "doc_string string", 14: "tp refused", 15: "type_protos refused", 20: "type int32",
        21: "ref_attr_name refused", 22: "sparse_tensor refused", 23: "sparse_tensors refused",
    },
    "Tensor": {
        1: "dims int64*", 2: "data_type int32", 3: "segment refused", 4: "float_data packed", 5: "int32_data packed",
        6: "string_data string*", 7: "int64_data packed", 8: "name string", 9: "raw_data bytes",
        10: "double_data packed", 11: "uint64_data refused", 12: "doc_string string",
        13: "external_data StringStringEntry*", 14: "data_location int32", 16: "metadata_props StringStringEntry*",
    },
    "ValueInfo": {1: "name string", 2: "type Type", 3: "doc_string string", 4: "metadata_props StringStringEntry*"},
    "Type": _TYPE | {4: "sequence_type SequenceType"},  # in ONNX's schema these are one, which could contain itself
    "SequenceType": {1: "elem_type MapsType"},
    "MapsType": _TYPE | {5: "map_type MapType"},
    "MapType": {1: "key_type int32", 2: "value_type PlainType"},
    "PlainType": _TYPE,
    "TensorType": {1: "elem_type int32", 2: "shape TensorShape"},
    "TensorShape": {1: "dim Dimension*"},
    "Dimension": {1: "dim_value int64", 2: "dim_param string", 3: "denotation refused"},
}  # fmt: skip
# Of a model of which only the edges are read: subgraphs and functions too, and what the edges do not need as its bytes.
# A run is a list of numbers in an attribute, which trees have millions of.
_WHOLE_SCHEMA: dict[str, dict[int, str]] = {
    **_SCHEMA,
    "Model": _SCHEMA["Model"] | {25: "functions Function*"},
    "Function": {
        1: "name string", 4: "input string*", 5: "output string*", 6: "attribute string*", 7: "node Node*",
        8: "doc_string string", 9: "opset_import OperatorSetId*", 10: "domain string", 11: "attribute_proto Attribute*",
        12: "value_info ValueInfo*", 13: "overload refused", 14: "metadata_props StringStringEntry*",
    },
    "Attribute": _SCHEMA["Attribute"] | {
        4: "s bytes", 6: "g Graph", 7: "floats run", 8: "ints run", 9: "strings bytes*", 10: "tensors Tensor*",
        11: "graphs Graph*", 14: "tp bytes", 15: "type_protos bytes*", 21: "ref_attr_name string",
    },
    "Tensor": _SCHEMA["Tensor"] | {6: "string_data bytes*", 11: "uint64_data packed"},
    "ValueInfo": _SCHEMA["ValueInfo"] | {2: "type bytes"},
}  # fmt: skip
# Of these fields of a message the last one counts, and the others are gone.
_ONE_OF = ({"dim_value", "dim_param"}, {"tensor_type", "sequence_type", "map_type"})
_MAX_FIELDS, _MAX_PACKED_BYTES, _PIECE = 4_000_000, 1000, 2**24
_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_WIRE_TYPES = {"int64": _VARINT, "int32": _VARINT, "float": _FIXED32}  # of all other types: _BYTES
_TWO_WAYS = (
    "the file can be read in more than one way: it repeats a field, changes the order of fields or writes a number in "
    "an unusual form. Load it with onnx and save it again"
)


def _field(entry: str) -> tuple[str, str, bool]:
    """Return name and type of a field, and whether it is repeated."""
    name, kind = entry.rstrip("*").split()
    return name, kind, entry.endswith("*")


Fields = dict[str, dict[int, tuple[str, str, bool]]]


def _fields(schema: dict[str, dict[int, str]]) -> Fields:
    return {kind: {number: _field(entry) for number, entry in fields.items()} for kind, fields in schema.items()}


_FIELDS, _WHOLE_FIELDS = _fields(_SCHEMA), _fields(_WHOLE_SCHEMA)


def read_message(kind: str, content: bytes | memoryview, *, whole: bool = False) -> Message:
    """Return a message of this kind, if the content is what Google's library writes for it.

    ``whole`` reads subgraphs and functions as well, and leaves as bytes what the edges of a graph do not need.
    """
    fields, data = _WHOLE_FIELDS if whole else _FIELDS, memoryview(content)
    message = _parse(kind, data, count(), fields)
    if not _are_bytes(_encode(kind, message, fields), data):
        raise CheckError(_TWO_WAYS)
    return message


def _are_bytes(parts: Iterable[bytes | memoryview], data: memoryview) -> bool:
    """Return whether the parts, one after the other, are the data; piece by piece, so that weights are not copied."""
    position = 0
    for part in parts:
        for start in range(0, len(part), _PIECE):
            piece = bytes(part[start : start + _PIECE])
            if piece != bytes(data[position : position + len(piece)]):
                return False
            position += len(piece)
    return position == len(data)


def unpack_integers(packed: memoryview, bits: int) -> list[int]:
    """Return the whole numbers of a packed field, each of so many bits."""
    if len(packed) > _MAX_PACKED_BYTES:
        raise CheckError("a list of whole numbers is too long for a shape or for classes")
    numbers, position = [], 0
    while position < len(packed):
        number, position = _varint(packed, position)
        numbers.append(_signed(number, bits))
    if b"".join(map(_varint_bytes, numbers)) != packed:
        raise CheckError("a packed number is written in an unusual form")
    return numbers


def integers_of_run(run: memoryview) -> list[int]:
    """Return the whole numbers of an attribute, each with its tag."""
    return unpack_integers(memoryview(b"".join(_numbers_of(run))), 64)


def _numbers_of(run: memoryview) -> Iterator[bytes]:
    if len(run) > _MAX_PACKED_BYTES:
        raise CheckError("an attribute has too many whole numbers for axes")
    position = 0
    while position < len(run):
        _, end = _varint(run, position + 1)
        yield bytes(run[position + 1 : end])
        position = end


def _parse(kind: str, data: memoryview, counter: Iterator[int], fields: Fields) -> Message:
    message: Message = {}
    position = 0
    while position < len(data):
        start = position
        if next(counter) >= _MAX_FIELDS:
            raise CheckError(f"the file has more than {_MAX_FIELDS:,} fields")
        key, position = _varint(data, position)
        if key >> 3 not in fields[kind]:
            raise CheckError(f"{kind}Proto has a field {key >> 3}, which this checker does not know")
        name, what, repeated = fields[kind][key >> 3]
        if what == "refused":
            raise CheckError(f"{kind}Proto has {name}, which cannot be checked")
        if what == "run":
            if name in message:  # at once: whoever repeats it often would have all of the rest read each time
                raise CheckError(_TWO_WAYS)
            position = start + _length_of_run(name, data[start:])
            message[name] = data[start:position]
            continue
        if key & 7 != _WIRE_TYPES.get(what, _BYTES):
            raise CheckError(f"{kind}Proto has {name} with the wire type {key & 7}, not that of its schema")
        value: Any
        if what in ("int64", "int32"):
            number, position = _varint(data, position)
            value = _signed(number, int(what[3:]))
        else:
            size, position = (4, position) if what == "float" else _varint(data, position)
            if size > len(data) - position:
                raise CheckError("the file is truncated")
            value, position = _value(what, data[position : position + size], counter, fields), position + size
        if repeated:
            message.setdefault(name, []).append(value)
        else:
            message[name] = value
    if any(len(names & message.keys()) > 1 for names in _ONE_OF):
        raise CheckError(_TWO_WAYS)
    return message


def _length_of_run(name: str, data: memoryview) -> int:
    """Return how many bytes the numbers of an attribute take, each with its tag, which the data begins with."""
    content = np.frombuffer(data, np.uint8)
    if name == "floats":
        others = np.flatnonzero(content[: len(content) // 5 * 5 : 5] != content[0])
        length = 5 * int(others[0] if others.size else len(content) // 5)
        if not length or content[0] != 7 << 3 | _FIXED32:
            raise CheckError("an attribute has floats of another wire type, or is truncated")
        return length
    ends = np.flatnonzero(content < 0x80)  # the last bytes of tags and numbers, in turn
    sizes = np.diff(ends, prepend=-1)
    tags = (content[ends[::2]] == 8 << 3 | _VARINT) & (sizes[::2] == 1)
    count_of_numbers = min(int(tags.argmin()) if not tags.all() else len(tags), len(ends) // 2)
    last, sizes = content[ends[1 : 2 * count_of_numbers : 2]], sizes[1 : 2 * count_of_numbers : 2]
    if not count_of_numbers or ((last == 0) & (sizes > 1)).any() or (sizes > 10).any() or (last[sizes == 10] > 1).any():
        raise CheckError(_TWO_WAYS)
    return int(ends[2 * count_of_numbers - 1]) + 1


def _value(what: str, data: memoryview, counter: Iterator[int], fields: Fields) -> Any:
    if what == "float":
        return struct.unpack("<f", data)[0]
    if what == "string":
        text = bytes(data).decode("utf-8")
        if "\0" in text:  # where some programs end a text
            raise CheckError("a text contains a NUL character")
        return text
    return _parse(what, data, counter, fields) if what in fields else data


def _encode(kind: str, message: Message, fields: Fields) -> list[bytes | memoryview]:
    """Return the bytes of a message in parts, so that weights are not copied."""
    parts: list[bytes | memoryview] = []
    for number, (name, what, repeated) in sorted(fields[kind].items()):
        values = message.get(name, []) if repeated else [message[name]] if name in message else []
        for value in values:
            if what == "packed" and not value:  # no numbers, no field
                continue
            if what == "run":
                parts.append(value)
                continue
            parts.append(_varint_bytes(number << 3 | _WIRE_TYPES.get(what, _BYTES)))
            if what in ("int64", "int32"):
                parts.append(_varint_bytes(value))
            elif what == "float":
                parts.append(struct.pack("<f", value))
            else:
                inner = _encode(what, value, fields) if what in fields else [_plain(value)]
                parts += [_varint_bytes(sum(map(len, inner))), *inner]
    return parts


def _plain(value: str | memoryview) -> bytes | memoryview:
    return value.encode() if isinstance(value, str) else value


def _signed(number: int, bits: int) -> int:
    number &= 2**bits - 1  # as C++ does it; what is lost here is missed when the message is compared
    return number - 2**bits if number >> (bits - 1) else number


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise CheckError("the file is truncated")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
    raise CheckError("not an ONNX file (an unterminated number)")


def _varint_bytes(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])

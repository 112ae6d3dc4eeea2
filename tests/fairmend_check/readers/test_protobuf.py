"""Protocol buffers: what Google's own library writes is read, and no other bytes for the same message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, TensorShapeProto

from fairmend_check.errors import CheckError
from fairmend_check.readers import protobuf
from support.named_case import named_case
from support.onnx_forgeries import honest
from support.onnx_wire import BYTES, FIXED32, FIXED64, field, tensor, varint

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@given(st.lists(INT64), INT32, TEXT, st.binary(), st.lists(INT64), st.lists(INT32), st.lists(TEXT))
def test_a_message_of_googles_library_is_read_as_it_was_written(dims, data_type, name, raw, packed, short, texts):
    written = TensorProto(dims=dims, data_type=data_type, name=name, raw_data=raw, int64_data=packed, int32_data=short)
    written.string_data.extend(text.encode() for text in texts)
    found = protobuf.read_message("Tensor", written.SerializeToString())
    assert found.get("dims", []) == dims
    assert found["data_type"] == data_type
    assert found["name"] == name
    assert bytes(found["raw_data"]) == raw
    assert protobuf.unpack_integers(found.get("int64_data", memoryview(b"")), 64) == packed
    assert protobuf.unpack_integers(found.get("int32_data", memoryview(b"")), 32) == short
    assert found.get("string_data", []) == texts


@given(st.data())
def test_what_is_read_is_what_googles_library_would_write(data):
    """Parts of a model in any order, twice or not at all, with changed bytes: few are read, and only canonical ones."""
    made = honest()
    pieces = [made.head, made.opsets, field(2, "someone"), field(5, 3), field(6, "a model"), field(8, b"")]
    content = bytearray(b"".join(data.draw(st.lists(st.sampled_from(pieces), max_size=5))))
    for _ in range(data.draw(st.integers(0, 2)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        protobuf.read_message("Model", bytes(content))
    except (CheckError, UnicodeDecodeError):
        return
    assert ModelProto.FromString(bytes(content)).SerializeToString() == bytes(content)


WEIGHT = tensor("w", [1, 2], field(9, bytes(8)))
UNUSUAL = {
    "a field twice": WEIGHT + field(9, bytes(8)),
    "fields in another order": field(8, "w") + field(1, 1),
    "a number in more bytes than it needs": b"\x08" + varint(1, length=3),
    "a key in more bytes than it needs": varint(1 << 3, length=2) + b"\x01",
    "a length in more bytes than it needs": b"\x42" + varint(1, length=2) + b"w",
    "a number of more than 64 bits": b"\x08" + b"\xff" * 9 + b"\x7f",
    "a number of more than 32 bits": field(2, 2**32 + 1),
    "an empty list of packed numbers": field(4, b""),
    "packed numbers in two parts": field(4, bytes(4)) + field(4, bytes(4)),
}


def test_bytes_that_mean_the_same_in_another_form_are_refused():
    for name, content in UNUSUAL.items():
        assert TensorProto.FromString(content).SerializeToString() != content, name  # Google's library reads it
        with named_case(name), pytest.raises(CheckError, match="more than one way"):
            protobuf.read_message("Tensor", content)


def test_a_second_graph_is_refused():
    """Libraries merge it with the first."""
    with pytest.raises(CheckError, match="more than one way"):
        protobuf.read_message("Model", honest().content() + field(7, b""))


def test_two_fields_of_which_one_counts_are_refused():
    """Libraries keep the last one: the width is 2 by the first field, and open by the second."""
    dimension = field(1, 2) + field(2, "width")
    read = TensorShapeProto.Dimension.FromString(dimension)
    assert (read.WhichOneof("value"), read.dim_param) == ("dim_param", "width")
    with pytest.raises(CheckError, match="more than one way"):
        protobuf.read_message("Dimension", dimension)
    with pytest.raises(CheckError, match="more than one way"):
        protobuf.read_message("Type", field(1, field(1, 1)) + field(4, b""))
    assert protobuf.read_message("Dimension", field(1, 2)) == {"dim_value": 2}


def test_packed_numbers_have_one_form():
    for number, bits in ((varint(1, length=2), 64), (varint(2**32 + 1), 32), (varint(2**31), 32)):
        with pytest.raises(CheckError, match="unusual form"):
            protobuf.unpack_integers(memoryview(number), bits)


REFUSED = [
    (b"\x42\x05abc", "truncated"),
    (b"\x08", "truncated"),
    (b"\x42", "truncated"),
    (b"\x0b", "dims with the wire type 3"),
    (b"\x08" + b"\xff" * 11, "unterminated number"),
    (field(1, varint(1), BYTES), "TensorProto has dims with the wire type 2"),
    (field(2, varint(1), BYTES), "TensorProto has data_type with the wire type 2"),
    (field(8, 3), "TensorProto has name with the wire type 0"),
    (field(4, 1.0), "TensorProto has float_data with the wire type 5"),
    (varint(8 << 3 | FIXED64) + bytes(8), "name with the wire type 1"),
    (varint(1 << 3 | FIXED32) + bytes(4), "dims with the wire type 5"),
    (field(17, "new"), "TensorProto has a field 17"),
    (field(0, 1), "TensorProto has a field 0"),
    (field(3, b""), "TensorProto has segment, which cannot be checked"),
]


def test_other_bytes_are_refused():
    for content, why in REFUSED:
        with named_case(content, why), pytest.raises(CheckError, match=why):
            protobuf.read_message("Tensor", content)


def test_texts_are_utf_8():
    with pytest.raises(UnicodeDecodeError):
        protobuf.read_message("Tensor", field(8, b"\xff"))
    with pytest.raises(UnicodeDecodeError):
        protobuf.read_message("Tensor", field(8, b"\xc1\x81"))  # an "A" in two bytes
    with pytest.raises(CheckError, match="a NUL character"):
        protobuf.read_message("Tensor", field(8, "w\0"))


def test_the_number_of_fields_is_limited(monkeypatch):
    monkeypatch.setattr(protobuf, "_MAX_FIELDS", 1000)
    assert len(protobuf.read_message("Tensor", field(1, 1) * 1000)["dims"]) == 1000
    with pytest.raises(CheckError, match="more than 1,000 fields"):
        protobuf.read_message("Tensor", field(1, 1) * 1001)
    with pytest.raises(CheckError, match="a list of whole numbers is too long"):
        protobuf.unpack_integers(memoryview(bytes(1001)), 64)


def is_repeated(entry):
    return entry.is_repeated if hasattr(entry, "is_repeated") else entry.label == entry.LABEL_REPEATED


def test_the_schema_is_that_of_onnx():
    """Numbers, names, types and repetition of every field, by the descriptors of the installed onnx."""
    kinds = {"int64": (3,), "int32": (5, 14), "float": (2,), "string": (9, 12), "bytes": (12,), "packed": (1, 2, 3, 5)}
    nested = {"TensorType": "TypeProto.Tensor", "Dimension": "TensorShapeProto.Dimension"}
    nested |= {"SequenceType": "TypeProto.Sequence", "MapType": "TypeProto.Map"}
    nested |= {"MapsType": "TypeProto", "PlainType": "TypeProto"}
    pool = ModelProto.DESCRIPTOR.file.pool
    for kind, fields in protobuf._FIELDS.items():
        descriptor = pool.FindMessageTypeByName(f"onnx.{nested.get(kind, kind + 'Proto')}")
        known = {entry.number: entry for entry in descriptor.fields}
        assert set(known) <= set(fields), kind
        for number in known:
            name, what, repeated = fields[number]
            assert name == known[number].name
            if what == "refused":
                continue
            options = known[number].GetOptions()
            assert options.packed == (what == "packed"), name
            if what in kinds:
                assert known[number].type in kinds[what], name
            else:
                assert known[number].message_type.full_name.endswith(nested.get(what, what + "Proto")), name
            assert is_repeated(known[number]) == (repeated or what == "packed"), name

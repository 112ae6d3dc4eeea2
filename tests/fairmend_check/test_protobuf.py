"""The wire format of protocol buffers, against Google's own writer and on damaged bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import StringStringEntryProto, TensorProto

from fairmend_check import protobuf
from fairmend_check.errors import CheckError


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.text(), st.binary())
def test_fields_are_those_that_were_written(dims, name, raw):
    tensor = TensorProto(dims=dims, name=name, raw_data=raw)
    found = protobuf.collect(memoryview(tensor.SerializeToString()))
    assert protobuf.integers(found, 1) == dims
    assert protobuf.text(found, 8) == name
    assert [bytes(message) for message in protobuf.messages(found, 9)] == ([raw] if tensor.HasField("raw_data") else [])


def test_the_last_of_a_repeated_text_counts():
    first, second = (StringStringEntryProto(key=key).SerializeToString() for key in "ab")
    assert protobuf.text(protobuf.collect(memoryview(first + second)), 1) == "b"
    assert protobuf.text(protobuf.collect(memoryview(b"")), 1) == ""


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x0a\x05abc", "truncated"),
        (b"\x08", "truncated"),
        (b"\x09\x01", "truncated"),
        (b"\x0b", "unknown wire type"),
        (b"\x08" + b"\xff" * 11, "unterminated number"),
    ],
)
def test_damaged_bytes_are_refused(content, why):
    with pytest.raises(CheckError, match=why):
        list(protobuf.fields(memoryview(content)))


def test_a_number_where_a_text_is_expected_is_refused():
    found = protobuf.collect(memoryview(b"\x08\x01"))
    with pytest.raises(CheckError, match="field 1 has an unexpected type"):
        protobuf.messages(found, 1)

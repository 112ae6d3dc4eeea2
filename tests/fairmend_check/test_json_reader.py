"""JSON from untrusted files: whatever a file holds, the checker answers, soon, and never with VALID."""

import base64
import os
import re

import pytest

import fairmend
from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from support.checker_cases import answer, case, write


@pytest.fixture
def model(tmp_path):
    return case().save(tmp_path)[1]


DOCUMENTS = {
    "nothing": (b"", "not a JSON object"),
    "a list": (b"[]", "not a JSON object"),
    "a number": (b"17", "not a JSON object"),
    "not UTF-8": (b'{"claim": "\xff\xfe"}', "not UTF-8"),
    "UTF-16": ('{"format": 1}'.encode("utf-16"), "not a JSON object"),
    "NaN": (b'{"format": NaN}', "NaN is not a JSON number"),
    "Infinity": (b'{"format": -Infinity}', "Infinity is not a JSON number"),
    "duplicate keys": (b'{"format": 1, "format": 2}', '"format" occurs twice'),
    "a deep list": (b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested deeper"),
    "deep and unclosed": (b'{"a":' * 1_000_000, "nested deeper"),
    "a huge integer": (b'{"format": ' + b"9" * 1_000_000 + b"}", "is larger than 1e+15"),
    "a large integer": (b'{"format": 1000000000000001}', "is larger than 1e+15"),
    "a string without an end": (b'{"claim": "' + b'\\"' * 1_000_000, "not valid JSON"),
    "trailing text": (b"{} {}", "not valid JSON"),
    "a null byte": (b'{"claim": "\x00"}', "not valid JSON"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name, model, tmp_path):
    content, reason = DOCUMENTS[name]
    (tmp_path / "bad.json").write_bytes(content)
    answer(tmp_path / "bad.json", model)
    with pytest.raises(CheckError, match=re.escape(reason)):
        json_reader.parse_json(content, "certificate")


def test_brackets_in_texts_are_no_nesting(model, tmp_path):
    content = case().content
    content["claim"] = '[{"\\' * 100
    assert fairmend.check(write(tmp_path, content), model).valid


@pytest.mark.parametrize(("unit", "megabytes"), [(b" ", 200), (b"1,", 50), (b"[],", 50), (b'"', 50), (b'\\"', 50)])
def test_many_megabytes(unit, megabytes, model, tmp_path):
    with (tmp_path / "big.json").open("wb") as file:
        file.write(b'{"regions": [')
        for _ in range(megabytes):
            file.write(unit * (1_000_000 // len(unit)))
    answer(tmp_path / "big.json", model)
    (tmp_path / "big.json").unlink()


def test_a_file_that_is_too_large_is_not_read(model, tmp_path):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(600 * 2**20)
    assert "longer than 33,554,432 bytes" in answer(tmp_path / "huge.json", model)


def test_paths_that_are_no_files(model, tmp_path):
    certificate = case().save(tmp_path)[0]
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "fifo", "a\0b", "x" * 5000, "/dev/zero"):
        answer(path, model)
        answer(certificate, path)
        assert not fairmend.check(certificate, model, path).valid
    assert not fairmend.check(None, model).valid
    assert not fairmend.check(certificate, 17).valid


def test_a_bomb_is_not_inflated(monkeypatch):
    """A stream of a gigabyte takes no more memory than the declared size and one byte."""
    asked = []

    class Inflater:
        eof, unused_data = False, b""

        def decompress(self, data, most):
            asked.append(most)
            return bytes(most)

    monkeypatch.setattr(json_reader.zlib, "decompressobj", Inflater)
    text = base64.b64encode(b"anything").decode()
    with pytest.raises(CheckError, match="does not hold exactly 40 bytes"):
        json_reader.packed_array({"inputs": text}, "inputs", (2, 5), "<f4", "here")
    assert asked == [41]

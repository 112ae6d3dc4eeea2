"""Whatever a file holds, the checker answers, soon, and never with yes."""

import json
import os

import numpy as np
import pytest

import fairmend
from support.checker_cases import case, write


@pytest.fixture
def model(tmp_path):
    return case().save(tmp_path)[1]


def answer(path, model):
    report = fairmend.check(path, model)
    assert not report.valid
    assert len(report.reasons) >= 1
    assert len("".join(report.reasons)) < 10_000
    return report.reasons[0]


DOCUMENTS = {
    "nothing": (b"", "not a JSON object"),
    "a list": (b"[]", "not a JSON object"),
    "a number": (b"17", "not a JSON object"),
    "an empty object": (b"{}", 'has no "format"'),
    "not UTF-8": (b'{"claim": "\xff\xfe"}', "not UTF-8"),
    "UTF-16": ('{"format": 1}'.encode("utf-16"), "not a JSON object"),
    "NaN": (b'{"format": NaN}', "NaN is not a number"),
    "Infinity": (b'{"format": -Infinity}', "Infinity is not a number"),
    "duplicate keys": (b'{"format": 1, "format": 2}', '"format" stands twice'),
    "a deep list": (b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested deeper"),
    "deep and unclosed": (b'{"a":' * 1_000_000, "nested deeper"),
    "a huge integer": (b'{"format": ' + b"9" * 1_000_000 + b"}", "is beyond"),
    "a large integer": (b'{"format": 1000000000000001}', "is beyond"),
    "a string without an end": (b'{"claim": "' + b'\\"' * 1_000_000, "not valid JSON"),
    "trailing text": (b"{} {}", "not valid JSON"),
    "a null byte": (b'{"claim": "\x00"}', "not valid JSON"),
    "an unknown key": (b'{"surprise": 1}', "unknown key"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name, model, tmp_path):
    content, reason = DOCUMENTS[name]
    (tmp_path / "bad.json").write_bytes(content)
    assert reason in answer(tmp_path / "bad.json", model)


def test_brackets_in_texts_are_no_nesting(model, tmp_path):
    content = case().content
    content["claim"] = '[{"\\' * 100
    assert fairmend.check(write(tmp_path, content), model).valid


@pytest.mark.parametrize("unit", [b" ", b"1,", b"[],", b'"', b'\\"'])
def test_200_megabytes(unit, model, tmp_path):
    with (tmp_path / "big.json").open("wb") as file:
        file.write(b'{"regions": [')
        for _ in range(100):
            file.write(unit * (2_000_000 // len(unit)))
    answer(tmp_path / "big.json", model)
    (tmp_path / "big.json").unlink()


def test_a_file_that_is_too_large_is_not_read(model, tmp_path):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(600 * 2**20)
    assert "are not read" in answer(tmp_path / "huge.json", model)


def test_paths_that_are_no_files(model, tmp_path):
    certificate = case().save(tmp_path)[0]
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "fifo", "a\0b", "x" * 5000, "/dev/zero"):
        answer(path, model)
        answer(certificate, path)
        assert not fairmend.check(certificate, model, path).valid
    assert not fairmend.check(None, model).valid
    assert not fairmend.check(certificate, 17).valid


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*path, 0))
    yield path


WRONG = (None, True, -1, 10**15, 1.5, "", "text", [], {}, [[[]]], {"a": 1}, [None], 1e308, ["x"] * 7)


def test_values_of_the_wrong_type_anywhere(model, tmp_path):
    paths = [path for path in leaves(case().content) if path]
    refused = 0
    for path in paths:
        for value in WRONG:
            content = case().content
            below = content
            for key in path[:-1]:
                below = below[key]
            below[path[-1]] = value
            report = fairmend.check(write(tmp_path, content), model)
            assert report.valid or report.reasons
            assert not any("the check failed" in reason for reason in report.reasons), report.reasons
            refused += not report.valid
    assert refused > 0.9 * len(paths) * len(WRONG)


def test_every_key_is_needed(model, tmp_path):
    for path in leaves(case().content):
        if not path or isinstance(path[-1], int) or path[-1] == "encoding":  # ordinal by default
            continue
        content = case().content
        below = content
        for key in path[:-1]:
            below = below[key]
        del below[path[-1]]
        report = fairmend.check(write(tmp_path, content), model)
        assert not report.valid, path
        assert not any("the check failed" in reason for reason in report.reasons), report.reasons


def test_numbers_at_the_edge_of_double_precision(model, tmp_path):
    """Overflow on the way is no bound, not a bound of nan."""
    for value in (1e308, -1e308, 1e-320):
        for part in ("slopes", "lower", "upper"):
            content = case().content
            for region in content["regions"]:
                piece = region["pieces"][0]
                if part == "slopes":
                    for layer in piece["slopes"]:
                        layer["lower"] = layer["upper"] = [value] * len(layer["lower"])
                else:
                    keep = np.minimum if part == "lower" else np.maximum
                    piece[part] = keep(piece[part], value).tolist()
            report = fairmend.check(write(tmp_path, content), model)
            assert report.valid or report.reasons
            if abs(value) > 1:
                wider = (part == "lower") == (value < 0) or part == "slopes"
                assert report.valid is not wider
            json.dumps(report.as_dict(), allow_nan=False)


@pytest.mark.parametrize("suffix", ["onnx", "pth", "safetensors", "h5", "keras", "nnet"])
def test_damaged_model_files(suffix, tmp_path):
    certificate, model = case().save(tmp_path, suffix)
    whole = model.read_bytes()
    rng = np.random.default_rng(3)
    other = tmp_path / f"damaged.{suffix}"
    for length in rng.integers(0, len(whole), 40):
        other.write_bytes(whole[:length])
        answer(certificate, other)
    for _ in range(300):
        changed = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        other.write_bytes(bytes(changed))
        report = fairmend.check(certificate, other)  # valid only where the byte means nothing
        assert not any("the check failed" in reason for reason in report.reasons), report.reasons


@pytest.mark.parametrize("text", ["", "[[[", "feature = 3", "a = " + "[" * 5000, "[[feature]]\nname = 1", "\x00"])
def test_specs_that_are_none(text, tmp_path):
    certificate, model = case().save(tmp_path)
    (tmp_path / "bad.toml").write_text(text)
    report = fairmend.check(certificate, model, tmp_path / "bad.toml")
    assert not report.valid
    assert "spec bad.toml" in report.reasons[0]

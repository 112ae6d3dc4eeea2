"""JSON holds NumPy numbers, and a failed write changes nothing."""

import json
import math

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.base.files import to_json, write_json, write_text


def test_json_holds_numpy_and_has_no_nan(tmp_path):
    document = {
        "a": np.float32(0.5),
        "b": np.arange(2),
        "c": math.nan,
        "d": (1, math.inf),
        "e": tmp_path,
        "é": None,
        "f": True,
    }
    write_json(tmp_path / "d.json", document)
    back = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    assert back == {
        "a": 0.5,
        "b": [0, 1],
        "c": None,
        "d": [1, None],
        "e": str(tmp_path),
        "é": None,
        "f": True,
    }
    assert "é" in to_json(document)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(FairmendError, match="cannot write"):
        write_text(tmp_path / "a.txt" / "b.txt", "new")
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(tmp_path / "a.txt", {"x": object()})
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_what_cannot_be_seen_is_escaped_and_letters_are_not():
    text = to_json({"größe\u202e": "年齢\x9b\x7f\U000e0001\n"})
    assert text.replace("\n", "").isprintable()
    assert "größe" in text
    assert json.loads(text) == {"größe\u202e": "年齢\x9b\x7f\U000e0001\n"}

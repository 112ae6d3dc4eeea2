"""The parts of a certificate: every key is needed, every value has its type."""

import json

import numpy as np
import pytest

import fairmend
from support.checker_cases import case, write


@pytest.fixture
def model(tmp_path):
    return case().save(tmp_path)[1]


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


def test_key_order_and_whitespace_do_not_matter(tmp_path):
    made = case(spec="tolerance")
    _, model = made.save(tmp_path)

    def turned(value):
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(entry) for entry in value] if isinstance(value, list) else value

    other = tmp_path / "turned.json"
    other.write_text(json.dumps(turned(made.content), indent=3))
    assert fairmend.check(other, model).valid

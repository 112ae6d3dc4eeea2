"""The parts of a certificate: every key is needed, every value has its type."""

import json

import numpy as np
import pytest

import fairmend
from support.checker_cases import as_version, case, sign_spec, write


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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda layers: layers[0].update(name='a" (1 to 1), relu, "b'), "layers[0].name must have at most 200"),
        (lambda layers: layers[0].update(name="a\x1b[2J"), "layers[0].name must have at most 200"),
        (lambda layers: layers[0].update(name="a" * 201), "layers[0].name must have at most 200"),
        (lambda layers: layers[0].update(name=3), "layers[0].name must be a text"),
        (lambda layers: layers[0].update(name=layers[1]["name"]), "names a layer twice"),
        (lambda layers: layers[0].update(activation="sine"), "layers[0].activation is 'sine', which is not allowed"),
        (lambda layers: layers[0].update(activation="none"), "layers[0].activation is 'none', which is not allowed"),
        (lambda layers: layers[-1].update(activation="relu"), "layers[2].activation is 'relu', which is not allowed"),
        (lambda layers: layers[-1].update(slope=0.5), "a slope for the last one"),
        (lambda layers: layers[0].update(slope=0.5), "activation relu with slope 0.5 is unknown"),
        (lambda layers: layers[0].update(slope=True), "layers[0].slope must be a number"),
        (lambda layers: layers[0].update(width=3), "unknown key"),
        (lambda layers: layers.clear(), "belongs to no layer"),
        (lambda layers: layers.reverse(), "which is not allowed there"),
        (lambda layers: layers.insert(0, 3), "layers[0] must be an object"),
    ],
)
def test_layers_of_a_state_dict(tmp_path, change, reason):
    _, model = case().save(tmp_path, "safetensors")
    content = case().content
    change(content["model"]["layers"])
    assert reason in fairmend.check(write(tmp_path, content), model).reasons[0]


def test_a_certificate_of_version_1_has_no_layers(tmp_path):
    _, model = case().save(tmp_path)
    content = case().content
    content["version"] = 1
    assert "unknown key" in fairmend.check(write(tmp_path, content), model).reasons[0]
    for version in (1, 2, 3, 4, 5):
        assert fairmend.check(write(tmp_path, as_version(content, version)), model).valid
        without = {**as_version(content, 1), "version": version}
        reasons = fairmend.check(write(tmp_path, without), model).reasons
        assert version == 1 or 'has no "layers"' in reasons[0]
    content["version"] = 6
    assert "version 1 to 5" in fairmend.check(write(tmp_path, content), model).reasons[0]


def test_since_version_5_a_certificate_has_layers_or_a_graph(tmp_path):
    _, model = case().save(tmp_path)
    for change, reason in (
        ({"graph": []}, "has both layers and a graph"),
        ({"graph": [], "layers": None}, "has 0 steps"),
        ({"graph": {}, "layers": None}, "graph must be a list"),
    ):
        content = case().content
        content["model"] |= change
        assert reason in fairmend.check(write(tmp_path, content), model).reasons[0]
    del content["model"]["graph"]
    assert 'has no "graph"' in fairmend.check(write(tmp_path, content), model).reasons[0]


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


def test_the_named_classes_are_as_many_as_the_outputs(tmp_path):
    _, model = case(outputs=3).save(tmp_path)
    for count, valid in ((3, True), (4, False)):
        content = case(outputs=3).content
        content["spec"]["content"]["label"] = {"column": "y", "classes": ["a", "b", "c", "d"][:count]}
        report = fairmend.check(write(tmp_path, sign_spec(content)), model)
        assert report.valid is valid, report.reasons
    assert "names 4 classes, but the model has 3 outputs" in report.reasons[0]

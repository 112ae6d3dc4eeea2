"""The parts of a certificate: every key is needed, every value has its type, and the list of inputs is whole."""

import base64
import json
import zlib

import numpy as np
import pytest

import fairmend
from fairmend.prove.certificate import certificate_of_blindness, certificate_of_fair
from fairmend_check import json_reader
from fairmend_check.kernel import certificate as reader
from support.checker_cases import SPECS, case, content_of, is_true, lines_of, nearly_fair_network, pack, read, write

WRONG = (None, True, -1, 10**15, 1.5, "", "text", [], {}, [[[]]], {"a": 1}, [None], 1e308, ["x"] * 7)


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


def places():
    """Where something of a certificate is: a copy of it, what holds the place, and the last key."""
    for path in leaves(case().content):
        if path and path[0] != "inputs":
            content = case().content
            below = content
            for key in path[:-1]:
                below = below[key]
            yield content, below, path[-1]


def test_values_of_the_wrong_type_anywhere(model, tmp_path):
    tried = refused = 0
    for content, below, key in places():
        for value in WRONG:
            below[key] = value
            report = fairmend.check(write(tmp_path, content, sign=False), model, run=False)
            assert report.valid or report.reasons
            assert not any("the check failed" in reason for reason in report.reasons), report.reasons
            tried, refused = tried + 1, refused + (not report.valid)
    assert refused > 0.9 * tried


def test_every_key_is_needed(model, tmp_path):
    """But for those with a default, without which the claim is another one."""
    claim = fairmend.check(write(tmp_path, case().content), model, run=False).claim
    for content, below, key in places():
        if isinstance(key, int) or key == "encoding":  # ordinal by default
            continue
        del below[key]
        report = fairmend.check(write(tmp_path, content, sign=False), model, run=False)
        assert not report.valid or (key == "protected" and report.claim != claim), key
        assert not any("the check failed" in reason for reason in report.reasons), report.reasons


def test_another_key_is_refused(model, tmp_path):
    for key in ("regions", "margin", "sha256"):
        content = {key: [], **case().content}
        assert f'unknown key "{key}"' in fairmend.check(write(tmp_path, content), model).reasons[0]


@pytest.mark.parametrize("change", [{"format": "fairmend-certificate-blocks"}, {"version": 2}, {"version": 0}])
def test_another_format_is_refused(model, tmp_path, change):
    result = fairmend.check(write(tmp_path, case().content | change), model)
    assert (result.verdict, result.reasons) == (
        "unreadable",
        ("certificate: not a fairmend certificate of version 1",),
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda steps: steps[1].update(weight='a" (1 to 1), relu, "b'), "which is not there"),
        (lambda steps: steps[1].update(weight=3), "steps[1].weight must be a text"),
        (lambda steps: steps[1].update(weight=steps[3]["weight"]), "a layer with weights of shape"),
        (lambda steps: steps[2].update(name="sine"), "steps[2].name is 'sine', which is not the name of a function"),
        (lambda steps: steps[2].update(name="none"), "steps[2].name is 'none', which is not the name of a function"),
        (lambda steps: steps.append({"kind": "function", "name": "relu", "sources": [5]}), "ends with relu"),
        (lambda steps: steps[2].update(slope=0.5), "activation relu with slope 0.5 is unknown"),
        (lambda steps: steps[2].update(slope=True), "steps[2].slope must be a number"),
        (lambda steps: steps[1].update(width=3), "unknown key"),
        (lambda steps: steps.clear(), "steps has 0 entries"),
        (lambda steps: steps.reverse(), "which is not allowed there"),
        (lambda steps: steps.insert(0, 3), "steps[0] must be an object"),
    ],
)
@pytest.mark.parametrize("contained", [True, False])
def test_steps_of_a_state_dict(tmp_path, change, reason, contained):
    """With the tensors in the certificate, the steps are refused before the file is read."""
    _, model = case().save(tmp_path, "safetensors")
    content = case().content
    change(content["model"]["network"]["steps"])
    content["model"]["network"] |= {} if contained else {"tensors": None}
    assert reason in fairmend.check(write(tmp_path, content), model).reasons[0]


@pytest.mark.parametrize("key", ["sha256", "steps", "tensors", "unused"])
def test_a_certificate_has_every_part_of_its_network(tmp_path, key):
    _, model = case().save(tmp_path)
    content = case().content
    del content["model"]["network"][key]
    assert f'has no "{key}"' in fairmend.check(write(tmp_path, content), model).reasons[0]
    for former in ("layers", "graph"):
        content = case().content
        content["model"][former] = None
        assert f'unknown key "{former}"' in fairmend.check(write(tmp_path, content), model).reasons[0]


def test_the_named_classes_are_as_many_as_the_outputs(tmp_path):
    _, model = case(outputs=3).save(tmp_path)
    for count, valid in ((3, True), (4, False)):
        content = case(outputs=3).content
        content["spec"]["label"] = {"column": "y", "classes": ["a", "b", "c", "d"][:count]}
        report = fairmend.check(write(tmp_path, content), model)
        assert report.valid is valid, report.reasons
    assert "names 4 classes, but the model has 3 outputs" in report.reasons[0]


# The list of inputs


SPEC = SPECS["tolerance"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The lines of a certificate of some blocks, its content, and its model."""
    folder = tmp_path_factory.mktemp("blocks")
    rng = np.random.default_rng(1)
    network = nearly_fair_network(rng, SPEC, 3)
    certificate, _ = certificate_of_fair(network, SPEC, SPEC.sample_inputs(60, rng))
    network.save(folder / "model.onnx")
    content = content_of(certificate)
    content["inputs"] = content["inputs"][:27]
    content["count"] = 27
    return lines_of(content, 9), content, folder / "model.onnx"


@pytest.fixture
def changed(files, tmp_path):
    """Change the lines with a function and return the result of the check."""

    def check(change):
        lines = list(files[0])
        found = change(lines)
        (tmp_path / "changed.json").write_bytes(b"".join(lines if found is None else found))
        return fairmend.check(tmp_path / "changed.json", files[2])

    return check


def test_blocks_of_any_size_are_valid(files, tmp_path, changed):
    result = changed(lambda lines: None)
    assert result.valid, result.reasons
    for size in (1, 5, 26, 27, 100):
        (tmp_path / "c.json").write_bytes(b"".join(lines_of(files[1], size)))
        again = fairmend.check(tmp_path / "c.json", files[2])
        assert (again.valid, again.least_margin) == (True, pytest.approx(result.least_margin))


def block(number=1, **change):
    """Change a block; the others stay as they are."""

    def change_line(lines):
        end = b",\n" if lines[number].endswith(b",\n") else b"\n"
        data = json.loads(lines[number].removesuffix(b"\n").removesuffix(b","))
        lines[number] = json.dumps(data | change).encode() + end

    return change_line


def header(**change):
    def change_line(lines):
        data = json.loads(lines[0] + b"]}")
        lines[0] = json.dumps(data | change).removesuffix("]}").encode() + b"\n"

    return change_line


def line(number, text):
    return lambda lines: lines.__setitem__(number, text)


def replaced(old, new, number=0):
    return lambda lines: lines.__setitem__(number, lines[number].replace(old, new, 1))


def packed(data):
    return base64.b64encode(data).decode()


MALFORMED = {
    "a block is missing": (lambda lines: lines.pop(1) and None, "the list ends after 18 of 27 inputs"),
    "the last block is missing": (lambda lines: lines.pop(-2) and None, "the list ends after 18 of 27"),
    "a block twice": (lambda lines: lines.insert(1, lines[1]), "more inputs than the 27"),
    "an empty block": (block(count=0, columns=pack(np.zeros((0, 3), np.float32))), "count is 0; it must be 1 to"),
    "fewer inputs than declared": (block(count=8), "does not hold exactly 96 bytes"),
    "more inputs than declared": (block(count=10), "does not hold exactly 120 bytes"),
    "a huge number of inputs": (block(count=10**12), "it must be 1 to"),
    "a block that is too large": (block(count=2**21 // 3 + 1), "it must be 1 to 699,050"),
    "a negative number of inputs": (block(count=-1), "it must be 1 to"),
    "a number that is not whole": (block(count=9.0), "must be a whole number"),
    "an unknown key": (block(classes=[]), 'unknown key "classes"'),
    "columns that are no text": (block(columns=[1.0]), "must be a text"),
    "no base64": (block(columns="%%%"), "cannot be decoded"),
    "truncated base64": (block(columns=pack(np.zeros((9, 3), np.float32))[:-3]), "cannot be decoded"),
    "no zlib": (block(columns=packed(b"not zlib")), "cannot be decoded"),
    "truncated zlib": (block(columns=packed(zlib.compress(bytes(108))[:-2])), "does not hold exactly"),
    "bytes after zlib": (block(columns=packed(zlib.compress(bytes(108)) + b"more")), "does not hold exactly"),
    "a decompression bomb": (block(columns=packed(zlib.compress(bytes(10**8), 9))), "does not hold exactly 108"),
    "numbers of another type": (block(columns=pack(np.zeros((9, 3)))), "does not hold exactly 108 bytes"),
    "another width": (block(columns=pack(np.zeros((9, 4), np.float32))), "does not hold exactly 108 bytes"),
    "a block that is a list": (line(1, b"[1],\n"), "not a JSON object"),
    "a block that is no JSON": (line(1, b'{"count": 9,\n'), "not valid JSON"),
    "an empty line": (lambda lines: lines.insert(1, b"\n"), "not a JSON object"),
    "an empty line at the end": (lambda lines: lines.insert(-1, b"\n"), "the list of inputs must end here"),
    "a block after the last one": (lambda lines: lines.insert(-1, lines[-2]), "the list of inputs must end here"),
    "no comma after a block": (replaced(b",\n", b"\n", 1), "the list of inputs must end here"),
    "a comma after the last block": (replaced(b"}\n", b"},\n", -2), "the list ends after 27 of 27"),
    "two blocks in a line": (
        lambda lines: [lines[0], lines[1][:-1] + lines[2], *lines[3:]],
        "not valid JSON",
    ),
    "more at the end": (line(-1, b'], "valid": true}\n'), "the list of inputs must end here"),
    "spaces at the end": (line(-1, b"] }\n"), "the list of inputs must end here"),
    "no end": (lambda lines: lines.pop() and None, "the file is cut off after 27"),
    "no line feed at the end": (line(-1, b"]}"), "cut off, or longer than"),
    "a line after the end": (lambda lines: lines.append(b"\n"), "something after the last line"),
    "bytes after the end": (lambda lines: lines.append(b"x"), "cut off, or longer than"),
    "the whole file twice": (lambda lines: lines + lines, "something after the last line"),
    "carriage returns": (lambda lines: [each[:-1] + b"\r\n" for each in lines], "the first line does not end with"),
    "a carriage return after a block": (replaced(b",\n", b",\r\n", 1), "not valid JSON"),
    "one line": (lambda lines: [b"".join(lines).replace(b"\n", b"") + b"\n"], "the first line does not end with"),
    "a header of two lines": (replaced(b', "version"', b',\n"version"'), "the first line does not end with"),
    "a second list of inputs": (replaced(b'{"format"', b'{"inputs": [], "format"'), '"inputs" occurs twice'),
    "a second count": (replaced(b'{"format"', b'{"count": 1, "format"'), '"count" occurs twice'),
    "inputs in the first line": (replaced(b"[\n", b"[{}, \n"), "the first line does not end with"),
    "an object in place of the list": (replaced(b"[\n", b"{\n"), "the first line does not end with"),
    "more inputs in the header": (header(count=10**6), "the list ends after 27 of 1,000,000"),
    "fewer inputs in the header": (header(count=5), "more inputs than the 5"),
    "one input less in the header": (header(count=26), "more inputs than the 26"),
    "inputs beyond the limit": (header(count=10**7 + 1), "it must be 0 to 10,000,000"),
    "a negative count": (header(count=-27), "it must be 0 to"),
    "a list for a count": (header(count=[]), "must be a whole number"),
    "a count that is true": (header(count=True), "must be a whole number"),
    "nothing": (lambda lines: [], "the first line does not end with"),
    "a byte order mark": (replaced(b"{", b"\xef\xbb\xbf{"), "not a JSON object"),
    "a compressed file": (lambda lines: [zlib.compress(b"".join(lines)) + b"\n"], "does not end with"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_file_has_no_verdict(what, changed):
    change, reason = MALFORMED[what]
    result = changed(change)
    assert (result.verdict, result.valid) == ("unreadable", False)
    assert reason in result.reasons[0]


def test_no_count_hides_blocks(files, changed):
    """A claim for everyone may stand alone, but then nothing is listed beside it."""
    result = changed(header(count=0))
    assert result.reasons == ("certificate: it lists no inputs and has no global claim, so it claims nothing",)
    network = nearly_fair_network(np.random.default_rng(1), SPEC, 3)
    first = network.affines[0]
    blind = network.with_affines([type(first)(first.weight * np.float32([0, 1, 1]), first.bias), *network.affines[1:]])
    blind.save(files[2].with_name("blind.onnx"))
    lines = lines_of(content_of(certificate_of_blindness(blind, SPEC, [0], method="blind")))
    path = files[2].with_name("blind.json")
    for more, valid in (([], True), (files[0][1:2], False), ([b"\n"], False)):
        path.write_bytes(b"".join([lines[0], *more, *lines[1:]]))
        result = fairmend.check(path, files[2].with_name("blind.onnx"))
        assert result.verdict == ("valid" if valid else "unreadable"), result.reasons
    for wrong in ([], [b"]}\n", b"\n"], [b"]}\n", b"]}\n"]):
        path.write_bytes(b"".join([lines[0], *wrong]))
        assert fairmend.check(path, files[2].with_name("blind.onnx")).verdict == "unreadable"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(value, files, changed):
    X = files[1]["inputs"][9:18].copy()
    X[3, 1] = value
    result = changed(block(2, columns=pack(X)))
    assert result.verdict == "unreadable"
    assert "certificate, line 3.columns contains a number that is not finite" in result.reasons[0]


def test_zeros_of_either_sign_are_one_number(files, tmp_path):
    X = files[1]["inputs"]
    result = fairmend.check(write(tmp_path, files[1] | {"inputs": np.where(X == 0, np.float32(-0.0), X)}), files[2])
    assert result.valid, result.reasons


@pytest.mark.parametrize("column", range(3))
def test_an_input_that_cannot_be_one_is_invalid_and_named(column, files, changed):
    X = files[1]["inputs"][9:18].copy()
    X[3, column] = 99.5
    result = changed(block(2, columns=pack(X)))
    assert result.verdict == "invalid"
    assert result.reasons[0].startswith("input 12: feature ")
    assert result.covers_inference is None


def test_duplicate_people_are_people(files, tmp_path):
    """Two people may have the same values; the count says how many there are."""
    result = fairmend.check(write(tmp_path, files[1] | {"inputs": files[1]["inputs"][[0, 0, 1]]}), files[2])
    assert (result.valid, result.regions) == (True, 3)


def test_the_order_of_keys_does_not_matter_but_the_list_comes_last(files, tmp_path):
    turned = dict(reversed(files[1].items()))
    for part in ("model", "spec"):
        turned[part] = dict(reversed(turned[part].items()))
    assert fairmend.check(write(tmp_path, turned), files[2]).valid
    whole = json.loads(b"".join(files[0]))
    (tmp_path / "whole.json").write_text(json.dumps({"inputs": whole.pop("inputs"), **whole}) + "\n")
    assert fairmend.check(tmp_path / "whole.json", files[2]).verdict == "unreadable"


def test_a_file_cut_off_anywhere_has_no_verdict(files, tmp_path):
    whole = b"".join(files[0])
    ends = np.cumsum([len(each) for each in files[0]]).tolist()
    for length in {*np.linspace(0, len(whole) - 1, 25).astype(int).tolist(), *(e - 1 for e in ends), *ends[:-1]}:
        (tmp_path / "cut.json").write_bytes(whole[:length])
        assert fairmend.check(tmp_path / "cut.json", files[2], run=False).verdict == "unreadable", length


def test_a_long_line_is_not_read(files, tmp_path, monkeypatch):
    monkeypatch.setattr(json_reader, "MAX_LINE", len(files[0][0]) - 2)
    (tmp_path / "c.json").write_bytes(b"".join(files[0]))
    assert "line 1: cut off, or longer than" in fairmend.check(tmp_path / "c.json", files[2]).reasons[0]


def test_a_block_is_no_larger_than_the_limit(files, tmp_path, monkeypatch):
    (tmp_path / "c.json").write_bytes(b"".join(files[0]))
    monkeypatch.setattr(reader, "MAX_NUMBERS", 27)
    assert fairmend.check(tmp_path / "c.json", files[2]).valid
    monkeypatch.setattr(reader, "MAX_NUMBERS", 26)
    assert "line 2.count is 9; it must be 1 to 8" in fairmend.check(tmp_path / "c.json", files[2]).reasons[0]


def test_whatever_is_accepted_after_random_changes_of_bytes_is_true(files, tmp_path):
    """A changed byte of the compressed inputs, of the spec or of a number is refused, or another true claim."""
    whole, rng = b"".join(files[0]), np.random.default_rng(2)
    network = fairmend.load_network(files[2])
    for _ in range(80):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] = rng.integers(256)
        path = tmp_path / "damaged.json"
        path.write_bytes(damaged)
        if fairmend.check(path, files[2], run=False).valid:
            assert is_true(read(path), network, rng)

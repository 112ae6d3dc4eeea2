"""Regions in blocks: whatever is changed in a file is refused, or still true; and blocks change no verdict."""

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fairmend
from fairmend.prove import certificate_blocks
from fairmend.prove.certificate import certificate_of_fair
from fairmend_check import region_blocks
from fairmend_check.coverage import find_uncovered
from fairmend_check.neighbourhood import batches, neighbourhood
from fairmend_check.spec import read_spec
from support.block_cases import (
    certificate_in_blocks,
    nearly_fair_network,
    pack,
    read_blocks_of,
    write_blocks,
)
from support.checker_cases import SPECS, is_true
from support.neighbourhood_cases import random_linked_spec, random_people
from support.strategies import random_network
from support.strategies_spec import specs_and_inputs

SPEC = SPECS["tolerance"]
ACTIVATIONS = ["relu", "leaky_relu", "tanh", "sigmoid"]

few = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A certificate of some blocks, and its model."""
    folder = tmp_path_factory.mktemp("blocks")
    rng = np.random.default_rng(1)
    network = nearly_fair_network(rng, SPEC, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate_blocks, "_MOST_REGIONS", 9)
        certificate, _ = certificate_in_blocks(network, SPEC, SPEC.sample_inputs(30, rng))
        network.save(folder / "model.onnx")
        certificate.save(folder / "certificate.json")
    assert len(read_blocks_of(folder / "certificate.json")) >= 5
    return folder / "certificate.json", folder / "model.onnx"


@pytest.fixture
def changed(files, tmp_path):
    """Change the lines with a function and return the result of the check."""

    def check(change, *, sign=True):
        lines = read_blocks_of(files[0])
        change(lines)
        return fairmend.check(write_blocks(tmp_path / "changed.json", lines, sign=sign), files[1])

    return check


def test_lines_that_are_written_again_are_valid(changed):
    result = changed(lambda lines: None)
    assert result.valid, result.reasons


def set_block(key, value, number=1):
    return lambda lines: lines[number].__setitem__(key, value)


def drop(number):
    return lambda lines: lines.pop(number)


def swap(lines):
    lines[1], lines[2] = lines[2], lines[1]


def repeat(lines):
    lines.insert(2, dict(lines[1]))


def repeat_with_another_number(lines):
    """Two blocks that claim the same, numbered in order: the people are more than the header says."""
    lines.insert(2, dict(lines[1]))
    for number, block in enumerate(lines[1:-1]):
        block["block"] = number


def empty(lines):
    lines[1].update(regions=0, inputs=lines[1]["inputs"][:0], classes=lines[1]["classes"][:0])


MALFORMED = {
    "a block is missing": (drop(1), "blocks are in order"),
    "the last block is missing": (drop(-2), "the file ends after"),
    "blocks in another order": (swap, "blocks are in order"),
    "a block twice": (repeat, "blocks are in order"),
    "two blocks claim the same": (repeat_with_another_number, "more regions than the"),
    "an empty block": (empty, "regions is 0"),
    "fewer regions than declared": (set_block("regions", 8), "does not hold exactly"),
    "more regions than declared": (set_block("regions", 10), "does not hold exactly"),
    "a huge number of regions": (set_block("regions", 10**12), "it must be 1 to"),
    "a negative number of regions": (set_block("regions", -1), "it must be 1 to"),
    "a number that is not whole": (set_block("regions", 9.0), "must be a whole number"),
    "another proof": (set_block("proof", "trust me"), "it must be linear or points"),
    "an unknown key": (set_block("pieces", []), 'unknown key "pieces"'),
    "inputs that are no text": (set_block("inputs", [1.0]), "must be a text"),
    "no base64": (set_block("inputs", "%%%"), "cannot be decoded"),
    "truncated base64": (set_block("inputs", pack(np.zeros((3, 9)), "<f4")[:-3]), "cannot be decoded"),
    "no zlib": (set_block("inputs", base64.b64encode(b"not zlib").decode()), "cannot be decoded"),
    "truncated zlib": (
        set_block("inputs", base64.b64encode(zlib.compress(bytes(108))[:-2]).decode()),
        "does not hold exactly",
    ),
    "bytes after zlib": (
        set_block("inputs", base64.b64encode(zlib.compress(bytes(108)) + b"more").decode()),
        "does not hold exactly",
    ),
    "a decompression bomb": (
        set_block("inputs", base64.b64encode(zlib.compress(bytes(10**8), 9)).decode()),
        "does not hold exactly 108 bytes",
    ),
    "another type of numbers": (set_block("inputs", pack(np.zeros((3, 9)), "<f8")), "does not hold exactly"),
    "too few classes": (set_block("classes", pack(np.zeros(8), "<u4")), "does not hold exactly"),
    "no classes": (lambda lines: lines[1].pop("classes"), 'no "classes"'),
    "a class that is none": (set_block("classes", np.full(9, 3)), "the model has no such class"),
    "a class far beyond": (set_block("classes", np.full(9, 2**32 - 1)), "the model has no such class"),
    "more regions in the header": (set_block("regions", 10**6, 0), "the file ends after"),
    "fewer regions in the header": (set_block("regions", 5, 0), "more regions than the 5"),
    "no regions in the header": (set_block("regions", 0, 0), "it must be 1 to"),
    "regions beyond the limit": (set_block("regions", 10**15, 0), "it must be 1 to"),
    "a list in the header": (set_block("regions", [], 0), "must be a whole number"),
    "an older version": (set_block("version", 3, 0), "not a fairmend certificate"),
    "another number at the end": (set_block("regions", 1, -1), "the file ends after"),
    "more at the end": (set_block("valid", True, -1), 'unknown key "valid"'),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_file_has_no_verdict(what, changed):
    change, reason = MALFORMED[what]
    result = changed(change)
    assert (result.verdict, result.valid) == ("unreadable", False)
    assert reason in result.reasons[0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(value, changed):
    def change(lines):
        lines[2]["inputs"][3, 1] = value

    result = changed(change)
    assert result.verdict == "unreadable"
    assert "not finite" in result.reasons[0]


def test_zeros_of_either_sign_are_one_number(files, tmp_path):
    lines = read_blocks_of(files[0])
    for block in lines[1:-1]:
        block["inputs"][block["inputs"] == 0] = -0.0
    result = fairmend.check(write_blocks(tmp_path / "changed.json", lines), files[1])
    assert result.valid, result.reasons


@pytest.mark.parametrize("column", range(3))
def test_an_input_that_cannot_be_one_is_invalid_and_named(column, changed):
    def change(lines):
        lines[2]["inputs"][3, column] = 99.5

    result = changed(change)
    assert result.verdict == "invalid"
    assert result.reasons[0].startswith("regions[12]: feature ")
    assert result.covers_inference is None


def test_a_flipped_class_is_invalid_wherever_it_is(changed, files):
    blocks = read_blocks_of(files[0])[1:-1]
    first = 0
    for number, block in enumerate(blocks):
        for row in range(block["regions"]):

            def change(lines, number=number, row=row):
                lines[1 + number]["classes"][row] = (lines[1 + number]["classes"][row] + 1) % 3

            if row in (0, block["regions"] - 1):
                result = changed(change)
                assert result.verdict == "invalid"
                assert result.reasons[0].startswith(f"regions[{first + row}]: the claimed margin of class")
                assert "is positive, but only" in result.reasons[0]
        first += block["regions"]


def test_points_where_a_feature_is_continuous(changed):
    result = changed(set_block("proof", "points"))
    assert result.verdict == "invalid"
    assert 'feature "income" is continuous' in result.reasons[0]


def test_duplicate_people_are_people(changed):
    """Two people may have the same values; the number of regions says how many there are."""

    def change(lines):
        lines[1]["inputs"][1] = lines[1]["inputs"][0]
        lines[1]["classes"][1] = lines[1]["classes"][0]

    assert changed(change).valid


def test_a_file_cut_off_anywhere_has_no_verdict(files, tmp_path):
    whole = files[0].read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    cut = {*np.linspace(0, len(whole) - 1, 25).astype(int).tolist(), *(e - 1 for e in ends), *ends[:-1]}
    for length in cut:
        (tmp_path / "cut.json").write_bytes(whole[:length])
        assert fairmend.check(tmp_path / "cut.json", files[1]).verdict == "unreadable", length


def test_more_after_the_closing_line_has_no_verdict(files, tmp_path):
    whole = files[0].read_bytes()
    for more in (b"\n", b"{}\n", b"x", whole):
        (tmp_path / "more.json").write_bytes(whole + more)
        assert fairmend.check(tmp_path / "more.json", files[1]).verdict == "unreadable"


def test_bytes_that_do_not_have_the_sha256_have_no_verdict(changed):
    def change(lines):
        lines[1]["inputs"][0] = lines[1]["inputs"][1]

    result = changed(change, sign=False)
    assert result.verdict == "unreadable"
    assert "sha256 is not that of the lines before it" in result.reasons[0]


def test_whatever_is_accepted_after_random_changes_of_bytes_is_unchanged(files, tmp_path):
    """Every byte is covered by the closing line: what still passes has the same regions."""
    whole, rng = files[0].read_bytes(), np.random.default_rng(2)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] = rng.integers(256)
        (tmp_path / "damaged.json").write_bytes(damaged)
        assert not fairmend.check(tmp_path / "damaged.json", files[1]).valid or bytes(damaged) == whole


def test_whatever_is_accepted_after_random_edits_is_true(files, tmp_path):
    """A forger moves people, gives them other classes and other proofs, and signs the file."""
    rng, network = np.random.default_rng(4), fairmend.load_network(files[1])
    verdicts = []
    for _ in range(30):
        lines = read_blocks_of(files[0])
        for _ in range(rng.integers(1, 4)):
            block = lines[1 + rng.integers(len(lines) - 2)]
            row, column = rng.integers(block["regions"]), rng.integers(3)
            if rng.random() < 0.2:
                block["classes"][row] = rng.integers(3)
            else:
                others = block["inputs"][:, column]
                block["inputs"][row, column] = rng.choice([others[rng.integers(len(others))], others[row] * 1.01])
        verdicts.append(fairmend.check(write_blocks(tmp_path / "edited.json", lines), files[1]).verdict)
        if verdicts[-1] == "valid":
            regions = [
                {"input": x.tolist(), "class": int(label), "margin": 1e-30}
                for block in lines[1:-1]
                for x, label in zip(block["inputs"], block["classes"], strict=True)
            ]
            assert is_true({**lines[0], "regions": regions}, network, rng)
    assert verdicts.count("valid") > 2
    assert verdicts.count("invalid") > 8


@few
@given(specs_and_inputs())
def test_own_boxes_cover_the_neighbourhood_and_nothing_beside_it(drawn):
    spec, X = drawn
    ours, dtype = read_spec(spec.to_dict(), "spec"), X.dtype.name
    for x in X.astype(np.float64):
        around = neighbourhood(ours, x, dtype)
        for points in (False, True)[: 2 if spec.finite else 1]:
            parts = [*batches([(0, around)], 50, points=points)]
            if sum(len(lower) for _, lower, _ in parts) > 500:
                continue
            lower, upper = (np.concatenate([part[side] for part in parts]) for side in (1, 2))
            assert find_uncovered(around, lower, upper, dtype) is None
            hull = spec.hull(x[None].astype(dtype), dtype)
            assert (lower >= hull[0]).all()
            assert (upper <= hull[1]).all()
            if len(lower) > 1:
                assert find_uncovered(around, lower[1:], upper[1:], dtype) is not None


def test_own_boxes_of_linked_people_cover_their_neighbourhoods():
    rng = np.random.default_rng(5)
    several = 0
    for _ in range(30):
        spec = random_linked_spec(rng)
        with np.errstate(all="ignore"):
            X = random_people(spec, rng, 3, np.float32)
        ours = read_spec(spec.to_dict(), "spec")
        for x in X.astype(np.float64):
            try:
                around = neighbourhood(ours, x, "float32")
            except region_blocks.CheckError:
                continue
            if sum(each.count_boxes() for each in around) <= 200:
                parts = [*batches([(0, around)], 1000, points=False)]
                lower, upper = (np.concatenate([part[side] for part in parts]) for side in (1, 2))
                assert find_uncovered(around, lower, upper, "float32") is None
                several += len(around) > 1
    assert several > 20


@st.composite
def claims(draw):
    spec, X = draw(specs_and_inputs())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    net = random_network(rng, spec.width, (5, 4), draw(st.integers(1, 3)), draw(st.sampled_from(ACTIVATIONS)), X.dtype)
    scale = X.dtype.type(draw(st.sampled_from([1.0, 0.1, 0.001])))
    first = net.affines[0]
    return net.with_affines([type(first)(first.weight * scale, first.bias), *net.affines[1:]]), spec, X


@few
@given(claims(), st.sampled_from([1, 2, 4096]))
def test_blocks_confirm_what_listed_regions_do_one_by_one(tmp_path_factory, claim, size):
    net, spec, X = claim
    listed, covered = certificate_of_fair(net, spec, X)
    if listed is None:
        return
    folder = tmp_path_factory.mktemp("both")
    net.save(folder / "model.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate_blocks, "_MOST_REGIONS", size)
        blocks, _ = certificate_in_blocks(net, spec, X)
        blocks.save(folder / "blocks.json", folder / "model.safetensors")
    together = fairmend.check(folder / "blocks.json", folder / "model.safetensors", real=blocks.real_only)
    assert together.valid, together.reasons
    least = []
    for region in listed.content["regions"]:
        one = {**listed.for_model(folder / "model.safetensors").content, "regions": [region]}
        (folder / "one.json").write_text(json.dumps(one))
        alone = fairmend.check(folder / "one.json", folder / "model.safetensors", real=blocks.real_only)
        assert alone.valid, alone.reasons
        least.append(alone.least_margin)
    assert together.least_margin >= min(least) * 0.99  # other slopes, which may be a little less tight
    assert together.regions == covered.sum() == len(least)
    assert is_true(listed.content, net, np.random.default_rng(0))

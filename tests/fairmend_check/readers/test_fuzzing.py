"""Files changed at random: the checker refuses them, or reads the network that the runtime of the format reads.

A short run; benchmarks/readers/run.py is the long one. The fuzzer is tested with readers that are wrong on purpose.
"""

import struct
from pathlib import Path

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Model
from support.checker_models import make_model
from support.fuzzing import fuzz
from support.fuzzing.byte_mutations import BYTE_MUTATIONS, mutate_bytes
from support.fuzzing.file_format import FileFormat, RuntimeRefusal

FILES = 300


@pytest.mark.parametrize("name", fuzz.FORMATS)
def test_mutated_files_are_refused_or_read_like_the_runtime_does(name, tmp_path):
    numbers = range(0, FILES, 3 if name.endswith("-loader") or name == "checkpoint" else 1)
    tally = fuzz.fuzz(fuzz.find_format(name), 1, numbers, tmp_path)
    assert tally.findings == []
    assert tally.counts.total() == len(numbers)


# A format to test the fuzzer with: one neuron, its number of weights as a byte, then the weights.


def pack(weights: list[float]) -> bytes:
    return bytes([len(weights)]) + struct.pack(f"<{len(weights)}f", *weights)


def model_of(weights) -> Model:
    return make_model([(np.array([weights], np.float32), None)], [])


def strict(path: Path) -> Model:
    content = path.read_bytes()
    if not content or len(content) != 1 + 4 * content[0]:
        raise CheckError("the length is wrong")
    return model_of(np.frombuffer(content[1:], "<f4"))


def lenient(path: Path) -> Model:
    """Ignores what follows the weights, which the runtime reads as further weights."""
    content = path.read_bytes()
    if not content or len(content) < 1 + 4 * content[0]:
        raise CheckError("the length is wrong")
    return model_of(np.frombuffer(content[1 : 1 + 4 * content[0]], "<f4"))


def careless(path: Path) -> Model:
    content = path.read_bytes()
    return model_of(struct.unpack(f"<{content[0]}f", content[1:]))


def runtime_weights(content: bytes) -> np.ndarray:
    if len(content) % 4 != 1:
        raise RuntimeRefusal("the length is wrong")
    return np.frombuffer(content[1:], "<f4")


def disagreement(model: Model, content: bytes, path: Path) -> str | None:
    weights = runtime_weights(content)
    return None if np.array_equal(model.layers[0].weight[0], weights) else "other weights"


def toy(read=strict, compare=disagreement) -> FileFormat:
    def mutate(content: bytes, rng: np.random.Generator) -> bytes:
        return pack(rng.normal(size=int(rng.integers(1, 5))).tolist())

    return FileFormat("toy", ".toy", lambda: [pack([1.0, 2.0]), pack([3.0])], mutate, compare, read)


def test_a_strict_reader_has_no_findings(tmp_path):
    tally = fuzz.fuzz(toy(), 0, range(400), tmp_path)
    assert tally.findings == []
    assert tally.counts[fuzz.SAME] > 50
    assert tally.counts[fuzz.REFUSED] > 50


def test_a_lenient_reader_is_found_out_and_its_files_are_kept(tmp_path):
    tally = fuzz.fuzz(toy(lenient), 0, range(400), tmp_path, keep=tmp_path / "kept")
    kinds = {kind for _, kind, _ in tally.findings}
    assert kinds == {fuzz.DIFFERENT}
    assert tally.counts[fuzz.RUNTIME_REFUSED] > 0
    number = tally.findings[0][0]
    kept = tmp_path / "kept" / f"toy-0-{number}-different.toy"
    assert fuzz.try_file(toy(lenient), kept.read_bytes(), tmp_path / "again.toy") == (fuzz.DIFFERENT, "other weights")
    assert len(list(kept.parent.iterdir())) == len(tally.findings)


def test_an_exception_that_is_not_a_refusal_is_a_finding(tmp_path):
    tally = fuzz.fuzz(toy(careless), 0, range(400), tmp_path)
    assert {kind for _, kind, _ in tally.findings} == {fuzz.RAW_EXCEPTION}


def test_a_comparison_that_fails_does_not_count_as_the_same(tmp_path):
    def compare(model, content, path):
        raise KeyError("no such layer")

    outcome, text = fuzz.try_file(toy(compare=compare), pack([1.0]), tmp_path / "model.toy")
    assert outcome == fuzz.NOT_COMPARED
    assert "no such layer" in text


def test_a_seed_that_is_refused_is_a_finding(tmp_path):
    def read(path):
        raise CheckError("too strict")

    tally = fuzz.fuzz(toy(read), 0, range(10), tmp_path)
    assert [number for number, _, _ in tally.findings] == [0, 1]
    assert tally.counts == {fuzz.SEED_REFUSED: 2, fuzz.REFUSED: 8}


def test_a_file_is_determined_by_seed_and_number():
    seeds = toy().seeds()
    files = [fuzz.make_file(toy(), seeds, 0, number) for number in range(100)]
    assert files == [fuzz.make_file(toy(), seeds, 0, number) for number in range(100)]
    assert files[2:] != [fuzz.make_file(toy(), seeds, 1, number) for number in range(2, 100)]
    assert len(set(files)) > 80


def test_a_mutation_may_fail_on_a_damaged_file_but_not_on_a_seed():
    def fail_on_damage(content, rng):
        if content not in seeds:
            raise ValueError("cannot parse")
        return content[:-1]

    def fail(content, rng):
        raise ValueError("cannot parse")

    seeds = toy().seeds()
    form = FileFormat("toy", ".toy", toy().seeds, fail_on_damage, disagreement)
    assert all(fuzz.make_file(form, seeds, 0, number) not in seeds for number in range(2, 50))
    form = FileFormat("toy", ".toy", toy().seeds, fail, disagreement)
    with pytest.raises(ValueError, match="cannot parse"):
        [fuzz.make_file(form, seeds, 0, number) for number in range(2, 50)]


@pytest.mark.parametrize("mutation", BYTE_MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_byte_mutations_take_any_file_and_change_most(mutation):
    rng = np.random.default_rng(0)
    for content in (b"a", b"ab", b"abcdefgh", bytes(range(256))):
        results = [mutation(content, [content, b"other"], rng) for _ in range(50)]
        assert any(result != content for result in results) or len(content) < 3
    assert mutate_bytes(b"", [b"seed"], rng)

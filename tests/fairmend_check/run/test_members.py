"""Running a model on members of classes: an honest one gives them the same bits, and a leak is seen."""

import sys

import numpy as np
import pytest

import fairmend_check
from benchmarks.soundness import leaks
from benchmarks.soundness.entry_cases import random_case
from fairmend_check.kernel.classes import table_of
from fairmend_check.kernel.entry import read_entry
from fairmend_check.kernel.spec import read_spec
from fairmend_check.run.compare import class_members

pytest.importorskip("onnxruntime")


def with_texts(seed=0):
    """A case with an input of texts and a look-up."""
    while True:
        case = random_case(np.random.default_rng(seed))
        if case.entry["lookups"] and any(port["type"] == "string" for port in case.entry["ports"]):
            return case
        seed += 1


def with_whole_numbers(seed=0):
    while True:
        case = random_case(np.random.default_rng(seed))
        if any(port["type"].startswith("int") for port in case.entry["ports"]):
            return case
        seed += 1


@pytest.mark.runs_models
@pytest.mark.parametrize("make", [with_texts, with_whole_numbers])
def test_members_of_a_class_get_the_same_bits(make, tmp_path):
    case = make()
    result = fairmend_check.check(*leaks.write(tmp_path, case, leaks.honest_certificate(case)), require_run=True)
    assert result.valid, result.reasons
    assert [run.people for run in result.runs] == [256]


@pytest.mark.runs_models
@pytest.mark.parametrize("name", ["another_path", "a_branch_captures_the_input", "another_output"])
def test_a_leak_that_the_reader_overlooks_is_seen(name, tmp_path, monkeypatch):
    case = with_whole_numbers()
    content = leaks.honest_certificate(case)
    leaks.LEAKS[name](case, np.random.default_rng(0))
    certificate, model = leaks.write(tmp_path, case, content)
    claimed = fairmend_check.check.__globals__["read_certificate"](certificate).file_sha256
    monkeypatch.setattr(sys.modules["fairmend_check.check"], "check_structure", lambda path, entry: claimed)
    result = fairmend_check.check(certificate, model)
    assert result.verdict == "invalid"
    assert "than a member of their class" in result.reasons[0]


@pytest.mark.parametrize("seed", range(8))
def test_members_are_of_the_class(seed):
    """By the tables that the checker lists: everyone finds the row of their members; and what is kept is the same."""
    case = random_case(np.random.default_rng(seed))
    spec = read_spec(case.spec, "spec")
    entry = read_entry(case.entry, spec)
    variants = class_members(spec, entry, np.random.default_rng(seed), people=50)
    for lookup in entry.lookups:
        assert not isinstance(table_of(spec, entry, lookup, ""), str)
        found = [_indices(entry, lookup, ports) for ports in variants]
        rows = [[lookup.table[at] for at in each] for each in found]
        assert all(each == rows[0] for each in rows)
    for number in range(len(entry.ports)):
        kept = entry.kept_columns(number)
        held = [ports[number].reshape(50, -1)[:, kept] for ports in variants]
        assert all((each == held[0]).all() for each in held)
    assert any((a != b).any() for a, b in zip(variants[0], variants[1], strict=True))


def _indices(entry, lookup, ports):
    index = np.zeros(50, dtype=np.int64)
    for code in lookup.codes:
        held = ports[code.port].reshape(50, -1)
        total = np.zeros(50, dtype=np.int64)
        for column, constant, weight in code.comparisons:
            total += weight * (held[:, column] >= constant if code.compare == ">=" else held[:, column] == constant)
        index = index * (code.most + 1) + np.minimum(total, code.most)
    return index

"""Tallies of parts, merged in order, are the tally of the whole."""

import pickle

import numpy as np
import pytest

from fairmend.auditing import slices
from fairmend.auditing.neighbours import ExhaustiveScan, RandomScan
from fairmend.auditing.slices import TALLY_CLASSES, AuditTally
from support.audit_cases import SPEC, network, people
from support.score_cases import score_spec

NET = network()


def blocks(X, size=25):
    return [X[start : start + size] for start in range(0, len(X), size)]


def tallied(spec, found, first=0):
    result = AuditTally(NET, spec, pairs=3, seed=5, first=first)
    for X, scan in found:
        result.add(spec, X, scan)
    return result


@pytest.mark.parametrize("scan", ["all neighbours", "random neighbours", "scores"])
def test_merged_tallies_are_the_tally_of_the_whole(monkeypatch, scan):
    monkeypatch.setattr(slices, "_EXAMINED_ROWS", 30)
    spec = score_spec(0.1, "logit", SPEC.features) if scan == "scores" else SPEC
    scanner = RandomScan(NET, spec, 8, 0) if scan == "random neighbours" else ExhaustiveScan(NET, spec)
    found = [(X, scanner.scan(X)) for X in blocks(people(200))]
    whole, merged = tallied(spec, found), AuditTally(NET, spec, pairs=3, seed=5)
    merged.merge(tallied(spec, []))  # a slice may have nobody in range
    for start in (0, 3, 6):
        part = tallied(spec, found[start : start + 3], first=25 * start)
        merged.merge(pickle.loads(pickle.dumps(part)))
    for name in ("count", "total", "evaluations", "unknown"):
        assert getattr(merged, name) == getattr(whole, name)
    assert merged.largest()[0] == whole.largest()[0]
    assert merged.widest()[0] == whole.widest()[0]
    assert np.array_equal(merged.rows().logits, whole.rows().logits)
    mine, theirs = merged.examined(), whole.examined()
    assert len(mine.rows) == 30
    assert all(np.array_equal(getattr(mine, name), getattr(theirs, name)) for name in ("X", "rows", "unequal"))
    disparities = [each.disparity(spec.claim, None) for each in (merged, whole)]
    assert np.array_equal(*(each.differences for each in disparities))
    summaries = [each.scores(spec.claim, disparities[0]) for each in (merged, whole)]
    assert scan != "scores" or np.array_equal(*(each.differences for each in summaries))


def test_the_classes_of_a_tally_are_those_it_is_made_of():
    found = tallied(SPEC, [(people(20), ExhaustiveScan(NET, SPEC).scan(people(20)))])
    parts = [found, *(value for value in vars(found).values() if hasattr(value, "merge"))]
    parts += [found._scores._collector, found._scores._claimed]
    assert {type(part) for part in parts} == set(TALLY_CLASSES)

"""A planned scan cuts long blocks into parts, and gives bounds their share of the time."""

import numpy as np
import pytest

from fairmend.auditing.neighbours import find_unequal
from fairmend.auditing.plan import AuditPlan
from fairmend.auditing.planned_scan import PlannedScan, TimeShare
from support.audit_cases import SPEC, network, people


def planned(method, neighbours=580):
    return PlannedScan(network(), SPEC, AuditPlan(method, 400, neighbours, 0.1), 8, 0)


def task(scanner, X, limit=None):
    return next(scanner.tasks(iter([X]), np.random.default_rng(0), limit))


@pytest.mark.parametrize(("method", "parts"), [("enumerate", 4), ("sample", 1), ("branch", 1)])
def test_long_blocks_are_enumerated_in_parts(method, parts):
    X = people(400)
    cut = list(planned(method, 640_000).parts(iter([X])))
    assert len(cut) == parts
    assert np.array_equal(np.concatenate(cut), X)
    assert len(list(planned(method, 60_000).parts(iter([X])))) == 1


@pytest.mark.parametrize("method", ["enumerate", "branch"])
def test_every_unequal_input_has_a_witness(method):
    scanner, X = planned(method), people(60)
    found = scanner.scan(task(scanner, X, TimeShare(60.0, 60)))
    expected = find_unequal(network(), SPEC, X).rows
    assert np.array_equal(found.unequal, expected)
    rows, first, other = scanner.witnesses(X, found)
    assert np.array_equal(rows, np.flatnonzero(expected))
    assert np.array_equal(first, X[rows])
    assert (network().predict(other) != network().predict(first)).all()


def test_without_time_everything_open_is_unknown():
    scanner = planned("branch")
    found = scanner.scan(task(scanner, people(60), TimeShare(1e-9, 60)))
    assert (found.unequal | found.unknown).sum() >= found.unequal.sum()
    assert not (found.unequal & found.unknown).any()

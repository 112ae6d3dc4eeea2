"""A planned scan cuts long blocks into parts, and gives bounds their share of the time."""

import numpy as np
import pytest

from fairmend.audit.neighbours import find_unequal
from fairmend.audit.plan import AuditPlan
from fairmend.audit.planned_scan import PlannedScan
from support.audit_cases import SPEC, network, people


def planned(method, rows, seconds, limit=None):
    return PlannedScan(network(), SPEC, AuditPlan(method, rows, 580, seconds), 8, 0, limit, None)


@pytest.mark.parametrize(("method", "parts"), [("enumerate", 4), ("sample", 1), ("branch", 1)])
def test_long_blocks_are_enumerated_in_parts(method, parts):
    X = people(400)
    cut = list(planned(method, 400, 8.0).parts(iter([X])))
    assert len(cut) == parts
    assert np.array_equal(np.concatenate(cut), X)
    assert len(list(planned(method, 400, 0.5).parts(iter([X])))) == 1


@pytest.mark.parametrize("method", ["enumerate", "branch"])
def test_every_unequal_input_has_a_witness(method):
    scanner, X = planned(method, 60, 0.1, limit=60.0), people(60)
    found = scanner.scan(next(scanner.tasks(iter([X]))))
    expected = find_unequal(network(), SPEC, X).rows
    assert np.array_equal(found.unequal, expected)
    rows, first, other = scanner.witnesses(X, found)
    assert np.array_equal(rows, np.flatnonzero(expected))
    assert np.array_equal(first, X[rows])
    assert (network().predict(other) != network().predict(first)).all()


def test_without_time_everything_open_is_unknown():
    scanner = planned("branch", 60, 0.1, limit=1e-9)
    found = scanner.scan(next(scanner.tasks(iter([people(60)]))))
    assert (found.unequal | found.unknown).sum() >= found.unequal.sum()
    assert not (found.unequal & found.unknown).any()

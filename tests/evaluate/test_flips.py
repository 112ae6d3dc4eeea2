"""Counterfactuals that differ in as little as possible, against brute force."""

import numpy as np

from fairmend.audit.neighbours import find_unequal
from fairmend.evaluate.flips import find_twins
from support.cli_case import small_network, small_people, small_spec
from support.report_cases import people


def test_what_is_enough_alone_is_so_by_brute_force():
    spec, frame, net = small_spec(), small_people(60), small_network()
    X = spec.encode(frame)
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    twins = find_twins(net, spec, X, rows, unequal.other[rows])
    for k, row in enumerate(rows.tolist()):
        own = net.predict(X[[row]])[0]
        ages = frame.iloc[[row] * 58].assign(age=range(18, 76))
        genders = frame.iloc[[row] * 2].assign(gender=["f", "m"])
        alone = [bool((net.predict(spec.encode(others)) != own).any()) for others in (ages, genders)]
        assert twins.alone[k].tolist() == alone
        assert twins.differs[k].sum() == (1 if any(alone) else 2)
    flips = twins.flips()
    assert flips.alone["age"] == twins.alone[:, 0].sum()
    assert flips.together == (~twins.alone.any(axis=1)).sum()


def test_too_many_neighbours_still_give_pairs_that_hold(monkeypatch):
    spec, frame, net = small_spec(), people(), small_network()
    X = spec.encode(frame)
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    monkeypatch.setattr("fairmend.evaluate.flips.MOST_POINTS", 100)
    twins = find_twins(net, spec, X, rows, unequal.other[rows])
    assert not twins.exact
    assert (net.predict(twins.other) != net.predict(twins.X)).all()
    assert twins.differs.any(axis=1).all()

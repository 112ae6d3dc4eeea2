"""Counterfactuals that differ in as little as possible, against brute force."""

import numpy as np

from fairmend.audit.neighbours import find_unequal
from fairmend.evaluate.nearest_counterfactuals import find_nearest_counterfactuals
from support.cli_case import small_network, small_people, small_spec
from support.report_cases import people


def test_what_is_enough_alone_is_so_by_brute_force():
    spec, frame, net = small_spec(), small_people(60), small_network()
    X = spec.encode(frame)
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    nearest = find_nearest_counterfactuals(net, spec, X, rows, unequal.other[rows])
    for k, row in enumerate(rows.tolist()):
        own = net.predict(X[[row]])[0]
        ages = frame.iloc[[row] * 58].assign(age=range(18, 76))
        genders = frame.iloc[[row] * 2].assign(gender=["f", "m"])
        alone = [bool((net.predict(spec.encode(others)) != own).any()) for others in (ages, genders)]
        assert nearest.alone[k].tolist() == alone
        assert nearest.differs[k].sum() == (1 if any(alone) else 2)
    flips = nearest.decisive_features()
    assert flips.alone["age"] == nearest.alone[:, 0].sum()
    assert flips.together == (~nearest.alone.any(axis=1)).sum()


def test_too_many_neighbours_still_give_pairs_that_hold(monkeypatch):
    spec, frame, net = small_spec(), people(), small_network()
    X = spec.encode(frame)
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    monkeypatch.setattr("fairmend.evaluate.nearest_counterfactuals.MOST_POINTS", 100)
    nearest = find_nearest_counterfactuals(net, spec, X, rows, unequal.other[rows])
    assert not nearest.exact
    assert (net.predict(nearest.other) != net.predict(nearest.X)).all()
    assert nearest.differs.any(axis=1).all()

"""Counterfactuals that differ in as little as possible, against brute force."""

import numpy as np

from fairmend.auditing.neighbours import find_unequal
from fairmend.evaluate.nearest_counterfactuals import find_nearest_counterfactuals, pick_evenly
from fairmend.network.model import ScoredRows
from support.cli_case import small_network, small_people, small_spec
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people as huge_people
from support.link_cases import family_case
from support.report_cases import people


def test_what_is_enough_alone_is_so_by_brute_force():
    spec, frame, net = small_spec(), small_people(60), small_network()
    X = spec.encode(frame)
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    nearest = find_nearest_counterfactuals(ScoredRows.of(net, X), spec, rows, unequal.other[rows])
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
    nearest = find_nearest_counterfactuals(ScoredRows.of(net, X), spec, rows, unequal.other[rows])
    assert not nearest.exact
    assert (net.predict(nearest.other) != net.predict(nearest.X)).all()
    assert nearest.differs.any(axis=1).all()


def test_the_counterfactuals_need_not_be_known_before():
    spec, net = small_spec(), small_network()
    X = spec.encode(small_people(60))
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    given = find_nearest_counterfactuals(ScoredRows.of(net, X), spec, rows, unequal.other[rows])
    found = find_nearest_counterfactuals(ScoredRows.of(net, X), spec, rows)
    assert len(rows) > 5
    assert found.exact
    assert found.rows.tolist() == rows.tolist()
    assert (found.other == given.other).all()
    assert found.decisive_features() == given.decisive_features()


def test_without_known_counterfactuals_as_many_rows_as_affordable_are_enumerated(monkeypatch):
    spec, net = small_spec(), small_network()
    X = spec.encode(people())
    rows = np.flatnonzero(find_unequal(net, spec, X).rows)
    monkeypatch.setattr("fairmend.evaluate.nearest_counterfactuals.MOST_POINTS", 7 * 58 * 2)
    found = find_nearest_counterfactuals(ScoredRows.of(net, X), spec, rows)
    assert len(rows) > len(found.rows) == 7
    assert found.exact
    assert (net.predict(found.other) != net.predict(found.X)).all()
    monkeypatch.setattr("fairmend.evaluate.nearest_counterfactuals.MOST_POINTS", 1)
    assert len(find_nearest_counterfactuals(ScoredRows.of(net, X), spec, rows).rows) == 1


def test_no_rows_give_no_counterfactuals():
    spec, net = small_spec(), small_network()
    X = spec.encode(small_people(5))
    found = find_nearest_counterfactuals(ScoredRows.of(net, X), spec, np.zeros(0, np.int64))
    assert found.decisive_features().looked_at == 0


def test_an_even_choice_keeps_both_ends():
    assert pick_evenly(3, 5).tolist() == [0, 1, 2]
    assert pick_evenly(101, 3).tolist() == [0, 50, 100]
    assert len(pick_evenly(1_000, 240)) == 240


def test_known_neighbours_are_reduced_where_there_are_too_many_to_enumerate():
    from fairmend.auditing.neighbours import sample_unequal

    spec = HUGE["three hundred one-hot features"]
    net, X, _ = huge_people(spec)
    unequal = sample_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    assert len(rows)
    assert not find_nearest_counterfactuals(ScoredRows.of(net, X), spec, rows, unequal.other[rows]).exact


def test_linked_features_stay_linked(monkeypatch):
    spec, net, X = family_case(rows=60)
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    for most in (10**6, 1):
        monkeypatch.setattr("fairmend.evaluate.nearest_counterfactuals.MOST_POINTS", most)
        nearest = find_nearest_counterfactuals(ScoredRows.of(net, X), spec, rows, unequal.other[rows])
        assert spec.are_similar(nearest.X, nearest.other).all()
        assert (net.predict(nearest.other) != net.predict(nearest.X)).all()
        assert nearest.features == ("sex", "relationship", "age", "years")

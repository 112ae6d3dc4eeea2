"""Selection rates by group, against counting."""

import numpy as np
import pytest

from fairmend.evaluate import group_rates as module
from fairmend.evaluate.group_rates import tabulate_groups
from fairmend.evaluate.groups import protected_values
from support.cli_case import small_network, small_people, small_spec


def test_rates_are_those_of_counting():
    spec, frame, net = small_spec(), small_people(), small_network()
    X = spec.encode(frame)
    unfair = np.arange(len(X)) % 3 == 0
    age, gender = tabulate_groups(spec, protected_values(spec, X), [], net.predict(X), classes=1, unfair=unfair)
    assert (age.binned, gender.binned) == (True, False)
    assert [group.name for group in gender.groups] == ["f", "m"]
    for group in gender.groups:
        members = (frame["gender"] == group.name).to_numpy()
        assert group.rows == members.sum()
        assert group.selection_rate == pytest.approx(net.predict(X)[members].mean())
        assert group.unfair_rate == pytest.approx(unfair[members].mean())
    assert (gender.demographic_parity_difference, gender.equalized_odds_difference) == (None, None)


def test_several_classes_have_no_selection_rate():
    spec, net = small_spec(), small_network(3)
    X = spec.encode(small_people())
    found = tabulate_groups(spec, protected_values(spec, X), [], net.predict(X), classes=3)
    assert all(group.selection_rate is None for feature in found for group in feature.groups)


def test_the_largest_groups_are_shown_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(module, "_MOST_GROUPS", 1)
    spec, frame = small_spec(), small_people()
    X = spec.encode(frame)
    gender = tabulate_groups(spec, protected_values(spec, X), [], small_network().predict(X), classes=1)[1]
    assert gender.groups[0].name == frame["gender"].mode()[0]
    assert gender.groups_left_out == 1

"""Group metrics are those of counting and of Fairlearn; where they are not defined, a reason says why."""

import numpy as np
import pytest
from fairlearn.metrics import demographic_parity_difference, equalized_odds_difference
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.evaluate.groups import group_metrics_of
from fairmend.evaluate.outcomes import tabulate_groups
from fairmend.spec import Feature, Spec
from support.group_cases import columns_of
from support.group_metrics import group_metrics
from support.strategies import random_network
from support.strategies_spec import unhurried

GENDER = Feature("gender", "categorical", categories=("f", "m", "x"), encoding="one-hot", protected=True)
AGE = Feature("age", "integer", range=(18, 75), scale={"min": 18, "max": 75}, protected=True)
SPEC = Spec([GENDER, AGE, Feature("income", "continuous", range=(0, 1))])
ONE = Spec([GENDER])


def rates(groups, mask, predicted):
    return [predicted[mask & (groups == g)].mean() for g in np.unique(groups)]


def spread(values):
    return max(values) - min(values)


@unhurried
@given(
    st.lists(st.tuples(st.sampled_from("fmx"), st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=40),
)
def test_figures_are_those_of_counting(rows):
    gender, y, predicted = (np.array(side) for side in zip(*rows, strict=True))
    (found,) = group_metrics_of(ONE, columns_of(ONE, {"gender": gender.astype(object)}), predicted, y)
    assert found.groups == {g: int((gender == g).sum()) for g in np.unique(gender)}
    assert not found.binned
    if len(found.groups) == 1:
        assert found.demographic_parity_difference is None
        assert found.equalized_odds_difference is None
        assert found.reason == f"every row is {gender[0]}"
        return
    everyone = np.ones(len(y), bool)
    assert found.demographic_parity_difference == pytest.approx(spread(rates(gender, everyone, predicted)))
    if all(len(set(y[gender == g])) == 2 for g in found.groups):
        by_hand = max(spread(rates(gender, y == label, predicted)) for label in (0, 1))
        assert found.equalized_odds_difference == pytest.approx(by_hand)
        assert found.reason is None
    else:
        assert found.equalized_odds_difference is None
        assert "has the label" in found.reason


@unhurried
@given(
    st.lists(st.tuples(st.sampled_from("fmx"), st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=50),
)
def test_figures_are_those_of_fairlearn(rows):
    gender, y, predicted = (np.array(side) for side in zip(*rows, strict=True))
    (found,) = group_metrics_of(ONE, columns_of(ONE, {"gender": gender.astype(object)}), predicted, y)
    if len(found.groups) == 1:
        return  # test_figures_are_those_of_counting says what holds then
    parity = demographic_parity_difference(y, predicted, sensitive_features=gender)
    assert found.demographic_parity_difference == pytest.approx(parity, abs=1e-12)
    if found.equalized_odds_difference is not None:
        odds = equalized_odds_difference(y, predicted, sensitive_features=gender)
        assert found.equalized_odds_difference == pytest.approx(odds, abs=1e-12)


def test_groups_with_less_than_2_percent_of_the_rows_decide_no_gap():
    rng = np.random.default_rng(0)
    gender = np.array(["f"] * 49 + ["m"] * 50 + ["x"], dtype=object)
    y, predicted = rng.integers(0, 2, (2, 100))
    predicted[-1] = 1 - round(predicted.mean())  # the one "x" would have the highest or the lowest rate
    (found,) = group_metrics_of(ONE, columns_of(ONE, {"gender": gender}), predicted, y)
    assert (found.groups, found.small, found.reason) == ({"f": 49, "m": 50, "x": 1}, ("x",), None)
    rest = {"y_true": y[:-1], "y_pred": predicted[:-1], "sensitive_features": gender[:-1]}
    assert found.demographic_parity_difference == pytest.approx(demographic_parity_difference(**rest))
    assert found.equalized_odds_difference == pytest.approx(equalized_odds_difference(**rest))
    (classes,) = group_metrics_of(ONE, columns_of(ONE, {"gender": gender}), predicted, classes=3)
    assert {name for rates in classes.class_rates.values() for name in rates} == {"f", "m"}
    (table,) = tabulate_groups(ONE, columns_of(ONE, {"gender": gender}), [found], predicted, classes=1)
    assert (table.small_groups, len(table.groups)) == (1, 3)


@pytest.mark.parametrize(("groups", "reason"), [("f" * 99 + "m", "only one group has"), (None, "no group has")])
def test_without_two_groups_to_compare_there_is_a_reason(groups, reason):
    many = tuple(f"g{number}" for number in range(60))
    spec = Spec([Feature("place", "categorical", categories=("f", "m") if groups else many, protected=True)])
    place = np.array(list(groups) if groups else many * 2, dtype=object)
    (found,) = group_metrics_of(spec, columns_of(spec, {"place": place}), np.arange(len(place)) % 2)
    assert found.demographic_parity_difference is None
    assert reason in found.reason


def test_figures_of_many_rows_are_those_of_fairlearn():
    rng = np.random.default_rng(0)
    net, X, y = random_network(rng, SPEC.width, [6]), SPEC.sample_inputs(4_000, rng), rng.integers(0, 2, 4_000)
    gender, age = group_metrics(net, SPEC, X, y)
    ages = SPEC.decode(X)["age"].to_numpy()
    ends = [int(name.split(" to ")[1]) for name in age.groups]
    for found, groups in ((gender, SPEC.decode(X)["gender"]), (age, np.searchsorted(ends, ages))):
        parity = demographic_parity_difference(y, net.predict(X), sensitive_features=groups)
        odds = equalized_odds_difference(y, net.predict(X), sensitive_features=groups)
        assert parity > 0
        assert found.demographic_parity_difference == pytest.approx(parity, abs=1e-12)
        assert found.equalized_odds_difference == pytest.approx(odds, abs=1e-12)


def test_many_numbers_are_binned_into_quarters_and_that_is_said():
    rng = np.random.default_rng(0)
    net, X = random_network(rng, SPEC.width, [6]), SPEC.sample_inputs(4_000, rng)
    gender, age = group_metrics(net, SPEC, X, rng.integers(0, 2, 4_000))
    assert (gender.feature, gender.binned) == ("gender", False)
    assert (age.feature, age.binned, len(age.groups)) == ("age", True, 4)
    assert sum(age.groups.values()) == 4_000
    assert min(age.groups.values()) > 850
    assert next(iter(age.groups)).startswith("18 to ")
    assert list(age.groups)[-1].endswith(" to 75")


@unhurried
@given(st.lists(st.integers(18, 75), min_size=1, max_size=60))
def test_bins_are_at_most_four_and_hold_every_row(ages):
    spec = Spec([AGE])
    (found,) = group_metrics_of(
        spec, columns_of(spec, {"age": np.array(ages)}), np.array([0, 1] * len(ages))[: len(ages)]
    )
    assert 1 <= len(found.groups) <= (4 if found.binned else 8)
    assert sum(found.groups.values()) == len(ages)
    assert found.binned == (len(set(ages)) > 8)
    assert (found.demographic_parity_difference is None) == (len(found.groups) == 1)


def test_unknown_labels_and_several_classes_are_reasons():
    rng = np.random.default_rng(0)
    X = SPEC.sample_inputs(100, rng)
    unknown = group_metrics(random_network(rng, SPEC.width, [4]), SPEC, SPEC.decode(X))
    several = group_metrics(random_network(rng, SPEC.width, [4], 3), SPEC, X, rng.integers(0, 3, 100))
    assert len(unknown) == len(several) == len(SPEC.protected)
    for found in unknown:
        assert found.demographic_parity_difference is not None
        assert found.equalized_odds_difference is None
        assert "not known" in found.reason
    for found in several:
        assert found.demographic_parity_difference is None
        assert "two classes" in found.reason


def test_labels_of_another_length_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(FairmendError, match="99 true classes for 100 predictions"):
        group_metrics(random_network(rng, SPEC.width, [4]), SPEC, SPEC.sample_inputs(100, rng), np.zeros(99))


@pytest.mark.parametrize("y", [[1, 2, 1, 2], [0, 2, 0, 2], ["0", "1", "0", "1"]])
def test_labels_that_are_not_0_and_1_are_refused(y):
    gender, predicted = np.array(["f", "f", "m", "m"], dtype=object), np.array([0, 1, 0, 1])
    with pytest.raises(FairmendError, match="give the true classes as 0 and 1"):
        group_metrics_of(ONE, columns_of(ONE, {"gender": gender}), predicted, y)


def test_a_group_of_one_number_is_called_by_it():
    ages = np.array([18] * 30 + list(range(19, 40)))
    (found,) = group_metrics_of(Spec([AGE]), columns_of(Spec([AGE]), {"age": ages}), np.arange(len(ages)) % 2)
    assert found.binned
    assert next(iter(found.groups)) == "18"
    assert not any(name.startswith("18 to 18") for name in found.groups)


def test_codes_are_groups_even_if_most_rows_have_one():
    """Quarters would put all five codes into one group."""
    race = Spec([Feature("race", "integer", range=(0, 4), protected=True)])
    codes = np.array([4] * 90 + [0, 1, 2, 3] * 2)
    (found,) = group_metrics_of(race, columns_of(race, {"race": codes}), np.arange(len(codes)) % 2)
    assert found.groups == {"0": 2, "1": 2, "2": 2, "3": 2, "4": 90}
    assert not found.binned
    (many,) = group_metrics_of(
        Spec([AGE]), columns_of(Spec([AGE]), {"age": np.array([75] * 90 + list(range(20, 40)))}), np.zeros(110, int)
    )
    assert many.groups == {"20 to 39": 20, "75": 90}

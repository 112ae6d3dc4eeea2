"""Selection rates and impact ratios, against counts by pandas and Fairlearn's figures."""

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import demographic_parity_ratio

from fairmend.auditing.result import wilson_interval
from fairmend.evaluate import outcomes as module
from fairmend.evaluate.groups import protected_columns
from fairmend.evaluate.outcomes import tabulate_groups, tabulate_outcomes
from fairmend.spec import Feature, Label, Spec
from support.cli_case import small_network, small_people, small_spec
from support.group_cases import columns_of
from support.report_cases import audit_of, people, repair_of

# Selection rates by group, against counting.


def test_rates_are_those_of_counting():
    spec, frame, net = small_spec(), small_people(), small_network()
    X = spec.encode(frame)
    unfair = np.arange(len(X)) % 3 == 0
    age, gender = tabulate_groups(spec, protected_columns(spec, X), [], net.predict(X), classes=1, unfair=unfair)
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
    found = tabulate_groups(spec, protected_columns(spec, X), [], net.predict(X), classes=3)
    assert all(group.selection_rate is None for feature in found for group in feature.groups)


def test_the_largest_groups_are_shown_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(module, "_MOST_RATES", 1)
    spec, frame = small_spec(), small_people()
    X = spec.encode(frame)
    gender = tabulate_groups(spec, protected_columns(spec, X), [], small_network().predict(X), classes=1)[1]
    assert gender.groups[0].name == frame["gender"].mode()[0]
    assert gender.groups_left_out == 1


def spec_of(*names, categories=("a", "b", "c")):
    features = [Feature(name, "categorical", categories=categories, protected=True) for name in names]
    return Spec(features, Label("y", "yes"))


def draw(*names, rows=3_000, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.choice(np.array(["a", "b", "c"], dtype=object), rows, p=[0.6, 0.39, 0.01]) for name in names}


def test_every_group_and_intersection_is_counted_as_pandas_counts_it():
    values = draw("sex", "race")
    frame = pd.DataFrame(values)
    rng = np.random.default_rng(1)
    predictions = [(rng.random(3_000) < 0.3 + 0.3 * (frame["sex"] == "b")).astype(np.int64).to_numpy() for _ in "12"]
    found = tabulate_outcomes(
        spec_of("sex", "race"), columns_of(spec_of("sex", "race"), values), predictions, ["no", "yes"]
    )
    assert [table.features for table in found.tables] == [["sex"], ["race"], ["sex", "race"]]
    assert found.tables_left_out == 0
    for table in found.tables:
        counted = frame.assign(before=predictions[0], after=predictions[1]).groupby(table.features)
        assert len(table.groups) == len(counted)
        for group in table.groups:
            key = tuple(group.values) if len(group.values) > 1 else group.values[0]
            own = counted.get_group(key if isinstance(key, tuple) else (key,))
            assert group.rows == len(own)
            assert group.small == (len(own) < 60)
            for side, selection in (("before", group.before), ("after", group.after)):
                assert selection.count == own[side].sum()
                assert (selection.low, selection.high) == wilson_interval(selection.count, group.rows)
                assert selection.low <= selection.rate <= selection.high
                best = max(part[side].mean() for _, part in counted if len(part) >= 60)
                assert selection.ratio == (None if group.small else pytest.approx(own[side].mean() / best))
                assert selection.flagged == (not group.small and own[side].mean() / best < 0.8)
        assert table.flagged_before == sum(group.before.flagged for group in table.groups)
        assert table.flagged_after == sum(group.after.flagged for group in table.groups)


def test_the_lowest_ratio_is_fairlearns():
    values = {"sex": np.array(["a", "b"] * 500, dtype=object)}
    predicted = (np.random.default_rng(2).random(1_000) < 0.4).astype(np.int64)
    table = tabulate_outcomes(spec_of("sex"), columns_of(spec_of("sex"), values), [predicted], ["no", "yes"]).tables[0]
    ratio = demographic_parity_ratio(predicted, predicted, sensitive_features=values["sex"])
    assert min(group.before.ratio for group in table.groups) == pytest.approx(ratio)


def test_with_many_classes_each_is_a_selection():
    values = draw("sex", rows=900)
    predicted = np.arange(900) % 3
    tables = tabulate_outcomes(spec_of("sex"), columns_of(spec_of("sex"), values), [predicted], ["A", "B", "C"]).tables
    assert [table.answer for table in tables] == ["A", "B", "C"]
    for number, table in enumerate(tables):
        assert sum(group.before.count for group in table.groups) == (predicted == number).sum()


def test_no_one_selected_has_no_ratio():
    table = tabulate_outcomes(
        spec_of("sex"), columns_of(spec_of("sex"), draw("sex")), [np.zeros(3_000, np.int64)], ["no", "yes"]
    ).tables[0]
    assert {group.before.ratio for group in table.groups} == {None}
    assert table.flagged_before == 0


def test_tables_of_many_features_are_counted_if_they_are_left_out():
    names = [f"f{number}" for number in range(20)]
    found = tabulate_outcomes(
        spec_of(*names), columns_of(spec_of(*names), draw(*names, rows=50)), [np.ones(50, np.int64)], ["no", "yes"]
    )
    assert len(found.tables) == 24
    assert found.tables_left_out == 2**20 - 1 - 24


def test_an_audit_counts_all_people():
    outcomes = audit_of().document.outcomes
    predicted = small_network().predict(small_spec().encode(people()))
    gender = next(table for table in outcomes.tables if table.features == ["gender"])
    frame = people().assign(predicted=predicted)
    assert {g.values[0]: g.before.count for g in gender.groups} == frame.groupby("gender")["predicted"].sum().to_dict()
    assert outcomes.rows == len(frame)
    assert audit_of(sampled=True).document.outcomes is None


def test_a_repair_has_both_sides():
    document = repair_of().document
    assert all(group.after is not None for table in document.outcomes.tables for group in table.groups)
    gender = next(table for table in document.outcomes.tables if table.features == ["gender"])
    for when, figures in (("before", document.before), ("after", document.after)):
        known = next(feature for feature in figures.groups if feature.feature == "gender")
        assert [getattr(g, when).rate for g in gender.groups] == [g.selection_rate for g in known.groups]


def test_the_favourable_class_is_the_selection():
    spec, values = spec_of("g"), draw("g")
    predicted = (values["g"] == "a").astype(np.int64)
    lender = Spec(spec.features, Label("y", "default", favourable="repaid"))
    usual = tabulate_outcomes(spec, columns_of(spec, values), [predicted], ["repaid", "default"]).tables[0]
    turned = tabulate_outcomes(lender, columns_of(lender, values), [predicted], ["repaid", "default"]).tables[0]
    assert (usual.answer, turned.answer) == ("default", "repaid")
    for before, after in zip(usual.groups, turned.groups, strict=True):
        assert before.before.count + after.before.count == before.rows
    assert [group.before.flagged for group in turned.groups[:2]] == [True, False]
    (rates,) = tabulate_groups(lender, columns_of(lender, values), [], predicted, classes=1)
    assert [group.selection_rate for group in rates.groups] == [0.0, 1.0, 1.0]


def test_a_favourable_class_of_several_has_the_only_table():
    spec = Spec(spec_of("g").features, Label("y", classes=("A", "B", "C"), favourable="B"))
    found = tabulate_outcomes(spec, columns_of(spec, draw("g")), [np.zeros(3_000, np.int64)], ["A", "B", "C"])
    assert [table.answer for table in found.tables] == ["B"]
    assert found.tables_left_out == 0

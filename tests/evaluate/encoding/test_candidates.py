"""The common styles give as many columns as the network reads, in the orders that libraries produce."""

import numpy as np
import pytest

from fairmend.evaluate.encoding.candidates import build, columns_of, common_styles, related_styles
from fairmend.spec.draft.from_data import draft_from_data
from support.encoding_cases import strangers

PEOPLE = strangers()
DRAFT = draft_from_data(PEOPLE, ["Geschlecht"], "Ausfall")


def test_codes_have_readings_of_both_kinds_and_ids_are_optional():
    found = {column.name: column for column in columns_of(DRAFT, PEOPLE, optional=["Kunde"])}
    assert found["Kunde"].optional
    assert found["Geschlecht"].text
    assert not found["Geschlecht"].numbers
    assert found["Stufe"].numbers
    assert found["Stufe"].categories
    assert not found["Guthaben"].categories
    assert all(reading.feature.protected for reading in found["Geschlecht"].readings)
    assert not {c.name: c for c in columns_of(DRAFT, PEOPLE, codes=False)}["Stufe"].categories


def test_known_scales_leave_only_the_filled_in_value_open():
    scales = {"Alter": {"mean": 40.0, "std": 10.0}}
    found = {column.name: column for column in columns_of(DRAFT, PEOPLE, scales=scales)}
    assert {style[0] for style in found["Alter"].numbers} == {"as given"}
    assert len(found["Alter"].numbers) == 5
    assert next(iter(found["Guthaben"].numbers.values())).feature.scale == {"mean": 0.0, "std": 1.0}


def test_an_indicator_is_0_or_1_or_standardized():
    age = next(column for column in columns_of(DRAFT, PEOPLE) if column.name == "Alter")
    assert age.indicator(standard=False).feature.indicates == "Alter"
    feature = age.indicator(standard=True).feature
    marks = feature.scaled(PEOPLE["Alter"].isna().to_numpy(np.float64))
    np.testing.assert_allclose((marks.mean(), marks.std()), (0, 1), atol=1e-12)


COLUMNS = columns_of(draft_from_data(PEOPLE, ["Geschlecht"], "Ausfall"), PEOPLE, optional=["Kunde"])


def names(state):
    return [reading.feature.name for reading in state]


@pytest.mark.parametrize("inputs", [5, 8, 9, 12])
def test_every_style_has_the_width_of_the_network(inputs):
    styles = list(common_styles(COLUMNS, inputs, fixed_order=False))
    assert styles
    for style in styles[:: max(1, len(styles) // 40)]:
        state = build(COLUMNS, style)
        assert sum(reading.feature.width for reading in state) == inputs


def test_codes_ids_and_indicators_fill_the_width():
    changed = {name for style in common_styles(COLUMNS, 12, fixed_order=False) for name in style.changed}
    assert changed == {"Stufe", "Kunde"}
    marked = [style for style in common_styles(COLUMNS, 9, fixed_order=False) if style.indicators == "last"]
    assert names(build(COLUMNS, marked[0]))[-1] == "Alter is missing"
    assert list(common_styles(COLUMNS, 50, fixed_order=False)) == []


def test_arrangements_are_those_of_libraries():
    styles = {
        style.arrangement: style
        for style in common_styles(COLUMNS, 9, fixed_order=False)
        if not style.indicators and not style.changed
    }
    assert names(build(COLUMNS, styles["data"])) == ["Alter", "Geschlecht", "Guthaben", "Größe", "Stufe"]
    assert names(build(COLUMNS, styles["categories first"]))[:2] == ["Geschlecht", "Größe"]
    assert names(build(COLUMNS, styles["numbers first"]))[-2:] == ["Geschlecht", "Größe"]
    assert names(build(COLUMNS, styles["by name"])) == sorted(names(build(COLUMNS, styles["data"])))
    assert {style.arrangement for style in common_styles(COLUMNS, 9, fixed_order=True)} == {"data"}


def test_related_styles_differ_in_their_finer_choices():
    style = next(common_styles(COLUMNS, 9, fixed_order=True))
    related = list(related_styles(style, COLUMNS))
    assert {other.fill for other in related} >= {"missing: median", "missing: mean", "missing: 0"}
    assert {other.order for other in related} == {"sorted", "by appearance", "by frequency"}
    assert {other.arrangement for other in related} == {"data"}

"""The common styles give as many columns as the network reads, in the orders that libraries produce."""

import pytest

from fairmend.evaluate.encoding_search.candidates import build, common_styles, related_styles
from fairmend.evaluate.encoding_search.columns import columns_of
from fairmend.spec.draft.from_data import draft_from_data
from support.encoding_cases import strangers

PEOPLE = strangers()
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

"""The columns of a draft have readings as numbers, as categories, or as both."""

import numpy as np

from fairmend.evaluate.encoding_search.columns import columns_of
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

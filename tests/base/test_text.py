"""Values, shares and lists as the terminal and the report write them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.text import (
    as_text,
    at_least_percent,
    at_most_percent,
    count,
    first_line,
    listed,
    number,
    percent,
    plain_value,
    points,
    printable,
    probabilities,
    ratio,
    score_difference,
    short,
    shown,
    spreadsheet_text,
    suggest,
)
from fairmend.cli.figures import group_figures
from fairmend.evaluate.groups import GroupMetrics
from fairmend.report.charts import share_bar


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, "–"), (0, "0 %"), (1, "100 %"), (0.123456, "12.3 %"), (0.0004, "< 0.1 %"), (0.9996, "> 99.9 %")],
)
def test_a_share_is_written_as_people_write_it(rate, text):
    assert plain(percent(rate)) == text


@pytest.mark.parametrize(("digits", "text"), [(0, "< 1 %"), (1, "0.5 %"), (2, "0.50 %")])
def test_a_share_has_the_digits_asked_for(digits, text):
    assert plain(percent(0.005, digits)) == text


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(0, 3))
def test_only_none_is_0_percent_and_only_all_is_100_percent(rate, digits):
    value = plain(percent(rate, digits)).removesuffix(" %")
    assert value[0] in "<>" or 0 < float(value) < 100


def test_the_terminal_and_the_report_write_a_small_share_alike():
    rate = 0.0004
    group = GroupMetrics("sex", {"f": 1_000, "m": 1_500}, False, rate, None, None)
    assert plain(group_figures(group)) == "< 0.1 / –"
    assert "&lt; 0.1 %" in plain(share_bar(rate))


def test_changes_are_in_points():
    assert points(0.5, 0.51) == "+1.0 points"
    assert points(0.51, 0.5) == "−1.0 points"
    assert points(0.5, 0.5) == "unchanged"
    assert points(0.80045, 0.79740) == "−0.3 points"  # beside "80.0 % → 79.7 %"
    assert points(0.80045, 0.79955) == "unchanged"  # beside "80.0 % → 80.0 %"
    assert points(None, 0.5) == points(0.5, None) == ""


def test_numbers_carry_a_real_minus_and_few_digits():
    assert (number(12345.6), number(-1e20)) == ("12,346", "−1e+20")
    assert (number(-1.23456), number(None), count(12345)) == ("−1.235", "–", "12,345")


def test_probabilities_can_be_told_apart():
    assert [plain(text) for text in probabilities([0.5, 0.731])] == ["50.0 %", "73.1 %"]
    assert [plain(text) for text in probabilities([0.5, 0.500002])] == ["50.0000 %", "50.0002 %"]
    assert [plain(text) for text in probabilities([0.881, 0.881])] == ["88.1 %", "88.1 %"]
    assert [plain(text) for text in probabilities([0.4998, 0.7311], 0.5)] == ["49.98 %", "73.11 %"]  # not 50.0 %
    assert [plain(text) for text in probabilities([0.2999996, 0.7310586], 0.3)] == ["29.99996 %", "73.10586 %"]
    assert plain(score_difference(0.0005, "probability")) == "0.05 points"
    assert score_difference(0.0005, "logit") == "0.0005"


def test_a_ratio_below_four_fifths_never_looks_like_it():
    assert [ratio(value) for value in (0.8, 0.7999, 0.7, 1.0, None)] == ["0.80", "< 0.80", "0.70", "1.00", "–"]


def test_lists_are_read_aloud_and_long_ones_are_counted():
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"], "or") == "a, b or c"
    assert listed(list("abcdefghijkl")).endswith("h and 4 others")


def test_values_are_compared_by_their_text():
    assert [as_text(value) for value in (1, 1.0, np.float32(2), True, " x ", 0.5)] == [
        "1",
        "1",
        "2",
        "True",
        "x",
        "0.5",
    ]


def test_long_values_are_cut_and_control_characters_escaped():
    assert short("x" * 81) == "x" * 79 + "…"
    assert short("x" * 80) == "x" * 80
    assert shown("a\nb") == "a\\nb"
    assert shown("y" * 70) == "y" * 60 + "…"
    assert plain_value(0.123456789) == "0.123457"


def test_an_error_without_a_message_is_named_by_its_class():
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_the_nearest_known_word_is_suggested():
    assert suggest("Gendr", ["gender", "age"]) == ' (did you mean "gender"?)'
    assert suggest("zzz", ["gender", "age"]) == ""


@pytest.mark.parametrize(
    "name", ["größe", "年齢", "возраст", "العمر", "café 5 %", "👩", "a\u00a0b", "\U00018cd6", "\ue000"]
)
def test_letters_of_every_script_are_printable(name):
    assert printable(name) == name


def test_what_cannot_be_seen_is_escaped():
    assert printable("\x1b[2J\x9b\r\nVALID\u202e\u200b\u2028\x7f") == r"\x1b[2J\x9b\r\nVALID\u202e\u200b\u2028\x7f"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
    assert printable("\ud800") == r"\ud800"


def test_names_in_lists_and_short_texts_are_printable():
    assert short("a\nb") == r"a\nb"
    assert listed(["a\x1b", "b"]) == listed(["a\x1b", "b"], most=None) == r"a\x1b and b"


def test_whole_numbers_of_any_type_are_compared_alike():
    texts = [as_text(value) for value in (1, 1.0, np.float32(1), np.int64(1), np.float64(1))]
    assert texts == ["1"] * 5
    assert [as_text(value) for value in (True, np.True_, 10**400, 0.5)] == ["True", "True", str(10**400), "0.5"]


@pytest.mark.parametrize(
    ("share", "least", "most"),
    [(0.0150556, "1.505 %", "1.506 %"), (0, "0 %", "0 %"), (1, "100 %", "100 %")],
)
def test_a_proven_share_is_rounded_to_its_safe_side(share, least, most):
    assert plain(at_least_percent(share)) == least
    assert plain(at_most_percent(share)) == most


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"),
        ("+1+1", "'+1+1"),
        ("-1+1", "'-1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'=1"),
        ("\r=1", "'=1"),
        ("\n=1", "'=1"),
        (" =1", "'=1"),
        ("a;\t=1", "a;'\t'=1"),
        ('"=1', "'\"=1"),
        ("＝1", "'＝1"),
        ("a;=1", "a;'=1"),
        ('a;"=1', "a;'\"=1"),
        ("a\n=1", "a\n'=1"),
        ("'=1", "''=1"),
        ("-", "'-"),
    ],
)
def test_a_formula_becomes_text_for_a_spreadsheet(text, cell):
    assert spreadsheet_text(text) == cell


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "<=50K",
        "a-b",
        "a = b",
        "-3.5",
        "+1",
        "-1e-05",
        ".5",
        "-.5",
        "'",
        "'a",
        "a;b",
        "Ph.D.",
        "a\n\nb",
        "a\r\n",
    ],
)
def test_other_texts_and_numbers_stay(text):
    assert spreadsheet_text(text) == text


@given(st.text("=+-@'\"; \t\r\na1."), st.text("=+-@'\"; \t\r\na1."))
def test_different_texts_stay_different_in_a_spreadsheet(one, other):
    assert one.strip() == other.strip() or spreadsheet_text(one).strip() != spreadsheet_text(other).strip()


@given(st.text("=+-@'\"; \t\r\na1."))
def test_no_cell_starts_with_a_formula_wherever_a_spreadsheet_splits_it(text):
    for cell in re.split("[;\t\r\n]", spreadsheet_text(text)):
        bare = cell.lstrip(' "')
        assert not bare or bare[0] not in "=+-@" or re.fullmatch(r"[+-]?[0-9.]+", bare)

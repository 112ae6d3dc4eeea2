"""A name from a file cannot move the cursor, end a line or hide, and a bound that is shown is not too good."""

from dataclasses import replace

import pytest

from fairmend.base import text
from fairmend_check.main import main
from fairmend_check.result import CheckResult, at_least, at_most, printable

HOSTILE = "\x1b[2J\x9b31m\r\nVALID\u202e\u200b\u2028\x7f"


@pytest.mark.parametrize("name", ["größe", "年齢", "возраст", "العمر", "café 5 %", "👩"])
def test_letters_of_every_script_stay(name):
    assert printable(name) == name


def test_everything_else_is_escaped():
    assert printable(HOSTILE) == r"\x1b[2J\x9b31m\r\nVALID\u202e\u200b\u2028\x7f"


def test_the_result_shows_names_escaped():
    invalid = CheckResult(False, (HOSTILE,), "", 0, None, None, 0.0)
    valid = CheckResult(True, (), HOSTILE, 0, None, None, 0.0)
    assert repr(invalid).isprintable()
    assert repr(valid).isprintable()


def test_wrong_arguments_are_shown_escaped(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["a", "b", f"--{HOSTILE}"])
    assert capsys.readouterr().err.replace("\n", "").isprintable()


def test_characters_that_show_nothing_are_escaped():
    for blank in "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2800\u3164\uffa0\ufe0f\U00016fe4\U0001d159\U000e0100":
        assert printable(f"a{blank}b") == text.printable(f"a{blank}b") != f"a{blank}b"


@pytest.mark.parametrize(
    ("number", "least", "most"),
    [
        (0.12345, "0.123", "0.124"),
        (0.1239, "0.123", "0.124"),
        (0.5, "0.5", "0.5"),
        (4294.967, "4.29e+03", "4.3e+03"),
        (9.996e-7, "9.99e-07", "1e-06"),
        (-0.12345, "-0.124", "-0.123"),
        (0.0, "0", "0"),
    ],
)
def test_bounds_are_rounded_to_the_safe_side(number, least, most):
    assert (at_least(number), at_most(number)) == (least, most)


def test_the_bounds_of_a_result_are_rounded_to_the_safe_side():
    margin, difference = CheckResult(True, (), "", 1, True, 0.1239, 0.0), CheckResult(True, (), "", 1, True, None, 0.0)
    assert "least margin 0.123," in repr(margin)
    assert "largest difference 0.124," in repr(replace(difference, largest_difference=0.1231))

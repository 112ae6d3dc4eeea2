"""A name from a file cannot move the cursor, end a line or hide."""

import pytest

from fairmend import text
from fairmend_check.main import main
from fairmend_check.printable import printable
from fairmend_check.result import CheckResult

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
    for blank in "\u034f\u115f\u1160\u2800\u3164\uffa0\ufe0f\U000e0100":
        assert printable(f"a{blank}b") == text.printable(f"a{blank}b") != f"a{blank}b"

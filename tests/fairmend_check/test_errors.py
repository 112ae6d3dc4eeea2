"""What ends a check: a claim that does not hold is INVALID, and what cannot be read or checked has no verdict."""

import pytest

import fairmend
from fairmend_check import check as public
from fairmend_check.check import check_files
from fairmend_check.errors import CannotAnswerError, CheckError, NotConfirmedError
from support.checker_cases import case


def failing(error):
    def read(*arguments):
        raise error

    return read


@pytest.fixture
def files(tmp_path):
    return case().save(tmp_path)


def patched(monkeypatch, error):
    import sys

    monkeypatch.setattr(sys.modules["fairmend_check.check"], "read_certificate", failing(error))


def test_what_cannot_be_read_and_what_does_not_hold_are_two_verdicts(files, monkeypatch):
    for error, verdict in ((CheckError, "unreadable"), (NotConfirmedError, "invalid")):
        patched(monkeypatch, error("certificate.model is wrong"))
        result = public(*files)
        assert (result.verdict, result.valid, result.reasons) == (verdict, False, ("certificate.model is wrong",))


def test_an_unexpected_error_is_never_valid(files, monkeypatch):
    patched(monkeypatch, ZeroDivisionError("division by zero"))
    result = public(*files)
    assert (result.verdict, result.valid) == ("unreadable", False)
    assert result.reasons == ("the check failed (ZeroDivisionError: division by zero)",)
    patched(monkeypatch, MemoryError())
    assert public(*files).reasons == ("the certificate or the model needs more memory than this machine has",)


def test_what_cannot_be_answered_is_raised_to_the_command_line_and_a_reason_in_python(files, monkeypatch):
    patched(monkeypatch, CannotAnswerError("no TOML reader"))
    with pytest.raises(CannotAnswerError, match="no TOML reader"):
        check_files(*files)
    result = fairmend.check(*files)
    assert (result.verdict, result.valid, result.reasons) == ("unreadable", False, ("no TOML reader",))

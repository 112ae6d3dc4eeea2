"""What ends a check: an error in a file is INVALID, and what cannot be checked here has no verdict."""

import pytest

import fairmend
from fairmend_check import check as public
from fairmend_check.check import check_files
from fairmend_check.errors import CannotAnswerError, CheckError
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


def test_an_error_in_a_file_is_the_reason_of_an_invalid_certificate(files, monkeypatch):
    patched(monkeypatch, CheckError("certificate.model is wrong"))
    assert public(*files).reasons == ("certificate.model is wrong",)


def test_an_unexpected_error_is_never_valid(files, monkeypatch):
    patched(monkeypatch, ZeroDivisionError("division by zero"))
    assert public(*files).reasons == ("the check failed (ZeroDivisionError: division by zero)",)
    patched(monkeypatch, MemoryError())
    assert public(*files).reasons == ("the certificate or the model needs more memory than this machine has",)


def test_what_cannot_be_answered_is_raised_to_the_command_line_and_a_reason_in_python(files, monkeypatch):
    patched(monkeypatch, CannotAnswerError("no TOML reader"))
    with pytest.raises(CannotAnswerError, match="no TOML reader"):
        check_files(*files)
    result = fairmend.check(*files)
    assert (result.valid, result.reasons) == (False, ("no TOML reader",))

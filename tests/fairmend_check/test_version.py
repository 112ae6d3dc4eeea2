"""The version of the checker."""

import pytest

import fairmend
import fairmend_check
from fairmend_check.main import main


def test_the_version_is_that_of_fairmend():
    assert fairmend_check.__version__ == fairmend.__version__


def test_it_is_printed(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"fairmend-check {fairmend.__version__}\n"

"""A folder with model, spec and data, and one with a data file, which is the working directory."""

import pytest

from support.cli_case import Case
from support.drafting_cases import people


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)

"""A process that runs in another folder reads the same files, or says that it does not see them."""

import os
from dataclasses import replace

import pandas as pd
import pytest

from fairmend.base.errors import FairmendError
from fairmend.tables import stream_table
from fairmend.tables.elsewhere import describe_files, read_from_elsewhere, require_visible


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": [1, 2, 3]}).to_parquet("people.parquet")
    return stream_table("people.parquet")


def test_a_relative_path_is_read_from_another_folder(table, tmp_path, monkeypatch):
    sent = read_from_elsewhere(table)
    monkeypatch.chdir(os.sep)
    (part,) = sent.slices()
    assert part.source == "people.parquet"  # as messages and files name it
    assert part.file.place == str(tmp_path / "people.parquet")
    require_visible(part)
    assert pd.concat(list(part))["a"].tolist() == [1, 2, 3]


def test_a_file_that_is_not_there_is_named_with_what_workers_need(table):
    (part,) = read_from_elsewhere(table).slices()
    gone = replace(part, base=f"{part.base}/other")
    with pytest.raises(FairmendError, match=r"other/people\.parquet: the worker on .* or give the URL"):
        require_visible(gone)
    require_visible(replace(part, source="s3://bucket/people.parquet"))


def test_the_description_changes_with_the_file(table):
    before = describe_files(table)
    assert describe_files(stream_table("people.parquet")) == before
    pd.DataFrame({"a": [1, 2, 4]}).to_parquet("people.parquet")
    assert describe_files(stream_table("people.parquet")) != before
    os.remove("people.parquet")
    with pytest.raises(FairmendError, match=r"people\.parquet: cannot read the data"):
        describe_files(table)

"""A URL is told from a path."""

from pathlib import Path

from fairmend.base.paths import DataURL, data_source


def test_urls_and_paths_are_told_apart():
    assert data_source("s3://bucket/people/*.parquet") == DataURL("s3://bucket/people/*.parquet")
    assert data_source("C:/people.csv") == Path("C:/people.csv")
    assert data_source("people/*.csv") == Path("people/*.csv")


def test_the_name_of_a_url_is_its_last_part():
    assert DataURL("s3://bucket/people/").name == "people"
    assert str(DataURL("s3://bucket/people/")) == "s3://bucket/people/"

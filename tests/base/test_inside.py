"""Names that nobody typed stay inside the folder, on every system."""

import pytest

from fairmend.base.errors import FairmendError
from fairmend.base.paths import require_inside, require_plain_name


@pytest.mark.parametrize(
    "name", ["a.csv", "a/b.csv", "./a.csv", "a b/é.csv", "people/*.parquet", "a..b", ".data/a.csv"]
)
def test_plain_names_are_accepted(name):
    require_plain_name(name, written=False)


@pytest.mark.parametrize(
    "name", ["..", "a/..", ".. ", "...", "/", "//a", "\\a", "c:a", "C:/a", "~", "~me/a", " ", "\0"]
)
def test_names_that_may_lead_out_are_refused(name):
    with pytest.raises(FairmendError):
        require_plain_name(name, written=False)


@pytest.mark.parametrize("name", ["s3://a", "file://a", "HTTPS://a", "zip::a", "a::b"])
def test_urls_are_refused(name):
    with pytest.raises(FairmendError, match="is a URL"):
        require_plain_name(name, written=False)


def test_a_hidden_file_is_read_but_not_written():
    require_plain_name(".data/a.csv", written=False)
    with pytest.raises(FairmendError, match="hidden"):
        require_plain_name(".data/a.csv", written=True)


def test_links_count_at_any_depth(tmp_path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / "out" / "deep").mkdir(parents=True)
    outside.mkdir()
    require_inside(home / "out", home, written=True)
    (home / "out" / "deep" / "link").symlink_to(outside / "new")
    with pytest.raises(FairmendError, match="link would be written outside of"):
        require_inside(home / "out", home, written=True)
    with pytest.raises(FairmendError, match="link leads out of"):
        require_inside(home / "out" / "*" / "l*", home)


def test_the_folder_itself_may_be_reached_by_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    require_inside(tmp_path / "link" / "a.csv", tmp_path / "link")
    require_inside(tmp_path / "link" / "a.csv", tmp_path / "real")

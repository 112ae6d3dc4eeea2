"""A file, a folder, a pattern and a URL name the same files in the same order; what names none is refused."""

import builtins

import fsspec
import pytest

from fairmend.base.errors import FairmendError
from fairmend.base.paths import DataURL
from fairmend.tables.files import TableFile, find_files, local_files


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a\n1\n")
    return folder


@pytest.fixture
def store():
    """An object store in memory, at memory://people."""
    files = fsspec.filesystem("memory")
    for name in ("b", "a", "c"):
        files.pipe(f"/people/{name}.parquet", b"x")
    yield files
    files.rm("/people", recursive=True)


def names(source):
    return [file.name for file in find_files(source)]


def test_a_folder_and_a_pattern_give_their_files_in_the_order_of_names(tmp_path):
    touch(tmp_path, "b.csv", "a.csv", "below/c.CSV.GZ", "_SUCCESS", ".a.csv.crc", "_old/d.csv")
    expected = [str(tmp_path / name) for name in ("a.csv", "b.csv", "below/c.CSV.GZ")]
    assert names(tmp_path) == expected
    assert names(str(tmp_path / "*.csv")) == expected[:2]
    assert names(tmp_path / "**/*.*") == expected


def test_a_file_with_brackets_in_its_name_is_that_file(tmp_path):
    touch(tmp_path, "people[1].csv", "people1.csv")
    assert names(tmp_path / "people[1].csv") == [str(tmp_path / "people[1].csv")]


def test_folders_named_after_values_give_columns(tmp_path):
    touch(tmp_path, "land=D%20E/year=2021/a.csv", "land=FR/year=2020/a.csv")
    assert [file.partition for file in find_files(tmp_path)] == [
        (("land", "D E"), ("year", 2021)),
        (("land", "FR"), ("year", 2020)),
    ]
    touch(tmp_path, "land=__HIVE_DEFAULT_PARTITION__/year=x/a.csv")
    assert [dict(file.partition)["year"] for file in find_files(tmp_path / "*/*/*.csv")] == ["2021", "2020", "x"]
    assert dict(find_files(tmp_path)[-1].partition)["land"] is None
    assert find_files(tmp_path / "land=FR/year=2020/a.csv")[0].partition == ()


@pytest.mark.parametrize(
    ("made", "given", "message"),
    [
        (["x/_SUCCESS"], "x", "the folder has no table files"),
        (["a.csv"], "*.parquet", "no file matches the pattern"),
        (["x/a.csv", "x/b.parquet"], "x", "CSV and Parquet files"),
        (["x/a.csv", "x/b.txt"], "x", r"b\.txt: data is read from"),
        (["x/year=1/a.csv", "x/b.csv"], "x", 'only some files are in a folder "year=…"'),
    ],
)
def test_what_names_no_table_is_refused(tmp_path, made, given, message):
    touch(tmp_path, *made)
    with pytest.raises(FairmendError, match=message):
        find_files(tmp_path / given)


def test_urls_name_files_folders_and_patterns(store):
    three = [f"memory:///people/{name}.parquet" for name in "abc"]
    assert names("memory://people") == three
    assert names(DataURL("memory://people/[ab].parquet")) == three[:2]
    assert names("memory://people/a.parquet") == ["memory://people/a.parquet"]
    with TableFile(three[0]).open() as file:
        assert file.read() == b"x"
    with (
        pytest.raises(FairmendError, match=r"memory://people/none\.csv: no such file"),
        TableFile("memory://people/none.csv").open(),
    ):
        pass
    with pytest.raises(FairmendError, match="no file matches"):
        find_files("memory://people/*.csv")


def test_a_missing_package_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.partition(".")[0] == "fsspec":
            raise ModuleNotFoundError("No module named 'fsspec'", name="fsspec")
        return real(name, *rest, **more)

    with pytest.raises(FairmendError, match="Install s3fs"):
        find_files("s3://bucket/people.parquet")
    with pytest.raises(FairmendError, match="cannot be read"):
        find_files("nosuch://bucket/people.parquet")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(FairmendError, match=r"pip install 'fairmend\[remote\]'"):
        find_files("s3://bucket/people.parquet")


def test_local_files_are_those_that_an_output_could_replace(tmp_path):
    touch(tmp_path, "a.csv", "b.csv")
    assert local_files(tmp_path) == local_files(tmp_path / "*.csv") == [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert local_files(tmp_path / "none.csv") == [tmp_path / "none.csv"]
    assert local_files(DataURL("s3://bucket/a.csv")) == local_files(None) == []


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("our people.xls", 'read_excel("our people.xls").to_parquet("our people.parquet")'),
        ("people.tsv", 'read_csv("people.tsv", sep="\\t").to_parquet("people.parquet")'),
        ("people.doc", "convert it first"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_way_to_convert_it(tmp_path, name, remedy):
    (tmp_path / name).write_text("x")
    with pytest.raises(FairmendError) as refusal:
        find_files(tmp_path / name)
    assert str(refusal.value).endswith(remedy)

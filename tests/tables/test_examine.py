"""Files are examined side by side with the result of one process: slices, values and errors."""

import gzip
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fairmend.base.errors import FairmendError
from fairmend.tables import csv_files, examine, stream_table
from fairmend.tables.examine import Columns
from fairmend.tables.files import TableFile
from fairmend.tables.spool import Spool
from fairmend.tables.stream import describe_files, read_from_elsewhere
from support.engines import PickledEngine

A, B = TableFile("a"), TableFile("b")


def test_the_order_of_columns_and_columns_without_values_agree():
    columns = Columns()
    columns.add_parquet(A, {"age": "number", "who": "nothing"})
    columns.add_parquet(B, {"who": "text", "age": "nothing"})
    assert columns.names == ("age", "who")
    with pytest.raises(FairmendError, match='c: column "who" has the type number, but text in b'):
        columns.add_parquet(TableFile("c"), {"who": "number", "age": "number"})


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"age": "number"}, 'b: has no column "who", which a has'),
        ({"age": "number", "Who": "text"}, 'b: has no column "who", which a has .did you mean "Who"'),
        ({"age": "number", "who": "text", "x": "text"}, 'b: has a column "x", which a does not have'),
        ({"age": "text", "who": "text"}, 'b: column "age" has the type text, but number in a'),
    ],
)
def test_a_difference_is_named_with_file_and_column(types, message):
    columns = Columns()
    columns.add_parquet(A, {"age": "number", "who": "text"})
    with pytest.raises(FairmendError, match=message):
        columns.add_parquet(B, types)


def test_what_all_csv_files_hold_decides_what_is_text():
    columns = Columns()
    columns.add_csv(A, {"code": {"number"}, "age": {"number"}})
    columns.add_csv(TableFile("empty"), {})
    columns.add_csv(B, {"code": {"text"}, "age": set()})
    assert columns.texts == ("code",)


def test_a_column_of_a_folder_must_not_be_in_its_files():
    file = TableFile("year=1/a", (("year", 1),))
    columns = Columns()
    columns.add_parquet(file, {"age": "number"})
    assert columns.names == ("age", "year")
    with pytest.raises(FairmendError, match='has a column "year", and so has its folder'):
        columns.add_parquet(file, {"age": "number", "year": "number"})


COLUMNS = ("job", "age")
PERSON = b"cook,%d\n"


class Cluster(PickledEngine):
    """Workers on other machines."""

    on_this_machine = False


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr("fairmend.tables.csv_files.RANGE_BYTES", 100)
    monkeypatch.setattr(examine, "RANGE_BYTES", 100)
    monkeypatch.setattr(examine, "_WORTHWHILE", 0)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(b"job,age\n" + b"".join(PERSON % n for n in range(50)) + b"x,\n")
    return "people.csv"


@pytest.fixture
def parsed(monkeypatch):
    """The files that were parsed, one after another."""
    seen, original = [], csv_files._parsing
    monkeypatch.setattr(csv_files, "_parsing", lambda file, *how: (seen.append(file.name), original(file, *how))[1])
    return seen


def rows(table):
    return [row for piece in table for row in piece.astype(object).where(piece.notna(), None).itertuples(name=None)]


@pytest.mark.parametrize("engine", [PickledEngine, Cluster])
def test_workers_find_the_same_slices_and_values_as_one_process(file, engine):
    here, there = (stream_table(file, 4, spool=COLUMNS, engine=each) for each in (examine.HERE, engine()))
    assert len(here.parts) > 3
    assert here.parts == there.parts  # but for temporary files
    assert (here.total, here.names, here.texts) == (there.total, there.names, there.texts) == (51, COLUMNS, ())
    assert describe_files(here) == describe_files(there)
    expected = rows(here.only(COLUMNS))
    assert expected[17][:2] == (17, "cook")
    assert rows(there.only(COLUMNS)) == rows(read_from_elsewhere(there.only(COLUMNS))) == expected


def test_a_file_is_parsed_once_here_and_by_workers_on_this_machine(file, parsed):
    for engine in (examine.HERE, PickledEngine()):
        del parsed[:]
        table = stream_table(file, 4, spool=COLUMNS, engine=engine).only(COLUMNS)
        rows(table if engine.is_here else read_from_elsewhere(table))
        assert len(parsed) == len(table.parts)
    del parsed[:]
    table = stream_table(file, 4, spool=COLUMNS, engine=Cluster()).only(COLUMNS)
    rows(read_from_elsewhere(table))
    assert len(parsed) == 2 * len(table.parts)


def test_a_single_small_file_is_parsed_once_and_read_here(tmp_path, parsed):
    (tmp_path / "t.csv").write_bytes(b"job,age\ncook,1\n")
    engine = Cluster()
    assert rows(stream_table(tmp_path / "t.csv", spool=COLUMNS, engine=engine).only(COLUMNS)) == [(0, "cook", 1)]
    assert (engine.sent, len(parsed)) == ([], 1)


def test_little_work_is_not_sent_to_workers_who_read_it_all_the_same(file, parsed, monkeypatch):
    monkeypatch.setattr(examine, "_WORTHWHILE", 1 << 20)
    engine = PickledEngine()
    table = read_from_elsewhere(stream_table(file, 4, spool=COLUMNS, engine=engine).only(COLUMNS))
    assert len(rows(table)) == 51
    assert (engine.sent, len(parsed)) == ([], len(table.parts))


def test_temporary_files_go_with_the_table(file, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    table = stream_table(file, 4, spool=COLUMNS, engine=PickledEngine())
    (folder,) = tmp_path.glob("fairmend-*")
    assert len(list(folder.iterdir())) == len(table.parts)
    some = table.only(COLUMNS)
    del table
    assert folder.exists()
    sent = read_from_elsewhere(some)
    before = rows(sent)
    del some, sent
    assert not folder.exists()
    assert before


@pytest.mark.parametrize("engine", [examine.HERE, PickledEngine()])
def test_a_full_disk_is_emptied_for_the_work_that_follows(file, engine, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    expected, finish = rows(stream_table(file, 4).only(COLUMNS)), Spool.finish

    def fill(own):
        own.problem = "No space left on device"

    finishes = iter([finish, fill])  # and then there is space again
    monkeypatch.setattr(Spool, "finish", lambda own: next(finishes, finish)(own))
    table = stream_table(file, 4, spool=COLUMNS, engine=engine).only(COLUMNS)
    assert [part.spooled for part in table.parts] == [None] * len(table.parts)
    assert not list(tmp_path.glob("fairmend-*"))
    assert rows(table) == expected


def test_pieces_that_are_gone_are_parsed_again(file):
    table = stream_table(file, 4, spool=COLUMNS, engine=PickledEngine()).only(COLUMNS)
    expected = rows(table)
    for part in table.parts:
        Path(part.spooled.store.path).unlink()
    assert rows(table) == expected


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (b"judge,30,1\n", r"people\.csv: not a readable CSV table .*Expected 2 fields in line 42, saw 3"),
        (b"\xff,30\n", r"people\.csv: not UTF-8"),
        (b'"judge,30\n', r"people\.csv: not a readable CSV table .*EOF inside string"),
    ],
)
@pytest.mark.parametrize("engine", [examine.HERE, PickledEngine()])
def test_a_mistake_in_a_range_is_named_as_in_the_whole_file(file, engine, mistake, message):
    lines = Path(file).read_bytes().splitlines(keepends=True)
    Path(file).write_bytes(b"".join([*lines[:41], mistake, *lines[41:]]))
    with pytest.raises(FairmendError, match=f"^{message}"):
        stream_table(file, 4, engine=engine)


def test_a_surplus_field_at_the_start_of_a_range_shifts_no_columns(file):
    people = [b"%d,%d\n" % (n, n) for n in range(10, 60)]  # pandas could take the ages for row names
    Path(file).write_bytes(b"age,job\n" + b"".join(people))
    start = stream_table(file).parts[1]
    surplus = people[start.first].replace(b"\n", b",\n")
    Path(file).write_bytes(b"age,job\n" + b"".join([*people[: start.first], surplus, *people[start.first + 1 :]]))
    with pytest.raises(FairmendError, match=f"Expected 2 fields in line {start.first + 2}, saw 3"):
        stream_table(file)


@pytest.mark.parametrize("engine", [examine.HERE, PickledEngine()])
def test_a_broken_file_is_left_out_with_all_its_ranges(file, engine):
    Path("people").mkdir()
    whole = Path(file).read_bytes()
    for name, content in (("a", whole), ("b", whole + b"1,2,3\n" + whole), ("c", b""), ("d", whole)):
        Path(f"people/{name}.csv").write_bytes(content)
    table = stream_table("people", 4, keep_going=True, engine=engine)
    assert [broken.name for broken in table.broken] == ["people/b.csv", "people/c.csv"]
    assert "line 53" in table.broken[0].reason
    assert "is empty" in table.broken[1].reason
    assert (table.total, table.files) == (102, ("people/a.csv", "people/d.csv"))
    with pytest.raises(FairmendError, match=r"people/b\.csv"):
        stream_table("people", 4, engine=engine)


@pytest.mark.parametrize("engine", [examine.HERE, PickledEngine()])
def test_parquet_files_are_decoded_by_workers_as_well(tmp_path, engine):
    for name in ("a", "b"):
        pd.DataFrame({"age": range(5)}).to_parquet(tmp_path / f"{name}.parquet")
    assert stream_table(tmp_path, keep_going=True, engine=engine).total == 10


@pytest.mark.parametrize("engine", [examine.HERE, PickledEngine()])
def test_progress_counts_the_bytes_of_the_files(file, engine):
    steps = []
    stream_table(file, 4, engine=engine, progress=lambda *step: steps.append(step))
    size = Path(file).stat().st_size
    assert {(stage, total) for stage, _, total in steps} == {("read", size)}
    done = [done for _, done, _ in steps]
    assert done == sorted(done)
    assert done[-1] == size
    assert len(done) > 3


def test_progress_of_a_compressed_file_counts_its_own_bytes(tmp_path):
    file = tmp_path / "t.csv.gz"
    file.write_bytes(gzip.compress(b"job,age\n" + PERSON % 1 * 50))
    steps = []
    assert stream_table(file, progress=lambda *step: steps.append(step)).total == 50
    assert steps[-1] == ("read", file.stat().st_size, file.stat().st_size)


def test_a_worker_that_does_not_see_a_file_says_so(file):
    how = replace(examine.Examination(4), base="elsewhere")
    with pytest.raises(FairmendError, match=r"elsewhere/people\.csv: the worker on .* does not see this file"):
        examine._examine(how, examine._Task(examine.TableFile(file), None))

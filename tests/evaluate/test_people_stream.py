"""People are read from files in any number of slices and pieces, with the same rows, ids and counts."""

import pickle

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.evaluate.people import take_people
from fairmend.evaluate.people_stream import PeopleStream
from fairmend.tables import read_table, stream_table
from support.cli_case import small_network, small_people, small_spec, spec_with_ids

NET = small_network()


@pytest.fixture(params=["one CSV file", "Parquet files"])
def path(tmp_path, request):
    frame = small_people(50).assign(customer=[f"C-{i}" for i in range(50)])
    frame["income"] = frame["income"].astype(float)
    frame.loc[[3, 30], "income"] = 500.5, -7
    frame.loc[3, "age"] = 101
    if request.param == "one CSV file":
        frame.to_csv(tmp_path / "people.csv", index=False)
        return tmp_path / "people.csv"
    folder = tmp_path / "people"
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(50), 3)):
        frame.iloc[part].to_parquet(folder / f"{number}.parquet", row_group_size=9)
    return folder


def read_all(stream):
    """Read the slices as workers do: each from a copy that was sent to them."""
    found = []
    for number in range(stream.count):
        reading = pickle.loads(pickle.dumps(stream.for_workers())).read(number)
        found.extend(reading)
        stream.take(pickle.loads(pickle.dumps(reading.notes())), sum(map(len, found)))
    return np.concatenate(found)


@pytest.mark.parametrize("policy", ["clip", "skip", "widen"])
@pytest.mark.parametrize("rows", [7, 100])
def test_slices_give_what_the_whole_table_gives(path, policy, rows):
    spec = spec_with_ids()
    stream = PeopleStream(spec, NET, stream_table(path, rows), policy)
    X = read_all(stream)
    whole = take_people(read_table(path), path, spec, NET, policy)
    np.testing.assert_array_equal(X, whole.X)
    assert stream.out_of_range == whole.out_of_range
    assert stream.out_of_range.rows == 2
    assert stream.spec == whole.spec
    everyone = np.arange(len(X))
    assert stream.rows.numbers(everyone).tolist() == whole.rows.tolist()
    assert stream.rows.ids(everyone) == whole.ids
    assert len(X) == (48 if policy == "skip" else 50)
    assert whole.ids[3] == ("C-4" if policy == "skip" else "C-3")
    assert whole.rows[3] == (6 if policy == "skip" else 5)
    assert stream.labelled.labels().known.sum() == len(X)


def test_a_row_that_is_refused_is_named_as_in_a_spreadsheet(path):
    with pytest.raises(FairmendError, match=r'people(\.csv)?: feature "age", row 5: 101'):
        read_all(PeopleStream(small_spec(), NET, stream_table(path, 7)))


def test_a_table_that_changed_is_described_otherwise(path):
    stream = PeopleStream(small_spec(), NET, stream_table(path), "clip")
    before = stream.describe()
    assert before == PeopleStream(small_spec(), NET, stream_table(path), "clip").describe()
    assert before != PeopleStream(small_spec(), NET, stream_table(path), "skip").describe()
    file = path if path.is_file() else path / "0.parquet"
    file.write_bytes(file.read_bytes())
    assert before != PeopleStream(small_spec(), NET, stream_table(path), "clip").describe()


def test_nobody_in_range_is_an_error(tmp_path):
    small_people(5).assign(age=200).to_csv(tmp_path / "people.csv", index=False)
    stream = PeopleStream(small_spec(), NET, stream_table(tmp_path / "people.csv"), "skip")
    assert "every row has a value out of range" in str(stream.error_for_none())

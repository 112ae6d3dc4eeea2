"""People are read from a file in any number of pieces, with the same rows, ids and counts."""

import numpy as np
import pytest

from fairmend.audit.neighbours import reads_what_varies
from fairmend.errors import FairmendError
from fairmend.evaluate.people import PeopleStream, choose_policy, take_people
from fairmend.network import Affine, Network
from fairmend.spec import Spec
from fairmend.tables import read_table, stream_table
from support.cli_case import small_network, small_people, small_spec

NET = small_network()


def spec_with_ids():
    spec = small_spec()
    return Spec(spec.features, spec.label, id_column="customer")


@pytest.fixture
def path(tmp_path):
    frame = small_people(50).assign(customer=[f"C-{i}" for i in range(50)])
    frame.loc[[3, 30], "income"] = 500.5, -7
    frame.loc[3, "age"] = 101
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


@pytest.mark.parametrize("policy", ["clip", "skip", "widen"])
@pytest.mark.parametrize("rows", [7, 100])
def test_a_stream_gives_what_the_whole_table_gives(path, policy, rows):
    spec = spec_with_ids()
    stream = PeopleStream(spec, NET, stream_table(path, rows), policy)
    X = np.concatenate([X for _, X in stream])
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


def test_a_row_that_is_refused_is_named_as_in_a_spreadsheet(path):
    for read in (
        lambda: list(PeopleStream(small_spec(), NET, stream_table(path, 7))),
        lambda: take_people(read_table(path), path, small_spec(), NET),
    ):
        with pytest.raises(FairmendError, match=r'people\.csv: feature "age", row 5: 101'):
            read()


def test_a_file_without_anybody_in_range_is_refused(tmp_path):
    small_people(5).assign(age=200).to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(FairmendError, match="every row has a value out of range"):
        list(PeopleStream(small_spec(), NET, stream_table(tmp_path / "people.csv"), "skip"))


def test_nobody_is_refused_for_a_range_that_the_network_does_not_read():
    spec = small_spec()
    weight = NET.affines[0].weight.copy()
    for name in ("age", "gender"):
        weight[:, spec.columns(name)] = 0
    blind = Network([Affine(weight, NET.affines[0].bias), *NET.affines[1:]], NET.activations)
    assert reads_what_varies(NET, spec)
    assert not reads_what_varies(blind, spec)
    assert choose_policy("refuse", needs_range=False) == "widen"
    assert choose_policy("refuse", needs_range=True) == "refuse"
    assert choose_policy("clip", needs_range=False) == "clip"

"""People are read from a file in any number of pieces, with the same rows, ids and counts."""

import numpy as np
import pandas as pd
import pytest

from fairmend.auditing.comparisons import reads_what_varies
from fairmend.auditing.run import audit
from fairmend.base.errors import FairmendError
from fairmend.evaluate.people import RowNumbers, choose_policy, number_pairs, take_people
from fairmend.network import Affine, Network
from fairmend.tables import read_table
from support.cli_case import small_network, small_people, small_spec

# People keep the number of their row in the file, and their id, whatever is left out.


def table(*ids):
    return pd.DataFrame({"customer": list(ids)})


def test_rows_that_are_left_out_are_counted():
    numbers = RowNumbers(first=2)
    numbers.add(pd.DataFrame({"x": range(4)}), np.array([False, True, False, True]))
    numbers.add(pd.DataFrame({"x": range(3)}), np.array([True, False, True]))
    kept = [1, 3, 4, 6]
    assert numbers.positions(range(4)).tolist() == kept
    assert numbers.numbers([3, 0]).tolist() == [8, 3]
    assert numbers.ids([3, 0]) == [None, None]


def test_any_pattern_of_rows_left_out_is_undone():
    rng = np.random.default_rng(0)
    numbers, kept = RowNumbers(), []
    for part in range(5):
        keep = rng.random(20) < 0.5
        numbers.add(pd.DataFrame({"x": range(20)}), keep)
        kept += (part * 20 + np.flatnonzero(keep)).tolist()
    assert numbers.positions(np.arange(len(kept))).tolist() == kept


@pytest.mark.parametrize("ids", [[7, 8, 9], ["C-7", "Ü 8", "9"], [7.0, None, 9.5], ["a", None, "b"]])
def test_ids_are_text_and_may_be_empty(ids):
    numbers = RowNumbers(2, "customer")
    numbers.add(table(*ids), np.array([True, True, False]))
    numbers.add(table(*ids))
    shown = [None if value is None else str(value).removesuffix(".0") for value in ids]
    assert numbers.ids([0, 1, 2, 4]) == [shown[0], shown[1], shown[0], shown[2]]


def test_a_wrong_column_of_ids_is_refused():
    with pytest.raises(FairmendError, match=r'no column "custmer" for the ids \(did you mean "customer"\?\)'):
        RowNumbers(2, "custmer").add(table(1))
    with pytest.raises(FairmendError, match='2 columns "customer"'):
        RowNumbers(2, "customer").add(pd.concat([table(1), table(2)], axis=1))


def test_pairs_get_the_rows_and_ids_of_their_people():
    people = small_people(40)
    result = audit(small_network(), small_spec(), people)
    numbers = RowNumbers(2, "customer")
    numbers.add(people.assign(customer=[f"C-{i}" for i in range(40)]))
    for old, new in zip(result.pairs, number_pairs(result, numbers, small_spec(), np.float32).pairs, strict=True):
        assert (new.row, new.id) == (old.row + 2, f"C-{old.row}")
        assert new.describe().startswith(f"row {new.row} ({new.id}): ")


NET = small_network()


@pytest.fixture
def path(tmp_path):
    frame = small_people(50).assign(customer=[f"C-{i}" for i in range(50)])
    frame.loc[[3, 30], "income"] = 500.5, -7
    frame.loc[3, "age"] = 101
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_a_row_that_is_refused_is_named_as_in_a_spreadsheet(path):
    with pytest.raises(FairmendError, match=r'people\.csv: feature "age", row 5: 101'):
        take_people(read_table(path), path, small_spec(), NET)


def test_nobody_is_refused_for_a_range_that_the_network_does_not_read():
    spec = small_spec()
    weight = NET.affines[0].weight.copy()
    for name in ("age", "gender"):
        weight[:, spec.columns(name)] = 0
    blind = Network([Affine(weight, NET.affines[0].bias), *NET.affines[1:]], NET.activations)
    assert reads_what_varies(NET, spec)
    assert not reads_what_varies(blind, spec)
    assert choose_policy("refuse", spec, needs_range=False) == "widen"
    assert choose_policy("refuse", spec, needs_range=True) == "refuse"
    assert choose_policy("clip", spec, needs_range=False) == "clip"

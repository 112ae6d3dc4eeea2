"""People are read from a file in any number of pieces, with the same rows, ids and counts."""

import pytest

from fairmend.auditing.comparisons import reads_what_varies
from fairmend.base.errors import FairmendError
from fairmend.evaluate.people import choose_policy, take_people
from fairmend.network import Affine, Network
from fairmend.spec import Spec
from fairmend.tables import read_table
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
    assert choose_policy("refuse", needs_range=False) == "widen"
    assert choose_policy("refuse", needs_range=True) == "refuse"
    assert choose_policy("clip", needs_range=False) == "clip"

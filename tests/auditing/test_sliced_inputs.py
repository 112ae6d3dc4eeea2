"""A table in files is read slice by slice, with rows counted over the whole table."""

import numpy as np
import pytest

from fairmend.auditing.sliced_inputs import GivenInputs, SlicedInputs, TableInputs
from fairmend.base.errors import FairmendError
from fairmend.tables import stream_table
from support.audit_cases import SPEC, people


@pytest.fixture
def table(tmp_path):
    for number in range(3):
        SPEC.decode(people(40, seed=number)).to_parquet(tmp_path / f"{number}.parquet")
    return stream_table(tmp_path)


def test_slices_are_read_as_inputs(table):
    inputs = TableInputs(SPEC, np.float32, table, None)
    found = [np.concatenate(list(inputs.for_workers().read(number))) for number in range(inputs.count)]
    assert (inputs.count, inputs.total, inputs.read(1).first) == (3, 120, 40)
    assert np.array_equal(np.concatenate(found), np.concatenate([SPEC.encode(frame) for frame in table]))


def test_a_wrong_value_is_named_with_its_row_in_the_whole_table(tmp_path, table):
    SPEC.decode(people(40)).assign(age=200).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(FairmendError, match='feature "age", row 80: 200'):
        list(TableInputs(SPEC, np.float32, table, None).read(2))


def test_inputs_of_every_kind_are_sliced_inputs(table):
    for inputs in (
        TableInputs(SPEC, np.float32, table, None),
        GivenInputs.of(SPEC, people(5), np.float32, None, None),
        GivenInputs.samples(SPEC, 5, 0, np.float32, None),
    ):
        assert isinstance(inputs, SlicedInputs)
        assert "give at least one input" in str(inputs.error_for_none())
    assert not isinstance(people(5), SlicedInputs)
    assert not isinstance(SPEC.decode(people(5)), SlicedInputs)

"""An audit gives the same result in whatever form and in whatever chunks the inputs arrive."""

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend.auditing.inputs import (
    GivenInputs,
    SlicedInputs,
    TableInputs,
    block_rows,
    cut_blocks,
    encode_chunks,
    known_length,
    sample_blocks,
)
from fairmend.base.errors import FairmendError
from fairmend.tables import stream_table
from support.audit_cases import SPEC, network, people, without_time


@pytest.mark.parametrize("size", [1, 7, 100, 64, 1000])
@pytest.mark.parametrize("as_frame", [False, True])
def test_chunks_of_any_size_give_the_same_result(monkeypatch, size, as_frame):
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 128)
    net, X = network(), people(500)
    whole = fairmend.audit(net, SPEC, X)
    chunks = (X[i : i + size] for i in range(0, len(X), size))
    parts = fairmend.audit(net, SPEC, (SPEC.decode(c) for c in chunks) if as_frame else chunks)
    if as_frame:  # decoding and encoding again may move the last bit
        assert (parts.count, parts.total) == (whole.count, whole.total)
    else:
        assert without_time(parts) == without_time(whole)
    assert 0 < whole.count < whole.total


def test_frames_lists_and_empty_chunks_are_inputs_too():
    net, X = network(), people(50)
    count = fairmend.audit(net, SPEC, X).count
    assert fairmend.audit(net, SPEC, SPEC.decode(X)).count == count
    assert fairmend.audit(net, SPEC, X.tolist()).count == count
    assert fairmend.audit(net, SPEC, iter([X[:0], X, X[:0]])).count == count


@pytest.mark.parametrize("sizes", [[500], [1] * 300, [64, 65, 1, 200]])
def test_blocks_hold_the_inputs_in_order_and_have_one_size(monkeypatch, sizes):
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 64)
    X = people(sum(sizes))
    chunks = np.split(X, np.cumsum(sizes)[:-1])
    blocks = list(cut_blocks(encode_chunks(SPEC, iter(chunks), np.float32), block_rows(SPEC)))
    assert {len(block) for block in blocks[:-1]} <= {64}
    assert 0 < len(blocks[-1]) <= 64
    assert np.array_equal(np.concatenate(blocks), X)


def test_a_stream_may_fill_one_array_again_and_again():
    net, X = network(), people(300)

    def chunks():
        buffer = np.empty_like(X[:50])
        for start in range(0, len(X), 50):
            buffer[:] = X[start : start + 50]
            yield buffer

    found = fairmend.audit(net, SPEC, chunks())
    assert without_time(found) == without_time(fairmend.audit(net, SPEC, X))
    assert found.count > 0


def test_samples_do_not_depend_on_how_many_are_drawn_after_them(monkeypatch):
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 64)
    few, many = (np.concatenate(list(sample_blocks(SPEC, n, 3, np.float32))) for n in (128, 300))
    assert len(many) == 300
    assert np.array_equal(few, many[:128])


def test_only_a_stream_has_no_known_length():
    X = people(5)
    assert [known_length(x) for x in (X, SPEC.decode(X), X.tolist(), iter([X]))] == [5, 5, 5, 0]


def test_a_bad_row_is_named_as_it_is_counted_over_all_chunks():
    bad = pd.concat([SPEC.decode(people(30)), SPEC.decode(people(1)).assign(age=200)])
    with pytest.raises(FairmendError, match=r'feature "age", row 130: 200 is above the range'):
        fairmend.audit(network(), SPEC, iter([SPEC.decode(people(100)), bad]))


@pytest.mark.parametrize("as_frame", [False, True])
def test_a_bad_row_beyond_the_first_block_is_named_as_counted_over_all(monkeypatch, as_frame):
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 64)
    X = people(300)
    X[200:, 0] = 2
    data = SPEC.decode(people(300)).assign(age=np.where(np.arange(300) < 200, 30, 200)) if as_frame else X
    with pytest.raises(FairmendError, match=r'feature "age", row 200: .*100 of the 300 rows checked have this problem'):
        fairmend.audit(network(), SPEC, data)


def test_a_message_that_looks_like_a_row_number_is_left_alone():
    """The names of features are the user's own; row numbers were once rewritten inside them."""
    spec = fairmend.Spec([fairmend.Feature('a", row 7: b', "integer", range=(0, 9), protected=True)])
    chunks = [np.ones((10, 1), np.float32), np.full((10, 1), 20, np.float32)]
    with pytest.raises(FairmendError) as caught:
        list(encode_chunks(spec, iter(chunks), np.float32))
    assert str(caught.value).startswith('feature "a", row 7: b", row 10: 20 is above the range')


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

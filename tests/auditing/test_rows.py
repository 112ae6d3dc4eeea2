"""Rows come back as they were added, from memory or from a temporary file."""

import numpy as np
import pytest

from fairmend.auditing.neighbours import ExhaustiveScan
from fairmend.auditing.rows import RowCollector, RowSample, RowStore
from fairmend.base.errors import FairmendError
from fairmend.evaluate.groups import columns_of_rows
from support.audit_cases import SPEC, network, people


@pytest.mark.parametrize("memory", [10, 1_000, 1_000_000])
@pytest.mark.parametrize("shape", [(100,), (100, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int8])
def test_rows_come_back_as_they_were_added(monkeypatch, memory, shape, dtype):
    monkeypatch.setattr("fairmend.auditing.rows._MEMORY", memory)
    rows = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    store = RowStore()
    for start in range(0, 100, 7):
        store.add(rows[start : start + 7])
    assert store.array().dtype == dtype
    assert np.array_equal(store.array(), rows)
    store.add(rows[:5])
    assert np.array_equal(store.array()[100:], rows[:5])


def test_an_array_outlives_its_store(monkeypatch):
    monkeypatch.setattr("fairmend.auditing.rows._MEMORY", 8)
    store = RowStore()
    for number in range(20):
        store.add(np.full(3, number))
    kept = store.array()
    del store
    assert kept.sum() == 570


def test_a_full_disk_is_named(monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairmend.auditing.rows._MEMORY", 8)
    monkeypatch.setattr("fairmend.auditing.rows.TemporaryFile", full)
    with pytest.raises(FairmendError, match=r"temporary folder \(No space left on device\); set TMPDIR"):
        RowStore().add(np.zeros(10))


def sample(rows, most, seed=0, size=10):
    kept = RowSample(most, seed)
    for start in range(0, rows, size):
        part = np.arange(start, min(rows, start + size))
        kept.add({"value": part * 10, "pair": np.stack([part, -part], axis=1)})
    return kept.columns()


def test_few_rows_are_all_kept_in_order():
    found = sample(35, 40)
    assert found["row"].tolist() == list(range(35))
    assert np.array_equal(found["value"], found["row"] * 10)
    assert np.array_equal(found["pair"], np.stack([found["row"], -found["row"]], axis=1))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_sample_does_not_depend_on_the_pieces(size):
    found = sample(1000, 50, size=size)
    assert np.array_equal(found["row"], sample(1000, 50)["row"])
    assert len(found["row"]) == 50
    assert np.array_equal(found["value"], found["row"] * 10)
    assert not np.array_equal(found["row"], sample(1000, 50, seed=1, size=size)["row"])


def test_every_row_is_equally_likely():
    hits = np.zeros(200)
    for seed in range(400):
        hits[sample(200, 20, seed, size=60)["row"]] += 1
    assert abs(hits[:100].sum() - hits[100:].sum()) < 300  # five standard deviations
    assert hits.min() > 12  # 40 are expected


def test_samples_of_parts_are_merged_into_the_sample_of_the_whole():
    whole, merged = sample(1000, 50), RowSample(50, 0)
    for first in range(0, 1000, 250):
        part = RowSample(50, 0, first, merged.limit)
        rows = np.arange(first, first + 250)
        part.add({"value": rows * 10, "pair": np.stack([rows, -rows], axis=1)})
        assert first < 750 or len(part.columns()["row"]) < 40  # the limit leaves out what cannot be in the sample
        merged.merge(part)
        merged.shrink()
    assert all(np.array_equal(values, whole[name]) for name, values in merged.columns().items())


def test_the_protected_values_of_all_rows_are_those_of_the_user():
    net, X = network(), people(90)
    collector = RowCollector()
    for part in np.split(X, 3):
        collector.add(SPEC, part, ExhaustiveScan(net, SPEC).scan(part))
    rows = collector.rows()
    decoded = SPEC.decode(X)
    for feature, values in columns_of_rows(SPEC, rows):
        assert values.distinct[values.codes].tolist() == decoded[feature.name].tolist()
    assert rows.logits.shape == rows.unequal.shape == (90,)

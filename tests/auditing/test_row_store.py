"""Rows come back as they were added, from memory or from a temporary file."""

import numpy as np
import pytest

from fairmend.auditing import row_store
from fairmend.auditing.row_store import RowStore
from fairmend.base.errors import FairmendError


@pytest.mark.parametrize("memory", [10, 1_000, 1_000_000])
@pytest.mark.parametrize("shape", [(100,), (100, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int8])
def test_rows_come_back_as_they_were_added(monkeypatch, memory, shape, dtype):
    monkeypatch.setattr(row_store, "_MEMORY", memory)
    rows = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    store = RowStore()
    for start in range(0, 100, 7):
        store.add(rows[start : start + 7])
    assert store.array().dtype == dtype
    assert np.array_equal(store.array(), rows)
    store.add(rows[:5])
    assert np.array_equal(store.array()[100:], rows[:5])


def test_an_array_outlives_its_store(monkeypatch):
    monkeypatch.setattr(row_store, "_MEMORY", 8)
    store = RowStore()
    for number in range(20):
        store.add(np.full(3, number))
    kept = store.array()
    del store
    assert kept.sum() == 570


def test_a_full_disk_is_named(monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(row_store, "_MEMORY", 8)
    monkeypatch.setattr(row_store, "TemporaryFile", full)
    with pytest.raises(FairmendError, match=r"temporary folder \(No space left on device\); set TMPDIR"):
        RowStore().add(np.zeros(10))

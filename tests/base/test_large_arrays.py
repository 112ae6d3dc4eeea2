"""Figures of long arrays are those of NumPy, chunk by chunk."""

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as numpy_arrays

from fairmend.base import arrays
from fairmend.base.arrays import (
    count_above,
    count_codes,
    count_together,
    empty_array,
    histogram,
    in_chunks,
    quantiles,
    select_rows,
    sum_in_chunks,
)
from fairmend.base.errors import FairmendError

SHARES = [0.0, 0.5, 0.9, 0.95, 0.99, 1.0]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(arrays, "CHUNK", 7)
    monkeypatch.setattr(arrays, "_FEW", 0)


@given(
    numpy_arrays(np.float64, st.integers(1, 40), elements=st.floats(allow_nan=False, allow_infinity=False, width=32))
)
def test_quantiles_are_those_of_numpy_to_the_last_bit(values):
    assert quantiles(values, SHARES) == np.quantile(values, SHARES).tolist()


def test_quantiles_of_many_equal_and_close_values():
    rng = np.random.default_rng(0)
    values = np.concatenate([np.zeros(30), 0.1 + 1e-16 * rng.integers(0, 9, 40), rng.random(30) * 1e-300])
    assert quantiles(values, SHARES) == np.quantile(values, SHARES).tolist()


def test_counts_are_those_of_all_rows():
    rng = np.random.default_rng(1)
    codes, chosen, values = rng.integers(0, 5, 50).astype(np.uint8), rng.random(50) < 0.4, rng.random(50)
    assert count_codes(codes, 6).tolist() == np.bincount(codes, minlength=6).tolist()
    assert select_rows(codes, chosen).tolist() == codes[chosen].tolist()
    assert count_above(values, 0.3) == (values > 0.3).sum()
    counts, edges = histogram(values, 4, 0.8)
    expected = np.histogram(np.minimum(values, 0.8), bins=4, range=(0, 0.8))
    assert (counts.tolist(), edges.tolist()) == (expected[0].tolist(), expected[1].tolist())
    assert in_chunks(values, lambda part: part > 0.5, np.int8).tolist() == (values > 0.5).tolist()


def test_rows_are_counted_by_the_combination_of_their_codes():
    rng = np.random.default_rng(2)
    first, second, third = rng.integers(0, 3, 90).astype(np.uint8), rng.random(90) < 0.5, rng.integers(0, 2, 90)
    expected = [
        [[((first == a) & (second == b) & (third == c)).sum() for c in (0, 1)] for b in (0, 1)] for a in (0, 1, 2, 3)
    ]
    assert count_together((first, 4), (second, 2), (third, 2)).tolist() == expected
    assert count_together((second, 2)).tolist() == [(~second).sum(), second.sum()]


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_an_array_is_filled_alike_in_memory_and_in_a_file(monkeypatch, limit):
    monkeypatch.setattr(arrays, "_MEMORY", limit)
    array = empty_array((30, 2), np.float32)
    array[:] = np.arange(60)[::-1].reshape(30, 2)
    array[:, 1].sort()
    assert array[:, 1].tolist() == sorted(range(0, 60, 2))
    assert isinstance(array.base, np.memmap) == (limit == 0)
    rows = np.arange(30)
    assert select_rows(array, rows % 3 == 0).tolist() == array[rows % 3 == 0].tolist()


def test_a_full_temporary_folder_is_named(monkeypatch):
    class Full(BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(arrays, "_MEMORY", 0)
    monkeypatch.setattr(arrays, "TemporaryFile", lambda prefix: Full())
    with pytest.raises(FairmendError, match=r"temporary folder \(No space left on device\); set TMPDIR"):
        empty_array((30,), np.float32)


@pytest.mark.parametrize("rows", [1, 1_000, 12_345, 100_003])
def test_a_sum_in_chunks_has_the_bits_of_numpy(monkeypatch, rows):
    monkeypatch.setattr(arrays, "CHUNK", 1_000)
    values = np.random.default_rng(rows).standard_normal(rows) * 1e3
    assert sum_in_chunks(rows, lambda part: values[part] ** 2) == (values**2).sum()

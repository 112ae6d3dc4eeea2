"""Figures of long arrays are those of NumPy, chunk by chunk."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairmend import large_arrays
from fairmend.large_arrays import count_above, count_codes, histogram, in_chunks, quantiles

SHARES = [0.0, 0.5, 0.9, 0.95, 0.99, 1.0]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(large_arrays, "CHUNK", 7)
    monkeypatch.setattr(large_arrays, "_FEW", 0)


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)))
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
    assert count_codes(codes, 6, chosen).tolist() == np.bincount(codes[chosen], minlength=6).tolist()
    assert count_above(values, 0.3) == (values > 0.3).sum()
    counts, edges = histogram(values, 4, 0.8)
    expected = np.histogram(np.minimum(values, 0.8), bins=4, range=(0, 0.8))
    assert (counts.tolist(), edges.tolist()) == (expected[0].tolist(), expected[1].tolist())
    assert in_chunks(values, lambda part: part > 0.5, np.int8).tolist() == (values > 0.5).tolist()

"""Scores that were computed beside others: equal to the bit, if BLAS rounds every column of a product alike."""

from functools import cache

import numpy as np

_COLUMNS = 1024
_SHAPES = ((8, 16), (16, 8), (32, 16), (6, 12))
_OFF = 1e-5  # of the largest score: hundreds of units in the last place of float32, far less than any two scores differ


@cache
def rounds_columns_alike(dtype: np.dtype) -> bool:
    """Whether equal columns of a product get equal bits, wherever they stand.

    In float32, OpenBLAS rounds the columns at the ends of its blocks differently on processors without AVX-512.
    """
    rng = np.random.default_rng(0)
    for shape in _SHAPES:
        column = rng.standard_normal((shape[1], 1)).astype(dtype)
        product = rng.standard_normal(shape).astype(dtype) @ np.repeat(column, _COLUMNS, axis=1)
        if np.any(product != product[:, :1]):
            return False
    return True


def assert_same_scores(found: np.ndarray, expected: np.ndarray) -> None:
    """Assert equal bits; where BLAS does not round columns alike, scores that are equal but for their last bits."""
    assert found.dtype == expected.dtype
    if rounds_columns_alike(expected.dtype):
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=_OFF * np.abs(expected).max(initial=1.0))

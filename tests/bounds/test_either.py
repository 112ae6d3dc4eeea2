"""Operations on arrays and tensors give the same numbers."""

import numpy as np
import pytest
import torch

from fairmend.bounds import either

ROWS = np.random.default_rng(0).normal(size=(2, 3, 4))
OTHER = np.random.default_rng(1).normal(size=(2, 3, 4))


@pytest.mark.parametrize("name", ["positive_part", "negative_part", "is_finite", "downwards"])
def test_functions_of_one(name):
    values = np.concatenate([ROWS.ravel(), [0.0, -0.0, np.inf, 1e-310]])
    function = getattr(either, name)
    np.testing.assert_array_equal(either.as_array(function(torch.tensor(values))), function(values))


@pytest.mark.parametrize("name", ["larger", "smaller"])
def test_functions_of_two(name):
    function = getattr(either, name)
    np.testing.assert_array_equal(
        either.as_array(function(torch.tensor(ROWS), torch.tensor(OTHER))), function(ROWS, OTHER)
    )


def test_the_others():
    chosen = either.select(torch.tensor(ROWS > 0), torch.tensor(ROWS), -np.inf)
    np.testing.assert_array_equal(either.as_array(chosen), either.select(ROWS > 0, ROWS, -np.inf))
    for mine, theirs in zip(
        either.split_columns(torch.tensor(ROWS), [1, 3]), either.split_columns(ROWS, [1, 3]), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    assert either.zeros((2, 1), torch.tensor(ROWS)).shape == either.zeros((2, 1), ROWS).shape


def test_a_repeated_row_is_copied_once():
    repeated = np.broadcast_to(ROWS[:1], (50, 3, 4))
    moved = either.on_device(repeated, "cpu")
    assert moved.shape == repeated.shape
    assert moved.untyped_storage().nbytes() == ROWS[:1].nbytes

"""Axes of values: what a reshape, a product or a sum does to the numbers of each row."""

import numpy as np
import pytest

from fairmend.network.formats.onnx.axes import (
    ROWS,
    Count,
    Rows,
    broadcast,
    column_numbers,
    contraction,
    elementwise_contraction,
    lengths,
    matrix_contraction,
    reshaped,
    rows_axis,
)

R = 3  # rows
RESHAPES = [
    ((ROWS, 6), [-1, 2, 3]),
    ((ROWS, 2, 3), [Count(), -1]),
    ((ROWS, 2, 3), [Count(2), 3]),
    ((ROWS, 2, 3), [-1, 3]),
    ((2, ROWS, 3), [Count(2), 3]),
    ((2, ROWS, 6), [2, Count(3), 2]),
    ((Rows(2, 1), 3), [2, Count(), -1]),
    ((4, ROWS, 6), [2, -1, 3]),
    ((Rows(2, 6),), [2, -1, 3]),
]


def of_rows(dims, numbers):
    """Return numbers (rows, columns) as a program holds them, under these axes."""
    at = rows_axis(dims)
    rows = dims[at]
    split = numbers.reshape(R, *lengths(dims[:at]), rows.before, rows.after, *lengths(dims[at + 1 :]))
    sizes = [R * rows.entries if axis == at else size for axis, size in enumerate(lengths(dims))]
    return np.moveaxis(split, 0, at + 1).reshape(sizes)


@pytest.mark.parametrize(("dims", "shape"), RESHAPES)
def test_a_reshape_leaves_the_numbers_of_a_row_in_their_order(dims, shape):
    new = reshaped(dims, shape)
    rows = np.arange(R * column_numbers(dims).size).reshape(R, -1)
    sizes = [size.times * R if isinstance(size, Count) else size for size in shape]
    assert np.array_equal(of_rows(dims, rows).reshape(sizes), of_rows(new, rows))


MIXING = [((ROWS, 6), [2, -1, 3]), ((ROWS, 6), [-1, 4]), ((2, ROWS), [-1, 4]), ((ROWS, 6), [Count(2), 6]),
          ((ROWS, 6), [3, 6]), ((ROWS, 6), [Count(), Count()]), ((ROWS, 6), [-1, -1]),
          ((ROWS, 6), [Count(), 0, -1])]  # fmt: skip


@pytest.mark.parametrize(("dims", "shape"), MIXING)
def test_a_reshape_that_mixes_rows_is_none(dims, shape):
    assert reshaped(dims, shape) is None


def test_values_of_other_rows_do_not_go_together():
    assert broadcast((ROWS, 3), (1, ROWS, 3)) == (1, ROWS, 3)
    assert broadcast((ROWS, 1, 3), (ROWS, 2, 1)) == (ROWS, 2, 3)
    assert broadcast((ROWS, 3), (3, ROWS)) is None
    assert broadcast((ROWS, 3), (ROWS, 2)) is None
    assert broadcast((Rows(2, 1), 3), (Rows(1, 2), 3)) is None


def computed(how, first, second):
    """Return what the product of matrices gives, for each row."""
    groups, rows, columns, length = how.sizes
    a = first[:, how.first].reshape(-1, groups, rows, length)
    b = second[:, how.second].reshape(-1, groups, columns, length)
    return (a @ b.swapaxes(-1, -2)).reshape(len(first), -1)[:, how.result]


def values(dims, seed):
    return np.random.default_rng(seed).integers(-9, 9, (R, column_numbers(dims).size)).astype(float)


PAIRS = [((ROWS, 2, 3), (ROWS, 2, 3)), ((ROWS, 2, 3), (ROWS, 1, 3)), ((ROWS, 1, 3), (ROWS, 2, 1)),
         ((2, ROWS, 3), (ROWS, 3)), ((Rows(2, 1), 3), (Rows(2, 1), 1)), ((ROWS, 1), (ROWS, 1))]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_a_product_of_numbers_is_one_of_matrices(one, two):
    how, first, second = elementwise_contraction(one, two), values(one, 0), values(two, 1)
    whole = of_rows(one, first) * of_rows(two, second)
    assert np.array_equal(of_rows(how.dims, computed(how, first, second)), whole)


MATRICES = [((ROWS, 2, 3), (ROWS, 3, 4)), ((ROWS, 5, 2, 3), (ROWS, 1, 3, 4)), ((ROWS, 5, 2, 3), (ROWS, 5, 3, 1)),
            ((5, ROWS, 2, 3), (ROWS, 3, 4)), ((Rows(1, 2), 2, 3), (Rows(1, 2), 3, 2))]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), MATRICES)
def test_a_product_of_matrices_is_one_with_groups(one, two):
    how, first, second = matrix_contraction(one, two), values(one, 0), values(two, 1)
    whole = of_rows(one, first) @ of_rows(two, second)
    assert np.array_equal(of_rows(how.dims, computed(how, first, second)), whole)


SUMS = ["bik,bjk->bij", "bik,bkj->bji", "bi,bi->b", "bijk,bkl->blij", "bik,bk->bik"]


@pytest.mark.parametrize("equation", SUMS)
def test_an_einsum_is_a_product_of_matrices(equation):
    (one, two), out = equation.split("->")[0].split(","), equation.split("->")[1]
    sizes = {"b": ROWS, "i": 2, "j": 3, "k": 4, "l": 5}
    axes = [{name: sizes[name] for name in part} for part in (one, two)]
    how = contraction(*axes, list(out))
    first, second = (values(tuple(each.values()), k) for k, each in enumerate(axes))
    whole = np.einsum(equation, *(of_rows(tuple(a.values()), v) for a, v in zip(axes, (first, second), strict=True)))
    assert np.array_equal(of_rows(how.dims, computed(how, first, second)), whole)
    assert how.sizes[0] == np.prod([1, *(lengths((sizes[n],))[0] for n in out if n in one and n in two)])


def test_sums_over_rows_and_over_an_axis_of_one_value_are_none():
    a, b = {"b": ROWS, "i": 2}, {"b": ROWS, "j": 3}
    assert contraction(a, b, ["i", "j"]) is None
    assert contraction(a, b, ["b", "i"]) is None
    assert contraction(a, {"i": 2, "c": ROWS}, ["b", "c"]) is None
    assert matrix_contraction((ROWS, 3), (3, ROWS)) is None
    assert matrix_contraction((1, ROWS, 3), (1, 3, ROWS)) is None

"""Axes of values: what a reshape, a product or a sum does to the numbers of each row."""

import numpy as np
import pytest

from fairmend.network.formats.axes import (
    ROWS,
    Count,
    Rows,
    broadcast,
    column_numbers,
    contraction,
    follow,
    lengths,
    matrix_names,
    rows_axis,
    unstretched,
)

R = 5  # rows


def reshape(dims, sizes):
    width = column_numbers(dims).size
    return lambda rows: rows.reshape([s.times * rows.size // width if isinstance(s, Count) else s for s in sizes])


MOVES = {
    "tokens of columns": ((ROWS, 6), reshape((ROWS, 6), [-1, 2, 3])),
    "columns of tokens": ((ROWS, 2, 3), reshape((ROWS, 2, 3), [Count(), -1])),
    "tokens in the rows": ((ROWS, 2, 3), reshape((ROWS, 2, 3), [Count(2), 3])),
    "tokens before the rows": ((2, ROWS, 3), reshape((2, ROWS, 3), [Count(2), 3])),
    "both": ((2, ROWS, 6), reshape((2, ROWS, 6), [2, Count(3), 2])),
    "tokens out of the rows": ((Rows(2, 1), 3), reshape((Rows(2, 1), 3), [2, Count(), -1])),
    "half of them": ((4, ROWS, 6), reshape((4, ROWS, 6), [2, -1, 3])),
    "on both sides": ((Rows(2, 6),), reshape((Rows(2, 6),), [2, -1, 3])),
    "another order": ((2, ROWS, 3), lambda rows: rows.transpose(2, 0, 1)),
    "a choice": ((ROWS, 6), lambda rows: rows[:, [4, 4, 0]]),
    "one more axis": ((ROWS, 2), lambda rows: rows[None, :, None]),
    "repeated": ((Rows(1, 2), 1), lambda rows: np.broadcast_to(rows, (len(rows), 3))),
    "rows of one number": ((ROWS, 1), lambda rows: rows[:, 0]),
}


def of_rows(dims, numbers):
    """Return numbers (rows, columns) as a program holds them, under these axes."""
    at = rows_axis(dims)
    rows = dims[at]
    split = numbers.reshape(R, *lengths(dims[:at]), rows.before, rows.after, *lengths(dims[at + 1 :]))
    sizes = [R * rows.entries if axis == at else size for axis, size in enumerate(lengths(dims))]
    return np.moveaxis(split, 0, at + 1).reshape(sizes)


@pytest.mark.parametrize("name", MOVES)
def test_a_move_is_followed_for_any_number_of_rows(name):
    dims, move = MOVES[name]
    rows = np.arange(R * column_numbers(dims).size).reshape(R, -1)
    columns, new = follow(dims, move)
    assert np.array_equal(move(of_rows(dims, rows)), of_rows(new, rows[:, columns.reshape(-1)]))


MIXING = {
    "rows in the middle": ((ROWS, 6), reshape((ROWS, 6), [2, -1, 3])),
    "rows of other widths": ((ROWS, 6), reshape((ROWS, 6), [-1, 4])),
    "parts of rows": ((2, ROWS), reshape((2, ROWS), [-1, 4])),
    "two counts": ((ROWS, 6), reshape((ROWS, 6), [Count(2), 6])),
    "three rows": ((ROWS, 6), lambda rows: rows.reshape(3, 6)),
    "one row": ((ROWS, 6), lambda rows: rows[0]),
    "the last row": ((ROWS, 6), lambda rows: rows[-1:]),
    "every second row": ((ROWS, 6), lambda rows: rows[::2]),
    "rows in another order": ((ROWS, 6), lambda rows: rows[::-1]),
    "rows times rows": ((ROWS, 1), lambda rows: np.broadcast_to(rows, (len(rows), len(rows)))),
    "columns of rows": ((ROWS, 6), lambda rows: rows.T.reshape(-1, 6)),
    "nothing": ((ROWS, 6), lambda rows: rows[:, :0]),
}


@pytest.mark.parametrize("name", MIXING)
def test_a_move_that_mixes_rows_is_refused(name):
    with pytest.raises(ValueError, match=r"mixes the rows|reshape"):
        follow(*MIXING[name])


def test_values_of_other_rows_do_not_go_together():
    assert broadcast((ROWS, 3), (1, ROWS, 3)) == (1, ROWS, 3)
    assert broadcast((ROWS, 1, 3), (ROWS, 2, 1)) == (ROWS, 2, 3)
    for first, second in (((ROWS, 3), (3, ROWS)), ((ROWS, 3), (ROWS, 2)), ((Rows(2, 1), 3), (Rows(1, 2), 3)),
                          ((ROWS, 1), (1, ROWS))):  # fmt: skip
        with pytest.raises(ValueError, match="combines shapes"):
            broadcast(first, second)


def product(first, second, names):
    """Return how the product of two values is one of matrices, whose axes have these names."""
    axes = [dict(zip(own, dims, strict=True)) for own, dims in zip(names, (first, second), strict=False)]
    thin = unstretched(*axes)
    return contraction(*thin, [name for name in names[2] if name in {**thin[0], **thin[1]}])


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
    names = [list(range(-len(dims), 0)) for dims in (one, two)]
    how, first, second = product(one, two, [*names, max(names, key=len)]), values(one, 0), values(two, 1)
    whole = of_rows(one, first) * of_rows(two, second)
    assert np.array_equal(of_rows(how.dims, computed(how, first, second)), whole)


MATRICES = [((ROWS, 2, 3), (ROWS, 3, 4)), ((ROWS, 5, 2, 3), (ROWS, 1, 3, 4)), ((ROWS, 5, 2, 3), (ROWS, 5, 3, 1)),
            ((5, ROWS, 2, 3), (ROWS, 3, 4)), ((Rows(1, 2), 2, 3), (Rows(1, 2), 3, 2))]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), MATRICES)
def test_a_product_of_matrices_is_one_with_groups(one, two):
    how, first, second = product(one, two, matrix_names(one, two)), values(one, 0), values(two, 1)
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


def test_sums_over_rows_and_over_an_axis_of_one_value_are_refused():
    a, b = {"b": ROWS, "i": 2}, {"b": ROWS, "j": 3}
    for first, second, out in ((a, b, ["i", "j"]), (a, {"i": 2, "c": ROWS}, ["b", "c"])):
        with pytest.raises(ValueError, match="the rows with each other"):
            contraction(first, second, out)
    with pytest.raises(ValueError, match="that only one factor has"):
        contraction(a, b, ["b", "i"])
    with pytest.raises(ValueError, match="multiplies axes of 2 and 3 numbers"):
        contraction(a, {"b": ROWS, "i": 3}, ["b"])
    for one, two in (((ROWS, 3), (3, ROWS)), ((1, ROWS, 3), (1, 3, ROWS))):
        with pytest.raises(ValueError, match="the rows with each other"):
            product(one, two, matrix_names(one, two))

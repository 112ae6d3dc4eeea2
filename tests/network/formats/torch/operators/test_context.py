"""What calls check about their arguments."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network.formats.axes import ROWS, column_numbers
from fairmend.network.formats.build import Value
from fairmend.network.formats.torch.operators.context import Context, InputWidthError, Memory, RowTensor
from fairmend.network.formats.torch.program import Constant
from fairmend.network.formats.torch.steps import Steps

# Rows of numbers under shapes.


def test_columns_are_numbered_in_the_order_of_the_axes():
    assert column_numbers((ROWS, 2, 3)).tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert column_numbers((2, ROWS), 4).tolist() == [[4], [5]]


def test_a_tensor_knows_its_rows_and_whether_it_was_changed():
    memory = Memory()
    tensor = RowTensor((Value(1, 2), Value(2, 1)), (3, ROWS), memory=memory)
    assert (tensor.width, tensor.row_axis, tensor.axis(-1), tensor.shape()) == (3, 1, 1, "(3, rows)")
    assert RowTensor((Value(1, 1),), (ROWS,)).shape() == "(rows,)"
    memory.version += 1
    assert tensor.stale


def made(width=4, opens=None):
    steps = Steps("m", {})
    return Context(steps, "f()", set(), set()), RowTensor((steps.input(width),), (ROWS, width), opens or {})


def test_what_was_put_side_by_side_comes_apart_again():
    c, x = made()
    left, right = (c.select(x, np.array(columns), (ROWS, 2)) for columns in ([0, 1], [3, 2]))
    both = RowTensor((*left.parts, *right.parts), (ROWS, 4))
    assert c.select(both, np.array([2, 3]), (ROWS, 2)).parts == right.parts
    mixed = c.select(both, np.array([2, 0, 3]), (ROWS, 3))
    assert [part.width for part in mixed.parts] == [3]


def test_a_width_that_is_not_known_is_asked_for():
    c, x = made(4, {"x": 2})
    with pytest.raises(InputWidthError) as error:
        c.require_width(x, 10)
    assert (error.value.name, error.value.change, error.value.exact) == ("x", 3, True)
    with pytest.raises(FairmendError, match="takes 9 values"):
        c.require_width(x, 9)


def test_arguments_of_the_wrong_kind_are_refused_by_the_name_of_the_call():
    c, x = made()
    whole = RowTensor(x.parts, x.dims, whole=True)
    for check, words in (
        (lambda: c.tensor(3), "depends on the input"),
        (lambda: c.numbers(whole), "whole numbers"),
        (lambda: c.matrix(RowTensor(x.parts, (ROWS, 2, 2))), r"\(rows, 2, 2\)"),
        (lambda: c.key(x, "weights"), "product of activations"),
        (lambda: c.key(Constant(np.ones(2)), "weights"), "register_buffer"),
        (lambda: c.number("a", "a slope"), "a slope that is not one number"),
    ):
        with pytest.raises(FairmendError, match=rf"f\(\).*{words}"):
            check()

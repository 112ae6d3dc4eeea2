"""Rows of numbers under shapes."""

from fairmend.network.formats.build import Value
from fairmend.network.formats.torch.rows import ROWS, Memory, RowTensor, column_numbers


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

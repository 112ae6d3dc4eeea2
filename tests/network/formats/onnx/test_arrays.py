"""What nodes compute of constants and of sizes, in which the number of rows has no value."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from fairmend.network.formats.axes import Count
from fairmend.network.formats.onnx.arrays import compute
from support.onnx_files import node


def sizes(*each):
    array = np.empty(len(each), object)
    array[:] = each
    return array


SHAPE = sizes(Count(), 5, 8)
ONE, TWO, NONE = np.array([1]), np.array([2]), np.array([-1])
KNOWN = {
    "gather": (node("Gather", "s i"), [SHAPE, np.array(2)], [8]),
    "slice": (node("Slice", "s a b"), [SHAPE, ONE, np.array([9])], [5, 8]),
    "concat": (node("Concat", "s t", axis=0), [sizes(Count()), TWO], [Count(), 2]),
    "heads": (node("Mul", "s t"), [sizes(Count()), TWO], [Count(2)]),
    "half of the heads": (node("Div", "s t"), [sizes(Count(4)), TWO], [Count(2)]),
    "tokens": (node("Div", "s t"), [sizes(Count(4)), sizes(Count(2))], [2]),
    "kept": (node("Where", "c o s"), [np.array([False, True, False]), np.ones(3, np.int64), SHAPE], [Count(), 1, 8]),
    "nowhere": (node("Equal", "s t"), [SHAPE, np.full(3, -1)], [0, 0, 0]),
    "at least one": (node("Max", "s t"), [sizes(Count()), ONE], [Count()]),
    "nothing added": (node("Add", "s t"), [sizes(Count()), np.array([0])], [Count()]),
    "rounded to 0": (node("Div", "s t"), [np.array([-7]), TWO], [-3]),
    "cast": (node("Cast", "s", to=TensorProto.INT64), [SHAPE], [Count(), 5, 8]),
    "split": (helper.make_node("Split", ["s"], ["a", "b"], axis=0, num_outputs=2), [np.arange(5)], [0, 1, 2]),
    "range": (node("Range", "a b c"), [np.array(1), np.array(6), np.array(2)], [1, 3, 5]),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_sizes_are_known(name):
    what, given, expected = KNOWN[name]
    assert compute(what, given)[0].reshape(-1).tolist() == expected


UNKNOWN = {
    "the number of rows itself": (node("Cast", "s", to=TensorProto.FLOAT), [SHAPE]),
    "one more row": (node("Add", "s t"), [sizes(Count()), ONE]),
    "half of the rows": (node("Div", "s t"), [sizes(Count()), TWO]),
    "rows times rows": (node("Mul", "s s"), [sizes(Count()), sizes(Count())]),
    "as many rows as columns": (node("Equal", "s t"), [sizes(Count()), np.array([5])]),
    "at most five": (node("Min", "s t"), [sizes(Count()), np.array([5])]),
    "no such size": (node("Gather", "s i"), [SHAPE, np.array(3)]),
    "not a number": (node("Div", "s t"), [np.float32([1]), np.float32([0])]),
    "two types": (node("Add", "s t"), [np.float32([1]), np.float64([0])]),
    "backwards from before": (node("Slice", "s a b x d"), [np.arange(3), np.array([-9]), np.array([-99]), None, NONE]),
    "too many": (node("Expand", "s t"), [np.float32([1]), np.array([2**40])]),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_depends_on_the_number_of_rows_is_not_known(name):
    assert compute(*UNKNOWN[name]) is None

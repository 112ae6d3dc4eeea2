import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.milp import MilpBuilder, violation


def test_builder_lays_blocks_out_as_the_dense_matrix_says():
    rng = np.random.default_rng(0)
    builder = MilpBuilder()
    x = builder.add_variables(3, lower=-1, upper=[1, 2, 3], cost=2.0)
    y = builder.add_variables(2, integer=[True, False])
    assert x.tolist() == [0, 1, 2]
    assert y.tolist() == [3, 4]
    shared = rng.normal(size=(4, 2)) * (rng.random((4, 2)) < 0.6)
    own = rng.normal(size=(2, 2))
    assert builder.add_row(x, [1, 0, 3], upper=7) == 0
    assert builder.add_rows(y[::-1], shared, lower=np.arange(4)).tolist() == [1, 2, 3, 4]
    assert builder.add_rows([[0, 3], [4, 1]], own, -1, 1).tolist() == [5, 6]
    milp = builder.build()

    dense = np.zeros((7, 5))
    dense[0, :3] = 1, 0, 3
    dense[1:5, [4, 3]] = shared
    dense[5, [0, 3]] = own[0]
    dense[6, [4, 1]] = own[1]
    assert (milp.variables, milp.rows, len(milp.values)) == (5, 7, np.count_nonzero(dense))
    point = rng.normal(size=5)
    np.testing.assert_allclose(milp.activity(point), dense @ point, atol=1e-14)
    assert milp.upper.tolist() == [1, 2, 3, np.inf, np.inf]
    assert milp.cost.tolist() == [2, 2, 2, 0, 0]
    assert milp.integer.tolist() == [False, False, False, True, False]
    assert milp.row_lower.tolist() == [-np.inf, 0, 1, 2, 3, -1, -1]
    assert repr(milp).startswith("Milp(5 variables, 1 of them integer, 7 rows")


def test_builder_goes_on_after_a_build():
    builder = MilpBuilder()
    x = builder.add_variables(2)
    builder.add_row(x, [1, 1], 1)
    first = builder.build()
    builder.add_row(builder.add_variables(1), [1], 0)
    assert (first.variables, first.rows) == (2, 1)
    assert (builder.build().variables, builder.build().rows) == (3, 2)


def test_nothing_builds_to_an_empty_problem():
    milp = MilpBuilder().build()
    assert (milp.variables, milp.rows, violation(milp, [])) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("indices", "values", "message"),
    [
        ([0, 0], [1, 2], "twice"),
        ([0, 5], [1, 2], "outside 0 to 1"),
        ([-1], [1], "outside"),
        ([0, 1], [1, 2, 3], "shape"),
    ],
)
def test_bad_rows_are_named(indices, values, message):
    builder = MilpBuilder()
    builder.add_variables(2)
    with pytest.raises(FairmendError, match=message):
        builder.add_row(indices, values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"cost": np.nan}, "cost"), ({"cost": np.inf}, "cost"), ({"upper": np.nan}, "upper")],
)
def test_nan_does_not_reach_a_solver(arguments, message):
    builder = MilpBuilder()
    builder.add_variables(2, **arguments)
    with pytest.raises(FairmendError, match=message):
        builder.build()


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([1, 2], 0.0),
        ([1, 2.25], 0.25),  # not whole
        ([-0.5, 2], 0.5),  # below its bound
        ([5, 2], 4.0),  # the row, 2x + y ≤ 8, by 4
        ([0, 0], 1.0),  # the row, 2x + y ≥ 1
        ([np.nan, 0], np.inf),
    ],
)
def test_violation_is_the_largest_miss(x, expected):
    builder = MilpBuilder()
    builder.add_variables(2, upper=10, integer=[False, True])
    builder.add_row([0, 1], [2, 1], 1, 8)
    assert violation(builder.build(), x) == expected


def test_violation_wants_the_whole_point():
    with pytest.raises(FairmendError, match="shape"):
        violation(MilpBuilder().build(), [1.0])

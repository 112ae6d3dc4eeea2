"""The encoding of a spec is compared with the matrix that the model read, column by column."""

import numpy as np

from fairmend.evaluate.matrix_match import match_matrix
from support.cli_case import small_people, small_spec

SPEC = small_spec()
OURS = SPEC.encode(small_people(), np.float64)


def test_float32_is_rounding_and_a_changed_column_is_named():
    match = match_matrix(OURS, OURS.astype(np.float32).astype(np.float64), SPEC.column_names)
    assert match.verified
    assert str(match).startswith("verified: 200 rows of 5 columns, largest difference")
    given = OURS.copy()
    given[7, 3] += 0.01
    match = match_matrix(OURS, given, SPEC.column_names)
    assert [(found.column, found.name, found.rows, found.row) for found in match.differing] == [(3, "income", 1, 7)]
    assert "1 of 5 columns differ" in str(match)
    assert "column 3 (income): 1 row, most in row 7" in str(match.differing[0])


def test_exchanged_columns_are_both_named():
    match = match_matrix(OURS, OURS[:, [0, 2, 1, 3, 4]], SPEC.column_names)
    assert [found.name for found in match.differing] == ["gender=f", "gender=m"]


def test_other_widths_are_a_problem():
    match = match_matrix(OURS, OURS[:, :4], SPEC.column_names)
    assert not match.verified
    assert "the matrix has 4 columns, the spec describes 5" in str(match)

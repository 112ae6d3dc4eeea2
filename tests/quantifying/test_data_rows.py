"""Every row of the data falls into the cell with its values."""

import numpy as np

from fairmend.quantifying.decide import CELLS
from fairmend.quantifying.result import find_cells, prove_cells
from fairmend.spec import Feature, Spec
from support.quantify_cases import SMALL, linear, people_of
from support.share_cases import people_of_spec

SPEC = Spec([*SMALL.features, Feature(name="income", kind="continuous", range=(0, 10), scale={"mean": 1, "std": 3})])


def test_cells_are_found_from_encoded_columns():
    X = people_of(SMALL)
    people = people_of_spec(SMALL)
    cells = find_cells(people, SMALL, X)
    assert len(np.unique(cells, axis=0)) == len(X) == 10 * 3 * 4
    for k, axis in enumerate(people.axes):
        assert (axis.columns_of(cells[:, k]) == X[:, axis.columns]).all()


def test_a_continuous_value_is_inside_its_cell():
    X = SPEC.sample_inputs(200, np.random.default_rng(0), np.float64)
    cells = find_cells(people_of_spec(SPEC), SPEC, X)[:, -1]
    values = SPEC.features[-1].unscaled(X[:, -1])
    edges = np.linspace(0, 10, CELLS + 1)
    assert (edges[cells] <= values + 1e-9).all()
    assert (values <= edges[cells + 1] + 1e-9).all()


def test_rows_in_one_cell_count_each():
    net = linear([1, 3, 0, 0, 0, 0], -22.5)
    cells = find_cells(people_of_spec(SMALL), SMALL, people_of(SMALL))
    once, twice = prove_cells(net, SMALL, cells), prove_cells(net, SMALL, np.concatenate([cells, cells]))
    assert (twice.fair, twice.unfair, twice.undecided) == (2 * once.fair, 2 * once.unfair, 0)
    assert once.unfair > 0


def test_rows_that_are_left_when_the_time_is_over_are_undecided():
    net = linear([1, 3, 0, 0, 0, 0], -22.5)
    cells = find_cells(people_of_spec(SMALL), SMALL, people_of(SMALL))
    found = prove_cells(net, SMALL, cells, lambda: False)
    assert (found.fair, found.unfair, found.undecided) == (0, 0, len(cells))

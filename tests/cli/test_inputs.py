"""The files of a command are read, and refused if they do not fit together."""

import numpy as np
import pytest

from fairmend.cli.inputs import load_model, load_people
from fairmend.errors import FairmendError
from fairmend.network import Affine, Network
from support.cli_case import Case, small_network, small_people, small_spec


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def test_a_model_and_its_spec_are_read(case):
    assert load_model(case.model, case.spec, "relu") == (small_spec(), small_network())


def test_a_model_of_another_width_is_refused_with_both_files(case):
    Network([Affine(np.ones((1, 3), np.float32), np.ones(1, np.float32))], []).save(case.model)
    with pytest.raises(FairmendError, match=r"model\.onnx.*reads 3 columns"):
        load_model(case.model, case.spec, "relu")


def test_people_are_all_rows_or_some_drawn_by_seed(case):
    spec, net = small_spec(), small_network()
    rows, X = load_people(case.data, spec, net)
    assert rows.tolist() == list(range(len(small_people())))
    np.testing.assert_array_equal(X, spec.encode(small_people()))
    some, few = load_people(case.data, spec, net, rows=7, seed=3)
    assert len(set(some.tolist())) == 7
    np.testing.assert_array_equal(few, X[some])
    assert some.tolist() == load_people(case.data, spec, net, rows=7, seed=3)[0].tolist()
    assert some.tolist() != load_people(case.data, spec, net, rows=7, seed=4)[0].tolist()


def test_a_row_that_does_not_fit_is_named_with_its_file(case):
    case.write(small_people().assign(age=300))
    with pytest.raises(FairmendError, match=r"people\.csv: .*age.*row 0"):
        load_people(case.data, small_spec(), small_network())

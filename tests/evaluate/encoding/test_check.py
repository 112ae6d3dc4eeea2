"""Data and a network are checked against a spec."""

import numpy as np
import pandas as pd

from fairmend.evaluate.encoding.check import NeighbourhoodSizes, check_spec
from fairmend.evaluate.utility import utility
from fairmend.network import Affine, Network
from fairmend.spec import Feature, Spec
from support.cli_case import small_network, small_people, small_spec
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people as huge_people
from support.price_case import price_network, price_people, price_spec


def test_a_spec_alone_fits():
    check = check_spec(small_spec())
    assert check.fits
    assert (check.rows, check.sizes, check.inputs, check.utility, check.warnings) == (0, None, None, None, ())


def test_data_and_network_that_fit_are_measured():
    spec, people, net = small_spec(), small_people(), small_network()
    check = check_spec(spec, people, net)
    assert check.fits
    assert check.sizes == NeighbourhoodSizes(116, 116, 116)
    assert check.utility == utility(net, spec.encode(people), spec.labels(people))
    assert check.inputs == spec.width


def test_every_problem_of_the_data_is_listed_and_the_network_not_measured():
    people = small_people().assign(age=lambda f: f["age"].where(f.index > 1, 99))
    check = check_spec(small_spec(), people, small_network())
    assert not check.fits
    assert [(problem.feature, problem.rows.tolist()) for problem in check.problems] == [("age", [0, 1])]
    assert check.utility is None


def test_a_network_of_another_width_is_explained_with_what_would_fit():
    wider = Network([Affine(np.ones((1, 4), np.float32), np.zeros(1, np.float32))], [])
    check = check_spec(small_spec(), None, wider)
    assert not check.fits
    assert check.width_mismatch.startswith("the model reads 4 columns, but the spec describes 5 (")
    assert (
        'It would fit with "age" in 0 columns instead of 1 or "gender" in 1 column instead of 2' in check.width_mismatch
    )


def test_a_label_that_never_occurs_or_is_missing_is_a_problem():
    never = check_spec(small_spec(), small_people().assign(good="no"))
    assert 'never "yes"' in never.problems[0].message
    gaps = check_spec(small_spec(), small_people().assign(good=lambda f: f["good"].where(f.index != 4)))
    assert gaps.problems[0].rows.tolist() == [4]


def test_sizes_are_exact_however_large_and_left_out_where_astronomical():
    for name, most in (("ten one-hot features of fifty values", 50**10), ("a range of 10^12", 10**12 + 1)):
        net, X, _ = huge_people(HUGE[name])
        assert check_spec(HUGE[name], HUGE[name].decode(X), net).sizes.most == most
    spec = HUGE["three hundred one-hot features"]
    assert check_spec(spec, spec.decode(huge_people(spec)[1])).sizes is None


def test_a_number_to_predict_is_measured_by_its_errors():
    spec, net, frame = price_spec(), price_network(), price_people()
    check = check_spec(spec, frame, net)
    assert check.fits
    assert check.utility.accuracy is None
    assert check.warnings == ()
    assert check.utility.mean_absolute_error < 2
    assert not check_spec(spec, frame.assign(price="high"), net).fits
    assert check_spec(spec, frame.assign(price=0)).fits


def test_one_of_the_one_hot_columns_cannot_be_protected_alone():
    """Nobody differs in one of them alone; a column whose others are not read is one of two values, and may be."""
    frame = pd.DataFrame({"sex_F": [1, 0, 1, 0], "sex_M": [0, 1, 0, 1], "age": [20, 30, 40, 50]})
    marks = [Feature(name, "integer", range=(0, 1), protected=name == "sex_M") for name in ("sex_F", "sex_M")]
    age = Feature("age", "integer", range=(18, 90))
    (problem,) = check_spec(Spec([*marks, age]), frame).problems
    assert (problem.feature, problem.message.partition(":")[0]) == ("sex_M", "cannot be protected alone")
    assert not check_spec(Spec([marks[1], age]), frame).problems

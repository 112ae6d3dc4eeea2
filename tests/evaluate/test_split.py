"""Rows are split into repair inputs, calibration rows and scored rows, and a split says what it could not do."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.evaluate.split import class_warnings, read_labels, split_data
from fairmend.network.model import ScoredRows
from support.cli_case import small_network, small_people, small_spec

SPEC, NET = small_spec(), small_network()


def split(rows=600, **options):
    return split_data(SPEC, NET, small_people(rows), **{"repair_rows": 30, "calibration_rows": 100} | options)


def test_repair_calibration_and_scored_rows_are_disjoint_where_there_are_enough():
    found = split()
    assert (len(found.repair), len(found.calibration), len(found.scored)) == (30, 100, 470)
    assert sorted([*found.repair, *found.calibration, *found.scored]) == list(range(600))
    assert found.held_out
    assert np.array_equal(found.X, SPEC.encode(small_people(600)))
    assert np.array_equal(found.X_repair, found.X[found.repair])
    assert np.array_equal(SPEC.encode(found.repair_frame), found.X_repair)
    assert found.y.tolist() == (small_people(600)["good"] == "yes").astype(int).tolist()
    assert not any("rows" in warning for warning in found.warnings)


def test_of_more_rows_than_are_needed_to_measure_half_are_used_without_their_labels():
    assert len(split(600).unlabelled) == 0
    assert len(split(1_630).unlabelled) == 500
    found = split(3_130)
    assert len(found.unlabelled) == len(found.scored) == 1_500
    parts = (found.repair, found.calibration, found.unlabelled, found.scored)
    assert sorted(row for part in parts for row in part) == list(range(3_130))


def test_the_seed_decides_who_is_drawn():
    first, again, other = (split(seed=seed).repair.tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_too_few_rows_are_used_twice_and_that_is_said():
    found = split(60, repair_rows=30, calibration_rows=100)
    assert len(found.calibration) == 60
    assert len(found.scored) == 60
    assert not found.held_out
    assert any("too few rows to calibrate on" in warning for warning in found.warnings)


def test_fewer_rows_than_repair_inputs_are_a_warning():
    found = split_data(SPEC, NET, small_people(60), source="people.csv", repair_rows=100)
    assert len(found.repair) == 60
    assert "people.csv has only 60 rows, fewer than the 100 repair inputs you asked for" in found.warnings


def test_repair_inputs_from_elsewhere_leave_all_rows_of_the_data():
    found = split(repair_frame=small_people(20))
    assert found.repair is None
    assert len(found.X_repair) == 20
    assert len(found.calibration) + len(found.scored) == 600


def test_a_label_that_is_never_positive_is_a_warning():
    frame = small_people().assign(good="no")
    data = split_data(SPEC, NET, frame)
    found = class_warnings(data, ScoredRows.of(NET, data.X))
    assert any('"good" is never "yes"' in warning for warning in found)


def test_errors_name_the_file():
    bad = small_people().assign(age=200)
    with pytest.raises(FairmendError, match=r'^people\.csv: feature "age", row 2: 200'):
        split_data(SPEC, NET, bad, source="people.csv")
    with pytest.raises(FairmendError, match=r'^chosen\.csv: feature "age", row 2: 200'):
        split_data(SPEC, NET, small_people(), repair_frame=bad, repair_source="chosen.csv")
    with pytest.raises(FairmendError, match=r'^people\.csv: the data has no column "good" for the label'):
        split_data(SPEC, NET, small_people().drop(columns="good"), source="people.csv")


def test_more_than_two_classes_are_numbers():
    net, frame = small_network(3), small_people().assign(good=np.arange(200) % 3)
    assert read_labels(SPEC, net, frame, "people.csv").tolist() == frame["good"].tolist()
    frame.loc[7, "good"] = 3
    with pytest.raises(FairmendError, match=r"people\.csv: label, row 7: .3. is not a class number.* use 0 to 2"):
        read_labels(SPEC, net, frame, "people.csv")

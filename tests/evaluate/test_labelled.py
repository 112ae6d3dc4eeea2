"""Labelled rows collected piece by piece give the figures of all of them together."""

from dataclasses import asdict

import numpy as np
import pytest

from fairmend.evaluate import labelled
from fairmend.evaluate.groups import group_metrics
from fairmend.evaluate.labelled import LabelledRows
from fairmend.evaluate.utility import utility
from fairmend.spec import Spec
from support.cli_case import small_network, small_people, small_spec
from support.price_case import price_network, price_people, price_spec

SPEC = small_spec()


def collected(net, frame, size, spec=SPEC):
    rows = LabelledRows(spec, net)
    for start in range(0, len(frame), size):
        part = frame.iloc[start : start + size]
        rows.add(part, SPEC.encode(part))
    return rows


@pytest.mark.parametrize("size", [1, 33, 200])
@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_pieces_of_any_size_give_the_figures_of_the_whole(outputs, size):
    net, frame = small_network(outputs), small_people()
    y = SPEC.labels(frame).astype(int)
    if outputs == 3:
        y = np.arange(200) % 3
        frame["good"] = y
    rows, X = collected(net, frame, size), SPEC.encode(frame)
    assert (rows.rows, rows.cut_off) == (200, False)
    figures = asdict(utility(net, X, y)).items()
    assert {name: value for name, value in asdict(rows.utility).items() if value is not None} == {
        name: pytest.approx(value, rel=1e-6) for name, value in figures if value is not None
    }
    assert rows.groups == group_metrics(net, SPEC, X, y)


def test_rows_without_a_label_are_left_out():
    net, frame = small_network(), small_people()
    frame.loc[frame.index % 2 == 0, "good"] = None
    known = frame[frame["good"].notna()]
    rows = collected(net, frame, 30)
    assert rows.rows == 100
    assert rows.utility.accuracy == utility(net, SPEC.encode(known), SPEC.labels(known)).accuracy


def test_classes_that_the_network_does_not_have_are_no_labels():
    rows = collected(small_network(3), small_people().assign(good=[0, 1, 2, 7] * 50), 200)
    assert rows.rows == 150


@pytest.mark.parametrize("spec", [SPEC, Spec(SPEC.features)])
def test_without_labels_there_are_no_figures(spec):
    frame = small_people() if spec.label is None else small_people().drop(columns="good")
    rows = collected(small_network(), frame, 200, spec)
    assert (rows.rows, rows.utility, rows.groups) == (0, None, ())


def test_only_the_first_rows_are_kept_and_that_is_known(monkeypatch):
    monkeypatch.setattr(labelled, "_MOST_ROWS", 70)
    net, frame = small_network(), small_people()
    rows = collected(net, frame, 30)
    assert (rows.rows, rows.cut_off) == (70, True)
    first = frame[:70]
    assert rows.utility.accuracy == utility(net, SPEC.encode(first), SPEC.labels(first)).accuracy


def test_numbers_to_predict_have_errors_instead_of_accuracy():
    spec, net, frame = price_spec(), price_network(), price_people()
    frame.loc[3, "price"] = np.nan
    rows = LabelledRows(spec, net)
    rows.add(frame, spec.encode(frame))
    assert rows.rows == len(frame) - 1
    assert (rows.utility, rows.groups) == (None, ())
    assert rows.regression.r2 > 0.99
    assert LabelledRows(spec, net).regression is None

"""Labelled rows collected piece by piece give the figures of all of them together."""

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend.evaluate.labelled import LabelledRows
from fairmend.evaluate.utility import utility
from fairmend.spec import Spec
from support.cli_case import small_network, small_people, small_spec
from support.group_metrics import group_metrics
from support.price_case import price_network, price_people, price_spec

SPEC = small_spec()


def labels_of(net, frame, size, spec=SPEC):
    rows = LabelledRows(spec, net)
    for start in range(0, len(frame), size):
        rows.add(frame.iloc[start : start + size])
    return rows


def collected(net, frame, size, spec=SPEC):
    return labels_of(net, frame, size, spec).figures(fairmend.audit(net, spec, spec.encode(frame)).rows)


@pytest.mark.parametrize("size", [1, 33, 200])
@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_pieces_of_any_size_give_the_figures_of_the_whole(outputs, size):
    net, frame = small_network(outputs), small_people()
    y = SPEC.labels(frame).astype(int)
    if outputs == 3:
        y = np.arange(200) % 3
        frame["good"] = y
    rows, X = collected(net, frame, size), SPEC.encode(frame)
    assert rows.rows == 200
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


def test_the_different_labels_name_the_classes_whatever_their_order():
    frame = small_people().sort_values("good")
    labels = labels_of(small_network(), frame, 20).distinct_values
    assert sorted(labels) == sorted(frame["good"].unique())
    assert labels_of(small_network(), frame.drop(columns="good"), 20).distinct_values == ()


def test_a_label_that_is_never_positive_is_a_warning():
    frame = small_people()
    assert labels_of(small_network(), frame, 20).warnings("people.csv") == []
    (warning,) = labels_of(small_network(), frame.assign(good="perhaps"), 20).warnings("people.csv")
    assert warning.startswith('the label "good" is never "')
    assert 'in people.csv (it is "perhaps"); check `positive`' in warning
    assert labels_of(small_network(3), frame.assign(good=0), 20).warnings("people.csv") == []


def test_numbers_to_predict_have_errors_instead_of_accuracy():
    spec, net, frame = price_spec(), price_network(), price_people()
    frame.loc[3, "price"] = np.nan
    rows = collected(net, frame, 50, spec)
    assert rows.rows == len(frame) - 1
    assert (rows.utility.accuracy, rows.groups, rows.auc_by_chance) == (None, (), None)
    assert rows.utility.r2 > 0.99
    assert collected(net, frame.drop(columns="price"), 50, spec).utility is None


@pytest.mark.parametrize("gap", [False, True])
def test_texts_and_categoricals_give_the_same_labels(gap):
    net, frame = small_network(), small_people()
    good = frame["good"].map(str).where(frame.index % 7 > 0, None) if gap else frame["good"].map(str)
    kinds = [
        pd.CategoricalDtype(order) for order in (["unused", *good.dropna().unique()], good.dropna().unique()[::-1])
    ]
    plain, numbered = (LabelledRows(SPEC, net) for _ in range(2))
    for place, start in enumerate(range(0, len(frame), 30)):
        piece = frame.assign(good=good)[start : start + 30]
        plain.add(piece)
        numbered.add(piece.assign(good=piece["good"].astype(kinds[place % 2])))
    assert numbered.distinct_values == plain.distinct_values
    assert np.array_equal(numbered.labels().y, plain.labels().y)
    assert numbered.labels().y.dtype == plain.labels().y.dtype == np.int8
    assert np.array_equal(numbered.labels().known, plain.labels().known)

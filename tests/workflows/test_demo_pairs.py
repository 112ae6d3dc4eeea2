"""Example pairs are real, differ in little, and are not all alike."""

from collections import Counter

import numpy as np

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.workflows.demo import UnequalRows, choose_example_pairs, loan_applicants, loan_spec, train_network
from support.cli_case import small_network, small_people, small_spec


def test_pairs_differ_only_in_what_is_protected_and_in_the_answer():
    spec, frame = loan_spec(), loan_applicants(800)
    X = spec.encode(frame)
    net = train_network(X, spec.labels(frame), epochs=8)
    rows = np.flatnonzero(find_unequal(net, spec, X).rows)
    pairs = choose_example_pairs(net, spec, X, rows, 5)
    assert len(pairs) == 5
    fixed = [i for f in spec.features if not f.protected for i in range(spec.width)[spec.columns(f.name)]]
    for pair in pairs:
        assert len(set(pair.answers(net))) == 2
        assert np.array_equal(pair.x, X[pair.row])
        assert np.array_equal(pair.x[fixed], pair.other[fixed])
        assert set(pair.differs_in) <= {"age", "gender"}
    assert choose_example_pairs(net, spec, X, rows[:0], 5) == []


def test_examples_are_not_all_of_one_kind():
    spec, net = small_spec(), small_network()
    X = spec.encode(small_people(600))
    rows = np.flatnonzero(find_unequal(net, spec, X).rows)
    pairs = choose_example_pairs(net, spec, X, rows, 6)
    kinds = Counter((pair.answers(net)[0], pair.differs_in) for pair in pairs)
    assert len(pairs) == 6
    assert len(kinds) > 1
    assert max(kinds.values()) <= 3
    assert {pair.row for pair in pairs} <= set(rows.tolist())


def tabulated(spec, frame, before, after):
    rows = UnequalRows()
    found = fairmend.audit(before, spec, frame, witnesses=rows.add)
    return found, rows.tabulate(spec, frame, before, after)


def test_the_table_has_a_row_for_each_unequal_input_and_the_predictions_of_both_networks():
    spec, before, after = small_spec(), small_network(), small_network(seed=4)
    frame = small_people()
    X = spec.encode(frame)
    found, table = tabulated(spec, frame, before, after)
    assert len(table) == found.count > 0
    assert table["remark"].tolist() == frame["remark"][found.unequal].tolist()
    assert (table["answer_before"] != table["other_answer_before"]).all()
    assert table["answer_after"].tolist() == after.predict(X[found.unequal]).tolist()
    others = table.assign(age=table["other_age"], gender=table["other_gender"])
    assert after.predict(spec.encode(others)).tolist() == table["other_answer_after"].tolist()
    assert "other_income" not in table


def test_the_table_of_a_fair_network_is_empty():
    spec, net, frame = small_spec(), small_network(), small_people()
    affines = [a.__class__(a.weight * 0, a.bias) for a in net.affines]
    assert len(tabulated(spec, frame, net.with_affines(affines), net)[1]) == 0

"""Linear forms of boxes: whole boxes, the people on the sure side, and what proving them costs."""

import numpy as np
import pytest

from fairmend.spec import Feature, Link, Spec
from fairmend_check.errors import CheckError
from fairmend_check.shares import prover as proving
from fairmend_check.shares.prover import Prover, Work
from fairmend_check.shares.requirements import SameClass
from support.checker_models import checked_model
from support.quantify_cases import MANY, SMALL, linear
from support.share_cases import checked_spec, people_of_spec, random_leaves
from support.strategies import random_network


def prover_of(net, spec, people):
    return Prover(checked_model(net), checked_spec(spec), people)


def prove_root(net, spec, parts=None):
    people = people_of_spec(spec, parts)
    root = random_leaves(people, np.random.default_rng(0), 0)
    found = prover_of(net, spec, people).prove(root, np.array([True]))
    return found.fair[0], found.unfair[0], bool(found.exact[0])


def test_whole_leaves_are_decided_without_counting():
    """Numbers that are not exact are shares: all of the leaf."""
    assert prove_root(linear([0.01, 0.01, 0, 0, 0, 0], 1), SMALL) == (1, 0, False)
    assert prove_root(linear([-0.01, 0.01, 0, 0, 0, 0], -1), SMALL) == (1, 0, False)
    assert prove_root(linear([1, 0.01, 0, 0, 0, 0], -22.1), SMALL, [5]) == (0, 1, False)


def test_people_on_the_sure_side_of_a_linear_network_are_all_counted():
    """The lead is age + hours - 28.5, so age decides if hours are 5 to 8."""
    net = linear([1, 3, 0, 0, 0, 0], -24.5)
    assert prove_root(net, SMALL, [5]) == (72, 48, True)
    assert prove_root(net, SMALL, [1]) == (72, 48, True)  # the ends of the only piece are enough


def test_two_values_of_wide_pieces_decide(monkeypatch):
    """The bounds over pieces of 21 ages prove nothing; those of two ages do."""
    net = random_network(np.random.default_rng(38), MANY.width, [6])
    assert 0 < prove_root(net, MANY, [2, 3])[1] <= 78
    none = np.empty(0, np.int64), np.empty((0, 2), np.int64)
    monkeypatch.setattr(SameClass, "unequal_values", lambda self, outputs: none)
    assert prove_root(net, MANY, [2, 3])[1] == 0


@pytest.mark.parametrize("bias", [0.0, 1e-6, -1e-6])
def test_a_lead_within_the_error_of_inference_proves_nothing(bias):
    assert prove_root(linear([1e-9, 0, 0, 0, 0, 0], bias), SMALL) == (0, 0, True)


def test_classes_of_points_need_a_lead_beyond_the_error():
    people = people_of_spec(SMALL)
    prover = prover_of(linear([1, 0, 0, 0, 0, 0], 0), SMALL, people)
    low, high = np.array([[0.1], [-0.3], [0.1]]), np.array([[0.2], [-0.2], [0.2]])
    assert prover.requirement.sure_classes(low, high, np.array([0.05, 0.05, 0.11])).tolist() == [1, 0, -1]


def test_values_of_protected_features_are_evaluated_some_at_once(monkeypatch):
    net, people = random_network(np.random.default_rng(13), MANY.width, [6]), people_of_spec(MANY)
    prover, X = prover_of(net, MANY, people), np.random.default_rng(1).normal(size=(50, MANY.width))
    rows, whole, expected = [], proving.interval_layers, prover._outputs(X)
    monkeypatch.setattr(proving, "_EVALUATED", 20 * prover.model.held)
    monkeypatch.setattr(proving, "interval_layers", lambda *given: [rows.append(len(given[1])), whole(*given)][1])
    assert np.allclose(prover._outputs(X), expected)
    assert rows == [20, 20, 10]


def work_for(hidden=(4,), outputs=1, spec=SMALL):
    net = random_network(np.random.default_rng(0), spec.width, list(hidden), outputs)
    return Work(checked_model(net), people_of_spec(spec))


def test_the_limit_holds_for_the_sum(monkeypatch):
    monkeypatch.setattr(proving, "MAX_WORK", 100)
    work = work_for()
    work.add(60)
    work.add(40)
    with pytest.raises(CheckError, match=r"more than 100 multiplications .* fewer boxes"):
        work.add(1)
    assert work.done == 100


def test_deep_networks_cost_more_than_their_weights():
    """Of narrow layers, it is the number of pairs that costs."""
    shallow, deep = (work_for([2] * layers).of_bounds(1, 2) for layers in (10, 100))
    assert deep > 30 * shallow


def test_links_cost_more():
    names = SMALL.features[0].name, next(each for each in SMALL.features if each.kind == "categorical")
    to_all = {value: list(names[1].categories) for value in names[1].categories}
    linked = Spec(SMALL.features, links=(Link(when={names[0]: [20, 21]}, then={names[1].name: to_all}),))
    assert work_for(spec=linked).of_bounds(1, 1) > work_for().of_bounds(1, 1)
    assert work_for(spec=linked).of_forms(1, 0) > work_for().of_forms(1, 0)


@pytest.mark.parametrize("encoding", ["ordinal", "one-hot"])
def test_linked_features_with_many_categories_cost_more(encoding):
    """Each category is replaced by itself, for every input that is listed and in every step."""

    def work(count):
        names = tuple(f"job {number}" for number in range(count))
        job = Feature("job", "categorical", categories=names, encoding=encoding)
        link = Link(when={"age": 20}, then={"job": {names[0]: names[1]}})
        return work_for((), spec=Spec([SMALL.features[0], job], links=(link,)))

    few, many = work(10), work(5000)
    assert many.of_inputs(1) > 100 * few.of_inputs(1)
    assert many.of_bounds(0, 0) > 5 * few.of_bounds(0, 0)
    assert many.of_forms(1, 0) > 5 * few.of_forms(1, 0)


def test_counting_people_is_work():
    net = linear([0.01, 1, 0, 0, 0, 0], -0.2)
    people = people_of_spec(SMALL)
    prover = Prover(checked_model(net), checked_spec(SMALL), people)
    prover.prove(people.everyone, np.array([False]))
    bounds = prover.work.done
    assert bounds == prover.bounds_work(1, 1)
    prover.prove(people.everyone, np.array([True]))
    assert prover.work.done > 2 * bounds

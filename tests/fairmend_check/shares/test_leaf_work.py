"""What checking leaves costs: with links, layers and terms as well, and none above the limit."""

import numpy as np
import pytest

from fairmend.spec import Feature, Link, Spec
from fairmend_check.errors import CheckError
from fairmend_check.shares import leaf_work
from fairmend_check.shares.leaf_bounds import LeafProver
from fairmend_check.shares.leaf_work import LeafWork
from support.quantify_cases import SMALL, linear
from support.share_cases import checked_model, checked_spec, people_of_spec
from support.strategies import random_network


def work_for(hidden=(4,), outputs=1, spec=SMALL):
    net = random_network(np.random.default_rng(0), spec.width, list(hidden), outputs)
    return LeafWork(checked_model(net), people_of_spec(spec))


def test_the_limit_holds_for_the_sum(monkeypatch):
    monkeypatch.setattr(leaf_work, "MAX_WORK", 100)
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
    last = np.array([[axis.cells - 1 for axis in people.axes]])
    prover = LeafProver(checked_model(net), checked_spec(SMALL), people)
    prover.prove(np.zeros_like(last), last, np.array([False]))
    bounds = prover.work.done
    assert bounds == prover.bounds_work(1, 1)
    prover.prove(np.zeros_like(last), last, np.array([True]))
    assert prover.work.done > 2 * bounds

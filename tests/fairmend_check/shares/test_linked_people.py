"""Links among all people: what the checker proves of a leaf is true for everyone in it, by enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fairmend
from fairmend.spec import Feature, Spec
from fairmend_check.kernel.links import Effect
from fairmend_check.shares.listing import list_people
from fairmend_check.shares.people import Boxes, People
from fairmend_check.shares.prover import Prover
from support.checker_cases import read, write
from support.checker_models import checked_model
from support.examples import examples
from support.quantify_cases import LINKED, everyone_of, people_of, unequal_people
from support.share_cases import checked_spec, people_of_spec, random_leaves
from support.strategies import random_network


@examples(25)
@given(
    name=st.sampled_from(list(LINKED)),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    divided=st.booleans(),
)
@example(name="offset", seed=409031, outputs=3, divided=False)  # an offset of people with several numbers
def test_what_is_proven_of_a_leaf_is_true(name, seed, outputs, divided):
    rng, spec = np.random.default_rng(seed), LINKED[name]
    net = random_network(rng, spec.width, [4, 3], outputs)
    parts = [2 if divided else 1 for feature in spec.features if feature.protected]
    people = people_of_spec(spec, parts)
    leaves = random_leaves(people, rng, 5)
    prover = Prover(checked_model(net), checked_spec(spec), people)
    everyone = np.ones(len(leaves.first), np.bool_)
    assert [axis.cells for axis in people.axes] == (everyone_of(spec).last[0] + 1).tolist()
    found = prover.prove(leaves, everyone)
    listed = prover.prove(leaves, ~everyone)
    if people.finite:
        list_people(prover, leaves, listed, np.arange(len(leaves.first)))
    for row in range(len(leaves.first)):
        unequal = unequal_people(net, spec, leaves, row)
        for each in (found, listed):
            size = 1 if each.exact[row] else len(unequal)
            assert each.unfair[row] * size <= unequal.sum() + 1e-6
            assert each.fair[row] * size <= (~unequal).sum() + 1e-6


@pytest.mark.parametrize("name", LINKED)
def test_listed_inputs_are_the_counterfactuals_of_the_spec(name):
    spec = LINKED[name]
    people = people_of_spec(spec)
    if any(axis.reach for axis in people.axes):  # these inputs are those of one cell, without its neighbours
        return
    sizes = [axis.cells for axis in people.axes]
    cells = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    inputs = people.inputs(cells, people.all_values).reshape(len(cells), -1, spec.width)
    neighbourhoods = [set() for _ in cells]
    for rows, points in spec.points(people_of(spec), dtype=np.float32):
        for row, point in zip(rows, points, strict=True):
            neighbourhoods[row].add(tuple(point.tolist()))
    assert neighbourhoods == [{tuple(point) for point in each.tolist()} for each in inputs]


@pytest.mark.parametrize("name", LINKED)
def test_hulls_of_chosen_values_contain_the_counterfactuals_of_everyone(name):
    """A case with a choice of linked values holds that value of each person of a box."""
    rng, spec = np.random.default_rng(3), LINKED[name]
    people = people_of_spec(spec)
    if not people.finite:
        return
    leaves, values = random_leaves(people, rng, 6), people.all_values
    lower, upper = people.hulls(leaves, people.cases(len(leaves.first), values))
    for row in range(len(leaves.first)):
        cells = rng.integers(leaves.first[row], leaves.last[row] + 1, (20, len(people.axes)))
        inputs = people.inputs(cells, values).reshape(20, len(values.first), -1)
        part = slice(row * len(values.first), (row + 1) * len(values.first))
        assert (lower[part] <= inputs).all()
        assert (inputs <= upper[part]).all()


def test_links_of_a_continuous_feature_begin_and_end_at_pieces():
    spec = Spec(
        [
            Feature(name="age", kind="continuous", range=(20, 40), protected=True),
            Feature(name="year", kind="continuous", range=(0, 4)),
        ],
        links=[{"when": {"age": [25, 30.3]}, "then": {"year": {"offset": 1}}}],
    )
    people = People.of(checked_spec(spec), "float32", 2**16, [1])
    some, every = people.links.matches(0, people.pieces)
    assert every.sum() == 1
    assert (some != every).sum() == 2
    assert (people.pieces.last - people.pieces.first)[some != every].max() == 1


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """A certificate of a network with people of all three kinds, whose spec has links."""
    folder, spec = tmp_path_factory.mktemp("linked"), LINKED["range"]
    net = random_network(np.random.default_rng(2), spec.width, [4])
    net.save(folder / "model.onnx")
    found = fairmend.quantify(net, spec, seconds=20, share=0.01, samples=0)
    assert found.fair > 0.1
    assert found.unfair > 0.1
    found.certificate.save(folder / "certificate.json", folder / "model.onnx")
    return folder


def test_a_certificate_with_links_is_valid(linked):
    checked = fairmend.check(linked / "certificate.json", linked / "model.onnx")
    assert checked.valid, checked.reasons
    assert checked.fair > 0.1


def test_the_same_shares_with_another_link_are_not_confirmed(linked):
    """All else is consistent: the spec is that of links that change everyone's years."""
    spec = LINKED["range"]
    other = Spec(
        spec.features, links=[*spec.links[:-1], {"when": {"age": [20, 23]}, "then": {"years": {"range": [0, 5]}}}]
    )
    net = fairmend.load_network(linked / "model.onnx")
    evidence = fairmend.quantify(net, spec, seconds=20, share=0.01, samples=0).evidence
    forged = replace(evidence, spec=other).certificate()
    forged.save(linked / "other.json", linked / "model.onnx")
    checked = fairmend.check(linked / "other.json", linked / "model.onnx")
    assert not checked.valid


def test_a_forged_share_with_links_is_invalid(linked, tmp_path):
    content = read(linked / "certificate.json")
    content["shares"]["unfair"] += 0.05
    checked = fairmend.check(write(tmp_path, content), linked / "model.onnx")
    assert not checked.valid


def test_several_categories_may_become_the_same():
    """The hull of two people whose jobs are replaced by one is that job alone."""
    job = Feature("job", "categorical", categories=("a", "b", "c", "d"), encoding="one-hot")
    age = Feature("age", "integer", range=(0, 1), protected=True)
    spec = Spec([age, job], links=[{"when": {"age": 0}, "then": {"job": {"a": "c", "b": ["c", "d"]}}}])
    people = people_of_spec(spec, [2])
    assert [linked.choices for linked in people.links.axes] == [2]
    first, last = np.array([[0, 1]]), np.array([[1, 1]])  # jobs a and b, own age 1
    lower, upper = people.hulls(Boxes(first, last), people.cases(1, people.all_values))
    columns = spec.columns("job")
    found = {
        (int(age), int(choice)): (low.tolist(), high.tolist())
        for age, choice, low, high in zip(
            people.all_values.first[:, 0],
            people.all_values.choice[:, 0],
            lower[:, columns],
            upper[:, columns],
            strict=True,
        )
    }
    assert found[0, 0] == ([0, 0, 1, 0], [0, 0, 1, 0])
    assert found[0, 1] == ([0, 0, 0, 0], [0, 0, 1, 1])
    assert found[1, 0] == found[1, 1] == ([0, 0, 0, 0], [1, 1, 0, 0])


def test_links_of_many_categories_are_read_at_once(monkeypatch):
    """How many values a link gives is counted from those that it names, not from all categories."""
    monkeypatch.setattr(Effect, "values", None)
    names = tuple(f"job {number}" for number in range(50))
    job, age = Feature("job", "categorical", categories=names), Feature("age", "integer", range=(0, 9), protected=True)
    links = [{"when": {"age": k}, "then": {"job": {names[0]: list(names[: k + 1])}}} for k in range(1, 10)]
    assert people_of_spec(Spec([age, job], links=links)).links.axes[0].choices == 10

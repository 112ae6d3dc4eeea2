"""Certified training: one class for each group of connected neighbourhoods, proven, at little cost elsewhere."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend import Feature, Network, Spec
from fairmend.network import Activation, Affine
from fairmend.prove.proof import prove_inputs
from fairmend.repairing.certified import connected_groups, groups_of_rows, one_target_for_each_group, train_certified
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.recipe import Recipe, features_to_split, run_recipe
from fairmend.repairing.task import prepare_task
from support.strategies import random_network


def small_spec(scale=None):
    return Spec(
        [
            Feature("sex", "categorical", categories=("f", "m"), encoding="one-hot", protected=True),
            Feature("priors", "integer", range=(0, 30), tolerance=1, scale=scale),
            Feature("flag", "integer", range=(0, 1)),
            Feature("score", "continuous", range=(0, 1), tolerance=0.1),
        ]
    )


def rows(spec, *people):
    return spec.encode(pd.DataFrame(people, columns=["sex", "priors", "flag", "score"]))


def test_neighbourhoods_are_connected_along_chains():
    spec = small_spec()
    X = rows(spec, ("f", 2, 0, 0.5), ("m", 6, 0, 0.5), ("m", 4, 0, 0.4), ("m", 4, 1, 0.4), ("f", 9, 0, 0.5))
    groups = connected_groups(spec.regions(X))
    np.testing.assert_array_equal(groups, [0, 0, 0, 1, 2])  # 2 ~ 4 ~ 6 share 3 and 5; another flag, and 9, are apart


def test_a_row_belongs_to_the_group_that_contains_it():
    spec = small_spec()
    regions = spec.regions(rows(spec, ("f", 2, 0, 0.5), ("m", 4, 0, 0.5)))
    X = rows(spec, ("m", 1, 0, 0.45), ("f", 5, 0, 0.6), ("f", 6, 0, 0.5), ("f", 2, 1, 0.5), ("f", 2, 0, 0.75))
    np.testing.assert_array_equal(groups_of_rows(X, regions, connected_groups(regions)), [0, 0, -1, -1, -1])


def test_groups_are_those_of_the_points_that_neighbourhoods_share():
    spec = Spec(
        [
            Feature("group", "integer", range=(0, 2), protected=True),
            Feature("priors", "integer", range=(0, 19), tolerance=1, scale={"mean": 3.3, "std": 2.7}),
            Feature("years", "integer", range=(0, 29), tolerance=2, scale={"mean": 1.1, "std": 0.3}),
        ]
    )
    rng = np.random.default_rng(0)
    X = spec.sample_inputs(25, rng)
    groups = connected_groups(spec.regions(X))
    expected = np.arange(len(X))
    members: dict[bytes, set[int]] = {}
    for numbers, points in spec.points(X):
        for number, point in zip(numbers, points.round(3), strict=True):
            members.setdefault(point.tobytes(), set()).add(int(number))
    for sharing in members.values():
        joined = {expected[number] for number in sharing}
        expected[np.isin(expected, list(joined))] = min(joined)
    np.testing.assert_array_equal(groups[:, None] == groups, expected[:, None] == expected)
    assert 1 < len(set(groups)) < len(X)


PRIORS = Spec(
    [
        Feature("group", "integer", range=(0, 1), protected=True),
        Feature("priors", "integer", range=(0, 20), tolerance=1),
        Feature("flag", "integer", range=(0, 1)),
    ]
)
RECIPE = Recipe("certified", "mean", label_weight=0.5, steps=150, blind_to="protected", certified=True)


def priors_decide(outputs=1):
    """A network that says yes from 5.5 prior offences on, and rows; the repair inputs chain from 4 to 8."""
    first = Affine(np.array([[0.1, 0.5, 0.0], [0.0, -0.5, 0.0]], np.float32), np.array([-2.75, 2.75], np.float32))
    weight = np.array([[1.0, -1.0]], np.float32)
    weight = weight if outputs == 1 else np.concatenate([0 * weight, weight])
    network = Network([first, Affine(weight, np.zeros(outputs, np.float32))], [Activation("relu")])
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 400), rng.integers(0, 21, 400), rng.integers(0, 2, 400)]).astype(np.float32)
    X_repair = np.array([[0, 5, 0], [1, 7, 0], [0, 1, 1], [0, 18, 1]], np.float32)
    return network, X_repair, X, network.predict(X)


PEOPLE = np.array([[0, 4, 0], [0, 8, 0], [0, 9, 0], [0, 6, 1], [0, 5, 0], [0, 7, 0]], np.float32)
"""All but the third and the fourth are in the neighbourhoods of the last two, which are connected."""


def target_of_the_group(targets, offset=0.0):
    """The target of PEOPLE's group, and its class."""
    targets = np.asarray(targets)
    found, classes, shared = one_target_for_each_group(PEOPLE, targets, PRIORS.regions(PEOPLE[4:]), offset)
    np.testing.assert_allclose(found[2:4], targets[2:4])  # other rows keep theirs
    np.testing.assert_allclose(found[[0, 1, 5]], found[[4] * 3])
    assert classes[0] == classes[1]
    assert shared == 0.5  # two of the four who are no repair inputs
    return found[4], classes[0]


def test_a_group_has_one_target_and_other_rows_keep_theirs():
    target, chosen = target_of_the_group([[1.0, 0.0], [0.0, 1.0], [0.3, 0.7], [0.2, 0.8], [1.0, 0.0], [1.0, 0.0]])
    assert chosen == 0
    np.testing.assert_allclose(target, [0.875, 0.125])  # between the mean of the rows, 0.75, and the class


def test_the_rare_class_gets_a_group_that_it_is_nearly_the_most_frequent_in():
    targets = np.array([[0.55, 0.45], [0.55, 0.45], [1.0, 0.0], [1.0, 0.0], [0.55, 0.45], [0.55, 0.45]])
    target, chosen = target_of_the_group(targets)
    assert chosen == 1
    np.testing.assert_allclose(target, [0.275, 0.725])
    assert target_of_the_group(targets[:, ::-1])[1] == 0
    targets[2:4] = [0.0, 1.0]  # now class 1 is not rare
    assert target_of_the_group(targets)[1] == 0


def test_a_threshold_of_its_own_says_what_a_class_is_worth():
    targets = np.array([[0.6, 0.4]] * 2 + [[0.0, 1.0]] * 2 + [[0.6, 0.4]] * 2)
    assert target_of_the_group(targets, np.log(0.39 / 0.61))[1] == 1  # class 1 from a probability of 0.39 on
    assert target_of_the_group(targets, np.log(0.41 / 0.59))[1] == 0


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_network_is_proven_without_step_2_and_keeps_what_is_free(outputs):
    network, X_repair, X, y = priors_decide(outputs)
    attempt = run_recipe(RECIPE, prepare_task(network, PRIORS, X_repair, X, y, HeadOptions(), 0))
    assert attempt.head is None
    assert attempt.blind_features == ("group",)
    assert attempt.proof.covers_inference.all()
    assert attempt.split == ("priors",)
    assert prove_inputs(attempt.network, PRIORS, X_repair).holds.all()
    after = attempt.network.predict(X)
    chain = (X[:, 1] >= 4) & (X[:, 1] <= 8) & (X[:, 2] == 0)
    assert len(set(after[chain])) == 1
    assert np.mean(after[~chain] == y[~chain]) > 0.9


@cache  # two tests look at it
def repaired_by_auto():
    network, X_repair, X, y = priors_decide()
    return fairmend.repair(network, PRIORS, X_repair, X[:200], y[:200], X_unlabelled=X[200:])


def test_values_of_whole_numbers_are_proven_one_by_one_and_the_checker_confirms_it(tmp_path):
    """Between two values the network may decide otherwise: nobody is there."""
    result = repaired_by_auto()
    model, path = tmp_path / "model.onnx", tmp_path / "certificate.json"
    result.network.save(model)
    result.certificate.save(path, model)
    assert fairmend.check(path, model).valid


@pytest.mark.parametrize(
    ("tolerances", "inputs", "split"),
    [
        ({"count": 1}, 1, ("count",)),
        ({"count": 1, "years": 1}, 1, ("count", "years")),
        ({"count": 1, "years": 3}, 1, ("count",)),
        ({"count": 100, "years": 3}, 1, ("years",)),
        ({"count": 1, "score": 0.1}, 1, ("count",)),
        ({"count": 1}, 20_000, ()),  # a certificate could not list so many pieces
    ],
)
def test_features_are_split_if_that_leaves_few_pieces(tolerances, inputs, split):
    kinds = {"count": "integer", "years": "integer", "score": "continuous"}
    spec = Spec(
        [
            Feature("group", "integer", range=(0, 1), protected=True),
            *(Feature(name, kind, range=(0, 500), tolerance=tolerances.get(name, 0)) for name, kind in kinds.items()),
        ]
    )
    rng = np.random.default_rng(0)
    network, X = random_network(rng, 4, (6,), 1, "relu", np.float32), spec.sample_inputs(20, rng)
    task = prepare_task(network, spec, np.repeat(X[:1], inputs, axis=0), X, rng.integers(0, 2, 20), HeadOptions(), 0)
    assert features_to_split(RECIPE, task) == split
    assert "count" not in features_to_split(replace(RECIPE, blind_to=("count",)), task)


def test_a_margin_that_was_asked_for_is_proven_too():
    network, X_repair, X, y = priors_decide()
    attempt = run_recipe(RECIPE, prepare_task(network, PRIORS, X_repair, X, y, HeadOptions(margin=0.3), 0))
    assert (attempt.proof.margin > 0.2999).all()


def test_neighbourhoods_without_a_proof_are_trained_for_longer():
    rng = np.random.default_rng(1)
    network = random_network(rng, 3, (5,), 1, "relu", np.float32)
    X = PRIORS.sample_inputs(30, rng)
    regions, targets = PRIORS.regions(X[:4]), np.full((30, 2), 0.5)
    trained = {
        answer: train_certified(
            network,
            regions,
            np.ones(4, np.int64),
            X,
            targets,
            is_proven=lambda network, answer=answer: np.full(4, answer),
            steps=10,
        )
        for answer in (True, False)
    }
    assert len(trained[True].history) == 10
    assert len(trained[False].history) == 20
    assert trained[False].history.fair[-1] > trained[True].history.fair[-1]  # the weights grew


def test_auto_keeps_more_of_a_network_that_relies_on_the_tolerant_feature():
    result = repaired_by_auto()
    (chosen,) = [candidate for candidate in result.candidates if candidate.chosen]
    assert chosen.recipe.certified
    assert chosen.guarantee == "everyone, and the repair inputs with tolerance or links"
    assert result.certificate is not None
    assert chosen.balanced_accuracy > 0.9

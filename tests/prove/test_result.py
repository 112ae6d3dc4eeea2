"""A result reads well."""

import numpy as np

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.network import Affine
from fairmend.prove.certify import certify
from fairmend.prove.result import Witness, keep_ignored_features
from fairmend.spec import Feature, Label, Spec
from support.certify_cases import CONTINUOUS, sliver
from support.link_cases import family_case
from support.strategies import random_network

# Witnesses do not change features that the network ignores, and say whether they are ties.


SPEC = Spec(
    features=[
        Feature(name="age", kind="integer", range=(0, 5), protected=True),
        Feature(name="race", kind="categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
        Feature(name="income", kind="integer", range=(0, 9), tolerance=4),
    ]
)


def test_witnesses_do_not_change_features_without_weight():
    net = random_network(np.random.default_rng(1), SPEC.width, [6])
    first = net.affines[0]
    weight = first.weight.copy()
    weight[:, :4] = 0
    blind = net.with_affines([Affine(weight, first.bias), *net.affines[1:]])
    X = SPEC.sample_inputs(200, np.random.default_rng(0))
    middle = np.float32(np.median(blind.logits(X)))
    blind = blind.with_affines([blind.affines[0], Affine(blind.head.weight, blind.head.bias - middle)])
    audit = fairmend.audit(blind, SPEC, X)
    assert audit.count > 0
    for pair in audit.pairs:
        assert pair.values["age"] == pair.other_values["age"]
        assert pair.values["race"] == pair.other_values["race"]
        assert pair.values["income"] != pair.other_values["income"]
        assert pair.answers[0] != pair.answers[1]
    for engine in ("enumerate", "branch"):
        witnesses = [witness for witness in fairmend.certify(blind, SPEC, X, engine).witnesses if witness]
        assert witnesses
        for witness in witnesses:
            assert (witness.x[:4] == witness.other[:4]).all()
            assert blind.predict(witness.other[None])[0] == witness.other_answer != witness.answer


def test_a_one_hot_group_with_some_weight_is_not_mixed():
    net = random_network(np.random.default_rng(1), SPEC.width, [6])
    weight = net.affines[0].weight.copy()
    weight[:, 1] = 0  # one column of the three: the network does not ignore the group
    half = net.with_affines([Affine(weight, net.affines[0].bias), *net.affines[1:]])
    X = SPEC.sample_inputs(500, np.random.default_rng(0))
    middle = np.float32(np.median(half.logits(X)))
    half = half.with_affines([half.affines[0], Affine(half.head.weight, half.head.bias - middle)])
    pairs = fairmend.audit(half, SPEC, X).pairs
    changed = [pair for pair in pairs if (pair.other[1:4] != pair.x[1:4]).any()]
    assert changed
    for pair in pairs:
        assert pair.other[1:4].sum() == 1


def test_only_ignored_features_keep_their_values():
    net = random_network(np.random.default_rng(2), SPEC.width, [6])
    weight = net.affines[0].weight.copy()
    weight[:, 0] = 0
    net = net.with_affines([Affine(weight, net.affines[0].bias), *net.affines[1:]])
    X, other = (SPEC.sample_inputs(50, np.random.default_rng(seed)) for seed in (0, 1))
    kept = keep_ignored_features(net, SPEC, X, other)
    np.testing.assert_array_equal(kept[:, 0], X[:, 0])
    np.testing.assert_array_equal(kept[:, 1:], other[:, 1:])
    np.testing.assert_array_equal(net.logits(kept), net.logits(other))
    assert (X[:, 0] != other[:, 0]).any()


def test_a_tie_is_called_a_tie():
    x, other = SPEC.sample_inputs(2, np.random.default_rng(0))
    clear, tie = Witness(x, other, 0, 1), Witness(x, other, 0, 1, tie=True)
    assert tie.describe(SPEC) == f"{clear.describe(SPEC)} (a tie: within the rounding error of inference)"
    assert (clear.as_dict(SPEC)["tie"], tie.as_dict(SPEC)["tie"]) == (False, True)


def test_features_of_links_change_together_even_if_the_network_ignores_one():
    spec, net, X = family_case(rows=60)
    first = net.affines[0]
    weight = first.weight.copy()
    weight[:, spec.columns("sex")] = 0
    net = net.with_affines([Affine(weight, first.bias), *net.affines[1:]])
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    others = keep_ignored_features(net, spec, X[rows], unequal.other[rows])
    assert len(rows) > 0
    assert spec.are_similar(X[rows], others).all()


def test_classes_are_named_by_the_networks_outputs():
    """Of five classes, 0 and 1 were once called "not yes" and "yes"."""
    x, other = SPEC.sample_inputs(2, np.random.default_rng(0))
    spec = Spec(SPEC.features, Label("good", "yes"))
    assert Witness(x, other, 0, 1).describe(spec).endswith(": yes instead of not yes")
    assert Witness(x, other, 0, 1, classes=5).describe(spec).endswith(": class 1 instead of class 0")
    net = random_network(np.random.default_rng(2), SPEC.width, [6], 5)
    found = fairmend.certify(net, spec, spec.sample_inputs(40, np.random.default_rng(3)))
    assert {witness.classes for witness in found.witnesses if witness} == {5}


def test_a_report_reads_well():
    X = CONTINUOUS.sample_inputs(4, np.random.default_rng(0))
    report = certify(sliver(0.3, 0.01), CONTINUOUS, X)
    assert repr(report).startswith(
        "CertifyResult(4 inputs: 0 FAIR, 4 UNFAIR, 0 UNKNOWN; unfair rate 100\N{NO-BREAK SPACE}%, engine"
    )
    assert len(report) == 4
    assert report.as_dict(CONTINUOUS)["counts"] == {"fair": 0, "unfair": 4, "unknown": 0}

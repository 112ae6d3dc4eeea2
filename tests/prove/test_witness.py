"""What a network has no weight for is no part of a pair."""

import numpy as np

import fairmend
from fairmend.network import Affine
from fairmend.spec import Feature, Spec
from support.strategies import random_network

SPEC = Spec(
    features=[
        Feature(name="age", kind="integer", range=(0, 5), protected=True),
        Feature(name="race", kind="categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
        Feature(name="income", kind="integer", range=(0, 9), tolerance=4),
    ]
)


def test_witnesses_leave_out_what_the_network_does_not_see():
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
        report = fairmend.certify(blind, SPEC, X, engine)
        for witness in filter(None, report.witnesses):
            assert (witness.x[:4] == witness.other[:4]).all()
            assert blind.predict(witness.other[None])[0] == witness.other_answer != witness.answer


def test_half_a_group_is_not_mixed():
    net = random_network(np.random.default_rng(1), SPEC.width, [6])
    weight = net.affines[0].weight.copy()
    weight[:, 1] = 0  # one column of three: the group is still seen
    half = net.with_affines([Affine(weight, net.affines[0].bias), *net.affines[1:]])
    for pair in fairmend.audit(half, SPEC, samples=500).pairs:
        assert pair.other[1:4].sum() == 1

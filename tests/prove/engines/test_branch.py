"""Branch and bound agrees with brute force, and does not spend all its time on one input."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from fairmend.network import Network
from fairmend.prove.certify import certify
from fairmend.prove.engines import branch
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.certify_cases import (
    affine,
    balanced_network,
    check_agreement,
    check_witnesses,
    finite_cases,
)
from support.strategies import ACTIVATIONS, random_network


@settings(deadline=None)
@finite_cases
def test_branch_and_bound_agrees_with_brute_force_for_every_activation(case, seed, outputs, data):
    spec, X = case
    net = balanced_network(seed, spec, data.draw(st.sampled_from(ACTIVATIONS)), outputs, X.dtype)
    leaf = data.draw(st.sampled_from([1, 4, 64]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branch, "_LEAF", leaf)  # at 1, only bounds prove
        report = certify(net, spec, X, "branch")
    check_agreement(net, spec, X, report)
    check_witnesses(net, spec, X, report)


def test_a_hard_input_does_not_keep_the_others_from_being_decided():
    rng = np.random.default_rng(0)
    spec = Spec([Feature(f"f{i}", "continuous", range=(0, 1), protected=i < 8) for i in range(9)])
    net = random_network(rng, 9, [40, 40])
    first = affine(np.hstack([net.affines[0].weight[:, :8], np.zeros((40, 1))]), net.affines[0].bias)
    easy = affine(np.vstack([first.weight, np.eye(9)[8:]]), [*first.bias, 0])
    second = affine(np.block([[net.affines[1].weight, np.zeros((40, 1))], [np.zeros((1, 40)), np.ones((1, 1))]]), [*net.affines[1].bias, 0])  # fmt: skip  # noqa: E501
    # The last column lifts the logit: at 1 bounds prove the class at once, at 0 they hardly can.
    head = affine([[*net.head.weight[0], 1e4]], [net.logits(spec.sample_inputs(5000, rng)).min() * -1.05])
    net = Network([easy, second, head], net.activations)
    X = spec.sample_inputs(6, rng)
    X[:, 8] = [0, 1, 0, 1, 0, 1]
    report = certify(net, spec, X, "branch", time_limit=2.0)
    assert [report.verdicts[i] for i in (1, 3, 5)] == [Verdict.FAIR] * 3

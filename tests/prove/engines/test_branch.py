"""Branch and bound agrees with brute force, and does not spend all its time on one input."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import fairmend
from fairmend.network import Affine, Network
from fairmend.prove.certify import certify
from fairmend.prove.engines import branch
from fairmend.prove.result import Verdict
from fairmend.spec import Claim, Feature, Spec
from support.audit_cases import INCOME, SPEC, people
from support.certify_cases import (
    affine,
    balanced_network,
    check_agreement,
    check_witnesses,
    finite_cases,
)
from support.score_cases import check_verdicts, largest_differences, score_spec
from support.strategies import ACTIVATIONS, random_network

# Engine branch on claims about scores: as enumeration where that is possible, and sound where it is not.


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("on", ["probability", "logit"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_verdicts_on_scores_are_those_of_brute_force(outputs, on, activation, monkeypatch):
    monkeypatch.setattr(branch, "_LEAF", 4)  # so that boxes are bounded and split
    net, X = random_network(np.random.default_rng(2), SPEC.width, [6], outputs, activation), people(6)
    differences = largest_differences(net, score_spec(0.5, on), X)
    spec = score_spec(float(np.median(differences)), on)
    check_verdicts(net, spec, X, fairmend.certify(net, spec, X, "branch"), differences)


@pytest.mark.parametrize("on", ["probability", "output"])
def test_continuous_columns_are_proven_or_refuted(on):
    net, X = random_network(np.random.default_rng(3), SPEC.width, [6], 1), people(6)
    wide = (*SPEC.features[:3], replace(INCOME, tolerance=0.2))
    sampled = fairmend.audit(net, score_spec(0.1, on, wide), X).scores.differences
    spec = score_spec(float(np.median(sampled)) * 1.1, on, wide)
    result = fairmend.certify(net, spec, X)
    assert result.engine == "branch"
    assert 0 < result.counts["fair"] < 6
    assert result.counts["unknown"] == 0
    for verdict, difference in zip(result.verdicts, sampled, strict=True):
        assert verdict.value == "unfair" or difference <= spec.claim.limit


def test_the_exact_limit_on_a_continuous_column_is_left_to_rounding():
    spec = Spec([Feature("a", "continuous", range=(0, 1), protected=True)], claim=Claim("score", 1.0, "output"))
    net = Network([Affine(np.ones((1, 1), np.float32), np.zeros(1, np.float32))], [])
    result = fairmend.certify(net, spec, np.array([[0.25]], np.float32))
    assert "rounding error of delta" in result.reasons[0]
    assert fairmend.certify(net, spec, np.array([[0.25]], np.float32), time_limit=1e-9).counts["unknown"] == 1


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

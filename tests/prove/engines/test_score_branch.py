"""Engine branch on claims about scores: as enumeration where that is possible, and sound where it is not."""

from dataclasses import replace

import numpy as np
import pytest

import fairmend
from fairmend.network import Affine, Network
from fairmend.prove.engines import score_branch
from fairmend.spec import Claim, Feature, Spec
from support.audit_cases import INCOME, SPEC, people
from support.score_cases import check_verdicts, largest_differences, score_spec
from support.strategies import random_network


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("on", ["probability", "logit"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_verdicts_are_those_of_brute_force(outputs, on, activation, monkeypatch):
    monkeypatch.setattr(score_branch, "_LEAF", 4)  # so that boxes are bounded and split
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

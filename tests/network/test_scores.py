"""Scores: the outputs as they are, or as probabilities, of one output or several."""

import numpy as np
import pytest

from fairmend.network.model import compute_scores, scores_of
from support.audit_cases import network, people


def test_raw_scores_are_the_outputs():
    for outputs in (1, 3):
        net, X = network(outputs), people(5)
        for on in ("logit", "output"):
            scores = compute_scores(net, X, on)
            assert scores.shape == (5, outputs)
            assert scores.dtype == np.float64
            assert np.array_equal(scores.ravel(), net.logits(X).ravel())


def test_probabilities_are_those_of_the_network():
    for outputs in (1, 3):
        net, X = network(outputs), people(5)
        scores = compute_scores(net, X, "probability")
        assert scores.ravel() == pytest.approx(net.probabilities(X).ravel(), abs=1e-6)
        assert outputs == 1 or scores.sum(axis=1) == pytest.approx(1)


def test_large_outputs_give_probabilities_of_0_and_1():
    assert scores_of(np.array([-1e4, 0, 1e4]), "probability").ravel().tolist() == [0, 0.5, 1]
    assert scores_of(np.array([[-1e4, 1e4]]), "probability").tolist() == [[0, 1]]

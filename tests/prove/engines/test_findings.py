"""A witness is a pair for which inference itself predicts two classes."""

import numpy as np

from fairmend.prove.engines.findings import Findings
from support.certify_cases import linear


def test_a_candidate_that_does_not_replay_is_no_witness():
    net, X = linear(1.0, bias=0.0), np.array([[4.0]], np.float32)
    findings = Findings(net, X)
    findings.try_witnesses(np.array([0]), np.array([[5.0]], np.float32), np.array([-1.0]))
    assert not findings.unfair.any()
    findings.try_witnesses(np.array([0, 0]), np.array([[5.0], [-1.0]], np.float32), np.array([-1.0, -0.5]))
    assert findings.unfair.all()
    assert findings.result("enumerate").witnesses[0].other.tolist() == [-1.0]

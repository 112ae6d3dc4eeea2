"""The distribution of the differences, over a stream of inputs."""

import numpy as np
import pytest

from fairmend.audit import score_summary
from fairmend.audit.score_summary import ScoreCollector
from fairmend.spec import Claim

CLAIM = Claim("score", 0.1, "logit")


def test_the_summary_is_over_all_parts():
    collector = ScoreCollector(CLAIM)
    collector.add(np.arange(0, 6.0))
    collector.add(np.arange(6.0, 11))
    summary = collector.summary()
    assert (summary.largest, summary.median, summary.most) == (10, 5, 9)
    assert summary.as_dict() == {"on": "logit", "delta": 0.1, "largest": 10, "median": 5, "p90": 9}
    assert len(summary.differences) == 11


def test_the_largest_is_kept_beyond_the_limit(monkeypatch):
    monkeypatch.setattr(score_summary, "_MOST_ROWS", 3)
    collector = ScoreCollector(CLAIM)
    for value in (1.0, 2.0, 9.0):
        collector.add(np.full(2, value))
    assert collector.summary().largest == 9
    assert collector.summary().differences.tolist() == pytest.approx([1, 1, 2])

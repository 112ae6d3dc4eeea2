"""The distribution of the differences that a claim about scores allows."""

import numpy as np

from fairmend.auditing.score_summary import ScoreSummary
from fairmend.spec import Claim


def test_the_summary_is_over_all_inputs():
    summary = ScoreSummary(Claim("score", 0.1, "logit"), np.arange(0, 11.0))
    assert (summary.largest, summary.median, summary.most) == (10, 5, 9)
    assert summary.as_dict() == {"on": "logit", "delta": 0.1, "largest": 10, "median": 5, "p90": 9}

"""Differences of scores for a report: every input is counted, and two histograms may share a scale."""

import numpy as np

from fairmend.auditing.disparity import ScoreSummary
from fairmend.evaluate.score_figures import regression_errors, score_figures
from fairmend.evaluate.utility import RegressionUtility
from fairmend.spec import Claim

SCORES = ScoreSummary(Claim("score", 0.1, "logit"), np.array([0.0, 0.05, 0.1, 0.4]))


def test_the_histogram_counts_every_input_and_reaches_to_the_largest_difference_or_delta():
    figures = score_figures(SCORES)
    assert (sum(figures.counts), figures.edges[0], figures.edges[-1]) == (4, 0.0, 0.4)
    assert (figures.on, figures.delta, figures.largest) == ("logit", 0.1, 0.4)
    small = score_figures(ScoreSummary(SCORES.claim, np.array([0.0, 0.01])))
    assert small.edges[-1] == 0.1
    assert score_figures(SCORES, end=2.0).edges[-1] == 2.0


def test_an_error_that_is_not_defined_is_left_out():
    assert regression_errors(None) == {}
    errors = regression_errors(RegressionUtility(None, 1.0, 2.0))
    assert errors == {"mean_absolute_error": 1.0, "root_mean_squared_error": 2.0}
    assert score_figures(SCORES, RegressionUtility(0.5, 1.0, 2.0)).errors["r2"] == 0.5

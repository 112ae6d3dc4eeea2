"""The score disparity of a report is that of the audit, with both people of the worst pair."""

import numpy as np
import pytest

import fairmend
from fairmend.evaluate.disparity_figures import disparity_figures
from support.cli_case import small_network, small_people, small_spec
from support.price_case import price_network, price_people, price_spec


def test_the_figures_are_those_of_the_audit():
    spec = small_spec()
    found = fairmend.audit(small_network(), spec, small_people()).disparity
    figures = disparity_figures(found, spec, ["no", "yes"])
    assert (figures.on, figures.exact, figures.largest) == ("probability", True, found.largest)
    assert figures.p99 == found.quantiles["p99"]
    assert figures.above == {f"{100 * limit:g}": count / 200 for limit, count in found.above.items()}
    assert list(figures.above) == ["1", "5", "10"]
    assert sum(figures.counts) == 200
    assert figures.edges[-1] == found.largest
    assert figures.thresholds[0] == 0.01
    assert figures.unequal[figures.thresholds.index(0.3)] == found.curve.share_at(0.3)
    assert figures.threshold == 0.5


def test_both_people_of_the_worst_pair_are_there():
    spec = small_spec()
    found = fairmend.audit(small_network(), spec, small_people()).disparity
    pair = disparity_figures(found, spec, ["no", "yes"]).worst
    assert pair.answer == "yes"
    assert pair.columns == ["age", "gender", "income", "credits"]
    both = np.stack([found.worst.x, found.worst.other])
    assert pair.scores == pytest.approx(small_network().probabilities(both), abs=1e-6)
    assert pair.values[0] != pair.others[0]
    assert pair.values[2:] == pair.others[2:]


def test_a_regression_network_has_no_curve_and_no_class():
    spec = price_spec()
    found = fairmend.audit(price_network(), spec, price_people()).disparity
    figures = disparity_figures(found, spec, ["class 0", "class 1"])
    assert (figures.threshold, figures.thresholds, figures.above) == (None, [], {})
    assert figures.worst.answer is None

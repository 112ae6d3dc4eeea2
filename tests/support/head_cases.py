"""Heads with regions on both sides of their decision, and what holds for every change of them."""

import numpy as np
import pytest

from support.repair_cases import random_features, slack_of

MARGIN = 1e-3


def problem(seed, kind="box", outputs=1, count=6, dimension=3, **shape):
    """A head and regions around its decision, more than a third of them on both sides of it."""
    rng = np.random.default_rng(seed)
    while True:
        features = random_features(rng, kind, count, dimension, **{"spread": 0.5, "width": 0.4, **shape})
        weight, bias = rng.normal(size=(outputs, dimension)), rng.normal(size=outputs) * 0.1
        if 3 * (slack_of(weight, bias, features).max(axis=1) < 0).sum() > count:
            return weight, bias, features


def check(weight, bias, features, found, margin=MARGIN):
    """What holds for every answer, optimal or not."""
    slack = slack_of(weight + found.weight, bias + found.bias, features)
    assert (slack.max(axis=1) >= margin - 1e-7).all()
    assert (slack.argmax(axis=1) == found.classes).all()
    assert found.objective == pytest.approx(np.abs(found.weight).sum() + np.abs(found.bias).sum(), abs=1e-12)
    assert found.bound <= found.objective + 1e-9
    assert 0 <= found.gap <= 1

"""The scales of numbers are fitted to the scores."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairmend.evaluate.encoding.fit import LEFT_OPEN, fit_scales
from fairmend.evaluate.encoding.moves import Distance
from fairmend.network import Activation, Affine, Network
from fairmend.spec import Feature, Spec
from fairmend.spec.draft.readings import Reading
from support.encoding_cases import network_for, scores_for, strangers

PEOPLE = strangers(200)
AGE = Feature("Alter", "continuous", range=(18, 80), scale={"mean": 47.0, "std": 16.0}, missing=44.0)
MONEY = Feature("Guthaben", "continuous", range=(0, 90_000), scale={"mean": 43_000.0, "std": 24_000.0})
RELU = [Activation("relu")]
SEX = Feature("Geschlecht", "categorical", categories=("Frau", "Mann"), encoding="one-hot", protected=True)


def test_the_scales_are_found_to_rounding():
    right = (AGE, SEX, MONEY)
    X = Spec(right).encode(PEOPLE, np.float64)
    net = network_for(X, 3)
    distance = Distance(net, PEOPLE, scores_for(net, X), regression=False)
    guessed = (
        replace(AGE, scale={"mean": 50.0, "std": 18.0}, missing=50.0),
        SEX,
        replace(MONEY, scale={"mean": 45_000.0, "std": 26_000.0}),
    )
    found = fit_scales(tuple(Reading(feature, ("x",)) for feature in guessed), distance, PEOPLE)
    ages, sexes, money = (reading.feature for reading in found)
    np.testing.assert_allclose([ages.scale["mean"], ages.scale["std"], ages.missing], [47, 16, 44], rtol=1e-3)
    np.testing.assert_allclose(list(money.scale.values()), [43_000, 24_000], rtol=1e-3)
    assert sexes == SEX


def test_too_few_rows_fit_nothing():
    few = PEOPLE.iloc[:5]
    X = Spec((AGE, SEX, MONEY)).encode(few, np.float64)
    net = network_for(X)
    state = tuple(Reading(feature, ("x",)) for feature in (AGE, SEX, MONEY))
    assert fit_scales(state, Distance(net, few, scores_for(net, X), regression=False), few) is None
    only = Distance(network_for(X[:, 1:3]), few, scores_for(net, X), regression=False)
    assert fit_scales((Reading(SEX, ("x",)),), only, few) is None


@pytest.mark.parametrize(("units", "is_open"), [(8, False), (3, True)])
def test_scales_that_the_scores_do_not_determine_are_marked(units, is_open):
    """With fewer units than columns, offsets cancel each other in the first layer: other offsets are as right."""
    rng, names = np.random.default_rng(1), [f"x{i}" for i in range(5)]
    frame = pd.DataFrame({name: rng.normal(50, 10, 300) for name in names})
    features = [Feature(name, "continuous", range=(0, 100), scale={"mean": 50.0, "std": 10.0}) for name in names]
    first = Affine(rng.normal(size=(units, 5)).astype(np.float32), rng.normal(size=units).astype(np.float32))
    net = Network([first, Affine(rng.normal(size=(1, units)).astype(np.float32), np.zeros(1, np.float32))], RELU)
    X = Spec([replace(features[0], protected=True), *features[1:]]).encode(frame, np.float64)
    distance = Distance(net, frame, scores_for(net, X), regression=False)
    guessed = [replace(f, scale={"mean": 50 + shift, "std": 9.5}) for f, shift in zip(features, range(5), strict=True)]
    found = fit_scales(tuple(Reading(feature, ("x",)) for feature in guessed), distance, frame)
    offsets = [reading.feature.scale["mean"] for reading in found]
    assert (np.abs(np.array(offsets) - 50).max() > 0.1) == is_open
    assert [LEFT_OPEN in reading.style for reading in found] == [is_open] * 5

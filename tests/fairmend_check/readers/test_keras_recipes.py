"""A short run of benchmarks/readers/keras_recipes.py: Keras computes what readers say; a wrong one is found."""

import numpy as np
import pytest

from benchmarks.readers import keras_recipes as recipes
from support.keras_files import import_keras

MODELS = 4


@pytest.fixture(scope="module", autouse=True)
def keras():
    import_keras()


def test_keras_computes_what_the_readers_say(monkeypatch):
    """But not what a reader says that exchanges rows."""

    def exchanged(path, X):
        condition, (low, high) = recipes.checked(path, X)
        return condition, (low[::-1], high[::-1])

    monkeypatch.setitem(recipes.READERS, "exchanged", exchanged)
    campaign = recipes.run(MODELS)
    assert [found for found in campaign.violations if "exchanged" not in found] == []
    assert len(campaign.violations) > MODELS
    assert campaign.made["models"] == MODELS
    assert {(reader, suffix) for _, reader, suffix in campaign.runs} == {
        (reader, suffix) for reader in recipes.READERS for suffix in (".h5", ".keras")
    }
    assert any("in the order in which Keras loads them" in why for _, why in campaign.refusals)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_enclosure_of_probabilities(outputs):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(50, outputs)) * 3
    low, high = recipes.closed(logits - 0.1, logits + 0.1)
    within = logits + rng.uniform(-0.1, 0.1, size=logits.shape)
    raised = np.exp(within)
    found = raised / (1 + raised) if outputs == 1 else raised / raised.sum(axis=1, keepdims=True)
    assert (low <= found).all()
    assert (found <= high).all()
    assert (high - low).max() < 0.11

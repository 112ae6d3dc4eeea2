"""Steps on tensors of a state dict: their description makes the same network again."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.torch.steps import Steps, layer_name, norm_name, pruned, replay

RNG = np.random.default_rng(0)
TENSORS = {
    "a.weight": RNG.normal(size=(3, 2)),
    "a.bias": RNG.normal(size=3),
    "W": RNG.normal(size=(3, 1)),
    "c": np.ones(1),
}


def described():
    steps = Steps("model", TENSORS)
    x = steps.input(2)
    hidden = steps.function(steps.affine(x, "a", "a.weight", "a.bias"), "relu", Activation("relu"))
    steps.scale(hidden, "unused", gain=2.0)
    product = steps.affine(hidden, "W", "W", None, transposed=True)
    return pruned(steps, steps.scale(product, "c", shift="c").step)


def test_the_description_has_what_the_output_needs_and_makes_the_network_again():
    entries, places = described()
    assert places == ["the input", "a", "relu", "W"]
    assert [entry["kind"] for entry in entries] == ["input", "affine", "function", "affine"]
    assert entries[-1] == {"kind": "affine", "weight": "W", "bias": "c", "transposed": True, "sources": [2]}
    network = replay(entries, TENSORS, "model")
    X = RNG.normal(size=(5, 2))
    hidden = np.maximum(X @ TENSORS["a.weight"].T + TENSORS["a.bias"], 0)
    assert np.allclose(network.logits(X), (hidden @ TENSORS["W"] + TENSORS["c"])[:, 0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weight": "b.weight"}, "no tensor 'b.weight'"),
        ({"sources": [3]}, "reads step 3"),
        ({"kind": "attention"}, "does not know: 'attention'"),
        ({"weight": "a.weight"}, "takes 3 values|used twice|takes"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(change, words):
    entries, _ = described()
    with pytest.raises(FairmendError, match=words):
        replay([*entries[:-1], {**entries[-1], **change}], TENSORS, "model")


def test_names_are_the_prefixes_of_keys():
    assert [layer_name(key) for key in ("net.0.weight", "weight", "W")] == ["net.0", "", "W"]
    assert norm_name("bn.running_mean") == "bn"

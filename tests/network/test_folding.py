"""Norms beside an affine layer: folded into it, and unfolded again into the layer as it is stored."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Affine
from fairmend.network.folding import Fold, Norm

RNG = np.random.default_rng(0)


def floats(*shape, low=-2.0):
    return RNG.uniform(low, 2, shape).astype(np.float32)


def norm(width, **changes):
    parts = {"mean": floats(width), "variance": floats(width, low=0.5), "gain": floats(width), "shift": floats(width)}
    return Norm("norm", **(parts | changes), epsilon=1e-3, name="bn")


def layer(before=(), after=(), bias=True):
    return Fold(floats(4, 3), floats(4) if bias else None, tuple(before), tuple(after), "here")


def computed(fold, x):
    for step in fold.before:
        x = (x - step.mean) / np.sqrt(step.variance + 1e-3) * step.gain + step.shift
    x = x @ fold.weight.T.astype(np.float64) + (0 if fold.bias is None else fold.bias)
    for step in fold.after:
        x = (x - step.mean) / np.sqrt(step.variance + 1e-3) * step.gain + step.shift
    return x


CASES = {
    "before": lambda: layer(before=[norm(3)]),
    "after": lambda: layer(after=[norm(4)]),
    "both": lambda: layer(before=[norm(3), norm(3)], after=[norm(4)]),
    "without a bias": lambda: layer(before=[norm(3)], after=[norm(4)], bias=False),
    "without a bias or a shift to change": lambda: layer(before=[norm(3)], bias=False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_changed_layer_is_stored_beside_the_same_norms(name):
    affine = Affine.from_fold(CASES[name]())
    X = RNG.normal(size=(20, 3))
    assert np.allclose(X @ affine.weight.T + affine.bias, computed(affine.fold, X), atol=1e-4)
    weight = affine.weight * 2 + 0.125
    weight[:, 1] = 0  # an ignored column
    changed = Affine(weight, affine.bias - 1).stored_as(affine)
    assert np.allclose(changed.weight, weight, atol=1e-5)
    derived = affine.derived_bias
    expected = affine.bias - 1 if derived is None else weight @ derived.shift + derived.constant
    assert np.allclose(changed.bias, expected, atol=1e-4)
    assert (derived is not None) == (name == "without a bias or a shift to change")
    assert not changed.weight[:, 1].any()
    assert not changed.fold.weight[:, 1].any()
    assert Affine.from_fold(changed.fold) == changed  # what is stored gives the very same layer
    assert changed.stored_as(affine) is changed
    assert np.allclose(computed(changed.fold, X), X @ changed.weight.T + changed.bias, atol=1e-4)
    for old, new in zip(affine.fold.before + affine.fold.after, changed.fold.before + changed.fold.after, strict=True):
        assert np.array_equal(old.mean, new.mean)
        assert old is new or name == "without a bias"
    assert (changed.fold.bias is None) == (affine.fold.bias is None)


def test_a_bias_that_no_layer_stores_follows_from_the_weights():
    """Through norms on both sides, one with a gain of 0, and none of them with a shift that could change."""
    scale = Norm("scale", np.float32(0.5), None, np.float32(2), np.float32(3))
    gain = np.float32([1.5, 0, -2])
    affine = Affine.from_fold(layer(before=[norm(3, gain=gain)], after=[norm(4, shift=None), scale], bias=False))
    weight = affine.weight * np.float32(1.75) + np.float32([0.25, 0, 1])
    changed = Affine(weight, affine.bias).stored_as(affine)
    derived = affine.derived_bias
    assert np.allclose(changed.weight, weight, atol=1e-5)
    assert np.allclose(changed.bias, weight @ derived.shift + derived.constant, atol=1e-4)
    assert changed.fold.bias is None
    assert affine.size == affine.weight.size


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"variance": np.full(3, -1.0)}, "variance that is not positive"),
        ({"gain": np.full(3, 1e30)}, "multiplies or shifts by more than"),
        ({"mean": np.full(3, np.nan)}, "multiplies or shifts by more than"),
        ({"gain": np.full(3, 1e-15)}, "too small for float32"),
        ({"gain": np.full(3, 1e-42)}, "or by less than"),
        ({"variance": np.full(3, -0.5 * 1e-3)}, "variance that is not positive"),
        ({"mean": np.zeros(2)}, "is 2 wide, and the affine layer beside it 3"),
    ],
)
def test_norms_that_cannot_be_folded_safely_are_refused(changes, reason):
    fold = layer(before=[norm(3, **changes)])
    if "too small" in reason:
        fold = Fold(fold.weight * np.float32(1e-33), fold.bias, fold.before, fold.after, "here")
    with pytest.raises(FairmendError, match=reason):
        Affine.from_fold(fold)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_does_not_change_is_stored_as_it_was(case):
    fold = case()
    weight, bias = (part.copy() for part in fold.folded())
    weight[:, 1] = 0
    found = fold.refit(weight, bias)
    assert np.array_equal(found.weight[:, [0, 2]], fold.weight[:, [0, 2]])
    assert not found.weight[:, 1].any()
    same = fold.refit(*fold.folded())
    assert np.array_equal(same.weight, fold.weight)
    assert same.bias is fold.bias is None or np.array_equal(same.bias, fold.bias)
    assert [norm.shift.tolist() for norm in same.after] == [norm.shift.tolist() for norm in fold.after]

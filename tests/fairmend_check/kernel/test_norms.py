"""Norms beside an affine layer: folded as fairmend folds them, bit by bit, and refused where that is not safe."""

import numpy as np
import pytest
import torch
from torch import nn

from fairmend.network import Affine, load_network
from fairmend.network.folding import Fold, Norm
from fairmend_check.errors import CheckError
from fairmend_check.kernel.assemble import Affine as CheckedAffine
from fairmend_check.kernel.assemble import assemble
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Activation
from fairmend_check.kernel.norms import batch_norm, fold_layer, joined_norm, scaling


def random_norm(rng, width, dtype):
    """The parts of a batch normalisation, of very different sizes."""
    mean, gain, shift = (rng.normal(size=width) * 10.0 ** rng.integers(-3, 4, width) for _ in range(3))
    return [part.astype(dtype) for part in (mean, 10.0 ** rng.uniform(-6, 6, width), gain, shift)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(20))
def test_fairmend_and_the_checker_fold_to_the_same_bits(dtype, seed):
    rng = np.random.default_rng(seed)
    weight, bias = rng.normal(size=(4, 3)).astype(dtype), rng.normal(size=4).astype(dtype)
    bias = None if seed % 3 == 0 else bias
    before, after = ([random_norm(rng, width, dtype) for _ in range(rng.integers(3))] for width in (3, 4))
    before += [] if before or after else [random_norm(rng, 3, dtype)]
    norms = [[Norm("n", *parts, 1e-5) for parts in side] for side in (before, after)]
    own = Affine.from_fold(Fold(weight, bias, *map(tuple, norms), "here"))
    (folded, moved), parts = fold_layer(
        weight, bias, *([batch_norm(*parts, 1e-5) for parts in side] for side in (before, after))
    )
    assert folded.tobytes() == own.weight.tobytes()
    assert moved.tobytes() == own.bias.tobytes()
    assert parts is not None


def test_a_layer_without_norms_stays_as_it_is():
    weight = np.ones((1, 2), np.float32)
    assert fold_layer(weight, None, [], []) == ((weight, None), None)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: batch_norm(np.zeros(2), np.zeros(2), None, None, 0.0), "variance that is not positive"),
        (lambda: batch_norm(np.zeros(2), np.full(2, np.nan), None, None, 1.0), "variance that is not positive"),
        (lambda: batch_norm(np.zeros(2), np.full(2, -0.5), None, None, 0.5 + 2**-52), "variance that is not positive"),
        (lambda: batch_norm(np.zeros(2), np.full(2, 0.5), None, None, -0.4), "negative epsilon"),
        (lambda: batch_norm(np.zeros(2), np.full(2, 1e38), None, None, 1e38), "too large, too small or not finite"),
        (lambda: scaling(0.0, 1e30, None), "too large, too small or not finite"),
        (lambda: scaling(0.0, 1e-30, None), "too large, too small or not finite"),
        (lambda: scaling(0.0, 1e15, None, 1e-15), "too large, too small or not finite"),
        (lambda: scaling(1e30, 1e-15, None), "too large, too small or not finite"),
        (lambda: scaling(np.nan, 1.0, None), "too large, too small or not finite"),
        (lambda: scaling(np.zeros(3), np.ones(3), None), "of 3 numbers is beside 2 units"),
        (lambda: scaling(0.0, 1e-15, None), "too small for float32"),
    ],
)
def test_norms_that_cannot_be_folded_safely_are_refused(make, reason):
    weight = np.full((2, 2), 1e-36 if reason == "too small for float32" else 1.0, np.float32)
    with pytest.raises(CheckError, match=reason):
        fold_layer(weight, None, [], [make()])


@pytest.mark.parametrize("factors", [(1e-16,) * 3 + (1e16,) * 3, (1e16, 1e-16)])
def test_factors_that_cancel_only_in_exact_arithmetic_are_refused(factors):
    """Float32 computes 0, or infinity, where their product is 1."""
    norms = [scaling(0.0, factor, None) for factor in factors]
    for side in ((norms, []), ([], norms)):
        with pytest.raises(CheckError, match="too large, too small or not finite"):
            fold_layer(np.ones((2, 2), np.float32), None, *side)


def test_a_gain_of_0_counts_with_the_numbers_that_it_is_multiplied_by():
    norm = batch_norm(np.zeros(2), np.full(2, 1e-20), np.zeros(2), np.ones(2), 0.0)
    assert (norm.factor == 0).all()
    np.testing.assert_allclose(norm.reach, 1e10)


def test_a_subnormal_weight_that_folding_makes_costs_what_it_is_multiplied_by():
    """The weight 1e-40 may be taken as 0: of an input of 1e20 that loses 1e-20."""
    weight = np.full((1, 1), 1e-30, np.float32)
    model = assemble([scaling(0.0, 1e-10, None), CheckedAffine(weight, None)])
    rows = np.full((1, 1), 1e20)
    error = output_errors(model, rows, rows, interval_layers(model, rows, rows), np.ones((1, 1, 1)))
    assert error[0, 0] > 1e-20


def module(rng, dtype):
    """A module whose norms shift and scale far more than usual."""

    def norm(width):
        layer = nn.BatchNorm1d(width)
        for name, part in zip(
            ("running_mean", "running_var", "weight", "bias"), random_norm(rng, width, dtype), strict=True
        ):
            getattr(layer, name).data = torch.tensor(part)
        return layer

    layers = [norm(4), nn.Linear(4, 8, bias=bool(rng.integers(2))), norm(8), nn.ReLU(), norm(8), nn.Linear(8, 1)]
    return nn.Sequential(*layers).to(getattr(torch, dtype)).eval()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_pytorch_computes_step_by_step_is_within_the_error(dtype):
    """The claim is about the module with its norms; the bounds are those of the folded network."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        made = module(rng, dtype)
        network = load_network(made)
        X = rng.normal(size=(30, 4)).astype(dtype)
        with torch.no_grad():
            found = made(torch.tensor(X)).numpy()[:, 0].astype(np.float64)
        own = network.affines[0].fold
        steps = [*own.before, *own.after, *network.affines[1].fold.before]
        first, middle, last = (batch_norm(n.mean, n.variance, n.gain, n.shift, n.epsilon) for n in steps)
        second = network.affines[1].fold
        one, two = (CheckedAffine(fold.weight, fold.bias) for fold in (own, second))
        model = assemble([first, one, middle, Activation("relu"), last, two])
        rows = X.astype(np.float64)
        exact = np.maximum(rows @ model.weights[0].T + model.biases[0], 0) @ model.weights[1].T + model.biases[1]
        layers = interval_layers(model, rows, rows)
        allowed = output_errors(model, rows, rows, layers, np.ones((30, 1, 1)), thorough=True)[:, 0]
        slack = 1e-9 * np.abs(exact[:, 0]) if dtype == "float64" else 0  # of `exact`, which is computed in float64
        assert (np.abs(found - exact[:, 0]) <= allowed + slack).all()


@pytest.mark.parametrize(
    ("gain", "singles"), [(1 / 3, 1), (0.25, 0), (-1.0, 0), (np.array([3.0]), 1), (np.ones(2) / 3, 0)]
)
def test_a_single_factor_may_be_rounded_to_float32(gain, singles):
    norm = scaling(0.0, gain, 0.0)
    assert norm.singles == singles
    assert norm.units(2.0**-24) == 24 * 2.0**-24
    assert norm.units(2.0**-53) == 24 * 2.0**-53 + singles * 2.0**-22
    assert joined_norm([norm, norm], 1 if np.size(gain) == 1 else 2).singles == 2 * singles


def test_batch_normalisation_of_one_unit_has_no_single_factor():
    assert batch_norm(np.zeros(1), np.ones(1), np.full(1, 0.3), None, 1e-5).singles == 0

"""Operations own their mathematics: each is told apart by nothing but its methods, and refuses what it cannot read."""

import inspect

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
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.operations.affine import Dense, Scale, batch_norm, fold_layer, joined_norm, scaling
from fairmend_check.kernel.operations.base import Form, Operation, Read
from fairmend_check.kernel.operations.columns import Columns, Concatenate, Input, Lookup, Sum
from fairmend_check.kernel.rounding import Precision

# Norms beside an affine layer: folded as fairmend folds them, bit by bit, and refused where that is not safe.


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
        first, second = model.layers
        exact = np.maximum(rows @ first.weight.T + first.bias, 0) @ second.weight.T + second.bias
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
    assert norm.units(2.0**-24) == 12 * 2.0**-24
    assert norm.units(2.0**-53) == 12 * 2.0**-53 + singles * 2.0**-22
    assert joined_norm([norm, norm], 1 if np.size(gain) == 1 else 2).singles == 2 * singles


def test_batch_normalisation_of_one_unit_has_no_single_factor():
    assert batch_norm(np.zeros(1), np.ones(1), np.full(1, 0.3), None, 1e-5).singles == 0


RNG = np.random.default_rng(0)
NORM = joined_norm([scaling(RNG.normal(size=3), RNG.normal(size=3), RNG.normal(size=3))], 3)
OPERATIONS = {  # each with the widths that it reads, and what it computes
    "dense": (Dense(RNG.normal(size=(2, 3)), RNG.normal(size=2)), [3]),
    "scale": (Scale(NORM.factor, NORM.shift, NORM), [3]),
    "sum": (Sum(), [3, 3]),
    "concatenate": (Concatenate(), [2, 3]),
    "columns": (Columns((2, 0)), [3]),
    "lookup": (Lookup(RNG.normal(size=(4, 2))), [1]),
    "relu": (Activation("relu"), [3]),
    "tanh": (Activation("tanh"), [3]),
}
EXACT = {
    "dense": lambda operation, x: x @ operation.weight.T + operation.bias,
    "scale": lambda operation, x: x * operation.factor + operation.shift,
    "sum": lambda operation, x, y: x + y,
    "concatenate": lambda operation, x, y: np.concatenate([x, y], axis=1),
    "columns": lambda operation, x: x[:, [2, 0]],
    "lookup": lambda operation, x: operation.table[x[:, 0].astype(int)],
    "relu": lambda operation, x: np.maximum(x, 0),
    "tanh": lambda operation, x: np.tanh(x),
}


def boxes(name, widths):
    if name == "lookup":
        return [(np.zeros((20, 1)), np.full((20, 1), 3.0))], [RNG.integers(0, 4, (20, 1)).astype(float)]
    ends = [RNG.normal(size=(20, width)) for width in widths]
    reads = [(end, end + RNG.random(end.shape)) for end in ends]
    return reads, [low + RNG.random(low.shape) * (high - low) for low, high in reads]


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_are_within_intervals_and_above_linear_forms(name):
    operation, widths = OPERATIONS[name]
    reads, values = boxes(name, widths)
    exact = EXACT[name](operation, *values)
    low, high = operation.interval(reads)
    assert exact.shape[1] == operation.width(widths)
    assert ((low <= exact) & (exact <= high)).all()
    forms = RNG.normal(size=(20, 4, exact.shape[1]))
    form = Form({})
    parts = operation.substitute(forms, operation.relaxed(reads), form)
    below = np.asarray(form.const - form.slip)
    for part, value in zip(parts, values, strict=False):
        below = below + np.einsum("bfw,bw->bf", part, value)
    assert (below <= np.einsum("bfw,bw->bf", forms, exact) + 1e-12).all()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("relu", "tanh")])
def test_inference_in_float32_is_within_the_rounding_of_the_operation(name):
    operation, widths = OPERATIONS[name]
    _, values = boxes(name, widths)
    values = [value.astype(np.float32).astype(float) for value in values]
    reads = [Read(value, value, np.zeros_like(value)) for value in values]
    kind = Precision.of("float32")
    own, largest = operation.own_rounding(operation.terms(reads, kind), reads, kind, 1.0)
    exact = EXACT[name](operation, *values)
    arrays = {key: value for key, value in vars(operation).items() if isinstance(value, np.ndarray)}
    if name == "dense":
        computed = values[0].astype(np.float32) @ arrays["weight"].astype(np.float32).T
        computed = computed + arrays["bias"].astype(np.float32)
        exact = values[0] @ arrays["weight"].astype(np.float32).T.astype(float) + arrays["bias"].astype(np.float32)
    else:
        computed = exact.astype(np.float32)
    assert (np.abs(computed - exact) <= own + np.abs(exact) * 2.0**-24).all()
    assert (np.abs(exact) <= largest * (1 + 1e-6)).all()


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_changes_is_reached_and_nothing_is_larger_than_its_bound(name):
    operation, widths = OPERATIONS[name]
    _, values = boxes(name, widths)
    exact = EXACT[name](operation, *values)
    sizes = [np.abs(value).max(axis=0) for value in values]
    assert (np.abs(exact) <= operation.bound(sizes, 3e38)).all()
    columns = sum(widths)
    starts = np.cumsum([0, *widths])
    reached = operation.reached([np.eye(columns, dtype=bool)[starts[i] : starts[i + 1]] for i in range(len(widths))])
    assert reached.shape == (exact.shape[1], columns)
    for column in range(columns):
        source = int(np.searchsorted(starts, column, "right")) - 1
        moved = [value.copy() for value in values]
        other = moved[source][:, column - starts[source]]
        other[:] = (other + 1) % 4 if name == "lookup" else other + RNG.normal(size=len(other))
        changed = (EXACT[name](operation, *moved) != exact).any(axis=0)
        assert (changed <= reached[:, column]).all()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "lookup"])
def test_derivatives_enclose_what_a_small_step_changes(name):
    operation, widths = OPERATIONS[name]
    reads, values = boxes(name, widths)
    forms = RNG.normal(size=(20, 4, operation.width(widths)))
    slopes = None
    if isinstance(operation, Activation):
        slopes = function_of(operation).slope_range(*reads[0])
    parts = operation.derivatives((forms, forms, np.abs(forms)), widths, slopes)
    for source, (low, high, size) in enumerate(parts):
        ends = reads[source]
        step = 1e-3 * (ends[0] + ends[1] - 2 * values[source])  # towards the middle, so that it stays in the box
        moved = [value + step if number == source else value for number, value in enumerate(values)]
        change = EXACT[name](operation, *moved) - EXACT[name](operation, *values)
        seen = np.einsum("bfw,bw->bf", forms, change)
        least = np.einsum("bfw,bw->bf", low, np.maximum(step, 0)) + np.einsum("bfw,bw->bf", high, np.minimum(step, 0))
        most = np.einsum("bfw,bw->bf", high, np.maximum(step, 0)) + np.einsum("bfw,bw->bf", low, np.minimum(step, 0))
        assert (least <= seen + 1e-12).all()
        assert (seen <= most + 1e-12).all()
        assert (np.maximum(high, -low) <= size + 1e-12).all()


def test_what_does_not_fit_is_refused():
    for name, (operation, widths) in OPERATIONS.items():
        with pytest.raises(CheckError):
            operation.width([])
        if name not in ("concatenate", "relu", "tanh"):
            with pytest.raises(CheckError):
                operation.width(
                    [width + 9 * (number == 0) for number, width in enumerate(widths)] + [1] * (name != "sum")
                )
    with pytest.raises(CheckError):
        Input(3).width([1])
    with pytest.raises(CheckError):
        Columns((0, 0)).width([3])


def test_every_operation_says_all_that_is_asked_of_it():
    asked = {name for name, _ in inspect.getmembers(Operation, inspect.isfunction)}
    for operation, _ in OPERATIONS.values():
        for name in ("interval", "substitute", "derivatives", "reached", "bound", "width"):
            assert name in asked
            assert getattr(type(operation), name) is not getattr(Operation, name)

"""Operations own their mathematics: each is told apart by nothing but its methods, and refuses what it cannot read."""

import inspect

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.norms import joined_norm, scaling
from fairmend_check.kernel.operations.base import Form, Operation, Read
from fairmend_check.kernel.operations.choose import Columns, Input, Lookup
from fairmend_check.kernel.operations.dense import Dense
from fairmend_check.kernel.operations.join import Concatenate, Sum
from fairmend_check.kernel.operations.scale import Scale
from fairmend_check.kernel.rounding import Precision

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

"""What every operation says of itself fits together: values, coefficients, forms and gradients."""

import numpy as np
import pytest
import torch

from fairmend.base.errors import FairmendError
from fairmend.network import (
    Activation,
    Affine,
    Columns,
    Concatenate,
    Input,
    Lookup,
    Normalise,
    Operation,
    Product,
    Scale,
    Softmax,
    Sum,
)
from fairmend.network.folding import Norm
from fairmend.network.operations import KINDS
from fairmend.network.operations.base import require_sources
from fairmend_check.kernel import operations as kernel_operations
from fairmend_check.kernel.operations import groups
from fairmend_check.kernel.operations import product as kernel_product
from fairmend_check.kernel.operations.base import Form

RNG = np.random.default_rng(3)
SCALE = Scale((Norm("scale", np.zeros(()), None, np.array([2.0, -3.0, 0.0]), np.ones(3)),), 3, np.dtype(np.float64))
CASES = {
    "affine": (Affine(RNG.normal(size=(2, 3)), RNG.normal(size=2)), [3]),
    "scale": (SCALE, [3]),
    "columns": (Columns((2, 0, 2)), [3]),
    "concatenate": (Concatenate(), [3, 2]),
    "sum": (Sum(), [3, 3, 3]),
}
PLANAR = {
    "elementwise product": (Product(3), [3, 3]),
    "product": (Product(2, 3, 2, 4), [24, 16]),
    "softmax": (Softmax(3), [6]),
    "normalise": (Normalise(4, 1e-3), [8]),
    "root mean square": (Normalise(4, 1e-3, centred=False), [8]),
}
OTHERS = {"relu": (Activation("relu"), [3]), "lookup": (Lookup(RNG.normal(size=(4, 3))), [1]), **PLANAR}


def values(widths, rows=5):
    return [RNG.normal(size=(rows, width)) for width in widths]


def test_all_are_operations_and_only_these_are_not_linear():
    everything = {**CASES, **OTHERS, "input": (Input(3), [])}
    assert all(isinstance(operation, Operation) for operation, _ in everything.values())
    assert {name for name, (operation, _) in everything.items() if not operation.linear} == set(OTHERS)


def test_a_number_of_sources_that_does_not_fit_is_refused():
    require_sources("sum", [1, 1, 1], 2)
    with pytest.raises(FairmendError, match="sum has 1 sources; it must have at least 2"):
        require_sources("sum", [1], 2)
    with pytest.raises(FairmendError, match="relu has 2 sources; it must have 1"):
        require_sources("relu", [1, 1], 1, 1)


@pytest.mark.parametrize("name", CASES)
def test_a_linear_operation_is_what_it_combines_plus_its_shift(name):
    operation, widths = CASES[name]
    x = values(widths)
    out = np.empty((5, operation.width(widths)))
    operation.compute(x, out)
    numbers = operation.numbers(out)
    np.testing.assert_allclose(operation.combine(x, numbers) + (0 if numbers is None else numbers[1]), out)
    np.testing.assert_allclose(operation.torch([torch.tensor(part) for part in x]).numpy(), out)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("name", CASES)
def test_to_pull_coefficients_is_the_transpose_of_to_combine(name, kind):
    operation, widths = CASES[name]
    x, A = [kind(part) for part in values(widths)], kind(RNG.normal(size=(5, operation.width(widths))))
    pulled = operation.pull(A, widths)
    assert [part.shape for part in pulled] == [part.shape for part in x]
    assert float((A * operation.combine(x)).sum()) == pytest.approx(
        sum(float((part * own).sum()) for part, own in zip(pulled, x, strict=True))
    )


@pytest.mark.parametrize("name", CASES)
def test_parts_that_are_0_may_be_left_out(name):
    operation, widths = CASES[name]
    x = [torch.tensor(part) for part in values(widths)]
    last = [None] * (len(x) - 1) + x[-1:]
    whole = [torch.zeros_like(part) for part in x[:-1]] + x[-1:]
    torch.testing.assert_close(operation.contribute(last, widths, operation.numbers(x[0])), operation.combine(whole))


@pytest.mark.parametrize("name", CASES)
def test_values_between_bounds_stay_between_them(name):
    operation, widths = CASES[name]
    lower = [torch.tensor(part) for part in values(widths)]
    upper = [part + torch.tensor(RNG.random(part.shape)) for part in lower]
    numbers, first = operation.numbers(lower[0]), torch.ones(1, dtype=torch.float64)
    bounds = operation.interval(lower, upper, numbers), operation.forms(lower, upper, first, numbers)
    for share in torch.linspace(0, 1, 5, dtype=torch.float64):
        inside = operation.torch([low + share * (high - low) for low, high in zip(lower, upper, strict=True)])
        for below, above in bounds:
            assert (below <= inside + 1e-12).all()
            assert (inside <= above + 1e-12).all()


@pytest.mark.parametrize("name", PLANAR)
def test_products_are_between_their_intervals_and_their_planes(name):
    operation, widths = PLANAR[name]
    kernel = checked(operation)
    lower = [torch.tensor(part) for part in values(widths)]
    upper = [part + torch.tensor(RNG.random(part.shape)) for part in lower]
    least, most = operation.interval(lower, upper, None)
    reads = [(low.numpy(), high.numpy()) for low, high in zip(lower, upper, strict=True)]
    for own, other in zip((least, most), kernel.interval(reads), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-12)
    A = torch.tensor(RNG.normal(size=(5, 3, operation.width(widths))))
    if isinstance(operation, Normalise):  # its planes are those of x - m
        ends = [[end.flatten(1)] for end in operation._spread(lower[0], upper[0])[:2]]
    else:
        ends = lower, upper
    planes = operation.relax(*ends)
    (below, low), (above, high) = planes.substitute(A, above=False), planes.substitute(A, above=True)
    form = Form({})
    parts = kernel.substitute(A.numpy(), kernel.relaxed(reads), form)
    if not isinstance(operation, Normalise):  # the checker has other planes around a normalisation, which are closer
        for own, other in zip(below, parts, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(low, form.const - form.slip, rtol=1e-6, atol=1e-9)
    for share in np.linspace(0, 1, 5):
        x = [a + share * (b - a) for a, b in zip(lower, upper, strict=True)]
        inside = operation.torch(x)
        computed = np.empty(inside.shape)
        operation.compute([part.numpy() for part in x], computed)
        np.testing.assert_allclose(computed, inside, rtol=1e-9, atol=1e-12)
        assert ((least <= inside + 1e-12) & (inside <= most + 1e-12)).all()
        value = (A @ inside.unsqueeze(-1)).squeeze(-1)
        assert (plane(below, low, x) <= value + 1e-9).all()
        assert (plane(above, high, x) >= value - 1e-9).all()


def plane(parts, constant, x):
    """The value of planes at points."""
    return sum((part @ own.unsqueeze(-1)).squeeze(-1) for part, own in zip(parts, x, strict=True)) + constant


def checked(operation):
    """The checker's operation of the same numbers."""
    if isinstance(operation, Product):
        return kernel_product.Product(operation.groups, operation.rows, operation.columns, operation.length)
    if isinstance(operation, Softmax):
        return groups.Softmax(operation.group)
    return groups.Normalise(operation.group, operation.epsilon, operation.centred)


@pytest.mark.parametrize(
    ("operation", "widths", "reason"),
    [
        (Product(3), [3, 2], "a product of 3 and 3 numbers reads 3 and 2"),
        (Softmax(4), [6], "softmax of groups of 4 numbers reads 6"),
        (Normalise(4, 1e-3), [6], "normalise of groups of 4 numbers reads 6"),
        (Normalise(3, 0.0), [6], "epsilon 0.0"),
    ],
)
def test_products_of_what_does_not_fit_are_refused(operation, widths, reason):
    with pytest.raises(FairmendError, match=reason):
        operation.width(widths)


@pytest.mark.parametrize("name", [*CASES, "relu", *PLANAR])
def test_gradients_are_those_of_pytorch(name):
    operation, widths = {**CASES, **OTHERS}[name]
    x = [torch.tensor(part, requires_grad=True) for part in values(widths)]
    result = operation.torch(x)
    gradient = RNG.normal(size=result.shape)
    (result * torch.tensor(gradient)).sum().backward()
    plain = [part.detach().numpy() for part in x]
    found = operation.gradients(gradient, plain, result.detach().numpy())
    for own, part in zip(found, x, strict=True):
        np.testing.assert_allclose(own, part.grad.numpy())


@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_what_reaches_an_operation_is_what_changes_it(name):
    operation, widths = {**CASES, **OTHERS}[name]
    x = values(widths) if name != "lookup" else [np.array([[0.0]] * 5)]
    columns, start, found = sum(widths), 0, []
    for width in widths:
        found.append(np.eye(columns, dtype=np.bool_)[start : start + width])
        start += width
    reached = operation.reached(found)
    assert reached.shape == (operation.width(widths), columns)
    before = operation.torch([torch.tensor(part) for part in x])
    for column in range(columns):
        source = int(np.searchsorted(np.cumsum(widths), column, side="right"))
        changed = [part.copy() for part in x]
        changed[source][:, column - sum(widths[:source])] += 1.0
        moved = (operation.torch([torch.tensor(part) for part in changed]) != before).any(dim=0).numpy()
        assert not (moved & ~reached[:, column]).any()


@pytest.mark.parametrize("name", [*PLANAR, "sum"])
def test_a_step_has_what_the_kernel_makes_its_operation_of(name):
    operation, widths = {**CASES, **PLANAR}[name]
    entry = operation.entry
    kind = entry.pop("kind")
    assert (kind, KINDS[kind].from_entry(entry) if kind in KINDS else operation) == (operation.kind, operation)
    if kind in kernel_operations.KINDS:
        found = kernel_operations.KINDS[kind](**entry)
        assert found.width(widths) == operation.width(widths)
        assert found.reads == len(widths)
        assert found.words(["x", "y"][: len(widths)])
    assert kind == "sum" or kind in kernel_operations.KINDS

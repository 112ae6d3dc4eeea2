"""Which columns the outputs can depend on, along every path, and where 0 times infinity could hide one."""

from fractions import Fraction

import numpy as np
import pytest

from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.blindness import dependent_columns
from fairmend_check.kernel.functions import Activation
from fairmend_check.kernel.operations.affine import scaling
from fairmend_check.kernel.operations.product import Product
from support.hand_written import verdict_of

ONES = np.ones((1, 3), np.float32)
TO_ONE = Activation("clip", 0.0, (-1.0, 1.0))


def without(column, width=3):
    weight = np.ones((2, width), np.float32)
    weight[:, column] = 0
    return weight


def skip(graph, *, joined):
    """Column 0 has no weight in the first layer, but a skip passes it on."""
    hidden = graph.function(graph.affine(graph.input, without(0)), Activation("relu"))
    value = graph.concatenate(hidden, graph.input if joined else graph.columns(graph.input, [1, 2]))
    return graph.affine(value, np.ones((1, graph.width(value)), np.float32))


def residual(graph):
    hidden = graph.affine(graph.input, np.ones((3, 3), np.float32) * np.float32([0, 1, 1]))
    return graph.affine(graph.sum(graph.input, hidden), ONES * np.float32([0, 1, 1]))


def table(graph, *, equal):
    rows = np.float32([[1, 2], [1, 2 if equal else 3]])
    looked_up = graph.lookup(graph.columns(graph.input, [0]), rows)
    value = graph.concatenate(looked_up, graph.columns(graph.input, [1, 2]))
    return graph.affine(value, np.ones((1, 4), np.float32))


def scaled(graph, gain):
    """A column that is multiplied by a factor, and by 0 only then."""
    first = graph.norm(graph.columns(graph.input, [0]), scaling(0.0, gain, None))
    value = graph.concatenate(graph.function(first, Activation("relu")), graph.input)
    return graph.affine(value, np.float32([[0, 0, 1, 1]]))


def mixed(graph):
    """What is multiplied by 0 is the sum of the column and of others, which may be large."""
    hidden = graph.function(graph.affine(graph.input, np.float32([[1, 1024, 0], [0, 1, 1]])), Activation("relu"))
    return graph.affine(hidden, np.float32([[0, 1]]))  # 2^120 times 2^10 is infinite


@pytest.mark.parametrize(
    ("build", "depends", "overflows"),
    [
        (lambda g: skip(g, joined=True), True, False),
        (lambda g: skip(g, joined=False), False, False),
        (residual, False, False),
        (lambda g: table(g, equal=False), True, False),
        (lambda g: table(g, equal=True), False, False),
        (lambda g: scaled(g, 2.0**10), False, False),
        (lambda g: scaled(g, 2.0**40), False, True),
        (lambda g: scaled(g, 0.0), False, False),
        (mixed, False, True),
    ],
)
def test_a_column_reaches_the_outputs_by_any_path(build, depends, overflows):
    graph = Graph(3)
    model = graph.finish(build(graph))
    found = dependent_columns(
        model, [0], np.array([2.0**100, 2.0**120, 1.0]) if build is mixed else np.array([2.0**100, 1.0, 1.0])
    )
    assert [part.tolist() for part in found] == [[depends], [overflows]]


def over_zero(graph, *, zero, added):
    """Column 0 is multiplied by 0 in one of the ways to do so, and 1 is divided by that and what is added."""
    ways = {
        "scale": lambda x: graph.norm(x, scaling(0.0, 0.0, added)),
        "layer": lambda x: graph.affine(x, np.float32([[0]]), np.float32([added])),
        "layer and norm": lambda x: graph.norm(graph.affine(x, np.float32([[0]])), scaling(0.0, 2.0, added)),
        "norm that is undone": lambda x: graph.norm(
            graph.affine(x, np.float32([[0]]), np.float32([added])), scaling(added, 2.0, 0.0)
        ),
        "table": lambda x: graph.lookup(x, np.float32([[added], [-added if added == 0 else added]])),
        "function": lambda x: graph.function(
            graph.norm(x, scaling(0.0, 0.0, 0.0)), Activation("exp" if added else "tanh")
        ),
    }
    return ways[zero](graph.columns(graph.input, [0]))


@pytest.mark.parametrize("zero", ["scale", "layer", "layer and norm", "norm that is undone", "table", "function"])
@pytest.mark.parametrize("pole", ["reciprocal", "rsqrt"])
@pytest.mark.parametrize("added", [0.0, 1.0])
def test_the_sign_of_a_zero_reaches_a_pole(zero, pole, added):
    """1 / (0 x) is infinity for x > 0, and -infinity for x < 0; what is added to 0 x takes the sign away."""
    graph = Graph(3)
    bounded = graph.function(graph.function(over_zero(graph, zero=zero, added=added), Activation(pole)), TO_ONE)
    model = graph.finish(graph.affine(graph.concatenate(bounded, graph.input), np.float32([[1, 0, 1, 1]])))
    depends, _ = dependent_columns(model, [0], np.ones(3))
    assert depends.tolist() == [added == 0 or zero == "norm that is undone"]


@pytest.mark.parametrize(("weight", "depends"), [(1.0, True), (0.0, False)])
def test_a_sum_that_cancels_to_a_zero_of_either_sign_reaches_a_pole(weight, depends, tmp_path):
    """With fused operations b + w x may be -2^-154, which is -0; and then 0 p decides on the sign.

    b = 8388614 2^-83; after the first product the sum is -2^-107, and after the second one -2^-154.
    """
    w, x = [-13961543 * 2.0**-40, 10610063 * 2.0**-70], [10080375 * 2.0**-67, 13264529 * 2.0**-84]
    exact = [Fraction(8388614) / 2**83]
    for factor, value in zip(w, x, strict=True):
        exact.append(exact[-1] + Fraction(factor) * Fraction(value))
    assert exact[1:] == [-Fraction(1, 2**107), -Fraction(1, 2**154)]
    assert str(np.float32(-(2.0**-154))) == "-0.0"
    added = np.float32([8388614 * 2.0**-83 if weight else 1.0])
    for name in ("reciprocal", "rsqrt"):
        graph = Graph(3)
        total = graph.affine(graph.input, np.float32([[*np.multiply(w, weight), 0]]), added)
        bounded = graph.function(graph.function(total, Activation(name)), TO_ONE)
        model = graph.finish(graph.affine(bounded, np.ones((1, 1), np.float32)))
        assert dependent_columns(model, [2], np.ones(3))[0].tolist() == [depends]
    layer = {"kind": "affine", "sources": [0], "weight": "W", "bias": "b"}
    steps = [{"kind": "input", "sources": [], "columns": 3}, layer]
    steps += [{"kind": "function", "sources": [1], "name": "reciprocal"}, {**layer, "sources": [2], "weight": "V"}]
    W = np.float32([[*np.multiply(w, weight), 0]])
    unit = {"kind": "continuous", "range": [0, 1]}
    spec = {"feature": [{"name": "a", **unit}, {"name": "c", **unit}, {"name": "p", "protected": True, **unit}]}
    result = verdict_of(
        tmp_path / "c.json", steps, {"W": W, "b": added, "V": np.ones((1, 1), np.float32)}, spec, blind=[2]
    )
    assert result.valid == (not depends)


def test_a_norm_that_is_written_out_takes_the_sign_of_a_zero_away():
    """x / sqrt(mean of x² + epsilon): what is squared is 0 and not -0, so blind models with such norms stay so."""
    graph = Graph(3)
    hidden = graph.affine(graph.input, without(0))
    squares = graph.function(hidden, Activation("square"))
    spread = graph.affine(squares, np.full((2, 2), 0.5, np.float32), np.full(2, 1e-5, np.float32))
    normed = graph.apply(Product(2), hidden, graph.function(spread, Activation("rsqrt")))
    model = graph.finish(graph.affine(normed, np.ones((1, 2), np.float32)))
    assert dependent_columns(model, [0], np.ones(3))[0].tolist() == [False]
    assert dependent_columns(model, [1], np.ones(3))[0].tolist() == [True]

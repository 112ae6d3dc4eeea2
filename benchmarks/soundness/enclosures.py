"""Compare the kernel's bounds of every function, product, softmax and normalisation with 50 digits and with rationals.

    python benchmarks/soundness/enclosures.py [--count 2000] [--seed 0]

For each, so many random boxes of very different places and sizes. Values at corners, in the middle and at random
points, in 50 digits, products in exact rationals, must lie in the interval, and on the right side of the linear bounds.
Lines of a function, and the planes of a product of two numbers, must touch: "gap" is the largest distance that is left
between the function and a line where they are closest (of 400 points, so a kink can be between two of them), as a share
of where they are furthest apart. Exits with 1 if a value is outside, or a gap is above a hundredth.
"""

from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.soundness.functions import in_float64, to_many_digits
from fairmend.network import Activation as Named
from fairmend_check.kernel.functions import ACTIVATIONS, Activation, function_of
from fairmend_check.kernel.operations.base import Form, Nonlinear
from fairmend_check.kernel.operations.groups import Normalise, Softmax
from fairmend_check.kernel.operations.product import Product

mpmath.mp.dps = 50
PARAMETERS = {"clip": (-0.5, 2.0), "hardsigmoid": (0.2, 0.5), "elu": (1.5,), "celu": (0.7,), "softplus": (1.3,),
              "prelu": (0.3,)}  # fmt: skip
POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal")
OPERATIONS: list[tuple[str, Nonlinear, tuple[int, ...]]] = [
    ("product", Product(1), (1, 1)),
    ("products", Product(3), (3, 3)),
    ("product of matrices", Product(1, 2, 3, 4), (8, 12)),
    ("softmax of 3", Softmax(3), (3,)),
    ("softmax of 8", Softmax(8), (8,)),
    ("layer normalisation of 4", Normalise(4, 1e-5), (4,)),
    ("layer normalisation of 12", Normalise(12, 1e-5), (12,)),
    ("root mean square of 4", Normalise(4, 1e-6, centred=False), (4,)),
]
GAP, GRID = 1e-2, 400
Box = tuple[np.ndarray, np.ndarray]


def random_boxes(rng: np.random.Generator, width: int, count: int, largest: float = 1.3) -> Box:
    """Return boxes of very different places and sizes; some numbers do not vary."""
    centre = rng.normal(size=(count, width)) * 10.0 ** rng.uniform(-2, largest, (count, 1))
    radius = np.abs(rng.normal(size=(count, width))) * 10.0 ** rng.uniform(-6, 1, (count, 1))
    radius *= rng.random((count, width)) < 0.9
    return centre - radius, centre + radius


def of_function(name: str, rng: np.random.Generator, count: int) -> tuple[int, int, float]:
    """Return how many values were compared, how many are outside, and the largest gap."""
    activation = Activation(name, 0.1 if name == "leaky_relu" else 0.0, PARAMETERS.get(name, ()))
    named = Named(name, 0.1 if name == "leaky_relu" else 0.0, PARAMETERS.get(name, ()))
    low, high = random_boxes(rng, 1, count)
    if name in POSITIVE:
        low, high = np.abs(low) + 1e-3, np.abs(low) + 1e-3 + (high - low)
    function, lines = function_of(activation), activation.relaxed([(low, high)])
    least, most = function.value_range(low, high)
    shares = np.concatenate([np.tile([0.0, 0.5, 1.0], (count, 1)), rng.random((count, 3))], axis=1)
    points = np.clip(low + shares * (high - low), low, high)
    outside = 0
    for box in range(count):
        below, above, under, over = (
            mpmath.mpf(float(part[box, 0])) for part in (lines.slope_below, lines.slope_above, lines.below, lines.above)
        )
        for z in map(mpmath.mpf, points[box].tolist()):
            value = to_many_digits(named, [z])[0]
            outside += not float(least[box, 0]) <= value <= float(most[box, 0])
            outside += not below * z + under <= value <= above * z + over
    grid = low + np.linspace(0, 1, GRID) * (high - low)
    values = in_float64(named, grid)
    wide = (high - low)[:, 0] > 1e-3 * np.maximum(1, np.abs(high[:, 0]))  # elsewhere rounding is all that is seen
    apart = np.concatenate(
        [values - lines.slope_below * grid - lines.below, lines.slope_above * grid + lines.above - values]
    )[np.tile(wide, 2)]
    size = np.maximum(apart.max(axis=1), 1e-6 * np.tile(np.abs(values).max(axis=1)[wide] + 1, 2))
    return points.size, outside, float((apart.min(axis=1) / size).max())


def exactly(operation: Nonlinear, point: list[np.ndarray]) -> list[Any]:
    """Return the values at a point: of a product in rationals, of the others in 50 digits."""
    if isinstance(operation, Product):
        shape = operation.groups, -1, operation.length
        a, b = (np.array([Fraction(x) for x in part.tolist()], dtype=object).reshape(shape) for part in point)
        return [sum(row * column) for left, right in zip(a, b, strict=True) for row in left for column in right]
    numbers = [mpmath.mpf(x) for x in point[0].tolist()]
    if isinstance(operation, Softmax):
        parts = [mpmath.exp(x - max(numbers)) for x in numbers]
        return [part / mpmath.fsum(parts) for part in parts]
    assert isinstance(operation, Normalise)
    middle = mpmath.fsum(numbers) / len(numbers) if operation.centred else 0
    spread = mpmath.fsum((x - middle) ** 2 for x in numbers) / len(numbers) + mpmath.mpf(operation.epsilon)
    return [(x - middle) / mpmath.sqrt(spread) for x in numbers]


def fraction(value: Any) -> Fraction:
    """Return a number of 50 digits, or a rational, as a rational."""
    if isinstance(value, Fraction | int):
        return Fraction(value)
    sign, mantissa, exponent, _ = value._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def of_operation(
    operation: Nonlinear, widths: tuple[int, ...], rng: np.random.Generator, count: int
) -> tuple[int, int, float]:
    """Return how many values were compared, how many are outside, and the largest gap, of a product of two numbers."""
    reads = [random_boxes(rng, width, count) for width in widths]
    low, high = operation.interval(reads)
    forms = rng.normal(size=(count, 2, low.shape[1]))
    if low.shape[1] == 1:
        forms[:] = [[1.0], [-1.0]]
    form = Form({})
    parts = operation.substitute(forms, operation.relaxed(reads), form)
    const = np.asarray(form.const - form.slip)
    corners = [(i, j) for i in (0, 1) for j in (0, 1)] if low.shape[1] == 1 else []
    turns = 4 if not corners else 6
    outside, compared, gap = 0, 0, 0.0
    for box in range(count):
        distances: list[list[float]] = [[], []]
        for turn in range(turns):
            if turn < len(corners):
                point = [(part[0][box], part[1][box])[end] for part, end in zip(reads, corners[turn], strict=True)]
            else:
                shares = [rng.random(width) if turn % 2 else rng.integers(0, 2, width) for width in widths]
                point = [np.clip(a[box] + t * (b[box] - a[box]), a[box], b[box]) for (a, b), t in
                         zip(reads, shares, strict=True)]  # fmt: skip
            values = [fraction(value) for value in exactly(operation, point)]
            slack = Fraction(0) if isinstance(operation, Product) else Fraction(1, 10**45)
            for value, least, most in zip(values, low[box].tolist(), high[box].tolist(), strict=True):
                outside += not least - slack <= value <= most + slack
                compared += 1
            for number in (0, 1):
                total = sum(Fraction(c) * v for c, v in zip(forms[box, number].tolist(), values, strict=True))
                below = Fraction(float(const[box, number])) + sum(
                    Fraction(c) * Fraction(x)
                    for part, place in zip(parts, point, strict=True)
                    for c, x in zip(part[box, number].tolist(), place.tolist(), strict=True)
                )
                outside += total < below - slack
                distances[number].append(float(total - below))
        if corners and all((b - a)[box, 0] > 1e-3 * max(1, abs(b[box, 0])) for a, b in reads):  # beyond rounding
            gap = max(gap, *(min(each) / max(each) for each in distances))
    return compared, outside, gap


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table, bad = Table("bounds of", "boxes", "values", "outside", "gap"), 0
    found = {name: of_function(name, np.random.default_rng(options.seed), options.count) for name in ACTIVATIONS}
    for name, operation, widths in OPERATIONS:
        found[name] = of_operation(operation, widths, np.random.default_rng(options.seed), options.count)
    for name, (compared, outside, gap) in found.items():
        bad += outside > 0 or gap > GAP
        table.add_row(name, f"{options.count:,}", f"{compared:,}", str(outside), f"{gap:.1e}")
    Console(width=100).print(table)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

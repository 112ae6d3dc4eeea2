"""Whether the checker's enclosures of a function hold, against a hundred digits."""

from itertools import pairwise

import flint
import numpy as np

from fairmend_check.kernel.functions import function_of

DIGITS = 400  # bits


def arb(number):
    return flint.arb(float(number))


def sigmoid(z):
    return 1 / (1 + (-z).exp())


def gelu_tanh(z):
    return z * sigmoid(2 * (2 / flint.arb.pi()).sqrt() * (z + flint.arb("0.044715") * z**3))


def selu(z):
    scale, alpha = flint.arb("1.0507009873554804934193349852946"), flint.arb("1.6732632423543772848170429916717")
    return scale * z if z >= 0 else scale * alpha * z.expm1()


def clipped(z, low, high):
    return low if z < low else high if z > high else z


EXACT = {
    "clip": lambda z, low, high: clipped(z, arb(low), arb(high)),
    "hardsigmoid": lambda z, slope, offset: clipped(arb(slope) * z + arb(offset), arb(0), arb(1)),
    "softsign": lambda z: z / (1 + abs(z)),
    "elu": lambda z, alpha: z if z >= 0 else arb(alpha) * z.expm1(),
    "celu": lambda z, alpha: z if z >= 0 else arb(alpha) * (z / arb(alpha)).expm1(),
    "selu": selu,
    "softplus": lambda z, beta: (arb(beta) * z).exp().log1p() / arb(beta),
    "silu": lambda z: z * sigmoid(z),
    "mish": lambda z: z * z.exp().log1p().tanh(),
    "gelu": lambda z: z * (-z / flint.arb(2).sqrt()).erfc() / 2,
    "gelu_tanh": gelu_tanh,
    "hardswish": lambda z: z * clipped(z + 3, arb(0), arb(6)) / 6,
    "abs": abs,
    "square": lambda z: z**2,
    "exp": lambda z: z.exp(),
    "log": lambda z: z.log(),
    "reciprocal": lambda z: 1 / z,
    "sqrt": lambda z: z.sqrt(),
    "rsqrt": lambda z: z.rsqrt(),
    "sin": lambda z: z.sin(),
    "cos": lambda z: z.cos(),
}


def exact(activation, z):
    """The function at a double, to a hundred digits."""
    with flint.ctx.workprec(DIGITS):
        return EXACT[activation.name](arb(z), *activation.parameters)


def random_intervals(rng, count):
    """Intervals of every size, around zero and far from it; some are points."""
    ends = rng.normal(size=(2, count)) * 10.0 ** rng.integers(-6, 2, count) + rng.choice([0, 0, 1, -2, 3], count)
    ends[:, : count // 10] = ends[0, : count // 10]
    ends[:, -1] = [-1e4, 1e5]
    return np.sort(ends, axis=0)


def assert_encloses(activation, intervals=60, points=15):
    """No value, slope or line is on the wrong side; and lines of chosen slopes are near."""
    rng, function = np.random.default_rng(5), function_of(activation)
    lower, upper = random_intervals(rng, intervals)
    chosen = function.choose_slopes(lower, upper)
    other = rng.choice([0.0, 1.0, -0.3, 0.5, 2.5, 1e-9, 1.05], size=(2, intervals))
    low, high = function.value_range(lower, upper)
    flattest, steepest = function.slope_range(lower, upper)
    lines = [(slopes, function.intercepts(tuple(slopes), lower, upper)) for slopes in (chosen, other)]
    special = [point.at for point in getattr(function, "breaks", ())] + [0.0, -1.25, -0.75]
    with flint.ctx.workprec(DIGITS):
        for i in range(intervals):
            places = np.concatenate([np.linspace(lower[i], upper[i], points), special])
            places = np.unique(places[(places >= lower[i]) & (places <= upper[i])])
            values = [exact(activation, z) for z in places]
            for value in values:
                assert arb(low[i]) <= value <= arb(high[i])
            for (left, right), (f, g) in zip(pairwise(places), pairwise(values), strict=True):
                quotient = (g - f) / (arb(right) - arb(left))
                assert not quotient < arb(flattest[i])  # a ball of any precision around 0 is undecided
                assert not quotient > arb(steepest[i])
            for slopes, (below, above) in lines:
                for z, value in zip(places, values, strict=True):
                    assert value >= arb(slopes[0][i]) * arb(z) + arb(below[i])
                    assert value <= arb(slopes[1][i]) * arb(z) + arb(above[i])
            if upper[i] - lower[i] < 100:
                assert_near(activation, places, [float(value.mid()) for value in values], lines[0], i)


def assert_near(activation, places, values, line, i):
    """The lines of chosen slopes touch the function, and they differ by no more than its graph does from a line."""
    (slope_below, slope_above), (below, above) = line
    gaps = [value - slope_below[i] * z - below[i] for z, value in zip(places, values, strict=True)]
    others = [slope_above[i] * z + above[i] - value for z, value in zip(places, values, strict=True)]
    wide = places[-1] - places[0]
    assert min(gaps) <= 1e-9 + 0.05 * wide
    assert min(others) <= 1e-9 + 0.05 * wide
    chord = np.interp(places, [places[0], places[-1]], [values[0], values[-1]])
    middle = 0.5 * (places[0] + places[-1])
    apart = (slope_above[i] - slope_below[i]) * middle + above[i] - below[i]
    assert apart <= 1e-9 + 3.5 * np.abs(chord - values).max() + 0.02 * wide


def assert_bends(activation, second_derivative, ends=(-30.0, 30.0)):
    """Between break points the second derivative has the sign that the curve says, by interval arithmetic."""
    curve = function_of(activation)
    starts = [ends[0], *(point.at + point.width for point in curve.breaks)]
    stops = [*(point.at for point in curve.breaks), ends[1]]
    with flint.ctx.workprec(120):
        for start, stop, bend in zip(starts, stops, curve.bends, strict=True):
            waiting = [(start, stop)]
            while waiting:
                low, high = waiting.pop()
                middle = 0.5 * (low + high)
                ball = flint.arb(middle, 0.5 * (high - low) * (1 + 1e-12))
                if not second_derivative(ball) * bend > 0:
                    assert low < middle < high, f"the curvature is not {bend} near {middle!r}"
                    waiting += [(low, middle), (middle, high)]
        for point in curve.breaks:
            assert arb(point.slopes[0]) <= numerical_slope(activation, point.at) <= arb(point.slopes[1])


def numerical_slope(activation, at):
    with flint.ctx.workprec(DIGITS):
        step = flint.arb(2) ** -100
        right, left = (EXACT[activation.name](arb(at) + sign * step, *activation.parameters) for sign in (1, -1))
        return (right - left) / (2 * step)


def assert_lowest(activation):
    """The function falls up to its lowest point and rises from there on, and is nowhere below its least value."""
    at, floor = function_of(activation).lowest
    falls, rises = at - 1e-6, at + 1e-6
    while falls < (middle := 0.5 * falls + 0.5 * rises) < rises:  # up to two doubles, one on each side
        falls, rises = (middle, rises) if numerical_slope(activation, middle) < 0 else (falls, middle)
    assert all(arb(floor) <= exact(activation, end) <= arb(floor) + 1e-15 for end in (falls, rises))
    assert numerical_slope(activation, at - 1e-6) < 0 < numerical_slope(activation, at + 1e-6)
    for left, right in ((-30.0, at - 1e-6), (at + 1e-6, 30.0)):  # by the slopes at both ends of short intervals
        ends = np.linspace(left, right, 20_001)
        low, high = function_of(activation).slope_range(ends[:-1], ends[1:])
        assert (high <= 1e-12).all() if right < at else (low >= -1e-12).all()

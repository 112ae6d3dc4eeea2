"""Elementary functions over 2,000 random intervals each, against fifty digits; and where they have no bounds."""

import flint
import numpy as np
import pytest

from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.rounding import Precision
from support.enclosures import EXACT, arb

POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal")
WAVES = ("sin", "cos")
NAMES = ("abs", "square", "exp", *POSITIVE, *WAVES)
BITS, COUNT = 170, 2000


def random_intervals(name, rng):
    """Intervals of every size in the domain; some are points, some end a few doubles beside a quarter turn."""
    width = 10.0 ** rng.uniform(-9, 2, COUNT) * (rng.random(COUNT) > 0.05)
    if name in POSITIVE:
        start = 10.0 ** rng.uniform(-12, 6, COUNT)
        ends = np.array([start, start * (1 + width)])
        return -ends[::-1] if name == "reciprocal" and rng.random() < 0.5 else ends
    start = rng.normal(size=COUNT) * 10.0 ** rng.uniform(-6, 4 if name in WAVES else 2, COUNT)
    if name in WAVES:
        quarters = np.round(rng.normal(size=COUNT) * 100) * (np.pi / 2)
        beside = quarters + rng.integers(-2, 3, COUNT) * np.spacing(quarters)
        start = np.where(rng.random(COUNT) < 0.3, beside - width * rng.choice([0.0, 0.5, 1.0], COUNT), start)
    return np.array([start, start + width])


@pytest.mark.parametrize("name", NAMES)
def test_no_value_slope_or_line_is_on_the_wrong_side(name):
    rng, function = np.random.default_rng(7), function_of(Activation(name))
    lower, upper = random_intervals(name, rng)
    inner = rng.uniform(size=(3, COUNT)) ** 3
    inner[2] = np.where(rng.random(COUNT) < 0.5, 1 - inner[2], inner[2])
    places = np.clip([lower, upper, *(lower + inner * (upper - lower))], lower, upper)
    places[2] = np.clip(np.round(places[2] / (np.pi / 2)) * (np.pi / 2) if name in WAVES else 0.0, lower, upper)
    low, high = function.value_range(lower, upper)
    flattest, steepest = function.slope_range(lower, upper)
    rough = np.abs(np.stack([flattest, steepest])).max(axis=0)
    other = rng.choice([0.0, 1.0, -1.0, 0.5, -0.5, 1e-9, 2.5], size=(2, COUNT)) * np.where(rough < 1e6, rough, 1.0)
    lines = []
    for slopes in (function.choose_slopes(lower, upper), function.chords(lower, upper), tuple(other)):
        assert np.isfinite(slopes).all()
        lines.append((slopes, function.intercepts(slopes, lower, upper)))
    with flint.ctx.workprec(BITS):
        for i in range(COUNT):
            points = [arb(z) for z in places[:, i]]
            values = [EXACT[name](z) for z in points]
            least, most = arb(low[i]), arb(high[i])
            assert all(not (value < least or value > most) for value in values)
            if upper[i] > lower[i]:
                quotient = (values[1] - values[0]) / (points[1] - points[0])
                assert not quotient < arb(flattest[i])  # a ball of any precision around a bound is undecided
                assert not quotient > arb(steepest[i])
            for (left, right), (below, above) in lines:
                left, right, below, above = (arb(part[i]) for part in (left, right, below, above))
                for z, value in zip(points, values, strict=True):
                    assert not value < left * z + below
                    assert not value > right * z + above


@pytest.mark.parametrize("name", NAMES)
def test_lines_touch_and_are_close(name):
    """The best line of a slope touches, and those chosen are no further apart than the function bends."""
    rng, function = np.random.default_rng(8), function_of(Activation(name))
    lower, upper = random_intervals(name, rng)
    usable = (upper - lower > 1e-3 * np.abs(lower)) & (upper - lower > 1e-4)
    lower, upper = lower[usable][:400], upper[usable][:400]
    chosen = function.choose_slopes(lower, upper)
    z = lower + np.linspace(0, 1, 4001)[:, None] ** 2 * (upper - lower)
    f = {"rsqrt": lambda z: z**-0.5, "reciprocal": lambda z: 1 / z}.get(name) or getattr(np, name)
    with np.errstate(over="ignore"):
        for slopes in (chosen, function.chords(lower, upper)):
            below, above = function.intercepts(slopes, lower, upper)
            for slope, touching, sign in ((slopes[0], below, 1), (slopes[1], above, -1)):
                gap = sign * (f(z) - slope * z - touching)
                scale = np.abs(f(z)).max(axis=0) + np.abs(slope * upper) + np.abs(slope * lower)
                assert (gap.min(axis=0) <= 1e-3 * gap.max(axis=0) + 1e-11 * scale + 1e-14).all()
    middle = 0.5 * (lower + upper)
    below, above = function.intercepts(chosen, lower, upper)
    apart = (chosen[1] - chosen[0]) * middle + above - below
    low, high = function.value_range(lower, upper)
    chord = f(lower) + (f(upper) - f(lower)) / (upper - lower) * (z - lower)
    bent = np.abs(f(z) - chord).max(axis=0)
    assert (
        apart <= 1e-10 * (1 + np.abs(low) + np.abs(high)) + np.minimum(3.5 * bent + 1e-9, 1.01 * (high - low))
    ).all()


@pytest.mark.parametrize(("name", "ends"), [
    ("log", [(0.0, 1.0), (-1.0, 1.0), (-2.0, -1.0), (-np.inf, np.inf), (-1.0, 0.0)]),
    ("rsqrt", [(0.0, 1.0), (-1.0, 1.0), (-2.0, -1.0), (-np.inf, np.inf)]),
    ("sqrt", [(-1e-300, 1.0), (-1.0, 1.0), (-2.0, -1.0), (-np.inf, np.inf)]),
    ("reciprocal", [(0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0), (-np.inf, np.inf)]),
])  # fmt: skip
def test_there_is_no_bound_outside_the_domain(name, ends):
    function, (lower, upper) = function_of(Activation(name)), np.array(ends).T
    slopes = function.choose_slopes(lower, upper)
    assert np.isfinite(slopes).all()
    for low, high in (
        function.value_range(lower, upper),
        function.slope_range(lower, upper),
        function.intercepts(slopes, lower, upper),
        function.intercepts((np.zeros(len(ends)), np.ones(len(ends))), lower, upper),
    ):
        assert (low == -np.inf).all()
        assert (high == np.inf).all()
    for dtype in ("float32", "float64"):
        assert np.isinf(function.rounding(lower, upper, Precision.of(dtype))).all()


def test_the_root_of_0_is_bounded_and_infinitely_steep():
    root, ends = function_of(Activation("sqrt")), (np.array([0.0, 0.0]), np.array([4.0, 1e-300]))
    low, high = root.value_range(*ends)
    assert low.tolist() == [0.0, 0.0]
    assert high[0] == pytest.approx(2)
    assert 1e-150 <= high[1] < 1e-130
    flattest, steepest = root.slope_range(*ends)
    assert flattest[0] == pytest.approx(0.25)
    assert np.isinf(steepest).all()
    assert np.isfinite(root.intercepts(root.choose_slopes(*ends), *ends)).all()
    assert np.isfinite(root.rounding(*ends, Precision.of("float32"))).all()


def test_there_is_no_bound_of_the_error_where_a_program_may_overflow_or_meet_a_subnormal_number():
    kind = Precision.of("float32")

    def bounded(name, low, high):
        return bool(np.isfinite(function_of(Activation(name)).rounding(np.array([low]), np.array([high]), kind))[0])

    assert bounded("exp", -1e4, 80.0)
    assert not bounded("exp", 0.0, 89.0)
    assert bounded("square", -1e18, 1e18)
    assert not bounded("square", 0.0, 1e19)
    for name in ("log", "reciprocal", "rsqrt"):
        assert bounded(name, 1e-30, 1.0)
        assert not bounded(name, 1e-38, 1.0)
    assert bounded("reciprocal", -1.0, -1e-30)
    assert bounded("sin", -30000.0, 30000.0)
    assert not bounded("cos", 0.0, 40000.0)


@pytest.mark.parametrize("name", WAVES)
def test_waves_turn_at_the_right_doubles(name):
    """No double is a multiple of pi: the largest values lie between two, and the bound is 1 on both sides."""
    function, crest = function_of(Activation(name)), {"sin": np.pi / 2, "cos": 2 * np.pi}[name]
    beside = crest + np.arange(-3, 4) * np.spacing(crest)
    low, high = function.value_range(beside[:-1], beside[1:])
    assert (high == 1).all()
    assert (low > 1 - 1e-14).all()
    low, high = function.value_range(np.array([crest - 1, crest + 0.5]), np.array([crest - 0.5, crest + 1]))
    assert high == pytest.approx([np.cos(0.5)] * 2)
    assert low == pytest.approx([np.cos(1.0)] * 2)

"""Elementwise functions against exact rationals and a hundred digits: no line is on the wrong side of any of them."""

from fractions import Fraction

import flint
import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.kernel.functions import ACTIVATIONS, Activation, check_activation, function_of
from fairmend_check.kernel.rounding import Precision
from support.checker_models import PIECEWISE
from support.enclosures import assert_bends, assert_encloses, assert_lowest, exact


def mish_curvature(z):
    w = z.exp()
    return 2 * w**3 + 6 * w**2 + 8 * w + 4 + z * (2 + 2 * w - 3 * w**2 - 2 * w**3)


def gelu_tanh_curvature(z):
    k, c = (2 / flint.arb.pi()).sqrt(), flint.arb("0.044715")
    return 1 + 6 * c * z**2 - k * z * (k * (z + c * z**3)).tanh() * (1 + 3 * c * z**2) ** 2


ENCLOSED = [
    Activation("clip", 0.0, (0.0, 6.0)),
    Activation("clip", 0.0, (-1.0, 1.0)),
    Activation("hardsigmoid", 0.0, (1 / 6, 0.5)),
    Activation("hardsigmoid", 0.0, (0.2, -0.1)),
    Activation("softsign"),
    Activation("elu", 0.0, (1.0,)),
    Activation("elu", 0.0, (2.5,)),
    Activation("celu", 0.0, (0.25,)),
    Activation("selu"),
    Activation("softplus", 0.0, (1.0,)),
    Activation("softplus", 0.0, (4.0,)),
    *map(Activation, ("silu", "mish", "gelu", "gelu_tanh", "hardswish")),
]
CURVATURE = {  # of those that say where they bend: a number of the sign of the second derivative
    "silu": lambda z: 2 - z * (z / 2).tanh(),
    "mish": mish_curvature,
    "gelu": lambda z: 2 - z**2,
    "gelu_tanh": gelu_tanh_curvature,
}


@pytest.mark.parametrize("activation", ENCLOSED, ids=str)
def test_no_line_is_on_the_wrong_side(activation):
    assert_encloses(activation)


@pytest.mark.parametrize("activation", [each for each in ENCLOSED if function_of(each).breaks], ids=str)
def test_no_line_is_on_the_wrong_side_a_few_doubles_beside_a_break_point(activation):
    function = function_of(activation)
    near = [[point.at + k * np.spacing(point.at) for k in range(-3, 4)] for point in function.breaks]
    pairs = [(low, high) for each in near for low in (each[0] - 17, *each) for high in (*each, each[-1] + 17)]
    ends = np.array([pair for pair in pairs if pair[0] <= pair[1]]).T
    below, above = slopes = function.choose_slopes(*ends)
    least, most = function.intercepts(slopes, *ends)
    for i, (lower, upper) in enumerate(ends.T):
        for z in {lower, upper, *(point for each in near for point in each if lower <= point <= upper)}:
            with flint.ctx.workprec(400):
                at, value = flint.arb(float(z)), exact(activation, z)
                assert flint.arb(float(least[i])) <= value - flint.arb(float(below[i])) * at
                assert flint.arb(float(most[i])) >= value - flint.arb(float(above[i])) * at


@pytest.mark.parametrize("name", [*CURVATURE, "hardswish"])
def test_functions_turn_and_bend_where_they_say(name):
    assert_lowest(Activation(name))
    if name in CURVATURE:
        assert_bends(Activation(name), CURVATURE[name])


@pytest.mark.parametrize("activation", PIECEWISE, ids=str)
def test_lines_of_any_slope_enclose_piecewise_linear_activations(activation):
    rng, function = np.random.default_rng(2), function_of(activation)
    ends = np.sort(rng.normal(size=(2, 400)) * 10.0 ** rng.integers(-12, 8, 400), axis=0)
    ends[:, :50] = ends[0, :50]
    slopes = rng.choice([0.0, 1.0, 0.01, 2.5, -1.0, 0.37], size=(2, 400))
    below, above = function.intercepts((slopes[0], slopes[1]), *ends)
    low, high = function.value_range(*ends)
    negative = Fraction({"relu": 0.0, "identity": 1.0}.get(activation.name, activation.slope))
    for i in range(400):
        lower, upper = Fraction(ends[0, i]), Fraction(ends[1, i])
        places = [lower, upper, (lower + upper) / 2] + ([Fraction(0)] if lower < 0 < upper else [])
        values = [z if z >= 0 else negative * z for z in places]
        assert Fraction(below[i]) <= min(v - Fraction(slopes[0, i]) * z for v, z in zip(values, places, strict=True))
        assert Fraction(above[i]) >= max(v - Fraction(slopes[1, i]) * z for v, z in zip(values, places, strict=True))
        assert Fraction(low[i]) <= min(values)
        assert Fraction(high[i]) >= max(values)


def curve(activation, z):
    """Tanh or sigmoid to a hundred digits."""
    with flint.ctx.workprec(400):
        z = flint.arb(float(z))
        return z.tanh() if activation.name == "tanh" else 1 / (1 + (-z).exp())


@pytest.mark.parametrize("activation", [Activation("tanh"), Activation("sigmoid")], ids=str)
def test_lines_of_any_slope_enclose_curved_activations(activation):
    rng, function = np.random.default_rng(3), function_of(activation)
    ends = np.sort(rng.normal(size=(2, 150)) * 10.0 ** rng.integers(-9, 3, 150), axis=0)
    ends[:, :10] = ends[0, :10]
    ends[0, 10:20], ends[1, 20:30] = 0.0, 0.0
    ends.sort(axis=0)
    slopes = rng.choice([0.0, 1.0, 0.25, 1e-9, 0.2, -0.3, 3.0, 0.249999, 0.999999], size=(2, 150))
    below, above = function.intercepts((slopes[0], slopes[1]), *ends)
    low, high = function.value_range(*ends)
    for i in range(150):
        steep = np.sqrt(np.clip(1 - slopes[:, i] * (1 if activation.name == "tanh" else 4), 0, 1 - 1e-16))
        turning = np.arctanh(steep) * (1 if activation.name == "tanh" else 2)
        places = np.concatenate([np.linspace(*ends[:, i], 25), turning, -turning, [0.0]])
        places = places[(places >= ends[0, i]) & (places <= ends[1, i])]
        least, most = [], []
        for z in places:
            with flint.ctx.workprec(400):
                value, at = curve(activation, z), flint.arb(float(z))
                least.append(value - flint.arb(float(slopes[0, i])) * at - flint.arb(float(below[i])))
                most.append(flint.arb(float(above[i])) - (value - flint.arb(float(slopes[1, i])) * at))
                assert not value < flint.arb(float(low[i]))  # at -1 and 1 a ball of any precision is undecided
                assert not value > flint.arb(float(high[i]))
        assert all(gap >= 0 for gap in least)
        assert all(gap >= 0 for gap in most)
        scale = 1 + np.abs(ends[:, i]).max() * np.abs(slopes[:, i]).max()
        assert min(float(gap.mid()) for gap in least) < 1e-3 * scale  # and they touch
        assert min(float(gap.mid()) for gap in most) < 1e-3 * scale


PARAMETERS = {
    "clip": (-1.0, 2.0),
    "hardsigmoid": (0.25, 0.5),
    "elu": (1.0,),
    "celu": (0.5,),
    "softplus": (2.0,),
    "prelu": (0.25, -0.5, 2.0),
}
FUNCTIONS = [Activation(name, 0.5 if name == "leaky_relu" else 0.0, PARAMETERS.get(name, ())) for name in ACTIVATIONS]


@pytest.mark.parametrize("activation", FUNCTIONS, ids=str)
def test_intervals_without_ends_give_no_bound_and_no_error(activation):
    """Overflow on the way makes them; what is not a number must never look like a bound."""
    function, ends = function_of(activation), np.array([[-np.inf, -np.inf, 0.0], [np.inf, 0.0, np.inf]])
    with np.errstate(all="ignore"):
        below, above = function.choose_slopes(*ends)
        low, high = function.intercepts((below, above), *ends)
        values, slopes = function.value_range(*ends), function.slope_range(*ends)
    assert np.isfinite(below).all()
    assert np.isfinite(above).all()
    assert not any(np.isnan(part).any() for part in (low, high))
    z = np.array([-1e300, -20.0, -1.0, 0.0, 0.5, 3.0, 1e300])
    for i, (lower, upper) in enumerate(ends.T):
        inside = z[(z >= lower) & (z <= upper)]
        exact = function.value_range(np.repeat(inside[:, None], 3, axis=1), np.repeat(inside[:, None], 3, axis=1))
        assert not (exact[1][:, i] < values[0][i]).any()
        assert not (exact[0][:, i] > values[1][i]).any()
        assert np.isnan(slopes[0][i]) or slopes[0][i] <= slopes[1][i]


ELEMENTARY = ("square", "exp", "log", "reciprocal", "sqrt", "rsqrt", "sin", "cos")  # test_elementary.py


@pytest.mark.parametrize("activation", [each for each in FUNCTIONS if each.name not in ELEMENTARY], ids=str)
def test_the_rounding_error_grows_with_the_interval_and_is_infinite_where_a_step_may_overflow(activation):
    function, kind = function_of(activation), Precision.of("float32")
    sizes = np.repeat(np.array([[0.5], [2.0], [100.0]]), 3, axis=1)
    errors = function.rounding(-sizes, sizes, kind)
    assert (np.diff(errors, axis=0) >= 0).all()
    assert (errors < 1e-3).all()
    huge = np.full((1, 3), 1e38)
    plain = activation.name in ("relu", "leaky_relu", "prelu", "tanh", "sigmoid", "identity", "clip", "abs")
    assert np.isinf(function.rounding(-huge, huge, kind)).all() != plain


@pytest.mark.parametrize(
    "activation",
    [
        Activation("clip", 0.0, (1.0, -1.0)),
        Activation("clip", 0.0, (1.0,)),
        Activation("elu", 0.0, (-1.0,)),
        Activation("elu", 0.0, (0.0,)),
        Activation("celu"),
        Activation("softplus", 0.0, (2.0**30,)),
        Activation("hardsigmoid", 0.0, (-0.5, 0.5)),
        Activation("prelu"),
        Activation("gelu", 0.0, (1.0,)),
        Activation("clip", 0.0, (0.0, np.inf)),
    ],
    ids=str,
)
def test_parameters_that_are_not_possible_are_refused(activation):
    with pytest.raises(CheckError, match="cannot have the parameters"):
        check_activation(activation, "float32")


def test_there_is_no_bound_in_float64_where_exp_overflows():
    """ONNX Runtime computes log(1 + exp(z)) in float64, which is infinite from 710 on."""
    softplus = function_of(Activation("softplus", 0.0, (1.0,)))
    low, high = np.array([-1e4, -1e4]), np.array([699.0, 710.0])
    assert np.isfinite(softplus.rounding(low, high, Precision.of("float64"))).tolist() == [True, False]
    assert np.isfinite(softplus.rounding(low, high, Precision.of("float32"))).all()


def test_a_function_is_written_with_its_numbers():
    assert str(Activation("relu")) == "relu"
    assert str(Activation("leaky_relu", 0.25)) == "leaky_relu with slope 0.25"
    assert str(Activation("clip", 0.0, (0.0, 6.0))) == "clip with 0.0, 6.0"
    assert str(Activation("prelu", 0.0, (0.5,) * 9)).endswith("0.5, ...")

"""The checker's arithmetic against exact rationals and a hundred digits: no bound is ever on the wrong side."""

from fractions import Fraction
from itertools import pairwise

import flint
import numpy as np
import pytest

from fairmend_check.bounds import interval_layers, margin_bounds
from fairmend_check.inference_error import inference_error
from fairmend_check.model import Activation, make_model
from fairmend_check.relaxation import intercepts, value_range
from fairmend_check.rounding import affine, ball

ACTIVATIONS = [
    Activation("relu"),
    Activation("leaky_relu", 0.01),
    Activation("leaky_relu", 2.5),
    Activation("tanh"),
    Activation("sigmoid"),
    Activation("identity"),
]
PIECEWISE = [activation for activation in ACTIVATIONS if activation.name not in ("tanh", "sigmoid")]


def random_model(rng, widths, activation, dtype=np.float64, scale=1.0):
    layers = [
        ((rng.normal(size=(after, before)) * scale).astype(dtype), rng.normal(size=after).astype(dtype))
        for before, after in pairwise(widths)
    ]
    return make_model(layers, [activation] * (len(layers) - 1))


def exact_outputs(model, x):
    """The outputs at one point, in exact rationals; piecewise linear activations only."""
    h = [Fraction(float(value)) for value in x]
    for number, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        h = [
            sum((Fraction(float(w)) * v for w, v in zip(row, h, strict=True)), Fraction(float(b)))
            for row, b in zip(weight, bias, strict=True)
        ]
        if number < len(model.between):
            kind = model.between[number]
            slope = Fraction({"relu": 0.0, "identity": 1.0}.get(kind.name, kind.slope))
            h = [v if v >= 0 else slope * v for v in h]
    return h


def curve(activation, z):
    """Tanh or sigmoid to a hundred digits."""
    with flint.ctx.workprec(400):
        z = flint.arb(float(z))
        return z.tanh() if activation.name == "tanh" else 1 / (1 + (-z).exp())


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e150, 1e-160])
def test_affine_layers_enclose_the_exact_interval(scale):
    rng = np.random.default_rng(0)
    for n in (1, 3, 40):
        weight, bias = rng.normal(size=(4, n)) * scale, rng.normal(size=4)
        centre = rng.normal(size=(3, n)) * scale
        width = rng.choice([0.0, 1e-16, 1.0], size=(3, n)) * scale
        lower, upper = np.minimum(centre, centre + width), centre + width
        low, high = affine(weight, bias, lower, upper)
        for box in range(3):
            for row in range(4):
                ends = [
                    sorted((Fraction(w) * Fraction(lo), Fraction(w) * Fraction(hi)))
                    for w, lo, hi in zip(weight[row], lower[box], upper[box], strict=True)
                ]
                least = sum((end[0] for end in ends), Fraction(bias[row]))
                most = sum((end[1] for end in ends), Fraction(bias[row]))
                assert Fraction(low[box, row]) <= least
                assert Fraction(high[box, row]) >= most
                room = Fraction(1e-13) * (max(abs(least), abs(most), 1) + Fraction(scale) ** 2 * 100)
                assert least - Fraction(low[box, row]) <= room
                assert Fraction(high[box, row]) - most <= room


def test_balls_hold_their_intervals():
    rng = np.random.default_rng(1)
    ends = np.sort(rng.normal(size=(2, 500)) * 10.0 ** rng.integers(-320, 300, (2, 500)), axis=0)
    mid, radius = ball(*ends)
    for lower, upper, m, r in zip(*ends, mid, radius, strict=True):
        assert Fraction(m) - Fraction(r) <= Fraction(lower)
        assert Fraction(upper) <= Fraction(m) + Fraction(r)


@pytest.mark.parametrize("activation", PIECEWISE, ids=str)
def test_lines_of_any_slope_enclose_piecewise_linear_activations(activation):
    rng = np.random.default_rng(2)
    ends = np.sort(rng.normal(size=(2, 400)) * 10.0 ** rng.integers(-12, 8, 400), axis=0)
    ends[:, :50] = ends[0, :50]
    slopes = rng.choice([0.0, 1.0, 0.01, 2.5, -1.0, 0.37], size=(2, 400))
    below, above = intercepts(activation, (slopes[0], slopes[1]), *ends)
    low, high = value_range(activation, *ends)
    negative = Fraction({"relu": 0.0, "identity": 1.0}.get(activation.name, activation.slope))
    for i in range(400):
        lower, upper = Fraction(ends[0, i]), Fraction(ends[1, i])
        places = [lower, upper, (lower + upper) / 2] + ([Fraction(0)] if lower < 0 < upper else [])
        values = [z if z >= 0 else negative * z for z in places]
        assert Fraction(below[i]) <= min(v - Fraction(slopes[0, i]) * z for v, z in zip(values, places, strict=True))
        assert Fraction(above[i]) >= max(v - Fraction(slopes[1, i]) * z for v, z in zip(values, places, strict=True))
        assert Fraction(low[i]) <= min(values)
        assert Fraction(high[i]) >= max(values)


@pytest.mark.parametrize("activation", [Activation("tanh"), Activation("sigmoid")], ids=str)
def test_lines_of_any_slope_enclose_curved_activations(activation):
    rng = np.random.default_rng(3)
    ends = np.sort(rng.normal(size=(2, 150)) * 10.0 ** rng.integers(-9, 3, 150), axis=0)
    ends[:, :10] = ends[0, :10]
    ends[0, 10:20], ends[1, 20:30] = 0.0, 0.0
    ends.sort(axis=0)
    slopes = rng.choice([0.0, 1.0, 0.25, 1e-9, 0.2, -0.3, 3.0, 0.249999, 0.999999], size=(2, 150))
    below, above = intercepts(activation, (slopes[0], slopes[1]), *ends)
    low, high = value_range(activation, *ends)
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


@pytest.mark.parametrize("activation", PIECEWISE, ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_margins_are_below_the_exact_ones_everywhere(activation, outputs):
    rng = np.random.default_rng(4)
    model = random_model(rng, [3, 6, 5, outputs], activation)
    count = 12
    lower = rng.normal(size=(count, 3))
    upper = lower + rng.choice([0.0, 0.01, 1.0], size=(count, 3))
    slopes = [(rng.uniform(-0.2, 1.2, (count, n)), rng.uniform(-0.2, 1.2, (count, n))) for n in (6, 5)]
    for label in range(max(2, outputs)):
        classes = np.full(count, label)
        bounds = margin_bounds(model, classes, lower, upper, slopes)
        for box in range(count):
            for _ in range(8):
                share = rng.random(3).round(int(rng.integers(0, 3)))
                x = np.clip(lower[box] + share * (upper[box] - lower[box]), lower[box], upper[box])
                found = exact_outputs(model, x)
                if outputs == 1:
                    margin = found[0] if label == 1 else -found[0]
                else:
                    margin = min(found[label] - found[j] for j in range(outputs) if j != label)
                assert Fraction(bounds[box]) <= margin
        same = margin_bounds(model, classes, lower, lower, slopes)  # of a single point little is lost
        for box in range(count):
            found = exact_outputs(model, lower[box])
            if outputs == 1:
                assert abs(Fraction(same[box]) - (found[0] if label == 1 else -found[0])) < 1e-11


def test_margins_of_a_linear_model_are_exact_to_the_last_digits():
    rng = np.random.default_rng(5)
    model = random_model(rng, [4, 5, 3, 1], Activation("identity"))
    lower = rng.normal(size=(20, 4))
    upper = lower + rng.random((20, 4))
    ones = [(np.ones((20, n)), np.ones((20, n))) for n in (5, 3)]
    bounds = margin_bounds(model, np.ones(20, dtype=int), lower, upper, ones)
    for box in range(20):
        corners = [np.where([(c >> i) & 1 for i in range(4)], upper[box], lower[box]) for c in range(16)]
        least = min(exact_outputs(model, corner)[0] for corner in corners)
        assert 0 <= least - Fraction(bounds[box]) < 1e-12


def test_overflow_gives_no_bound():
    rng = np.random.default_rng(6)
    model = random_model(rng, [3, 6, 5, 1], Activation("relu"), scale=1e150)
    lower, upper = np.full((1, 3), -1e150), np.full((1, 3), 1e150)
    slopes = [(np.ones((1, n)), np.ones((1, n))) for n in (6, 5)]
    assert margin_bounds(model, np.array([1]), lower, upper, slopes)[0] == -np.inf
    with np.errstate(all="ignore"):
        assert inference_error(model, lower, upper, "float32")[0] == np.inf
        assert not any(np.isnan(end).any() for pair in interval_layers(model, lower, upper) for end in pair)


@pytest.mark.parametrize("activation", PIECEWISE, ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_inference_in_float32_stays_within_its_error(activation, outputs):
    rng = np.random.default_rng(7)
    activation = Activation(activation.name, float(np.float32(activation.slope)))
    model = random_model(rng, [4, 30, 20, outputs], activation, np.float32)
    lower = rng.normal(size=(30, 4)).astype(np.float32)
    upper = lower + rng.choice([0.0, 0.5], size=(30, 4)).astype(np.float32)
    allowed = inference_error(model, lower.astype(np.float64), upper.astype(np.float64), "float32")
    for box in range(30):
        share = rng.random(4).astype(np.float32)
        x = np.clip(lower[box] + share * (upper[box] - lower[box]), lower[box], upper[box])
        exact, h = exact_outputs(model, x), x
        for number, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
            order = rng.permutation(len(h))  # one sum after the other, in any order
            total = np.zeros(len(bias), dtype=np.float32)
            for column in order:
                total = total + weight[:, column].astype(np.float32) * h[column]
            h = total + bias.astype(np.float32)
            if number < len(model.between):
                slope = np.float32({"relu": 0.0, "identity": 1.0}.get(activation.name, activation.slope))
                h = np.where(h >= 0, h, slope * h)
        for computed, truth in zip(h, exact, strict=True):
            assert abs(Fraction(float(computed)) - truth) <= Fraction(allowed[box]) / (1 if outputs == 1 else 2)

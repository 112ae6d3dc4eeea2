"""Random models for the checker's arithmetic, and their outputs in exact rationals."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from fairmend_check.kernel.model import Activation, make_model

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
        if number < len(model.activations):
            kind = model.activations[number]
            slope = Fraction({"relu": 0.0, "identity": 1.0}.get(kind.name, kind.slope))
            h = [v if v >= 0 else slope * v for v in h]
    return h

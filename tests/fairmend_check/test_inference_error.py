"""The error of inference: float32 arithmetic in any order stays within it."""

from fractions import Fraction

import numpy as np
import pytest

from fairmend_check.inference_error import inference_error
from fairmend_check.model import Activation
from support.checker_models import PIECEWISE, exact_outputs, random_model


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

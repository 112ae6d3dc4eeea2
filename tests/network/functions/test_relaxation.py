"""Relaxations: the two lines enclose the activation, wherever and however wide the interval is."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fairmend.network import Activation
from support.examples import examples
from support.functions import INTERVALS
from support.strategies import ACTIVATIONS

DTYPES = (torch.float32, torch.float64)
S_SHAPED = ("tanh", "sigmoid")

activations = st.sampled_from(ACTIVATIONS)
dtypes = st.sampled_from(DTYPES)


def reference(activation: Activation, z: np.ndarray) -> np.ndarray:
    """The activation in float64, written down once more."""
    if activation.name == "tanh":
        return np.tanh(z)
    if activation.name == "sigmoid":
        return np.exp(-np.logaddexp(0, -z))
    return np.where(z >= 0, z, z * {"relu": 0.0, "identity": 1.0}.get(activation.name, activation.slope))


@st.composite
def intervals(draw: st.DrawFn) -> tuple[float, float]:
    """Touching 0, around it, beside it; from a point over 1e-12 to 1e30 wide."""
    width = draw(st.sampled_from((0.0, 1e-12, 1e-6, 9e-5, 2e-4, 0.1, 1.0, 8.0, 50.0, 1e4, 1e30)))
    width *= draw(st.floats(0.5, 1.0))
    sign = draw(st.sampled_from((-1, 1)))
    start = draw(
        st.one_of(
            st.just(0.0),
            st.floats(-1.0, 0.0).map(lambda part: part * width),
            st.floats(0.0, 20.0),
            st.floats(0.0, 1e6),
            st.just(1e30),
        )
    )
    ends = sorted((sign * start, sign * (start + width)))
    return ends[0], ends[1]


@examples(400)
@given(activations, intervals(), dtypes)
@example(Activation("relu"), (-6.0, 14.0), torch.float32)
@example(Activation("tanh"), (-9.0, 9.0), torch.float32)
@example(Activation("sigmoid"), (-17.0, 16.0), torch.float32)
def test_lines_enclose_the_activation_on_a_dense_grid(activation, interval, dtype):
    lower, upper = (torch.tensor([end], dtype=dtype) for end in interval)
    lines = [line.double().numpy() for line in activation.function.relax(lower, upper)]
    assert np.isfinite(lines).all()
    lower_slope, lower_intercept, upper_slope, upper_intercept = lines
    assert lower_slope >= 0
    assert upper_slope >= 0

    low, high = float(lower), float(upper)
    z = np.clip(np.concatenate([np.linspace(low, high, 1001), [0.0, low, high]]), low, high)
    y = reference(activation, z)
    magnitude = 1.0 if activation.name in S_SHAPED else max(abs(low), abs(high))
    slack = 32 * torch.finfo(dtype).eps * magnitude
    assert (lower_slope * z + lower_intercept <= y + slack).all()
    assert (y <= upper_slope * z + upper_intercept + slack).all()


@given(activations, intervals(), dtypes)
def test_apply_is_the_activation(activation, interval, dtype):
    z = torch.tensor(interval, dtype=dtype)
    y = reference(activation, z.double().numpy())
    assert np.allclose(activation.function.torch(z).double().numpy(), y, rtol=16 * torch.finfo(dtype).eps, atol=1e-37)


@pytest.mark.parametrize("activation", [a for a in ACTIVATIONS if a.name not in S_SHAPED], ids=str)
@pytest.mark.parametrize(("low", "high"), [(0.0, 3.0), (0.5, 3.0), (-3.0, 0.0), (-3.0, -0.5)])
def test_a_kinked_unit_of_one_sign_is_relaxed_exactly(activation, low, high):
    lines = activation.function.relax(torch.tensor([low]), torch.tensor([high]))
    slope = 1.0 if high > 0 else {"relu": 0.0, "identity": 1.0}.get(activation.name, activation.slope)
    assert [float(line) for line in lines] == pytest.approx([slope, 0, slope, 0], abs=1e-9)


def test_upper_line_of_the_papers_example_1():
    lines = Activation("relu").function.relax(torch.tensor([-6.0]), torch.tensor([14.0]))
    assert float(lines.upper_slope) == pytest.approx(0.7)
    assert float(lines.upper_intercept) == pytest.approx(4.2)
    assert (float(lines.lower_slope), float(lines.lower_intercept)) == (1, 0)


@pytest.mark.parametrize(("low", "high", "slope"), [(-6, 14, 1), (-14, 6, 0), (-5, 5, 0), (0, 0, 0)])
def test_the_lower_relu_line_is_the_one_of_smaller_area(low, high, slope):
    lines = Activation("relu").function.relax(torch.tensor([float(low)]), torch.tensor([float(high)]))
    assert float(lines.lower_slope) == slope


SPECIAL = [
    *INTERVALS[:-1],
]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_are_finite_at_special_intervals(activation, dtype):
    ends = torch.tensor(SPECIAL, dtype=dtype, requires_grad=True)
    total = sum(line.sum() for line in activation.function.relax(ends[:, 0], ends[:, 1]))
    if total.requires_grad:  # the lines of the identity are constants
        total.backward()
        assert torch.isfinite(ends.grad).all()


@pytest.mark.parametrize("activation", [a for a in ACTIVATIONS if a.name != "identity"], ids=str)
def test_gradients_agree_with_finite_differences(activation):
    rng = np.random.default_rng(0)
    lower = torch.tensor(rng.uniform(-3, 1, 40), requires_grad=True)
    width = torch.tensor(rng.uniform(0.01, 4, 40), requires_grad=True)

    def lines(lower, width):
        # The lower ReLU slope is a step, without a gradient wherever it has one.
        return [line for line in activation.function.relax(lower, lower + width) if line.requires_grad]

    assert torch.autograd.gradcheck(lines, (lower, width))

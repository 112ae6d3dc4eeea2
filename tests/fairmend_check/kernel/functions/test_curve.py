"""Break points, tangents and ends: what all functions that bend have in common."""

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.kernel.functions import ACTIVATIONS, Activation, check_activation, function_of
from fairmend_check.kernel.rounding import Precision

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


@pytest.mark.parametrize("activation", FUNCTIONS, ids=str)
def test_the_rounding_error_grows_with_the_interval_and_is_infinite_where_a_step_may_overflow(activation):
    function, kind = function_of(activation), Precision.of("float32")
    sizes = np.repeat(np.array([[0.5], [2.0], [100.0]]), 3, axis=1)
    errors = function.rounding(-sizes, sizes, kind)
    assert (np.diff(errors, axis=0) >= 0).all()
    assert (errors < 1e-3).all()
    huge = np.full((1, 3), 1e38)
    plain = activation.name in ("relu", "leaky_relu", "prelu", "tanh", "sigmoid", "identity", "clip")
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

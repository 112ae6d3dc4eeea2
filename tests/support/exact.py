"""Networks evaluated exactly (fractions) or to 60 digits (mpmath), and networks that make rounding hard."""

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
from hypothesis import strategies as st

from fairmend.network import Activation, Affine, Network
from fairmend.network.operations import Columns, Concatenate, Lookup, Scale, Sum
from support.functions import DEFINITIONS
from support.strategies import networks

KINKED = (Activation("relu"), Activation("leaky_relu", 0.01), Activation("leaky_relu", 0.3), Activation("identity"))
CURVED = (Activation("tanh"), Activation("sigmoid"))


def exact_value(activation: Activation, z):
    """f(z): exact for a Fraction z and a piecewise linear f, to the working precision for an mpf z."""
    numbers = (activation.slope,) if activation.name == "leaky_relu" else activation.parameters
    return type(z)(DEFINITIONS[activation.name](z, *(type(z)(n) if np.isfinite(n) else n for n in numbers)))


def exact_nodes(network: Network, x: np.ndarray) -> list[list]:
    """The numbers of every node at x (inputs,): fractions, or mpf of 60 digits where an activation is curved."""
    number = Fraction if all(activation.piecewise_linear for activation in network.activations) else mpmath.mpf
    with mpmath.workdps(60):
        found = [[number(float(value)) for value in x]]
        for node in network.nodes[1:]:
            found.append(_exact_operation(node.operation, [found[source] for source in node.sources], number))
        return found


def _exact_operation(operation, values: list[list], number) -> list:
    if isinstance(operation, Affine):
        return [
            sum((number(float(w)) * value for w, value in zip(row, values[0], strict=True)), number(float(b)))
            for row, b in zip(operation.weight, operation.bias, strict=True)
        ]
    if isinstance(operation, Scale):
        lines = zip(operation.factor, operation.shift, values[0], strict=True)
        return [number(float(factor)) * value + number(float(shift)) for factor, shift, value in lines]
    if isinstance(operation, Sum):
        return [sum(each) for each in zip(*values, strict=True)]
    if isinstance(operation, Concatenate):
        return [value for part in values for value in part]
    if isinstance(operation, Columns):
        return [values[0][index] for index in operation.indices]
    if isinstance(operation, Lookup):
        return [number(float(value)) for value in operation.table[int(values[0][0])]]
    if operation.name == "prelu":
        return [z if z >= 0 else number(slope) * z for slope, z in zip(operation.parameters, values[0], strict=True)]
    return [exact_value(operation, z) for z in values[0]]


def exact_logits(network: Network, x: np.ndarray) -> list:
    """The logits at x (inputs,): fractions, or mpf of 60 digits where an activation is curved."""
    return exact_nodes(network, x)[-1]


def points_in(lower: np.ndarray, upper: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Corners of the box (inputs,) and points in it, all float64 and truly inside."""
    corners = [np.where(np.array(c), upper, lower) for c in product((False, True), repeat=len(lower))]
    inside = [lower + rng.uniform(size=len(lower)) * (upper - lower) for _ in range(6)]
    return [np.clip(point, lower, upper) for point in [*corners[:16], (lower + upper) / 2, *inside]]


@st.composite
def hard_networks(draw: st.DrawFn, activations=KINKED, spread: int = 30) -> Network:
    """Ordinary ones, and ones whose weights span 10^±spread or nearly cancel, in float32."""
    network = draw(networks(activations, (np.float32,), max_outputs=3))
    kind = draw(st.sampled_from(("ordinary", "mixed", "cancelling", "zeros")))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    affines = []
    for affine in network.affines:
        weight, bias = affine.weight.copy(), affine.bias.copy()
        if kind == "mixed":
            weight *= (10.0 ** rng.uniform(-spread, spread, size=weight.shape)).astype(np.float32)
            bias *= (10.0 ** rng.uniform(-spread, spread, size=bias.shape)).astype(np.float32)
        elif kind == "cancelling":
            nearly = np.nextafter(-weight[:, 0], np.float32(rng.normal()))
            weight = (
                np.float32(2.0 ** rng.integers(-20, 20))
                * np.where(rng.random(weight.shape) < 0.5, weight[:, :1], nearly[:, None])
            ).astype(np.float32)
        elif kind == "zeros":
            weight *= rng.random(weight.shape) < 0.5
            bias *= 0
        affines.append(Affine(weight, bias))
    return Network(affines, network.activations)


@st.composite
def boxes(draw: st.DrawFn, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """One to three boxes (pieces, inputs), some columns fixed; of no width, of a rounding error's, up to wide."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pieces = draw(st.integers(1, 3))
    lower = rng.normal(size=(pieces, inputs)) * draw(st.sampled_from((0.0, 1e-20, 1.0, 1e5)))
    width = draw(st.sampled_from((0.0, 1e-16, 1e-6, 0.3, 4.0, 1e6)))
    width = rng.uniform(0, width, size=lower.shape) * (rng.random(lower.shape) < 0.7)
    return lower, lower + width

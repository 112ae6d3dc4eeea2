"""Functions that bend: where each is convex, where it is concave, and how exactly programs compute it.

The digits of break points, slopes and least values are computed again, to a hundred digits, by
`tests/fairmend_check/kernel/test_functions.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairmend_check.kernel.functions.base import Activation
from fairmend_check.kernel.functions.curve import Break, Curve, break_near, enclosed, logistic, unless_large
from fairmend_check.kernel.operations.base import finite, stacked
from fairmend_check.kernel.rounding import LIBRARY, Array, Precision, U, down


class Sigmoid(Curve):
    """Tanh, or the sigmoid 1 / (1 + exp(-z)): convex left of zero, concave right of it, and steepest there."""

    bends = (1, -1)
    cost = 0
    parallel = True

    def __init__(self, activation: Activation) -> None:
        self.is_tanh = activation.name == "tanh"
        steepest = 1.0 if self.is_tanh else 0.25
        self.breaks = (Break(0.0, 0.0, (steepest, steepest)),)

    def values(self, z: Array) -> tuple[Array, Array]:
        value = np.tanh(z) if self.is_tanh else logistic(z)
        low, high = enclosed(value, np.abs(value) * LIBRARY)
        return np.maximum(low, -1.0 if self.is_tanh else 0.0), np.minimum(high, 1.0)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = self.rough(z)[1]
        return np.maximum(slope - 128 * U, 0.0), slope + 128 * U

    def rough(self, z: Array) -> tuple[Array, Array]:
        """Return f(z) within a relative error of LIBRARY, and f'(z) within 128 U."""
        value = np.tanh(z) if self.is_tanh else logistic(z)
        return value, (1 - value) * (1 + value if self.is_tanh else value)

    def choose_slopes(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return chord and tangent if f bends to one side, else the flattest slope (Singh et al., DeepPoly, 2019)."""
        tangent, left, right = self.rough(stacked(0.5 * lower + 0.5 * upper, lower, upper))[1]
        chord, flattest = self.chords(lower, upper)[0], np.minimum(left, right)
        concave, convex = lower >= 0, upper <= 0
        below = np.where(concave, chord, np.where(convex, tangent, flattest))
        above = np.where(convex, chord, np.where(concave, tangent, flattest))
        return finite(below), finite(above)

    def intercepts(self, slopes: tuple[Array, Array], lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the same as `Curve` does, below and above at once: f is convex on the left, and -f on the right."""
        sign: Any = np.array([1.0, -1.0]).reshape(2, *[1] * lower.ndim)
        slope, left, right = stacked(*slopes), np.minimum(upper, 0.0), np.maximum(lower, 0.0)
        tangent = self._least_by_tangent(sign, slope, stacked(lower, right), stacked(left, upper))
        near, far = self._at(sign, slope, stacked(stacked(right, left), stacked(upper, lower)))
        inside = ~np.concatenate([[lower > 0], [upper < 0]])  # whether there is something on the left, on the right
        near = np.where(inside.all(axis=0), down(near), near)  # it is the break point, 0
        ends = np.where(inside[::-1], np.minimum(near, far), np.inf)
        low, high = down(np.minimum(np.where(inside, tangent, np.inf), ends))
        return low, -high

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of a value up to 1."""
        return np.full(low.shape, 16 * kind.u + kind.tiny)

    def _touching_point(self, bend: int, slope: Array, start: Array, end: Array) -> Array:
        share = np.clip(1 - slope / self.breaks[0].slopes[0], 0.0, 1.0 - U)
        return -bend * (1 if self.is_tanh else 2) * np.arctanh(np.sqrt(share))


class Softsign(Curve):
    """z / (1 + |z|); the second derivative is -2 sign(z) / (1 + |z|)^3."""

    breaks = (Break(0.0, 0.0, (1.0, 1.0)),)
    bends = (1, -1)
    reach = 2.0**24

    def values(self, z: Array) -> tuple[Array, Array]:
        value = z / (1 + np.abs(z))
        return enclosed(value, 8 * U * np.abs(value))

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = 1 / (1 + np.abs(z)) ** 2
        return enclosed(slope, 16 * U * slope)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of the value."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large(16 * kind.u * np.minimum(size, 1.0) + 4 * kind.tiny, size, kind.largest)


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


class Elu(Curve):
    """height (exp(z / length) - 1) for z < 0, else right z; elu(a), celu(a), or selu, whose two constants are fixed."""

    bends = (1, 0)

    def __init__(self, activation: Activation) -> None:
        self.selu = activation.name == "selu"
        alpha = _SELU_ALPHA if self.selu else activation.parameters[0]
        self.right = _SELU_SCALE if self.selu else 1.0
        self.height, self.length = self.right * alpha, alpha if activation.name == "celu" else 1.0
        left = self.height / self.length
        room = 1 + 8 * U
        self.breaks = (Break(0.0, 0.0, (min(left, self.right) / room, max(left, self.right) * room)),)
        self.reach = 64 * self.length

    def values(self, z: Array) -> tuple[Array, Array]:
        value = np.where(z < 0, self.height * np.expm1(np.minimum(z, 0.0) / self.length), self.right * z)
        slip = np.where(z < 0, 64 * U, 0.0 if self.right == 1 else 4 * U) * np.abs(value)
        low, high = enclosed(value, slip)
        exact = (z >= 0) & (self.right == 1)
        return np.where(exact, value, low), np.where(exact, value, high)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        share = np.minimum(z, 0.0) / self.length
        slope = np.where(z <= 0, self.height / self.length * np.exp(share), self.right)
        return enclosed(slope, (64 + 4 * np.minimum(-share, 1000.0)) * U * slope)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of the height left of zero; frameworks have the constants of SELU in float32."""
        size, constant = np.maximum(np.abs(low), np.abs(high)), 2.0**-23
        if self.selu:
            left, right = 32 * kind.u + constant, 16 * kind.u + constant
        else:
            left, right = 16 * kind.u * self.height, 0.0
        bound = right * np.maximum(high, 0.0) + np.where(low < 0, left, 0.0) + 4 * kind.tiny
        return unless_large(bound, size, kind.largest)


_CUT_OFF = 2.1e-9  # PyTorch leaves out log(1 + exp(-z)) from beta z = 20 on, where it is exp(-20) at most
_EXPONENT = 700.0  # in float64, ONNX Runtime computes exp(z) itself, which overflows from 709 on


class Softplus(Curve):
    """log(1 + exp(beta z)) / beta, which is max(z, 0) + log(1 + exp(-beta |z|)) / beta: convex."""

    bends = (1,)

    def __init__(self, activation: Activation) -> None:
        (self.beta,) = activation.parameters
        self.reach = 64 / self.beta

    def values(self, z: Array) -> tuple[Array, Array]:
        distance = np.minimum(self.beta * np.abs(z), 1000.0)
        beyond = np.log1p(np.exp(-distance)) / self.beta
        value = np.maximum(z, 0.0) + beyond
        low, high = enclosed(value, beyond * (64 + 4 * distance) * U + 4 * U * value)
        return np.maximum(low, np.maximum(z, 0.0)), high

    def slopes(self, z: Array) -> tuple[Array, Array]:
        scaled = np.clip(self.beta * z, -1000.0, 1000.0)
        slope = logistic(scaled)
        return enclosed(slope, (64 + 4 * np.abs(scaled)) * U * slope)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 16 units of the value and of 1 / beta, and what is left out far from zero; inf if exp overflows."""
        size, right = np.maximum(np.abs(low), np.abs(high)), np.maximum(high, 0.0)
        bound = 16 * kind.u * (right + 1 / self.beta) + np.where(self.beta * high > 19, _CUT_OFF / self.beta, 0.0)
        if kind.u == U:
            bound = np.where(self.beta * high > _EXPONENT, np.inf, bound)
        return unless_large(bound + 4 * kind.tiny, size * max(1.0, self.beta), kind.largest)


class Hardswish(Curve):
    """z min(max(z + 3, 0), 6) / 6: zero, a parabola from -3 to 3, then z."""

    breaks = (Break(-3.0, 0.0, (-0.5, 0.0)), Break(3.0, 0.0, (1.0, 1.5)))
    bends = (0, 1, 0)
    lowest = (-1.5, -0.375)
    ending = 6.0

    def values(self, z: Array) -> tuple[Array, Array]:
        near = np.clip(z, -3.0, 3.0)
        low, high = enclosed(near * (near + 3) / 6, 8 * U * np.abs(near * (np.abs(near) + 3)))
        inside = np.abs(z) < 3
        return np.where(inside, low, np.maximum(z, 0.0)), np.where(inside, high, np.maximum(z, 0.0))

    def slopes(self, z: Array) -> tuple[Array, Array]:
        low, high = enclosed((2 * z + 3) / 6, 8 * U * (np.abs(z) + 3))
        straight = np.where(z > 0, 1.0, 0.0)
        inside = np.abs(z) <= 3  # at the ends, the slope of the parabola: straight parts need no tangent
        return np.where(inside, low, straight), np.where(inside, high, straight)

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return 12 units of z, where the result is not 0; ONNX Runtime has 1/6 in float32 even in float64 models."""
        size = np.maximum(np.abs(low), np.abs(high))
        left, right = np.minimum(np.maximum(-low, 0.0), 4.0), np.maximum(high, 0.0)
        bound = np.where(high < -4, 0.0, max(12 * kind.u, 2.0**-23) * np.maximum(left, right) + 4 * kind.tiny)
        return unless_large(bound, size, kind.largest)


class Gated(Curve):
    """z g(z), where g is a share from 0 to 1: concave, convex between two points, concave.

    Programs compute it within so many ``units`` of z, and a ``constant`` where they have constants in float32. Further
    out than ``far``, neither g nor its slope changes any more, but by less than TINY.
    """

    bends = (-1, 1, -1)
    far: float
    units: float
    constant = 0.0

    def parts(self, z: Array) -> tuple[Array, Array, Array | float]:
        """Return g(z), z g'(z), and a relative error of the first and half of that of the second."""
        raise NotImplementedError

    def values(self, z: Array) -> tuple[Array, Array]:
        share, _, slip = self._near(z)
        return enclosed(z * share, np.abs(z * share) * slip)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        share, rise, slip = self._near(z)
        return enclosed(share + rise, 2 * slip * (share + np.abs(rise)))

    def rough(self, z: Array) -> tuple[Array, Array]:
        """Return both, not exactly."""
        share, rise, _ = self._near(z)
        return z * share, share + rise

    def rounding(self, low: Array, high: Array, kind: Precision) -> Array:
        """Return some units of z."""
        size = np.maximum(np.abs(low), np.abs(high))
        return unless_large((self.units * kind.u + self.constant) * size + 4 * kind.tiny, size, kind.largest)

    def _near(self, z: Array) -> tuple[Array, Array, Array | float]:
        return self.parts(np.clip(z, -self.far, self.far))


class Silu(Gated):
    """z s(z), with the sigmoid s; also called swish.

    The second derivative is s'(z) (2 - z tanh(z / 2)), and z tanh(z / 2) rises with |z|: it is 2 at two points.
    """

    breaks = (
        break_near(-2.399357280515467667, -0.0998393201288669170),
        break_near(2.399357280515467667, 1.0998393201288669170),
    )
    lowest = (-1.278464, -0.27846454276107380)
    far, units = 1000.0, 16.0

    def parts(self, z: Array) -> tuple[Array, Array, Array | float]:
        share = logistic(z)
        return share, z * share * logistic(-z), 64 * U


class Mish(Gated):
    """z tanh(log(1 + exp(z))), which with w = exp(z) is z n / (n + 2) for n = w^2 + 2 w.

    The second derivative is 4 w / (n + 2)^3 times 2 w^3 + 6 w^2 + 8 w + 4 + z (2 + 2 w - 3 w^2 - 2 w^3), which is 0 at
    two points.
    """

    breaks = (
        break_near(-2.256376396360793120, -0.11252612238946255641),
        break_near(1.490571179485428459, 1.0884981612517278612),
    )
    lowest = (-1.192431, -0.30884341301725041)
    far, units = 1000.0, 24.0

    def parts(self, z: Array) -> tuple[Array, Array, Array | float]:
        """Return n / (n + 2) and 4 z w (w + 1) / (n + 2)^2, in positive terms that neither cancel nor overflow."""
        small = np.exp(-np.abs(z))  # w left of zero, 1 / w right of it
        left, right = small * (small + 2), 1 + 2 * small
        share = np.where(z < 0, left / (left + 2), right / (right + 2 * small**2))
        less = small * (small + 1) / (left + 2) ** 2
        more = small**2 * (1 + small) / (right + 2 * small**2) ** 2
        return share, 4 * z * np.where(z < 0, less, more), 256 * U


_GELU_SLOPE = 1.1289041451851547863  # at the square root of 2
_erfc = np.frompyfunc(math.erfc, 1, 1)


class Gelu(Gated):
    """z P(z), with the normal distribution P; the second derivative is p(z) (2 - z^2), with its density p."""

    breaks = (break_near(-math.sqrt(2), 1 - _GELU_SLOPE), break_near(math.sqrt(2), _GELU_SLOPE))
    lowest = (-0.751791, -0.16997120747990369)
    far, units, ending = 60.0, 32.0, 2.0

    def parts(self, z: Array) -> tuple[Array, Array, Array | float]:
        """Return P(z) and z p(z); `math.erfc` is accurate to 32 units, and rounding z / sqrt(2) costs 2 z^2 more."""
        share = 0.5 * np.asarray(_erfc(z * -math.sqrt(0.5)), dtype=np.float64)
        return share, z * self._density(z), (128 + 8 * z**2) * U

    def rough(self, z: Array) -> tuple[Array, Array]:
        """Return f(z) and f'(z) to six digits (Abramowitz and Stegun, 7.1.26), much faster than with `math.erfc`."""
        near = np.clip(z, -self.far, self.far)
        t = 1 / (1 + 0.3275911 * np.abs(near) / math.sqrt(2))
        series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
        tail = 0.5 * series * np.exp(-0.5 * near**2)
        share = np.where(near < 0, tail, 1 - tail)
        return z * share, share + near * self._density(near)

    def _density(self, z: Array) -> Array:
        return np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)


_FACTOR, _CUBIC = 2 * math.sqrt(2 / math.pi), 0.044715
_TANH_BREAK, _TANH_SLOPE = 1.418504008790828355, 1.1289930686587717655


class GeluTanh(Gated):
    """z (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (z + 0.044715 z^3), which is z s(2 u) with the sigmoid s.

    With a = 3 0.044715 z^2 and k = sqrt(2 / pi), the second derivative has the sign of 1 + 2 a - k z tanh(u) (1 + a)^2.
    This is 0 at two points, because k z tanh(u) rises with |z|, and (1 + 2 a) / (1 + a)^2 falls.
    """

    breaks = (break_near(-_TANH_BREAK, 1 - _TANH_SLOPE), break_near(_TANH_BREAK, _TANH_SLOPE))
    lowest = (-0.752461, -0.17004075057125406)
    far, units, constant, ending = 40.0, 24.0, 2.0**-25, 2.0

    def parts(self, z: Array) -> tuple[Array, Array, Array | float]:
        """Return s(2 u) and z s(2 u) s(-2 u) 2 u', and what the rounding of 2 u and of `exp` bring into them."""
        double = _FACTOR * (z + _CUBIC * z**3)
        share = logistic(double)
        rise = z * share * logistic(-double) * _FACTOR * (1 + 3 * _CUBIC * z**2)
        return share, rise, 2 * LIBRARY + 16 * U * (1 + np.abs(double))

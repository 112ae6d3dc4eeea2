"""Functions of straight pieces: ReLU and its kin, with a kink at 0, and those that are clipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import MOST, Function, Lines, slope_of_chord

if TYPE_CHECKING:
    from torch import Tensor


class Kinked(Function):
    """``negative`` is the slope on negative numbers: a number, or one for each unit."""

    piecewise_linear = True
    negative: float | Floats = 0.0

    @property
    def lines(self) -> Sequence[tuple[npt.ArrayLike, float]]:
        return (self.negative, 0.0), (1.0, 0.0)

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return np.where(z > 0, 1.0, self.negative)

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        import torch

        left, right = self.torch(lower), self.torch(upper)
        if self.increasing:
            return left, right
        low = torch.minimum(left, right)
        around = (lower < 0) & (upper > 0)
        return torch.where(around, low.clamp(max=0), low), torch.maximum(left, right)

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of ``negative·z + (1 - negative)·ReLU``; above a slope of 1, those of ReLU change sides."""
        import torch

        relu = relax_relu(lower, upper)
        below, above = relu[:2], relu[2:]
        slope, rest = _as_tensor(self.negative, lower), _as_tensor(1 - self.negative, lower)
        swapped = (slope > 1).expand_as(lower)
        low = [torch.where(swapped, *pair) for pair in zip(above, below, strict=True)]
        high = [torch.where(swapped, *pair) for pair in zip(below, above, strict=True)]
        return Lines(slope + rest * low[0], rest * low[1], slope + rest * high[0], rest * high[1])


def _as_tensor(numbers: float | Floats, like: Tensor) -> Tensor:
    import torch

    return torch.as_tensor(numbers, dtype=like.dtype, device=like.device)


def relax_relu(lower: Tensor, upper: Tensor) -> Lines:
    """Return the upper line through the end points, and the lower slope 1 if upper > -lower, else 0 (stable: exact)."""
    import torch

    above, under = upper.clamp(min=0), (-lower).clamp(min=0)  # the parts of the interval on both sides of 0
    width = above + under
    # A unit that is 0 on the whole interval has width 0; any divisor gives it the slope 0.
    upper_slope = above / (width + (width == 0))
    lower_slope = (above > under).to(lower.dtype)
    return Lines(lower_slope, torch.zeros_like(lower), upper_slope, upper_slope * under)


_LONG = 4_096  # values that are compared at a time


class Relu(Kinked):
    """max(z, 0)."""

    negative = 0.0

    def apply(self, values: FloatArray) -> None:
        if values.size < _LONG or not values.flags.c_contiguous:
            np.maximum(values, 0, out=values)
            return
        # NumPy compares an array with an array four times as fast as with a number.
        flat = values.reshape(-1)
        lines = flat[: flat.size // _LONG * _LONG].reshape(-1, _LONG)
        np.maximum(lines, np.zeros(_LONG, values.dtype), out=lines)
        rest = flat[lines.size :]
        np.maximum(rest, 0, out=rest)

    def torch(self, z: Tensor) -> Tensor:
        return z.relu()

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of CROWN (Zhang et al., 2018)."""
        return relax_relu(lower, upper)


class LeakyRelu(Kinked):
    """The maximum of z and slope·z; their minimum if the slope is above 1."""

    DEFAULTS = (0.01,)

    def __init__(self, slope: float) -> None:
        if not 0 <= slope < np.inf:
            raise FairmendError(f"leaky_relu has slope {slope}; it must be a number from 0 on")
        self.negative = slope
        self._slope = slope

    def apply(self, values: FloatArray) -> None:
        pick = np.maximum if self._slope <= 1 else np.minimum
        pick(values, values * values.dtype.type(self._slope), out=values)

    def torch(self, z: Tensor) -> Tensor:
        from torch.nn.functional import leaky_relu

        return leaky_relu(z, self._slope)


class Prelu(Kinked):
    """z on positive numbers, slope·z on negative ones; the slopes are those of the units, in their order."""

    def __init__(self, *slopes: float) -> None:
        if not slopes or not np.isfinite(slopes).all():
            raise FairmendError("prelu needs a finite slope for each unit")
        self.negative = np.array(slopes)
        self.increasing = min(slopes) >= 0

    def apply(self, values: FloatArray) -> None:
        np.multiply(values, np.asarray(self.negative, values.dtype), out=values, where=values < 0)

    def torch(self, z: Tensor) -> Tensor:
        import torch

        return torch.where(z >= 0, z, z * _as_tensor(self.negative, z))


class Identity(Kinked):
    """The function z."""

    negative = 1.0

    def apply(self, values: FloatArray) -> None:
        """Leave the values as they are."""

    def torch(self, z: Tensor) -> Tensor:
        return z

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        import torch

        one, zero = torch.ones_like(lower), torch.zeros_like(lower)
        return Lines(one, zero, one, zero)


class Clipped(Function):
    """Flat at ``low`` up to the first knot, steep up to the second, flat at ``high`` after it.

    Either end may be infinite.
    """

    piecewise_linear = True

    def __init__(self, gain: float, offset: float, low: float, high: float) -> None:
        self.gain, self.offset, self.low, self.high = gain, offset, low, high
        self.knots = (low - offset) / gain, (high - offset) / gain

    @property
    def lines(self) -> Sequence[tuple[npt.ArrayLike, float]]:
        steep = (self.gain, self.offset)
        left = [(0.0, self.low)] if np.isfinite(self.low) else []
        right = [(0.0, self.high)] if np.isfinite(self.high) else []
        return [*left, steep, *right]

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return np.where((self.low < y) & (y < self.high), self.gain, 0.0)

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of least area: each passes through a knot, or through the end that is beyond it."""
        import torch

        first, second = self.knots
        left, right = lower.clamp(min=first), upper.clamp(max=second)
        middle = (lower + upper) / 2
        at_lower, at_upper, at_left, at_right = (self.torch(z) for z in (lower, upper, left, right))
        at_middle = self.torch(middle)
        steep = self.gain * ((self.low < at_middle) & (at_middle < self.high)).to(lower.dtype)

        flat = torch.zeros_like(lower)
        lower_slope = torch.where(middle > left, slope_of_chord(at_upper - at_left, upper - left, steep), flat)
        upper_slope = torch.where(middle < right, slope_of_chord(at_right - at_lower, right - lower, steep), flat)
        below = torch.minimum(at_left - lower_slope * left, at_upper - lower_slope * upper)
        above = torch.maximum(at_right - upper_slope * right, at_lower - upper_slope * lower)
        return Lines(
            lower_slope,
            torch.minimum(below, at_lower - lower_slope * lower),
            upper_slope,
            torch.maximum(above, at_upper - upper_slope * upper),
        )


class Clip(Clipped):
    """min(max(z, low), high); one of the two may be infinite, which a network turns into its largest number.

    ReLU6 is clip(0, 6), Hardtanh is clip(-1, 1).
    """

    PARAMETERS = ("low", "high")

    def __init__(self, low: float, high: float) -> None:
        if not low < high or (np.isinf(low) and np.isinf(high)):
            raise FairmendError(f"clip({low:g}, {high:g}): the first number must be below the second, and one finite")
        super().__init__(1.0, 0.0, low, high)

    def apply(self, values: FloatArray) -> None:
        kind = values.dtype.type
        np.clip(values, kind(self.low), kind(self.high), out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.clamp(self.low, self.high)


class Hardsigmoid(Clipped):
    """clip(slope·z + offset, 0, 1). PyTorch and Keras 3 have (1/6, 1/2), ONNX (0.2, 0.5) by default."""

    PARAMETERS = ("slope", "offset")
    DEFAULTS = (1 / 6, 0.5)

    def __init__(self, slope: float, offset: float) -> None:
        if not (1 / MOST <= slope <= MOST and abs(offset) <= MOST):
            raise FairmendError(
                f"hardsigmoid({slope:g}, {offset:g}): the slope must lie between {1 / MOST:.0e} and {MOST:.0e}, "
                f"and the offset must be no larger"
            )
        super().__init__(slope, offset, 0.0, 1.0)

    def apply(self, values: FloatArray) -> None:
        kind = values.dtype.type
        values *= kind(self.gain)
        values += kind(self.offset)
        np.clip(values, kind(0), kind(1), out=values)

    def torch(self, z: Tensor) -> Tensor:
        return (self.gain * z + self.offset).clamp(0, 1)


class Abs(Kinked):
    """|z|."""

    negative = -1.0
    increasing = False

    def apply(self, values: FloatArray) -> None:
        np.abs(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.abs()

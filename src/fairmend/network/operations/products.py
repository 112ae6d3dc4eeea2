"""Products of two nodes, and softmax and normalisation of groups of columns: attention, gates, layer normalisation.

None of them is linear. Besides what every operation says of itself, they give planes around their values, with which
bounds are trained: the same as the checker's, without its rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import Numbers, Operation, require_sources

if TYPE_CHECKING:
    from torch import Tensor


_FAR = 60.0  # differences beyond it make probabilities of 0 or 1; exp of them must stay finite in float32


class ProductPlanes(NamedTuple):
    """Parallel planes around products: slopes by a ``(pieces, groups, columns, length)`` and by b, and constants."""

    by_a: Tensor
    by_b: Tensor
    low: Tensor
    high: Tensor

    def substitute(self, A: Tensor, *, above: bool) -> tuple[list[Tensor], Tensor]:
        """Return coefficients of both nodes and constants, on one side of forms ``(pieces, rows, width)``."""
        groups, (rows, columns) = self.by_a.shape[1], (self.by_b.shape[2], self.by_a.shape[2])
        each = A.reshape(*A.shape[:2], groups, rows, columns)
        parts = [each @ self.by_a[:, None], each.mT @ self.by_b[:, None]]
        return [part.flatten(2) for part in parts], _constants(A, self.low, self.high, above)


class GroupPlanes(NamedTuple):
    """Planes below and above each value of each group: slopes ``(pieces, groups, values, numbers)``, and constants."""

    below: Tensor
    above: Tensor
    low: Tensor
    high: Tensor

    def substitute(self, A: Tensor, *, above: bool) -> tuple[list[Tensor], Tensor]:
        """Return coefficients of the node, and constants, of planes on one side of forms ``(pieces, rows, width)``."""
        groups, size = self.below.shape[1], self.below.shape[2]
        each = A.reshape(*A.shape[:2], groups, size).transpose(1, 2)
        positive = each.clamp(min=0)
        first, second = (self.above, self.below) if above else (self.below, self.above)
        part = (positive @ first + (each - positive) @ second).transpose(1, 2).flatten(2)
        return [part], _constants(A, self.low, self.high, above)


class RootPlanes(NamedTuple):
    """Planes of values c_i r: q c_i + p_i r - p_i q, less or more ``off``, with planes below and above r.

    Those have slopes ``by`` the c_j ``(pieces, groups, 2, numbers)`` and a ``constant (pieces, groups, 2)``. Where it
    is not ``usable``, a value is between ``low`` and ``high``. All but q ``(pieces, groups)`` are ``(pieces, groups,
    numbers)``.
    """

    p: Tensor
    q: Tensor
    off: Tensor
    by: Tensor
    constant: Tensor
    low: Tensor
    high: Tensor
    usable: Tensor
    centred: bool

    def substitute(self, A: Tensor, *, above: bool) -> tuple[list[Tensor], Tensor]:
        """Return coefficients of the node, and constants, of planes on one side of forms ``(pieces, rows, width)``.

        All values of a group have a share of r, which is replaced once.
        """
        import torch

        sign = -1 if above else 1
        each = sign * A.reshape(*A.shape[:2], *self.p.shape[1:])
        used = torch.where(self.usable.unsqueeze(1), each, 0.0)
        flat = each - used
        share = (used * self.p.unsqueeze(1)).sum(-1, keepdim=True)
        falling, q, constant = share < 0, self.q[:, None, :, None], self.constant.unsqueeze(1)
        added = share * (torch.where(falling, constant[..., 1:], constant[..., :1]) - q)
        rising = flat.clamp(min=0)
        fixed = (
            rising * self.low.unsqueeze(1)
            + (flat - rising) * self.high.unsqueeze(1)
            - used.abs() * self.off.unsqueeze(1)
        )
        by = self.by.unsqueeze(1)
        found = q * used + share * torch.where(falling, by[..., 1, :], by[..., 0, :])
        if self.centred:
            found = found - found.mean(-1, keepdim=True)
        return [sign * found.flatten(2)], sign * (added.sum((-1, -2)) + fixed.sum((-1, -2)))


def _split(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the last axis of a tensor as several; -1 stands for as many groups as there are."""
    groups = values.shape[-1] // shape[-1] if shape[0] == -1 else shape[0]
    return values.reshape(*values.shape[:-1], groups, *shape[1:])


def _constants(A: Tensor, low: Tensor, high: Tensor, above: bool) -> Tensor:
    positive = A.clamp(min=0)
    first, second = (high, low) if above else (low, high)
    return (positive @ first.unsqueeze(-1) + (A - positive) @ second.unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True)
class Product(Operation):
    """Σ_t a[g, m, t]·b[g, n, t] of two nodes a ``(groups, rows, length)`` and b ``(groups, columns, length)``.

    That is the product a bᵀ of matrices for each group; with groups alone, it is elementwise.
    """

    groups: int
    rows: int = 1
    columns: int = 1
    length: int = 1
    kind = "product"
    linear = False

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 2, 2)
        wanted = [self.groups * size * self.length for size in (self.rows, self.columns)]
        if min(self.groups, self.rows, self.columns, self.length) < 1 or list(widths) != wanted:
            raise FairmendError(f"a product of {wanted[0]} and {wanted[1]} numbers reads {widths[0]} and {widths[1]}")
        return self.groups * self.rows * self.columns

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        a, b = self._matrices(values)
        np.matmul(a, b.swapaxes(2, 3), out=out.reshape(len(out), self.groups, self.rows, self.columns))

    def torch(self, values: Sequence[Tensor]) -> Tensor:
        a, b = (_split(part, shape) for part, shape in zip(values, self._shapes, strict=True))
        return (a @ b.mT).flatten(-3)

    def gradients(self, gradient: Floats, values: Sequence[Floats], result: Floats) -> Sequence[Floats]:
        a, b = self._matrices(values)
        each = gradient.reshape(len(gradient), self.groups, self.rows, self.columns)
        parts = zip((each @ b, each.swapaxes(2, 3) @ a), values, strict=True)
        return [part.reshape(value.shape) for part, value in parts]

    def interval(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        (a, b), (a_most, b_most) = (
            [_split(end, shape) for end, shape in zip(ends, self._shapes, strict=True)] for ends in (lower, upper)
        )
        corners = [first.unsqueeze(-2) * second.unsqueeze(-3) for first in (a, a_most) for second in (b, b_most)]
        least = corners[0].minimum(corners[1]).minimum(corners[2].minimum(corners[3]))
        most = corners[0].maximum(corners[1]).maximum(corners[2].maximum(corners[3]))
        return least.sum(-1).flatten(-3), most.sum(-1).flatten(-3)

    def relax(self, lower: Sequence[Tensor], upper: Sequence[Tensor]) -> ProductPlanes:
        """Return the tangent planes in the middle, moved by what products can differ from them."""
        p, q = ((low + high) / 2 for low, high in zip(lower, upper, strict=True))
        r, s = ((high - low) / 2 for low, high in zip(lower, upper, strict=True))
        middle, off = self.torch([p, q]), self.torch([r, s])
        by_a, by_b = _split(q, self._shapes[1]), _split(p, self._shapes[0])
        return ProductPlanes(by_a, by_b, -middle - off, off - middle)

    def reached(self, reached: Sequence[Bools]) -> Bools:
        inputs = reached[0].shape[1]
        a, b = (np.asarray(part.reshape(self.groups, -1, self.length, inputs).any(axis=2)) for part in reached)
        return np.asarray((a[:, :, None] | b[:, None]).reshape(-1, inputs))

    @property
    def entry(self) -> dict[str, Any]:
        """Its sizes."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Product:
        """Return the product with these sizes."""
        return cls(*(int(entry[each.name]) for each in fields(cls)))

    @property
    def _shapes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        return (self.groups, self.rows, self.length), (self.groups, self.columns, self.length)

    def _matrices(self, values: Sequence[FloatArray]) -> list[FloatArray]:
        return [part.reshape(len(part), *shape) for part, shape in zip(values, self._shapes, strict=True)]


class _Grouped(Operation):
    """An operation on groups of columns side by side, all of one size."""

    group: int
    linear = False

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 1, 1)
        if self.group < 1 or widths[0] % self.group:
            raise FairmendError(f"{self.kind} of groups of {self.group} numbers reads {widths[0]}")
        return widths[0]

    def reached(self, reached: Sequence[Bools]) -> Bools:
        inputs = reached[0].shape[1]
        groups = np.asarray(reached[0].reshape(-1, self.group, inputs).any(axis=1))
        return np.repeat(groups, self.group, axis=0)

    def _groups(self, values: FloatArray) -> FloatArray:
        return values.reshape(len(values), values.shape[1] // self.group, self.group)


@dataclass(frozen=True)
class Softmax(_Grouped):
    """exp(x_i) / Σ_j exp(x_j) within each group of so many columns: 1 / S_i with S_i = Σ_j exp(x_j - x_i)."""

    group: int
    kind = "softmax"

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        """Compute it, without the largest number of each group in the exponents."""
        x, result = self._groups(values[0]), self._groups(out)
        np.exp(x - x.max(axis=2, keepdims=True), out=result)
        result /= result.sum(axis=2, keepdims=True)

    def torch(self, values: Sequence[Tensor]) -> Tensor:
        return _split(values[0], (-1, self.group)).softmax(-1).flatten(-2)

    def gradients(self, gradient: Floats, values: Sequence[Floats], result: Floats) -> Sequence[Floats]:
        """Return p_i (g_i - Σ_j p_j g_j)."""
        p, g = self._groups(result), self._groups(gradient)
        return [(p * (g - (p * g).sum(axis=2, keepdims=True))).reshape(gradient.shape)]

    def interval(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        """Return the ends of 1 / S_i."""
        less, more = self._apart(lower[0], upper[0])
        return (1 / more.exp().sum(-1)).flatten(-2), (1 / less.exp().sum(-1)).flatten(-2)

    def relax(self, lower: Sequence[Tensor], upper: Sequence[Tensor]) -> GroupPlanes:
        """Return planes from chords and tangents of exp and of 1 / S."""
        import torch

        less, more = self._apart(lower[0], upper[0])
        other = 1 - torch.eye(self.group, dtype=less.dtype, device=less.device)
        left, right, narrow = less.exp(), more.exp(), more - less < 1e-6
        chord = torch.where(narrow, right, (right - left) / torch.where(narrow, 1.0, more - less)) * other
        at = torch.minimum((less + more) / 2, less + 0.99)
        tangent = at.exp() * other
        least, most = left.sum(-1), right.sum(-1)
        roughly = 1 + ((chord * (less - more) / 2 + right) * other).sum(-1)  # S in the middle, on the chords
        root = 1 / roughly  # its square may be 0 in float32, where a root has no gradient
        below, above = root.square(), 1 / (least * most)
        low = 2 * root - below * (1 + ((right - chord * more) * other).sum(-1))
        high = 1 / least + 1 / most - above * (1 + (tangent * (1 - at)).sum(-1))
        slopes = [_differences(factor.unsqueeze(-1) * slope) for factor, slope in ((below, chord), (above, tangent))]
        return GroupPlanes(slopes[0], slopes[1], low.flatten(-2), high.flatten(-2))

    @property
    def entry(self) -> dict[str, Any]:
        """Its size."""
        return {"kind": self.kind, "size": self.group}

    def _apart(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ends of x_j - x_i ``(..., groups, i, j)``."""
        import torch

        low, high = (_split(end, (-1, self.group)) for end in (lower, upper))
        other = 1 - torch.eye(self.group, dtype=low.dtype, device=low.device)
        less, more = low.unsqueeze(-2) - high.unsqueeze(-1), high.unsqueeze(-2) - low.unsqueeze(-1)
        return less.clamp(min=-_FAR, max=_FAR) * other, more.clamp(min=-_FAR, max=_FAR) * other


def _differences(by: Tensor) -> Tensor:
    """Return coefficients of x_j of -Σ_j by_ij (x_j - x_i)."""
    import torch

    return torch.diag_embed(by.sum(-1)) - by


@dataclass(frozen=True)
class Normalise(_Grouped):
    """(x_i - m) / sqrt(v + ε) within each group of so many columns: m is the mean, and v the mean of (x_j - m)².

    If it is not ``centred``, m is 0: the root mean square.
    """

    group: int
    epsilon: float
    centred: bool = True
    kind = "normalise"

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of its source; refuse an ε that the checker does not know."""
        if not 2.0**-60 <= self.epsilon <= 1:
            raise FairmendError(f"a normalisation has epsilon {self.epsilon}; it must be from 2^-60 to 1")
        return super().width(widths)

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        """Compute it with the variance in two passes."""
        x, result = self._groups(values[0]), self._groups(out)
        result[...] = x - x.mean(axis=2, keepdims=True) if self.centred else x
        spread = np.square(result).mean(axis=2, keepdims=True) + out.dtype.type(self.epsilon)
        result /= np.sqrt(spread)

    def torch(self, values: Sequence[Tensor]) -> Tensor:
        x = _split(values[0], (-1, self.group))
        c = x - x.mean(-1, keepdim=True) if self.centred else x
        return (c * (c.square().mean(-1, keepdim=True) + self.epsilon).rsqrt()).flatten(-2)

    def gradients(self, gradient: Floats, values: Sequence[Floats], result: Floats) -> Sequence[Floats]:
        """Return r (g_i - mean(g) - y_i mean(g y)), without the first mean if it is not centred."""
        x, y, g = (self._groups(part) for part in (values[0], result, gradient))
        c = x - x.mean(axis=2, keepdims=True) if self.centred else x
        r = 1 / np.sqrt(np.square(c).mean(axis=2, keepdims=True) + self.epsilon)
        middle = g.mean(axis=2, keepdims=True) if self.centred else 0.0
        return [(r * (g - middle - y * (g * y).mean(axis=2, keepdims=True))).reshape(gradient.shape)]

    def interval(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        """Return the ends of c_i / sqrt(c_i² / n + w + ε), where w is the mean of the other squares."""
        low, high, least, most = self._spread(lower[0], upper[0])
        low, high = (end.flatten(-2) for end in self._ends(low, high, least, most))
        return low, high

    def centring(self, like: Tensor) -> Tensor:
        """Return the matrix ``(group, group)`` that takes x - m from the numbers of a group."""
        import torch

        identity = torch.eye(self.group, dtype=like.dtype, device=like.device)
        return identity - 1 / self.group if self.centred else identity

    def steepest(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Return sums of numbers, one for each group, as steep as v in the middle of the ends of x - m."""
        low, high = (_split(end, (-1, self.group)) for end in (lower, upper))
        return ((low + high) / self.group @ self.centring(low)).detach()

    def relax(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], sums: tuple[Tensor, Tensor] | None = None
    ) -> RootPlanes:
        """Return planes of the product c_i r with r = 1 / sqrt(v + ε), and of r, from the ends of c = x - m.

        ``sums`` are the ends of what `steepest` asks for: a bound of v, beside the one from the ends of each c_i.
        """
        import torch

        low, high, least, most = self._squares(*(_split(end[0], (-1, self.group)) for end in (lower, upper)))
        both, p = low + high, (low + high) / 2
        chord = -low * high  # c² is at most both c + chord
        ends = least.mean(-1), most.mean(-1)
        if sums is not None:
            ends = ends[0].maximum(sums[0] - p.square().mean(-1)), ends[1].minimum(sums[1] + chord.mean(-1))
        roots = [(end + self.epsilon).sqrt() for end in ends]
        r_low, r_high = 1 / roots[1], 1 / roots[0]
        q, q_off = (r_low + r_high) / 2, (r_high - r_low) / 2
        at = (both * p + chord).mean(-1).maximum(ends[0]).minimum(
            ends[1]
        ) + self.epsilon  # the tangent of r touches here
        falls = 0.5 * at**-1.5, 1 / (roots[0] * roots[1] * (roots[0] + roots[1]))
        tops = 1.5 * at.rsqrt(), (r_high + falls[1] * ends[0]).maximum(r_low + falls[1] * ends[1])
        by = torch.stack([-falls[0][..., None] * both, -falls[1][..., None] * both], dim=-2) / self.group
        above = chord.mean(-1) + self.epsilon, -p.square().mean(-1)
        constant = torch.stack([top - fall * mean for top, fall, mean in zip(tops, falls, above, strict=True)], dim=-1)
        off = (high - low) / 2 * q_off[..., None]
        flat = self._ends(low, high, least, most)
        usable = off + p.abs() * q_off[..., None] < flat[1] - flat[0]
        return RootPlanes(p, q, off, by, constant, *flat, usable, self.centred)

    @property
    def entry(self) -> dict[str, Any]:
        """Its size and numbers."""
        return {"kind": self.kind, "size": self.group, "epsilon": self.epsilon, "centred": self.centred}

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Normalise:
        """Return the normalisation with this size and these numbers."""
        return cls(int(entry["size"]), float(entry["epsilon"]), entry["centred"] is True)

    def _spread(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the ends of x_i - m, and those of their squares, ``(..., groups, group)``."""
        low, high = (_split(end, (-1, self.group)) for end in (lower, upper))
        if self.centred:
            sums = low.sum(-1, keepdim=True), high.sum(-1, keepdim=True)
            low, high = low - (sums[1] - high + low) / self.group, high - (sums[0] - low + high) / self.group
        return self._squares(low, high)

    def _squares(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the ends of x_i - m, and those of their squares."""
        most = low.square().maximum(high.square())
        return low, high, low.clamp(min=0).square() + high.clamp(max=0).square(), most

    def _ends(self, low: Tensor, high: Tensor, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        import torch

        n, found = self.group, []
        others = [(squares.sum(-1, keepdim=True) - squares).clamp(min=0) / n for squares in (least, most)]
        for c, outward in ((low, low < 0), (high, high > 0)):
            square = c.square() / n
            near = others[0].maximum(square / (n - 1)) if self.centred and n > 1 else others[0]
            found.append(c * (square + torch.where(outward, near, others[1]) + self.epsilon).rsqrt())
        return found[0], found[1]


Planes = ProductPlanes | GroupPlanes | RootPlanes

PLANAR = (Product, Softmax, Normalise)
"""The operations that have planes: `relax`."""

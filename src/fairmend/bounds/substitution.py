"""Backward substitution in float64 with every rounding error accounted for, for `rigorous`.

Linear functions of a node are turned into linear functions of the inputs, from node to node in reverse order.
Coefficients stay as computed and are added where paths meet; one slack per row collects everything that rounding lost:
at every step,

    true value >= sum over the nodes reached of A·h(x)  +  c - slack     for every x in the box.

The slopes of the lines that enclose a function are free: any numbers give a sound bound, and good ones a tight bound.
`enclosure` states the assumptions about rounding. On a GPU the same program runs in float64 with PyTorch
(`fairmend.base.device`): what it accounts for holds for any order of summation, fused or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.device import current_device
from fairmend.bounds.either import (
    as_array,
    downwards,
    is_finite,
    larger,
    negative_part,
    on_device,
    positive_part,
    select,
    split_columns,
    zeros,
)
from fairmend.bounds.enclosure import TINY, Interval, gamma
from fairmend.bounds.pieces import max_entries, used_columns
from fairmend.network import Activation, Affine, Network
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Operation, Scale, Sum

_STARTS = (Input, Lookup)


class Rows(NamedTuple):
    """Linear functions of a node's units; the first axis has length 1 if all pieces share them.

    A ``(pieces, rows, units)``, c and slack ``(pieces, rows)``.
    """

    A: Floats
    c: Floats
    slack: Floats


class Layer(NamedTuple):
    """An affine layer: ``magnitude (pieces, units)`` bounds its outputs z, and |weight| |h| + |bias| for its inputs h.

    ``floor (pieces, 1)`` bounds everything that underflow can take away in the substitution.
    """

    weight: Floats
    bias: Floats
    magnitude: Floats
    floor: Floats


class Lines(NamedTuple):
    """Lines ``(pieces, units)`` below and above a function, slope and intercept of each."""

    lower_slope: Floats
    lower_intercept: Floats
    upper_slope: Floats
    upper_intercept: Floats


@dataclass
class Known:
    """What is known about some pieces: the interval of each node so far, and what a substitution needs of it."""

    network: Network
    box: Interval
    intervals: list[Interval] = field(default_factory=list)
    layers: dict[int, Layer] = field(default_factory=dict)
    lines: dict[int, Lines] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Remember what is copied to a device."""
        self._copies: dict[int, tuple[Floats, Floats]] = {}

    def on(self, device: Any) -> Known:
        """Return the same in tensors of a device; what was copied there before is not copied again."""
        moved = Known(self.network, self._moved(self.box, device))
        moved.intervals = [self._moved(interval, device) for interval in self.intervals]
        moved.layers = {i: Layer(*self._moved(layer, device)) for i, layer in self.layers.items()}
        moved.lines = {i: Lines(*self._moved(lines, device)) for i, lines in self.lines.items()}
        return moved

    def _moved(self, arrays: tuple[Floats, ...], device: Any) -> Any:
        for array in arrays:
            if id(array) not in self._copies:  # kept with its copy, so that its id stays its own
                self._copies[id(array)] = array, on_device(array, device)
        return tuple(self._copies[id(array)][1] for array in arrays)


def both_signs(weight: FloatArray, bias: FloatArray) -> Rows:
    """Return a layer's outputs and their negatives as rows: lower bounds of both give upper bounds as well."""
    A, c = (np.concatenate([part, -part]).astype(np.float64)[None] for part in (weight, bias))
    return Rows(A, c, np.zeros_like(c))


def lower_bounds(rows: Rows, node: int, known: Known) -> Floats:
    """Return lower bounds ``(pieces, rows)`` of linear functions of a node.

    Each is the better of interval arithmetic and backward substitution. Rows are processed in batches to save memory.
    """
    pieces = len(known.box[0])
    count = rows.A.shape[1]
    bounds = np.empty((pieces, count))
    step = max(1, max_entries() // (pieces * max(known.network.widths[: node + 1])))
    device = current_device()
    here = known if device is None else known.on(device)

    def bound(part: slice) -> None:
        group = _rows_on(device, Rows(rows.A[:, part], rows.c[:, part], rows.slack[:, part]))
        found = over_box(group, *here.intervals[node])
        if not isinstance(known.network.nodes[node].operation, _STARTS):
            found = larger(found, over_box(_Substitution(group, node, here).run(), *here.box))
        bounds[:, part] = as_array(found)

    if device is None:
        for start in range(0, count, step):
            bound(slice(start, start + step))
    else:
        from fairmend.base.gpu import run_in_parts

        run_in_parts(count, step, bound, "bounds of units")
    return bounds


def _rows_on(device: Any, rows: Rows) -> Rows:
    return rows if device is None else Rows(*(on_device(part, device) for part in rows))


def lower_forms(rows: Rows, node: int, known: Known) -> Rows:
    """Return linear functions of the inputs that are below linear functions of a node, for every x in the box.

    The value of a row at x, less its slack, is a lower bound if the row is evaluated exactly.
    """
    device = current_device()
    if device is None:
        return _Substitution(rows, node, known).run()
    found = _Substitution(_rows_on(device, rows), node, known.on(device)).run()
    return Rows(*(as_array(part) for part in found))


def over_box(rows: Rows, lower: Floats, upper: Floats) -> Floats:
    """Return lower bounds ``(pieces, rows)`` of rows over boxes ``(pieces, units)``; -inf if numbers overflow."""
    least = rows.c + (_dot(positive_part(rows.A), lower) + _dot(negative_part(rows.A), upper))
    loss = abs(rows.c) + _dot(abs(rows.A), _largest(lower, upper))
    slack = rows.slack + gamma(rows.A.shape[2] + 4) * loss + TINY
    bound = downwards(least - slack)
    return select(is_finite(least) & is_finite(slack), bound, -np.inf)


def _largest(lower: Floats, upper: Floats) -> Floats:
    """Return the largest absolute value in an interval, as `enclosure.largest`."""
    return larger(abs(lower), abs(upper)) + TINY


def _dot(A: Floats, v: Floats) -> Floats:
    """Return A ``(1 or pieces, rows, units)`` times v ``(pieces, units)``: ``(pieces, rows)``."""
    product: Floats = v @ A[0].T if len(A) == 1 else (A @ v[:, :, None])[:, :, 0]
    return product


class _Substitution:
    """Linear functions on their way from a node to the inputs.

    ``carried`` holds the coefficients of the nodes reached so far. If an entry of these or of c overflows, the slack or
    c stays infinite or NaN.
    """

    def __init__(self, rows: Rows, node: int, known: Known) -> None:
        self.known, self.node = known, node
        self.carried = {node: rows.A}
        self.c, self.slack = rows.c, rows.slack
        self.pending: dict[int, Floats] = {}

    def run(self) -> Rows:
        """Return the functions of the inputs."""
        nodes = self.known.network.nodes
        for i in range(self.node, 0, -1):
            if i in self.carried:
                self._substitute(i, nodes[i].operation, nodes[i].sources)
        A = self.carried.get(0)
        if A is None:  # constant over the box
            A = zeros((1, self.c.shape[1], self.known.network.inputs), self.c)
        return Rows(A, self.c, self.slack)

    def _substitute(self, i: int, operation: Operation, sources: tuple[int, ...]) -> None:
        A = self.carried.pop(i)
        if isinstance(operation, Activation):
            self._function(i, sources[0], A)
        elif isinstance(operation, Affine):
            self._affine(i, sources[0], A)
        elif isinstance(operation, Scale):
            self._scale(operation, sources[0], A)
        elif isinstance(operation, Sum):
            for source in sources:
                self._carry(source, A)
        elif isinstance(operation, Concatenate):
            ends = np.cumsum([self.known.network.widths[source] for source in sources]).tolist()
            for source, part in zip(sources, split_columns(A, ends[:-1]), strict=True):
                self._carry(source, part)
        elif isinstance(operation, Columns):
            self._columns(operation, sources[0], A)
        elif isinstance(operation, Lookup):
            self._add_interval(A, *self.known.intervals[i])
        else:
            raise NotImplementedError(f"the rigorous bounds of {operation.kind}")

    def _carry(self, node: int, A: Floats) -> None:
        """Add coefficients of a node. Where paths meet, the sum loses UNIT |A| |h|."""
        if node in self.carried:
            A = self.carried[node] + A
            self.slack = self.slack + gamma(2) * _dot(abs(A), self._largest(node))
        self.carried[node] = A

    def _largest(self, node: int) -> Floats:
        return _largest(*self.known.intervals[node])

    def _function(self, i: int, source: int, A: Floats) -> None:
        """Replace the outputs of f by its inputs z: the lower line where A >= 0, the upper line elsewhere.

        This is sound because they enclose f. Rounding loses

            c + A·intercepts                    gamma(n + 1) times the absolute terms
            A·slope, entry by entry             UNIT |A slope| |z|

        and what underflows. The latter two are left to an affine layer before it that nothing else reads: its
        magnitude bounds |z|.
        """
        lines = self.known.lines[i]
        rising = A >= 0
        parts = A * select(rising, lines.lower_intercept[:, None], lines.upper_intercept[:, None])
        loss = abs(self.c) + abs(parts).sum(2)
        self.c = self.c + parts.sum(2)
        A = A * select(rising, lines.lower_slope[:, None], lines.upper_slope[:, None])
        if source in self.known.layers and self.known.network.readers[source] == 1:
            self.pending[source] = loss
        else:
            sizes = self._largest(source)
            loss += _dot(abs(A), sizes)
            self.slack = self.slack + gamma(A.shape[2] + 4) * loss + TINY * (1 + sizes.sum(1, keepdims=True))
        self._carry(source, A)

    def _affine(self, i: int, source: int, A: Floats) -> None:
        """Replace the outputs z = weight·h + bias by the inputs h. Rounding loses

            c + A·bias                          gamma(n + 1) times the absolute terms
            A·weight                            gamma(n) |A| |weight| |h|, within |A| magnitude

        and what underflows.
        """
        layer = self.known.layers[i]
        used = used_columns(A)
        if used is None:
            weight, bias, magnitude = layer.weight, layer.bias, layer.magnitude
        else:
            A, weight, bias, magnitude = A[:, :, used], layer.weight[used], layer.bias[used], layer.magnitude[:, used]
        n = A.shape[2]
        loss = abs(self.c) + _dot(abs(A), magnitude)
        if i in self.pending:
            loss = self.pending.pop(i) + loss
        self.c = self.c + A @ bias
        flat = A.reshape(A.shape[0] * A.shape[1], n) @ weight  # one large product is faster than one for each piece
        self.slack = self.slack + gamma(len(layer.bias) + 4) * loss + layer.floor
        self._carry(source, flat.reshape(*A.shape[:2], -1))

    def _scale(self, operation: Scale, source: int, A: Floats) -> None:
        """Replace factor·h + shift by h; the losses are those of an affine layer with one product for each unit."""
        factor, shift = (self._like(A, part) for part in (operation.factor, operation.shift))
        sizes = self._largest(source)
        magnitude = sizes * abs(factor) + abs(shift) + TINY
        loss = abs(self.c) + _dot(abs(A), magnitude)
        floor = TINY * (1 + sizes.sum(1, keepdims=True) + magnitude.sum(1, keepdims=True))
        self.slack = self.slack + gamma(A.shape[2] + 4) * loss + floor
        self.c = self.c + A @ shift
        self._carry(source, A * factor)

    def _like(self, A: Floats, array: FloatArray) -> Floats:
        exact = array.astype(np.float64)
        return exact if isinstance(A, np.ndarray) else on_device(exact, A.device)

    def _columns(self, operation: Columns, source: int, A: Floats) -> None:
        """Give each coefficient to the column that it belongs to; those of one column are added."""
        whole = zeros((*A.shape[:2], self.known.network.widths[source]), A)
        if len(set(operation.indices)) == len(operation.indices):
            whole[:, :, list(operation.indices)] = A
        else:
            sizes = zeros(whole.shape, A)
            for position, index in enumerate(operation.indices):
                whole[:, :, index] += A[:, :, position]
                sizes[:, :, index] += abs(A[:, :, position])
            self.slack = self.slack + gamma(A.shape[2] + 4) * _dot(sizes, self._largest(source))
        self._carry(source, whole)

    def _add_interval(self, A: Floats, lower: Floats, upper: Floats) -> None:
        """Add the least value over an interval to c."""
        least = _dot(positive_part(A), lower) + _dot(negative_part(A), upper)
        loss = abs(self.c) + _dot(abs(A), _largest(lower, upper))
        self.c = self.c + least
        self.slack = self.slack + gamma(A.shape[2] + 4) * (loss + abs(self.c)) + TINY

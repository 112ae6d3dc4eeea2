"""What each node of a network is off by in floating-point inference: intervals and errors, forward, for `inference`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, Floats
from fairmend.bounds.sensitivity import Intervals, NodeError, traced_error
from fairmend.network import Activation, Affine, Network
from fairmend.network.folding import Fold
from fairmend.network.functions.base import NARROW, SLACK, Precision, size_of
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Operation, Scale, Sum

_FOLDING = 8  # roundings of a layer beside its products, and of what is folded into it
_SCALED = 2.0**120  # by more, scalings in a row do not fit into one number of float32
_ENDINGS = {"hardswish": 6.0, "gelu": 2.0, "gelu_tanh": 2.0}  # by how much these divide in the last of several steps


class RunningError:
    """The errors of the nodes over some boxes ``(pieces, inputs)``; see `inference_error` for the arguments.

    ``roundings`` is ``(pieces, 1)``.
    """

    def __init__(
        self,
        network: Network,
        box: Intervals,
        precision: Precision,
        layers: Sequence[Intervals] | None,
        thorough: bool,
        roundings: Floats,
    ) -> None:
        self.network, self.box, self.precision = network, box, precision
        self.layers, self.thorough, self.roundings = layers, thorough, roundings
        self.found: list[NodeError] = []
        self._nonlinear: list[bool] = []  # whether a function is behind the node
        self._sums: dict[int, _Terms] = {}  # the terms of each sum
        self._ends, self._too_far = _scalings(network)

    def run(self) -> list[NodeError]:
        """Return all nodes, the head last; of the head, only what it loses itself."""
        readers: dict[int, list[int]] = {}
        for number, function in enumerate(self.network.functions):
            readers.setdefault(self.network.nodes[function].sources[0], []).append(number)
        for i, node in enumerate(self.network.nodes[:-1]):
            behind = any(self._nonlinear[source] for source in node.sources)
            self.found.append(self._limited(i, self._compute(node.operation, node.sources)))
            self._nonlinear.append(behind or isinstance(node.operation, Activation))
            if i in readers:
                self.found[i] = self._improve(i, readers[i], behind)
        local, overflow = self._lost(self.network.head, self.network.nodes[-1].sources[0])
        last = NodeError((local, local), (local, local), local, local, overflow)
        return [*self.found, self._limited(len(self.found), last)]

    def _limited(self, i: int, found: NodeError) -> NodeError:
        return found._replace(overflow=np.ones_like(found.overflow)) if i in self._too_far else found

    def _improve(self, i: int, functions: list[int], behind: bool) -> NodeError:
        """Return a node that functions read, with a traced error and with the intervals that are given."""
        node = self.found[i]
        error, exact = node.error, node.exact
        if self.thorough and behind:
            width = error.shape[1]
            units = np.broadcast_to(np.eye(width), (len(error), width, width))
            error = np.fmin(error, traced_error(self.network, self.found, i, units))
        if self.layers is not None:
            for number in functions:
                exact = _intersection(exact, self.layers[number])
        if error is node.error and exact is node.exact:
            return node
        return node._replace(exact=exact, computed=(exact[0] - error, exact[1] + error), error=error)

    def _compute(self, operation: Operation, numbers: Sequence[int]) -> NodeError:
        sources = [self.found[number] for number in numbers]
        if isinstance(operation, Input):
            return self._copied(self.box, np.zeros(self.box[0].shape))
        if isinstance(operation, Affine):
            return self._affine(operation, numbers[0])
        if isinstance(operation, Activation):
            return self._function(operation, sources[0])
        if isinstance(operation, Scale):
            return self._scale(operation, sources[0])
        if isinstance(operation, Sum):
            return self._sum(numbers)
        if isinstance(operation, Concatenate):
            low, high, error = (
                np.hstack(parts) for parts in zip(*((*source.exact, source.error) for source in sources), strict=True)
            )
            return self._copied((low, high), error)
        if isinstance(operation, Columns):
            chosen = list(operation.indices)
            low, high = sources[0].exact
            return self._copied((low[:, chosen], high[:, chosen]), sources[0].error[:, chosen])
        if isinstance(operation, Lookup):
            low, high = operation.hull(*(end[:, 0] for end in sources[0].exact))
            row = self._copied((low.astype(np.float64), high.astype(np.float64)), np.zeros(low.shape))
            return row._replace(overflow=~(sources[0].error[:, 0] < 1e-30))  # then it may be another row
        raise NotImplementedError(f"the error of inference of {operation.kind}")

    def _copied(self, exact: Intervals, error: Floats) -> NodeError:
        """Return a node whose numbers are copied; a subnormal one may be taken as 0."""
        local = self.roundings * np.minimum(self.precision.tiny, size_of(*exact) + error)
        return self._node(exact, error + local, local, np.zeros(len(local), np.bool_))

    def _node(self, exact: Intervals, error: Floats, local: Floats, overflow: Bools) -> NodeError:
        return NodeError(exact, (exact[0] - error, exact[1] + error), error, local, overflow)

    def _affine(self, operation: Affine, number: int) -> NodeError:
        weight, bias, source = (
            operation.weight.astype(np.float64),
            operation.bias.astype(np.float64),
            self.found[number],
        )
        summed, overflow = self._lost(operation, number)
        error = (source.error @ np.abs(weight).T + summed) * (1 + SLACK)
        return self._node(affine_image(weight, bias, *source.exact), error, summed, overflow)

    def _lost(self, operation: Affine, number: int) -> tuple[Floats, Bools]:
        """Return what a computed affine layer of a node is off by, given that node, and where it may overflow.

        A program may scale after the product what the node scales: then the sums are larger or smaller by as much.
        """
        computed, scaled = self.found[number].computed, self._ends[number]
        if operation.fold is None:
            summed, overflow = _summation(operation, computed, self.precision, scaled)
        else:
            summed, overflow = _folded_summation(operation.fold, *computed, self.precision, scaled)
        return self.roundings * summed, overflow

    def _function(self, operation: Activation, source: NodeError) -> NodeError:
        function = operation.function
        least, most = source.computed
        slopes = function.slope_range(least, most)
        local = self.roundings * function.rounding(least, most, self.precision)
        least, most = function.wide_image(least, most)
        steepest = slopes[1] if function.increasing else size_of(*slopes)
        # Both values lie in the image, so a unit that is surely off, or saturated, carries little.
        error = (np.minimum(source.error * steepest, most - least) + local) * (1 + SLACK)
        nowhere = np.zeros(len(error), np.bool_)
        exact = function.wide_image(*source.exact)
        return NodeError(exact, (least - local, most + local), error, local, nowhere, slopes)

    def _scale(self, operation: Scale, source: NodeError) -> NodeError:
        """Return a scaling; its steps are off by so many units of the sizes of all its terms.

        ``reach`` bounds every number on the way, and whatever a subnormal number that is taken as 0 is multiplied by.
        """
        line, kind = operation.line, self.precision
        size = size_of(*source.computed)
        count = line.all_roundings(kind.unit) + _FOLDING
        gamma = count * kind.unit / (1 - count * kind.unit)
        reach = (1 + line.reach) * (1 + size + line.size)
        local = self.roundings * (gamma * (size * np.abs(line.factor) + line.size) + 16 * kind.tiny * reach)
        local = local * (1 + SLACK)
        factor, shift = operation.factor.astype(np.float64), operation.shift.astype(np.float64)
        ends = source.exact[0] * factor + shift, source.exact[1] * factor + shift
        slack = NARROW * (size_of(*source.exact) * np.abs(factor) + np.abs(shift))
        exact = np.minimum(*ends) - slack, np.maximum(*ends) + slack
        error = (source.error * np.abs(factor) + local) * (1 + SLACK)
        return self._node(exact, error, local, np.asarray(~(2 * reach < kind.largest).all(axis=1)))

    def _sum(self, numbers: Sequence[int]) -> NodeError:
        """Return a sum; in any order, no partial sum exceeds the sum of all positive or of all negative terms.

        A program may add up the terms of an affine layer, or of a sum, and the other parts in one go (ONNX Runtime
        makes one Gemm of them), so that an addition in the layer is off by as much as one in the sum. What the layer
        counts for it itself is subtracted.
        """
        sources, kind = [self.found[number] for number in numbers], self.precision
        parts = [self._addend(number) for number in numbers]
        additions = np.asarray(len(parts) - 1 + sum(part.additions for part in parts))
        count = (additions + 1) * kind.unit
        gamma = np.where(count < 0.5, count / (1 - count), np.inf)
        above, below = np.sum([part.above for part in parts], axis=0), np.sum([part.below for part in parts], axis=0)
        unit = kind.unit * _binade_of(np.maximum(above, below) * (1 + 2 * gamma) * (1 + SLACK))
        self._sums[len(self.found)] = _Terms(additions, above, below, unit)
        merged = sum(part.additions * np.maximum(unit - part.unit, 0.0) for part in parts)
        rounded = (len(parts) - 1) * unit + merged + 2 * len(parts) * kind.tiny
        local = self.roundings * np.where(above + below == 0, 0.0, rounded) * (1 + SLACK)
        error = (np.sum([source.error for source in sources], axis=0) + local) * (1 + SLACK)
        low, high = (np.sum([source.exact[side] for source in sources], axis=0) for side in (0, 1))
        slack = NARROW * np.sum([size_of(*source.exact) for source in sources], axis=0)
        overflow = np.asarray(~((above + below) * (1 + 2 * gamma) * (1 + SLACK) < kind.largest).all(axis=1))
        return self._node((low - slack, high + slack), error, local, overflow)

    def _addend(self, number: int) -> _Terms:
        """Return the terms that a node brings into a sum: those of an affine layer or of a sum, or the node itself.

        A sum that several nodes read is computed by itself.
        """
        node, (least, most) = self.network.nodes[number], self.found[number].computed
        above, below = np.maximum(most, 0.0), np.maximum(-least, 0.0)
        if isinstance(node.operation, Affine):
            terms = _terms_of(node.operation, self.found[node.sources[0]].computed, self.precision)
        elif number in self._sums and self.network.readers[number] == 1:
            terms = self._sums[number]
        else:
            return _Terms(np.zeros((1, 1)), above, below, np.zeros((1, 1)))
        return terms._replace(above=np.maximum(terms.above, above), below=np.maximum(terms.below, below))


def scaled_too_far(network: Network) -> set[int]:
    """Return the nodes that multiply or divide, with the scalings right before them, by more than float32 can hold."""
    return _scalings(network)[1]


def _scalings(network: Network) -> tuple[list[float], set[int]]:
    """Return by how much the scalings that each node ends with multiply or divide, and the nodes where it is too much.

    ONNX Runtime makes one factor in float32 of all scalings beside a product with a matrix, also of those that other
    nodes read as well, and multiplies after the product. If the factor is too small for float32, it is 0.
    """
    ends = [1.0] * len(network.nodes)
    found = set()
    for i, node in enumerate(network.nodes):
        scaled = ends[node.sources[0]] if node.sources else 1.0
        if isinstance(node.operation, Scale):
            scaled = ends[i] = scaled * float(node.operation.line.reach.max())
        elif isinstance(node.operation, Affine) and node.operation.fold is not None:
            before, ends[i] = (float(line.reach.max()) for line in node.operation.fold.lines())
            scaled *= before * ends[i]
        elif isinstance(node.operation, Activation):
            ends[i] = _ENDINGS.get(node.operation.name, 1.0)
        if scaled > _SCALED:
            found.add(i)
    return ends, found


class _Terms(NamedTuple):
    """Terms that are added up: how many additions, the sums of all positive and of all negative terms.

    ``unit`` is how far each addition is off by itself.
    """

    additions: Floats
    above: Floats
    below: Floats
    unit: Floats


def _terms_of(operation: Affine, inputs: Intervals, kind: Precision) -> _Terms:
    """Return the terms of an affine layer; those that are surely 0 are added without an error.

    With P the sum of all positive and N that of all negative terms in size, every partial sum lies in [-N, P]. Each
    addition is off by at most half a unit in the last place of max(P, N). The factor 1 + 2 gamma is for the errors in
    the partial sums (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
    """
    least, most = inputs
    if operation.fold is not None:
        left = _sizes_of(operation.fold, size_of(least, most))
        return _Terms(np.full((1, 1), operation.weight.shape[1] + 1.0), left, left, kind.unit * left)
    weight, bias = operation.weight.astype(np.float64), operation.bias.astype(np.float64)
    above, below = np.maximum(most, 0.0), np.maximum(-least, 0.0)
    both = (above + below) @ np.abs(weight).T + np.abs(bias)  # P + N
    apart = (above - below) @ weight.T + bias  # P - N
    additions = np.count_nonzero(size_of(least, most), axis=1)[:, None]  # the bias is a term as well
    gamma = (additions + 1) * kind.unit / (1 - (additions + 1) * kind.unit)
    positive, negative = ((both + sign * apart) / 2 + SLACK * both for sign in (1, -1))
    unit = kind.unit * _binade_of(np.maximum(positive, negative) * (1 + 2 * gamma))
    return _Terms(additions, positive, negative, unit)


def _binade_of(numbers: Floats) -> Floats:
    """Return the largest powers of 2 up to these numbers; 0 for 0."""
    return np.asarray(np.minimum(numbers, np.ldexp(1.0, np.frexp(numbers)[1] - 1)))


def affine_image(weight: Floats, bias: Floats, low: Floats, high: Floats) -> Intervals:
    """Return the interval of an affine layer's outputs, wide enough for every rounding."""
    magnitude = np.abs(weight).T
    middle, spread = (low + high) / 2 @ weight.T + bias, (high - low) / 2 @ magnitude
    slack = (size_of(low, high) @ magnitude + np.abs(bias)) * (NARROW + 16 * (len(magnitude) + 1) * 2.0**-53)
    return middle - spread - slack, middle + spread + slack


def _summation(operation: Affine, inputs: Intervals, kind: Precision, scaled: float) -> tuple[Floats, Bools]:
    """Return how far a computed affine layer is from the exact one of the same inputs, and where it may overflow.

    Additions are off as `_terms_of` says, and products by u (P + N) together.
    """
    terms, size = _terms_of(operation, inputs, kind), size_of(*inputs)
    both = terms.above + terms.below
    count = (size.shape[1] + 1) * kind.unit
    flushed = kind.tiny * scaled * (size.sum(axis=1, keepdims=True) + 4 * (size.shape[1] + 1))
    summed = (terms.additions * terms.unit + kind.unit * both + flushed) * (1 + SLACK)
    fits = (scaled * both * (1 + 2 * count / (1 - count)) + flushed) * (1 + SLACK) < kind.largest
    return summed, ~(fits.all(axis=1) & (size < kind.largest).all(axis=1))


def _sizes_of(fold: Fold, size: Floats) -> Floats:
    """Return the sizes of all terms of a layer and the norms beside it, of inputs of these sizes."""
    inner, outer = fold.lines()
    total = (size * np.abs(inner.factor) + inner.size) @ np.abs(fold.weight.astype(np.float64)).T + fold.bias_size
    return np.asarray(total * np.abs(outer.factor) + outer.size)


def _folded_summation(fold: Fold, least: Floats, most: Floats, kind: Precision, scaled: float) -> tuple[Floats, Bools]:
    """Do the same for a layer that a program computes with the norms beside it, or with the norms folded into it.

    Every step is off by so many units of the sizes of all its terms, and the folded numbers are rounded once more.
    ``reach`` bounds every number on the way, and whatever a subnormal number that is taken as 0 is multiplied by.
    """
    inner, outer = fold.lines()
    weight = np.abs(fold.weight.astype(np.float64))
    size = size_of(least, most)
    norms = inner.all_roundings(kind.unit) + outer.all_roundings(kind.unit)
    count = weight.shape[1] + norms + fold.extra_roundings + _FOLDING
    gamma = count * kind.unit / (1 - count * kind.unit)
    beside = (1 + inner.reach.max()) * (1 + outer.reach.max()) * (1 + weight.sum(axis=1) + fold.bias_size)
    wide = size * inner.reach + inner.size
    reach = scaled * beside * (1 + weight.shape[1] + wide.sum(axis=1, keepdims=True)) + outer.size
    lost = gamma * _sizes_of(fold, size) + 16 * kind.tiny * reach
    return lost * (1 + SLACK), ~(2 * reach < kind.largest).all(axis=1)


def _intersection(first: Intervals, second: Intervals) -> Intervals:
    """Return the intersection of intervals; the second ones are rounded by others, and widened for that."""
    low, high = second
    slack = NARROW * (np.abs(low) + np.abs(high))
    return np.fmax(first[0], low - slack), np.fmin(first[1], high + slack)

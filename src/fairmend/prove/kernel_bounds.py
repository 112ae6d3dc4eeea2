"""Margins and scores of a network, as the kernel bounds them at points and over boxes.

With several logits, the margin of a class is its logit minus the largest other logit. With a single logit f, it is f
for class 1 and -f for class 0. A tie is class 1: the network predicts class 1 if f >= 0. At a threshold other than 1/2,
the log-odds of the threshold are taken from the margin of class 1 and added to that of class 0. A score is what a claim
about scores compares: a raw output, the sigmoid of one output, or the softmax of several.

Bounds hold in real arithmetic, for the weights as stored; errors are those of inference in the network's own precision.
Nothing here is computed by another arithmetic than the kernel's, but for exact rationals and for inference itself.

A network as the kernel's model: the one that the checker reads from the file that the network is saved to.

Everything that fairmend calls proven is decided by `fairmend_check.kernel`, about this model, which the kernel makes of
the steps and tensors that a certificate has. The readers of files are written twice, here and in the checker; tests
compare what both make of the same files.

`exact_classes` is for the few points of piecewise linear networks that are too close to a tie for float64 bounds. Every
float is a whole number times a power of two, and so are sums and products of floats, so nothing is rounded.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.network import DEFAULT_THRESHOLD, Activation, Lookup, Model, Network, Operation, predicted_classes
from fairmend.network.decision import lower_margins, reaches, upper_margins
from fairmend.network.description import stored_steps
from fairmend.network.rescaling import Scaling
from fairmend.spec import Claim
from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import Intervals, form_bounds, interval_layers, leads
from fairmend_check.kernel.claim import Score, Threshold
from fairmend_check.kernel.description import described_model
from fairmend_check.kernel.functions import Activation as KernelActivation
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Model as KernelModel
from fairmend_check.kernel.regions import Boxes, box_margins
from fairmend_check.kernel.rescaling import Clip as KernelClip
from fairmend_check.kernel.rescaling import Rescaling as KernelRescaling
from fairmend_check.kernel.rescaling import Scaling as KernelScaling
from fairmend_check.kernel.rounding import Precision, down, up

_Exact = tuple[npt.NDArray[np.object_], int]
"""Python integers of any size, and the exponent of the power of two that multiplies them."""


def is_piecewise_linear(net: Network) -> bool:
    """Return whether every operation is made of lines, as far as exact arithmetic knows them."""
    return all(has_lines(node.operation) for node in net.nodes)


def has_lines(operation: Operation) -> bool:
    """Return whether an operation is linear, a look-up, or a function of lines: ReLU, leaky ReLU, a clip, …"""
    if isinstance(operation, Activation):
        return operation.piecewise_linear
    return operation.linear or isinstance(operation, Lookup)


def exact_classes(net: Network, points: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.int64]:
    """Return the class (n,) of each point (n, inputs) in real arithmetic; the network must be piecewise linear."""
    found = [_exact(points)]
    for node in net.nodes[1:]:
        found.append(_compute(node.operation, [found[source] for source in node.sources]))
    h = found[-1]
    if net.threshold == DEFAULT_THRESHOLD:
        return predicted_classes(h[0])
    leads, scale = h[0][:, -1] - (h[0][:, 0] if net.outputs == 2 else 0), Fraction(2) ** h[1]
    return np.array([reaches(int(lead) * scale, net.threshold) for lead in leads], dtype=np.int64)


def _compute(operation: Operation, sources: list[_Exact]) -> _Exact:
    """Return an operation on exact numbers ``(points, units)``."""
    h = sources[0]
    if isinstance(operation, Activation):
        return _activate(operation, h)
    if isinstance(operation, Lookup):
        indices = np.array([[float(Fraction(int(whole)) * Fraction(2) ** h[1])] for whole in h[0][:, 0]])
        return _exact(operation.table[operation.indices(indices)])
    least = min(exponent for _, exponent in sources)
    wholes = [whole * (1 << (exponent - least)) for whole, exponent in sources]
    numbers = operation.numbers(np.empty(0))
    if numbers is None:
        return operation.combine(wholes), least
    (factor, exponent), shift = (_exact(part) for part in numbers)
    return _add((operation.combine(wholes, (factor, shift[0])), least + exponent), shift)


def _exact(values: npt.NDArray[np.floating[Any]]) -> _Exact:
    mantissa, exponent = np.frexp(values.astype(np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    exponent = np.where(whole == 0, 0, exponent.astype(np.int64) - 53)
    least = int(exponent[whole != 0].min(initial=0)) if (whole != 0).any() else 0
    shift = np.where(whole == 0, 0, exponent - least)
    return whole.astype(object) * np.left_shift(np.ones(whole.shape, dtype=object), shift.astype(object)), least


def _add(first: _Exact, second: _Exact) -> _Exact:
    (one, other), least = _aligned(first, second)
    return one + other, least


def _aligned(first: _Exact, second: _Exact) -> tuple[tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]], int]:
    """Return the whole numbers of both, times the same power of two."""
    least = min(first[1], second[1])
    return (first[0] * (1 << (first[1] - least)), second[0] * (1 << (second[1] - least))), least


def _activate(activation: Activation, z: _Exact) -> _Exact:
    """Return the function of z: the lines of its pieces one after the other, each the maximum or minimum of two."""
    first, *others = activation.function.lines
    slope, value = np.asarray(first[0]), _line(*first, z)
    for line in others:
        (now, then), least = _aligned(value, _line(*line, z))
        value = np.where(np.asarray(line[0]) >= slope, np.maximum(now, then), np.minimum(now, then)), least
        slope = np.asarray(line[0])
    return value


def _line(slope: npt.ArrayLike, intercept: float, z: _Exact) -> _Exact:
    factor, exponent = _exact(np.atleast_1d(np.asarray(slope, np.float64)))
    product = z[0] * factor, z[1] + exponent
    return product if intercept == 0 else _add(product, _exact(np.array([intercept])))


_EXACT_WORK = 20_000_000  # multiplications in exact arithmetic for one batch of points: a few seconds
_NUMBERS = 2**21  # in an array of all nodes, of the points that are bounded at once
_ROUNDING_FACTOR, _UNDERFLOW = 64, 1e-280  # what bounds over a box lose, in terms of those at its ends


def require_scores(net: Model, claim: Claim) -> None:
    """Raise an error if the network does not give the scores that a claim is about."""
    if claim.on == "output" and net.closing != "none":
        raise FairmendError(
            f'the spec claims the output of the network, which ends in a {net.closing}. Set on = "probability" or '
            '"logit" in [claim].'
        )


def compute_margins(net: Network, points: FloatArray, classes: Ints) -> tuple[Bools, Floats]:
    """Return where inference at points (n, width) predicts other classes than these (n,), and their margins (n,)."""
    return margins_of(net, net.logits(points), classes)


def margins_of(net: Network, logits: FloatArray, classes: Ints) -> tuple[Bools, Floats]:
    """Return the same for the outputs of inference, logits (n, outputs) or (n,)."""
    if net.outputs == 1:
        value = logits.astype(np.float64)
        margin = np.where(classes == 1, value, -value)
    else:
        margin = _lead(logits.astype(np.float64), logits.astype(np.float64), classes)
    return net.decide(logits) != classes, lower_margins(margin, classes, net.threshold)


class KernelBounds:
    """The kernel's bounds of one network; those of scores are of the score that ``on`` names."""

    def __init__(self, net: Network, on: str | None = None) -> None:
        self.net, self.model = net, kernel_model(net)
        self._threshold = Threshold.of(net.threshold, net.dtype.name, self.model.slack)
        self._kind = Precision.of(net.dtype.name)
        probability = "sigmoid" if net.outputs == 1 else "softmax"
        self._score = Score(probability if on == "probability" else "output", net.outputs, self.model.slack)

    def margin_error(
        self, lower: FloatArray, upper: FloatArray, classes: Ints, margins: Floats | None = None
    ) -> Floats:
        """Return how far margins of classes (n,) from inference can be from the real ones over boxes (n, width): (n,).

        A difference of two logits is rounded once more. It exceeds the error after that only if it did before. With
        ``margins`` (n,), boxes where these exceed the error over all boxes together have that one, which costs little.
        """
        low, high = _wide(lower), _wide(upper)
        if margins is not None and len(low) > 1:
            kinds, kind = np.unique(classes, return_inverse=True)
            least, most = (np.repeat(end[None], len(kinds), axis=0) for end in (low.min(axis=0), high.max(axis=0)))
            found = self.margin_error(least, most, kinds)[kind]
            close = np.flatnonzero(~(margins > found))
            found[close] = self.margin_error(low[close], high[close], classes[close])
            return found
        found = np.empty(len(low))
        for part in self._parts(len(low)):
            nodes = self._intervals(low[part], high[part])
            forms = leads(self.model, classes[part])
            found[part] = output_errors(self.model, low[part], high[part], nodes, forms).max(axis=1)
        return found

    def closing_error(self, classes: Ints) -> Floats:
        """Return which margin of classes (n,) a closing sigmoid or softmax may lose: (n,)."""
        return self._threshold.closing(classes)

    def box_margins(self, lower: FloatArray, upper: FloatArray, classes: Ints) -> tuple[Floats, Bools]:
        """Return lower bounds of the margins of classes (n,) over boxes (n, width), and where they cover inference."""
        boxes = Boxes(np.arange(len(lower)), _wide(lower), _wide(upper))
        bound, excess, _ = box_margins(self.model, self._threshold, classes, boxes, -np.inf, halvings=0)
        return bound, excess > 0

    def proves_class(self, margin: Floats, classes: Ints) -> Bools:
        """Return where a lower bound of the margin (n,) proves the class; a single logit of 0 is class 1."""
        tie = (margin == 0) & (classes == 1) if self.net.outputs == 1 else np.zeros(len(margin), np.bool_)
        return np.asarray((margin > 0) | tie)

    def rounding_slack(self, lower: FloatArray, upper: FloatArray) -> Floats:
        """Return about how close to 0 (n,) a margin may be for float64 bounds over each box to tell its sign."""
        widths = [np.subtract(*self._outputs(_wide(end))[::-1]).max(axis=1) for end in (lower, upper)]
        offset = abs(self.net.offset) * float(np.finfo(np.float64).eps)
        return np.asarray(_ROUNDING_FACTOR * (np.maximum(*widths) + offset) + _UNDERFLOW)

    def point_margins(self, points: FloatArray, classes: Ints) -> tuple[Floats, Floats]:
        """Return lower and upper bounds (n,) of the real margins of classes (n,) at points (n, width)."""
        lower, upper = self._outputs(_wide(points))
        if self.net.outputs == 1:
            least = np.where(classes == 1, lower[:, 0], -upper[:, 0])
            most = np.where(classes == 1, upper[:, 0], -lower[:, 0])
        else:
            least, most = down(_lead(lower, upper, classes)), up(_lead(upper, lower, classes))
        threshold = self.net.threshold
        return lower_margins(least, classes, threshold), upper_margins(most, classes, threshold)

    def proven_at_points(self, points: FloatArray, classes: Ints, margins: tuple[Floats, Floats]) -> Bools:
        """Return where points (n, width) of these `point_margins` provably have the classes (n,) in real arithmetic."""
        least, most = margins
        proven = self.proves_class(least, classes)
        close = np.flatnonzero(~proven & (most >= 0))
        if len(close) and is_piecewise_linear(self.net):
            weights = sum(affine.weight.size for affine in self.net.affines)
            close = close[: max(2, _EXACT_WORK // weights)]  # 2: the pair of a witness
            proven[close] = exact_classes(self.net, points[close]) == classes[close]
        return proven

    def output_error(self, lower: FloatArray, upper: FloatArray, roundings: int = 1) -> Floats:
        """Return how far each raw output of inference can be from the real one over boxes (n, width): (n, outputs).

        ``roundings`` is for a program that rounds so many times as much in every step.
        """
        kind = Precision(roundings * self._kind.u, self._kind.largest, roundings * self._kind.tiny)
        low, high = _wide(lower), _wide(upper)
        found = np.empty((len(low), self.net.outputs))
        for part in self._parts(len(low)):
            nodes = self._intervals(low[part], high[part])
            each = self._each(len(nodes[0][0]))
            found[part] = output_errors(self.model, low[part], high[part], nodes, each, kind=kind)
        return found

    def exact_scores(self, points: FloatArray) -> tuple[Floats, Floats]:
        """Return bounds of each score in real arithmetic at points (n, width): each (n, outputs)."""
        low, high = self._score.from_outputs(*self._outputs(_wide(points)))
        return self._score.in_inference(low, high, np.zeros_like(low), None)

    def computed_scores(self, points: FloatArray, error: Floats | None = None) -> tuple[Floats, Floats]:
        """Return bounds of each score that inference may give at points (n, width): each (n, outputs).

        ``error`` bounds that of the raw outputs, if it is known.
        """
        low, high = self._score.from_outputs(*self._outputs(_wide(points)))
        return self._score.in_inference(
            low, high, self.output_error(points, points) if error is None else error, self._kind
        )

    def box_scores(self, lower: FloatArray, upper: FloatArray) -> tuple[Floats, Floats]:
        """Return bounds of each score that inference may give over boxes (n, width): each (n, outputs)."""
        low, high = _wide(lower), _wide(upper)
        forms = np.broadcast_to(self._score.forms, (len(low), *self._score.forms.shape))
        bounds, nodes = form_bounds(self.model, forms, low, high)
        error = output_errors(self.model, low, high, nodes, self._each(len(low)), thorough=True)
        return self._score.in_inference(*self._score.from_forms(bounds), error, self._kind)

    def box_probabilities(self, lower: FloatArray, upper: FloatArray) -> tuple[Floats, Floats, Floats]:
        """Return bounds of each probability in real arithmetic over boxes (n, width), and margins of each class.

        They are the sigmoid of one output, (n, 1), or the softmax of several, (n, outputs); margins are (n, classes).
        """
        low, high = _wide(lower), _wide(upper)
        score, count = self._score, self.net.outputs
        least, _ = form_bounds(self.model, np.broadcast_to(score.forms, (len(low), *score.forms.shape)), low, high)
        if count == 1:
            ahead = least[:, ::-1]
        else:
            ahead = np.where(np.eye(count, dtype=np.bool_), np.inf, least.reshape(-1, count, count)).min(axis=2)
        bounds = score.in_inference(*score.from_forms(least), np.zeros(1), None)
        return *bounds, lower_margins(ahead, np.arange(ahead.shape[1]), self.net.threshold)

    def function_intervals(self, lower: FloatArray, upper: FloatArray) -> Intervals:
        """Return intervals of what each elementwise function reads over boxes (n, width): each (n, units)."""
        low, high = _wide(lower), _wide(upper)
        _, nodes = form_bounds(self.model, self._each(len(low)), low, high)
        return [nodes[source] for source in self._function_sources]

    @cached_property
    def _function_sources(self) -> list[int]:
        return [node.sources[0] for node in self.model.nodes if isinstance(node.operation, KernelActivation)]

    def _each(self, count: int) -> Floats:
        return np.broadcast_to(np.eye(self.net.outputs), (count, self.net.outputs, self.net.outputs))

    def _outputs(self, points: Floats) -> tuple[Floats, Floats]:
        """Enclose the raw outputs at points."""
        low, high = np.empty((2, len(points), self.net.outputs))
        for part in self._parts(len(points)):
            low[part], high[part] = self._intervals(points[part], points[part])[-1]
        return low, high

    def _intervals(self, lower: Floats, upper: Floats) -> Intervals:
        with np.errstate(all="ignore"):
            return interval_layers(self.model, lower, upper)

    def _parts(self, count: int) -> list[slice]:
        step = max(1, _NUMBERS // sum(self.model.widths))
        return [slice(start, start + step) for start in range(0, count, step)]


def _wide(array: FloatArray) -> Floats:
    return np.asarray(array, dtype=np.float64)


def _lead(own: Floats, others: Floats, classes: Ints) -> Floats:
    """Return the class's entry in `own` minus the largest entry of another class in `others`, both (n, outputs)."""
    each = np.arange(len(classes))
    rest = others.copy()
    rest[each, classes] = -np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        lead = own[each, classes] - rest.max(axis=1)
    return np.where(np.isnan(lead), -np.inf, lead)


def kernel_model(network: Network) -> KernelModel:
    """Return the model of a network; refuse one that is too large for the kernel."""
    try:
        model, _ = described_model(*stored_steps(network))
    except CheckError as error:
        raise FairmendError(f"nothing can be proven about this network: {error}") from error
    closing = "" if network.closing == "none" else network.closing
    return replace(model, closing=closing, rescaling=_kernel_rescaling(network))


def _kernel_rescaling(network: Network) -> KernelRescaling | None:
    """Return how the kernel bounds the scores of a network: at least the errors of a plain rescaling."""
    given, dtype = network.rescaling, network.dtype.name
    if given is None:
        return None
    steps = [
        KernelScaling(step.factor, step.shift, step.size)
        if isinstance(step, Scaling)
        else KernelClip(step.least, step.most)
        for step in given.steps
    ]
    try:
        return KernelRescaling.of(steps, dtype, both=given.both)
    except CheckError as error:
        raise FairmendError(f"nothing can be proven about this network: {error}") from error

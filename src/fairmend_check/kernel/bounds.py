"""Lower bounds of a model's margins over boxes: intervals forward, lines substituted backward.

A linear form of nodes is rewritten as a form of the nodes that they read, from the last node to the input; where two
paths meet, their coefficients are added. Coefficients are rounded to the nearest double. ``slip`` collects what this
rounding can change, given the size of the values that they multiply, and is subtracted at the end. Every bound is
rigorous, at one matrix product a layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.model import Dense, Model, Node
from fairmend_check.kernel.operations.base import Bools, Extent, Form, Interval, Lines, Nonlinear, dot, magnitude, once
from fairmend_check.kernel.operations.groups import Grouped
from fairmend_check.kernel.rounding import GENEROUS, TINY, Array, U, down, gamma, up

Intervals = list[Interval]  # of each node (boxes, width)

NUMBERS_AT_ONCE = 2**18  # numbers in the largest array of coefficients: more do not fit into a processor's cache
_COEFFICIENTS = 2**15  # in the forms of units that are made tight at once: of those, there are several arrays
_MIRRORED = 2**18  # the same where forms are mirrored
_POINTS = 2**18  # numbers in the widest layer, for the points that are evaluated at once

# The C library of Linux gives the memory of each larger array back, and takes it again page by page, until a large one
# has come and gone: from then on, it keeps up to twice as much.
np.empty(2**22 - 2**10)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known so far: the intervals of each node, and what operations make of them.

    ``intervals`` grows by one for each node that is bounded; "the next node" is the one whose number is its length.
    With ``chords``, lines are parallel to the chords of functions.
    """

    model: Model
    intervals: Intervals
    chords: bool = False
    relaxed: dict[int, Any] = field(default_factory=dict)
    reads: dict[int, list[Interval]] = field(default_factory=dict)
    extents: dict[int, Extent] = field(default_factory=dict)

    def extent(self, number: int) -> Extent:
        """Return middles and radii of the intervals of a node, and how large its numbers can be."""
        if number not in self.extents:
            self.extents[number] = Extent(*self.intervals[number])
        return self.extents[number]

    def read(self, number: int) -> list[Interval]:
        """Return the intervals of what a node reads, and behind them the ranges of the forms that it asks for."""
        if number not in self.reads:
            self.reads[number] = self.asked(number, [self.intervals[each] for each in self.model.nodes[number].sources])
        return self.reads[number]

    def asked(self, number: int, found: list[Interval], error: Array | None = None) -> list[Interval]:
        """Return these intervals of what a node reads, and behind them the ranges of the forms that it asks for.

        With an ``error`` (boxes, width), they are those of what is off by so much as well.
        """
        operation, sources = self.model.nodes[number].operation, self.model.nodes[number].sources
        while isinstance(operation, Nonlinear) and (forms := operation.asked(found)) is not None:
            each = np.broadcast_to(forms, (len(found[0][0]), *forms.shape[1:]))
            ends = np.full((len(each), 2, each.shape[1]), -np.inf)  # of each form, and of its negative
            for some in self.parts(each.shape[1], mirrored=True):
                form = Form({sources[0]: each[:, some]}, mirrored=True)
                ends[:, :, some] = _both_bounds(self, form, ends[:, :, some])
            if error is not None:
                lost = dot(np.abs(each), error) * (1 + 4 * gamma(each.shape[2] + 8)) + TINY
                ends = down(ends - lost[:, None])
            found = [*found, (ends[:, 0], -ends[:, 1])]
        return found

    def parts(self, forms: int, *, mirrored: bool) -> Iterator[slice]:
        """Yield some forms of the next node or those before it at a time, so that a processor's cache has room."""
        before = self.model.nodes[1 : len(self.intervals)]
        doubled = mirrored and any(node.operation.bends or not node.operation.mirrors for node in before)
        room = _MIRRORED if mirrored else _COEFFICIENTS
        step = max(1, room // (max(self.model.widths) * len(self.intervals[0][0]) * (1 + doubled)))
        for start in range(0, forms, step):
            yield slice(start, start + step)


def interval_layers(model: Model, lower: Array, upper: Array) -> Intervals:
    """Enclose every node over boxes, by interval arithmetic alone."""
    found = [(lower, upper)]
    for node in model.nodes[1:]:
        found.append(_interval(node, found))
    undefined = _undefined(model, found)[:, None]
    low, high = found[-1]
    found[-1] = np.where(undefined, -np.inf, low), np.where(undefined, np.inf, high)
    return found


def _undefined(model: Model, intervals: Intervals) -> Bools:
    """Return the boxes over which a function may read what it is not defined for, so that outputs have no bounds.

    A bounded function behind it, such as a sigmoid, would give it some.
    """
    found = np.zeros(len(intervals[0][0]), dtype=np.bool_)
    for number, function in model.partial.items():
        found |= ~function.defined(*intervals[model.nodes[number].sources[0]]).all(axis=1)
    return found


def point_bounds(model: Model, points: Array) -> tuple[Array, Array, float]:
    """Return bounds of the outputs at points (points, inputs), each (points, outputs), and how far off these can be.

    One evaluation in double precision; how far it is off is bounded for many points at once. Where numbers may
    overflow, bounds are infinite.
    """
    low, high = np.empty((2, len(points), model.outputs))
    step, furthest = max(1, _POINTS // max(model.widths)), 0.0
    with np.errstate(all="ignore"):
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            if model.multiplies or model.partial:  # of points that are far apart, these are known by themselves alone
                low[part], high[part] = interval_layers(model, points[part], points[part])[-1]
                furthest = max(furthest, float((high[part] - low[part]).max()))
                continue
            values, error = _values_and_error(model, points[part])
            low[part], high[part] = down(values - error), up(values + error)
            furthest = max(furthest, float(error.max()))
    return low, high, furthest


def _values_and_error(model: Model, points: Array) -> tuple[Array, Array]:
    """Return the outputs as computed (points, outputs), and how far the exact ones are from them at most (1, outputs).

    The error of a node is what it rounds itself, given that its values are not larger than over the smallest box of
    all points, and what it passes on of the errors before it. Exact and computed values of a node are in an interval
    over this box, but for the error. If all intervals and errors are finite, nothing overflows.
    """
    over = interval_layers(model, points.min(axis=0, keepdims=True), points.max(axis=0, keepdims=True))
    found = [(points, np.zeros((1, points.shape[1])))]
    for node in model.nodes[1:]:
        reads, errors = [found[source][0] for source in node.sources], [found[source][1] for source in node.sources]
        sizes = [up(magnitude(*over[source]) + found[source][1]) for source in node.sources]
        values, own = node.operation.at_points(reads, sizes)
        around = zip((over[source] for source in node.sources), errors, strict=True)
        slopes = node.operation.slopes([(down(low - off), up(high + off)) for (low, high), off in around])
        passed = node.operation.carried(slopes, errors)
        outward = 1 + 4 * gamma(sum(model.widths[source] for source in node.sources) + 8)
        error = (passed + own) * outward + np.where((passed == 0) & (own == 0), 0.0, TINY)
        found.append((values, error))
    values, error = found[-1]
    if all(np.isfinite(magnitude(*ends) + off).all() for ends, (_, off) in zip(over, found, strict=True)):
        return values, error
    return np.zeros_like(values), np.full_like(error, np.inf)


def _interval(node: Node, found: Intervals) -> Interval:
    """Enclose a node, from the intervals of the nodes that it reads."""
    return node.operation.interval([found[source] for source in node.sources])


def interval_margins(model: Model, classes: np.ndarray, low: Array, high: Array) -> Array:
    """Return lower bounds of the margins of classes (boxes,), from intervals of the outputs (boxes, outputs)."""
    if model.outputs == 1:
        return np.where(classes == 1, low[:, 0], -high[:, 0])
    rows, others = np.arange(len(classes)), high.copy()
    others[rows, classes] = -np.inf
    return down(low[rows, classes] - others.max(axis=1))


def leads(model: Model, classes: np.ndarray) -> Array:
    """Return the combinations of outputs that are the margins of the classes (boxes, margins, outputs)."""
    if model.outputs == 1:
        return np.where(classes == 1, 1.0, -1.0)[:, None, None]
    out = np.zeros((len(classes), model.outputs - 1, model.outputs))
    rows, columns = np.arange(len(classes))[:, None], np.arange(model.outputs - 1)
    out[rows, columns, columns + (columns >= classes[:, None])] = -1.0  # all outputs but the class
    out[rows, columns, classes[:, None]] = 1.0
    return out


def form_bounds(
    model: Model, forms: Array, lower: Array, upper: Array, *, quick: bool = False
) -> tuple[Array, Intervals]:
    """Return lower bounds of linear forms of the outputs (boxes, forms, outputs) over boxes (boxes, forms).

    And intervals of every node but the last. With ``quick``, the interval of a unit is made tight only until a function
    is straight over it: in a wide network most units are on one side of a kink, and one end decides that.
    """
    found = input_forms(model, forms, lower, upper, quick=quick)
    return found.least, found.nodes


@dataclass(frozen=True, eq=False)
class InputForms:
    """Linear forms of the inputs below forms of the outputs, for every x in a box: A·x + c (boxes, forms, inputs).

    ``least`` (boxes, forms) are lower bounds over the boxes. ``nodes`` are intervals of every node but the last, and
    ``lines`` those that took the place of each function, by the number of its node.
    """

    A: Array
    c: Array
    least: Array
    nodes: Intervals
    lines: dict[int, Lines]


def input_forms(
    model: Model, forms: Array, lower: Array, upper: Array, *, quick: bool = False, chords: bool = False
) -> InputForms:
    """Return forms of the inputs below linear forms of the outputs (boxes, forms, outputs).

    Where a number overflows, A is 0 and c is -inf. ``quick`` is that of `form_bounds`. With ``chords``, lines below and
    above a function that bends are parallel to its chord: of all parallel lines, these two are closest.
    """
    widest = max(model.widths)
    step = max(1, NUMBERS_AT_ONCE * (1 + model.multiplies) // max(model.held, widest * max(widest, forms.shape[1])))
    A, c = np.zeros((*forms.shape[:2], model.inputs)), np.empty(forms.shape[:2])
    least = np.empty(forms.shape[:2])
    nodes = [(np.empty((len(lower), width)), np.empty((len(lower), width))) for width in model.widths[:-1]]
    relaxed: list[dict[int, Any]] = []
    with np.errstate(all="ignore"):
        for start in range(0, len(lower), step):
            part = slice(start, start + step)
            known = _bound_nodes(model, lower[part], upper[part], quick=quick, chords=chords)
            form = Form({})
            _substitute(known, len(model.nodes) - 1, forms[part], form)
            least[part] = _lower_bounds(known, form, np.full(forms[part].shape[:2], -np.inf))
            A[part] = form.coefficients.get(0, 0.0)  # what does not read the input is constant
            c[part] = down(np.asarray(form.const - (form.slip * GENEROUS + TINY)))
            undefined = _undefined(model, known.intervals)
            least[part][undefined] = c[part][undefined] = -np.inf
            for (low, high), (low_here, high_here) in zip(nodes, known.intervals, strict=True):
                low[part], high[part] = low_here, high_here
            relaxed.append(known.relaxed)
    lines = {number: Lines.joined([part[number] for part in relaxed]) for number in _functions(model, relaxed)}
    usable = np.isfinite(A).all(axis=2) & np.isfinite(c)
    return InputForms(np.where(usable[:, :, None], A, 0.0), np.where(usable, c, -np.inf), least, nodes, lines)


def _functions(model: Model, relaxed: list[dict[int, Any]]) -> list[int]:
    """Return the nodes that are functions and were relaxed, in all parts of the boxes."""
    numbers = relaxed[0] if relaxed else ()
    return [number for number in numbers if isinstance(model.nodes[number].operation, Activation)]


def _bound_nodes(model: Model, lower: Array, upper: Array, *, quick: bool, chords: bool) -> Known:
    """Return intervals of every node but the last.

    Affine layers and scalings that functions read, and sums, are bounded backward; other nodes by interval arithmetic.
    Where activations are multiplied, layers that read one node, such as a gate and what it gates, are bounded as one.
    """
    read, known = _read_by_functions(model), Known(model, [(lower, upper)], chords)
    middle = interval_layers(model, *[0.5 * lower + 0.5 * upper] * 2) if quick else []
    ahead: dict[int, Interval] = {}
    for number, node in enumerate(model.nodes[1:-1], start=1):
        if number in ahead:
            known.intervals.append(ahead[number])
            continue
        beside = {} if quick or not model.multiplies else _beside(model, number, read)
        if beside:
            weights, biases = zip(*((layer.weight, layer.bias) for layer in beside.values()), strict=True)
            node = Node(Dense(np.concatenate(weights), np.concatenate(biases)), node.sources)
        low, high = node.operation.interval(known.read(number))
        # Sums keep bounds on the way close; in models that multiply, those that no function reads are not worth it.
        joins = len(node.sources) > 1 and not model.multiplies
        if node.operation.arithmetic and (number in read or joins):
            ends, width = np.concatenate([low, -high], axis=1), low.shape[1]  # below each value, and its negative
            if not quick and model.multiplies:  # products make of a form and its negative the same but for the sign
                _improve(known, node, ends, None)
            elif not quick:
                _improve(known, node, ends, np.arange(2 * width))
            else:  # one end may decide that a function is straight: the nearer one to 0 comes first
                below = (middle[number][0] < 0).all(axis=0)
                for side in (below, ~below):
                    wanted = _bent(model, number, (ends[:, :width], -ends[:, width:]))
                    _improve(known, node, ends, (np.arange(width) + width * side)[wanted])
            low, high = ends[:, :width], -ends[:, width:]
        for each, layer in beside.items():
            width = len(layer.bias)
            ahead[each] = low[:, :width], high[:, :width]
            low, high = low[:, width:], high[:, width:]
        known.intervals.append(ahead.get(number, (low, high)))
    return known


def _beside(model: Model, number: int, read: set[int]) -> dict[int, Dense]:
    """Return this and later affine layers that read the same node and are read by functions; none if it is alone."""
    found = {}
    for each, node in enumerate(model.nodes[number:-1], start=number):
        same = each in read and node.sources == model.nodes[number].sources
        if same and isinstance(node.operation, Dense):
            found[each] = node.operation
    return found if number in found and len(found) > 1 and model.nodes[number].sources != (0,) else {}


def _read_by_functions(model: Model) -> set[int]:
    """Return the nodes that functions read, directly or through choices of columns."""
    found: set[int] = set()
    for number in range(len(model.nodes) - 1, 0, -1):
        operation = model.nodes[number].operation
        if (number in found and operation.rearranges) or isinstance(operation, Nonlinear):
            found.update(model.nodes[number].sources)
    return found


def _bent(model: Model, number: int, ends: Interval) -> Bools:
    """Return over which intervals of a node (width,) a function that reads it is not straight."""
    readers = [node.operation for node in model.nodes if number in node.sources]
    slopes = [function_of(reader).slope_range(*ends) for reader in readers if isinstance(reader, Activation)]
    if len(slopes) < len(readers):
        return np.ones(ends[0].shape[1], dtype=np.bool_)
    return np.asarray(np.any([(least < most).any(axis=0) for least, most in slopes], axis=0))


def _improve(known: Known, node: Node, best: Array, units: np.ndarray | None) -> None:
    """Raise lower bounds (boxes, 2 width) of the next node and its negative, for these units, some at a time.

    Unit i < width is the number i of the node, and unit width + i its negative: the bound of that is an upper one.

    They are those of its interval. Of an affine layer, this is what its weights give over the node that it reads.
    Without ``units``, they are all of them, and forms are mirrored.
    """
    if isinstance(node.operation, Dense) and node.sources == (0,):
        return
    start_too = not isinstance(node.operation, Dense)
    if units is None:
        both = best.reshape(len(best), 2, -1)
        for some in known.parts(both.shape[2], mirrored=True):
            form = _forms_of(known, node, some, None)
            both[:, :, some] = _both_bounds(known, form, both[:, :, some], start_too=start_too)
        best[:] = both.reshape(best.shape)  # which is a copy where columns lie one after the other
        return
    width = best.shape[1] // 2
    for some in known.parts(len(units), mirrored=False):
        part = units[some]
        form = _forms_of(known, node, part % width, np.where(part < width, 1.0, -1.0))
        best[:, part] = _lower_bounds(known, form, best[:, part], start_too=start_too)


def _forms_of(known: Known, node: Node, units: np.ndarray | slice, signs: Array | None) -> Form:
    """Return some units of the next node as forms of the nodes that it reads, with these signs; mirrored without."""
    form, boxes = Form({}, mirrored=signs is None), len(known.intervals[0][0])
    if isinstance(node.operation, Dense):  # its weights are the forms themselves, without a rounding
        rows, const = node.operation.weight[units], node.operation.bias[units]
        if signs is not None:
            rows, const = signs[:, None] * rows, signs * const
        form.coefficients[node.sources[0]] = np.broadcast_to(rows, (boxes, *rows.shape))
        form.const = np.broadcast_to(const, (boxes, len(const)))
        return form
    rows = np.eye(known.model.widths[len(known.intervals)])[units]
    rows = rows if signs is None else signs[:, None] * rows
    _substitute(known, len(known.intervals), np.broadcast_to(rows, (boxes, *rows.shape)), form)
    return form


def _both_bounds(known: Known, form: Form, best: Array, *, start_too: bool = True) -> Array:
    """Return lower bounds of mirrored forms and of their negatives (boxes, 2, forms), as `_lower_bounds` does."""
    return _lower_bounds(known, form, best.reshape(len(best), -1), start_too=start_too).reshape(best.shape)


def _lower_bounds(known: Known, form: Form, best: Array, *, start_too: bool = True) -> Array:
    """Return lower bounds of forms (boxes, forms), where ``best`` is one already; the forms are used up.

    Forms are substituted backward to the input. Before the first node (if ``start_too``), and after every node on the
    way but functions, their values over the known intervals are a bound as well, and the best bound counts.
    """
    if start_too:
        best = np.maximum(best, _over_boxes(known, form))
    for number in range(max(form.coefficients, default=0), 0, -1):
        if number in form.coefficients:
            _substitute(known, number, form.coefficients.pop(number), form)
            done = max(form.coefficients, default=0) == 0
            if done or not (known.model.multiplies or isinstance(known.model.nodes[number].operation, Nonlinear)):
                best = np.maximum(best, _over_boxes(known, form))
    return best


def _over_boxes(known: Known, form: Form) -> Array:
    """Return lower bounds of forms over the intervals of their nodes; -inf, never nan, on overflow."""
    nodes = list(form.coefficients)
    if not nodes:  # what is left is constant
        form.unfold(np.zeros((1, 1)))
        return down(np.asarray(form.const - (form.slip * GENEROUS + TINY)))
    parts, extent = list(form.coefficients.values()), known.extent(nodes[0])
    if all(len(once(part)) == 1 for part in parts):
        parts = [once(part) for part in parts]
    coefficients = parts[0]
    if len(nodes) > 1:
        coefficients = np.concatenate(parts, axis=2)
        ends = zip(*(known.intervals[node] for node in nodes), strict=True)
        extent = Extent(*(np.concatenate(parts, axis=1) for parts in ends))
    mid, radius = extent.ball
    n, const = coefficients.shape[2], form.const
    size = np.abs(coefficients)
    centre, spread = dot(coefficients, mid), dot(size, radius)
    slip = form.slip + gamma(n + 4) * (dot(size, np.abs(mid)) + spread)
    slip = slip + 4 * U * (np.abs(const) + np.abs(centre) + spread)
    room, middle = slip * GENEROUS + extent.underflow, const + centre
    middles = (middle, -middle) if form.mirrored else (middle,)
    return np.concatenate([down(each - spread - room) for each in middles], axis=1)


def _substitute(known: Known, number: int, coefficients: Array, form: Form) -> None:
    """Rewrite forms of a node as forms of the nodes that it reads."""
    node = known.model.nodes[number]
    if not node.operation.mirrors:
        coefficients = form.unfold(coefficients)
    if number not in known.relaxed:
        known.relaxed[number] = _relaxed(known, number)
    parts = node.operation.substitute(coefficients, known.relaxed[number], form)
    for source, part in zip(node.sources, parts, strict=False):  # a look-up passes nothing on
        form.add(source, part, known.extent(source))


def _relaxed(known: Known, number: int) -> Any:
    """Return what a node's `substitute` needs to know; of a function, lines.

    Where activations are multiplied, forms stay mirrored below parallel lines, and some functions are close to these.
    """
    operation, reads = known.model.nodes[number].operation, known.read(number)
    if isinstance(operation, Activation):
        function = function_of(operation)
        if known.chords or (known.model.multiplies and function.parallel):
            return operation.lines(reads[0], function.chords)
    if isinstance(operation, Grouped):  # its values are bounded already
        return operation.planes(reads, known.intervals[number])
    return operation.relaxed(reads)

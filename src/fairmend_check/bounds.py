"""Lower bounds of a model's margins over boxes: intervals forward, lines substituted backward.

A linear form of nodes is rewritten as a form of the nodes that they read, from the last node to the input; where two
paths meet, their coefficients are added. Coefficients are rounded to the nearest double. ``slip`` collects what this
rounding can change, given the size of the values that they multiply, and is subtracted at the end. Every bound is
rigorous, at one matrix product a layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fairmend_check.functions import function_of
from fairmend_check.model import Activation, Columns, Concatenate, Dense, Lookup, Model, Node, Scale, Sum
from fairmend_check.rounding import GENEROUS, TINY, Array, U, affine, ball, down, gamma, up

Intervals = list[tuple[Array, Array]]  # of each node (boxes, width)

_ROOM = 2_000_000  # numbers in the largest array of coefficients


@dataclass(frozen=True, eq=False)
class Lines:
    """A function over boxes: slopes and intercepts below and above, and how large its input can be."""

    slope_below: Array
    slope_above: Array
    below: Array
    above: Array
    magnitude: Array


@dataclass(frozen=True, eq=False)
class Known:
    """What is known so far: the intervals of each node, and the lines of each function."""

    model: Model
    intervals: Intervals
    lines: dict[int, Lines] = field(default_factory=dict)


def interval_layers(model: Model, lower: Array, upper: Array) -> Intervals:
    """Enclose every node over boxes, by interval arithmetic alone."""
    found = [(lower, upper)]
    for node in model.nodes[1:]:
        found.append(_interval(node, found))
    return found


def _interval(node: Node, found: Intervals) -> tuple[Array, Array]:
    """Enclose a node, from the intervals of the nodes that it reads."""
    operation, (low, high) = node.operation, found[node.sources[0]]
    if isinstance(operation, Dense):
        return affine(operation.weight, operation.bias, low, high)
    if isinstance(operation, Activation):
        return function_of(operation).value_range(low, high)
    if isinstance(operation, Scale):
        ends = low * operation.factor, high * operation.factor
        least, most = down(np.minimum(*ends) - TINY), up(np.maximum(*ends) + TINY)
        return down(least + operation.shift), up(most + operation.shift)
    if isinstance(operation, Columns):
        return low[:, operation.indices], high[:, operation.indices]
    if isinstance(operation, Lookup):
        return _rows(operation, low[:, 0], high[:, 0])
    lows, highs = zip(*(found[source] for source in node.sources), strict=True)
    if isinstance(operation, Concatenate):
        return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)
    for other in range(1, len(lows)):  # a sum
        low, high = down(low + lows[other]), up(high + highs[other])
    return low, high


def _rows(lookup: Lookup, low: Array, high: Array) -> tuple[Array, Array]:
    """Enclose the rows of a table whose numbers are in low..high (boxes,); there is no bound outside the table."""
    first, last = np.floor(low), np.ceil(high)
    inside = (first >= 0) & (last < len(lookup.table))
    shape = len(low), lookup.table.shape[1]
    least, most = np.full(shape, -np.inf), np.full(shape, np.inf)
    ends = np.stack([first, last], axis=1)[inside].astype(np.int64)
    for start, stop in np.unique(ends, axis=0):
        rows = lookup.table[start : stop + 1]
        same = np.flatnonzero((first == start) & (last == stop))
        least[same], most[same] = rows.min(axis=0), rows.max(axis=0)
    return least, most


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


def form_bounds(model: Model, forms: Array, lower: Array, upper: Array) -> tuple[Array, Intervals]:
    """Return lower bounds of linear forms of the outputs (boxes, forms, outputs) over boxes (boxes, forms).

    And intervals of every node but the last.
    """
    widest = max(model.widths)
    step = max(1, _ROOM // max(model.held, widest * max(2 * widest, forms.shape[1])))
    found = np.empty(forms.shape[:2])
    nodes = [(np.empty((len(lower), width)), np.empty((len(lower), width))) for width in model.widths[:-1]]
    with np.errstate(all="ignore"):
        for start in range(0, len(lower), step):
            part = slice(start, start + step)
            known = _bound_nodes(model, lower[part], upper[part])
            form = _Form({})
            _substitute(known, len(model.nodes) - 1, forms[part], form)
            found[part] = _lower_bounds(known, form, np.full(forms[part].shape[:2], -np.inf))
            for (low, high), (low_here, high_here) in zip(nodes, known.intervals, strict=True):
                low[part], high[part] = low_here, high_here
    return found, nodes


@dataclass(frozen=True, eq=False)
class InputForms:
    """Linear forms of the inputs below forms of the outputs, for every x in a box: A·x + c (boxes, forms, inputs).

    ``least`` (boxes, forms) are lower bounds over the boxes. ``nodes`` are intervals of every node but the last.
    """

    A: Array
    c: Array
    least: Array
    nodes: Intervals


def input_forms(model: Model, forms: Array, lower: Array, upper: Array) -> InputForms:
    """Return forms of the inputs below linear forms of the outputs (boxes, forms, outputs).

    Where a number overflows, A is 0 and c is -inf.
    """
    widest = max(model.widths)
    step = max(1, _ROOM // max(model.held, widest * max(2 * widest, forms.shape[1])))
    A, c = np.zeros((*forms.shape[:2], model.inputs)), np.empty(forms.shape[:2])
    least = np.empty(forms.shape[:2])
    nodes = [(np.empty((len(lower), width)), np.empty((len(lower), width))) for width in model.widths[:-1]]
    with np.errstate(all="ignore"):
        for start in range(0, len(lower), step):
            part = slice(start, start + step)
            known = _bound_nodes(model, lower[part], upper[part])
            form = _Form({})
            _substitute(known, len(model.nodes) - 1, forms[part], form)
            least[part] = _lower_bounds(known, form, np.full(forms[part].shape[:2], -np.inf))
            A[part] = form.coefficients.get(0, 0.0)  # what does not read the input is constant
            c[part] = down(np.asarray(form.const - (form.slip * GENEROUS + TINY)))
            for (low, high), (low_here, high_here) in zip(nodes, known.intervals, strict=True):
                low[part], high[part] = low_here, high_here
    usable = np.isfinite(A).all(axis=2) & np.isfinite(c)
    return InputForms(np.where(usable[:, :, None], A, 0.0), np.where(usable, c, -np.inf), least, nodes)


def _bound_nodes(model: Model, lower: Array, upper: Array) -> Known:
    """Return intervals of every node but the last, and lines of every function.

    Affine layers and scalings that functions read, and sums, are bounded backward; other nodes by interval arithmetic.
    """
    read = _read_by_functions(model)
    known = Known(model, [(lower, upper)])
    for number, node in enumerate(model.nodes[1:-1], start=1):
        operation = node.operation
        if isinstance(operation, Activation):
            low, high = known.intervals[node.sources[0]]
            function = function_of(operation)
            below, above = function.choose_slopes(low, high)
            lines = function.intercepts((below, above), low, high)
            known.lines[number] = Lines(below, above, *lines, _magnitude(low, high))
        backward = isinstance(operation, Sum) or (number in read and isinstance(operation, Dense | Scale))
        known.intervals.append(_bound_node(known, node) if backward else _interval(node, known.intervals))
    return known


def _read_by_functions(model: Model) -> set[int]:
    """Return the nodes that functions read, directly or through choices of columns."""
    found: set[int] = set()
    for number in range(len(model.nodes) - 1, 0, -1):
        passes = number in found and isinstance(model.nodes[number].operation, Columns | Concatenate)
        if passes or isinstance(model.nodes[number].operation, Activation):
            found.update(model.nodes[number].sources)
    return found


def _bound_node(known: Known, node: Node) -> tuple[Array, Array]:
    """Enclose the next node, by lower bounds of its values and of their negatives."""
    operation, boxes = node.operation, len(known.intervals[0][0])
    if isinstance(operation, Dense):
        units = len(operation.weight)
        rows, consts = np.concatenate([operation.weight, -operation.weight]), (operation.bias, -operation.bias)
        const = np.broadcast_to(np.concatenate(consts), (boxes, len(rows)))
        form = _Form({node.sources[0]: np.broadcast_to(rows, (boxes, *rows.shape))}, const)
        bounds = _lower_bounds(known, form, np.full(const.shape, -np.inf))
        return bounds[:, :units], -bounds[:, units:]
    low, high = _interval(node, known.intervals)
    units = low.shape[1]
    rows = np.concatenate([np.eye(units), -np.eye(units)])
    form = _Form({})
    _substitute(known, len(known.intervals), np.broadcast_to(rows, (boxes, *rows.shape)), form)
    bounds = _lower_bounds(known, form, np.concatenate([low, -high], axis=1))
    return bounds[:, :units], -bounds[:, units:]


@dataclass(eq=False)
class _Form:
    """Linear forms of nodes: coefficients (boxes, forms, width) of each, plus const, less slip (boxes, forms)."""

    coefficients: dict[int, Array]
    const: Array | float = 0.0
    slip: Array | float = 0.0

    def add(self, node: int, coefficients: Array, magnitude: Array) -> None:
        """Add coefficients of a node whose values are not larger than ``magnitude`` (boxes, width)."""
        if node in self.coefficients:
            coefficients = self.coefficients[node] + coefficients
            self.slip = self.slip + 2 * U * _dot(np.abs(coefficients), magnitude) + TINY * (1 + _total(magnitude))
        self.coefficients[node] = coefficients


def _lower_bounds(known: Known, form: _Form, best: Array) -> Array:
    """Return lower bounds of forms (boxes, forms), where ``best`` is one already; the forms are used up.

    Forms are substituted backward to the input. Before the first node, and after every node on the way but functions,
    their values over the known intervals are a bound as well, and the best bound counts.
    """
    best = np.maximum(best, _over_boxes(known, form))
    for number in range(max(form.coefficients, default=0), 0, -1):
        if number in form.coefficients:
            _substitute(known, number, form.coefficients.pop(number), form)
            done = max(form.coefficients, default=0) == 0
            if done or not isinstance(known.model.nodes[number].operation, Activation):
                best = np.maximum(best, _over_boxes(known, form))
    return best


def _over_boxes(known: Known, form: _Form) -> Array:
    """Return lower bounds of forms over the intervals of their nodes; -inf, never nan, on overflow."""
    nodes = list(form.coefficients)
    if not nodes:  # what is left is constant
        return down(np.asarray(form.const - (form.slip * GENEROUS + TINY)))
    coefficients, lower, upper = (form.coefficients[nodes[0]], *known.intervals[nodes[0]])
    if len(nodes) > 1:
        coefficients = np.concatenate([form.coefficients[node] for node in nodes], axis=2)
        lower, upper = (np.concatenate([known.intervals[node][end] for node in nodes], axis=1) for end in (0, 1))
    n, const = coefficients.shape[2], form.const
    mid, radius = ball(lower, upper)
    size = np.abs(coefficients)
    centre, spread = _dot(coefficients, mid), _dot(size, radius)
    slip = form.slip + gamma(n + 4) * (_dot(size, np.abs(mid)) + spread)
    slip = slip + 4 * U * (np.abs(const) + np.abs(centre) + spread)
    return down(const + centre - spread - (slip * GENEROUS + TINY * (1 + _total(_magnitude(lower, upper)))))


def _substitute(known: Known, number: int, coefficients: Array, form: _Form) -> None:
    """Rewrite forms of a node as forms of the nodes that it reads."""
    node = known.model.nodes[number]
    operation, sources = node.operation, node.sources
    sizes = [_magnitude(*known.intervals[source]) for source in sources]
    if isinstance(operation, Activation):
        lines = known.lines[number]
        form.add(sources[0], _below_lines(lines, coefficients, form), lines.magnitude)
    elif isinstance(operation, Dense):
        size = sizes[0] @ np.abs(operation.weight).T + np.abs(operation.bias)
        used = coefficients.any(axis=(0, 1))  # units that are surely off need no product
        coefficients, weight = coefficients[:, :, used], operation.weight[used]
        _add_constants(operation.bias[used], size[:, used], coefficients, sizes[0], form)
        boxes, forms, width = coefficients.shape
        out = (coefficients.reshape(boxes * forms, width) @ weight).reshape(boxes, forms, weight.shape[1])
        form.add(sources[0], out, sizes[0])
    elif isinstance(operation, Scale):
        size = sizes[0] * np.abs(operation.factor) + np.abs(operation.shift)
        _add_constants(operation.shift, size, coefficients, sizes[0], form)
        form.add(sources[0], coefficients * operation.factor, sizes[0])
    elif isinstance(operation, Lookup):
        _add_least(*known.intervals[number], coefficients, form)
    elif isinstance(operation, Columns):
        out = np.zeros((*coefficients.shape[:2], sizes[0].shape[1]))
        out[:, :, operation.indices] = coefficients
        form.add(sources[0], out, sizes[0])
    else:
        start = 0
        for source, size in zip(sources, sizes, strict=True):
            part = slice(start, start + size.shape[1])
            form.add(source, coefficients[:, :, part] if isinstance(operation, Concatenate) else coefficients, size)
            start = part.stop


def _below_lines(lines: Lines, coefficients: Array, form: _Form) -> Array:
    """Replace a function by its lines, and return the coefficients of what it reads."""
    positive, negative = np.maximum(coefficients, 0.0), np.minimum(coefficients, 0.0)
    n = coefficients.shape[2]
    added = _dot(positive, lines.below) + _dot(negative, lines.above)
    slip = form.slip + gamma(2 * n + 4) * _dot(positive - negative, _magnitude(lines.below, lines.above))
    # One of the two terms is 0, so each new coefficient is a single rounding away from exact.
    coefficients = positive * lines.slope_below[:, None, :] + negative * lines.slope_above[:, None, :]
    slip = slip + 2 * U * _dot(np.abs(coefficients), lines.magnitude) + TINY * (1 + _total(lines.magnitude))
    form.const = form.const + added
    form.slip = slip + 2 * U * (np.abs(form.const) + np.abs(added))
    return coefficients


def _add_constants(shift: Array, size: Array, coefficients: Array, entering: Array, form: _Form) -> None:
    """Add what an affine layer or a scaling adds, and note what its coefficients lose; ``size`` bounds its values."""
    lost = gamma(coefficients.shape[2] + 4) * _dot(np.abs(coefficients), size) + TINY * (1 + _total(entering))
    added = coefficients @ shift
    form.const = form.const + added
    form.slip = form.slip + (lost + 2 * U * (np.abs(form.const) + np.abs(added)))


def _add_least(low: Array, high: Array, coefficients: Array, form: _Form) -> None:
    """Add the least values over the intervals low..high (boxes, width), which depend on nothing else."""
    n = coefficients.shape[2]
    added = _dot(np.maximum(coefficients, 0.0), low) + _dot(np.minimum(coefficients, 0.0), high)
    lost = gamma(2 * n + 4) * _dot(np.abs(coefficients), _magnitude(low, high))
    form.const = form.const + added
    form.slip = form.slip + (lost + 2 * U * (np.abs(form.const) + np.abs(added)) + TINY)


def _dot(coefficients: Array, values: Array) -> Array:
    """Return coefficients (boxes, forms, width) times values (boxes, width), as (boxes, forms)."""
    return (coefficients @ values[:, :, None])[:, :, 0]


def _total(values: Array) -> Array:
    return np.asarray(values.sum(axis=1, keepdims=True), dtype=np.float64)


def _magnitude(lower: Array, upper: Array) -> Array:
    return np.maximum(np.abs(lower), np.abs(upper))

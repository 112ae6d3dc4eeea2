"""Interval and backward linear (CROWN) bounds of a network over many boxes at once.

Differentiable in the weights, in float32 or float64. Nodes that are affine functions of the inputs have exact forms.
The forms of other nodes come from backward substitution: it walks the graph in reverse with a pair of coefficients for
each node, adds them where paths meet, and ends at exact nodes, at functions of these, and at look-ups, or at the node
that puts these side by side. Wide networks get the same forms with fewer products, from `symbols`, wherever few units
are unstable; on a GPU, `stacked` does the backward substitution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fairmend.base.errors import FairmendError
from fairmend.bounds.forms import (
    Boxes,
    Forms,
    Interval,
    least_of_line,
    signed_product,
    total,
)
from fairmend.bounds.stacked import Stacked
from fairmend.bounds.symbols import Symbols
from fairmend.network import Activation, Concatenate, Lookup, Network, Sum
from fairmend.network.functions import Lines
from fairmend.network.graph import describe
from fairmend.network.operations.base import Numbers, Operation, as_like
from fairmend.network.operations.products import PLANAR, Normalise, Planes, Product, Softmax

__all__ = ["METHODS", "Boxes", "Forms", "Parameters", "Propagation", "feature_bounds", "propagate", "takes_symbols"]

Parameters = Sequence[tuple[Tensor, Tensor]]
"""The affine layers before the head, in the order of the nodes: each ``(weight (out, in), bias (out,))``."""

METHODS = ("linear", "interval")

WIDE = 128
"""Networks with a wider layer may take symbols instead of backward passes; below that, tensor operations are so cheap
that their number counts, and results keep every digit."""

# On a GPU, symbols take some milliseconds for each layer, as long as so many products.
_WORK_FOR_SYMBOLS = 10**10

_KINKED_AT_0 = ("relu", "leaky_relu", "prelu", "identity", "abs")


class Propagation:
    """The result of the backward passes: the lines of every function, in the order of the nodes, and the features."""

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph

    @property
    def relaxations(self) -> list[Lines]:
        """The lines of each function."""
        return list(self._graph.lines.values())

    def features(self) -> Forms:
        """Return symbolic bounds of the features h = f_{1:L}(x), the paper's Eq. (def-hat-H)."""
        return self._graph.forms(self._graph.features)

    def feature_bounds(self) -> Interval:
        """Return concrete bounds of the features, from the symbolic ones."""
        graph = self._graph
        if graph.features not in graph.lines:
            return self.features().concretise()
        lines, activation, source = graph.lines[graph.features], *graph.function(graph.features)
        lower, upper = graph.forms(source).concretise()
        if activation.increasing:
            return (
                torch.addcmul(lines.lower_intercept, lines.lower_slope, lower),
                torch.addcmul(lines.upper_intercept, lines.upper_slope, upper),
            )
        return (
            lines.lower_intercept + least_of_line(lines.lower_slope, lower, upper),
            lines.upper_intercept + least_of_line(lines.upper_slope, upper, lower),
        )


def propagate(network: Network, parameters: Parameters, boxes: Boxes) -> Propagation:
    """Return linear bounds of the extractor: ``parameters`` are the affine layers before the head.

    The lines of a function rest on intervals from a backward pass, except for kinked units (ReLU, LeakyReLU) that
    interval arithmetic already proves stable in every box: those keep that interval. auto_LiRPA does this to save time,
    and the paper's numbers depend on it, because the interval is the tighter one where the lower lines are loose. The
    lines of an S-shaped unit follow their interval, stable or not, so there the tighter interval matters, and its
    gradient.
    """
    graph = _Graph(network, parameters, boxes)
    graph.relax_functions()
    return Propagation(graph)


def feature_bounds(network: Network, parameters: Parameters, boxes: Boxes, method: str = "linear") -> Interval:
    """Return concrete bounds of the features (ConcreteBounds of Alg. 1), each ``(pieces, units)``."""
    if method == "linear":
        return propagate(network, parameters, boxes).feature_bounds()
    if method != "interval":
        raise FairmendError(f"unknown bounds {method!r}; use {', '.join(METHODS)}")
    graph = _Graph(network, parameters, boxes)
    return graph.interval(graph.features)


def takes_symbols(network: Network, pieces: int, device: torch.device) -> bool:
    """Return whether a network is wide enough for symbols, if it has no look-ups, over so many boxes.

    On a GPU, products must also take long enough: symbols wait for it at every layer.
    """
    widest = max(network.widths[:-1])
    return widest > WIDE and (device.type == "cpu" or pieces * widest**3 >= _WORK_FOR_SYMBOLS)


def _stacks(device: torch.device) -> bool:
    """Return whether lower and upper forms are computed at once: on a CPU, results keep every digit of earlier ones."""
    return device.type != "cpu"


class _Graph:
    """The nodes before the head, with their parameters, over boxes, and what is known about each node so far."""

    def __init__(self, network: Network, parameters: Parameters, boxes: Boxes) -> None:
        self.nodes, self.widths, self.boxes = network.nodes[:-1], network.widths, boxes
        self.features, self.readers = network.nodes[-1].sources[0], network.readers
        self.parameters: dict[int, Numbers] = dict(zip(network.affine_nodes[:-1], parameters, strict=True))
        self.numbers: dict[int, Numbers] = {}
        self.exact: dict[int, Forms] = {}
        self.hulls: dict[int, Forms] = {}
        self.lines: dict[int, Lines] = {}
        self.planes: dict[int, Planes] = {}
        self._forms: dict[int, Forms] = {}
        self._intervals: dict[int, Interval] = {}
        self._read: dict[int, Interval] = {}
        for i, node in enumerate(self.nodes):
            numbers = self.parameters.get(i) or node.operation.numbers(boxes.first)
            if numbers is not None:
                self.numbers[i] = numbers
            self._find_exact(i, node.operation, node.sources)
        self.wide = (
            not self.hulls and not network.multiplies and takes_symbols(network, boxes.rows.shape[1], boxes.rows.device)
        )
        self._symbols: Symbols | None = None
        if self.wide:
            self._symbols = Symbols(network.nodes, self.exact, self.numbers, self.parameters, boxes.first)
        self._stacked: Stacked | None = None
        if _stacks(boxes.first.device) and not network.multiplies:
            known = {**self.exact, **self.hulls}
            self._stacked = Stacked(
                self.nodes, self.widths, known, self.lines, self.numbers, self.parameters, boxes.first
            )
        self._intervals.clear()  # those that look-ups needed have no gradients

    def function(self, i: int) -> tuple[Activation, int]:
        """Return the function at node i, and the node that it reads."""
        operation = self.nodes[i].operation
        assert isinstance(operation, Activation)
        return operation, self.nodes[i].sources[0]

    def _find_exact(self, i: int, operation: Operation, sources: Sequence[int]) -> None:
        if i == 0:
            self.exact[i] = Forms(self.boxes.rows, self.boxes.rows)
        elif isinstance(operation, Lookup):
            rows = self._look_up(operation, sources[0])
            (self.exact if rows.lower is rows.upper else self.hulls)[i] = rows
        elif operation.linear and all(source in self.exact for source in sources):
            forms = [self.exact[source].lower for source in sources]
            form = operation.form(forms, self.boxes.first, self.numbers.get(i))
            self.exact[i] = Forms(form, form)
        elif not operation.linear and not isinstance(operation, (Activation, *PLANAR)):
            self._intervals.clear()  # those that look-ups needed have no gradients
            low, high = self.interval(i)
            self.hulls[i] = Forms(self.boxes.first * low, self.boxes.first * high)
        elif isinstance(operation, Concatenate) and all(self._ends_in(source) for source in sources):
            parts = [self.forms(source) for source in sources]
            self.hulls[i] = Forms(
                torch.cat([part.lower for part in parts], -1), torch.cat([part.upper for part in parts], -1)
            )

    def _ends_in(self, source: int) -> bool:
        """Return whether substitution may end in the one node that reads this one, instead of in this one.

        Where two nodes read it, it ends here, because coefficients that meet may cancel.
        """
        return (source in self.exact or source in self.hulls) and self.readers[source] == 1

    def _look_up(self, operation: Lookup, source: int) -> Forms:
        """Return the rows of a table as constant forms: the row itself where it is fixed, else the hull of them."""
        with torch.no_grad():
            ends = [end[:, 0].cpu().numpy() for end in self.interval(source)]
        lower, upper = operation.hull(*ends)
        first = self.boxes.first
        below = first * as_like(first, lower)
        return Forms(below, below) if lower is upper else Forms(below, first * as_like(first, upper))

    def relax_functions(self) -> None:
        """Find the lines of every function, in the order of the nodes."""
        for i, node in enumerate(self.nodes):
            if isinstance(node.operation, Activation):
                self.lines[i] = self._relax(i, node.operation, node.sources[0])
                if self._symbols is not None:
                    self._symbols.add(i, self.lines[i])
            elif isinstance(node.operation, PLANAR):
                self.planes[i] = self._planes(node.operation, node.sources)

    def _planes(self, operation: Product | Softmax | Normalise, sources: Sequence[int]) -> Planes:
        """Return planes of a product, or of another function of several numbers."""
        if not isinstance(operation, Normalise):
            lower, upper = zip(*(self._values(source) for source in sources), strict=True)
            return operation.relax(lower, upper)
        like, source = self.boxes.first, sources[0]
        groups = torch.eye(self.widths[source] // operation.group, dtype=like.dtype, device=like.device)
        low, high = self._combined(source, torch.kron(groups, operation.centring(like))[None]).concretise()
        steepest = operation.steepest(low, high)
        sums = self._combined(source, (steepest.unsqueeze(2) * groups[..., None]).transpose(1, 2).flatten(2))
        return operation.relax([low], [high], sums.concretise())

    def _values(self, source: int) -> Interval:
        """Return the interval of a node that is multiplied: of a function, its values, not those of its lines."""
        if source in self._read:
            return self.function(source)[0].function.torch_image(*self._read[source])
        return self.forms(source).concretise()

    def _combined(self, source: int, matrix: Tensor, bias: Tensor | None = None) -> Forms:
        """Return forms of combinations ``(pieces, rows, width)`` of a node's numbers, by a backward pass."""
        first = self.boxes.first
        rows = _Rows(first.new_zeros(matrix.shape[1]) if bias is None else bias)
        rows.carry(source, matrix, matrix)
        for i in range(source, -1, -1):
            if i in rows.carried:
                self._substitute(rows, i)
        return Forms(
            torch.addcmul(total(rows.lower), first, rows.lower_value),
            torch.addcmul(total(rows.upper), first, rows.upper_value),
        )

    def _relax(self, i: int, activation: Activation, source: int) -> Lines:
        self._read[i] = lower, upper = self.forms(source).concretise()
        if source in self.exact:
            self._intervals[source] = (lower.detach(), upper.detach())
        elif activation.name in _KINKED_AT_0:
            with torch.no_grad():
                low, high = self.interval(source)
                stable = ((low >= 0) | (high <= 0)).all(dim=0)
            if stable.is_cuda or stable.any():  # to ask a GPU is to wait for it
                lower, upper = torch.where(stable, low, lower), torch.where(stable, high, upper)
        if activation.function.domain:
            if source not in self.exact:  # the intersection, because lines may leave what intervals do not
                low, high = self.interval(source)
                self._read[i] = lower, upper = lower.maximum(low), upper.minimum(high)
            self._require_domain(i, activation, lower, upper)
            self._intervals[i] = activation.function.torch_image(lower, upper)  # from here on, so for intervals
        return activation.function.relax(lower, upper)

    def _require_domain(self, i: int, activation: Activation, lower: Tensor, upper: Tensor) -> None:
        """Refuse a function of numbers that it is not defined for: it has no bounds to train with."""
        function = activation.function
        if not function.domain:
            return
        low, high = lower.detach(), upper.detach()
        outside = ~function.defined(low, high)
        if outside.any():
            raise FairmendError(
                f"{describe(self.nodes, i)} may read {float(low[outside].min()):.3g} to "
                f"{float(high[outside].max()):.3g} in a neighbourhood, and has bounds for {function.domain} alone; add "
                "a positive number to what it reads, or make the tolerances smaller"
            )

    def interval(self, node: int) -> Interval:
        """Return the interval of a node by interval arithmetic from exact nodes on, each ``(pieces, units)``."""
        for i in range(node + 1):
            if i not in self._intervals and i not in self.exact:
                sources = [self._interval_of(source) for source in self.nodes[i].sources]
                self._intervals[i] = self._interval_step(i, self.nodes[i].operation, sources)
        return self._interval_of(node)

    def _interval_of(self, i: int) -> Interval:
        if i not in self._intervals:
            self._intervals[i] = self.exact[i].concretise()
        return self._intervals[i]

    def _interval_step(self, i: int, operation: Operation, sources: Sequence[Interval]) -> Interval:
        if i in self.hulls:
            return self.hulls[i].concretise()
        below, above = zip(*sources, strict=True)
        if isinstance(operation, Activation):
            self._require_domain(i, operation, below[0], above[0])
        return operation.interval(below, above, self.numbers.get(i))

    def forms(self, i: int) -> Forms:
        """Return the forms of a node, by a backward pass where paths may meet."""
        if i in self.exact:
            return self.exact[i]
        if i in self.hulls:
            return self.hulls[i]
        if i not in self._forms:
            self._forms[i] = self._find_forms(i, self.nodes[i].operation, self.nodes[i].sources)
        return self._forms[i]

    def _find_forms(self, i: int, operation: Operation, sources: Sequence[int]) -> Forms:
        if isinstance(operation, Activation):
            return self.forms(sources[0]).through(self.lines[i], self.boxes.first, operation.increasing)
        met = isinstance(operation, Sum) and sum(source not in self.exact for source in sources) > 1
        if i in self.parameters or met or i in self.planes:
            symbols = self._cheaper_symbols(i)
            return self._backward(i, operation, sources) if symbols is None else symbols.forms(i)
        parts = [self.forms(source) for source in sources]
        lower, upper = zip(*parts, strict=True)
        return Forms(*operation.forms(lower, upper, self.boxes.first, self.numbers.get(i)))

    def _cheaper_symbols(self, root: int) -> Symbols | None:
        """Return the symbols if they take fewer products than a backward pass for the forms of a node."""
        if self._symbols is None:
            return None
        passed = sum(weight.numel() for i, (weight, _) in self.parameters.items() if i < root and i not in self.exact)
        backward = 2 * self.widths[root] * passed
        return self._symbols if self._symbols.cost(root, self.widths[root]) < backward else None

    def _stop(self, i: int) -> Forms | None:
        """Return the forms of a node at which backward substitution ends, or None if it goes on."""
        if i in self.exact or i in self.hulls:
            return self.forms(i)
        if i in self.lines and self.nodes[i].sources[0] in self.exact:
            return self.exact[self.nodes[i].sources[0]].through(self.lines[i], self.boxes.first)
        return None

    def _backward(self, root: int, operation: Operation, sources: Sequence[int]) -> Forms:
        """Return the forms of an affine layer, a sum or a product, substituted back to the nodes where that ends."""
        first = self.boxes.first
        layer = self.parameters.get(root)
        stop = None if layer is None else self._stop(sources[0])
        if stop is not None:
            return Forms(*operation.forms([stop.lower], [stop.upper], first, layer))
        if self._stacked is not None:
            return self._stacked.forms(root)
        if layer is not None:
            return self._combined(sources[0], layer[0].unsqueeze(0), layer[1])
        return self._combined(root, torch.eye(self.widths[root], dtype=first.dtype, device=first.device)[None])

    def _substitute(self, rows: _Rows, i: int) -> None:
        """Replace the outputs of node i by its inputs, or by its forms where substitution ends."""
        lower_A, upper_A = rows.carried.pop(i)
        operation, sources = self.nodes[i].operation, self.nodes[i].sources
        stop = self._stop(i)
        if stop is not None:
            rows.add(lower_A, upper_A, stop)
        elif i in self.lines:
            lines = self.lines[i]
            flipped = Lines(lines.upper_slope, lines.upper_intercept, lines.lower_slope, lines.lower_intercept)
            lower_A, lower_constant = _through_activation(lower_A, lines)
            upper_A, upper_constant = _through_activation(upper_A, flipped)
            rows.add_constants(lower_constant, upper_constant)
            rows.carry(sources[0], lower_A, upper_A)
        elif i in self.planes:
            below, lower_constant = self.planes[i].substitute(lower_A, above=False)
            above, upper_constant = self.planes[i].substitute(upper_A, above=True)
            rows.add_constants(lower_constant, upper_constant)
            for source, lower, upper in zip(sources, below, above, strict=True):
                rows.carry(source, lower, upper)
        else:
            numbers, widths = self.numbers.get(i), [self.widths[source] for source in sources]
            if numbers is not None:
                rows.add_constants(*_both(lower_A, upper_A, lambda A: A @ numbers[1]))
            lowers = operation.pull(lower_A, widths, numbers)
            uppers = lowers if lower_A is upper_A else operation.pull(upper_A, widths, numbers)
            for source, lower, upper in zip(sources, lowers, uppers, strict=True):
                rows.carry(source, lower, upper)


class _Rows:
    """Linear functions of a node's units on the way back: coefficients of the nodes reached, and what is done.

    ``carried`` holds a pair (lower, upper) of coefficients ``(pieces, rows, units)`` for each node; both are one tensor
    as long as they are equal, and have one piece as long as all share them. ``lower`` and ``upper`` are forms to add
    up, ``lower_value`` and ``upper_value`` constants.
    """

    def __init__(self, value: Tensor) -> None:
        self.carried: dict[int, tuple[Tensor, Tensor]] = {}
        self.lower_value = self.upper_value = value
        self.lower: list[Tensor] = []
        self.upper: list[Tensor] = []

    def carry(self, node: int, lower_A: Tensor, upper_A: Tensor) -> None:
        """Add coefficients of a node."""
        if node not in self.carried:
            self.carried[node] = (lower_A, upper_A)
            return
        lower, upper = self.carried[node]
        total = lower + lower_A
        self.carried[node] = (total, total if lower is upper and lower_A is upper_A else upper + upper_A)

    def add_constants(self, lower: Tensor, upper: Tensor) -> None:
        """Add constants."""
        self.lower_value = self.lower_value + lower
        self.upper_value = self.upper_value + upper

    def add(self, lower_A: Tensor, upper_A: Tensor, forms: Forms) -> None:
        """Add the product with the forms of a node."""
        if forms.lower is forms.upper:
            lower, upper = _both(lower_A, upper_A, lambda A: torch.einsum("puw,kpw->kpu", A, forms.lower))
        else:
            lower = signed_product(lower_A, forms.lower, forms.upper)
            upper = signed_product(upper_A, forms.upper, forms.lower)
        self.lower.append(lower)
        self.upper.append(upper)


def _both(lower: Tensor, upper: Tensor, function: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Return the function of both, computed once if they are one tensor."""
    result = function(lower)
    return result, result if lower is upper else function(upper)


def _through_activation(A: Tensor, lines: Lines) -> tuple[Tensor, Tensor]:
    """Replace an activation's outputs by the lower line if A is positive and by the upper line if it is negative.

    Return the new coefficients and the constant ``(pieces, units)``.
    """
    positive = A.clamp(min=0)
    negative = A - positive
    constant = positive @ lines.lower_intercept.unsqueeze(-1) + negative @ lines.upper_intercept.unsqueeze(-1)
    return (
        positive * lines.lower_slope.unsqueeze(-2) + negative * lines.upper_slope.unsqueeze(-2),
        constant.squeeze(-1),
    )

"""Linear forms with symbols for the units that are not linear over a box, for wide networks in `linear`.

A function's output is its lower line plus a symbol e, where e lies between 0 and the distance of the lines:

    h = lower line(z) + e,    0 <= e <= gap(z) = (upper line - lower line)(z).

Units whose lines are equal, such as ReLU units that are stable in a box, need no symbol. So every node is, exactly, a
linear form of the inputs and of few symbols, and all later nodes share it. To bound a form, its symbols are replaced
from the last function to the first, by 0 or by the gap, whichever is the worse for the sign of the coefficient. A gap
is a form of the inputs and of earlier symbols. This gives the bounds of backward substitution with fewer products:
n x n times the number of symbols for a layer of n units, instead of n x n x n for each layer that lies before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.bounds.forms import Forms
from fairmend.network.functions import Lines
from fairmend.network.graph import Node
from fairmend.network.operations import Numbers, Operation


class _Function(NamedTuple):
    """A function: its lines, the distance of these, and its symbols.

    ``units (pieces, symbols)`` names the unit of each symbol. A piece with fewer symbols than others has some whose
    gap is 0.
    """

    lines: Lines
    gap_slope: Tensor
    gap_intercept: Tensor
    units: Tensor


class _Form(NamedTuple):
    """Linear forms of a node's units.

    ``inputs (1 + varying, pieces, units)`` are the coefficients of the inputs, ``symbols`` those of each function's
    symbols, ``(pieces, symbols, units)``.
    """

    inputs: Tensor
    symbols: dict[int, Tensor]


class Symbols:
    """The forms of nodes in the inputs and in the symbols of the functions added so far."""

    def __init__(
        self,
        nodes: Sequence[Node],
        exact: Mapping[int, Forms],
        numbers: Mapping[int, Numbers],
        parameters: Mapping[int, Numbers],
        first: Tensor,
    ) -> None:
        self._nodes, self._exact, self._first = nodes, exact, first
        self._numbers, self._parameters = numbers, parameters
        self._functions: dict[int, _Function] = {}
        self._known: dict[int, _Form] = {}
        self._gaps: dict[int, _Form] = {}

    def add(self, i: int, lines: Lines) -> None:
        """Add the function at node i."""
        gap_slope, gap_intercept = lines.upper_slope - lines.lower_slope, lines.upper_intercept - lines.lower_intercept
        apart = (gap_slope != 0) | (gap_intercept != 0)
        most = int(apart.sum(dim=1).max())
        units = apart.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        self._functions[i] = _Function(lines, gap_slope, gap_intercept, units)

    def cost(self, root: int, width: int) -> int:
        """Return the products that `forms` of a node takes for each piece, those that are done already left out.

        ``width`` is the number of its units.
        """
        counts = {i: function.units.shape[1] for i, function in self._functions.items() if i < root}
        cost = 0
        for i, (weight, _) in self._parameters.items():
            if i <= root and i not in self._exact and i not in self._known:
                source = self._nodes[i].sources[0]
                cost += weight.numel() * sum(count for function, count in counts.items() if function < source)
        earlier = 0
        for count in counts.values():
            cost += 2 * width * count * earlier
            earlier += count
        return cost

    def forms(self, i: int) -> Forms:
        """Return linear forms of the inputs around a node."""
        form = self._form(i)
        return Forms(self._replace(form, upper=False), self._replace(form, upper=True))

    def _replace(self, form: _Form, *, upper: bool) -> Tensor:
        """Replace all symbols by 0 or by their gap, to get an upper or a lower form of the inputs."""
        inputs, symbols = form.inputs, dict(form.symbols)
        for function in sorted(symbols, reverse=True):
            coefficients = symbols.pop(function)
            worse = coefficients.clamp(min=0) if upper else coefficients.clamp(max=0)
            gap = self._gap(function)
            inputs = inputs + torch.einsum("psu,kps->kpu", worse, gap.inputs)
            for earlier, gap_coefficients in gap.symbols.items():
                product = gap_coefficients @ worse
                symbols[earlier] = symbols[earlier] + product if earlier in symbols else product
        return inputs

    def _gap(self, i: int) -> _Form:
        """Return the gaps of the symbols of a function, as forms."""
        if i not in self._gaps:
            function, source = self._functions[i], self._nodes[i].sources[0]
            before = self._form(source).inputs
            slope, intercept = (torch.gather(part, 1, function.units) for part in function[1:3])
            width = function.units.shape[1]
            chosen = function.units.unsqueeze(0).expand(len(before), -1, -1)
            inputs = torch.addcmul(slope * torch.gather(before, 2, chosen), self._first, intercept)
            symbols = {}
            for earlier, coefficients in self._with_own(source).items():
                picked = function.units.unsqueeze(1).expand(-1, coefficients.shape[1], width)
                symbols[earlier] = torch.gather(coefficients, 2, picked) * slope.unsqueeze(1)
            self._gaps[i] = _Form(inputs, symbols)
        return self._gaps[i]

    def _form(self, i: int) -> _Form:
        for j in range(i + 1):
            if j not in self._known:
                self._known[j] = self._step(j, self._nodes[j].operation, self._nodes[j].sources)
        return self._known[i]

    def _step(self, i: int, operation: Operation, sources: Sequence[int]) -> _Form:
        if i in self._exact:
            return _Form(self._exact[i].lower, {})
        if i in self._functions:
            return self._through(i, sources[0])
        inputs = operation.form([self._known[source].inputs for source in sources], self._first, self._numbers.get(i))
        return _Form(inputs, self._linear_symbols(i, operation, sources))

    def _through(self, i: int, source: int) -> _Form:
        """Return a function's output without its own symbols, whose coefficients are 1: the lower line."""
        lines = self._functions[i].lines
        slope = lines.lower_slope.unsqueeze(1)
        before = self._known[source].inputs
        inputs = torch.addcmul(lines.lower_slope * before, self._first, lines.lower_intercept)
        return _Form(inputs, {earlier: part * slope for earlier, part in self._with_own(source).items()})

    def _linear_symbols(self, i: int, operation: Operation, sources: Sequence[int]) -> dict[int, Tensor]:
        """Return the coefficients of the symbols after an operation, one of those that are affine."""
        if i in self._parameters:
            weight = self._parameters[i][0]
            symbols = {function: part @ weight.T for function, part in self._known[sources[0]].symbols.items()}
            if sources[0] in self._functions:
                symbols[sources[0]] = F.embedding(self._functions[sources[0]].units, weight.T)
            return symbols
        parts = [self._with_own(source) for source in sources]
        widths = [self._known[source].inputs.shape[2] for source in sources]
        return {
            function: operation.contribute([part.get(function) for part in parts], widths, self._numbers.get(i))
            for function in dict.fromkeys(function for part in parts for function in part)
        }

    def _with_own(self, i: int) -> dict[int, Tensor]:
        """Return the coefficients of all symbols in a node, those of its own among them if it is a function."""
        form = self._known[i]
        if i not in self._functions:
            return form.symbols
        own = F.one_hot(self._functions[i].units, form.inputs.shape[2]).to(form.inputs.dtype)
        return {**form.symbols, i: own}

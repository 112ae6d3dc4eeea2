"""Builds the model of a file: readers give the steps as the file has them, in the order of computation.

    graph = Graph(columns)
    hidden = graph.function(graph.affine(graph.input, weight, bias), Activation("relu"))
    model = graph.finish(graph.affine(graph.concatenate(hidden, graph.input), weight, bias))

A value is a number that a call returns; ``graph.input`` is the row of inputs. `Graph.finish` brings the steps into
normal form (docs/certificate.md, "Graphs"):

1. Values that the output does not need are left out, and so are identities.
2. A norm is folded into the affine layer that it reads, if nothing else reads that; or else into the affine layer that
   reads it, if nothing else does. Otherwise it is a node of its own, a scale.
3. Two affine layers in a row in a chain have an identity between them. Graphs have no identities.
4. A closing sigmoid of one output, a softmax or a log-softmax are left out; so is the choice of the second of two
   probabilities. So are steps that rescale the sigmoid of one output to a score (`Rescaling`); where the score falls
   as the output rises, a change of sign is added to the output.
5. An output that is a product, or columns of others, is scaled by 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.functions import Activation
from fairmend_check.kernel.model import MAX_NODES, SECOND, Model, Node, common_dtype, dense_layer, make_graph
from fairmend_check.kernel.operations.affine import Dense, Norm, Scale, fold_layer, joined_norm, scaling
from fairmend_check.kernel.operations.base import Operation
from fairmend_check.kernel.operations.columns import Columns, Concatenate, Input, Lookup, Sum
from fairmend_check.kernel.operations.groups import Normalise, Softmax
from fairmend_check.kernel.operations.product import Product
from fairmend_check.kernel.rescaling import Clip, Rescaling, Scaling

Floats = NDArray[np.floating]

_MAX_NUMBERS = 2**28  # in all steps together: many of them could share the same arrays


@dataclass(frozen=True, eq=False)
class Affine:
    """W x + b: weight (out, in), bias (out,) or None."""

    weight: Floats
    bias: Floats | None


@dataclass(frozen=True, eq=False)
class Table:
    """A table (rows, width), looked up by the number of a row."""

    rows: Floats


Step = Affine | Norm | Activation
AnyStep = Step | Table | Operation


@dataclass(eq=False)
class _Part:
    """A step that stays in the model, and the norms that are folded into it, or of which it consists."""

    operation: AnyStep
    sources: list[_Part]
    width: int
    readers: int
    before: list[Norm] = field(default_factory=list)
    after: list[Norm] = field(default_factory=list)


class Graph:
    """The steps of a file, in the order of computation."""

    input = 0

    def __init__(self, columns: int) -> None:
        self._steps: list[tuple[AnyStep, tuple[int, ...]]] = []
        self._widths: list[int] = []
        self._numbers = 0
        self._add(Input(columns), (), columns)

    def width(self, value: int) -> int:
        """Return how many numbers a value has."""
        return self._widths[value]

    def affine(self, source: int, weight: Floats, bias: Floats | None = None) -> int:
        """Return W x + b: weight (out, in), bias (out,) or None, in the type of the file."""
        if weight.ndim != 2 or weight.shape[1] != self.width(source):
            raise CheckError(f"a layer with weights of shape {weight.shape} reads {self.width(source)} values")
        return self._add(Affine(weight, bias), (source,), len(weight), weight.size)

    def norm(self, source: int, norm: Norm) -> int:
        """Return a batch normalisation or scaling of each column (`batch_norm`, `scaling`)."""
        return self._add(norm, (source,), self.width(source))

    def function(self, source: int, activation: Activation) -> int:
        """Return an elementwise function; also the sigmoid, softmax or log_softmax that closes a model."""
        if activation.name == "identity":
            return source
        return self._add(activation, (source,), self.width(source))

    def sum(self, *sources: int) -> int:
        """Return the sum of two or more values of one width."""
        widths = [self.width(source) for source in sources]
        if len(sources) < 2 or len(set(widths)) > 1:
            raise CheckError(f"a sum has parts of {', '.join(map(str, widths[:20]))} numbers")
        return self._add(Sum(), sources, widths[0])

    def concatenate(self, *sources: int) -> int:
        """Return values side by side; columns of one value are one choice of them."""
        if len(sources) == 1:
            return sources[0]
        joined = self._beside(sources)
        origin, indices = self._origin(joined, range(self.width(joined)))
        return joined if origin == joined else self.columns(origin, indices)

    def _beside(self, sources: tuple[int, ...]) -> int:
        if len(sources) == 1:
            return sources[0]
        return self._add(Concatenate(), sources, sum(self.width(source) for source in sources))

    def columns(self, source: int, indices: Sequence[int]) -> int:
        """Return some columns of a value, in any order; one may occur more than once."""
        if not indices or not all(0 <= index < self.width(source) for index in indices):
            raise CheckError(f"columns are chosen that a value of {self.width(source)} columns does not have")
        if list(indices) == list(range(self.width(source))):
            return source
        source, indices = self._origin(source, indices)
        runs: list[dict[int, None]] = [{}]
        for index in indices:
            if index in runs[-1]:  # a node has no column twice
                runs.append({})
            runs[-1][index] = None
        return self._beside(tuple(self._chosen(source, tuple(run)) for run in runs))

    def _chosen(self, source: int, indices: tuple[int, ...]) -> int:
        whole = indices == tuple(range(self.width(source)))
        return source if whole else self._add(Columns(indices), (source,), len(indices))

    def _origin(self, source: int, indices: Sequence[int]) -> tuple[int, Sequence[int]]:
        """Return columns of choices of columns, and of values side by side, as those of the one value they come from.

        If they come from several, they stay columns of the last value that has all of them.
        """
        places = np.array(indices, np.int64)
        owners = np.full(len(places), source)
        waiting = {source}
        while waiting:
            step = max(waiting)
            waiting.remove(step)
            operation, sources = self._steps[step]
            here = np.flatnonzero(owners == step)
            if isinstance(operation, Columns):
                places[here], owners[here] = np.array(operation.indices)[places[here]], sources[0]
            elif isinstance(operation, Concatenate):
                starts = np.cumsum([0, *(self.width(part) for part in sources)])
                part = np.searchsorted(starts, places[here], side="right") - 1
                places[here], owners[here] = places[here] - starts[part], np.array(sources)[part]
            waiting.update(owners[here].tolist() if isinstance(operation, Columns | Concatenate) else ())
            if (owners == owners[0]).all():
                source, indices = int(owners[0]), places.tolist()
        return source, indices

    def lookup(self, source: int, table: Floats) -> int:
        """Return the rows of a table (rows, width) that a single column of inputs names by their numbers."""
        if table.ndim != 2 or 0 in table.shape or self.width(source) != 1:
            raise CheckError(f"a table of shape {table.shape} is looked up by {self.width(source)} columns")
        return self._add(Table(table), (source,), table.shape[1], table.size)

    def apply(self, operation: Operation, *sources: int) -> int:
        """Return what an operation without arrays of the file computes of values.

        What is multiplied by itself is a square, however it is written: its bounds are tighter. What is multiplied by
        numbers that are the same for every row is scaled: programs may scale the terms of a sum.
        """
        width = operation.width([self.width(source) for source in sources])
        if operation == Product(width):
            if sources[0] == sources[1]:
                return self.function(sources[0], Activation("square"))
            for source, other in (sources, sources[::-1]):
                factors = self._constant(other)
                if factors is not None:
                    return self.norm(source, scaling(0.0, factors, None))
        return self._add(operation, sources, width, width)

    def _constant(self, value: int) -> Floats | None:
        """Return the numbers of a value that does not depend on the inputs: those of an affine layer of zeros."""
        operation, sources = self._steps[value]
        if isinstance(operation, Columns):
            found = self._constant(sources[0])
            return None if found is None else found[list(operation.indices)]
        if not isinstance(operation, Affine) or operation.weight.any():
            return None
        return np.zeros(len(operation.weight)) if operation.bias is None else operation.bias

    def _add(
        self,
        operation: AnyStep,
        sources: tuple[int, ...],
        width: int,
        size: int = 0,
    ) -> int:
        self._numbers += width + size
        if len(self._steps) >= MAX_NODES or self._numbers > _MAX_NUMBERS:
            raise CheckError(f"the model has more than {MAX_NODES:,} steps, or {_MAX_NUMBERS:,} numbers in all of them")
        self._steps.append((operation, sources))
        self._widths.append(width)
        return len(self._steps) - 1

    def finish(self, output: int) -> Model:
        """Return the model that computes this value, in normal form."""
        rescaled = self._rescaled(output)
        if rescaled is None:
            output, closing = self._opened(output)
        else:
            output, closing = rescaled.output, "sigmoid"
        if isinstance(self._steps[output][0], Product | Columns):
            output = self.norm(output, scaling(0.0, 1.0, None))
        parts = _fold_norms(self._needed(output))
        arrays = [array for part in parts for array in _arrays(part)]
        if not arrays:
            raise CheckError("the model has no layers")
        dtype = common_dtype(arrays)
        numbers = {id(part): number for number, part in enumerate(parts)}
        nodes = [Node(_operation(part, dtype), tuple(numbers[id(source)] for source in part.sources)) for part in parts]
        model = replace(make_graph(_with_identities(nodes), dtype), closing=closing)
        if rescaled is None:
            return model
        return replace(model, rescaling=Rescaling.of(rescaled.steps, dtype, both=rescaled.both))

    def _rescaled(self, output: int) -> _Rescaled | None:
        """Return what a value makes of the sigmoid of one output; None if it is a sigmoid alone, or something else."""
        operation, sources = self._steps[output]
        both = isinstance(operation, Concatenate) and len(sources) == 2 and self.width(output) == 2
        found = [self._risen(source) for source in (sources if both else (output,))]
        first, last = found[0], found[-1]
        if first is None or last is None:
            return None
        logit, steps = last
        if both and (first[0] != logit or (first[1] != [*steps, _REST] and steps != [*first[1], _REST])):
            return None
        if not steps and not both:
            return None
        falls = math.prod(step.factor for step in steps if isinstance(step, Scaling)) < 0
        if falls:  # 1 - p is the sigmoid of the negative output
            logit, steps = self.norm(logit, scaling(0.0, -1.0, None)), [_REST, *steps]
        return _Rescaled(logit, steps, both)

    def _risen(self, value: int) -> tuple[int, list[Scaling | Clip]] | None:
        """Return the output whose sigmoid a value rescales, and by which steps; None if it does not.

        Of 850 - 550 sigmoid(z) these are z and a scaling by -550 and 850. As that falls, `_rescaled` makes it a scaling
        of 1 - p, where p is the sigmoid of -z: 850 - 550 (1 - p), which is 300 + 550 p.
        """
        steps: list[Scaling | Clip] = []
        while self.width(value) == 1:
            operation, sources = self._steps[value]
            if isinstance(operation, Activation) and operation.name == "sigmoid":
                return sources[0], _joined(steps[::-1])
            if isinstance(operation, Norm):
                steps.append(Scaling(*(float(part.reshape(-1)[0]) for part in _numbers(operation))))
            elif isinstance(operation, Activation) and operation.name == "clip":
                steps.append(Clip(*operation.parameters))
            elif isinstance(operation, Activation) and operation.name == "relu":
                steps.append(Clip(0.0, math.inf))
            else:
                return None
            value = sources[0]
        return None

    def _opened(self, output: int) -> tuple[int, str]:
        """Return the value before a closing sigmoid or softmax, and how the model closes."""
        operation, sources = self._steps[output]
        if isinstance(operation, Columns) and operation.indices == (1,) and self.width(sources[0]) == 2:
            before = self._steps[sources[0]][0]
            if isinstance(before, Activation) and before.name in ("softmax", "log_softmax"):
                opened, closing = self._opened(sources[0])
                return opened, f"{SECOND}{closing}"
        if not isinstance(operation, Activation):
            return output, ""
        single = self.width(output) == 1
        if operation.name not in (("sigmoid",) if single else ("softmax", "log_softmax")):
            raise CheckError(f"the model ends with {operation.name}, which cannot be checked there")
        return sources[0], operation.name

    def _needed(self, output: int) -> list[_Part]:
        """Return the steps that a value needs, in order."""
        needed = {Graph.input, output}
        for number in range(output, 0, -1):
            if number in needed:
                needed.update(self._steps[number][1])
        readers = Counter(source for number in needed for source in self._steps[number][1])
        readers[output] += 1
        parts: dict[int, _Part] = {}
        for number in sorted(needed):
            operation, sources = self._steps[number]
            parts[number] = _Part(operation, [parts[source] for source in sources], self.width(number), readers[number])
        return list(parts.values())


@dataclass(frozen=True)
class _Rescaled:
    """The value whose sigmoid a model rescales, by which steps, and whether it gives the pair of 1 - s and s."""

    output: int
    steps: list[Scaling | Clip]
    both: bool


_REST = Scaling(-1.0, 1.0, 1.0)  # 1 - p


def _numbers(norm: Norm) -> tuple[Floats, Floats, Floats]:
    return norm.factor, norm.shift, norm.size


def _joined(steps: list[Scaling | Clip]) -> list[Scaling | Clip]:
    """Return steps in which a change of sign and a shift by 1 are the step that they are together, 1 - s."""
    found: list[Scaling | Clip] = []
    for step in steps:
        if found and found[-1] == Scaling(-1.0, 0.0, 0.0) and step == Scaling(1.0, 1.0, 1.0):
            found.pop()
            step = _REST
        found.append(step)
    return found


def assemble(steps: Sequence[Step]) -> Model:
    """Return the model that computes one step after the other."""
    first = next((step for step in steps if isinstance(step, Affine)), None)
    if first is None:
        raise CheckError("the model has no layers")
    if first.weight.ndim != 2:
        raise CheckError(f"the model's first layer has weights of shape {first.weight.shape}")
    graph = Graph(first.weight.shape[1])
    value = graph.input
    for step in steps:
        if isinstance(step, Affine):
            value = graph.affine(value, step.weight, step.bias)
        else:
            value = graph.norm(value, step) if isinstance(step, Norm) else graph.function(value, step)
    return graph.finish(value)


def _fold_norms(parts: list[_Part]) -> list[_Part]:
    """Return the parts without the norms that are folded into affine layers, or into the norm before them.

    ``after`` of a layer are the norms that its results pass, in order, and ``after`` of a norm begins with itself: the
    part that stays is all of them. A norm joins the part that it reads if nothing else does, which then has its
    readers (first loop, in the order of the steps). What is left and read by a layer alone is ``before`` that layer.
    """
    instead: dict[int, _Part] = {}  # the part that a norm became a part of
    for part in parts:
        part.sources = [instead.get(id(source), source) for source in part.sources]
        if isinstance(part.operation, Norm):
            before = part.sources[0]
            part.after.append(part.operation)
            if before.readers == 1 and isinstance(before.operation, Affine | Norm):
                before.after += part.after
                before.readers = part.readers
                instead[id(part)] = before
    folded: set[int] = set(instead)
    for part in parts:
        before = part.sources[0] if part.sources else part
        if isinstance(part.operation, Affine) and isinstance(before.operation, Norm) and before.readers == 1:
            part.before, part.sources = before.after, before.sources
            folded.add(id(before))
    return [part for part in parts if id(part) not in folded]


def _arrays(part: _Part) -> list[Floats | None]:
    """Return the arrays that must be of one type."""
    if isinstance(part.operation, Affine):
        return [part.operation.weight, part.operation.bias]
    return [part.operation.rows] if isinstance(part.operation, Table) else []


def _operation(part: _Part, dtype: str) -> Operation:
    operation = part.operation
    if isinstance(operation, Affine):
        pair, fold = fold_layer(operation.weight, operation.bias, part.before, part.after)
        return dense_layer("layer", *pair, fold)
    if isinstance(operation, Norm):
        return _scale(part, dtype)
    if isinstance(operation, Table):
        if not np.isfinite(operation.rows).all():
            raise CheckError("a table contains a number that is not finite")
        return Lookup(np.ascontiguousarray(operation.rows, dtype=np.float64))
    if isinstance(operation, Activation) and operation.name == "softmax":
        return Softmax(part.width)
    if isinstance(operation, Normalise):
        return replace(operation, epsilon=float(np.dtype(dtype).type(operation.epsilon)))
    if isinstance(operation, Activation):  # frameworks compute with its numbers in the type of the model
        with np.errstate(over="ignore"):
            slope, *parameters = np.array([operation.slope, *operation.parameters]).astype(dtype).astype(float).tolist()
        return Activation(operation.name, slope, tuple(parameters))
    return operation


def _scale(part: _Part, dtype: str) -> Scale:
    """Return the norms of a part as a node of its own, with numbers of the model's type."""
    norm = joined_norm(part.after, part.width)
    with np.errstate(over="ignore"):
        factor, shift = (line.astype(dtype).astype(np.float64) for line in (norm.factor, norm.shift))
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()) or ((factor == 0) & (norm.factor != 0)).any():
        raise CheckError(f"batch normalisation or scaling has a factor that is too large or too small for {dtype}")
    return Scale(factor, shift, norm)


def _with_identities(nodes: list[Node]) -> list[Node]:
    """Return the nodes with an identity between two affine layers in a row, if they form a chain."""
    kinds = [node.operation for node in nodes[1:]]
    line = all(node.sources == (number,) for number, node in enumerate(nodes[1:]))
    if not line or not all(isinstance(kind, Dense | Activation) for kind in kinds) or isinstance(kinds[0], Activation):
        return nodes
    if any(isinstance(before, Activation) and isinstance(after, Activation) for before, after in pairwise(kinds)):
        return nodes
    found = [nodes[0]]
    for before, node in pairwise(nodes):
        if isinstance(before.operation, Dense) and isinstance(node.operation, Dense):
            found.append(Node(Activation("identity"), (len(found) - 1,)))
        found.append(replace(node, sources=(len(found) - 1,)))
    return found

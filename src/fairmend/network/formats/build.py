"""Build a Network from the steps that a format found.

A reader adds the steps of a model one by one, each on the results of earlier steps. What is folded into what, what the
head is and what closes the network is decided here, once for all formats. docs/certificate.md, "Graphs", has the rules:
the checker applies them as well, by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import (
    Activation,
    Affine,
    Columns,
    Concatenate,
    Input,
    Lookup,
    Network,
    Node,
    Operation,
    Scale,
    Sum,
)
from fairmend.network.folding import Fold, Norm, Part, Summed
from fairmend.network.form import Form

SUPPORTED = (
    "fairmend supports networks of affine layers, elementwise activations, batch normalisation and scaling, sums, "
    "concatenations, choices of columns and embeddings, with an affine last layer and a closing sigmoid (1 output) or "
    "softmax (several)"
)


def scaling(where: str, gain: npt.ArrayLike, shift: npt.ArrayLike, mean: npt.ArrayLike = 0.0) -> Norm:
    """Return (x − mean)·gain + shift as a step; each is (width,), or one number for all."""
    return Norm(where, np.asarray(mean), None, np.asarray(gain), np.asarray(shift))


def unsupported(source: str, where: str, why: str) -> FairmendError:
    """Return the error for a layer that is not supported: which file, which layer, why, and what is supported."""
    return FairmendError(f"{source}: {where} {why}; {SUPPORTED}")


@dataclass(frozen=True)
class Value:
    """The result of a step: its number in the builder, and how many numbers it has for each row."""

    step: int
    width: int


@dataclass(frozen=True)
class _Linear:
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None
    before: tuple[Norm, ...] = ()
    after: tuple[Norm, ...] = ()


@dataclass(frozen=True)
class _Joined:
    fold: Fold


@dataclass(frozen=True)
class _Softmax:
    """Softmax, or its logarithm, over the outputs."""


@dataclass(frozen=True)
class _Collapse:
    """Drops the axis of outputs, as squeeze does; ``single`` where that is right for 1 output only."""

    single: bool


@dataclass(frozen=True)
class _Scaled:
    norms: tuple[Norm, ...]


_Kind = _Linear | _Joined | _Scaled | _Softmax | _Collapse | Input | Activation | Sum | Concatenate | Columns | Lookup


@dataclass(frozen=True)
class _Step:
    what: _Kind
    sources: tuple[int, ...]
    width: int
    where: str
    name: str | None = None


@dataclass
class GraphBuilder:
    """Collects the steps of one model. ``source`` names the file or module in errors."""

    source: str
    _steps: list[_Step] = field(default_factory=list)

    def input(self, columns: int, names: Sequence[tuple[str, int]] = ()) -> Value:
        """Start with a row of so many columns; ``names`` are the model's inputs and their columns, if several."""
        if self._steps:
            raise FairmendError(f"{self.source}: a second row of inputs")
        return self._add(Input(columns, tuple(names)), (), columns, "the input")

    def linear(
        self, x: Value, where: str, weight: npt.NDArray[Any], bias: npt.NDArray[Any] | None, name: str | None
    ) -> Value:
        """Add W x + b: weight (out, in), bias (out,) or None; `name` is its key prefix in the file, if any."""
        weight = np.asarray(weight)
        if weight.ndim != 2:
            raise FairmendError(f"{self.source}: {where} has weights of shape {weight.shape}; it must be (out, in)")
        if weight.shape[1] != x.width:
            raise FairmendError(
                f"{self.source}: {where} takes {weight.shape[1]} values, but the layer before it gives {x.width}"
            )
        return self._add(_Linear(weight, bias), (x,), len(weight), where, name)

    def norm(self, x: Value, norm: Norm) -> Value:
        """Add batch normalisation or scaling."""
        return self._add(_Scaled((norm,)), (x,), x.width, norm.where, norm.name)

    def function(self, x: Value, where: str, activation: Activation) -> Value:
        """Add an elementwise function; the identity adds nothing."""
        if activation.name == "identity":
            return x
        return self._add(activation, (x,), x.width, where)

    def softmax(self, x: Value, where: str) -> Value:
        """Add a softmax, or its logarithm, over the last axis: only at the output."""
        return self._add(_Softmax(), (x,), x.width, where)

    def collapse(self, x: Value, where: str, *, single: bool) -> Value:
        """Drop the axis of outputs; with ``single`` that is right for 1 output only."""
        return self._add(_Collapse(single), (x,), x.width, where)

    def add(self, where: str, values: Sequence[Value]) -> Value:
        """Add a sum."""
        return self._add(Sum(), values, self._fit(Sum(), values, where), where)

    def concatenate(self, where: str, values: Sequence[Value]) -> Value:
        """Put values side by side."""
        if len(values) == 1:
            return values[0]
        return self._add(Concatenate(), values, self._fit(Concatenate(), values, where), where)

    def columns(self, x: Value, where: str, indices: Sequence[int]) -> Value:
        """Choose columns; all of them in order is no step, and neither is the choice of what was put side by side."""
        if tuple(indices) == tuple(range(x.width)):
            return x
        step, start = self._steps[x.step], 0
        for source in step.sources if isinstance(step.what, Concatenate) else ():
            width = self._steps[source].width
            if tuple(indices) == tuple(range(start, start + width)):
                return Value(source, width)
            start += width
        choice = Columns(tuple(int(index) for index in indices))
        return self._add(choice, (x,), self._fit(choice, (x,), where), where)

    def lookup(self, x: Value, where: str, table: npt.NDArray[Any], name: str, stored: bool = True) -> Value:
        """Look up each column of x in one table (rows, width), and put the rows side by side.

        A table that is not ``stored`` in the model, that of a one-hot code, cannot change.
        """
        operation = Lookup(table, stored)
        found = []
        for column in range(x.width):
            index = self.columns(x, where, (column,))
            found.append(self._add(operation, (index,), operation.table.shape[1], where, name))
        return self.concatenate(where, found)

    def network(self, output: Value, form: Form | None = None) -> Network:
        """Return the network that ends in ``output``; steps that it does not depend on are left out."""
        closing, logits = self._closing(output.step)
        steps = _fold_norms(_join_head(_needed(self._steps, logits), self.source))
        nodes = [self._node(step) for step in _with_identities(steps)]
        try:
            return Network.from_nodes(_with_names(nodes), closing, form=form)
        except FairmendError as error:
            raise FairmendError(f"{self.source}: {error}") from error

    def _add(self, what: _Kind, sources: Sequence[Value], width: int, where: str, name: str | None = None) -> Value:
        self._steps.append(_Step(what, tuple(value.step for value in sources), width, where, name))
        return Value(len(self._steps) - 1, width)

    def _fit(self, operation: Operation, values: Sequence[Value], where: str) -> int:
        try:
            return operation.width([value.width for value in values])
        except FairmendError as error:
            raise FairmendError(f"{self.source}: {where}: {error}") from error

    def _closing(self, last: int) -> tuple[str, int]:
        """Return what closes the network, 'none', 'sigmoid' or 'softmax', and the step of the logits before it."""
        tail: list[_Step] = []
        step = self._steps[last]
        while isinstance(step.what, _Collapse | _Softmax | Columns) or _is_sigmoid(step):
            tail.append(step)
            last = step.sources[0]
            step = self._steps[last]
        outputs, closing = step.width, "none"
        for step in reversed(tail):
            if isinstance(step.what, _Collapse):
                if step.what.single and step.width > 1:
                    raise unsupported(self.source, step.where, f"would mix the {outputs} outputs of different rows")
            elif isinstance(step.what, Columns):
                if closing != "softmax" or outputs != 2 or step.what.indices != (1,):
                    raise unsupported(self.source, step.where, "chooses among the outputs, other than class 1 of 2")
            elif closing != "none":
                raise unsupported(self.source, step.where, f"follows the closing {closing}")
            elif isinstance(step.what, _Softmax):
                if outputs == 1:
                    raise unsupported(self.source, step.where, "closes a network of 1 output, and is then always 1")
                closing = "softmax"
            elif outputs > 1:
                raise unsupported(
                    self.source, step.where, f"closes a network of {outputs} outputs (several labels at once)"
                )
            else:
                closing = "sigmoid"
        return closing, last

    def _node(self, step: _Step) -> Node:
        what = step.what
        if isinstance(what, _Softmax | _Collapse):
            raise unsupported(self.source, step.where, "is supported only after the last affine layer")
        if isinstance(what, _Linear):
            return Node(self._affine(what, step.where), step.sources, "" if step.name is None else step.name)
        if isinstance(what, _Joined):
            return Node(Affine.from_fold(what.fold), step.sources, step.name or "")
        if isinstance(what, _Scaled):
            dtype = np.asarray(what.norms[0].mean).dtype
            return Node(Scale(what.norms, step.width, self._dtype(dtype), self.source), step.sources, step.name or "")
        return Node(what, step.sources, step.name or "")

    def _dtype(self, own: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the model's weights; that of a step without any."""
        for step in self._steps:
            if isinstance(step.what, _Linear):
                return step.what.weight.dtype
        return own

    def _affine(self, linear: _Linear, where: str) -> Affine:
        try:
            plain = Affine.without_bias(linear.weight) if linear.bias is None else Affine(linear.weight, linear.bias)
        except FairmendError as error:
            raise FairmendError(f"{self.source}: {where}: {error}") from error
        if not linear.before and not linear.after:
            return plain
        stored = None if linear.bias is None else plain.bias
        return Affine.from_fold(Fold(plain.weight, stored, linear.before, linear.after, self.source))


def _is_sigmoid(step: _Step) -> bool:
    return isinstance(step.what, Activation) and step.what.name == "sigmoid"


def _needed(steps: Sequence[_Step], last: int) -> list[_Step]:
    """Return the steps that step ``last`` depends on, renumbered; the input is always the first."""
    needed = {0, last}
    for i in range(last, 0, -1):
        if i in needed:
            needed.update(steps[i].sources)
    return _renumbered([(i, steps[i]) for i in sorted(needed)])


def _renumbered(numbered: Sequence[tuple[int, _Step]]) -> list[_Step]:
    places = {old: new for new, (old, _) in enumerate(numbered)}
    return [replace(step, sources=tuple(places[source] for source in step.sources)) for _, step in numbered]


def _fold_norms(steps: list[_Step]) -> list[_Step]:
    """Fold norms into the affine layer before or after them, where nothing else reads between the two."""
    i = 1
    while i < len(steps):
        target = _fold_target(steps, i)
        if target is None:
            i += 1
            continue
        place, changed = target
        steps[place] = replace(steps[place], what=changed)
        steps = _without(steps, i)
        i = 1
    return steps


def _fold_target(steps: Sequence[_Step], i: int) -> tuple[int, _Linear | _Scaled] | None:
    """Return the step that takes in the norms of step i, and what it becomes; None if step i stays, or has no norms."""
    norms = steps[i].what
    if not isinstance(norms, _Scaled):
        return None
    source, readers = steps[i].sources[0], _readers(steps, i)
    before = steps[source].what
    if isinstance(before, _Linear) and len(_readers(steps, source)) == 1:
        return source, replace(before, after=(*before.after, *norms.norms))
    reader = readers[0] if len(readers) == 1 else None
    if reader is None:
        return None
    after = steps[reader].what
    if isinstance(after, _Scaled):
        return reader, _Scaled((*norms.norms, *after.norms))
    if isinstance(after, _Linear):
        return reader, replace(after, before=(*norms.norms, *after.before))
    return None


def _readers(steps: Sequence[_Step], i: int) -> list[int | None]:
    """Return the steps that read step i, and None for the output."""
    found: list[int | None] = [k for k, step in enumerate(steps) for source in step.sources if source == i]
    return [*found, None] if i == len(steps) - 1 else found


def _without(steps: Sequence[_Step], i: int) -> list[_Step]:
    """Return the steps without step i; what read it reads its source instead."""
    source = steps[i].sources[0]
    kept = [
        (k, replace(step, sources=tuple(source if each == i else each for each in step.sources)))
        for k, step in enumerate(steps)
        if k != i
    ]
    return _renumbered(kept)


def _join_head(steps: list[_Step], source: str) -> list[_Step]:
    """Make one affine layer of an output that is a weighted sum of affine layers; refuse any other output."""
    last = end = len(steps) - 1
    while isinstance(steps[end].what, _Scaled):
        end = steps[end].sources[0]
    if isinstance(steps[end].what, _Linear):
        return steps
    if not isinstance(steps[end].what, Sum):
        if not any(isinstance(step.what, _Linear) for step in steps):
            raise FairmendError(f"{source}: holds no affine layer; {SUPPORTED}")
        raise unsupported(source, steps[end].where, "closes the network")
    parts: list[tuple[int, float]] = []
    joined: set[int] = set()
    summed = _collect(steps, last, 1.0, parts, joined, source)
    layers = tuple(_part(steps[i], factor, k) for k, (i, factor) in enumerate(parts))
    reads = tuple(steps[i].sources[0] for i, _ in parts)
    where = steps[end].where
    side_by_side = _Step(Concatenate(), reads, sum(steps[read].width for read in reads), where)
    try:
        fold = Fold.join(layers, source, summed)
    except ValueError as error:
        raise FairmendError(f"{source}: {where} adds layers that do not fit together ({error})") from error
    head = _Step(_Joined(fold), (len(steps),), steps[last].width, where, "+".join(part.name for part in layers))
    rest = [(i, step) for i, step in enumerate(steps) if i not in joined]
    return _renumbered([*rest, (len(steps), side_by_side), (len(steps) + 1, head)])


def _collect(
    steps: Sequence[_Step], i: int, factor: float, parts: list[tuple[int, float]], joined: set[int], source: str
) -> Summed:
    """Find the affine layers that step i adds up, each with its factor; return how it adds them up."""
    step = steps[i]
    if not isinstance(step.what, Sum | _Scaled | _Linear):
        hint = "; average the logits, not the probabilities" if _is_sigmoid(step) else ""
        raise unsupported(source, step.where, f"is added to the output, and is not an affine layer{hint}")
    if len(_readers(steps, i)) > 1:
        raise unsupported(source, step.where, "is a part of the output, and is read elsewhere as well")
    joined.add(i)
    if isinstance(step.what, Sum):
        return (), tuple(_collect(steps, each, factor, parts, joined, source) for each in step.sources)
    if isinstance(step.what, _Scaled):
        for norm in step.what.norms:
            plain = norm.variance is None and not np.any(norm.mean) and (norm.shift is None or not np.any(norm.shift))
            gain = np.ones(()) if norm.gain is None else np.asarray(norm.gain)
            if not plain or gain.size != 1:
                raise unsupported(source, step.where, "changes a sum at the output, other than by one factor")
            factor *= float(gain.reshape(()))
        return step.what.norms, (_collect(steps, step.sources[0], factor, parts, joined, source),)
    parts.append((i, factor))
    return len(parts) - 1


def _part(step: _Step, factor: float, k: int) -> Part:
    assert isinstance(step.what, _Linear)
    return Part(step.name if step.name is not None else f"part.{k}", step.what.weight, step.what.bias, factor)


def _with_identities(steps: list[_Step]) -> list[_Step]:
    """Put the identity between affine layers that follow each other in a chain, which alternates with activations."""
    kinds = _Linear | Activation
    if not all(isinstance(step.what, kinds) and step.sources == (i,) for i, step in enumerate(steps[1:])):
        return steps
    if any(isinstance(a.what, Activation) and not isinstance(b.what, _Linear) for a, b in pairwise(steps[1:])):
        return steps
    if not isinstance(steps[1].what, _Linear):
        return steps
    chain: list[_Step] = []
    for step in steps:
        if chain and isinstance(step.what, _Linear) and isinstance(chain[-1].what, _Linear):
            chain.append(_Step(Activation("identity"), (len(chain) - 1,), chain[-1].width, step.where))
        chain.append(replace(step, sources=(len(chain) - 1,) if chain else ()))
    return chain


def _with_names(nodes: list[Node]) -> list[Node]:
    """Return the nodes with a name of its own for each affine layer."""
    affine = [i for i, node in enumerate(nodes) if isinstance(node.operation, Affine)]
    names = [nodes[i].name for i in affine]
    if len(set(names)) == len(names) and (all(names) or len(names) == 1):
        return nodes
    for k, i in enumerate(affine):
        if not nodes[i].name or names.count(nodes[i].name) > 1:
            nodes[i] = replace(nodes[i], name=f"layers.{k}")
    return nodes

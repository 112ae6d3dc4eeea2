"""Build a Network from the steps that a format found.

A reader adds the steps of a model one by one, each on the results of earlier steps. What is folded into what, what the
head is and what closes the network is decided here, once for all formats. docs/certificate.md, "Graphs", has the rules:
the checker applies them as well, by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeGuard

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
    Product,
    Scale,
    Softmax,
    Sum,
)
from fairmend.network.folding import Fold, Norm, Part, Slot, Summed, line_of
from fairmend.network.form import Form
from fairmend.network.operations.ties import Tie
from fairmend.network.rescaling import REST, Clip, Rescaling, Scaling, joined

SUPPORTED = (
    "fairmend supports networks of affine layers, elementwise activations, batch and layer normalisation, scaling, "
    "sums, products, softmax, concatenations, choices of columns and embeddings, with an affine last layer and a "
    "closing sigmoid (1 output, perhaps rescaled) or softmax (several)"
)

_SAMPLES = 100  # random rows that show which signs an output has
_NOTHING = 1e-9  # what is closer to 0 is rounding


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
    tie: Tie | None = None
    derived: bool = False


@dataclass(frozen=True)
class _Joined:
    fold: Fold


@dataclass(frozen=True)
class _Softmax:
    """Softmax over groups of so many columns; None for one that closes a network, or its logarithm."""

    size: int | None


@dataclass(frozen=True)
class _Collapse:
    """Drops the axis of outputs, as squeeze does; ``single`` where that is right for 1 output only."""

    single: bool


@dataclass(frozen=True)
class _Scaled:
    norms: tuple[Norm, ...]


_Kind = _Linear | _Joined | _Scaled | _Softmax | _Collapse | Operation


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
        self,
        x: Value,
        where: str,
        weight: npt.NDArray[Any],
        bias: npt.NDArray[Any] | None,
        name: str | None,
        *,
        derived: bool = False,
    ) -> Value:
        """Add W x + b: weight (out, in), bias (out,) or None; `name` is its key prefix in the file, if any.

        The matrix of a ``derived`` layer is not in the file: it is what nodes compute of others.
        """
        weight = np.asarray(weight)
        if weight.ndim != 2:
            raise FairmendError(f"{self.source}: {where} has weights of shape {weight.shape}; it must be (out, in)")
        if weight.shape[1] != x.width:
            raise FairmendError(
                f"{self.source}: {where} takes {weight.shape[1]} values, but the layer before it gives {x.width}"
            )
        return self._add(_Linear(weight, bias, derived=derived), (x,), len(weight), where, name)

    def tied(
        self, x: Value, where: str, tie: Tie, weight: npt.NDArray[Any], bias: npt.NDArray[Any] | None, name: str
    ) -> Value:
        """Add an affine layer whose matrix repeats stored numbers: weight (blocks, out, in). It takes in no norms."""
        return self._add(_Linear(weight, bias, tie=tie), (x,), tie.rows, where, name)

    def width(self, step: int) -> int:
        """Return how many numbers a step gives."""
        return self._steps[step].width

    def norm(self, x: Value, norm: Norm) -> Value:
        """Add batch normalisation or scaling."""
        return self._add(_Scaled((norm,)), (x,), x.width, norm.where, norm.name)

    def scale(
        self,
        x: Value,
        where: str,
        *,
        mean: npt.ArrayLike = 0.0,
        divisor: npt.ArrayLike | None = None,
        gain: npt.ArrayLike = 1.0,
        shift: npt.ArrayLike = 0.0,
    ) -> Value:
        """Add (x − mean)·gain + shift, or with a divisor in place of the gain."""
        return self.norm(x, scaling(where, gain if divisor is None else 1 / np.asarray(divisor), shift, mean))

    def function(self, x: Value, where: str, activation: Activation) -> Value:
        """Add an elementwise function; the identity adds nothing."""
        if activation.name == "identity":
            return x
        return self._add(activation, (x,), x.width, where)

    def softmax(self, x: Value, where: str, size: int | None = None) -> Value:
        """Add a softmax over each group of so many columns; without a size, it or its logarithm is for the output."""
        if size is not None:
            self._fit(Softmax(size), (x,), where)
        return self._add(_Softmax(size), (x,), x.width, where)

    def apply(self, where: str, operation: Operation, values: Sequence[Value]) -> Value:
        """Add an operation without arrays of the file: a sum, a product, a normalisation."""
        return self._add(operation, values, self._fit(operation, values, where), where)

    def collapse(self, x: Value, where: str, *, single: bool) -> Value:
        """Drop the axis of outputs; with ``single`` that is right for 1 output only."""
        return self._add(_Collapse(single), (x,), x.width, where)

    def concatenate(self, where: str, values: Sequence[Value]) -> Value:
        """Put values side by side."""
        if len(values) == 1:
            return values[0]
        return self._add(Concatenate(), values, self._fit(Concatenate(), values, where), where)

    def columns(self, x: Value, where: str, indices: Sequence[int]) -> Value:
        """Choose columns; all of them in order is no step, and neither is the choice of what was put side by side."""
        choice = Columns(tuple(int(index) for index in indices))
        self._fit(choice, (x,), where)
        if choice.indices == tuple(range(x.width)):
            return x
        x, chosen = self._origin(x, choice.indices)
        if chosen == tuple(range(x.width)):
            return x
        return self._add(Columns(chosen), (x,), len(chosen), where)

    def _origin(self, x: Value, indices: tuple[int, ...]) -> tuple[Value, tuple[int, ...]]:
        """Return columns of a choice of columns as those of what it chooses from; so of one part of a concatenation."""
        step, start = self._steps[x.step], 0
        if isinstance(step.what, Columns):
            chosen = step.what.indices
            return self._origin(
                Value(step.sources[0], self._steps[step.sources[0]].width), tuple(chosen[index] for index in indices)
            )
        for source in step.sources if isinstance(step.what, Concatenate) else ():
            part = Value(source, self._steps[source].width)
            if start <= min(indices) and max(indices) < start + part.width:
                return self._origin(part, tuple(index - start for index in indices))
            start += part.width
        return x, indices

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
        rescaled = self._rescaled(output)
        if rescaled is None:
            rescaling = None
            closing, logits = self._closing(output.step)
        else:
            closing, (logits, rescaling) = "sigmoid", rescaled
        steps = _fold_norms(_with_head(_needed(self._steps, logits), self.source))
        nodes = [self._node(step) for step in _with_identities(steps)]
        try:
            return Network.from_nodes(_with_names(nodes), closing, form=form, rescaling=rescaling)
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

    def _rescaled(self, output: Value) -> tuple[int, Rescaling] | None:
        """Return the step of the logit whose sigmoid the output rescales, and how; None for any other output."""
        step = self._steps[self._open_axis(output.step)]
        both = isinstance(step.what, Concatenate) and len(step.sources) == 2 and step.width == 2
        found = [self._risen(source) for source in (step.sources if both else (output.step,))]
        first, last = found[0], found[-1]
        if first is None or last is None:
            return None
        logit, steps = last
        if both and (first[0] != logit or (first[1] != [*steps, REST] and steps != [*first[1], REST])):
            return None
        if not steps and not both:
            return None
        slope = math.prod(each.factor for each in steps if isinstance(each, Scaling))
        if slope == 0:
            return None
        if slope < 0:
            # The score falls where the logit rises: 1 - p is the sigmoid of the negative logit.
            negative = scaling(self._steps[logit].where, -1.0, 0.0)
            logit = self.norm(Value(logit, 1), replace(negative, shift=None)).step
            steps = [REST, *steps]
        return logit, Rescaling(tuple(steps), both)

    def _risen(self, last: int) -> tuple[int, list[Scaling | Clip]] | None:
        """Return the step whose sigmoid a step of one output rescales, and how; None if it does not."""
        steps: list[Scaling | Clip] = []
        while self._steps[last := self._open_axis(last)].width == 1:
            step = self._steps[last]
            if _is_sigmoid(step):
                return self._open_axis(step.sources[0]), joined(steps[::-1])
            if isinstance(step.what, _Scaled):
                found = [_scaling_of(norm) for norm in reversed(step.what.norms)]
                if None in found:
                    return None
                steps += [each for each in found if each is not None]
            elif isinstance(step.what, Activation) and step.what.name == "clip":
                steps.append(Clip(*step.what.parameters))
            elif isinstance(step.what, Activation) and step.what.name == "relu":
                steps.append(Clip(0.0, math.inf))
            else:
                return None
            last = step.sources[0]
        return None

    def _open_axis(self, last: int) -> int:
        """Return the step before those that only drop or add the axis of one output."""
        while isinstance(self._steps[last].what, _Collapse) and self._steps[last].width == 1:
            last = self._steps[last].sources[0]
        return last

    def _closing(self, last: int) -> tuple[str, int]:
        """Return what closes the network, 'none', 'sigmoid' or 'softmax', and the step of the logits before it."""
        tail: list[_Step] = []
        step = self._steps[last]
        while (
            isinstance(step.what, _Collapse | _Softmax)
            or _is_sigmoid(step)
            or (isinstance(step.what, Columns) and isinstance(self._steps[step.sources[0]].what, _Softmax))
        ):
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
                if step.what.size not in (None, outputs):
                    raise unsupported(
                        self.source, step.where, f"closes the network in groups of {step.what.size} outputs"
                    )
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
        if isinstance(what, _Softmax) and what.size is not None:
            return Node(Softmax(what.size), step.sources)
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
            if linear.tie is not None:
                return Affine.from_tie(linear.tie, linear.weight, linear.bias)
            plain = Affine.without_bias(linear.weight) if linear.bias is None else Affine(linear.weight, linear.bias)
        except FairmendError as error:
            raise FairmendError(f"{self.source}: {where}: {error}") from error
        if not linear.before and not linear.after:
            return plain
        stored = None if linear.bias is None else plain.bias
        return Affine.from_fold(Fold(plain.weight, stored, linear.before, linear.after, self.source))


def _scaling_of(norm: Norm) -> Scaling | None:
    """Return a norm of one number as a scaling; None for batch normalisation."""
    parts = norm.mean, np.ones(()) if norm.gain is None else norm.gain, norm.shift
    if norm.variance is not None or any(part is not None and np.size(part) != 1 for part in parts):
        return None
    mean, gain, shift = (0.0 if part is None else float(np.reshape(part, -1)[0]) for part in parts)
    offset = mean * gain
    return Scaling(gain, shift - offset, abs(shift) + abs(offset)) if np.isfinite([gain, shift, offset]).all() else None


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
    if _takes_norms(before) and len(_readers(steps, source)) == 1:
        return source, replace(before, after=(*before.after, *norms.norms))
    reader = readers[0] if len(readers) == 1 else None
    if reader is None:
        return None
    after = steps[reader].what
    if isinstance(after, _Scaled):
        return reader, _Scaled((*norms.norms, *after.norms))
    if _takes_norms(after):
        return reader, replace(after, before=(*norms.norms, *after.before))
    return None


def _takes_norms(what: _Kind) -> TypeGuard[_Linear]:
    """Return whether a step is an affine layer with numbers of its own: others cannot take in a norm of one place."""
    return isinstance(what, _Linear) and what.tie is None


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


def _with_head(steps: list[_Step], source: str) -> list[_Step]:
    """Return steps that end in an affine layer: one that the model has, or else one that passes on its output."""
    try:
        return _join_head(steps, source)
    except FairmendError as error:
        last, where = steps[-1], steps[-1].where
        end = last
        while isinstance(end.what, _Scaled):
            end = steps[end.sources[0]]
        ends = isinstance(end.what, Product | Sum | _Linear | Columns)
        if isinstance(end.what, Columns):  # of one value, and each once
            one = not isinstance(steps[end.sources[0]].what, Concatenate)
            ends = one and len(set(end.what.indices)) == end.width
        if not ends or not any(isinstance(step.what, _Linear) for step in steps):
            raise
        if _has_one_sign(steps, source):  # such as a mean of probabilities: all would be of one class
            if "probabilities" in str(error):
                raise
            way_out = "closes the network with numbers of one sign, as probabilities are; end in the logits"
            raise unsupported(source, where, way_out) from error
        dtype = next(step.what.weight.dtype for step in steps if isinstance(step.what, _Linear))
        fixed = _Linear(np.zeros(0, dtype), None, tie=Tie.identity(last.width))
        return [*steps, _Step(fixed, (len(steps) - 1,), last.width, where, "the output")]


def _has_one_sign(steps: Sequence[_Step], source: str) -> bool:
    """Return whether the last step never gives numbers of both signs, of random numbers in place of affine layers."""
    computed = {len(steps) - 1}
    for i in range(len(steps) - 1, -1, -1):
        if i in computed and not isinstance(steps[i].what, _Linear | _Joined):
            computed.update(steps[i].sources)
    rng, found = np.random.default_rng(0), dict[int, npt.NDArray[Any]]()
    scale = 10.0 ** rng.uniform(-2, 2, (_SAMPLES, 1))
    with np.errstate(all="ignore"):
        for i in sorted(computed):
            step, reads = steps[i], [found[each] for each in steps[i].sources if each in found]
            what = Softmax(step.what.size or step.width) if isinstance(step.what, _Softmax) else step.what
            found[i] = scale * (rng.normal(size=(_SAMPLES, step.width)) + 3 * rng.integers(-1, 2, (_SAMPLES, 1)))
            if isinstance(what, _Collapse):
                (found[i],) = reads
            elif isinstance(what, _Scaled):
                line = line_of(what.norms, step.width, source)
                found[i] = reads[0] * line.factor + line.shift
            elif isinstance(what, Operation) and not isinstance(what, Input | Lookup):
                what.compute(reads, found[i])
    last = found[len(steps) - 1]
    return not ((last > _NOTHING).any() and (last < -_NOTHING).any())


def _join_head(steps: list[_Step], source: str) -> list[_Step]:
    """Make one affine layer of an output that is a weighted sum of affine layers; refuse any other output."""
    last = end = len(steps) - 1
    while isinstance(steps[end].what, _Scaled):
        end = steps[end].sources[0]
    head = steps[end].what
    alone = all(len(_readers(steps, i)) == 1 for i in range(end, last))
    if isinstance(head, _Linear) and head.tie is None and alone:
        return steps
    if isinstance(head, _Linear):
        raise unsupported(
            source, steps[end].where, "closes the network, with weights that repeat or are used elsewhere"
        )
    if not isinstance(head, Sum):
        if not any(isinstance(step.what, _Linear) for step in steps):
            raise FairmendError(f"{source}: holds no affine layer; {SUPPORTED}")
        raise unsupported(source, steps[end].where, "closes the network")
    found = _Joining(steps, source)
    summed = found.collect(last, 1.0)
    rest = [(i, step) for i, step in enumerate(steps) if i not in found.joined]
    for _, step in rest:
        if not found.joined.isdisjoint(step.sources):
            raise unsupported(source, step.where, "reads a part of the output")
    where, new = steps[end].where, len(steps)
    reads: list[int] = []
    for read, chosen in found.reads:
        if chosen is not None:
            rest.append((new, _Step(Columns(chosen), (read,), len(chosen), where)))
            read, new = new, new + 1
        reads.append(read)
    width = sum(part.weight.shape[1] for part in found.parts)
    try:
        fold = Fold.join(tuple(found.parts), source, summed)
    except ValueError as error:
        raise FairmendError(f"{source}: {where} adds layers that do not fit together ({error})") from error
    names = "+".join(dict.fromkeys(part.name for part in found.parts))
    side_by_side = _Step(Concatenate(), tuple(reads), width, where)
    return _renumbered(
        [*rest, (new, side_by_side), (new + 1, _Step(_Joined(fold), (new,), steps[last].width, where, names))]
    )


@dataclass
class _Joining:
    """Finds the affine layers that an output adds up: `parts`, each with the step, and its columns, that it reads."""

    steps: Sequence[_Step]
    source: str
    parts: list[Part] = field(default_factory=list)
    reads: list[tuple[int, tuple[int, ...] | None]] = field(default_factory=list)
    joined: set[int] = field(default_factory=set)

    def collect(self, i: int, factor: float) -> Summed:
        """Find the layers that step i adds up, each with its factor; return how it adds them up."""
        step = self.steps[i]
        linear, members = self._blocks_of(i), self._members_of(i)
        if linear is None and members is None and not isinstance(step.what, Sum | _Scaled | _Linear):
            near = [step, *(self.steps[each] for each in step.sources)]
            probable = any(_is_sigmoid(each) or isinstance(each.what, _Softmax) for each in near)
            hint = "; average the logits, not the probabilities" if probable else ""
            raise unsupported(self.source, step.where, f"is added to the output, and is not an affine layer{hint}")
        if len(_readers(self.steps, i)) > 1:
            raise unsupported(self.source, step.where, "is a part of the output, and is read elsewhere as well")
        self.joined.add(i)
        if linear is not None:
            return self._block(i, linear, factor)
        if members is not None:
            return self._member(i, *members, factor)
        if isinstance(step.what, Sum):
            return (), tuple(self.collect(each, factor) for each in step.sources)
        if isinstance(step.what, _Scaled):
            for norm in step.what.norms:
                plain = norm.variance is None and not np.any(norm.mean)
                gain = np.ones(()) if norm.gain is None else np.asarray(norm.gain)
                if not plain or (norm.shift is not None and np.any(norm.shift)) or gain.size != 1:
                    raise unsupported(self.source, step.where, "changes a sum at the output, other than by one factor")
                factor *= float(gain.reshape(()))
            return step.what.norms, (self.collect(step.sources[0], factor),)
        assert isinstance(step.what, _Linear)
        if step.what.tie is not None:
            raise unsupported(
                self.source, step.where, "is a part of the output, with weights that repeat or are used elsewhere"
            )
        name = step.name if step.name is not None else f"part.{len(self.parts)}"
        return self._part(Part(name, step.what.weight, step.what.bias, factor), step.sources[0], None)

    def _blocks_of(self, i: int) -> _Linear | None:
        """Return the layer of whose blocks, each with weights of its own, step i chooses one; None if it does not."""
        step = self.steps[i]
        what = self.steps[step.sources[0]].what if isinstance(step.what, Columns) else None
        if isinstance(what, _Linear) and what.tie is not None and what.tie.weighted and not what.tie.shared:
            return what
        return None

    def _members_of(self, i: int) -> tuple[int, npt.NDArray[Any] | None] | None:
        """Return the derived layer of which step i chooses outputs, and a bias that is added to all; None if none.

        So do files compute the layers of several members at once.
        """
        step = self.steps[i]
        at = step.sources[0] if isinstance(step.what, Columns) else i
        added, bias = self.steps[at].what, None
        if isinstance(added, _Scaled) and len(added.norms) == 1 and at != i:
            norm, at = added.norms[0], self.steps[at].sources[0]
            only_added = norm.variance is None and not np.any(norm.mean) and np.all(np.asarray(norm.gain) == 1)
            if not only_added or norm.shift is None or len(_readers(self.steps, at)) > 1:
                return None
            bias = np.broadcast_to(norm.shift, (self.steps[at].width,))
        what = self.steps[at].what
        plain = isinstance(what, _Linear) and what.derived and (what.bias is None or bias is None)
        return (at, bias) if plain and at != i else None

    def _member(self, i: int, at: int, added: npt.NDArray[Any] | None, factor: float) -> Summed:
        step, linear, (source,) = self.steps[i], self.steps[at].what, self.steps[at].sources
        assert isinstance(step.what, Columns)
        assert isinstance(linear, _Linear)
        members = [self.steps[reader].what for reader in _readers(self.steps, step.sources[0]) if reader is not None]
        chosen = [index for each in members if isinstance(each, Columns) for index in each.indices]
        if sorted(chosen) != list(range(len(linear.weight))):
            raise unsupported(self.source, step.where, "adds up some outputs of a layer, and not each of them once")
        self.joined |= {at, step.sources[0]}
        rows = np.array(step.what.indices)
        columns = np.flatnonzero(linear.weight[rows].any(axis=0))
        columns = columns if len(columns) else np.arange(linear.weight.shape[1])
        bias = linear.bias if added is None else added.astype(linear.weight.dtype)
        slot = Slot(tuple(rows.tolist()), tuple(columns.tolist()), linear.weight.shape[1])
        name = self.steps[at].name or f"part.{at}"
        weight = linear.weight[np.ix_(rows, columns)]
        part = Part(name, weight, None if bias is None else bias[rows], factor, slot=slot)
        return self._part(part, source, None if len(columns) == slot.inputs else slot.columns)

    def _block(self, i: int, linear: _Linear, factor: float) -> Summed:
        step, tie = self.steps[i], linear.tie
        assert tie is not None
        assert isinstance(step.what, Columns)
        source, block = step.sources[0], step.what.indices[0] // tie.outputs
        every = all(isinstance(self.steps[reader].what, Columns) for reader in _readers(self.steps, source) if reader)
        if not every or step.what.indices != tuple(range(block * tie.outputs, (block + 1) * tie.outputs)):
            raise unsupported(self.source, step.where, "adds up other columns of a layer than those of whole blocks")
        self.joined.add(source)
        bias = None if linear.bias is None else linear.bias.reshape(tie.blocks, -1)[block]
        columns = tuple(range(block * tie.inputs, (block + 1) * tie.inputs))
        part = Part(self.steps[source].name or f"part.{source}", linear.weight[block], bias, factor, block)
        return self._part(part, self.steps[source].sources[0], columns)

    def _part(self, part: Part, read: int, columns: tuple[int, ...] | None) -> Summed:
        self.parts.append(part)
        self.reads.append((read, columns))
        return len(self.parts) - 1


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

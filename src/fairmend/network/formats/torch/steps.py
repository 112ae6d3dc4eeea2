"""The steps of a PyTorch model: what each computes, from which tensors of its state dict.

A state dict holds tensors only. `Steps` adds steps to a graph and keeps a description of each: plain data that names
the tensors (`network.description`). It goes into fairmend's note in a saved file and into certificates, and `replay`
makes the network of it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network, Operation
from fairmend.network.folding import Norm
from fairmend.network.form import Form
from fairmend.network.formats.build import GraphBuilder, Value, unsupported
from fairmend.network.operations import KINDS
from fairmend.network.operations.ties import Tie

_MOST_COLUMNS = 2**20
_MOST_CLASSES = 2**12  # of a one-hot code

Tensors = Mapping[str, npt.NDArray[Any]]
Entry = dict[str, Any]
Number = str | float | list[float] | None
"""A tensor by its key, one number, one for each unit, or nothing."""


def layer_name(key: str) -> str:
    """Return the name of the layer whose weights have this key: 'layers.0' for 'layers.0.weight'."""
    return "" if key == "weight" else key.removesuffix(".weight")


def step_name(entry: Entry, tensors: Tensors) -> str:
    """Return the name of the affine layer of a step; only a module that is one layer has a layer without a name."""
    if entry["weight"] is None:
        return str(entry["bias"])
    return layer_name(entry["weight"]) or ("" if set(tensors) <= {"weight", "bias"} else "weight")


def norm_name(key: str) -> str:
    """Return the name of the batch normalisation whose running mean has this key."""
    return key.removesuffix("running_mean").removesuffix(".")


@dataclass
class Steps:
    """Adds steps to a graph, and keeps their description.

    ``tensors`` are those of the state dict, ``shared`` the weights that several layers use, and ``copied`` the keys of
    those of which steps hold numbers; after `pruned`, only of those that affine layers have as well.
    """

    source: str
    tensors: Tensors
    shared: frozenset[str] = frozenset()
    entries: list[Entry] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    copied: set[str] = field(default_factory=set)
    builder: GraphBuilder = field(init=False)

    def __post_init__(self) -> None:
        """Start an empty graph."""
        self.builder = GraphBuilder(self.source)

    def input(self, columns: int, names: Sequence[tuple[str, int]] = ()) -> Value:
        """Start with a row of so many columns; ``names`` are the inputs of the model and their columns, if several."""
        if not 0 < columns <= _MOST_COLUMNS:
            raise FairmendError(f"{self.source}: has {columns} input columns; it must be 1 to {_MOST_COLUMNS:,}")
        entry: Entry = {"kind": "input", "columns": columns}
        if names:
            entry["inputs"] = [[name, width] for name, width in names]
        return self._keep(self.builder.input(columns, names), entry, (), "the input")

    def affine(
        self,
        x: Value,
        where: str,
        weight: str | None,
        bias: str | None,
        transposed: bool = False,
        blocks: int | None = None,
        tokens: int = 1,
    ) -> Value:
        """Add an affine layer; ``transposed`` where its weights are stored as (in, out).

        It reads (blocks, tokens, in): each block has its own weights for all its tokens. With ``blocks``, even 1, the
        tensor may have any shape, as long as its numbers are those of (blocks, out, in) in order. Without weights, the
        layer gives its bias for every row.
        """
        numbers = None if bias is None else self._tensor(bias)
        if weight is None and (same := self._constant(bias)) is not None:
            return same
        entry: Entry = {"kind": "affine", "weight": weight, "bias": bias}
        entry |= ({} if blocks is None else {"blocks": blocks}) | ({"tokens": tokens} if tokens > 1 else {})
        entry |= {"transposed": True} if transposed else {}
        name = step_name(entry, self.tensors)
        if weight is not None and (blocks or 1, tokens) == (1, 1) and weight not in self.shared:
            matrix = self._tensor(weight)
            if blocks is not None and matrix.size % x.width == 0:
                matrix = matrix.reshape((x.width, -1) if transposed else (-1, x.width))
                numbers = None if numbers is None else numbers.reshape(-1)
            value = self.builder.linear(x, where, matrix.T if transposed else matrix, numbers, name)
        else:
            tie, stored = self._tie(x, where, weight, numbers, transposed, blocks or 1, tokens)
            uses = sum(each["kind"] == "affine" and each["weight"] == weight for each in self.entries)
            value = self.builder.tied(
                x, where, tie, stored, numbers, f"{name}:{uses + 1}" if tie.key and uses else name
            )
        return self._keep(value, entry, (x,), where)

    def _constant(self, bias: str | None) -> Value | None:
        """Return the layer that gives this bias alone, if there is one already."""
        for step, entry in enumerate(self.entries):
            if entry["kind"] == "affine" and entry["weight"] is None and entry["bias"] == bias:
                return Value(step, self.builder.width(step))
        return None

    def _tie(
        self,
        x: Value,
        where: str,
        weight: str | None,
        bias: npt.NDArray[Any] | None,
        transposed: bool,
        blocks: int,
        tokens: int,
    ) -> tuple[Tie, npt.NDArray[Any]]:
        """Return how an affine layer repeats its numbers, and its weights as (blocks, out, in)."""
        inputs, rest = divmod(x.width, blocks * tokens)
        if weight is None:
            if bias is None:
                raise FairmendError(f"{self.source}: {where} has neither weights nor a bias")
            return Tie(bias.size, x.width, own_bias=True, weighted=False), bias.reshape(-1)[:0]
        stored = self._tensor(weight)
        if rest or stored.size % (blocks * inputs):
            raise FairmendError(
                f"{self.source}: {where} has weights of shape {stored.shape} for {x.width} values in "
                f"{blocks * tokens} groups"
            )
        outputs = stored.size // (blocks * inputs)
        stored = stored.reshape(blocks, inputs, outputs).swapaxes(1, 2) if transposed else stored
        own = bias is not None and tokens > 1 and bias.size == blocks * tokens * outputs
        if bias is not None and not own and bias.size != blocks * outputs:
            raise FairmendError(
                f"{self.source}: {where} has {bias.size} biases for {blocks * tokens} groups of {outputs} values"
            )
        key = step_name({"weight": weight}, self.tensors) if weight in self.shared else ""
        try:
            return Tie(outputs, inputs, blocks, tokens, own, key=key), stored.reshape(blocks, outputs, inputs)
        except FairmendError as error:
            raise unsupported(self.source, where, str(error)) from error

    def batch_norm(
        self,
        x: Value,
        where: str,
        mean: str,
        variance: str,
        gain: str | None,
        shift: str | None,
        epsilon: float,
    ) -> Value:
        """Add batch normalisation in evaluation mode."""
        parts = [None if key is None else self._tensor(key) for key in (mean, variance, gain, shift)]
        assert parts[0] is not None
        norm = Norm(where, parts[0], parts[1], parts[2], parts[3], epsilon, norm_name(mean))
        entry: Entry = {"kind": "batch_norm", "mean": mean, "variance": variance, "gain": gain, "shift": shift}
        return self._keep(self.builder.norm(x, norm), {**entry, "epsilon": epsilon}, (x,), where)

    def scale(
        self,
        x: Value,
        where: str,
        *,
        mean: Number = None,
        divisor: Number = None,
        gain: Number = None,
        shift: Number = None,
    ) -> Value:
        """Add (x − mean) / divisor · gain + shift; what is None is left out."""
        centre, above = self.numbers(mean), self.numbers(shift)
        norm = Norm(where, np.zeros(()) if centre is None else centre, None, self.factor(gain, divisor), above)
        parts = {"mean": mean, "divisor": divisor, "gain": gain, "shift": shift}
        entry = {"kind": "scale", **{name: part for name, part in parts.items() if part is not None}}
        return self._keep(self.builder.norm(x, norm), entry, (x,), where)

    def function(self, x: Value, where: str, activation: Activation) -> Value:
        """Add an elementwise function."""
        return self._keep(self.builder.function(x, where, activation), activation.entry, (x,), where)

    def prelu(self, x: Value, where: str, slopes: str) -> Value:
        """Add a PReLU, whose slopes are a tensor."""
        numbers = np.asarray(self._tensor(slopes), np.float64).reshape(-1)
        wide = np.repeat(numbers, x.width) if len(numbers) == 1 else numbers
        value = self.builder.function(x, where, Activation("prelu", 0.0, tuple(wide.tolist())))
        return self._keep(value, {"kind": "function", "name": "prelu", "parameters": slopes}, (x,), where)

    def softmax(self, x: Value, where: str, size: int | None = None) -> Value:
        """Add a softmax over each group of so many columns; without a size, it or its logarithm is for the output."""
        entry: Entry = {"kind": "softmax"} if size is None else {"kind": "softmax", "size": size}
        return self._keep(self.builder.softmax(x, where, size), entry, (x,), where)

    def apply(self, where: str, operation: Operation, values: Sequence[Value]) -> Value:
        """Add an operation without tensors."""
        return self._keep(self.builder.apply(where, operation, values), operation.entry, values, where)

    def concatenate(self, where: str, values: Sequence[Value]) -> Value:
        """Put values side by side."""
        return self._keep(self.builder.concatenate(where, values), {"kind": "concatenate"}, values, where)

    def columns(self, x: Value, where: str, indices: Sequence[int]) -> Value:
        """Choose columns; a choice of chosen columns is one choice."""
        chosen = [int(index) for index in indices]
        before = self.entries[x.step]
        if before["kind"] == "columns" and before["sources"][0] > 0 and chosen:
            if not all(0 <= index < x.width for index in chosen):
                raise FairmendError(f"{self.source}: {where} chooses columns that {x.width} columns do not have")
            chosen = [before["indices"][index] for index in chosen]
            (source,) = before["sources"]
            x = Value(source, self.builder.width(source))
        return self._keep(self.builder.columns(x, where, chosen), {"kind": "columns", "indices": chosen}, (x,), where)

    def lookup(self, x: Value, where: str, table: str | int) -> Value:
        """Look up one column in a table: a tensor, or the identity of so many rows (one-hot)."""
        if isinstance(table, int):
            if not 0 < table <= _MOST_CLASSES:
                raise unsupported(self.source, where, f"has {table} classes; it must be 1 to {_MOST_CLASSES:,}")
            rows: npt.NDArray[Any] = np.eye(table, dtype=self.dtype)
            value = self.builder.lookup(x, where, rows, f"one_hot({table})", stored=False)
            return self._keep(value, {"kind": "lookup", "classes": table}, (x,), where)
        value = self.builder.lookup(x, where, self._tensor(table), layer_name(table))
        return self._keep(value, {"kind": "lookup", "table": table}, (x,), where)

    @property
    def row(self) -> Value:
        """The row of inputs."""
        return Value(0, self.builder.width(0))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the weights: that of the first matrix of numbers."""
        kinds = [tensor.dtype for tensor in self.tensors.values() if tensor.dtype.kind == "f"]
        return kinds[0] if kinds else np.dtype(np.float32)

    def _keep(self, value: Value, entry: Entry, sources: Sequence[Value], where: str) -> Value:
        """Keep the description of a step; what adds no step, such as a choice of all columns, has none."""
        if value.step == len(self.entries):
            self.entries.append({**entry, "sources": [source.step for source in sources]})
            self.places.append(where)
        return value

    def _tensor(self, key: str) -> npt.NDArray[Any]:
        if key not in self.tensors:
            raise FairmendError(f"{self.source}: there is no tensor {key!r}")
        return self.tensors[key]

    def factor(self, gain: Number, divisor: Number) -> npt.NDArray[np.float64] | None:
        """Return the factor of a scaling, gain / divisor; None if it has neither."""
        factor, below = self.numbers(gain), self.numbers(divisor)
        if below is None:
            return factor
        with np.errstate(divide="ignore"):
            return np.asarray(1 / below if factor is None else factor / below)

    def numbers(self, number: Number) -> npt.NDArray[np.float64] | None:
        """Return numbers as an array: one for all units, or one for each; None if there are none."""
        if number is None:
            return None
        values = np.asarray(self._tensor(number) if isinstance(number, str) else number, np.float64).reshape(-1)
        return values.reshape(()) if values.size == 1 else values


def pruned(steps: Steps, last: int) -> tuple[list[Entry], list[str]]:
    """Return the steps that step ``last`` depends on, renumbered, and the words for each in messages.

    A tensor that is added to an affine layer without a bias is its bias.
    """
    entries = [dict(entry) for entry in steps.entries[: last + 1]]
    needed = {0, last}
    for i in range(last, 0, -1):
        needed.update(entries[i]["sources"] if i in needed else ())
    readers = {i: [k for k in needed if i in entries[k]["sources"]] for i in needed}
    weights = [entries[i]["weight"] for i in needed if entries[i]["kind"] == "affine"]
    merged: dict[int, int] = {}
    for i in sorted(needed):
        entry, reader = entries[i], readers[i]
        after = entries[reader[0]] if len(reader) == 1 and i != last else {}
        if (
            entry["kind"] == "affine"
            and entry["bias"] is None
            and _is_bias(after)
            and weights.count(entry["weight"]) == 1
        ):
            entry["bias"] = after["shift"]
            merged[reader[0]] = i
    kept = sorted(needed - set(merged))
    steps.copied = _also_elsewhere([entries[i] for i in kept], steps.copied)
    places = {old: new for new, old in enumerate(kept)}
    places |= {gone: places[into] for gone, into in merged.items()}
    found = [
        {**_with_numbers(entries[i], steps), "sources": [places[source] for source in entries[i]["sources"]]}
        for i in kept
    ]
    return found, [steps.places[i] for i in kept]


def _also_elsewhere(entries: Sequence[Entry], copied: set[str]) -> set[str]:
    """Return the tensors of affine layers that other steps read or hold numbers of: a repair would change them too."""
    layers = {entry[part] for entry in entries if entry["kind"] == "affine" for part in ("weight", "bias")}
    others = {value for entry in entries if entry["kind"] != "affine" for value in entry.values() if type(value) is str}
    return layers & (copied | others)


def _with_numbers(entry: Entry, steps: Steps) -> Entry:
    """Return a scaling with its numbers themselves, whichever tensors the code of the module takes them from."""
    if entry["kind"] != "scale":
        return entry
    mean, shift = (steps.numbers(entry.get(part)) for part in ("mean", "shift"))
    parts = {"mean": mean, "gain": steps.factor(entry.get("gain"), entry.get("divisor")), "shift": shift}
    return {"kind": "scale", **{name: part.reshape(-1).tolist() for name, part in parts.items() if part is not None}}


def _is_bias(entry: Entry) -> bool:
    """Return whether a step only adds a tensor."""
    return set(entry) == {"kind", "sources", "shift"} and entry["kind"] == "scale" and isinstance(entry["shift"], str)


def replay(
    entries: Sequence[Entry], tensors: Tensors, source: str, form: Form | None = None, places: Sequence[str] = ()
) -> Network:
    """Return the network that a description names, with these tensors; ``places`` are the words for its steps."""
    steps = Steps(source, tensors, _shared(entries, source))
    values: list[Value] = []
    for i, entry in enumerate(entries):
        where = places[i] if places else f"step {i} ({entry['kind']})"
        values.append(_replayed(steps, entry, [_earlier(values, number) for number in entry["sources"]], where))
    if not values:
        raise FairmendError("describes no steps")
    return steps.builder.network(values[-1], form)


def _shared(entries: Sequence[Entry], source: str) -> frozenset[str]:
    """Return the weights that several layers use; refuse those that are used with other biases or in other orders."""
    uses: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry["kind"] == "affine" and entry["weight"] is not None:
            uses.setdefault(entry["weight"], []).append(entry)
    for key, found in uses.items():
        if any(each.get(part) != found[0].get(part) for each in found for part in ("bias", "transposed", "blocks")):
            raise unsupported(
                source, f"layer {layer_name(key)!r}", "is used twice, with different biases or transposed"
            )
    biases = [str(entry["bias"]) for entry in entries if entry["kind"] == "affine" and entry["weight"] is None]
    biases += [str(found[0]["bias"]) for found in uses.values() if found[0]["bias"] is not None]
    twice = next((key for key in biases if biases.count(key) > 1 or key in uses), None)
    if twice is not None:
        raise unsupported(source, f"the tensor {twice!r}", "is used twice, in different layers")
    return frozenset(key for key, found in uses.items() if len(found) > 1)


def _earlier(values: Sequence[Value], number: Any) -> Value:
    if type(number) is not int or not 0 <= number < len(values):
        raise FairmendError(f"reads step {number!r}, which does not come before it")
    return values[number]


def _replayed(steps: Steps, entry: Entry, sources: list[Value], where: str) -> Value:
    """Add one step of a description; all its texts and numbers may come from a file."""
    kind = entry["kind"]
    rest = {key: value for key, value in entry.items() if key not in ("kind", "sources")}
    if kind == "input":
        names = [(str(name), int(width)) for name, width in rest.get("inputs", ())]
        return steps.input(int(rest["columns"]), names)
    if kind in KINDS:
        return steps.apply(where, KINDS[kind].from_entry(rest), sources)
    if kind == "concatenate":
        return steps.concatenate(where, sources)
    (x,) = sources
    if kind == "affine":
        blocks = int(rest["blocks"]) if "blocks" in rest else None
        turned, tokens = rest.get("transposed", False) is True, int(rest.get("tokens", 1))
        return steps.affine(x, where, rest["weight"], rest["bias"], turned, blocks, tokens)
    if kind == "batch_norm":
        return steps.batch_norm(x, where, **{**rest, "epsilon": float(rest["epsilon"])})
    if kind == "scale":
        return steps.scale(x, where, **{part: [float(number) for number in rest[part]] for part in rest})
    if kind == "function":
        if rest["name"] == "prelu" and isinstance(rest["parameters"], str):
            return steps.prelu(x, where, rest["parameters"])
        return steps.function(x, where, Activation(**rest))
    if kind == "softmax":
        return steps.softmax(x, where, int(rest["size"]) if "size" in rest else None)
    if kind == "columns":
        return steps.columns(x, where, rest["indices"])
    if kind == "lookup":
        return steps.lookup(x, where, int(rest["classes"]) if "classes" in rest else str(rest["table"]))
    raise FairmendError(f"names a step that this fairmend does not know: {kind!r}; upgrade fairmend")

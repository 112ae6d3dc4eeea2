"""A repaired model as a PyTorch module: the canonical map and the average around the user's own module."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fairmend.base.errors import FairmendError
from fairmend.models.averaging import LEAST_PROBABILITY, Average
from fairmend.models.canonical import CanonicalMap
from fairmend.models.entry import ELEMENT_TYPES, Code, Entry, TableLookup
from fairmend.models.module import ModuleRunner, pick_scores
from fairmend.models.ports import Port
from fairmend.network import Network

if TYPE_CHECKING:
    from fairmend.models.repaired import RepairedModel


def as_module(model: RepairedModel) -> nn.Module:
    """Return a module that takes the arguments of the original's forward, and gives scores in the same form."""
    base, canonical = model.base, model.canonical
    if isinstance(base, Network):
        module, kind = base.to_module(), "logit" if base.closing == "none" else "probability"
    elif isinstance(base.runner, ModuleRunner):
        module, kind = base.runner.module, base.kind
    else:
        raise FairmendError("the original is no PyTorch module, so there is none to put the repair around; use save()")
    runner = ModuleRunner(module)
    ports = runner.ports(canonical.spec)
    return CanonicalModule(module, canonical.entry(ports), model.average, canonical, kind)


class _Code(nn.Module):
    """Reads a code off each row."""

    columns: Tensor
    constants: Tensor
    weights: Tensor

    def __init__(self, code: Code, kind: str) -> None:
        super().__init__()
        self.port, self.most, self.equal = code.port, code.most, code.compare == "=="
        self.register_buffer("columns", torch.tensor(code.columns))
        self.register_buffer("constants", torch.from_numpy(np.array([code.constants], dtype=ELEMENT_TYPES[kind])))
        self.register_buffer("weights", torch.tensor([code.weights]))

    def forward(self, matrices: Sequence[Tensor]) -> Tensor:
        read = matrices[self.port].index_select(1, self.columns)
        holds = torch.eq(read, self.constants) if self.equal else torch.ge(read, self.constants)
        return (holds.long() * self.weights).sum(dim=1).clamp(max=self.most)


class _Lookup(nn.Module):
    """Looks columns up in a table."""

    table: Tensor

    def __init__(self, lookup: TableLookup, types: Sequence[str]) -> None:
        super().__init__()
        self.codes = nn.ModuleList(_Code(code, types[code.port]) for code in lookup.codes)
        self.strides = lookup.strides
        self.register_buffer("table", torch.from_numpy(np.ascontiguousarray(lookup.table)))

    def forward(self, matrices: Sequence[Tensor]) -> Tensor:
        index = sum(code(matrices) * stride for code, stride in zip(self.codes, self.strides, strict=True))
        return self.table[index]


class EntryModule(nn.Module):
    """An entry: gives for each port what the model reads behind it."""

    def __init__(self, entry: Entry) -> None:
        """Store the constants of the entry as buffers, so that they move with the module."""
        super().__init__()
        types = [port.type for port in entry.ports]
        self.width = entry.widths
        self.lookups = nn.ModuleList(_Lookup(lookup, types) for lookup in entry.lookups)
        self.written = [(lookup.port, lookup.columns) for lookup in entry.lookups]
        for i, (port, width) in enumerate(zip(entry.ports, entry.widths, strict=True)):
            cuts = {cut.column: cut.value for cut in entry.cuts if cut.port == i}
            reference = np.array([[cuts.get(column, 0) for column in range(width)]], dtype=ELEMENT_TYPES[port.type])
            self.register_buffer(f"mask_{i}", torch.tensor([[column in cuts for column in range(width)]]))
            self.register_buffer(f"reference_{i}", torch.from_numpy(reference))

    def forward(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Return the canonical matrices."""
        found = [
            torch.where(getattr(self, f"mask_{i}"), getattr(self, f"reference_{i}").to(matrix.dtype), matrix)
            for i, matrix in enumerate(matrices)
        ]
        for lookup, (port, columns) in zip(self.lookups, self.written, strict=True):
            new = lookup(matrices).to(found[port].dtype)
            place = {column: k for k, column in enumerate(columns)}
            found[port] = torch.stack(
                [new[:, place[c]] if c in place else found[port][:, c] for c in range(self.width[port])], dim=1
            )
        return found


class _Weights(nn.Module):
    """How much each member counts."""

    mean: Tensor
    deviation: Tensor
    slope: Tensor
    bias: Tensor

    def __init__(self, average: Average, ports: Sequence[Port]) -> None:
        super().__init__()
        canonical, weights = average.canonical, average.weights
        feature = canonical.spec.feature
        readings = [(canonical.read_value(feature(name), ports), table) for name, table in weights.tables.items()]
        self.codes = nn.ModuleList(_Code(code, ports[code.port].type) for (code, _), _ in readings)
        for k, ((_, values), table) in enumerate(readings):
            self.register_buffer(f"table_{k}", torch.from_numpy(table[values.astype(np.int64)]))
        self.places = [canonical.place(feature(name), ports) for name in weights.numbers]
        for name in ("mean", "deviation", "slope", "bias"):
            self.register_buffer(name, torch.from_numpy(np.array(getattr(weights, name))))

    def forward(self, canonical: Sequence[Tensor]) -> Tensor:
        logits = self.bias[None].repeat(len(canonical[0]), 1)
        for k, code in enumerate(self.codes):
            logits = logits + getattr(self, f"table_{k}")[code(canonical)]
        for k, place in enumerate(self.places):
            number = canonical[place.port][:, place.columns[0]].double()
            logits = logits + ((number - self.mean[k]) / self.deviation[k])[:, None] * self.slope[k]
        return torch.softmax(logits, dim=1)


class CanonicalModule(nn.Module):
    """The user's module behind a canonical map: forward takes the same arguments, and gives scores of the same form.

    The output depends on a person only through their class of similar people.
    """

    def __init__(
        self, module: nn.Module, entry: Entry, average: Average | None, canonical: CanonicalMap, kind: str
    ) -> None:
        """Put the parts around the module, which stays as it is."""
        super().__init__()
        self.module, self.entry = module, EntryModule(entry)
        self.ports, self.kind = entry.ports, kind if not canonical.spec.regression else "number"
        self.members = nn.ModuleList(EntryModule(each) for each in (average.entries(entry.ports) if average else ()))
        self.weights = None if average is None else _Weights(average, entry.ports)
        self.shift = 0.0 if average is None else average.shift
        self._signature = inspect.signature(module.forward)
        self.train(module.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the scores; their shape and kind are those of the user's module."""
        given = self._signature.bind(*args, **kwargs).arguments
        tensors = self._tensors(given)
        flat = [tensor.dim() == 1 for tensor in tensors]
        canonical = self.entry([t[:, None] if one else t for t, one in zip(tensors, flat, strict=True)])
        if self.weights is None:
            return self._run(given, canonical, flat)
        rows = [member(canonical) for member in self.members]
        together = [torch.cat([each[i] for each in rows]) for i in range(len(canonical))]
        scores = self._run(given, together, flat)
        return self._average(scores, self.weights(canonical))

    def _tensors(self, given: dict[str, Any]) -> list[Tensor]:
        if all(port.name in given for port in self.ports):
            return [given[port.name] for port in self.ports]
        (only,) = [value for value in given.values() if value is not None]
        if isinstance(only, tuple):  # of a forward that takes *tensors
            return list(only)
        return [only[port.name] for port in self.ports] if isinstance(only, dict) else [only]

    def _run(self, given: dict[str, Any], matrices: Sequence[Tensor], flat: Sequence[bool]) -> Tensor:
        tensors = [t[:, 0] if one else t for t, one in zip(matrices, flat, strict=True)]
        named = dict(zip((port.name for port in self.ports), tensors, strict=True))
        if all(port.name in given for port in self.ports):
            found = self.module(**{**given, **named})
        else:
            (key,) = [key for key, value in given.items() if value is not None]
            if isinstance(given[key], tuple):
                found = self.module(*tensors)
            else:
                found = self.module(**{**given, key: named if isinstance(given[key], dict) else tensors[0]})
        return pick_scores(found, len(tensors[0]), type(self.module).__name__)

    def _average(self, scores: Tensor, weights: Tensor) -> Tensor:
        count = weights.shape[1]
        by_member = scores.double().reshape(count, len(weights), -1)
        several = by_member.shape[2] > 1
        if self.kind == "logit":
            by_member = torch.softmax(by_member, dim=2) if several else torch.sigmoid(by_member)
        mean = (by_member * weights.T[:, :, None]).sum(dim=0)
        if self.kind != "number":
            mean = self._closing(mean)
        return mean.reshape(len(weights), *scores.shape[1:]).to(scores.dtype)

    def _closing(self, mean: Tensor) -> Tensor:
        if mean.shape[1] > 2:
            return mean.clamp(min=LEAST_PROBABILITY).log() if self.kind == "logit" else mean
        positive = mean[:, -1:]
        first, second = (each.clamp(min=LEAST_PROBABILITY).log() for each in (1 - positive, positive))
        odds = second - first + self.shift
        if self.kind == "logit":
            return odds if mean.shape[1] == 1 else torch.cat([torch.zeros_like(odds), odds], dim=1)
        found = torch.sigmoid(odds)
        return found if mean.shape[1] == 1 else torch.cat([1 - found, found], dim=1)

"""The one JSON form of a network: its steps, each with the steps that it reads, on named tensors.

    {"kind": "affine", "weight": "fc1.weight", "bias": "fc1.bias", "sources": [0]}

fairmend's note in a state dict has the steps, and the file the tensors. A certificate has both, and so does the page of
a report. docs/certificate.md ("The network") lists the kinds; the checker reads them with code of its own.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.network.folding import Norm, Part

if TYPE_CHECKING:
    from fairmend.network.network import Network

Tensors = Mapping[str, npt.NDArray[Any]]
Entry = dict[str, Any]

_TENSORS = ("weight", "bias", "table", "mean", "variance", "gain", "shift")  # parts of steps that name tensors


@dataclass
class Description:
    """The steps of a network so far, and the tensors that they name.

    ``stored`` describes layers as their file stores them, with batch normalisation and scaling as steps of their own;
    else these are folded into the layers. ``number`` is that of the node that is being described.
    """

    stored: bool
    steps: list[Entry] = field(default_factory=list)
    tensors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    number: int = 0

    def add(self, kind: str, sources: Sequence[int], **more: Any) -> int:
        """Add a step, and return its number."""
        self.steps.append({"kind": kind, **more, "sources": list(sources)})
        return len(self.steps) - 1

    def keep(self, key: str, array: npt.NDArray[Any]) -> str:
        """Add a tensor, and return its key."""
        self.tensors[key] = array
        return key

    def layer(self, name: str, weight: npt.NDArray[Any], bias: npt.NDArray[Any] | None, sources: Sequence[int]) -> int:
        """Add an affine layer; None: it has no bias."""
        keys = {part: f"{name}.{part}" if name else part for part in ("weight", "bias")}
        kept = self.keep(keys["weight"], weight), None if bias is None else self.keep(keys["bias"], bias)
        return self.add("affine", sources, weight=kept[0], bias=kept[1])

    def norms(self, norms: Sequence[Norm], source: int) -> int:
        """Add norms, one after the other."""
        for norm in norms:
            parts = {"mean": norm.mean, "variance": norm.variance, "gain": norm.gain, "shift": norm.shift}
            if norm.variance is None:
                numbers = {key: _listed(part) for key, part in parts.items() if part is not None}
                source = self.add("scale", [source], **numbers)
            else:
                keys = {
                    key: None if part is None else self.keep(f"norms.{len(self.steps)}.{key}", np.asarray(part))
                    for key, part in parts.items()
                }
                source = self.add("batch_norm", [source], **keys, epsilon=float(norm.epsilon))
        return source

    def joined(self, parts: Sequence[Part], sources: Sequence[int]) -> int:
        """Add several affine layers, each of its own source, and the sum of what they give, each times its factor."""
        added = []
        for part, source in zip(parts, sources, strict=True):
            own = self.layer(part.name, part.weight, part.bias, [source])
            added.append(own if part.factor == 1 else self.add("scale", [own], gain=[part.factor]))
        return self.add("sum", added)

    def close(self, closing: str) -> None:
        """Add the sigmoid or softmax that turns logits into probabilities."""
        kind = {"kind": "softmax"} if closing == "softmax" else {"kind": "function", "name": "sigmoid"}
        self.steps.append({**kind, "sources": [len(self.steps) - 1]})

    def sources_of(self, step: int, count: int) -> list[int]:
        """Return what a concatenation of so many steps puts side by side; take it away if it is the last."""
        sources = self.steps[step]["sources"] if self.steps[step]["kind"] == "concatenate" else [step]
        assert len(sources) == count
        if step == len(self.steps) - 1 and count > 1:
            self.steps.pop()
        return list(sources)


def _listed(part: npt.NDArray[Any]) -> list[float]:
    listed: list[float] = np.asarray(part, np.float64).reshape(-1).tolist()
    return listed


def describe_network(network: Network, *, stored: bool) -> Description:
    """Return the description of a network, without what closes it."""
    found = Description(stored)
    steps: list[int] = []  # the last step of each node
    for found.number, node in enumerate(network.nodes):
        steps.append(node.operation.describe(found, node.name, [steps[source] for source in node.sources]))
    return found


def to_json(network: Network, most_bytes: int) -> dict[str, Any]:
    """Return steps and tensors of a network as its file stores it; None for both if the tensors have more bytes.

    Tensors get names of their own, t0, t1, …: those of a file may hold any letters.
    """
    found = describe_network(network, stored=True)
    if sum(tensor.nbytes for tensor in found.tensors.values()) > most_bytes:
        return {"steps": None, "tensors": None}
    names = {key: f"t{number}" for number, key in enumerate(found.tensors)}
    steps = [
        {part: names[value] if part in _TENSORS and isinstance(value, str) else value for part, value in step.items()}
        for step in found.steps
    ]
    steps[0].pop("inputs", None)  # names of a model's inputs
    return {"steps": steps, "tensors": {names[key]: _packed(tensor) for key, tensor in found.tensors.items()}}


def _packed(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Return a tensor: its shape, and its numbers as base64 of a zlib stream of their little-endian bytes."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    values = base64.b64encode(zlib.compress(little, 6)).decode("ascii")
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": values}

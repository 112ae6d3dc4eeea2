"""The one JSON form of a network: its steps, each with the steps that it reads, on named tensors.

    {"kind": "affine", "weight": "fc1.weight", "bias": "fc1.bias", "sources": [0]}

fairmend's note in a state dict has the steps, and the file the tensors. A certificate has both, and so does the page of
a report. docs/certificate.md ("The network") lists the kinds. `network.formats.torch.steps.replay` makes the network of
it again, and the kernel reads it with code of its own: what fairmend proves is about the network that it reads.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.network.folding import Fold, Norm, Part, Summed
from fairmend.network.form import FormError
from fairmend.network.rescaling import Rescaling, Scaling

if TYPE_CHECKING:
    from fairmend.network.network import Network
    from fairmend.network.operations import StoredLayer
    from fairmend.network.operations.ties import Tie

Tensors = Mapping[str, npt.NDArray[Any]]
Entry = dict[str, Any]

_TENSORS = ("weight", "bias", "table", "mean", "variance", "gain", "shift", "parameters")  # name tensors, if texts
_NORM_KEYS = {"mean": "running_mean", "variance": "running_var", "gain": "weight", "shift": "bias"}
_COUNTER = "num_batches_tracked"  # of batch normalisation in PyTorch, which inference does not use


@dataclass
class Description:
    """The steps of a network so far, and the tensors that they name.

    ``stored`` describes layers as their file stores them, with batch normalisation and scaling as steps of their own;
    else these are folded into the layers. ``dtype`` is that of the network, and ``number`` that of the node that is
    being described.
    """

    stored: bool
    dtype: np.dtype[Any]
    steps: list[Entry] = field(default_factory=list)
    tensors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    number: int = 0

    def add(self, kind: str, sources: Sequence[int], **more: Any) -> int:
        """Add a step, and return its number."""
        self.steps.append({"kind": kind, **more, "sources": list(sources)})
        return len(self.steps) - 1

    def keep(self, key: str, array: npt.NDArray[Any]) -> str:
        """Add a tensor, and return its key: another one if this names another tensor."""
        while key in self.tensors and not np.array_equal(self.tensors[key], array):
            key = f"{key}.{self.number}"
        self.tensors[key] = array
        return key

    def layer(self, name: str, weight: npt.NDArray[Any], bias: npt.NDArray[Any] | None, sources: Sequence[int]) -> int:
        """Add an affine layer; None: it has no bias."""
        keys = {part: f"{name}.{part}" if name else part for part in ("weight", "bias")}
        kept = self.keep(keys["weight"], weight), None if bias is None else self.keep(keys["bias"], bias)
        return self.add("affine", sources, weight=kept[0], bias=kept[1])

    def tied(self, tie: Tie, layer: StoredLayer, sources: Sequence[int]) -> int:
        """Add an affine layer whose matrix repeats the numbers that are stored for it."""
        parts = {"weight": layer.weight if layer.weight.size else None, "bias": layer.bias}
        keys = {
            part: None if array is None else self.keep(f"{layer.name}.{part}" if layer.name else part, array)
            for part, array in parts.items()
        }
        counts = {"blocks": tie.blocks, "tokens": tie.tokens} if tie.weighted else {}
        return self.add("affine", sources, **keys, **counts)

    def norms(self, norms: Sequence[Norm], source: int) -> int:
        """Add norms, one after the other."""
        for norm in norms:
            parts = {"mean": norm.mean, "variance": norm.variance, "gain": norm.gain, "shift": norm.shift}
            if norm.variance is None:
                numbers = {key: _listed(part) for key, part in parts.items() if part is not None}
                source = self.add("scale", [source], **numbers)
            else:
                name = norm.name if norm.name else f"norms.{len(self.steps)}"
                keys = {
                    key: None if part is None else self.keep(f"{name}.{_NORM_KEYS[key]}", np.asarray(part))
                    for key, part in parts.items()
                }
                source = self.add("batch_norm", [source], **keys, epsilon=float(norm.epsilon))
        return source

    def joined(self, fold: Fold, sources: Sequence[int]) -> int:
        """Add several affine layers, each of its own source, and their sum as the file computes it."""
        layers: list[int] = []
        together: dict[str, int] = {}
        for part, source in zip(fold.parts, sources, strict=True):
            if part.slot is None:
                layers.append(self.layer(part.name, part.weight, part.bias, [source]))
                continue
            if part.name not in together:
                chosen = len(part.slot.columns) < part.slot.inputs
                read = self.steps[source]["sources"][0] if chosen else source
                together[part.name] = self._together([each for each in fold.parts if each.name == part.name], read)
            layers.append(self.add("columns", [together[part.name]], indices=list(part.slot.rows)))
        return self._summed(fold.summed, layers)

    def _together(self, parts: Sequence[Part], source: int) -> int:
        """Add the layer that computes several parts at once."""
        slots = [part.slot for part in parts if part.slot is not None]
        first, count = parts[0], sum(len(slot.rows) for slot in slots)
        weight = np.zeros((count, slots[0].inputs), first.weight.dtype)
        bias = None if first.bias is None else np.zeros(count, first.weight.dtype)
        for part, slot in zip(parts, slots, strict=True):
            weight[np.ix_(slot.rows, slot.columns)] = part.weight
            if bias is not None and part.bias is not None:
                bias[list(slot.rows)] = part.bias
        return self.layer(first.name, weight, bias, [source])

    def _summed(self, node: Summed, layers: Sequence[int]) -> int:
        if isinstance(node, int):
            return layers[node]
        norms, parts = node[0], [self._summed(part, layers) for part in node[1]]
        return self.norms(norms, parts[0] if len(parts) == 1 else self.add("sum", parts))

    def close(self, closing: str) -> None:
        """Add the sigmoid or softmax that turns logits into probabilities."""
        kind = {"kind": "softmax"} if closing == "softmax" else {"kind": "function", "name": "sigmoid"}
        self.add(kind.pop("kind"), [len(self.steps) - 1], **kind)

    def rescale(self, rescaling: Rescaling) -> None:
        """Add what makes scores of a probability."""
        for step in rescaling.steps:
            last = len(self.steps) - 1
            if isinstance(step, Scaling):
                self.add("scale", [last], gain=[step.factor], shift=[step.shift])
            elif math.isinf(step.most):
                self.add("function", [last], name="relu")
            else:
                self.add("function", [last], name="clip", parameters=[step.least, step.most])
        if rescaling.both:
            last = len(self.steps) - 1
            self.add("concatenate", [self.add("scale", [last], gain=[-1.0], shift=[1.0]), last])

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
    """Return the description of a network from its nodes, without what closes it."""
    found = Description(stored, network.dtype)
    steps: list[int] = []  # the last step of each node
    for found.number, node in enumerate(network.nodes):
        steps.append(node.operation.describe(found, node.name, [steps[source] for source in node.sources]))
    return found


def stored_steps(network: Network) -> tuple[list[Entry], Tensors]:
    """Return the steps of a network as its file stores it, up to the logits, and the tensors of the file.

    Those of a state dict are as its module computes them. A network that does not fit the state dict that it came from
    is described by its nodes, as any other.
    """
    describe = getattr(network.form, "describe", None)
    steps: list[Entry] = []
    if describe is not None:
        try:
            steps, tensors = describe(network)
        except FormError:
            steps = []
    if steps and network.rescaling is not None and network.closing != "none":
        steps = _up_to_logit(steps)
    if not steps:
        found = describe_network(network, stored=True)
        steps, tensors = found.steps, found.tensors
    steps = [{part: value for part, value in step.items() if part != "inputs"} for step in steps]  # names of inputs
    while _closes(steps):
        steps.pop()
    return steps, tensors


def _up_to_logit(steps: list[Entry]) -> list[Entry]:
    """Return steps without those that rescale a sigmoid; of a score that falls with it, the logit changes its sign."""
    last, factor = steps[-1], 1.0
    while not (last["kind"] == "function" and last["name"] == "sigmoid"):
        factor *= last["gain"][0] if "gain" in last else 1.0
        last = steps[last["sources"][-1]]
    logit = last["sources"][0]
    sign = [{"kind": "scale", "gain": [-1.0], "sources": [logit]}] if factor < 0 else []
    return [*steps[: logit + 1], *sign]


def _closes(steps: Sequence[Entry]) -> bool:
    """Return whether the last step only turns logits into probabilities."""
    last = steps[-1]
    sigmoid = last["kind"] == "function" and last["name"] == "sigmoid"
    chosen = last["kind"] == "columns" and steps[last["sources"][0]]["kind"] == "softmax"
    return bool(sigmoid or chosen or last["kind"] == "softmax")


def named_tensors(steps: Sequence[Entry]) -> dict[str, None]:
    """Return the keys of the tensors that steps name, in order."""
    named = [step[part] for step in steps for part in _TENSORS if isinstance(step.get(part), str)]
    return dict.fromkeys(named)


def unused_tensors(steps: Sequence[Entry], tensors: Tensors) -> list[str]:
    """Return the keys of the tensors that no step names; those that count batches are not listed."""
    used = named_tensors(steps)
    return [key for key in tensors if key not in used and key.rpartition(".")[2] != _COUNTER]


def to_json(network: Network, most_bytes: int) -> dict[str, Any]:
    """Return a network as its file stores it; no tensors if they have more bytes."""
    steps, tensors = stored_steps(network)
    used = {key: tensors[key] for key in named_tensors(steps)}
    large = sum(tensor.nbytes for tensor in used.values()) > most_bytes
    return {"steps": steps, "tensors": None if large else packed(used), "unused": unused_tensors(steps, tensors)}


def packed(tensors: Tensors) -> dict[str, dict[str, Any]]:
    """Return tensors as JSON: the shape of each, and its numbers as base64 of their little-endian bytes."""
    return {
        key: {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "values": base64.b64encode(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).decode(),
        }
        for key, array in tensors.items()
    }


def unpacked(tensors: Mapping[str, Mapping[str, Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return tensors that `packed` wrote; ValueError if the numbers do not fit."""
    found = {}
    for key, entry in tensors.items():
        dtype = np.dtype(entry["dtype"])
        raw = np.frombuffer(base64.b64decode(entry["values"], validate=True), dtype.newbyteorder("<"))
        found[key] = raw.astype(dtype).reshape(entry["shape"])
    return found

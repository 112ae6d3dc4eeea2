"""The layers of a chain and the steps of any other network, as a certificate names them for a state dict.

docs/certificate.md describes both.

A network that came from a state dict, a module or an exported program has their description (`formats.torch.steps`),
which names the tensors of the file. A file that fairmend wrote has one in its note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.network import Activation, Affine, Columns, Concatenate, Input, Lookup, Network, Scale, Sum
from fairmend.network.folding import Norm
from fairmend.network.formats.torch.state_dict import described_file, description_of, form_of, to_tensors
from fairmend.network.graph import Node
from fairmend.prove.certificate_description import steps_of_description


@dataclass
class _Steps:
    """The steps so far."""

    found: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, sources: Sequence[int], **more: Any) -> int:
        self.found.append({"kind": kind, "sources": list(sources), **more})
        return len(self.found) - 1

    def norms(self, norms: Sequence[Norm], source: int) -> int:
        """Add norms one after the other."""
        for norm in norms:
            if norm.variance is not None and norm.name is not None:
                source = self.add("batch_norm", [source], name=norm.name, epsilon=float(norm.epsilon))
            else:
                source = self.add("scale", [source], **_line(norm))
        return source

    def affine(self, affine: Affine, name: str, sources: Sequence[int]) -> int:
        """Add an affine layer as it is stored, with the norms beside it; ``sources`` are those of each part."""
        fold = affine.fold
        if fold is None:
            return self.add("affine", sources, name=name)
        if not fold.parts:
            own = self.add("affine", [self.norms(fold.before, sources[0])], name=name)
            return self.norms(fold.after, own)
        parts = []
        for part, source in zip(fold.parts, sources, strict=True):
            own = self.add("affine", [source], name=part.name)
            parts.append(
                own if part.factor == 1 else self.add("scale", [own], mean=[0.0], gain=[part.factor], shift=[0.0])
            )
        return self.add("sum", parts)


def layers_of(network: Network) -> tuple[dict[str, Any], ...]:
    """Return the layers of a state dict in the order of computation, each with the activation after it."""
    layers: list[dict[str, Any]] = []
    after = [*network.activations, Activation("identity")]
    for name, affine, activation in zip(network.names, network.affines, after, strict=True):
        fold = affine.fold
        layers += [_layer(str(norm.name), norm.epsilon) for norm in (fold.before if fold else ())]
        layers.append(_layer(name))
        layers += [_layer(str(norm.name), norm.epsilon) for norm in (fold.after if fold else ())]
        layers[-1] |= {"activation": activation.name, "slope": float(activation.slope)}
        layers[-1] |= {"parameters": list(activation.parameters)} if activation.parameters else {}
    layers[-1] |= {"activation": "none"}
    return tuple(layers)


def _layer(name: str, epsilon: float | None = None) -> dict[str, Any]:
    layer: dict[str, Any] = {"name": name, "activation": "identity", "slope": 0.0}
    return layer if epsilon is None else {**layer, "epsilon": epsilon}


def steps_of(network: Network) -> tuple[dict[str, Any], ...]:
    """Return the steps of a network, each with the numbers of the steps that it reads; none for a plain chain."""
    if form_of(network).description:
        return steps_of_description(description_of(network), to_tensors(network))
    return () if network.is_chain else steps_of_nodes(network)


def steps_of_file(path: Path) -> tuple[dict[str, Any], ...] | None:
    """Return the steps that fairmend's note in a file describes, none for a plain chain; None if there is no note."""
    found = described_file(path)
    if found is None:
        return None
    entries, tensors = found
    return steps_of_description(entries, tensors) if entries else ()


def steps_of_nodes(network: Network) -> tuple[dict[str, Any], ...]:
    """Return the steps of a network from its nodes alone."""
    steps = _Steps()
    places: list[int] = []  # the step of each node
    for node in network.nodes:
        operation, sources = node.operation, [places[source] for source in node.sources]
        if isinstance(operation, Affine):
            joined = operation.fold is not None and len(operation.fold.parts) > 0
            reads = [places[source] for source in network.nodes[node.sources[0]].sources] if joined else sources
            places.append(steps.affine(operation, node.name, reads))
        elif isinstance(operation, Scale):
            places.append(steps.norms(operation.norms, sources[0]))
        elif isinstance(operation, Concatenate) and (len(sources) == 1 or _feeds_joined(network, node)):
            places.append(sources[0])
        else:
            places.append(_add(steps, node, sources))
    return tuple(steps.found)


def _add(steps: _Steps, node: Node, sources: list[int]) -> int:
    operation = node.operation
    if isinstance(operation, Input):
        return steps.add("input", [], columns=operation.columns)
    if isinstance(operation, Activation):
        if operation.name == "prelu" and node.name:
            return steps.add("prelu", sources, name=node.name)
        numbers = {"slope": float(operation.slope), "parameters": list(operation.parameters)}
        return steps.add("function", sources, function=operation.name, **numbers)
    if isinstance(operation, Columns):
        return steps.add("columns", sources, indices=list(operation.indices))
    if isinstance(operation, Lookup):
        return steps.add("lookup", sources, name=node.name)
    return steps.add("sum" if isinstance(operation, Sum) else "concatenate", sources)


def _feeds_joined(network: Network, node: Node) -> bool:
    """Return whether this concatenation is only what a head of several parts reads."""
    head = network.nodes[-1]
    joined = network.head.fold is not None and len(network.head.fold.parts) > 0
    return joined and network.nodes[head.sources[0]] is node


def _line(norm: Norm) -> dict[str, list[float]]:
    """Return (x − mean)·gain + shift of a scaling."""
    gain = np.ones(()) if norm.gain is None else np.asarray(norm.gain, np.float64)
    if norm.variance is not None:
        gain = 1 / np.sqrt(np.asarray(norm.variance, np.float64) + norm.epsilon) * gain
    parts = {"mean": norm.mean, "gain": gain, "shift": np.zeros(()) if norm.shift is None else norm.shift}
    return {name: np.asarray(part, np.float64).reshape(-1).tolist() for name, part in parts.items()}

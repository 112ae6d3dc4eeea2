"""Networks that are graphs, in files that the checker reads: tensors by name, and the steps in the certificate."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import safetensors.numpy

from fairmend.network import Activation, Lookup, Network, Scale


def with_names(network: Network) -> Network:
    """Give each table a name of its own, as a module does."""
    nodes = [
        replace(node, name=f"table.{number}") if isinstance(node.operation, Lookup) else node
        for number, node in enumerate(network.nodes)
    ]
    return Network.from_nodes(nodes, network.closing, network.threshold)


def tensors_of(network: Network) -> dict[str, np.ndarray]:
    """The tensors of a module that computes the network."""
    found = {f"{layer.name}.weight": layer.weight for layer in network.stored_layers}
    found |= {f"{layer.name}.bias": layer.bias for layer in network.stored_layers if layer.bias is not None}
    for node in network.nodes:
        operation = node.operation
        if isinstance(operation, Activation) and operation.name == "prelu" and node.name:
            found[f"{node.name}.weight"] = np.array(operation.parameters, network.dtype)
        for norm in operation.norms if isinstance(operation, Scale) else ():
            if norm.name is not None:
                found |= {f"{norm.name}.running_mean": norm.mean, f"{norm.name}.running_var": norm.variance}
    return found | {f"{name}.weight": table for name, table in network.tables.items()}


def save_tensors(network: Network, path: Path, tensors: dict[str, np.ndarray] | None = None) -> Path:
    """Write the tensors of a network with names, or others."""
    tensors = tensors_of(network) if tensors is None else tensors
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    path.write_bytes(safetensors.numpy.save(tensors))
    return path

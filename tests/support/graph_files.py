"""Networks that are graphs, in files that the checker reads: tensors by name, and the steps in the certificate."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import safetensors.numpy

from fairmend.network import Network
from fairmend.network.operations import Lookup


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
    return found | {f"{name}.weight": table for name, table in network.tables.items()}


def save_tensors(network: Network, path: Path) -> Path:
    """Write the tensors of a network with names."""
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors_of(network).items()}
    path.write_bytes(safetensors.numpy.save(tensors))
    return path

"""Model formats: how networks are read from files and objects, and written to files.

`suffixes` maps the suffix of a file to the module that reads and writes it: add a suffix there. `objects` reads models
in memory. A format module has `read(path, activation) -> Network` and `to_bytes(network) -> bytes`, and is imported
when a file with its suffix is read or written. `chain` turns the layers that a format found into a Network.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from fairmend.atomic import write_atomically
from fairmend.network import Activation, Network, NetworkSource
from fairmend.network.activations import parse_activation
from fairmend.network.formats.objects import read_object
from fairmend.network.formats.suffixes import check_file, format_module

__all__ = ["read_network", "write_network"]


def read_network(source: NetworkSource, activation: str | Activation = "relu") -> Network:
    """Return the network in a file or object; see `fairmend.load_network`."""
    between = parse_activation(activation)
    if isinstance(source, Network):
        return source
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        module = format_module(path, "read")
        check_file(path)
        network: Network = module.read(path, between)
        return network
    return read_object(source)


def write_network(network: Network, path: str | PathLike[str]) -> None:
    """Write `network` in the format that the suffix names, replacing `path` whole or not at all."""
    path = Path(path)
    module = format_module(path, "write")
    write_atomically(path, module.to_bytes(network))

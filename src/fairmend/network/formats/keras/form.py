"""The form of a Keras file: the file as it was read, in which new weights replace the old ones.

Layers, names, BatchNormalization, the optimizer and the compile settings stay. A Dense layer without a bias gets one
if the network needs it: its config then says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network import Network
from fairmend.network.form import FormError

__all__ = ["KerasForm", "arrays_of", "with_biases"]

Arrays = dict[str, npt.NDArray[Any]]
Places = dict[str, list[str]]


@dataclass(frozen=True, eq=False)
class KerasForm:
    """A file, and the paths of the arrays of its layers by their names.

    `change` replaces arrays in it, and adds biases to the layers of these names.
    """

    suffixes: tuple[str, ...]
    content: bytes
    places: Places
    change: Callable[[bytes, Arrays, Arrays], bytes]

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`."""
        return self.change(self.content, *arrays_of(network, self.places))


def arrays_of(network: Network, places: Places) -> tuple[Arrays, Arrays]:
    """Return the new arrays by their paths: kernels and biases, beta of each BatchNormalization, tables.

    And the biases of layers that have none in the file, by their names.
    """
    arrays: Arrays = {}
    added: Arrays = {}
    for layer in network.stored_layers:
        name, weight, bias, norms = layer.name, layer.weight, layer.bias, layer.norms
        if name not in places:
            raise FormError(f"the model has no layer {name!r}")
        kernel, *rest = places[name]
        arrays[kernel] = np.ascontiguousarray(weight.T)
        if rest and bias is not None:
            arrays[rest[0]] = bias
        elif bias is not None and bias.any():
            added[name] = bias
        for norm in norms:
            if norm.name is not None and norm.shift is not None:
                # gamma comes first, if there is one; then beta
                arrays[places[norm.name][0 if norm.gain is None else 1]] = norm.shift
    for name, table in network.tables.items():
        arrays[places[name][0]] = table
    return arrays, added


def with_biases(config: Any, names: Iterable[str]) -> Any:
    """Return the config of a model in which these layers have a bias; "outer/dense" is a layer of a nested model."""
    changed = copy.deepcopy(config)
    for name in names:
        _set_bias(changed, name)
    return changed


def _set_bias(model: Any, name: str) -> None:
    layers = model["config"]["layers"] if isinstance(model["config"], dict) else model["config"]
    for layer in layers:
        own = layer["config"]["name"]
        if own == name:
            layer["config"]["use_bias"] = True
        elif name.startswith(f"{own}/"):
            _set_bias(layer, name.removeprefix(f"{own}/"))

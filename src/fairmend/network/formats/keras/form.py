"""The form of a Keras file: the file as it was read, in which new weights replace the old ones.

Layers, names, BatchNormalization, the optimizer and the compile settings stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network import Network
from fairmend.network.form import FormError

Arrays = dict[str, npt.NDArray[Any]]
Places = dict[str, list[str]]


@dataclass(frozen=True, eq=False)
class KerasForm:
    """A file, the paths of the arrays of its layers by their names, and `change`, which replaces arrays in it."""

    suffixes: tuple[str, ...]
    content: bytes
    places: Places
    change: Callable[[bytes, Arrays], bytes]

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`."""
        return self.change(self.content, arrays_of(network, self.places))


def arrays_of(network: Network, places: Places) -> Arrays:
    """Return the new arrays by their paths: kernels and biases, beta of each BatchNormalization, tables."""
    arrays: Arrays = {}
    for layer in network.stored_layers:
        name, weight, bias, norms = layer.name, layer.weight, layer.bias, layer.norms
        if name not in places:
            raise FormError(f"the model has no layer {name!r}")
        kernel, *rest = places[name]
        arrays[kernel] = np.ascontiguousarray(weight.T)
        if bias is not None:
            if not rest:
                raise FormError(f"the layer {name!r} has no bias in the original")
            arrays[rest[0]] = bias
        for norm in norms:
            if norm.name is not None and norm.shift is not None:
                # gamma comes first, if there is one; then beta
                arrays[places[norm.name][0 if norm.gain is None else 1]] = norm.shift
    for name, table in network.tables.items():
        arrays[places[name][0]] = table
    return arrays

""".h5 files of Keras: a whole model in HDF5, its config as JSON in an attribute. Keras itself is not needed."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.keras.config import Layer, parse_config
from fairmend.network.formats.keras.form import KerasForm
from fairmend.network.formats.keras.functions import Style, major_version
from fairmend.network.formats.keras.graph import LayerPath, all_layers, build_network, stored_order
from fairmend.network.formats.keras.hdf5 import Hdf5File, change_hdf5, read_hdf5
from fairmend.network.formats.keras.layers import select_weights
from fairmend.network.formats.keras.write import write_model

__all__ = ["read", "read_content", "to_bytes"]

# The config is written as Keras 2 wrote it, which every later release reads as well.
_KERAS_VERSION = "2.15.0"
_SUFFIXES = (".h5", ".hdf5")
_ATTRIBUTES = ("model_config", "keras_version", "layer_names", "weight_names")
_WHOLE = "save the whole model: model.save('model.h5') or model.save('model.keras')"


def read(path: Path, activation: Activation | None) -> Network:
    """Return the network in the file; its config names the activations."""
    return read_content(path.read_bytes(), str(path))


def read_content(content: bytes, source: str) -> Network:
    """Return the network in the content of a file; `source` names it in errors."""
    file = read_hdf5(content, ["model_weights"], source, _ATTRIBUTES)
    texts = file.texts("model_config")
    if not texts or file.names("model_weights") is None:
        raise FairmendError(f"{source}: holds weights without the model's config, or no Keras model; {_WHOLE}")
    model = parse_config(texts[0], source)
    paths: dict[LayerPath, list[LayerPath]] = {}
    for layer in model.layers:
        paths |= _nested_paths(file, layer, source) if layer.model else {(layer.name,): _paths(file, layer)}
    _check_order(file, [layer for layer in model.layers if _has_weights(file, layer.name)], source)
    places = {"/".join(layer): ["/".join(path) for path in found] for layer, found in paths.items()}
    form = KerasForm(_SUFFIXES, content, places, partial(change_hdf5, source=source))

    def arrays(layer: LayerPath, kind: Layer) -> list[npt.NDArray[Any]]:
        return [file.array(*path) for path in paths[layer]]

    version = file.texts("keras_version") or [""]
    return build_network(model, arrays, source, form, major_version(version[0]))


def _paths(file: Hdf5File, layer: Layer) -> list[LayerPath]:
    """Return where the weights of a layer are, in the order in which its group lists them."""
    place = ("model_weights", layer.name)
    names = file.texts("weight_names", *place) or ()
    return [(*place, *name.split("/")) for name in select_weights(layer, names)]


def _nested_paths(file: Hdf5File, model: Layer, source: str) -> dict[LayerPath, list[LayerPath]]:
    """Return where the weights of the layers of a nested model are.

    Its group lists them all: first those that can be trained, then the others, each in the order of the layers. The
    names, which end in dense/kernel, must agree with that.
    """
    assert model.model is not None
    place = ("model_weights", model.name)
    names = [tuple(name.split("/")) for name in file.texts("weight_names", *place) or ()]
    wanted = stored_order(model)
    if [name[-2:-1] for name in names] != [(path[-1],) for path, _ in wanted]:
        where, count = f"layer {model.name!r} ({model.kind})", len(wanted)
        raise FairmendError(
            f"{source}: {where} does not list the {count} arrays of its layers in their order; save it as .keras"
        )
    found: dict[LayerPath, list[LayerPath]] = {path: [] for path, _ in all_layers(model.model, (model.name,))}
    for (path, _), name in zip(wanted, names, strict=True):
        found[path].append((*place, *name))
    return {path: list(select_weights(layer, found[path])) for path, layer in all_layers(model.model, (model.name,))}


def _check_order(file: Hdf5File, weighted: list[Layer], source: str) -> None:
    """Check that the groups are listed in the order of the layers: Keras assigns weights by order, not by name."""
    listed = [name for name in file.texts("layer_names", "model_weights") or () if _has_weights(file, name)]
    if sorted(listed) == sorted(layer.name for layer in weighted) and listed != [layer.name for layer in weighted]:
        raise FairmendError(f"{source}: the weights are not listed in the order of the layers; save the model again")


def _has_weights(file: Hdf5File, name: str) -> bool:
    return bool(file.texts("weight_names", "model_weights", name))


def to_bytes(network: Network) -> bytes:
    """Return the network as a model that Keras 2 and Keras 3 load: a Sequential, or functional if it is no chain."""
    import h5py

    model = write_model(network, Style.KERAS_2)
    names = list(model.kinds)
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        weights = file.create_group("model_weights")
        for place in (file, weights):
            place.attrs["keras_version"] = _KERAS_VERSION
            place.attrs["backend"] = "tensorflow"
        file.attrs["model_config"] = json.dumps(model.config)
        weights.attrs["layer_names"] = np.array([name.encode("ascii") for name in names])
        for name in names:
            group = weights.create_group(name)
            parts = {f"{name}/{variable}:0": array for variable, array in model.arrays.get(name, {}).items()}
            group.attrs["weight_names"] = np.array([part.encode("ascii") for part in parts], dtype="S")
            for part, array in parts.items():
                group.create_dataset(part, data=np.ascontiguousarray(array))
    return buffer.getvalue()

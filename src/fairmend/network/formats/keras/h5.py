""".h5 files of Keras: a whole model in HDF5, its config as JSON in an attribute. Keras itself is not needed."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.keras.config import Layer, ModelConfig, parse_config
from fairmend.network.formats.keras.functions import Style, major_version
from fairmend.network.formats.keras.graph import build_network, stored_order
from fairmend.network.formats.keras.hdf5 import Hdf5File, change_hdf5, read_hdf5
from fairmend.network.formats.keras.weights import (
    PARTS,
    LayerPath,
    all_layers,
    count_weights,
    select_weights,
    stored_places,
)
from fairmend.network.formats.keras.write import KerasForm, write_model

# The config is written as Keras 2 wrote it, which every later release reads as well.
_KERAS_VERSION = "2.15.0"
_SUFFIXES = (".h5", ".hdf5")
_ATTRIBUTES = ("model_config", "keras_version", "layer_names", "weight_names")
_UNFREEZE = "Save it as .keras, or set model.trainable = True before you save it as .h5"
_WITHOUT_ADAPT = "Save the model as .keras, or give the layer mean and variance as arguments"
_AS_KERAS = "Save the model as .keras: an .h5 file lists the weights of all its layers together"
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
    is_keras_3 = _is_of_keras_3(model)
    for layer in model.layers:
        paths |= _nested_paths(file, layer, is_keras_3, source) if layer.model else {(layer.name,): _paths(file, layer)}
    _check_order(file, [layer for layer in model.layers if _has_weights(file, layer.name)], source)
    places, shapes = stored_places(model, paths, file)
    form = KerasForm(_SUFFIXES, content, places, shapes, partial(change_hdf5, source=source))

    def arrays(layer: LayerPath, kind: Layer) -> list[npt.NDArray[Any]]:
        return [file.array(*path) for path in paths[layer]]

    version = file.texts("keras_version") or [""]
    return build_network(model, arrays, source, form, major_version(version[0]))


def _paths(file: Hdf5File, layer: Layer) -> list[LayerPath]:
    """Return where the weights of a layer are, in the order in which its group lists them."""
    place = ("model_weights", layer.name)
    names = file.texts("weight_names", *place) or ()
    return [(*place, *name.split("/")) for name in select_weights(layer, names)]


def _nested_paths(file: Hdf5File, model: Layer, is_keras_3: bool, source: str) -> dict[LayerPath, list[LayerPath]]:
    """Return where the weights of the layers of a nested model are.

    Its group lists them all, in the order of `_loaded_order`. The names, which end in dense/kernel, must agree with it.
    """
    assert model.model is not None
    place = ("model_weights", model.name)
    names = [tuple(name.split("/")) for name in file.texts("weight_names", *place) or ()]
    layers = all_layers(model.model, (model.name,))
    for path, layer in layers:
        if layer.kind in PARTS:
            raise FairmendError(f"{source}: layer {'/'.join(path)!r} ({layer.kind}) is in a nested model. {_AS_KERAS}")
        if layer.kind == "Normalization" and any(count_weights(layer)):
            why = "in a nested model is adapted, and Keras 3 ignores its mean and variance in .h5 files"
            raise FairmendError(f"{source}: layer {'/'.join(path)!r} (Normalization) {why}. {_WITHOUT_ADAPT}")
    wanted = _loaded_order(model, is_keras_3, source)
    if [name[-2:-1] for name in names] != [path[-1:] for path in wanted]:
        raise FairmendError(
            f"{source}: {model.where} does not list the {len(wanted)} arrays of its layers in the order in which Keras "
            f"loads them, which differs from that in which it saves them if some layers are frozen. {_UNFREEZE}"
        )
    found: dict[LayerPath, list[LayerPath]] = {path: [] for path, _ in layers}
    for path, name in zip(wanted, names, strict=True):
        found[path].append((*place, *name))
    return {path: list(select_weights(layer, found[path])) for path, layer in layers}


def _loaded_order(model: Layer, is_keras_3: bool, source: str) -> list[LayerPath]:
    """Return the layer of each array of a nested model in the order in which Keras takes them from a file.

    Those that can be trained come first, each group in the order of the layers. Whether models are frozen counts when
    Keras saves them, but not when it loads them, except for functional models in Keras 3: if these are frozen, no
    weights come first. A file that Keras 2 loads as well must have the same order for both.
    """
    in_order = stored_order(model)
    trained_first = sorted(in_order, key=lambda each: not each[1])
    is_kept = model.kind != "Sequential" and not model.is_trainable
    if is_kept and not is_keras_3 and trained_first != in_order:
        raise FairmendError(
            f"{source}: {model.where} has frozen layers, and Keras 2 and 3 take their weights in different orders. "
            f"{_UNFREEZE}"
        )
    return [path for path, _ in (in_order if is_kept else trained_first)]


def _is_of_keras_3(model: ModelConfig) -> bool:
    """Whether Keras 2 refuses a model, as it does not know how Keras 3 declares the shape of an input."""
    return any(
        layer.kind == "InputLayer" and layer.name and "batch_shape" in layer.config for _, layer in all_layers(model)
    )


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

"""Read .h5 and .keras files: a Keras Sequential of Dense layers, with its config as JSON and its weights in HDF5."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.hdf5 import Hdf5
from fairmend_check.model import Activation, Model, make_model

Pair = tuple[NDArray[np.floating], NDArray[np.floating]]

_NAMED = {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid"}
_NOTHING = ("InputLayer", "Dropout", "GaussianNoise", "GaussianDropout", "AlphaDropout", "Flatten")
_ENTRY_KEYS = ("module", "class_name", "config", "registered_name", "build_config", "name")
_COMMON_KEYS = ("name", "trainable", "dtype", "batch_shape", "batch_input_shape")
_KEYS = {
    "InputLayer": ("sparse", "ragged", "optional"),
    "Dense": (
        "units", "activation", "use_bias", "quantization_config", "lora_rank", "kernel_initializer", "bias_initializer",
        "kernel_regularizer", "bias_regularizer", "activity_regularizer", "kernel_constraint", "bias_constraint",
    ),
    "Activation": ("activation",),
    "ReLU": ("max_value", "negative_slope", "threshold"),
    "LeakyReLU": ("negative_slope", "alpha"),
    "Softmax": ("axis",),
    "Flatten": ("data_format",),
}  # fmt: skip
_NOISE_KEYS = ("rate", "stddev", "seed", "noise_shape")
_LEAKY_BY_NAME = 0.2  # Keras's own slope for activation="leaky_relu"
_MAX_BYTES = 2**30


@dataclass(frozen=True)
class _Layer:
    kind: str
    name: str
    config: dict[str, Any]
    dtype: str | None


def read_h5(content: bytes) -> Model:
    """Return the model of a whole-model .h5 file."""
    file = Hdf5(memoryview(content))
    texts = file.texts(file.root, "model_config")
    if texts is None or len(texts) != 1:
        raise CheckError(
            "the file contains no model_config, so it is not a whole Keras model. Save it with model.save()"
        )

    weighted = _weighted_groups(file)

    def weights(layer: _Layer, number: int) -> Pair:
        if weighted[number : number + 1] != [layer.name]:  # Keras goes by the order of the groups, not by their names
            raise CheckError(f'the weights are not listed in the order of the layers, at "{layer.name[:40]}"')
        group = file.find(file.root, ["model_weights", layer.name])
        names = None if group is None else file.texts(group, "weight_names")
        if group is None or names is None or len(names) != 2:
            raise CheckError(f'layer "{layer.name[:40]}" does not have a kernel and a bias')
        return _pair(file, [["model_weights", layer.name, *name.split("/")] for name in names])

    return _model(texts[0].encode("utf-8"), weights)


def _weighted_groups(file: Hdf5) -> list[str]:
    """Return the groups of weights in the order that the file lists them."""
    root = file.find(file.root, ["model_weights"])
    names = None if root is None else file.texts(root, "layer_names")
    if names is None:
        raise CheckError("the file does not list the names of the layers")
    groups = [(name, file.find(file.root, ["model_weights", name])) for name in names]
    return [name for name, group in groups if group is not None and file.texts(group, "weight_names")]


def read_keras(content: bytes) -> Model:
    """Return the model of a .keras file, the zip that Keras 3 writes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            config, stored = (_member(archive, name) for name in ("config.json", "model.weights.h5"))
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise CheckError(f"not a .keras file ({error})") from error
    file = Hdf5(memoryview(stored))

    def weights(layer: _Layer, number: int) -> Pair:
        place = ["layers", f"dense_{number}" if number else "dense", "vars"]
        group = file.find(file.root, place)
        if group is None or group.links is None or len(group.links) != 2:
            raise CheckError(f'layer "{layer.name[:40]}" does not have a kernel and a bias')
        return _pair(file, [[*place, "0"], [*place, "1"]])

    return _model(config, weights)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    entries = [entry for entry in archive.infolist() if entry.filename == name]
    if len(entries) != 1:
        raise CheckError(f"the archive contains {len(entries)} files {name} instead of one")
    if entries[0].compress_type != zipfile.ZIP_STORED or entries[0].file_size > _MAX_BYTES:
        raise CheckError("the archive is compressed, which Keras never does, or too large")
    return archive.read(entries[0])


def _pair(file: Hdf5, paths: list[list[str]]) -> Pair:
    nodes = [file.find(file.root, path) for path in paths]
    if nodes[0] is None or nodes[1] is None:
        raise CheckError(f'the file lacks "{"/".join(paths[0])[-60:]}" or its bias')
    return file.array(nodes[0]), file.array(nodes[1])


def _model(config: bytes, weights: Callable[[_Layer, int], Pair]) -> Model:
    """Assemble the model: Dense, activation, Dense, …, Dense, and an optional closing sigmoid or softmax."""
    layers: list[Pair] = []
    activations: list[Activation] = []
    closed = False
    described = _layers(config)
    for layer in described:
        found = list(_activations(layer))
        if layer.kind == "Dense":
            if closed:
                raise CheckError(f'layer "{layer.name[:40]}" follows a closing softmax')
            if len(layers) > len(activations):
                activations.append(Activation("identity"))
            layers.append(_dense(layer, weights(layer, len(layers))))
        for activation in found:
            if len(layers) != len(activations) + 1 or closed:
                raise CheckError(f'layer "{layer.name[:40]}" has an activation in a position that cannot be checked')
            closed = activation.name == "softmax"
            if not closed:
                activations.append(activation)
    if closed and layers[-1][0].shape[0] == 1:
        raise CheckError("a softmax over one output is always 1")
    if len(activations) == len(layers) and layers:  # the last one closes the model
        if activations[-1].name != "sigmoid" or layers[-1][0].shape[0] != 1:
            raise CheckError(f"the model ends in {activations[-1].name}, which cannot be checked there")
        activations.pop()
    if not layers:
        raise CheckError("the model has no Dense layer")
    stored = np.dtype(layers[0][0].dtype)
    for layer in described:
        if layer.dtype not in (None, stored.name):
            raise CheckError(f'layer "{layer.name[:40]}" computes in {str(layer.dtype)[:40]}')
    kind = stored.type
    rounded = [Activation(a.name, float(kind(a.slope))) for a in activations]  # inference uses the rounded slope
    return make_model(list(layers), rounded)


def _layers(config: bytes) -> list[_Layer]:
    model = json_reader.parse_json(config, "the config")
    if json_reader.take(model, "class_name", str, "the config") != "Sequential":
        raise CheckError("the model is not a Sequential; load the model with fairmend and save it again")
    content = json_reader.take(model, "config", dict, "the config")
    found = []
    for number, entry in enumerate(json_reader.take(content, "layers", list, "the config")):
        where = f"layer {number}"
        if type(entry) is not dict:
            raise CheckError(f"{where} is not a table")
        json_reader.only_keys(entry, _ENTRY_KEYS, where)
        kind, options = (
            json_reader.take(entry, "class_name", str, where),
            json_reader.take(entry, "config", dict, where),
        )
        own = str(entry.get("module") or "keras").split(".")[0] in ("keras", "tf_keras", "tensorflow")
        if entry.get("registered_name") not in (None, kind) or not own:
            raise CheckError(f"{where} is not a layer of Keras itself")
        known = _KEYS.get(kind, _NOISE_KEYS)
        json_reader.only_keys(options, (*_COMMON_KEYS, *known), where)
        if any(options.get(key) for key in ("sparse", "ragged", "lora_rank")):
            raise CheckError(f"{where} is sparse, ragged or adapted, which cannot be checked")
        for key in ("batch_shape", "batch_input_shape"):
            if key in options and len(json_reader.take(options, key, list, where)) != 2:
                raise CheckError(f"{where} does not read rows of numbers")
        name = json_reader.take(options, "name", str, where)
        if entry.get("name", name) != name:
            raise CheckError(f"{where} has two names")
        found.append(_Layer(kind, name, options, _dtype(options, where)))
    if len({layer.name for layer in found}) != len(found):
        raise CheckError("two layers have the same name")
    return found


def _dtype(options: dict[str, Any], where: str) -> str | None:
    dtype = options.get("dtype")
    if type(dtype) is dict:
        dtype = json_reader.take(json_reader.take(dtype, "config", dict, where), "name", str, where)
    if dtype is not None and type(dtype) is not str:
        raise CheckError(f"{where} has a dtype that is not a name")
    return dtype


def _activations(layer: _Layer) -> list[Activation]:
    """Return the activation in a layer, if there is one; softmax has that name."""
    where, options = f'layer "{layer.name[:40]}"', layer.config
    if layer.kind in ("Dense", "Activation"):
        name = options.get("activation", "linear")
        if name in ("linear", None):
            return []
        if name == "leaky_relu":
            return [Activation("leaky_relu", _LEAKY_BY_NAME)]
        if name == "softmax" or (type(name) is str and name in _NAMED):
            return [Activation(name)]
    elif layer.kind == "ReLU":
        slope = json_reader.take({"negative_slope": 0.0, **options}, "negative_slope", float, where)
        if options.get("max_value") is None and options.get("threshold", 0) == 0:
            return [Activation("leaky_relu", slope) if slope else Activation("relu")]
    elif layer.kind == "LeakyReLU" and not {"negative_slope", "alpha"} <= options.keys():
        key = "negative_slope" if "negative_slope" in options else "alpha"
        return [Activation("leaky_relu", json_reader.take(options, key, float, where))]
    elif layer.kind == "Softmax" and options.get("axis", -1) in (-1, 1):
        return [Activation("softmax")]
    elif layer.kind in _NOTHING:
        return []
    raise CheckError(f"{where} ({layer.kind[:40]}) cannot be checked; load the model with fairmend and save it again")


def _dense(layer: _Layer, pair: Pair) -> Pair:
    where = f'layer "{layer.name[:40]}"'
    kernel, bias = pair
    if layer.dtype != kernel.dtype.name or layer.config.get("quantization_config") is not None:
        raise CheckError(f"{where} is stored as {kernel.dtype.name} and computes in {str(layer.dtype)[:40]}")
    if layer.config.get("use_bias", True) is not True or kernel.ndim != 2:
        raise CheckError(f"{where} does not have a kernel and a bias")
    if json_reader.take(layer.config, "units", int, where) != kernel.shape[1]:
        raise CheckError(f"{where} has a number of units that differs from its kernel")
    return kernel.T, bias

"""Read .h5 and .keras files: a Keras Sequential of Dense layers, with its config as JSON and its weights in HDF5.

Keras believes some parts of a file and ignores others, and which ones differs between its versions. So every key of
the config must be known and have a value whose meaning is the same to all of them, and the weights must be where Keras
2 and 3 both look, by order and by name, with nothing beside them that a version could take instead.

Only float32 models are read. What Keras computes with float64 layers depends on its version and backend: all round
inputs to float32 in `model.predict`, and Keras 3.15 with PyTorch rounds the kernels as well.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.hdf5 import Array, Group, read_hdf5
from fairmend_check.model import Activation, Model, make_model
from fairmend_check.zip_archive import read_archive

Pair = tuple[NDArray[np.floating], NDArray[np.floating]]

_NAMED = ("relu", "tanh", "sigmoid", "softmax")
_LEAKY_BY_NAME = 0.2  # Keras's own slope for activation="leaky_relu"
_RANDOM = ("Dropout", "GaussianNoise", "GaussianDropout", "AlphaDropout")  # random in training only
_MODEL_KEYS = ("module", "class_name", "config", "registered_name", "build_config", "compile_config")
_SEQUENTIAL_KEYS = ("name", "trainable", "dtype", "layers", "build_input_shape")
_ENTRY_KEYS = ("module", "class_name", "config", "registered_name", "build_config", "name")
_COMMON_KEYS = ("name", "trainable", "dtype", "batch_shape", "batch_input_shape")
_TRAINING_KEYS = (
    "kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer", "activity_regularizer",
    "kernel_constraint", "bias_constraint",
)  # fmt: skip
_FALSE_KEYS = ("sparse", "ragged", "optional")
_NULL_KEYS = ("quantization_config", "lora_rank", "lora_alpha", "max_value")
_KEYS = {
    "InputLayer": ("sparse", "ragged", "optional"),
    "Dense": (
        "units", "activation", "use_bias", "quantization_config", "lora_rank", "lora_alpha", *_TRAINING_KEYS,
    ),
    "Activation": ("activation",),
    "ReLU": ("max_value", "negative_slope", "threshold"),
    "LeakyReLU": ("negative_slope", "alpha"),
    "Softmax": ("axis",),
    "Flatten": ("data_format",),
    **dict.fromkeys(_RANDOM, ("rate", "stddev", "seed", "noise_shape")),
}  # fmt: skip

_FLOAT32_ONLY = "Keras rounds inputs to float32, so only float32 models can be checked. Save it in float32, or as .onnx"


@dataclass(frozen=True)
class _Layer:
    kind: str
    name: str
    config: dict[str, Any]


def read_h5(content: bytes) -> Model:
    """Return the model of a whole-model .h5 file."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        raise CheckError("the file can also be read as a zip archive")
    root = read_hdf5(content)
    config = root.attributes.get("model_config")
    if type(config) is not str:
        raise CheckError(
            "the file contains no model_config, so it is not a whole Keras model. Save it with model.save()"
        )
    described = _layers(config.encode("utf-8"))
    _check_listing(root, described)

    def weights(layer: _Layer) -> Pair:
        group = root.find("model_weights", layer.name)
        assert isinstance(group, Group)  # the listing names it
        kernel, bias = _texts(group, "weight_names")
        return _floats(group.find(*kernel.split("/")), layer), _floats(group.find(*bias.split("/")), layer)

    return _model(described, weights)


def _check_listing(root: Group, layers: list[_Layer]) -> None:
    """Refuse weights that are not listed in the order of the layers, by which Keras goes, and under their names."""
    _only_members(root, ("model_weights", "optimizer_weights"))
    place = root.find("model_weights")
    if not isinstance(place, Group):
        raise CheckError("the file contains no weights")
    listed = _texts(place, "layer_names")
    counts: dict[str, int] = {}
    for name in [*listed, *{"top_level_model_weights"}.intersection(place.members)]:
        group = place.members.get(name)
        if not isinstance(group, Group) or name in counts:
            raise CheckError(f'the file lists the layer "{name[:40]}", but has no weights of it, or lists it twice')
        counts[name] = len(_texts(group, "weight_names"))
    weighted = {name: count for name, count in counts.items() if count}
    dense = [layer.name for layer in layers if layer.kind == "Dense"]
    if list(weighted) != dense:
        raise CheckError("the weights are not listed in the order of the layers")
    for name, count in weighted.items():
        if count != 2:
            raise CheckError(f'layer "{name[:40]}" does not have a kernel and a bias')


def _texts(group: Group, name: str) -> list[str]:
    found = group.attributes.get(name)
    if type(found) is not list:
        raise CheckError(f"the file does not list its {name}")
    return found


def read_keras(content: bytes) -> Model:
    """Return the model of a .keras file, the zip that Keras 3 writes."""
    members = read_archive(content)
    if sorted(members) != ["config.json", "metadata.json", "model.weights.h5"]:
        raise CheckError(f"the archive contains {', '.join(members)[:200]}, not the three files that Keras writes")
    described = _layers(members["config.json"])
    root = read_hdf5(members["model.weights.h5"])
    _only_members(root, ("layers", "vars", "optimizer", "metrics"))
    _check_no_variables(root, "the model")
    groups = root.find("layers")
    if not isinstance(groups, Group):
        raise CheckError("the file contains no weights")
    places = _places(described)
    _only_members(groups, places.values())
    for layer in described:
        if layer.kind != "Dense" and isinstance(group := groups.find(places[layer.name]), Group):
            _only_members(group, ("vars", "seed_generator") if layer.kind in _RANDOM else ("vars",))
            _check_no_variables(group, f'layer "{layer.name[:40]}"')

    def weights(layer: _Layer) -> Pair:
        group = groups.find(places[layer.name])
        variables = groups.find(places[layer.name], "vars")
        if not isinstance(group, Group) or not isinstance(variables, Group) or sorted(variables.members) != ["0", "1"]:
            raise CheckError(f'layer "{layer.name[:40]}" does not have a kernel and a bias')
        _only_members(group, ("vars",))
        return _floats(variables.members["0"], layer), _floats(variables.members["1"], layer)

    return _model(described, weights)


def _places(layers: list[_Layer]) -> dict[str, str]:
    """Return the group of each layer: dense, dense_1, …, numbered by class in the order of the model."""
    places: dict[str, str] = {}
    seen: dict[str, int] = {}
    for layer in layers:
        stem = re.sub(r"([a-z])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", layer.kind)).lower()
        seen[stem] = seen.get(stem, -1) + 1
        places[layer.name] = f"{stem}_{seen[stem]}" if seen[stem] else stem
    return places


def _only_members(group: Group, known: Collection[str]) -> None:
    """Refuse a group or array that a version of Keras might take for weights of a layer."""
    for name in group.members:
        if name not in known:
            raise CheckError(f'the file contains "{name[:40]}", which Keras does not write for these layers')


def _check_no_variables(group: Group, where: str) -> None:
    variables = group.members.get("vars")
    if variables is not None and (not isinstance(variables, Group) or variables.members):
        raise CheckError(f"{where} has weights of its own, which cannot be checked")


def _floats(found: Group | Array | None, layer: _Layer) -> NDArray[np.floating]:
    where = f'the weights of layer "{layer.name[:40]}"'
    if not isinstance(found, Array):
        raise CheckError(f"{where} are missing")
    if found.attributes:  # Keras takes an attribute dtype for the type of the numbers
        raise CheckError(f"{where} have attributes, which Keras does not write")
    floats = found.floats(where)
    if floats.dtype != np.float32:
        raise CheckError(f"{where} are {floats.dtype.name}; {_FLOAT32_ONLY}")
    return floats


def _model(described: list[_Layer], weights: Callable[[_Layer], Pair]) -> Model:
    """Assemble the model: Dense, activation, Dense, …, Dense, and an optional closing sigmoid or softmax."""
    layers: list[Pair] = []
    activations: list[Activation] = []
    closed = False
    for layer in described:
        found = list(_activations(layer))
        if layer.kind == "Dense":
            if closed:
                raise CheckError(f'layer "{layer.name[:40]}" follows a closing softmax')
            if len(layers) > len(activations):
                activations.append(Activation("identity"))
            layers.append(_dense(layer, weights(layer)))
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
        closed = True
    if not layers:
        raise CheckError("the model has no Dense layer")
    rounded = [Activation(a.name, float(np.float32(a.slope))) for a in activations]  # inference uses the rounded slope
    return replace(make_model(list(layers), rounded), closed=closed)


def _layers(config: bytes) -> list[_Layer]:
    """Return the layers that a config describes."""
    model = json_reader.parse_json(config, "the config")
    json_reader.only_keys(model, _MODEL_KEYS, "the config")
    if json_reader.take(model, "class_name", str, "the config") != "Sequential":
        raise CheckError("the model is not a Sequential; load the model with fairmend and save it again")
    _check_origin(model, ("keras",), "the model")
    content = json_reader.take(model, "config", dict, "the config")
    json_reader.only_keys(content, _SEQUENTIAL_KEYS, "the config")
    _check_shape(content.get("build_input_shape"), "the model")
    _check_dtype(content.get("dtype"), "the model")
    found = []
    for number, entry in enumerate(json_reader.take(content, "layers", list, "the config")):
        where = f"layer {number}"
        if type(entry) is not dict:
            raise CheckError(f"{where} is not a table")
        json_reader.only_keys(entry, _ENTRY_KEYS, where)
        _check_origin(entry, ("keras.layers",), where)
        kind, options = (
            json_reader.take(entry, "class_name", str, where),
            json_reader.take(entry, "config", dict, where),
        )
        if kind not in _KEYS or (kind == "InputLayer" and number):
            raise CheckError(
                f"{where} ({kind[:40]}) cannot be checked there; load the model with fairmend and save it again"
            )
        name = json_reader.take(options, "name", str, where)
        if entry.get("name", name) != name or "/" in name:
            raise CheckError(f"{where} has two names, or one that is a path")
        _check_options(kind, options, where)
        found.append(_Layer(kind, name, options))
    if len({layer.name for layer in found}) != len(found):
        raise CheckError("two layers have the same name")
    return found


def _check_origin(entry: dict[str, Any], modules: tuple[str, ...], where: str) -> None:
    """Refuse what is not one of Keras's own classes, or is built for another input than rows of numbers."""
    if entry.get("module") not in (None, *modules) or entry.get("registered_name") is not None:
        raise CheckError(f"{where} is not a part of Keras itself")
    built = entry.get("build_config")
    if built is not None:
        json_reader.only_keys(json_reader.take(entry, "build_config", dict, where), ("input_shape",), where)
        _check_shape(built.get("input_shape"), where)


def _check_shape(shape: Any, where: str) -> None:
    if shape is not None and (type(shape) is not list or len(shape) != 2):
        raise CheckError(f"{where} does not take rows of numbers as its input")


def _check_options(kind: str, options: dict[str, Any], where: str) -> None:
    """Refuse an option that could change what a layer computes; `_activations` and `_dense` read the others."""
    json_reader.only_keys(options, (*_COMMON_KEYS, *_KEYS[kind]), where)
    _check_dtype(options.get("dtype"), where)
    for key in ("batch_shape", "batch_input_shape"):
        _check_shape(options.get(key), where)
    for key in (*_FALSE_KEYS, *_NULL_KEYS):  # 0 is a value of its own: ReLU with max_value 0 is always 0
        off = options.get(key) is None or (key in _FALSE_KEYS and options[key] is False)
        if not off:
            raise CheckError(f"{where} has the option {key}, which cannot be checked")
    for key in _TRAINING_KEYS:
        _check_training_part(options.get(key), f"{where}.{key}")


def _check_training_part(part: Any, where: str) -> None:
    """Refuse what is not one of Keras's own initializers, regularizers or constraints, which act in training only."""
    if part is None:
        return
    kind, options = json_reader.take(part, "class_name", str, where), json_reader.take(part, "config", dict, where)
    json_reader.only_keys(part, ("module", "class_name", "config", "registered_name"), where)
    modules = ("keras.initializers", "keras.regularizers", "keras.constraints")
    if part.get("module") not in (None, *modules) or part.get("registered_name") is not None:
        raise CheckError(f"{where} is not a part of Keras itself")
    if not kind.isidentifier() or kind[:1] == "_" or any(type(value) in (dict, list) for value in options.values()):
        raise CheckError(f"{where} is not a plain part of Keras")


def _check_dtype(dtype: Any, where: str) -> None:
    """Refuse all but float32, which is also what Keras computes in where nothing is said."""
    if type(dtype) is dict:
        known = ("module", "class_name", "config", "registered_name", "shared_object_id")
        json_reader.only_keys(dtype, known, f"{where}.dtype")
        plain = dtype.get("class_name") == "DTypePolicy" and dtype.get("registered_name") is None
        name = json_reader.take(dtype, "config", dict, where)
        if not plain or dtype.get("module") != "keras" or list(name) != ["name"]:
            raise CheckError(f"{where} has a dtype policy that cannot be checked")
        dtype = name["name"]
    if dtype not in (None, "float32"):
        raise CheckError(f"{where} computes in {str(dtype)[:40]}; {_FLOAT32_ONLY}")


def _activations(layer: _Layer) -> list[Activation]:
    """Return the activation in a layer, if there is one; softmax has that name."""
    where, options = f'layer "{layer.name[:40]}"', layer.config
    if layer.kind in ("Dense", "Activation"):
        name = options.get("activation", "linear")
        if name in ("linear", None):
            return []
        if name == "leaky_relu":
            return [Activation("leaky_relu", _LEAKY_BY_NAME)]
        if type(name) is str and name in _NAMED:
            return [Activation(name)]
    elif layer.kind == "ReLU":
        given = {"negative_slope": 0.0, "threshold": 0.0, **options}
        slope = json_reader.take(given, "negative_slope", float, where)
        if json_reader.take(given, "threshold", float, where) == 0:
            return [Activation("leaky_relu", slope) if slope else Activation("relu")]
    elif layer.kind == "LeakyReLU" and not {"negative_slope", "alpha"} <= options.keys():
        key = "negative_slope" if "negative_slope" in options else "alpha"
        return [Activation("leaky_relu", json_reader.take(options, key, float, where))]
    elif layer.kind == "Softmax" and json_reader.take({"axis": -1, **options}, "axis", int, where) in (-1, 1):
        return [Activation("softmax")]
    elif layer.kind in ("InputLayer", "Flatten", *_RANDOM):
        return []
    raise CheckError(f"{where} ({layer.kind[:40]}) cannot be checked; load the model with fairmend and save it again")


def _dense(layer: _Layer, pair: Pair) -> Pair:
    where = f'layer "{layer.name[:40]}"'
    kernel, bias = pair
    if layer.config.get("use_bias", True) is not True or kernel.ndim != 2:
        raise CheckError(f"{where} does not have a kernel and a bias")
    if json_reader.take(layer.config, "units", int, where) != kernel.shape[1]:
        raise CheckError(f"{where} has a number of units that differs from its kernel")
    return kernel.T, bias

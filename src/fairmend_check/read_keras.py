"""Read .h5 and .keras files: a chain of Keras layers, with its config as JSON and its weights in HDF5.

The weights must be where Keras 2 and 3 both look, by order and by name, with nothing beside them that a version could
take instead.

Only float32 models are read. What Keras computes with float64 layers depends on its version and backend: all round
inputs to float32 in `model.predict`, and Keras 3.15 with PyTorch rounds the kernels as well.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.assemble import Affine, Step, assemble
from fairmend_check.errors import CheckError
from fairmend_check.hdf5 import Array, Group, read_hdf5
from fairmend_check.keras_config import FLOAT32_ONLY, RANDOM, WEIGHTED, Layer, activation_layer, read_layers
from fairmend_check.model import Activation, Model
from fairmend_check.norms import Norm, batch_norm, scaling
from fairmend_check.zip_archive import read_archive

Weights = list[NDArray[np.floating]]

_NAMED = ("relu", "tanh", "sigmoid", "softmax")
_LEAKY_BY_NAME = 0.2  # Keras's own slope for activation="leaky_relu"
_LEAST_DEVIATION = 1e-7  # that Normalization divides by


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
    described = read_layers(config.encode("utf-8"))
    _check_listing(root, described)

    def weights(layer: Layer) -> Weights:
        group = root.find("model_weights", layer.name)
        if not isinstance(group, Group):  # the listing names it, unless it has no weights
            return []
        names = _texts(group, "weight_names")[: count_weights(layer)]
        return [_floats(group.find(*name.split("/")), layer) for name in names]

    return _model(described, weights)


def count_weights(layer: Layer) -> int:
    """Return how many arrays of a layer inference uses; a Normalization also counts its rows, in a third."""
    options = layer.config
    if layer.kind == "Dense":
        return 1 + _is_true(options, "use_bias", layer)
    if layer.kind == "BatchNormalization":
        return 2 + _is_true(options, "scale", layer) + _is_true(options, "center", layer)
    return 2 if layer.kind == "Normalization" and _adapted(layer) else 0


def _stored(layer: Layer) -> int:
    """Return how many arrays of a layer a file stores."""
    count = count_weights(layer)
    return 3 if layer.kind == "Normalization" and count else count


def _adapted(layer: Layer) -> bool:
    return layer.config.get("mean") is None and layer.config.get("variance") is None


def _is_true(options: dict[str, Any], key: str, layer: Layer) -> bool:
    return json_reader.take({key: True, **options}, key, bool, _where(layer))


def _where(layer: Layer) -> str:
    return f'layer "{layer.name[:40]}"'


def _check_listing(root: Group, layers: list[Layer]) -> None:
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
    weighted = [(name, count) for name, count in counts.items() if count]
    if [name for name, _ in weighted] != [layer.name for layer in layers if _stored(layer)]:
        raise CheckError("the weights are not listed in the order of the layers")
    for (_, count), layer in zip(weighted, (layer for layer in layers if _stored(layer)), strict=True):
        if count != _stored(layer):
            raise CheckError(f"{_where(layer)} does not have {_stored(layer)} arrays")


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
    described = read_layers(members["config.json"])
    root = read_hdf5(members["model.weights.h5"])
    _only_members(root, ("layers", "vars", "optimizer", "metrics"))
    _check_no_variables(root, "the model")
    groups = root.find("layers")
    if not isinstance(groups, Group):
        raise CheckError("the file contains no weights")
    places = _places(described)
    _only_members(groups, places.values())
    for layer in described:
        if not _stored(layer) and isinstance(group := groups.find(places[layer.name]), Group):
            _only_members(group, ("vars", "seed_generator") if layer.kind in RANDOM else ("vars",))
            _check_no_variables(group, _where(layer))

    def weights(layer: Layer) -> Weights:
        group = groups.find(places[layer.name])
        variables = groups.find(places[layer.name], "vars")
        numbers = [str(number) for number in range(_stored(layer))]
        if not numbers:
            return []
        if not isinstance(group, Group) or not isinstance(variables, Group) or sorted(variables.members) != numbers:
            raise CheckError(f"{_where(layer)} does not have {len(numbers)} arrays")
        _only_members(group, ("vars",))
        return [_floats(variables.members[number], layer) for number in numbers[: count_weights(layer)]]

    return _model(described, weights)


def _places(layers: list[Layer]) -> dict[str, str]:
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


def _floats(found: Group | Array | None, layer: Layer) -> NDArray[np.floating]:
    where = f'the weights of layer "{layer.name[:40]}"'
    if not isinstance(found, Array):
        raise CheckError(f"{where} are missing")
    if found.attributes:  # Keras takes an attribute dtype for the type of the numbers
        raise CheckError(f"{where} have attributes, which Keras does not write")
    floats = found.floats(where)
    if floats.dtype != np.float32:
        raise CheckError(f"{where} are {floats.dtype.name}; {FLOAT32_ONLY}")
    return floats


def _model(described: list[Layer], weights: Callable[[Layer], Weights]) -> Model:
    """Assemble the model from what each layer computes at inference."""
    steps: list[Step] = []
    for layer in described:
        arrays = weights(layer) if layer.kind in WEIGHTED else []
        if layer.kind == "Dense":
            steps.append(_dense(layer, arrays))
        elif layer.kind == "BatchNormalization":
            steps.append(_batch_norm(layer, arrays))
        elif layer.kind == "Normalization":
            steps.append(_normalization(layer, arrays))
        elif layer.kind == "Rescaling":
            steps.append(scaling(0.0, *(_numbers(layer, layer.config.get(*part)) for part in _RESCALING)))
        steps += [_rounded(activation) for activation in _activations(layer)]
    return assemble(steps)


_RESCALING = (("scale", 1.0), ("offset", 0.0))


def _rounded(activation: Activation) -> Activation:
    return replace(activation, slope=float(np.float32(activation.slope)))  # inference uses the rounded slope


def _activations(layer: Layer) -> list[Activation]:
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
        if type(name) is dict:
            return _activations(activation_layer(name, where))
    elif layer.kind == "ReLU":
        given = {"negative_slope": 0.0, "threshold": 0.0, **options}
        slope = _number(given, "negative_slope", where)
        if _number(given, "threshold", where) == 0:
            return [Activation("leaky_relu", slope) if slope else Activation("relu")]
    elif layer.kind == "LeakyReLU" and not {"negative_slope", "alpha"} <= options.keys():
        key = "negative_slope" if "negative_slope" in options else "alpha"
        return [Activation("leaky_relu", _number(options, key, where))]
    elif layer.kind == "Softmax" and json_reader.take({"axis": -1, **options}, "axis", int, where) in (-1, 1):
        return [Activation("softmax")]
    elif layer.kind not in ("ReLU", "LeakyReLU", "Softmax"):
        return []
    raise CheckError(f"{where} ({layer.kind[:40]}) cannot be checked; save the network as .onnx with fairmend")


def _number(options: dict[str, Any], key: str, where: str) -> float:
    """Return a number, which Keras 2 writes as an object if it was one of NumPy's."""
    given = options.get(key)
    if type(given) is dict and sorted(given) == ["type", "value"] and given["type"] == "ndarray":
        return json_reader.take(given, "value", float, where)
    return json_reader.take(options, key, float, where)


def _numbers(layer: Layer, given: Any) -> NDArray[np.float64]:
    """Return one number, or a list of numbers, for each column; Keras may write a list in a list."""
    while type(given) is list and len(given) == 1:
        given = given[0]
    if type(given) is not list:
        return np.array(json_reader.take({"number": given}, "number", float, _where(layer)))
    return json_reader.numbers(given, len(given), _where(layer))


def _dense(layer: Layer, arrays: Weights) -> Affine:
    kernel = arrays[0]
    if kernel.ndim != 2 or json_reader.take(layer.config, "units", int, _where(layer)) != kernel.shape[1]:
        raise CheckError(f"{_where(layer)} has a number of units that differs from its kernel")
    return Affine(kernel.T, arrays[1] if len(arrays) == 2 else None)


def _batch_norm(layer: Layer, arrays: Weights) -> Norm:
    options = {"axis": -1, "epsilon": 1e-3, **layer.config}
    if options["axis"] not in (-1, 1, [-1], [1]) or any(array.ndim != 1 for array in arrays):
        raise CheckError(f"{_where(layer)} is not over the last axis of rows")
    gain, shift = (arrays.pop(0) if _is_true(options, key, layer) else None for key in ("scale", "center"))
    mean, variance = arrays
    return batch_norm(mean, variance, gain, shift, _number(options, "epsilon", _where(layer)))


def _normalization(layer: Layer, arrays: Weights) -> Norm:
    options = layer.config
    if options.get("axis", -1) not in (None, -1, 1, [-1], [1], []):
        raise CheckError(f"{_where(layer)} is not over the last axis of rows")
    if _adapted(layer):
        mean, variance = (array.reshape(() if array.size == 1 else -1).astype(np.float64) for array in arrays)
    else:
        mean, variance = (_numbers(layer, options.get(key)) for key in ("mean", "variance"))
    if not (variance >= 0).all():
        raise CheckError(f"{_where(layer)} has a negative variance, whose root is not a number")
    deviation = np.maximum(np.sqrt(variance), _LEAST_DEVIATION)
    if json_reader.take({"invert": False, **options}, "invert", bool, _where(layer)):
        return scaling(0.0, deviation, mean)
    return scaling(mean, 1 / deviation, 0.0)

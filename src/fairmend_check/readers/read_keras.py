"""Read .h5 and .keras files: Keras models, with their config as JSON and their weights in HDF5.

The weights must be where Keras 2 and 3 both look, by order and by name, with nothing beside them that a version could
take instead.

Only float32 models are read. What Keras computes with float64 layers depends on its version and backend: all round
inputs to float32 in `model.predict`, and Keras 3.15 with PyTorch rounds the kernels as well.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import maybe, parse_json
from fairmend_check.kernel.model import Model
from fairmend_check.readers.hdf5 import Array, Group, read_hdf5
from fairmend_check.readers.keras_config import FLOAT32_ONLY, OPERATION, RANDOM, Described, Layer, read_config
from fairmend_check.readers.keras_layers import KerasGraph, Path, is_adapted, is_true
from fairmend_check.readers.keras_tokens import Weights
from fairmend_check.readers.zip_archive import read_archive

_AS_KERAS = "save it as .keras"
PARTS = {"query": "query_dense", "key": "key_dense", "value": "value_dense", "attention_output": "output_dense"}
GATED = {"query": "query_dense", "key": "key_dense", "gate": "_gate_dense", **PARTS}  # in the order of Keras
"""The layers inside attention, in the order of their weights, and their groups in a .keras file."""
_UNFREEZE = "save it as .keras, or set model.trainable = True before you save it as .h5"
_IGNORED = (
    "Keras 3 ignores its weights in .h5 files. Save it as .keras, or give the layer mean and variance as arguments"
)
_ADAPTED = (
    "the file is loaded by Keras 2, or by Keras 3.6 or later, as earlier ones ignore what a Normalization learned"
)


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
    described = read_config(config.encode("utf-8"))
    _check_listing(root, described.layers)

    def weights(path: Path, layer: Layer) -> Weights:
        names = stored.get(path, [])[: count_weights(layer)]
        return [_floats(root.find("model_weights", path[0], *name.split("/")), layer) for name in names]

    stored: dict[Path, list[str]] = {}
    both = not _is_of_keras_3(described)
    for layer in described.layers:
        group = root.find("model_weights", layer.name)
        names = _texts(group, "weight_names") if isinstance(group, Group) else []  # the listing names it, if it has any
        if layer.model is None:
            stored[layer.name,] = names
            _check_parts(layer, names)
        else:
            _assign_nested(layer, names, stored, both)
    model = KerasGraph(described, weights, _major(root.attributes.get("keras_version"))).finish()
    adapted = any(layer.kind == "Normalization" and is_adapted(layer) for layer in described.layers)
    conditions = [model.condition] * bool(model.condition) + [_ADAPTED] * adapted
    return replace(model, condition="; ".join(conditions))


def _check_parts(layer: Layer, names: list[str]) -> None:
    """Refuse the weights of attention under other names than Keras loads them in order."""
    ends = [tuple(name.removesuffix(":0").split("/")[-2:]) for name in names]
    if layer.kind == "MultiHeadAttention" and ends != [tuple(name.split("/")) for name in _variables(layer)]:
        raise CheckError(f"{layer.where} does not list its arrays in the order in which Keras loads them")


def _major(version: Any) -> str:
    return version.split(".")[0] if type(version) is str else ""


def _is_of_keras_3(model: Described) -> bool:
    """Return whether Keras 2 refuses a model: it does not know how Keras 3 declares the shape of an input."""
    return any(
        _is_of_keras_3(layer.model) if layer.model is not None else "batch_shape" in layer.config
        for layer in model.layers
        if layer.model is not None or layer.kind == "InputLayer"
    )


def _assign_nested(model: Layer, names: list[str], stored: dict[Path, list[str]], both: bool) -> None:
    """Give the layers of a nested model their weights, which are listed together, in the order that Keras loads them.

    Those that can be trained come first, each group in the order of the layers. Whether models are frozen counts when
    Keras saves them, but not when it loads them, except for functional models in Keras 3: if these are frozen, no
    weights come first. With ``both``, Keras 2 may load the file as well, and must find the same order. The names, which
    end in dense/kernel, must say the same.
    """
    arrays = _nested_arrays(model, ())
    expected = sorted(arrays, key=lambda each: not each[2])
    if model.kind != "Sequential" and not is_true(model, "trainable"):
        if both and expected != arrays:
            raise CheckError(f"{model.where} has weights that Keras 2 and 3 take in different orders; {_UNFREEZE}")
        expected = arrays
    if len(expected) != len(names):
        raise CheckError(f"{model.where} does not have {len(expected)} arrays")
    for (path, variable, _), name in zip(expected, names, strict=True):
        *_, owner, last = ("", *name.removesuffix(":0").split("/"))
        if owner != path[-1] or last != variable:
            listed = f'the array "{name[:60]}" where Keras loads "{"/".join(path)[:60]}/{variable}"'
            raise CheckError(f"{model.where} lists {listed}; {_UNFREEZE}")
        stored.setdefault(path, []).append(name)


def _nested_arrays(model: Layer, above: Path) -> list[tuple[Path, str, bool]]:
    """Return the path of the layer, the name and whether it can be trained, of all arrays in a model."""
    found: list[tuple[Path, str, bool]] = []
    for layer in model.model.layers if model.model is not None else []:
        path = (*above, model.name, layer.name)
        if layer.model is not None:
            found += _nested_arrays(layer, (*above, model.name))
        if layer.kind == "MultiHeadAttention":
            raise CheckError(f"{layer.where} is in a model within the model, which cannot be checked; {_AS_KERAS}")
        if layer.kind == "Normalization" and is_adapted(layer):  # Keras 3 goes on with mean 0 and variance 1
            raise CheckError(f"{layer.where} is adapted and in a model within the model; {_IGNORED}")
        for variable in _variables(layer):
            learned = variable not in ("moving_mean", "moving_variance")
            found.append((path, variable, learned and is_true(layer, "trainable")))
    return found


def _inside(layer: Layer) -> dict[str, str]:
    """Return the layers inside attention, and their groups in a .keras file."""
    return GATED if maybe(layer.config, "use_gate", bool, layer.where, False) else PARTS


def _variables(layer: Layer) -> list[str]:
    """Return the names of the arrays that a layer stores, in their order."""
    kind = layer.kind
    if kind == "Dense":
        return ["kernel", "bias"] if is_true(layer, "use_bias") else ["kernel"]
    if kind == "EinsumDense":
        return ["kernel", "bias"] if layer.config.get("bias_axes") is not None else ["kernel"]
    if kind == "MultiHeadAttention":
        own = ["kernel", "bias"] if is_true(layer, "use_bias") else ["kernel"]
        return [f"{part}/{name}" for part in _inside(layer) for name in own]
    if kind in ("BatchNormalization", "LayerNormalization", "GroupNormalization"):
        learned = [name for name, key in (("gamma", "scale"), ("beta", "center")) if is_true(layer, key)]
        return [*learned, "moving_mean", "moving_variance"] if kind == "BatchNormalization" else learned
    if kind == "Normalization":
        return ["mean", "variance", "count"] if is_adapted(layer) else []
    return {"PReLU": ["alpha"], "Embedding": ["embeddings"], "RMSNormalization": ["scale"]}.get(kind, [])


def count_weights(layer: Layer) -> int:
    """Return how many arrays of a layer inference uses; a Normalization also counts its rows, in a third."""
    return min(_stored(layer), 2) if layer.kind == "Normalization" else _stored(layer)


def _stored(layer: Layer) -> int:
    """Return how many arrays of a layer, or of a model with all its layers, a file stores."""
    return len(_variables(layer)) + (sum(map(_stored, layer.model.layers)) if layer.model is not None else 0)


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
            raise CheckError(f"{layer.where} does not have {_stored(layer)} arrays")


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
    described = read_config(members["config.json"], archived=True)
    metadata = parse_json(members["metadata.json"], "the metadata")
    root = read_hdf5(members["model.weights.h5"])
    _only_members(root, ("layers", "vars", "optimizer", "metrics"))
    _check_no_variables(root, "the model")
    places: dict[Path, Group | None] = {}
    _find_places(root, described, (), places)

    def weights(path: Path, layer: Layer) -> Weights:
        numbers = [str(number) for number in range(_stored(layer))]
        if not numbers:
            return []
        group = places[path]
        if group is not None and layer.kind == "MultiHeadAttention":
            return _parts(group, layer)
        variables = group.find("vars") if group is not None else None
        if group is None or not isinstance(variables, Group) or sorted(variables.members) != numbers:
            raise CheckError(f"{layer.where} does not have {len(numbers)} arrays")
        _check_beside(group, layer)
        return [_floats(variables.members[number], layer) for number in numbers[: count_weights(layer)]]

    return KerasGraph(described, weights, _major(metadata.get("keras_version"))).finish()


def _parts(group: Group, layer: Layer) -> Weights:
    """Return the arrays of the layers inside attention; its softmax and dropout have none."""
    _only_members(group, ("vars", "_softmax", "_dropout_layer", *_inside(layer).values()))
    _check_no_variables(group, layer.where)
    for name, known in (("_softmax", ("vars",)), ("_dropout_layer", ("vars", "seed_generator"))):
        inner = group.members.get(name)
        if isinstance(inner, Group):
            _only_members(inner, known)
            _check_no_variables(inner, layer.where)
        elif inner is not None:
            raise CheckError(f'the file contains "{name}", which Keras does not write for these layers')
    found: Weights = []
    count = len(_variables(layer)) // len(_inside(layer))
    for name in _inside(layer).values():
        inner = group.members.get(name)
        variables = inner.find("vars") if isinstance(inner, Group) else None
        numbers = [str(number) for number in range(count)]
        if not isinstance(inner, Group) or not isinstance(variables, Group) or sorted(variables.members) != numbers:
            raise CheckError(f"{layer.where} does not have {count} arrays in {name}")
        _only_members(inner, ("vars",))
        found += [_floats(variables.members[number], layer) for number in numbers]
    return found


def _find_places(above: Group, model: Described, path: Path, found: dict[Path, Group | None]) -> None:
    """Find the groups of all layers of a model; refuse others beside them, and weights where there should be none."""
    groups = above.find("layers")
    if not isinstance(groups, Group):
        raise CheckError("the file contains no weights")
    layers = [layer for layer in model.layers if not layer.kind.startswith(OPERATION)]
    places = _places(layers)
    _only_members(groups, places.values())
    for layer in layers:
        group = groups.find(places[layer.name])
        inside = found[(*path, layer.name)] = group if isinstance(group, Group) else None
        if layer.model is not None:
            if inside is None:
                raise CheckError(f"{layer.where} has no weights in the file")
            _only_members(inside, ("layers", "vars"))
            _check_no_variables(inside, layer.where)
            _find_places(inside, layer.model, (*path, layer.name), found)
        elif inside is not None and not _stored(layer):
            _check_beside(inside, layer)
            _check_no_variables(inside, layer.where)


def _check_beside(group: Group, layer: Layer) -> None:
    """Refuse what Keras does not write beside the variables of a layer; its activation may be a layer without any."""
    known = ["vars", "seed_generator"] if layer.kind in RANDOM else ["vars"]
    inner = group.members.get("activation")
    if type(layer.config.get("activation")) is dict and isinstance(inner, Group):
        known.append("activation")
        _only_members(inner, ("vars",))
        _check_no_variables(inner, layer.where)
    _only_members(group, known)


def _places(layers: list[Layer]) -> dict[str, str]:
    """Return the group of each layer: dense, dense_1, …, numbered by class in the order of the model."""
    places: dict[str, str] = {}
    seen: dict[str, int] = {}
    for layer in layers:
        stem = re.sub(r"([a-z])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", layer.kind)).lower()
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

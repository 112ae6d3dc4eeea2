"""The arrays that Keras stores for each kind of layer, and for the layers inside one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from fairmend.network.formats.keras.config import Layer, ModelConfig
from fairmend.network.formats.keras.hdf5 import Hdf5File

Place = TypeVar("Place")
LayerPath = tuple[str, ...]
"""The names of the models that a layer is in, from the outermost, and its own."""

INNER = ("ReLU", "LeakyReLU", "ELU", "Softmax")  # layers that another layer may have as its activation
PARTS = {  # layers inside a layer: by their names, the groups of a .keras file, in the order of their arrays
    "MultiHeadAttention": {
        "query": "query_dense",
        "key": "key_dense",
        "gate": "_gate_dense",
        "value": "value_dense",
        "attention_output": "output_dense",
    }
}
_WEIGHTED = (
    "Dense",
    "EinsumDense",
    "BatchNormalization",
    "LayerNormalization",
    "GroupNormalization",
    "RMSNormalization",
    "PReLU",
    "Embedding",
    *PARTS,
)


def parts_of(layer: Layer) -> dict[str, str]:
    """Return the layers inside a layer, as PARTS has them; attention has a gate only if it says so."""
    parts = PARTS.get(layer.kind, {})
    return {name: group for name, group in parts.items() if name != "gate" or layer.get("use_gate")}


def count_weights(layer: Layer) -> tuple[int, int]:
    """Return how many arrays a layer stores that can be trained, and how many others."""
    if layer.kind == "Dense":
        return 1 + bool(layer.get("use_bias", True)), 0
    if layer.kind == "EinsumDense":
        return 1 + (layer.get("bias_axes") is not None), 0
    if layer.kind in PARTS:
        return len(parts_of(layer)) * (1 + bool(layer.get("use_bias", True))), 0
    if layer.kind in ("BatchNormalization", "LayerNormalization", "GroupNormalization"):
        learned = bool(layer.get("scale", True)) + bool(layer.get("center", True))
        return learned, 2 if layer.kind == "BatchNormalization" else 0
    if layer.kind == "Normalization":
        return 0, 3 if None in (layer.get("mean"), layer.get("variance")) else 0
    return int(layer.kind in _WEIGHTED), 0


def select_weights(layer: Layer, places: Sequence[Place]) -> Sequence[Place]:
    """Return the places of the arrays that inference uses; the others (counts, random states) may not be floats."""
    if layer.kind == "Normalization":
        return places[:2]  # the third counts the rows it was adapted to
    return places if layer.kind in _WEIGHTED else ()


def split_parts(layer: Layer, places: Sequence[Place]) -> dict[str, list[Place]]:
    """Return the places of the arrays of each layer inside a layer, by its name; its own have the name ""."""
    parts = parts_of(layer)
    if not parts:
        return {"": list(places)}
    each = 1 + bool(layer.get("use_bias", True))
    return {name: list(places[k * each : (k + 1) * each]) for k, name in enumerate(parts)}


def all_layers(model: ModelConfig, above: LayerPath = ()) -> list[tuple[LayerPath, Layer]]:
    """Return the layers of a model and of the models in it, with their paths, in the order of their weights."""
    found: list[tuple[LayerPath, Layer]] = []
    for layer in model.layers:
        path = (*above, layer.name)
        found += [(path, layer)] if layer.model is None else all_layers(layer.model, path)
    return found


def stored_places(
    model: ModelConfig, paths: Mapping[LayerPath, Sequence[LayerPath]], file: Hdf5File
) -> tuple[dict[str, list[str]], dict[str, tuple[int, ...]]]:
    """Return the paths of the arrays in a file by the names of their layers, and the shapes of the arrays."""
    kinds = dict(all_layers(model))
    places: dict[str, list[str]] = {}
    for layer, found in paths.items():
        for part, own in split_parts(kinds[layer], found).items():
            places["/".join([*layer, part] if part else layer)] = ["/".join(path) for path in own]
    shapes = {"/".join(path): file.array(*path).shape for found in paths.values() for path in found}
    return places, shapes

""".keras files: a zip of the config (JSON) and the weights (HDF5), as Keras 3 writes it. Keras itself is not needed."""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.form import Form
from fairmend.network.formats.keras import archive, h5
from fairmend.network.formats.keras.config import PREFIX, Layer, ModelConfig, parse_config
from fairmend.network.formats.keras.functions import Style, major_version
from fairmend.network.formats.keras.graph import build_network
from fairmend.network.formats.keras.hdf5 import Hdf5File, change_hdf5, read_hdf5
from fairmend.network.formats.keras.weights import LayerPath, all_layers, parts_of, select_weights, stored_places
from fairmend.network.formats.keras.write import KerasForm, write_model

# Keras models in memory, read through the file that Keras saves for them: what is proven is what Keras can load.


_LIBRARIES = ("keras", "tf_keras", "tensorflow")


def read_model(model: Any) -> Network:
    """Return the network in a Keras model; it is not changed."""
    what = f"the Keras model {str(getattr(model, 'name', type(model).__name__))[:80]!r}"
    if not hasattr(model, "save") or not hasattr(model, "layers"):
        raise FairmendError(f"{type(model).__name__} is a part of Keras, not a model: give a keras.Model")
    if not getattr(model, "built", True):
        raise FairmendError(f"{what} has no weights yet: begin it with keras.Input((columns,)), or call it once")
    version = major_version(getattr(_library(model), "__version__", None))
    suffix = ".keras" if version == 3 else ".h5"  # Keras 2 may not know .keras
    content = _saved(model, suffix, what)
    network = (archive if suffix == ".keras" else h5).read_content(content, what)
    assert network.form is not None
    form = KerasModelForm((".keras", ".h5", ".hdf5"), suffix, network.form, model)
    return Network.from_nodes(network.nodes, network.closing, network.threshold, form, network.rescaling)


@dataclass(frozen=True, eq=False)
class KerasModelForm:
    """The file that Keras saved for a model, and the model, whose library loads and saves others."""

    suffixes: tuple[str, ...]
    own: str
    file: Form
    model: Any

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`."""
        if suffix == self.own:
            return self.file.to_bytes(network, suffix)
        return _saved(self.to_module(network), suffix, "the repaired model")

    def to_module(self, network: Network) -> Any:
        """Return a copy of the model, of its own class and with its compile settings, with the weights of `network`."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"model{self.own}")
            path.write_bytes(self.file.to_bytes(network, self.own))
            try:
                return _library(self.model).models.load_model(path)
            except (TypeError, ValueError) as error:
                raise FairmendError(
                    f"Keras cannot load the repaired model ({str(error).splitlines()[0][:200]}). Save it with "
                    'network.save("model.keras") and load it with your custom_objects'
                ) from error


def _saved(model: Any, suffix: str, what: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{suffix}")
        try:
            model.save(path)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise FairmendError(f"{what} cannot be saved by Keras ({str(error).splitlines()[0][:200]})") from error
        return path.read_bytes()


def _library_name(source: Any) -> str | None:
    roots = (base.__module__.partition(".")[0] for base in type(source).__mro__)
    return next((root for root in roots if root in _LIBRARIES), None)


def _library(model: Any) -> Any:
    """Return the Keras that a model belongs to, which is imported, as the model exists."""
    name = _library_name(model)
    library = sys.modules[name or "keras"]
    return library.keras if name == "tensorflow" else library


_SUFFIXES = (".keras",)
_CONFIG, _METADATA, _WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
_KERAS_VERSION = "3.0.0"
_ROOTS = ("layers", "_layer_checkpoint_dependencies")  # Keras 3, and TensorFlow 2.12's first .keras files
_SMALL, _RATIO = 16 * 2**20, 20  # weights hardly shrink in a zip: what shrinks more than this is a trap


def read(path: Path, activation: Activation | None) -> Network:
    """Return the network in the file; its config names the activations."""
    return read_content(path.read_bytes(), str(path))


def read_content(content: bytes, source: str) -> Network:
    """Return the network in the content of a file; `source` names it in errors."""
    config, metadata, weights = _members(content, source)
    model = parse_config(config, source, is_archived=True)
    file = read_hdf5(weights, _ROOTS, source)
    places = _all_places(model)
    paths = {layer: _paths(file, kind, places[layer]) for layer, kind in all_layers(model) if layer in places}
    stored, shapes = stored_places(model, paths, file)
    form = KerasForm(_SUFFIXES, content, stored, shapes, partial(_change, source=source))

    def arrays(layer: LayerPath, kind: Layer) -> list[npt.NDArray[Any]]:
        return [file.array(*path) for path in paths.get(layer, ())]

    return build_network(model, arrays, source, form, _version(metadata))


def _version(metadata: bytes) -> int | None:
    """Return the major version of the Keras that wrote the file."""
    try:
        version = json.loads(metadata)["keras_version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return major_version(version)


def _change(content: bytes, arrays: Mapping[str, npt.NDArray[Any]], source: str) -> bytes:
    """Return the archive with other numbers in the arrays at these paths of its weights."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: _member(archive, name, source, len(content)) for name in archive.namelist()}
    return _archive({**members, _WEIGHTS: change_hdf5(members[_WEIGHTS], arrays, source)})


def to_bytes(network: Network) -> bytes:
    """Return the network as a model that Keras 3 loads: a Sequential, or functional if it is no chain."""
    import h5py

    model = write_model(network, Style.KERAS_3)
    layers = [Layer(name, kind, {}) for name, kind in model.kinds.items()]
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.create_group("vars")
        for layer, place in zip(layers, _places(layers), strict=True):
            group = file.create_group(f"layers/{place}/vars")
            for number, array in enumerate(model.arrays.get(layer.name, {}).values()):
                group.create_dataset(str(number), data=array)
    content = {
        _METADATA: json.dumps({"keras_version": _KERAS_VERSION, "date_saved": "1980-01-01@00:00:00"}).encode(),
        _CONFIG: json.dumps(model.config).encode("utf-8"),
        _WEIGHTS: buffer.getvalue(),
    }
    return _archive(content)


def _archive(members: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)  # without a date: the same network gives the same bytes
    return archive.getvalue()


def _places(layers: Any) -> list[str]:
    """Return where the weights of each layer are: dense, dense_1, …, numbered by class in the order of the model."""
    seen: dict[str, int] = {}
    places = []
    for layer in layers:
        stem = _snake_case(layer.kind)
        number = seen[stem] = seen.get(stem, -1) + 1
        places.append(f"{stem}_{number}" if number else stem)
    return places


def _snake_case(name: str) -> str:
    """Return LeakyReLU as leaky_re_lu, as Keras does."""
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()


def _all_places(model: ModelConfig, above: LayerPath = (), within: LayerPath = ()) -> dict[LayerPath, LayerPath]:
    """Return the groups above the weights of each layer, without the names of the roots."""
    found: dict[LayerPath, LayerPath] = {}
    layers = [layer for layer in model.layers if not layer.kind.startswith(PREFIX)]
    for layer, place in zip(layers, _places(layers), strict=True):
        path, group = (*above, layer.name), (*within, place)
        found |= {path: group} if layer.model is None else _all_places(layer.model, path, group)
    return found


def _paths(file: Hdf5File, layer: Layer, places: LayerPath) -> list[tuple[str, ...]]:
    """Return where the variables of a layer, or of the layers inside it, are, which are numbered from 0."""
    for root in _ROOTS:
        group = tuple(name for place in places for name in (root, place))
        inside: list[LayerPath] = [(part, "vars") for part in parts_of(layer).values()]
        inside = inside or [("vars",)]
        found = [(file.names(*group, *part), (*group, *part)) for part in inside]
        if any(names is not None for names, _ in found):
            numbered = [(*path, str(number)) for names, path in found for number in range(len(names or ()))]
            return list(select_weights(layer, numbered))
    return []


def _members(content: bytes, source: str) -> tuple[bytes, bytes, bytes]:
    """Return config, metadata and weights; the first releases wrote no metadata."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = len(content)
            config = _member(archive, _CONFIG, source, size)
            has_metadata = _METADATA in archive.namelist()
            metadata = _member(archive, _METADATA, source, size) if has_metadata else b""
            return config, metadata, _member(archive, _WEIGHTS, source, size)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError, ValueError, OSError) as error:
        hint = (
            "if an older Keras wrote it, rename it to .h5" if isinstance(error, zipfile.BadZipFile) else "save it again"
        )
        raise FairmendError(f"{source}: not a readable .keras file ({error}); {hint}") from error


def _member(archive: zipfile.ZipFile, name: str, source: str, whole: int) -> bytes:
    """Return a member of the zip, after checking the size that it claims; zipfile stops at that size."""
    entries = [entry for entry in archive.infolist() if entry.filename == name]
    if len(entries) != 1:
        raise FairmendError(
            f"{source}: holds {len(entries)} members {name!r} instead of 1; save the model with Keras 3"
        )
    size, packed = entries[0].file_size, entries[0].compress_size
    if size > _SMALL and size > _RATIO * min(packed, whole):
        raise FairmendError(
            f"{source}: {name!r} grows from {packed:,} to {size:,} bytes, as weights never do; save it again"
        )
    with archive.open(entries[0]) as member:
        return member.read(size)

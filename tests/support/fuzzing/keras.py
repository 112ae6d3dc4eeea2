"""Fuzzing of .h5 and .keras files: changes of single fields of HDF5, of the config, of names, texts and zip members."""

from __future__ import annotations

import atexit
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fairmend.network import Activation
from fairmend_check.kernel.model import Activation as CheckedActivation
from fairmend_check.kernel.model import Dense, Model
from fairmend_check.kernel.operations.affine import Scale
from fairmend_check.kernel.operations.base import Operation
from fairmend_check.kernel.operations.columns import Columns, Concatenate, Lookup, Sum
from fairmend_check.readers.hdf5 import read_hdf5
from support.fuzzing.file_format import FileFormat, RuntimeRefusal
from support.fuzzing.hdf5_layout import fields
from support.fuzzing.keras_runtime import KerasRuntime, probe_inputs
from support.strategies import random_network

__all__ = ["FORMAT_H5", "FORMAT_KERAS"]

_CORPUS = Path(__file__).parents[2] / "corpus" / "keras"
_WEIGHTS, _CONFIG = "model.weights.h5", "config.json"
_NUMBERS = (0, 1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 2**16 - 1, 2**32 - 1, 2**64 - 1)
_NAMES = ("dense", "dense_1", "vars", "layers", "0", "1", ".", "..", "a/b", "kernel", "weight_names", "_functional",
          "_layer_checkpoint_dependencies", "top_level_model_weights", "größe", "layer_names", "dtype", "")  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, 0.3, 1e30, "float32", "float64", "float16", "mixed_float16", "bfloat16",
    "int8", "relu", "tanh", "leaky_relu", "softmax", "sigmoid", "linear", "gelu", "keras", "keras.layers", "keras.ops",
    "Dense", "ReLU", "LeakyReLU", "Softmax", "Activation", "Flatten", "Dropout", [], {}, [None, 2], [None, 3],
    [None, 1, 3], "BatchNormalization", "Normalization", "Rescaling", "Functional", "Sequential", [1], [-1], [0], 1e-3,
    [0.5, 1.0, 2.0], ["people", 0, 0], ["people", 0, 1], ["dense", 0, 0],
)  # fmt: skip
_KEYS = ("dtype", "activation", "shared_object_id", "registered_name", "module", "name", "negative_slope", "alpha",
         "max_value", "threshold", "lora_rank", "lora_alpha", "quantization_config", "build_config", "trainable",
         "batch_shape", "batch_input_shape", "use_bias", "units", "axis", "class_name", "sparse", "compile_config",
         "epsilon", "center", "scale", "mean", "variance", "invert", "offset", "renorm", "momentum", "inbound_nodes",
         "input_layers", "output_layers", "keras_history", "kwargs", "training", "virtual_batch_size",
         "autocast", "gptq_unpacked_column_size", "build_input_shape", "rate", "kernel_initializer")  # fmt: skip


def _pick(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def _seeds(suffix: str) -> list[bytes]:
    """Return files of Keras and of fairmend."""
    from fairmend.network.formats.keras import archive, h5

    module = archive if suffix == ".keras" else h5
    rng = np.random.default_rng(0)
    own = [
        module.to_bytes(random_network(rng, 3, [4, 2], 1, Activation("leaky_relu", 0.25), "float32", "sigmoid")),
        module.to_bytes(random_network(rng, 3, [2, 2], 2, Activation("tanh"), "float32", "softmax")),
    ]
    chosen = ("keras2.15.0*plain", "keras3.3.3*plain", "keras3.15.1*plain", "keras3.15.1*trained", "keras3.15.1*norms",
              "keras3.15.1*graph")  # fmt: skip
    return own + [path.read_bytes() for pattern in chosen for path in sorted(_CORPUS.glob(pattern + suffix))]


# HDF5, field by field


def _change_field(content: bytes, rng: np.random.Generator) -> bytes:
    found = fields(content)
    labels = sorted({field.label for field in found})
    label = _pick(rng, labels)  # every label equally often: most fields are reserved bytes
    same = [field for field in found if field.label == label]
    field = _pick(rng, same)
    old = content[field.start : field.start + field.size]
    if not old:
        return content
    choice = int(rng.integers(5))
    if choice == 0:  # the value of another field of the kind, such as an address
        other = _pick(rng, same)
        new = content[other.start : other.start + other.size][: field.size]
    elif choice == 1 and field.size <= 8:
        new = int(_pick(rng, _NUMBERS)).to_bytes(8, "little")[: field.size]
    elif choice == 2 and field.size <= 8:
        new = ((int.from_bytes(old, "little") + int(_pick(rng, (-8, -1, 1, 8)))) % 256**field.size).to_bytes(
            field.size, "little"
        )
    elif choice == 3 and len(same) > 1:  # swapped with another field
        other = _pick(rng, same)
        size = min(field.size, other.size)
        changed = bytearray(content)
        changed[field.start : field.start + size] = content[other.start : other.start + size]
        changed[other.start : other.start + size] = content[field.start : field.start + size]
        return bytes(changed)
    else:
        place = int(rng.integers(field.size))
        new = old[:place] + bytes([int(rng.integers(256))]) + old[place + 1 :]
    return content[: field.start] + new + content[field.start + len(new) :]


# HDF5, through h5py


def _edit(content: bytes, rng: np.random.Generator) -> bytes:
    buffer = io.BytesIO(content)
    with h5py.File(buffer, "r+") as file:
        _pick(rng, _EDITS)(file, rng)
    return buffer.getvalue()


def _groups(file: h5py.File) -> list[h5py.Group]:
    found = [file]
    file.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Group) else None)
    return found


def _arrays(file: h5py.File) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    file.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return found


def _new_numbers(array: h5py.Dataset, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=array.shape).astype(_pick(rng, ("f4", "f4", "f8", ">f4", "f2", "i4")))


def _replace_array(file: h5py.File, rng: np.random.Generator) -> None:
    array = _pick(rng, _arrays(file))
    name, parent, numbers = array.name, array.parent, _new_numbers(array, rng)
    options = _pick(rng, ({}, {}, {"chunks": True}, {"compression": "gzip"}, {"fillvalue": 1}, {"track_times": True}))
    del file[name]
    parent.create_dataset(name.rsplit("/", 1)[1], data=numbers, **(options if array.shape else {}))


def _write_numbers(file: h5py.File, rng: np.random.Generator) -> None:
    array = _pick(rng, _arrays(file))
    array[...] = rng.normal(size=array.shape).astype(array.dtype)


def _move(file: h5py.File, rng: np.random.Generator) -> None:
    group, to = _pick(rng, _groups(file)), _pick(rng, _groups(file))
    if len(group):
        name = _pick(rng, list(group))
        group.move(name, f"{to.name}/{_pick(rng, (name, *_NAMES))}")


def _swap(file: h5py.File, rng: np.random.Generator) -> None:
    group = _pick(rng, [group for group in _groups(file) if len(group) > 1] or [None])
    if group is not None:
        first, second = (str(name) for name in rng.choice(list(group), 2, replace=False))
        group.move(first, "temporary")
        group.move(second, first)
        group.move("temporary", second)


def _copy(file: h5py.File, rng: np.random.Generator) -> None:
    group, to = _pick(rng, _groups(file)), _pick(rng, _groups(file))
    if len(group):
        name = _pick(rng, list(group))
        group.copy(name, to, name=_pick(rng, (name + "_", *_NAMES[:-1])))
        array = _pick(rng, _arrays(file))
        array[...] = rng.normal(size=array.shape).astype(array.dtype)


def _link(file: h5py.File, rng: np.random.Generator) -> None:
    group, target = _pick(rng, _groups(file)), _pick(rng, [*_groups(file), *_arrays(file)])
    kind = _pick(rng, (target, h5py.SoftLink(target.name), h5py.ExternalLink("other.h5", target.name)))
    name = _pick(rng, (*_NAMES[:-1], *list(group)))
    if name in group:
        del group[name]
    group[name] = kind


def _attribute(file: h5py.File, rng: np.random.Generator) -> None:
    """Write an attribute again, or a new one, as text of another kind or padding."""
    item = _pick(rng, [*_groups(file), *_arrays(file)])
    names = list(item.attrs)
    name = _pick(rng, names) if names and rng.random() < 0.8 else _pick(rng, _NAMES[:-1])
    value = item.attrs.get(name, _pick(rng, ("bfloat16", "float16", "a")))
    texts = [str(text) for text in np.atleast_1d(value)] if not isinstance(value, str) else value
    if isinstance(texts, list) and texts and rng.random() < 0.5:
        texts[int(rng.integers(len(texts)))] += _pick(rng, (" ", "\0", "/", "/.", ""))
        if rng.random() < 0.3:
            texts = texts[::-1]
    choice = int(rng.integers(5))
    if name in item.attrs:
        del item.attrs[name]
    if choice == 0 or not texts:
        item.attrs[name] = texts
    elif choice == 1:
        item.attrs[name] = np.array(texts, dtype=h5py.string_dtype(_pick(rng, ("ascii", "utf-8"))))
    elif choice == 2:
        item.attrs[name] = np.char.encode(np.array(texts), "utf-8")
    else:
        encoded = np.char.encode(np.array(texts), "utf-8")
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(encoded.dtype.itemsize + int(rng.integers(3)))
        kind.set_strpad(int(rng.integers(3)))
        space = h5py.h5s.create_simple(encoded.shape) if encoded.shape else h5py.h5s.create(h5py.h5s.SCALAR)
        created = h5py.h5a.create(item.id, name.encode(), kind, space)
        created.write(encoded, mtype=kind if rng.random() < 0.5 else h5py.h5t.py_create(encoded.dtype))


def _add_decoys(file: h5py.File, rng: np.random.Generator) -> None:
    """Name the weights of a layer with padding, and put other arrays under the padded names."""
    groups = [group for group in _groups(file) if len(group.attrs.get("weight_names", ()))]
    if not groups:
        return
    group = _pick(rng, groups)
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in group.attrs["weight_names"]]
    size = max(map(len, names)) + int(rng.integers(3))
    for name in names:
        padded = name.ljust(size)
        if padded not in group:
            group[padded] = rng.normal(size=group[name].shape).astype(group[name].dtype)
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(size)
    kind.set_strpad(int(rng.integers(3)))
    del group.attrs["weight_names"]
    created = h5py.h5a.create(group.id, b"weight_names", kind, h5py.h5s.create_simple((len(names),)))
    created.write(np.array([name.ljust(size).encode() for name in names], f"S{size}"), mtype=kind)


def _change_config_attribute(file: h5py.File, rng: np.random.Generator) -> None:
    if "model_config" in file.attrs:
        file.attrs["model_config"] = _changed_json(str(file.attrs["model_config"]).encode(), rng).decode()


_EDITS: tuple[Callable[[h5py.File, np.random.Generator], None], ...] = (
    _replace_array, _write_numbers, _move, _swap, _copy, _link, _attribute, _attribute, _attribute, _add_decoys,
    *[_change_config_attribute] * 6,
)  # fmt: skip


# The config


def _changed_json(text: bytes, rng: np.random.Generator) -> bytes:
    data = json.loads(text)
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, below in items:
            places.append((value, key))
            visit(below)

    visit(data)
    holder, key = _pick(rng, places)
    choice = int(rng.integers(7))
    if choice == 0:
        del holder[key]
    elif choice == 1:
        other, other_key = _pick(rng, places)
        holder[key] = json.loads(json.dumps(other[other_key]))
    elif choice == 2 and isinstance(holder, dict):
        holder[_pick(rng, _KEYS)] = _pick(rng, _VALUES)
    elif choice == 3 and isinstance(holder, list):
        holder.insert(key, json.loads(json.dumps(holder[key])))
    elif choice == 4 and isinstance(holder, list):
        order = rng.permutation(len(holder))
        holder[:] = [holder[i] for i in order]
    elif choice == 5 and len(text) > 2:  # a key given twice, a number in another way, white space
        raw = bytearray(text)
        place = int(rng.integers(len(raw)))
        raw[place : place + 1] = _pick(rng, (b" ", b'"', b"}", b",", b"\\u0061", bytes([raw[place]]) * 2, b"NaN"))
        return bytes(raw)
    else:
        holder[key] = _pick(rng, _VALUES)
    return json.dumps(data).encode()


# The two formats


def _mutate_hdf5(content: bytes, rng: np.random.Generator) -> bytes:
    try:
        read_hdf5(content)  # libhdf5 may run forever on what an earlier change damaged
        return (_change_field if rng.random() < 0.5 else _edit)(content, rng)
    except Exception:  # or h5py refuses the change
        place = int(rng.integers(len(content)))
        return content[:place] + bytes([int(rng.integers(256))]) + content[place + 1 :]


def _mutate_keras(content: bytes, rng: np.random.Generator) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:  # whatever an earlier change made of the archive
        return content
    choice = int(rng.integers(10))
    method, extra = zipfile.ZIP_STORED, (b"", b"")
    if choice < 4:
        members = [(name, _mutate_hdf5(data, rng) if name == _WEIGHTS else data) for name, data in members]
    elif choice < 7:
        try:
            members = [(name, _changed_json(data, rng) if name == _CONFIG else data) for name, data in members]
        except ValueError:
            return content
    elif choice == 7:
        name, data = _pick(rng, members)
        changed = _pick(
            rng, (name, name.upper(), "assets/a", f"./{name}", "model.weights.npz", f"{name}\0x", f"/{name}")
        )
        members.insert(int(rng.integers(len(members) + 1)), (changed, _mutate_hdf5(data, rng)))
    elif choice == 8:
        members = [members[i] for i in rng.permutation(len(members))]
        method = _pick(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        extra = _pick(rng, ((b"", b""), (b"x", b""), (b"", b"x"), (content, b""), (b"", content)))
    packed = _zipped(members, method)
    if choice == 9:
        directory = packed.rfind(b"PK\1\2") if rng.random() < 0.5 else packed.find(b"PK\1\2")
        place = _pick(
            rng, (int(rng.integers(30)), directory + int(rng.integers(46)), len(packed) - 1 - int(rng.integers(22)))
        )
        packed = packed[:place] + bytes([int(rng.integers(256))]) + packed[place + 1 :]
    return extra[0] + packed + extra[1]


def _zipped(members: list[tuple[str, bytes]], method: int) -> bytes:
    import warnings

    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # of two members of one name
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


_runtime = KerasRuntime()
atexit.register(_runtime.close)


def _disagreement(model: Model, content: bytes, path: Path) -> str | None:
    """Compare the weights bit by bit, and the outputs, before or after a closing sigmoid or softmax."""
    read = _runtime.read(path)
    if "refused" in read:
        raise RuntimeRefusal(read["refused"])
    own = [array for layer in model.layers for array in (layer.weight, layer.bias)]
    without_bias = [not layer.bias.any() for layer in model.layers]
    folded = any(layer.fold for layer in model.layers)
    if not model.is_chain or folded or (any(without_bias) and len(own) != len(read["weights"])):
        own = []  # of graphs, norms, and layers without a bias, the outputs alone tell
    elif len(own) != len(read["weights"]):
        return f"Keras reads {len(read['weights'])} arrays, the checker {len(own)}"
    for number, (array, (dtype, shape, data)) in enumerate(zip(own, read["weights"], strict=False)):
        stored = np.frombuffer(bytes.fromhex(data), dtype="V2" if dtype == "bfloat16" else dtype).reshape(shape)
        if dtype != model.dtype or not np.array_equal(array.T, stored.astype(np.float64)):
            return f"array {number} is {stored.ravel()[:4]} ({dtype}) to Keras and {array.T.ravel()[:4]} to the checker"
    found, logits = np.asarray(read["outputs"]), _logits(model)
    if found.shape != logits.shape:
        return f"Keras gives outputs of shape {found.shape}, the checker {logits.shape}"
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(-logits))
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    closed = (logits, sigmoid, raised / raised.sum(axis=1, keepdims=True))
    close = [bool(np.allclose(found, expected, rtol=1e-3, atol=1e-4, equal_nan=True)) for expected in closed]
    if not any(close) and np.isfinite(logits).all() and np.abs(logits).max() < 1e30:
        return f"Keras gives {found[0]}, the checker's model the logits {logits[0]}"
    return None


def _logits(model: Model) -> np.ndarray:
    values = [probe_inputs(model.inputs).astype(np.float64)]
    with np.errstate(over="ignore", invalid="ignore"):
        for node in model.nodes[1:]:
            values.append(_computed(node.operation, [values[source] for source in node.sources]))
    return values[-1]


def _computed(operation: Operation, read: list[np.ndarray]) -> np.ndarray:
    if isinstance(operation, Dense):
        return read[0] @ operation.weight.T + operation.bias
    if isinstance(operation, Scale):
        return read[0] * operation.factor + operation.shift
    if isinstance(operation, Sum):
        return np.sum(read, axis=0)
    if isinstance(operation, Concatenate):
        return np.concatenate(read, axis=1)
    if isinstance(operation, Columns):
        return read[0][:, list(operation.indices)]
    if isinstance(operation, Lookup):  # Keras cuts digits off
        return operation.table[np.clip(read[0][:, 0].astype(int), 0, len(operation.table) - 1)]
    assert isinstance(operation, CheckedActivation)
    result = read[0].copy()
    Activation(operation.name, operation.slope, operation.parameters).apply(result)
    return result


FORMAT_H5 = FileFormat("h5", ".h5", lambda: _seeds(".h5"), _mutate_hdf5, _disagreement)
FORMAT_KERAS = FileFormat("keras", ".keras", lambda: _seeds(".keras"), _mutate_keras, _disagreement)

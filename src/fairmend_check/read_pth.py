"""Read .pth files: a zip archive of a pickle and raw storages. The pickle is read, never run."""

from __future__ import annotations

import io
import math
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.model import Model, make_model
from fairmend_check.pickle_reader import Call, StateDict, read_pickle
from fairmend_check.read_model import read_note

_TYPES = {"torch FloatStorage": "<f4", "torch DoubleStorage": "<f8"}
_MAX_BYTES = 2**30


def read_pth(content: bytes) -> Model:
    """Return the model of a state dict; its activations are None if the file does not hold fairmend's note on them."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = _members(archive)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise CheckError(f"not a .pth file of PyTorch 1.6 or later ({error})") from error
    root = next((name[: -len("data.pkl")] for name in members if name.endswith("/data.pkl")), None)
    if root is None:
        raise CheckError("the file contains no data.pkl")
    if members.get(f"{root}byteorder", b"little") != b"little":
        raise CheckError("the file is not little-endian")
    state = read_pickle(members[f"{root}data.pkl"])
    if not isinstance(state, StateDict):
        raise CheckError("the file does not contain a state dict. Save model.state_dict() instead")
    tensors = {name: _tensor(name, value, members, root) for name, value in state.items.items()}
    note = _note(state)
    names, activations = (None, None) if note is None else read_note(note)
    if names is None:  # weights only: the order of the file is the order of the layers
        names = [name[: -len(".weight")] for name in tensors if name.endswith(".weight")]
    layers = [(_pop(tensors, f"{name}.weight"), tensors.pop(f"{name}.bias", None)) for name in names]
    if tensors:
        raise CheckError(f'the file contains the tensor "{next(iter(tensors))[:40]}" which belongs to no layer')
    return make_model(layers, activations)


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    entries = archive.infolist()
    if len({entry.filename for entry in entries}) != len(entries):
        raise CheckError("the archive contains two files of the same name")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise CheckError("the archive is compressed, which PyTorch never does")
    if sum(entry.file_size for entry in entries) > _MAX_BYTES:
        raise CheckError(f"the archive contains more than {_MAX_BYTES:,} bytes")
    return {entry.filename: archive.read(entry) for entry in entries}


def _note(state: StateDict) -> str | None:
    """Return the note on activations that fairmend stores among the attributes of the state dict."""
    metadata = state.attributes.get("_metadata")
    note = metadata.items.get("fairmend") if isinstance(metadata, StateDict) else None
    return note if isinstance(note, str) else None


def _pop(tensors: dict[str, NDArray[np.floating]], name: str) -> NDArray[np.floating]:
    if name not in tensors:
        raise CheckError(f'the file has no tensor "{name[:40]}"')
    return tensors.pop(name)


def _tensor(name: Any, value: Any, members: dict[str, bytes], root: str) -> NDArray[np.floating]:
    """Return a tensor: (storage, offset, size, stride, requires_grad, hooks) over a storage (.., type, key, .., n)."""
    if type(name) is not str or not isinstance(value, Call) or value.of != "torch._utils _rebuild_tensor_v2":
        raise CheckError(f"entry {str(name)[:40]} is not a tensor")
    storage, offset, size, stride = value.arguments[:4]
    if not isinstance(storage, Call) or storage.of != "persistent" or len(storage.arguments[0]) != 5:
        raise CheckError(f"tensor {name[:40]} has no storage")
    _, kind, key, _, count = storage.arguments[0]
    if str(kind) not in _TYPES:
        raise CheckError(f"tensor {name[:40]} is stored as {str(kind)[:40]}; only float32 and float64 can be checked")
    dtype = np.dtype(_TYPES[str(kind)])
    data = members.get(f"{root}data/{key}", b"")
    if not all(type(n) is int and n >= 0 for n in (offset, count, *size, *stride)) or len(size) != len(stride):
        raise CheckError(f"tensor {name[:40]} has an unusable shape")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if len(data) != count * dtype.itemsize or min(size, default=1) == 0 or last >= count:
        raise CheckError(f"tensor {name[:40]} does not fit its storage")
    if math.prod(size) > count:  # strides of 0 could make a small file a huge matrix
        raise CheckError(f"tensor {name[:40]} repeats its storage")
    flat = np.frombuffer(data, dtype=dtype)[offset:]
    view = np.lib.stride_tricks.as_strided(flat, size, [step * dtype.itemsize for step in stride], writeable=False)
    return np.array(view, dtype=dtype.newbyteorder("="))

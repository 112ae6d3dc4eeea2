"""Read .pth files: a zip archive of a pickle and raw storages. The pickle is read, never run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Layer, Model
from fairmend_check.readers.named_graph import NamedGraph
from fairmend_check.readers.pickle_reader import Storage, Tensor, read_pickle
from fairmend_check.readers.state_dict import model_of_tensors
from fairmend_check.readers.zip_archive import MAX_BYTES, read_archive

Numbers = NDArray[Any]

_CHECKPOINT_KEYS = ("state_dict", "model_state_dict", "model")
_TYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "LongStorage": "<i8"}
_MEMBERS = {  # what torch.save writes beside the storages; older releases write the first two only
    "data.pkl": b".*",
    "version": b"3\n",
    "byteorder": b"little",
    ".format_version": b"1",
    ".storage_alignment": b"64",
    ".data/serialization_id": b"[0-9]{1,40}",
}


def read_pth(content: bytes, layers: Sequence[Layer] | NamedGraph | None) -> Model:
    """Return the model of a state dict, alone or in a checkpoint, with these layers."""
    if not content.startswith(b"PK\3\4"):
        raise CheckError("not a .pth file of PyTorch 1.6 or later. Save it again: torch.save(model.state_dict(), path)")
    if b"/constants.pkl" in content:
        raise CheckError("this is a TorchScript archive, which is a program. Save model.state_dict() instead")
    members = _members(content)
    content_of_pickle, described = read_pickle(members["data.pkl"])
    part, pickled = _state_dict(content_of_pickle)
    storages = {storage.key: storage for storage in described}
    if any(storages[storage.key] != storage for storage in described):
        raise CheckError("the file describes a storage in two different ways")
    if {f"data/{key}" for key in storages} != {name for name in members if name not in _MEMBERS}:
        raise CheckError("the file does not contain exactly the storages that its tensors use")
    used = {tensor.storage.key: tensor.storage for tensor in pickled.values()}
    numbers = {key: _numbers(storage, members[f"data/{key}"]) for key, storage in used.items()}
    if sum(math.prod(tensor.size) for tensor in pickled.values()) > MAX_BYTES // 8:
        raise CheckError("the tensors in the file are too large")
    tensors = {name: _view(name, tensor, numbers[tensor.storage.key]) for name, tensor in pickled.items()}
    model = model_of_tensors(tensors, layers)
    if part is None:
        return model
    return replace(model, condition=f'the module loads the part "{part}" of the checkpoint. T{model.condition[1:]}')


def _state_dict(content: Any) -> tuple[str | None, dict[str, Tensor]]:
    """Return the tensors by key, and under which key of a checkpoint they are; None if there is only a state dict."""
    if not isinstance(content, dict):
        raise CheckError("the file does not contain a state dict. Save model.state_dict() instead")
    parts = [key for key in _CHECKPOINT_KEYS if isinstance(content.get(key), dict)]
    if len(parts) > 1:
        raise CheckError(f'the checkpoint contains "{parts[0]}" and "{parts[1]}". Save model.state_dict() alone')
    part = parts[0] if parts else None
    found = content if part is None else content[part]
    for key, tensor in found.items():
        if type(key) is not str or not isinstance(tensor, Tensor):
            raise CheckError(f'"{str(key)[:40]}" in the state dict is not a tensor. Save model.state_dict() alone')
    return part, found


def _members(content: bytes) -> dict[str, bytes]:
    """Return the members of the archive without their common folder."""
    members = read_archive(content)
    root = next(iter(members), "").split("/")[0]
    if not all(name.startswith(f"{root}/") for name in members):
        raise CheckError("the archive has more than one top folder")
    inside = {name[len(root) + 1 :]: data for name, data in members.items()}
    for name, data in inside.items():
        known = name in _MEMBERS and re.fullmatch(_MEMBERS[name], data, re.DOTALL)
        if not known and not re.fullmatch("data/[0-9]+", name):
            raise CheckError(
                f"the archive contains {name[:60]!r} with a name or content that torch.save does not write"
            )
    if not {"data.pkl", "version"} <= inside.keys():
        raise CheckError("the archive contains no data.pkl or no version, so torch.save did not write it")
    return inside


def _numbers(storage: Storage, data: bytes) -> Numbers:
    if storage.kind not in _TYPES:
        raise CheckError(f"a tensor is stored as {storage.kind[:40]}; only float32 and float64 can be checked")
    dtype = np.dtype(_TYPES[storage.kind])
    if len(data) != storage.count * dtype.itemsize:
        raise CheckError(f"storage {storage.key[:40]} has {len(data):,} bytes, but the pickle says another size")
    return np.frombuffer(data, dtype=dtype)


def _view(name: str, tensor: Tensor, numbers: Numbers) -> Numbers:
    """Return a tensor, which may be any view of its storage, such as a transposed matrix."""
    if len(tensor.size) != len(tensor.stride) or min(tensor.size, default=1) == 0:
        raise CheckError(f"tensor {name[:40]!r} has an unusable shape")
    last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.size, tensor.stride, strict=True))
    if last >= len(numbers) or math.prod(tensor.size) > len(numbers):
        raise CheckError(f"tensor {name[:40]!r} does not fit its storage")
    steps = [step * numbers.itemsize for step in tensor.stride]
    view = np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.size, steps, writeable=False)
    return np.array(view, dtype=numbers.dtype.newbyteorder("="))

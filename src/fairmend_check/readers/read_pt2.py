"""Read .pt2 files of torch.export.save: the weights of the archive, in the graph that the certificate names.

The program in such a file is not read here. As for a state dict, the claim holds on the condition that the program
computes what the certificate names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import only_keys, parse_json, take
from fairmend_check.kernel.model import Layer, Model
from fairmend_check.readers.named_graph import NamedGraph
from fairmend_check.readers.state_dict import model_of_tensors
from fairmend_check.readers.zip_archive import read_archive

_TYPES = {4: "<i4", 5: "<i8", 7: "<f4", 8: "<f8"}  # numbers of PyTorch's scalar types
_FOLDER, _CONFIG = "data/weights/", "model_weights_config.json"
_LEGACY = ("data/weights/model.pt", "data/constants/model.pt")  # PyTorch would read these instead of the tensors
_ENTRY_KEYS = ("path_name", "is_param", "use_pickle", "tensor_meta")


def read_pt2(content: bytes, layers: Sequence[Layer] | NamedGraph | None) -> Model:
    """Return the model of the weights in an exported program."""
    members = read_archive(content)
    root = next(iter(members), "").split("/")[0]
    inside = {name[len(root) + 1 :]: data for name, data in members.items() if name.startswith(f"{root}/")}
    programs = [name for name in inside if name.startswith("models/")]
    one_program = programs == ["models/model.json"] and f"{_FOLDER}{_CONFIG}" in inside
    if len(inside) != len(members) or not one_program or any(name in inside for name in _LEGACY):
        raise CheckError("the archive is not one that torch.export.save of PyTorch 2.9 or later writes")
    if inside.get("byteorder") != b"little":
        raise CheckError("the numbers in the archive are not little-endian")
    config = take(parse_json(inside[f"{_FOLDER}{_CONFIG}"], "the weights"), "config", dict, "the weights")
    tensors = {name: _tensor(entry, inside, name[:60]) for name, entry in config.items()}
    kinds = {(entry["path_name"], tensors[name].dtype) for name, entry in config.items()}
    if len(kinds) != len({path for path, _ in kinds}):
        raise CheckError("two tensors read the same numbers as different types")
    model = model_of_tensors(tensors, layers)
    return replace(model, condition=f"the program in the file is not checked, only its weights: {model.condition}")


def _tensor(entry: Any, members: dict[str, bytes], where: str) -> NDArray[Any]:
    """Return one tensor, which must be all numbers of its member in order."""
    if type(entry) is not dict:
        raise CheckError(f"{where} is not described")
    only_keys(entry, _ENTRY_KEYS, where)
    path, meta = take(entry, "path_name", str, where), take(entry, "tensor_meta", dict, where)
    plain_name = re.fullmatch("weight_[0-9]+", path) and f"{_FOLDER}{path}" in members
    if take(entry, "use_pickle", bool, where) or not plain_name:
        raise CheckError(f"{where} is not stored as raw numbers")
    kind = take(meta, "dtype", int, where)
    if kind not in _TYPES:
        raise CheckError(f"{where} is stored as type {kind}; only float32 and float64 can be checked")
    dtype, data = np.dtype(_TYPES[kind]), members[f"{_FOLDER}{path}"]
    shape = [take(size, "as_int", int, where) for size in take(meta, "sizes", list, where)]
    strides = [take(size, "as_int", int, where) for size in take(meta, "strides", list, where)]
    offset = take(take(meta, "storage_offset", dict, where), "as_int", int, where)
    plain = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    lengths_fit = len(strides) == len(shape) and all(
        n == 1 or step == wanted for n, step, wanted in zip(shape, strides, plain, strict=True)
    )
    if len(shape) > 2 or min(shape, default=1) < 1 or offset != 0 or not lengths_fit:
        raise CheckError(f"{where} is not stored row by row")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise CheckError(f"{where} does not fit its {len(data):,} bytes in the archive")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))

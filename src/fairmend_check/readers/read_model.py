"""Read a model file of any format."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Model
from fairmend_check.readers.read_keras import read_h5, read_keras
from fairmend_check.readers.read_nnet import read_nnet
from fairmend_check.readers.read_onnx import read_onnx
from fairmend_check.readers.read_torch import read_pt2, read_pth
from fairmend_check.readers.state_dict import read_safetensors

MAX_BYTES = 2**30
_STATE_DICTS = {".safetensors": read_safetensors, ".pt2": read_pt2, **dict.fromkeys((".pth", ".pt", ".ckpt"), read_pth)}
_ALONE = {".h5": read_h5, ".hdf5": read_h5, ".keras": read_keras, ".nnet": read_nnet}
_DAMAGES = (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, RecursionError, struct.error)
FORMATS = ".onnx, .safetensors, .pth, .pt, .ckpt, .pt2, .h5, .hdf5, .keras or .nnet"


def read_model(path: Path, network: Mapping[str, Any] | None = None) -> tuple[Model, str]:
    """Return the model in a file, and its sha256; a state dict has the steps of the certificate's ``network``."""
    content = json_reader.read_bytes(path, "model", MAX_BYTES)
    try:
        model = _read(content, path, network)
    except CheckError as error:
        raise type(error)(f"model {path.name}: {error}") from error
    except _DAMAGES as error:
        what = f"{type(error).__name__}: {str(error)[:100]}"
        raise CheckError(f"model {path.name}: the file is damaged ({what})") from error
    return model, hashlib.sha256(content).hexdigest()


def _read(content: bytes, path: Path, network: Mapping[str, Any] | None) -> Model:
    """Return the model of a file by its suffix."""
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        return read_onnx(content, path.parent)
    if suffix in _STATE_DICTS:
        return _STATE_DICTS[suffix](content, network)
    if suffix in _ALONE:
        return _ALONE[suffix](content)
    raise CheckError(f"this format cannot be checked. Save the model as {FORMATS}")

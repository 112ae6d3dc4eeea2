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

MAX_BYTES = 2**30
FORMATS = ".onnx, .safetensors, .pth, .pt, .ckpt, .pt2, .h5, .hdf5, .keras or .nnet"


def read_model(path: Path, network: Mapping[str, Any] | None = None) -> tuple[Model, str]:
    """Return the model in a file, and its sha256; a state dict has the steps of the certificate's ``network``."""
    content = json_reader.read_bytes(path, "model", MAX_BYTES)
    suffix = path.suffix.lower()
    try:
        if suffix == ".onnx":
            from fairmend_check.readers.read_onnx import read_onnx

            model = read_onnx(content, path.parent)
        elif suffix == ".safetensors":
            from fairmend_check.readers.state_dict import read_safetensors

            model = read_safetensors(content, network)
        elif suffix == ".pt2":
            from fairmend_check.readers.read_torch import read_pt2

            model = read_pt2(content, network)
        elif suffix in (".pth", ".pt", ".ckpt"):
            from fairmend_check.readers.read_torch import read_pth

            model = read_pth(content, network)
        elif suffix in (".h5", ".hdf5"):
            from fairmend_check.readers.read_keras import read_h5

            model = read_h5(content)
        elif suffix == ".keras":
            from fairmend_check.readers.read_keras import read_keras

            model = read_keras(content)
        elif suffix == ".nnet":
            from fairmend_check.readers.read_nnet import read_nnet

            model = read_nnet(content)
        else:
            raise CheckError(f"this format cannot be checked. Save the model as {FORMATS}")
    except CheckError as error:
        raise type(error)(f"model {path.name}: {error}") from error
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        OverflowError,
        MemoryError,
        RecursionError,
        struct.error,
    ) as error:
        raise CheckError(
            f"model {path.name}: the file is damaged ({type(error).__name__}: {str(error)[:100]})"
        ) from error
    return model, hashlib.sha256(content).hexdigest()

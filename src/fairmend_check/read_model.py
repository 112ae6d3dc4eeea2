"""From a model file to a `Model`, whichever of its formats it has."""

from __future__ import annotations

import hashlib
import math
import struct
from pathlib import Path

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.model import Activation, Model

MAX_BYTES = 2**30
FORMATS = ".onnx, .safetensors, .pth, .pt, .h5, .hdf5, .keras or .nnet"


def read_model(path: Path) -> tuple[Model, str]:
    """Return the model in a file, and the sha256 of the file."""
    content = json_reader.read_bytes(path, "model", MAX_BYTES)
    suffix = path.suffix.lower()
    try:
        if suffix == ".onnx":
            from fairmend_check.read_onnx import read_onnx

            model = read_onnx(content, path.parent)
        elif suffix == ".safetensors":
            from fairmend_check.read_safetensors import read_safetensors

            model = read_safetensors(content)
        elif suffix in (".pth", ".pt"):
            from fairmend_check.read_pth import read_pth

            model = read_pth(content)
        elif suffix in (".h5", ".hdf5"):
            from fairmend_check.read_keras import read_h5

            model = read_h5(content)
        elif suffix == ".keras":
            from fairmend_check.read_keras import read_keras

            model = read_keras(content)
        elif suffix == ".nnet":
            from fairmend_check.read_nnet import read_nnet

            model = read_nnet(content)
        else:
            raise CheckError(f"not a format that can be checked; save it as {FORMATS}")
    except CheckError as error:
        raise CheckError(f"model {path.name}: {error}") from error
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
        raise CheckError(f"model {path.name}: damaged ({type(error).__name__}: {str(error)[:100]})") from error
    return model, hashlib.sha256(content).hexdigest()


def described(text: str) -> tuple[list[str], list[Activation]]:
    """Return the layers' names and the activations that fairmend notes beside the weights (.pth, .safetensors)."""
    note = json_reader.parse_json(text.encode("utf-8"), "its note on activations")
    if json_reader.take(note, "version", int, "its note") != 1:
        raise CheckError("its note on activations is of another version")
    names = json_reader.take(note, "names", list, "its note")
    if not all(type(name) is str for name in names):
        raise CheckError("its note names a layer by something that is not a text")
    closing = json_reader.take(note, "closing", str, "its note")
    if closing not in ("none", "sigmoid", "softmax"):
        raise CheckError(f"it ends in {closing[:40]}, which is not known")
    activations = []
    for entry in json_reader.take(note, "activations", list, "its note"):
        slope = json_reader.take(entry, "slope", float, "its activation")
        if not math.isfinite(slope):
            raise CheckError("its activation has a slope that is not finite")
        activations.append(Activation(json_reader.take(entry, "name", str, "its activation"), slope))
    return names, activations

"""Read a model file of any format, and the note on activations that fairmend stores in some of them."""

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
            raise CheckError(f"this format cannot be checked. Save the model as {FORMATS}")
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
        raise CheckError(
            f"model {path.name}: the file is damaged ({type(error).__name__}: {str(error)[:100]})"
        ) from error
    return model, hashlib.sha256(content).hexdigest()


def read_note(text: str) -> tuple[list[str], list[Activation]]:
    """Return the names of the layers and the activations from fairmend's note (.pth, .safetensors)."""
    note = json_reader.parse_json(text.encode("utf-8"), "the note on activations")
    if json_reader.take(note, "version", int, "the note") != 1:
        raise CheckError("the note on activations is of an unknown version")
    names = json_reader.take(note, "names", list, "the note")
    if not all(type(name) is str for name in names):
        raise CheckError("the note contains a layer name that is not a text")
    closing = json_reader.take(note, "closing", str, "the note")
    if closing not in ("none", "sigmoid", "softmax"):
        raise CheckError(f"the note names the closing function {closing[:40]}, which is unknown")
    activations = []
    for entry in json_reader.take(note, "activations", list, "the note"):
        slope = json_reader.take(entry, "slope", float, "the note on activations")
        if not math.isfinite(slope):
            raise CheckError("the note names a slope that is not finite")
        activations.append(Activation(json_reader.take(entry, "name", str, "the note on activations"), slope))
    return names, activations

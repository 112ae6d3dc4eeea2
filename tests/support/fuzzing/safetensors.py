"""Files of the safetensors library: their headers are changed, as data and as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fairmend_check.kernel.model import Model
from support.fuzzing.file_format import FileFormat, first_difference
from support.fuzzing.state_dicts import difference, norm_state, read_with_layers, read_with_norms, seeds

Header = dict[str, Any]
_DTYPES = ["F32", "F64", "f32", "F16", "BF16", "I64", "I32", "U8", "BOOL", ""]
_NAMES = ["0.weight", "0.bias", "2.weight", "2.bias", "1.weight", "__metadata__", "0.Weight", "0.weight ", "", "weight"]
_TEXTS = [
    (",", ", "), (":", ": "), (":", " :"), ("{", "{ "), ("}", " }"), ("[", "[ "), ("0", "00"), ("4", "4.0"),
    ("4", "4e0"), ("4", "+4"), ("4", "04"), ("3", "3E0"), ("0", "-0"), ("weight", "weigh\\u0074"),
    ("bias", "bia\\u0073"), ("F", "\\u0046"), ('"', "'"), ("}", ",}"), ("]", ",]"), ("{", "\ufeff{"), ("{", "\n{"),
    (",", "\t,"), ("}", "}\0"), ("}", "}\n"), ('"dtype":', '"dtype":"F64","dtype":'), ("dtype", "Dtype"),
    ('"shape":', '"shape":[1],"shape":'), ('"shape"', '"x":1,"shape"'), ("null", "None"), ("4", "true"), ("/", "\\/"),
    ("4", "4294967300"), ("4", "18446744073709551620"),
]  # fmt: skip


def disagreement(model: Model, content: bytes, path: Path) -> str | None:
    """Say how the safetensors library reads the file differently, from the file and from its bytes."""
    from safetensors.numpy import load, load_file
    from safetensors.torch import load_file as load_torch

    readings: dict[str, Callable[[], dict[str, Any]]] = {
        "safetensors.numpy.load_file": lambda: load_file(path),
        "safetensors.numpy.load": lambda: load(content),
        "safetensors.torch.load_file": lambda: {key: value.numpy() for key, value in load_torch(path).items()},
    }
    return first_difference(
        {name: lambda read=read: difference(model, read()) for name, read in readings.items()}  # type: ignore[misc]
    )


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change the header as data or as text, or the numbers after it."""
    length = int.from_bytes(content[:8], "little")
    text, body = content[8 : 8 + length], content[8 + length :]
    if length > len(content):
        return content
    if rng.random() < 0.5:
        try:
            text = _change_data(text, rng)
        except (KeyError, TypeError, ValueError, RecursionError):  # a damaged header
            return content
    elif rng.random() < 0.8:
        text = _change_text(text, rng)
    else:
        cut = int(rng.integers(-8, 9))
        body = body[:cut] if cut < 0 else body + bytes(cut)
    if rng.random() < 0.3:
        text = text.rstrip(b" ") + b" " * int(rng.integers(12))
    shift = int(rng.integers(-2, 3)) if rng.random() < 0.1 else 0
    return (max(0, len(text) + shift)).to_bytes(8, "little") + text + body


def _change_data(text: bytes, rng: np.random.Generator) -> bytes:
    header = json.loads(text)
    if type(header) is not dict:
        return text
    names = [name for name in header if type(header[name]) is dict and "shape" in header[name]]
    if not names:
        return text
    name, other = (names[rng.integers(len(names))] for _ in range(2))
    entry = header[name]
    kind = rng.integers(9)
    if kind == 0:
        entry["shape"] = entry["shape"][::-1]
    elif kind == 1:
        entry["shape"] = [[], [1], [2, 2], [0], [4, 3, 1], [1, 12], [12], [-1, 3], [3.0]][rng.integers(9)]
    elif kind == 2:
        entry["data_offsets"] = [n + int(rng.integers(-2, 3)) * 4 for n in entry["data_offsets"]]
    elif kind == 3:
        entry["data_offsets"], header[other]["data_offsets"] = header[other]["data_offsets"], entry["data_offsets"]
    elif kind == 4:
        entry["dtype"] = _DTYPES[rng.integers(len(_DTYPES))]
    elif kind == 5:
        header[_NAMES[rng.integers(len(_NAMES))]] = header.pop(name)
    elif kind == 6:
        header["__metadata__"] = [{}, None, {"format": "pt"}, {"a": 1}, {"fairmend": "{}"}, [], "x"][rng.integers(7)]
    elif kind == 7:
        header = {key: header[key] for key in rng.permutation(list(header)).tolist()}
    else:
        header[name] = {key: entry[key] for key in rng.permutation(list(entry)).tolist()}
    compact = rng.random() < 0.8
    changed = json.dumps(header, ensure_ascii=rng.random() < 0.2, separators=(",", ":") if compact else None)
    return changed.encode("utf-8", "surrogatepass")


def _change_text(text: bytes, rng: np.random.Generator) -> bytes:
    old, new = (part.encode("utf-8") for part in _TEXTS[rng.integers(len(_TEXTS))])
    places = [i for i in range(len(text)) if text.startswith(old, i)]
    if not places:
        return text
    place = places[rng.integers(len(places))]
    return text[:place] + new + text[place + len(old) :]


def norm_seeds() -> list[bytes]:
    """Return a state dict with BatchNorm."""
    from safetensors.numpy import save

    return [save(norm_state(), {"format": "pt"})]


FORMAT_NORMS = FileFormat("safetensors-norms", ".safetensors", norm_seeds, mutate, disagreement, read_with_norms)
FORMAT = FileFormat(
    "safetensors", ".safetensors", lambda: seeds(".safetensors"), mutate, disagreement, read_with_layers
)

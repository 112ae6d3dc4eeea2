"""ONNX weights in a file beside the model ("external data"), as PyTorch's exporter writes them by default.

The model names the file, so it is not trusted: only a plain file in the model's own folder is read, and only as many
bytes as the tensor's shape needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnx import TensorProto

from fairmend.base.errors import FairmendError

_ITEM_SIZES = {
    TensorProto.FLOAT: 4,
    TensorProto.DOUBLE: 8,
    TensorProto.FLOAT16: 2,
    TensorProto.BFLOAT16: 2,
    TensorProto.INT32: 4,
    TensorProto.INT64: 8,
}
_MOST = 2**31 - 1  # bytes in all: more do not fit into one ONNX file
_SMALL = 16 * 2**20  # bytes that may come from a region of the file that several tensors share
_ONE_FILE = "or export one file: torch.onnx.export(..., external_data=False)"


def load_external_data(model: Any, path: Path) -> None:
    """Move weights that lie in files beside `path` into the tensors of `model`, in place."""
    total = 0
    sizes: dict[str, int] = {}
    for tensor in _tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        where = f"{path}: the tensor {tensor.name[:80]!r}"
        entries = _entries(tensor, where)
        file = _locate(path, entries.get("location", ""), where)
        size = sizes[file.name] = file.stat().st_size
        needed = _needed(tensor, where)
        offset = _whole_number(entries.get("offset", "0"), "offset", where)
        length = _whole_number(entries.get("length", str(max(size - offset, 0))), "length", where)
        if length != needed:
            raise FairmendError(
                f"{where} needs {needed:,} bytes and names {length:,} of {file.name!r}; export the model again"
            )
        if offset + length > size:
            raise FairmendError(
                f"{where} ends at byte {offset + length:,} of {file.name!r}, which has {size:,}; export the model again"
            )
        total += length
        if total > min(_MOST, max(_SMALL, sum(sizes.values()))):
            raise FairmendError(
                f"{where} and those before it need more bytes than the file has; export the model again"
            )
        tensor.raw_data = _read(file, offset, length, where)
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def _tensors(model: Any) -> Iterator[Any]:
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _entries(tensor: Any, where: str) -> dict[str, str]:
    """Return what the tensor says about its data, by key. Of a repeated key, programs could take either value."""
    pairs = [(entry.key, entry.value) for entry in tensor.external_data]
    if not all(isinstance(text, str) for pair in pairs for text in pair):  # protobuf gives bytes that are no UTF-8
        raise FairmendError(f"{where} describes its data with bytes that are not text; export the model again")
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise FairmendError(f"{where} describes its data with a repeated key; export the model again")
    return entries


def _locate(path: Path, location: str, where: str) -> Path:
    """Return the file that a tensor names, which must lie in the model's own folder."""
    plain = location not in ("", ".", "..") and not set(location) & set("/\\:\0")
    if not plain:
        raise FairmendError(
            f"{where} lies in {location[:80]!r}; only a file in the model's own folder is read. "
            f"Move it there and export the model again, {_ONE_FILE}"
        )
    file = path.parent / location
    try:
        inside = file.resolve().parent == path.parent.resolve()
        exists = file.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise FairmendError(f"{where} lies in {location[:80]!r}, which cannot be opened ({error})") from error
    if not inside:
        raise FairmendError(f"{where} lies in {location[:80]!r}, a link out of the model's folder; copy the file there")
    if not exists:
        raise FairmendError(
            f"{where} lies in {location[:80]!r}, and there is no such file beside the model. "
            f"Put the two into one folder, {_ONE_FILE}"
        )
    return file


def _needed(tensor: Any, where: str) -> int:
    """Return how many bytes the tensor's shape and type need."""
    size = _ITEM_SIZES.get(tensor.data_type)
    if size is None or min(tensor.dims, default=0) < 0:
        kind = "a type that is" if size is None else "a negative dimension, which is"
        raise FairmendError(f"{where} has {kind} not read from another file; export the model again, {_ONE_FILE}")
    return size * int(math.prod(tensor.dims))


def _whole_number(text: str, what: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise FairmendError(f"{where} has the {what} {text[:40]!r}, not a number of bytes; export the model again")
    return int(text)


def _read(file: Path, offset: int, length: int, where: str) -> bytes:
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            content = stream.read(length)
    except OSError as error:
        raise FairmendError(f"{where} lies in {file.name!r}, which cannot be read ({error.strerror})") from error
    if len(content) != length:
        raise FairmendError(f"{where} lies in {file.name!r}, which changed while it was read; try again")
    return content

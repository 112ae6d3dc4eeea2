"""Weights of an ONNX model that are stored in a file beside it, as PyTorch writes them by default.

A model names such files freely, so a name is trusted only if it is a plain file name in the folder of the model, and a
tensor only if its bytes lie within that file.
"""

from __future__ import annotations

import re
from pathlib import Path

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.readers.protobuf import Message

_MAX_BYTES = 2**30
_KEYS = ("location", "offset", "length")


class ExternalData:
    """The files beside a model. Each file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, memoryview] = {}
        self._left = _MAX_BYTES  # of all tensors together: many tensors could share the same bytes

    def read(self, entries: list[Message], size: int, where: str) -> memoryview:
        """Return the ``size`` bytes of a tensor that its ``external_data`` entries describe."""
        described = {entry.get("key", ""): entry.get("value", "") for entry in entries}
        if len(described) != len(entries) or not set(described) <= set(_KEYS):
            raise CheckError(f"{where} describes its external data with an unknown or repeated key")
        if "location" not in described:
            raise CheckError(f"{where} does not name the file of its external data")
        location = described["location"]
        content = self._file(location, where)
        offset = _whole_number(described.get("offset", "0"), f"{where}: the offset of its external data")
        rest = len(content) - offset
        length = _whole_number(described.get("length", str(max(rest, 0))), f"{where}: the length of its external data")
        if length != size:
            raise CheckError(f"{where} has {length:,} bytes of external data, and its shape needs {size:,}")
        if length > rest:
            raise CheckError(f"{where}: its external data ends after the end of {location[:80]}; the file is truncated")
        self._left -= length
        if self._left < 0:
            raise CheckError(f"the external data of all tensors has more than {_MAX_BYTES:,} bytes")
        return content[offset : offset + length]

    def _file(self, location: str, where: str) -> memoryview:
        if location not in self._files:
            path = self._resolve(location, where)
            room = _MAX_BYTES - sum(map(len, self._files.values()))
            self._files[location] = memoryview(json_reader.read_bytes(path, "external data", room))
        return self._files[location]

    def _resolve(self, location: str, where: str) -> Path:
        """Return the path of a file beside the model; refuse every name that could lead out of its folder."""
        if location in ("", ".", "..") or re.search(r"[/\\:\0]", location):
            raise CheckError(
                f"{where} is stored in {location[:80]!r}; external data must be a file in the folder of the model, "
                "named without a path"
            )
        path = self._folder / location
        try:
            resolved = path.resolve(strict=True)
            inside = resolved.parent == self._folder.resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise CheckError(
                f"{where} is stored in {location[:80]}, which is missing; put the file into the folder of the model"
            ) from error
        if not inside:
            raise CheckError(f"{where} is stored in {location[:80]}, a link that leads out of the folder of the model")
        return resolved


def _whole_number(text: str, what: str) -> int:
    if not re.fullmatch("0|[1-9][0-9]{0,17}", text):
        raise CheckError(f"{what} is {text[:40]!r}; it must be a whole number without leading zeros")
    return int(text)

"""Certificates of many inputs, in blocks: "In blocks" of docs/certificate.md.

Such a certificate lists inputs and classes only, as compressed arrays. The checker finds the boxes and the slopes of a
proof itself, so that a file is hundreds of times smaller than one that lists them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.arrays import FloatArray, Ints

__all__ = ["FORMAT", "InputList", "lines_of_blocks"]

FORMAT = "fairmend-certificate-blocks"

_MOST_REGIONS, _MOST_NUMBERS = 4096, 2**20  # in a block; the checker reads up to twice as many numbers


@dataclass(frozen=True, eq=False)
class InputList:
    """Inputs ``X (inputs, width)`` that are proven in one way, "linear" or "points".

    ``classes (inputs,)`` are None for a claim about scores.
    """

    proof: str
    X: FloatArray
    classes: Ints | None


def lines_of_blocks(content: dict[str, Any], lists: Sequence[InputList]) -> Iterator[bytes]:
    """Return the lines of a certificate: what it claims, the inputs block by block, and a closing line."""
    digest = hashlib.sha256()
    number = 0
    line = _line(content)
    for inputs in lists:
        step = max(1, min(_MOST_REGIONS, _MOST_NUMBERS // inputs.X.shape[1]))
        for start in range(0, len(inputs.X), step):
            digest.update(line)
            yield line
            line = _line(_block(inputs, slice(start, start + step), number))
            number += 1
    digest.update(line)
    yield line
    yield _line({"regions": content["regions"], "sha256": digest.hexdigest()})


def _block(inputs: InputList, rows: slice, number: int) -> dict[str, Any]:
    X = inputs.X[rows]
    block = {"block": number, "regions": len(X), "proof": inputs.proof}
    # Column by column, because the values of a column repeat.
    arrays = {"inputs": X.astype(X.dtype.newbyteorder("<")).T}
    if inputs.classes is not None:
        arrays["classes"] = inputs.classes[rows].astype("<u4")
    packed = {name: zlib.compress(np.ascontiguousarray(array).tobytes(), 6) for name, array in arrays.items()}
    return {**block, **{name: base64.b64encode(content).decode("ascii") for name, content in packed.items()}}


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, allow_nan=False).encode("utf-8") + b"\n"

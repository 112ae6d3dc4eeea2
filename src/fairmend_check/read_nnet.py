"""Read .nnet files: text, with ReLU between the layers.

Programs differ in how they use the lines of minima, maxima, means and ranges. Only a file in which these lines have no
effect, as fairmend writes it, has a single meaning that can be checked.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.model import MAX_WIDTH, Activation, Model, make_model

_NOTE = "// fairmend "
_AGAIN = "load the model with fairmend and save it again"


def read_nnet(content: bytes) -> Model:
    """Return the model, if the file has a single meaning."""
    if not content.endswith(b"\n"):
        raise CheckError("the file is truncated")
    lines = [line.strip() for line in content.decode("ascii").splitlines()]
    notes = [line[len(_NOTE) :] for line in lines if line.startswith(_NOTE)]
    if len(notes) != 1:
        raise CheckError(f"the file does not name its precision; {_AGAIN}")
    dtype = _dtype(notes[0])
    rows = [line for line in lines if line and not line.startswith("//")]
    if len(rows) < 7:
        raise CheckError("the file is truncated")
    depth, inputs, outputs, _ = _sizes(rows[0], 4)
    widths = _sizes(rows[1], depth + 1)
    if widths[0] != inputs or widths[-1] != outputs or len(rows) != 7 + 2 * sum(widths[1:]):
        raise CheckError("the header does not describe the layers")
    _check_header(rows, inputs, float(np.finfo(dtype).max))
    layers, start = [], 7
    for before, after in pairwise(widths):
        weight = np.array([_numbers(row, before) for row in rows[start : start + after]], dtype=np.float64)
        bias = np.array([_numbers(row, 1)[0] for row in rows[start + after : start + 2 * after]], dtype=np.float64)
        layers.append((_exactly(weight, dtype), _exactly(bias, dtype)))
        start += 2 * after
    return make_model([*layers], [Activation("relu")] * (depth - 1))


def _dtype(note: str) -> np.dtype[np.floating]:
    said = json_reader.parse_json(note.encode("ascii"), "the note")
    dtype, closing = (json_reader.take(said, key, str, "the note") for key in ("dtype", "closing"))
    known = dtype in ("float32", "float64") and closing in ("none", "sigmoid", "softmax")
    if json_reader.take(said, "version", int, "the note") != 1 or not known:
        raise CheckError("the note is of an unknown version")
    return np.dtype(dtype)


def _check_header(rows: list[str], inputs: int, most: float) -> None:
    """Refuse minima, maxima, means and ranges that clip or scale."""
    if max(_numbers(rows[3], inputs)) > -most or min(_numbers(rows[4], inputs)) < most:
        raise CheckError(f"some programs clip the inputs to the minima and maxima in the file, others do not; {_AGAIN}")
    if any(_numbers(rows[5], inputs + 1)) or set(_numbers(rows[6], inputs + 1)) != {1.0}:
        raise CheckError(f"some programs apply the means and ranges in the file, others do not; {_AGAIN}")


def _exactly(values: NDArray[np.float64], dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """Return the numbers in the type that the note names, which must represent them exactly."""
    with np.errstate(over="ignore"):
        found = values.astype(dtype)
    if not np.array_equal(found.astype(np.float64), values):
        raise CheckError(f"the file contains a number that {dtype.name} cannot represent; {_AGAIN}")
    return found


def _sizes(row: str, count: int) -> list[int]:
    values = _numbers(row, count)
    if not all(value.is_integer() and 1 <= value <= MAX_WIDTH for value in values):
        raise CheckError("the header contains a number that is not a size")
    return [int(value) for value in values]


def _numbers(row: str, count: int) -> list[float]:
    parts = row.rstrip(",").split(",")
    if len(parts) != count:
        raise CheckError(f"a line has {len(parts):,} numbers instead of {count:,}")
    values = [float(part) for part in parts]
    if not all(map(math.isfinite, values)):
        raise CheckError("the file contains a number that is not finite")
    return values

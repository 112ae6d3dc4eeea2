"""Read .nnet files: text, with ReLU between the layers.

Programs differ in how they use the lines of minima, maxima, means and ranges, and in how they read numbers. Only a file
in which these lines have no effect, written as fairmend writes it, has a single meaning that can be checked.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.model import MAX_WIDTH, Activation, Model, make_model

_NOTE = "// fairmend "
_AGAIN = "load the model with fairmend and save it again"
_NUMBER = r"-?[0-9]{1,20}(\.[0-9]{1,30})?(e[+-][0-9]{1,3})?"  # a double needs no more digits


def read_nnet(content: bytes) -> Model:
    """Return the model, if the file has a single meaning."""
    if not content.endswith(b"\n"):
        raise CheckError("the file is truncated")
    lines = content.decode("ascii").split("\n")[:-1]
    comments = next((number for number, line in enumerate(lines) if not line.startswith("//")), len(lines))
    dtype = _dtype(lines[:comments])
    rows = lines[comments:]
    if len(rows) < 7:
        raise CheckError("the file is truncated")
    depth, inputs, outputs, widest = _sizes(rows[0], 4)
    widths = _sizes(rows[1], depth + 1)
    described = [widths[0], widths[-1], max(widths), 7 + 2 * sum(widths[1:])]
    if described != [inputs, outputs, widest, len(rows)]:
        raise CheckError("the header does not describe the layers")
    _check_header(rows, inputs, float(np.finfo(dtype).max))
    layers, start = [], 7
    for before, after in pairwise(widths):
        weight = np.array([_numbers(row, before) for row in rows[start : start + after]], dtype=np.float64)
        bias = np.array([_numbers(row, 1)[0] for row in rows[start + after : start + 2 * after]], dtype=np.float64)
        layers.append((_exactly(weight, dtype), _exactly(bias, dtype)))
        start += 2 * after
    model = make_model([*layers], [Activation("relu")] * (depth - 1))
    return replace(model, condition=f"the program that reads the .nnet file computes in {model.dtype}.")


def _dtype(comments: list[str]) -> np.dtype[np.floating]:
    """Return the precision from fairmend's note, one of the comments at the start of the file."""
    notes = [line[len(_NOTE) :] for line in comments if line.startswith(_NOTE)]
    if len(notes) != 1:
        raise CheckError(f"the file does not name its precision; {_AGAIN}")
    said = json_reader.parse_json(notes[0].encode("ascii"), "the note")
    dtype, closing = (json_reader.take(said, key, str, "the note") for key in ("dtype", "closing"))
    known = dtype in ("float32", "float64") and closing in ("none", "sigmoid", "softmax")
    if json_reader.take(said, "version", int, "the note") != 1 or not known:
        raise CheckError("the note is of an unknown version")
    return np.dtype(dtype)


def _check_header(rows: list[str], inputs: int, most: float) -> None:
    """Refuse minima, maxima, means and ranges that clip or scale."""
    if rows[2] != "0,":  # a flag that no program uses
        raise CheckError(f"the third line of numbers is not 0; {_AGAIN}")
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
    parts = _parts(row, count)
    if not all(re.fullmatch("[1-9][0-9]{0,6}", part) and int(part) <= MAX_WIDTH for part in parts):
        raise CheckError("the header contains a number that is not a size")
    return [int(part) for part in parts]


def _numbers(row: str, count: int) -> list[float]:
    parts = _parts(row, count)
    if not all(re.fullmatch(_NUMBER, part) for part in parts):
        raise CheckError("a line contains something that is not a number in plain notation")
    values = [float(part) for part in parts]
    if not all(map(math.isfinite, values)):
        raise CheckError("the file contains a number that is not finite")
    return values


def _parts(row: str, count: int) -> list[str]:
    """Return the parts of a line; each has a comma after it, without which some programs lose the last number."""
    *parts, rest = row.split(",")
    if rest or len(parts) != count:
        raise CheckError(f"a line has {len(parts):,} numbers, each with a comma after it, instead of {count:,}")
    return parts

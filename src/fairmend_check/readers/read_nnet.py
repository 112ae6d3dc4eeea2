"""Read .nnet files: text, with ReLU between the layers.

The lines of means and ranges have two meanings. Programs for ACAS Xu normalise inputs and outputs with them; FairQuant
repeats the box of the inputs there, and applies nothing. Which of the two it is follows from the numbers
(docs/formats.md, ".nnet"), and the condition of the claim says it.
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
from fairmend_check.kernel.assemble import Affine, Step, assemble
from fairmend_check.kernel.model import MAX_WIDTH, Activation, Model
from fairmend_check.kernel.operations.affine import scaling

Array = NDArray[np.float64]

_NOTE = "// fairmend "
_NUMBER = r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*"
_HEADER = 7  # lines of numbers before the weights
_ROUNDED = 5e-6  # relative error of a number with six digits


def read_nnet(content: bytes) -> Model:
    """Return the model, with its normalisation folded in."""
    comments, rows = _lines(content)
    dtype = _dtype(comments)
    if len(rows) < _HEADER:
        raise CheckError("the file is truncated")
    depth, inputs, outputs, widest = _sizes(rows[0], 4)
    widths = _sizes(rows[1], depth + 1)
    if [inputs, outputs, widest, len(rows)] != [widths[0], widths[-1], max(widths), _HEADER + 2 * sum(widths[1:])]:
        raise CheckError("the header does not describe the layers")
    if rows[2] not in ("0", "0,"):  # some programs mirror inputs if it is 1
        raise CheckError("the third line of numbers is not 0")
    steps: list[Step] = []
    start = _HEADER
    for before, after in pairwise(widths):
        weight = np.array([_numbers(row, before) for row in rows[start : start + after]])
        bias = np.array([_numbers(row, 1)[0] for row in rows[start + after : start + 2 * after]])
        with np.errstate(over="ignore"):  # what became infinite is refused with the model
            layer = Affine(weight.astype(dtype), bias.astype(dtype))
        steps += [Activation("relu"), layer] if steps else [layer]
        start += 2 * after
    lower, upper = (np.array(_numbers(row, inputs)) for row in rows[3:5])
    mean, reach = (np.array(_numbers(row, inputs + 1)) for row in rows[5:7])
    if not reach.all():
        raise CheckError("the line of ranges contains a 0")
    plain = not mean.any() and bool((reach == 1).all())
    applied = not plain and not _repeats_box(lower, upper, mean, reach)
    if applied and not (rows[5].endswith(",") and rows[6].endswith(",")):
        raise CheckError("a line of means or ranges has no comma after its last number, which some programs then lose")
    model = assemble(_normalised(steps, mean, reach) if applied else steps)
    most = float(np.finfo(dtype).max)
    conditions = [f"the program that reads the .nnet file stores its numbers and computes in {model.dtype}."]
    conditions += [] if plain else [_APPLIED if applied else _NOT_APPLIED]
    conditions += [] if lower.max() <= -most and upper.min() >= most else [_NOT_CLIPPED]
    return replace(model, condition=" ".join(conditions))


_APPLIED = "It subtracts the means from the inputs and divides by the ranges, and scales the outputs back."
_NOT_APPLIED = "It does not apply the means and ranges in the file, which repeat the box of the inputs."
_NOT_CLIPPED = "It does not clip inputs, or gets only inputs between the minima and maxima in the file."


def _lines(content: bytes) -> tuple[list[str], list[str]]:
    """Return the comments, which are at the start, and the lines of numbers."""
    text = content.decode("utf-8").replace("\r\n", "\n")
    if "\r" in text or not text.endswith(("\n", ",")):  # a last number that lost its end would still be one
        raise CheckError("the file is truncated, or has a line end that is not one to all programs")
    lines = text.rstrip("\n").split("\n")
    first = next((number for number, line in enumerate(lines) if not line.startswith("//")), len(lines))
    return lines[:first], [line.strip(" \t") for line in lines[first:]]


def _dtype(comments: list[str]) -> np.dtype[np.floating]:
    """Return the precision in fairmend's note; float32 if another program wrote the file."""
    notes = [line[len(_NOTE) :] for line in comments if line.startswith(_NOTE)]
    if not notes:
        return np.dtype(np.float32)
    said = json_reader.parse_json(notes[0].encode("utf-8"), "the note")
    dtype, closing = (json_reader.take(said, key, str, "the note") for key in ("dtype", "closing"))
    known = dtype in ("float32", "float64") and closing in ("none", "sigmoid", "softmax")
    if len(notes) > 1 or json_reader.take(said, "version", int, "the note") != 1 or not known:
        raise CheckError("the note is of an unknown version, or there are two")
    return np.dtype(dtype)


def _repeats_box(lower: Array, upper: Array, mean: Array, reach: Array) -> bool:
    """Return whether means and ranges say where the inputs are: the minima or the middles, and maximum - minimum."""
    with np.errstate(all="ignore"):
        width, off = upper - lower, np.abs(mean[:-1] - (lower + upper) / 2)
        ranges = np.isfinite(width) & (np.abs(reach[:-1] - width) <= _ROUNDED * np.abs(width))
    minima = np.array_equal(mean[:-1], lower) and mean[-1] == 0
    middles = (off <= _ROUNDED * np.maximum(np.abs(lower), np.abs(upper))).all() and mean[-1] in (0, 0.5)
    return bool(ranges.all() and reach[-1] == 1 and (minima or middles))


def _normalised(steps: list[Step], mean: Array, reach: Array) -> list[Step]:
    """Add (x - mean) / range before the layers and y range + mean after them."""
    with np.errstate(over="ignore"):  # the fold refuses what is too large
        first = scaling(mean[:-1], 1 / reach[:-1], 0.0)
    output_plain = mean[-1] == 0 and reach[-1] == 1
    return [first, *steps] if output_plain else [first, *steps, scaling(0.0, reach[-1], mean[-1])]


def _sizes(row: str, count: int) -> list[int]:
    parts = [part.strip(" \t") for part in _parts(row, count)]
    if not all(re.fullmatch("[1-9][0-9]{0,6}", part) and int(part) <= MAX_WIDTH for part in parts):
        raise CheckError("the header contains a number that is not a size")
    return [int(part) for part in parts]


def _numbers(row: str, count: int) -> list[float]:
    parts = _parts(row, count)
    if not all(re.fullmatch(_NUMBER, part) for part in parts):  # Python's float would also read 1_0, and C's atof 0x10
        raise CheckError("a line contains something that is not a number in plain notation")
    values = [float(part) for part in parts]
    if not all(map(math.isfinite, values)):
        raise CheckError("the file contains a number that is not finite")
    return values


def _parts(row: str, count: int) -> list[str]:
    parts = row.removesuffix(",").split(",")
    if len(parts) != count:
        raise CheckError(f"a line has {len(parts):,} numbers instead of {count:,}")
    return parts

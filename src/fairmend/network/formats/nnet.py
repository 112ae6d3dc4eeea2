""".nnet files: the text format of ACAS Xu and FairQuant, with ReLU between the layers.

Two kinds of files share this format. Those of ACAS Xu hold weights for normalised inputs, (x − mean) / range, and an
output to be scaled back, y·range + mean: both are folded into the first and the last layer. Those of FairQuant hold
weights for the raw inputs, and repeat the input box in the lines of means and ranges: range = max − min and 1 for the
output, and as means the minima and 0, or the middles of the ranges and 0.5 (or 0). FairQuant never applies them, and
they are not applied here either. (A file for normalised inputs that looks like that is told apart by a wider box: add 1
to its maxima.)

Programs for ACAS Xu also clip an input to [min, max] first. A Network does not: for inputs inside that box it is the
same function, and outside of it the claims are about the network without clipping. What is saved has a box that holds
every number, mean 0 and range 1, so that all programs agree on it. Numbers are read as float32, as those programs do.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.folding import Norm
from fairmend.network.formats.build import GraphBuilder, scaling

_TITLE = "// Neural Network File Format by Kyle Julian, Stanford 2016"
_NOTE = "// fairmend "
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_MOST = 2**26  # numbers in one file
_HEADER = 7  # lines of numbers before the weights
_ROUNDED = 5e-6  # relative error of a number with six digits

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NnetForm:
    """A .nnet file; `condition` is what the program that reads it must do, which the file leaves open."""

    condition: str
    suffixes: ClassVar[tuple[str, ...]] = (".nnet",)

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`."""
        return to_bytes(network)


def read(path: Path, activation: Activation) -> Network:
    """Return the network in the file, with its normalisation folded in; its activations are ReLU."""
    source = str(path)
    comments, rows = _lines(path, source)
    note = _note(comments, source)
    network = _network(rows, note, source)
    form = NnetForm(_condition(rows, note, network.inputs, source))
    try:
        return Network(network.affines, network.activations, note.closing, network.names, form=form)
    except FairmendError as error:
        raise FairmendError(f"{path}: {error}") from error


def to_bytes(network: Network) -> bytes:
    """Return the network as a .nnet file, with a comment for what the format itself cannot say."""
    for name, activation in zip(network.names, network.activations, strict=False):
        if activation.name != "relu":
            raise FairmendError(
                f"layer {name!r} is followed by {activation}, and .nnet files hold only ReLU; save as .onnx or .keras"
            )
    if network.rescaling is not None and network.closing != "none":
        raise FairmendError(f"a .nnet file cannot hold what makes its scores ({network.rescaling}); save as .onnx")
    widths = [network.inputs, *(len(affine.bias) for affine in network.affines)]
    most = float(np.finfo(network.dtype).max)
    note = {"version": 1, "dtype": network.dtype.name, "names": network.names, "closing": network.closing}
    lines = [
        _TITLE,
        _NOTE + json.dumps(note),
        _line([network.depth, network.inputs, network.outputs, max(widths)]),
        _line(widths),
        _line([0]),
        _line([-most] * network.inputs),
        _line([most] * network.inputs),
        _line([0.0] * (network.inputs + 1)),
        _line([1.0] * (network.inputs + 1)),
    ]
    for affine in network.affines:
        # Each number as a double: a program that reads it as one and rounds it to float32 gets the same float32.
        lines += [_line(row) for row in affine.weight.astype(np.float64).tolist()]
        lines += [_line([value]) for value in affine.bias.astype(np.float64).tolist()]
    return ("\n".join(lines) + "\n").encode("ascii")


def _lines(path: Path, source: str) -> tuple[list[str], list[str]]:
    """Return the comments, which are at the start, and the lines of numbers.

    A comment or an empty line further down is not skipped, because other programs would read it as numbers.
    """
    try:
        text = path.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        raise FairmendError(f"{path}: not a .nnet file, which is text ({error})") from error
    if not text.endswith(("\n", ",")):  # a last number that lost its end would still be one
        raise FairmendError(f"{source}: ends in the middle of a line; if nothing is missing, add a line feed")
    if "\r" in text:
        raise FairmendError(f"{source}: has a carriage return without a line feed, which programs read differently")
    lines = text.rstrip("\n").split("\n")
    first = next((number for number, line in enumerate(lines) if not line.startswith("//")), len(lines))
    return lines[:first], [line.strip(" \t") for line in lines[first:]]


def _line(values: list[float] | list[int]) -> str:
    return ",".join(map(repr, values)) + ","


class _Note(NamedTuple):
    """What the numbers do not say; the defaults are those of a file that another program wrote."""

    dtype: str = "float32"
    names: list[str] | None = None
    closing: str = "none"


def _note(comments: list[str], source: str) -> _Note:
    """Return the note that fairmend wrote into the file, or the defaults."""
    found = [line.removeprefix(_NOTE) for line in comments if line.startswith(_NOTE)]
    if not found:
        return _Note()
    try:
        said = json.loads(found[0])
        names = said["names"]
        if len(found) > 1 or said["version"] != 1 or said["dtype"] not in ("float32", "float64"):
            raise ValueError("it is of another version")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("its names are not texts")
        return _Note(said["dtype"], names, str(said["closing"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FairmendError(f"{source}: fairmend's note in the file is damaged ({error!r}); save it again") from error


def _network(rows: list[str], note: _Note, source: str) -> Network:
    if len(rows) < _HEADER:
        raise FairmendError(f"{source}: has {len(rows)} lines of numbers; a .nnet file starts with {_HEADER}")
    depth, inputs, outputs, widest = _whole(rows[0], 4, "the first line of numbers", source)
    widths = _whole(rows[1], depth + 1, "the line of layer sizes", source)
    if (widths[0], widths[-1]) != (inputs, outputs):
        raise FairmendError(f"{source}: says {inputs} inputs and {outputs} outputs, and then layers of {widths[:20]}")
    expected = _HEADER + 2 * sum(widths[1:])
    if len(rows) != expected or sum(a * b for a, b in pairwise(widths)) > _MOST:
        raise FairmendError(f"{source}: its layers {widths[:20]} need {expected} lines of numbers, it has {len(rows)}")
    if widest != max(widths):
        raise FairmendError(
            f"{source}: says that its widest layer has {widest} units, and then layers of {widths[:20]}"
        )
    if rows[2] not in ("0", "0,"):  # some programs mirror inputs if it is 1
        raise FairmendError(f"{source}: the third line of numbers must be 0, and is {rows[2][:80]!r}")
    names = note.names if note.names is not None and len(note.names) == depth else [None] * depth
    box = [_floats(rows[i], inputs, f"the line of {what}", source) for i, what in ((3, "minima"), (4, "maxima"))]
    scale = [_floats(rows[i], inputs + 1, f"the line of {what}", source) for i, what in ((5, "means"), (6, "ranges"))]
    layers = []
    start = _HEADER
    for i, (before, after) in enumerate(pairwise(widths)):
        where = f"layer {i}"
        weight = np.stack([_floats(row, before, where, source) for row in rows[start : start + after]])
        bias = np.concatenate([_floats(row, 1, where, source) for row in rows[start + after : start + 2 * after]])
        start += 2 * after
        with np.errstate(over="ignore"):  # Network refuses what became infinite, by name
            layers.append((where, weight.astype(note.dtype), bias.astype(note.dtype), names[i]))
    first, last = _normalisation(box, scale, source)
    if first and not (rows[5].endswith(",") and rows[6].endswith(",")):
        raise FairmendError(
            f"{source}: the lines of means and ranges must end in a comma, without which some programs lose the last "
            "number; add it"
        )
    builder = GraphBuilder(source)
    value = builder.input(inputs)
    for norm in first:
        value = builder.norm(value, norm)
    for i, layer in enumerate(layers):
        value = builder.function(value, layer[0], Activation("relu")) if i else value
        value = builder.linear(value, *layer)
    for norm in last:
        value = builder.norm(value, norm)
    return builder.network(value)


def _condition(rows: list[str], note: _Note, inputs: int, source: str) -> str:
    """Return what programs that read the file must do alike."""
    box = [_floats(row, inputs, "the box", source) for row in rows[3:5]]
    mean, reach = scale = [_floats(row, inputs + 1, "the scaling", source) for row in rows[5:7]]
    found = [f"the program that reads the .nnet file stores its numbers and computes in {note.dtype}."]
    if any(_normalisation(box, scale, source)):
        found.append("It subtracts the means from the inputs and divides by the ranges, and scales the outputs back.")
    elif mean.any() or (reach != 1).any():
        found.append("It does not apply the means and ranges in the file, which repeat the box of the inputs.")
    most = float(np.finfo(note.dtype).max)
    if box[0].max() > -most or box[1].min() < most:
        found.append("It does not clip inputs, or gets only inputs between the minima and maxima in the file.")
    return " ".join(found)


def _normalisation(box: list[Float64], scale: list[Float64], source: str) -> tuple[list[Norm], list[Norm]]:
    """Return the normalisation of an ACAS Xu file before and after the layers; nothing for other files."""
    (lower, upper), (mean, reach) = box, scale
    if not (reach != 0).all():
        raise FairmendError(f"{source}: its line of ranges holds a 0, by which an input would be divided")
    plain = not mean.any() and (reach == 1).all()
    if plain or _repeats_box(lower, upper, mean, reach):
        return [], []
    output_plain = mean[-1] == 0 and reach[-1] == 1
    with np.errstate(over="ignore"):  # the fold refuses what is too large, by name
        first = scaling("the input's normalisation", 1 / reach[:-1], 0.0, mean[:-1])
    return [first], [] if output_plain else [scaling("the output's normalisation", reach[-1], mean[-1])]


def _repeats_box(lower: Float64, upper: Float64, mean: Float64, reach: Float64) -> bool:
    """Return whether means and ranges only say where the inputs lie, with 0 to 1 as the range of the output."""
    with np.errstate(over="ignore", invalid="ignore"):  # of a box that holds every number
        width, middle = upper - lower, (lower + upper) / 2
        if not (np.allclose(reach[:-1], width, rtol=_ROUNDED, atol=0) and reach[-1] == 1):
            return False
        off = np.abs(mean[:-1] - middle)  # a middle has more digits than the ends, and may be rounded
    minima = np.array_equal(mean[:-1], lower) and mean[-1] == 0
    middles = bool((off <= _ROUNDED * np.maximum(np.abs(lower), np.abs(upper))).all()) and mean[-1] in (0, 0.5)
    return minima or middles


def _whole(row: str, count: int, where: str, source: str) -> list[int]:
    parts = [part.strip(" \t") for part in _parts(row, count, where, source)]
    if not all(re.fullmatch("[1-9][0-9]{0,6}", part) for part in parts):  # C's atoi reads 1e1 as 1
        raise FairmendError(f"{source}: {where} must hold {count} sizes, and is {row[:80]!r}")
    return [int(part) for part in parts]


def _floats(row: str, count: int, where: str, source: str) -> Float64:
    parts = _parts(row, count, where, source)
    for part in parts:
        if not re.fullmatch(_NUMBER, part.strip(" \t")):  # Python's float would also read 1_0, and digits of any script
            raise FairmendError(f"{source}: {where} holds something that is not a number ({part[:40]!r})")
    values = np.array([float(part) for part in parts])
    if not all(map(math.isfinite, values)):
        raise FairmendError(f"{source}: {where} holds a number that is not finite")
    return values


def _parts(row: str, count: int, where: str, source: str) -> list[str]:
    parts = row.removesuffix(",").split(",")
    if len(parts) != count:
        raise FairmendError(f"{source}: {where} has {len(parts)} numbers instead of {count}")
    return parts

"""Files in the .nnet format, which is text; two readers after its public description say what they mean.

One reads as the format's Python reader does, with int and float; the other as its C reader does, with strtok and atof.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from fairmend_check.model import Model
from support.fuzzing.file_format import FileFormat, first_difference

CORPUS = Path(__file__).parents[2] / "corpus" / "nnet"
_NUMBERS = ["1_0", "0x10", "nan", "inf", "-inf", "+1.5", "1.", ".5", " 1.5", "1.5 ", "1e5", "1E+05", "1e+05", "1.5d0"]
_NUMBERS += ["1,5", "\t2.0", "1e400", "1e+400", "-0.0", "0.1", "1.5", "2", "-3", "", "1.5f", "\u0661", "1.5;", "00.5"]
_NUMBERS += ["1e+0005", "2.0//"]
_LINES = ["", "// comment", " // comment", "//", "0,", "1.0,", ",", "\x0c", "\x0b", '// fairmend {"version": 1}']
Numbers = Callable[[str], list[float]]


def disagreement(model: Model, content: bytes, path: Path) -> str | None:
    """Say how one of the two readers reads the file differently, or whether its normalisation has an effect."""
    del path
    text = content.decode("utf-8")
    return first_difference(
        {
            "the Python reader": lambda: _compare(model, iter(io.StringIO(text, newline=None)), _python_numbers),
            "the C reader": lambda: _compare(model, iter(text.split("\n")), _c_numbers),
        }
    )


def _compare(model: Model, lines: Iterator[str], numbers: Numbers) -> str | None:
    line = next(lines)
    while line.startswith("//"):
        line = next(lines)
    layers, inputs, outputs, _ = (int(value) for value in numbers(line))
    widths = [int(value) for value in numbers(next(lines))]
    next(lines)
    least, most, means, ranges = (np.array(numbers(next(lines))) for _ in range(4))
    if (inputs, outputs, layers) != (model.inputs, model.outputs, len(model.weights)):
        return f"{layers} layers from {inputs} to {outputs}"
    largest = float(np.finfo(model.dtype).max)
    if (least[:inputs] > -largest).any() or (most[:inputs] < largest).any():
        return "clips its inputs"
    if means[: inputs + 1].any() or (ranges[: inputs + 1] != 1).any():
        return "scales its inputs or outputs"
    for layer, (before, after) in enumerate(pairwise(widths)):
        weight = np.array([numbers(next(lines))[:before] for _ in range(after)])
        bias = np.array([numbers(next(lines))[0] for _ in range(after)])
        if weight.tobytes() != model.weights[layer].tobytes() or bias.tobytes() != model.biases[layer].tobytes():
            return f"layer {layer} is {weight.tolist()}, {bias.tolist()}"
    return None


def _python_numbers(line: str) -> list[float]:
    """Read a line as nnet.py does: the text after the last comma is dropped."""
    return [float(part) for part in line.strip().split(",")[:-1]]


def _c_numbers(line: str) -> list[float]:
    """Read a line as nnet.c does: strtok leaves out empty parts, and atof stops where a number ends."""
    read = ctypes.CDLL(None).atof
    read.restype = ctypes.c_double
    return [read(part.encode()) for part in line.replace("\n", ",").split(",") if part]


def seeds() -> list[bytes]:
    """Return the files that fairmend wrote."""
    return [path.read_bytes() for path in sorted(CORPUS.glob("*-fairmend.nnet"))]


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a number, a line or the order of lines."""
    lines = content.decode("utf-8", "replace").split("\n")
    place, other = (int(rng.integers(len(lines))) for _ in range(2))
    kind = rng.integers(7)
    if kind <= 2:
        lines[place] = _change_number(lines[place], rng)
    elif kind == 3:
        lines.insert(place, _LINES[rng.integers(len(_LINES))] if rng.random() < 0.5 else lines[other])
    elif kind == 4:
        del lines[place]
    elif kind == 5:
        lines[place], lines[other] = lines[other], lines[place]
    else:
        ends = [",", "", ",,", "\r", " ", "1.0,", "//", ";", "\x1c"]
        lines[place] = lines[place].rstrip(",") + ends[rng.integers(len(ends))]
    return "\n".join(lines).encode("utf-8")


def _change_number(line: str, rng: np.random.Generator) -> str:
    parts = line.split(",")
    place = int(rng.integers(len(parts)))
    if rng.random() < 0.5:
        parts[place] = _NUMBERS[rng.integers(len(_NUMBERS))]
    elif rng.random() < 0.5:
        parts[place] = repr(float(np.float32(rng.normal())))
    else:
        other = int(rng.integers(len(parts)))
        parts[place], parts[other] = parts[other], parts[place]
    return ",".join(parts)


FORMAT = FileFormat("nnet", ".nnet", seeds, mutate, disagreement)

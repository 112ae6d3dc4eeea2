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

from fairmend_check.kernel.model import Model
from support.fuzzing.file_format import FileFormat, first_difference

CORPUS = Path(__file__).parents[2] / "corpus" / "nnet"
_NUMBERS = ["1_0", "0x10", "nan", "inf", "-inf", "+1.5", "1.", ".5", " 1.5", "1.5 ", "1e5", "1E+05", "1e+05", "1.5d0"]
_NUMBERS += ["1,5", "\t2.0", "1e400", "1e+400", "-0.0", "0.1", "1.5", "2", "-3", "", "1.5f", "\u0661", "1.5;", "00.5"]
_NUMBERS += ["1e+0005", "2.0//"]
_LINES = ["", "// comment", " // comment", "//", "0,", "1.0,", ",", "\x0c", "\x0b", '// fairmend {"version": 1}']
Numbers = Callable[[str], list[float]]


def disagreement(model: Model, content: bytes, path: Path) -> str | None:
    """Say how one of the two readers reads the file differently, on the condition that the checker names."""
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
    if (inputs, outputs, layers) != (model.inputs, model.outputs, len(model.layers)):
        return f"{layers} layers from {inputs} to {outputs}"
    largest = float(np.finfo(model.dtype).max)
    clips = (least[:inputs] > -largest).any() or (most[:inputs] < largest).any()
    if clips and "does not clip" not in model.condition:
        return "clips its inputs"
    wrong = _compare_header(model, means[: inputs + 1], ranges[: inputs + 1])
    for layer, (before, after) in enumerate(pairwise(widths)):
        rows = [numbers(next(lines)) for _ in range(after)]
        weight = _rounded([[row[i] for i in range(before)] for row in rows], model)
        bias = _rounded([numbers(next(lines))[0] for _ in range(after)], model)
        fold = model.layers[layer].fold
        stored = (model.layers[layer].weight, model.layers[layer].bias) if fold is None else (fold.weight, fold.bias)
        if weight.tobytes() != stored[0].tobytes() or bias.tobytes() != stored[1].tobytes():
            return f"layer {layer} is {weight.tolist()}, {bias.tolist()}"
    return wrong


def _compare_header(model: Model, means: np.ndarray, ranges: np.ndarray) -> str | None:
    """Say how the normalisation differs from the norms that the checker folds in."""
    plain = not means.any() and (ranges == 1).all()
    first, last = model.layers[0].fold, model.layers[-1].fold
    if plain or "does not apply" in model.condition:
        return None if first is None and last is None else "does not normalise"
    if first is None or "subtracts the means" not in model.condition:
        return "normalises"
    found = [first.before.factor, first.before.shift]
    expected = [1 / ranges[:-1], -means[:-1] / ranges[:-1]]
    if means[-1] != 0 or ranges[-1] != 1:
        assert last is not None
        found += [last.after.factor, last.after.shift]
        expected += [ranges[-1:], means[-1:]]
    close = all(np.allclose(a, b, rtol=1e-12, atol=0) for a, b in zip(found, expected, strict=True))
    return None if close else "normalises in another way"


def _rounded(values: list[float] | list[list[float]], model: Model) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array(values).astype(model.dtype).astype(np.float64)


def _python_numbers(line: str) -> list[float]:
    """Read a line as nnet.py does: the text after the last comma is dropped."""
    return [float(part) for part in line.strip().split(",")[:-1]]


def _c_numbers(line: str) -> list[float]:
    """Read a line as nnet.c does: strtok leaves out empty parts, and atof stops where a number ends."""
    read = ctypes.CDLL(None).atof
    read.restype = ctypes.c_double
    return [read(part.encode()) for part in line.replace("\n", ",").split(",") if part]


def seeds() -> list[bytes]:
    """Return the files of the corpus, and one of them with headers of FairQuant."""
    hand_written = (CORPUS / "hand-written.nnet").read_text()
    lines = hand_written.split("\n")
    minima = [*lines[:4], "0.0,-3.14,", "60760.0,3.0,", "0.0,-3.14,0.0,", "60760.0,6.14,1.0,", *lines[8:]]
    middles = [*lines[:4], "0.0,-3.14,", "60760.0,3.0,", "30380.0,-0.07,0.5,", "60760.0,6.14,1.0,", *lines[8:]]
    others = ["\n".join(minima), "\r\n".join(middles), "\n".join(minima).replace(",\n", "\n")]
    return [path.read_bytes() for path in sorted(CORPUS.glob("*.nnet"))] + [text.encode() for text in others]


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

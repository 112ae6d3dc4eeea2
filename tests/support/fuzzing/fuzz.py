"""Fuzz the checker's readers: change files, and where the checker reads one, compare with what its runtime reads.

A file is determined by the format, a seed and a number, so that every finding can be made again.
"""

from __future__ import annotations

import importlib
import importlib.util
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fairmend_check.errors import CheckError
from support.fuzzing.byte_mutations import mutate_bytes
from support.fuzzing.file_format import FileFormat, RuntimeRefusal

__all__ = [
    "FINDINGS",
    "FORMATS",
    "OUTCOMES",
    "Tally",
    "available_formats",
    "find_format",
    "fuzz",
    "make_file",
    "try_file",
]

# Where each format is defined: a module of this package, and a name in it.
FORMATS = {
    "onnx": ("onnx", "FORMAT"),
    "h5": ("keras", "FORMAT_H5"),
    "keras": ("keras", "FORMAT_KERAS"),
    "pth": ("pth", "FORMAT"),
    "pth-norms": ("pth", "FORMAT_NORMS"),
    "safetensors": ("safetensors", "FORMAT"),
    "safetensors-norms": ("safetensors", "FORMAT_NORMS"),
    "pt2": ("pt2", "FORMAT"),
    "pt2-program": ("pt2", "FORMAT_PROGRAM"),
    "nnet": ("nnet", "FORMAT"),
    "nnet-loader": ("loader", "NNET"),
    "onnx-loader": ("loader", "ONNX"),
    "pth-loader": ("loader", "PTH"),
    "checkpoint": ("pth", "FORMAT_CHECKPOINT"),
    "checkpoint-loader": ("loader", "CHECKPOINT"),
}
MOST_MUTATIONS = 4
SHARE_OF_BYTE_MUTATIONS = 0.4

REFUSED = "refused"
SAME = "same network"
RUNTIME_REFUSED = "refused by the runtime"
RUNTIME_FAILED = "crashes or hangs the runtime"
NOT_MADE = "not made"  # the library that makes the change crashes on a file that an earlier change damaged
DIFFERENT = "DIFFERENT"
RAW_EXCEPTION = "raw exception"
SEED_REFUSED = "seed refused"
NOT_COMPARED = "comparison failed"
HANG = "hang"
CRASH = "crash"
OUTCOMES = (REFUSED, RUNTIME_REFUSED, RUNTIME_FAILED, SAME)
FINDINGS = (DIFFERENT, RAW_EXCEPTION, HANG, CRASH, SEED_REFUSED, NOT_COMPARED)

READING, COMPARING, MAKING = 0, 1, 2
Position = Callable[[int, int], None]  # is told the number of the file and what is being done with it


@dataclass
class Tally:
    """How many files had which outcome, and the findings: number of the file, kind, what happened."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, number: int, outcome: str, text: str) -> None:
        self.counts[outcome] += 1
        if outcome in FINDINGS:
            self.findings.append((number, outcome, text))


def available_formats() -> list[str]:
    """Names of the formats that have a module."""
    return [name for name, (module, _) in FORMATS.items() if importlib.util.find_spec(f"{__package__}.{module}")]


def find_format(name: str) -> FileFormat:
    """Return a format by its name."""
    module, attribute = FORMATS[name]
    found = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
    assert isinstance(found, FileFormat)
    return found


def make_file(form: FileFormat, seeds: list[bytes], seed: int, number: int) -> bytes:
    """Return file ``number``: the first ones are the seeds as they are, all others are seeds with 1 to 4 changes."""
    if number < len(seeds):
        return seeds[number]
    rng = np.random.default_rng([seed, zlib.crc32(form.name.encode()), number])
    content = seeds[rng.integers(len(seeds))]
    for _ in range(int(rng.integers(1, MOST_MUTATIONS + 1))):
        content = change(form, content, seeds, rng)
    while content in seeds:  # not every change changes something
        content = change(form, content, seeds, rng)
    return content


def change(form: FileFormat, content: bytes, seeds: list[bytes], rng: np.random.Generator) -> bytes:
    """Apply one change, of the format or of bytes."""
    if rng.random() < SHARE_OF_BYTE_MUTATIONS:
        return mutate_bytes(content, seeds, rng)
    try:
        return form.mutate(content, rng)
    except Exception:
        if content in seeds:
            raise  # a seed is not damaged
        return mutate_bytes(content, seeds, rng)


def try_file(
    form: FileFormat, content: bytes, path: Path, tell: Callable[[int], None] = lambda phase: None
) -> tuple[str, str]:
    """Let the checker read a file and, if it does, the runtime; return the outcome and a text about it."""
    path.write_bytes(content)
    tell(READING)
    try:
        model = form.read(path)
    except CheckError as error:
        return REFUSED, str(error)
    except Exception as error:  # whatever it is, the reader should have said CheckError
        return RAW_EXCEPTION, f"the checker's reader raises {type(error).__name__}: {error}"
    tell(COMPARING)
    try:
        difference = form.disagreement(model, content, path)
    except RuntimeRefusal as refusal:
        return RUNTIME_REFUSED, str(refusal)
    except Exception as error:  # a file that was not compared must not count as the same
        return NOT_COMPARED, f"the comparison raises {type(error).__name__}: {error}"
    return (SAME, "") if difference is None else (DIFFERENT, difference)


def fuzz(
    form: FileFormat,
    seed: int,
    numbers: Iterable[int],
    folder: Path,
    *,
    known: Mapping[int, str] | None = None,
    keep: Path | None = None,
    tell: Position = lambda number, phase: None,
) -> Tally:
    """Try the files with these numbers.

    Parameters
    ----------
    folder : where each file lies while it is read, alone
    known : outcomes of files that cannot be tried in this process, because they end or stop it
    keep : folder for files that are findings
    tell : is told which file is being read or compared
    """
    known = known or {}
    seeds = form.seeds()
    tally = Tally()
    path = folder / f"model{form.suffix}"
    for number in numbers:
        if known.get(number) == NOT_MADE:
            tally.add(number, NOT_MADE, "")
            continue
        tell(number, MAKING)
        content = make_file(form, seeds, seed, number)
        if number in known:
            outcome, text = known[number], "stopped from outside"
        else:
            outcome, text = try_file(form, content, path, lambda phase, number=number: tell(number, phase))  # type: ignore[misc]
        if outcome == REFUSED and number < len(seeds):
            outcome, text = SEED_REFUSED, f"a seed is refused: {text}"
        tally.add(number, outcome, text)
        if keep is not None and outcome in FINDINGS:
            keep.mkdir(parents=True, exist_ok=True)
            name = f"{form.name}-{seed}-{number}-{outcome.replace(' ', '-').lower()}{form.suffix}"
            (keep / name).write_bytes(content)
    return tally

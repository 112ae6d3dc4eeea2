"""What the fuzzer needs to know about one file format; each format has a module here that defines ``FORMAT``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairmend_check.kernel.model import Model
from fairmend_check.readers.read_model import read_model

__all__ = ["FileFormat", "RuntimeRefusal", "first_difference"]


class RuntimeRefusal(Exception):  # noqa: N818 - a refusal is an answer, not an error
    """The runtime does not read the file that the checker reads: safe, and counted on its own."""


def first_difference(readings: dict[str, Callable[[], str | None]]) -> str | None:
    """Return what the first reading that differs says; raise RuntimeRefusal if all of them refuse the file."""
    refusals = []
    for name, difference in readings.items():
        try:
            found = difference()
        except Exception as error:  # a runtime raises what a damaged file makes it raise
            refusals.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            continue
        if found is not None:
            return f"{name}: {found}"
    if len(refusals) == len(readings):
        raise RuntimeRefusal("; ".join(refusals))
    return None


def read_by_checker(path: Path) -> Model:
    """Read a file as the checker does."""
    return read_model(path)[0]


@dataclass(frozen=True)
class FileFormat:
    """One format: where its files come from, how to change them, and what the runtime of the format reads.

    Attributes
    ----------
    name : for tables, such as "onnx"
    suffix : of its files, such as ".onnx"
    seeds : returns files that the checker and the runtime read, each as bytes; the same ones at every call
    mutate : returns a changed file. The change follows the structure of the format (fields, entries, names, lengths);
        the fuzzer itself adds changes of single bytes, which know nothing of the format. It is given damaged files too;
        what it cannot parse it may return as it is, or raise any exception
    disagreement : says how the runtime's reading of a file differs from the checker's, which is the model given; None
        if it reads the same network. It raises RuntimeRefusal if the runtime refuses the file. (None is sound there
        too, and is counted as the same network.) The path is where the bytes are stored
    read : reads a file as the checker does; state dicts give the layers that a certificate would name
    """

    name: str
    suffix: str
    seeds: Callable[[], list[bytes]]
    mutate: Callable[[bytes, np.random.Generator], bytes]
    disagreement: Callable[[Model, bytes, Path], str | None]
    read: Callable[[Path], Model] = read_by_checker

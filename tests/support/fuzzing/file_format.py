"""What the fuzzer needs to know about one file format; each format has a module here that defines ``FORMAT``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairmend_check.model import Model

__all__ = ["FileFormat"]


@dataclass(frozen=True)
class FileFormat:
    """One format: where its files come from, how to change them, and what the runtime of the format reads.

    Attributes
    ----------
    name : for tables, such as "onnx"
    suffix : of its files, such as ".onnx"
    seeds : returns files that the checker and the runtime read, each as bytes
    mutate : returns a changed file. The change follows the structure of the format (fields, entries, names, lengths);
        the fuzzer itself adds changes of single bytes, which know nothing of the format
    disagreement : says how the runtime's reading of a file differs from the checker's, which is the model given; None
        if the runtime refuses the file or reads the same network. The path is where the bytes are stored
    """

    name: str
    suffix: str
    seeds: Callable[[], list[bytes]]
    mutate: Callable[[bytes, np.random.Generator], bytes]
    disagreement: Callable[[Model, bytes, Path], str | None]

"""A CSV of everybody who is treated unequally, written as they are found and put in place when all are."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.arrays import FloatArray
from fairmend.audit.result import user_values
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.spec import Spec


class PairsFile:
    """A context that leaves the whole file behind where all went well, and nothing otherwise; None writes nothing."""

    def __init__(self, path: Path | None, spec: Spec, net: Network, inputs: Iterable[Path] = ()) -> None:
        """Refuse, before the long work, a file that could not be written, or that is one of the inputs."""
        self._path, self._spec, self._net = path, spec, net
        self._varying = [f.name for f in spec.features if f.varies]
        self._stage: Path | None = None
        if path is None:
            return
        if path.suffix.lower() != ".csv":
            raise FairmendError(f"{path}: the pairs are written as CSV; give --out a name that ends in .csv")
        if path.is_dir():
            raise FairmendError(f"{path}: is a directory; --out names the file to write")
        if path.exists() and any(source.exists() and path.samefile(source) for source in inputs):
            raise FairmendError(f"{path}: would overwrite an input file; choose another --out")

    def __enter__(self) -> PairsFile:
        """Make the file that becomes `path` in the end, beside it."""
        if self._path is not None:
            stage = self._path.absolute().with_name(f".{self._path.name}.{secrets.token_hex(8)}.tmp")
            try:
                nobody = np.zeros((0, self._spec.width), self._net.dtype)
                self._table(np.zeros(0, np.int64), nobody, nobody).to_csv(stage, index=False, lineterminator="\n")
            except OSError as error:
                reason = error.strerror or error
                raise FairmendError(f"{self._path}: cannot write there ({reason}); choose another --out") from error
            self._stage = stage
        return self

    def write(self, rows: npt.NDArray[np.int64], X: FloatArray, other: FloatArray) -> None:
        """Append rows (k,), their inputs (k, width) and a neighbour of each (k, width)."""
        assert self._stage is not None
        frame = self._table(rows, X, other)
        frame.to_csv(self._stage, mode="a", header=False, index=False, lineterminator="\n")

    def _table(self, rows: npt.NDArray[np.int64], X: FloatArray, other: FloatArray) -> pd.DataFrame:
        mine, theirs = user_values(self._spec, X), user_values(self._spec, other)
        parts: list[pd.Series[Any]] = [pd.Series(rows, name="row")]
        parts += [pd.Series(values, name=name) for name, values in mine.items()]
        parts += [pd.Series(theirs[name], name=f"other_{name}") for name in self._varying]
        for prefix, inputs in (("", X), ("other_", other)):
            logits = self._net.logits(inputs)
            parts.append(pd.Series(self._net.predict(inputs), name=f"{prefix}answer"))
            parts += [pd.Series(logits, name=f"{prefix}score")] if logits.ndim == 1 else []
        return pd.concat(parts, axis=1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the file in place, or take it away."""
        if self._stage is None or self._path is None:
            return
        try:
            if error is None:
                os.replace(self._stage, os.path.realpath(self._path))
        finally:
            self._stage.unlink(missing_ok=True)

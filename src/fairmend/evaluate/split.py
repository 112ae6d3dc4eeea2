"""The people a repair works with: who is repaired, who calibrates, and who is left to score it on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.arrays import FloatArray, Ints
from fairmend.errors import FairmendError
from fairmend.evaluate.utility import utility
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.sanity import spec_warnings

# Fewer rows than this say little about accuracy, or give too little to calibrate with.
ENOUGH_ROWS = 50


@dataclass(frozen=True, eq=False)
class People:
    """Encoded data and its division.

    Attributes
    ----------
    frame, X, y : the data in the user's values, as the network reads it, and its classes
    repair_frame, X_repair : the repair inputs, likewise
    repair : which rows of the data they are; None where they came from elsewhere
    calibration : rows of the data
    scored : rows of the data on which accuracy is measured
    held_out : whether those were used neither for repair nor for calibration
    warnings : what the user should know about the division
    """

    spec: Spec
    frame: pd.DataFrame
    X: FloatArray
    y: npt.NDArray[np.integer]
    repair_frame: pd.DataFrame
    X_repair: FloatArray
    repair: Ints | None
    calibration: Ints
    scored: Ints
    held_out: bool
    warnings: tuple[str, ...]


def divide(
    spec: Spec,
    net: Network,
    frame: pd.DataFrame,
    *,
    source: Path | str = "the data",
    repair_frame: pd.DataFrame | None = None,
    repair_source: Path | str = "the repair data",
    repair_rows: int = 100,
    calibration_rows: int = 500,
    seed: int = 0,
) -> People:
    """Encode the data and draw repair and calibration rows from it, apart from each other where possible."""
    X, y = _encoded(spec, net, frame, source), classes_of(spec, net, frame, source)
    warnings = [*_label_warnings(spec, net, frame, y, source), *spec_warnings(net.predict(X), utility(net, X, y).auc)]
    order = np.random.default_rng(seed).permutation(len(X)).astype(np.int64)
    if repair_frame is None:
        repair, rest = order[:repair_rows], order[repair_rows:]
        if len(repair) < repair_rows:
            warnings.append(f"{source} has {len(repair)} rows, fewer than the {repair_rows} asked to repair")
        repair_frame, X_repair = frame.iloc[repair], X[repair]
    else:
        repair, rest = None, order
        X_repair = _encoded(spec, net, repair_frame, repair_source)
    if len(rest) >= min(calibration_rows, ENOUGH_ROWS):
        calibration = rest[:calibration_rows]
    else:
        calibration = order[::-1][:calibration_rows]
        warnings.append(f"{source} has too few rows to calibrate with others than the repair inputs")
    left = np.setdiff1d(rest, calibration)
    held_out = len(left) >= ENOUGH_ROWS
    scored = left if held_out else np.arange(len(X), dtype=np.int64)
    return People(spec, frame, X, y, repair_frame, X_repair, repair, calibration, scored, held_out, tuple(warnings))


def _encoded(spec: Spec, net: Network, frame: pd.DataFrame, source: Path | str) -> FloatArray:
    try:
        return spec.as_inputs(frame, net.dtype)
    except FairmendError as error:
        raise FairmendError(f"{source}: {error}") from error


def classes_of(spec: Spec, net: Network, frame: pd.DataFrame, source: Path | str) -> npt.NDArray[np.integer]:
    """The class of each row: 1 where the label is the positive one; of more than two classes, its number."""
    try:
        y = spec.labels(frame)
    except FairmendError as error:
        raise FairmendError(f"{source}: {error}") from error
    if net.outputs <= 2:
        return y
    assert spec.label is not None
    numbers = pd.to_numeric(frame[spec.label.column], errors="coerce").to_numpy(np.float64)
    bad = np.flatnonzero(~np.isin(numbers, np.arange(net.outputs)))
    if bad.size:
        raise FairmendError(
            f"{source}: the label, row {bad[0]}: {frame[spec.label.column].iloc[bad[0]]!r} is not the number "
            f"of one of the network's {net.outputs} classes; use 0 to {net.outputs - 1}"
        )
    return numbers.astype(np.int64)


def _label_warnings(
    spec: Spec, net: Network, frame: pd.DataFrame, y: npt.NDArray[np.integer], source: Path | str
) -> list[str]:
    if net.outputs > 2 or spec.label is None or y.any():
        return []
    values = frame[spec.label.column].unique().tolist()
    shown = ", ".join(f'"{value}"' for value in values[:4]) + (", …" if len(values) > 4 else "")
    return [
        f'the label "{spec.label.column}" is never "{spec.label.positive}" in {source} (it is {shown}); '
        "check `positive` in the spec"
    ]

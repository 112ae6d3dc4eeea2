"""The parts that several documents share: the origin, who is similar, pairs, and how far scores differ."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend._version import __version__
from fairmend.auditing.disparity import ScoreDisparity, ScoreSummary
from fairmend.auditing.result import AuditPair
from fairmend.base.arrays import histogram
from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.base.text import plain_value, short
from fairmend.evaluate.document import DisparityFigures, Origin, ScoreFigures, ScorePair, Similarity, SourceFile
from fairmend.evaluate.utility import RegressionUtility
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.describe import describe_links
from fairmend.tables import TableFile

# Where a report comes from: its files with their sha256, the versions of packages, and the date.


_PACKAGES = ("numpy", "torch", "highspy", "onnx", "pandas")  # all are dependencies of fairmend
_CHUNK = 1 << 20


def describe_origin(
    files: Mapping[str, DataSource] | None = None,
    *,
    parts: Mapping[str, Sequence[str]] | None = None,
    command: str | None = None,
    seed: int | None = None,
    arrays: Mapping[str, npt.ArrayLike] | None = None,
    created: datetime | None = None,
) -> Origin:
    """Return the origin of a report from files, and arrays that came from no file, by their role.

    `parts` are the files of a role that is a table: several files have the sha256 of their bytes one after the other,
    as ``cat people/*.parquet | sha256sum`` prints it.
    """
    described = [_describe(role, source, (parts or {}).get(role)) for role, source in (files or {}).items()]
    described += [
        SourceFile(role, "passed as an array", _array_digest(values)) for role, values in (arrays or {}).items()
    ]
    now = created or datetime.now(timezone.utc)
    return Origin(
        now.strftime("%Y-%m-%d %H:%M UTC"),
        None if command is None else short(command, 4_000),
        seed,
        described,
        _versions(),
    )


def file_digest(path: Path) -> str:
    """Return the sha256 of a file. Raise FairmendError if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
    except OSError as error:
        raise FairmendError(f"{path}: cannot read the file ({error.strerror or error})") from error
    return digest.hexdigest()


def _describe(role: str, source: DataSource, parts: Sequence[str] | None) -> SourceFile:
    if parts is None:
        assert isinstance(source, Path)
        return SourceFile(role, short(source.name, 200), file_digest(source))
    more = "" if len(parts) == 1 else f" ({len(parts):,} files)"
    return SourceFile(role, f"{short(source.name, 200)}{more}", _table_digest(parts))


def _table_digest(names: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        with TableFile(name).open() as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
    return digest.hexdigest()


def _array_digest(values: npt.ArrayLike) -> str:
    array = np.ascontiguousarray(values)
    return hashlib.sha256(f"{array.dtype.str} {array.shape}\n".encode() + array.tobytes()).hexdigest()


def _versions() -> dict[str, str]:
    return {
        "fairmend": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
    }


# What a spec says, for a report: who counts as similar, and what the classes are called.


_MOST_CLASSES = 1_000


def describe_similarity(spec: Spec, *, exact: bool) -> Similarity:
    """Return who counts as similar; `exact` says whether every counterfactual was examined."""
    tolerances = {short(f.name): float(f.tolerance) for f in spec.features if f.tolerance and f.varies}
    linked, links = [short(f.name) for f in spec.linked], describe_links(spec)
    return Similarity([short(f.name) for f in spec.protected], tolerances, exact, linked, links)


def class_names(spec: Spec, net: Network, frame: pd.DataFrame | None) -> list[str]:
    """Return the names of the network's classes: the values of the label, or "class 0" etc. if it does not list them.

    `frame` holds rows of the data; its label column names the negative class.
    """
    if spec.label is not None and spec.label.classes:
        return [short(name, 40) for name in spec.label.classes[:_MOST_CLASSES]]
    if net.outputs > 2 or spec.label is None or spec.label.positive is None:
        return [f"class {number}" for number in range(min(_MOST_CLASSES, max(2, net.outputs)))]
    values: list[object] = []
    if frame is not None and spec.label.column in frame.columns:
        values = frame[spec.label.column].dropna().unique().tolist()
    return [short(spec.label.name_negative(values), 40), short(spec.label.positive, 40)]


# How far the scores of similar people differ, as a report shows it.


_BINS = 40


def score_figures(
    scores: ScoreSummary, regression: RegressionUtility | None = None, end: float | None = None
) -> ScoreFigures:
    """Return how far scores differ, with a histogram from 0 to `end`: the largest difference by default, or delta."""
    end = max(scores.largest, scores.claim.limit) if end is None else end
    counts, edges = histogram(scores.differences, _BINS, end)
    return ScoreFigures(
        on=str(scores.claim.on),
        delta=scores.claim.limit,
        largest=scores.largest,
        median=scores.median,
        p90=scores.most,
        edges=edges.tolist(),
        counts=counts.tolist(),
        errors=regression_errors(regression),
    )


def regression_errors(regression: RegressionUtility | None) -> dict[str, float]:
    """Return the figures of a regression network by name, without those that are not defined."""
    figures = {} if regression is None else asdict(regression)
    return {name: value for name, value in figures.items() if value is not None}


# Score disparity as a report shows it: the distribution, the curve over the thresholds, and the worst pair.


_MOST_COLUMNS = 16


def disparity_figures(
    disparity: ScoreDisparity, spec: Spec, answers: Sequence[str], end: float | None = None
) -> DisparityFigures:
    """Return the figures of a score disparity, with a histogram from 0 to `end`, by default the largest difference.

    `answers` are the names of the classes.
    """
    end = end or disparity.largest or 1.0
    counts, edges = histogram(disparity.differences, _BINS, end)
    total, curve = len(disparity.differences), disparity.curve
    return DisparityFigures(
        on=disparity.on,
        exact=disparity.exact,
        **disparity.quantiles,
        largest=disparity.largest,
        above={f"{100 * limit:g}": count / total for limit, count in disparity.above.items()},
        edges=edges.tolist(),
        counts=counts.tolist(),
        worst=None if disparity.worst is None else _score_pair(disparity.worst, spec, answers),
        threshold=None if curve is None else curve.decision,
        thresholds=[] if curve is None else curve.thresholds.tolist(),
        unequal=[] if curve is None else curve.shares.tolist(),
    )


def _score_pair(pair: AuditPair, spec: Spec, answers: Sequence[str]) -> ScorePair:
    """Return both people, with the features in which similar people may differ first."""
    varying = {f.name for f in spec.varying}
    names = sorted((f.name for f in spec.features), key=lambda name: name not in varying)
    shown, features = names[:_MOST_COLUMNS], {f.name: f for f in spec.features}
    number = 1 if pair.output is None else pair.output
    answer = answers[number] if number < len(answers) else f"class {number}"
    return ScorePair(
        pair.row,
        [short(name) for name in shown],
        len(names) - len(shown),
        [plain_value(features[name].show(pair.values[name])) for name in shown],
        [plain_value(features[name].show(pair.other_values[name])) for name in shown],
        list(pair.scores),
        None if spec.regression else answer,
        None if pair.id is None else short(pair.id, 40),
    )

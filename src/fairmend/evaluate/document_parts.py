"""The parts that several documents share: the origin, who is similar, pairs, and how far scores differ."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.base.paths import DataSource
from fairmend.base.text import short
from fairmend.evaluate.document import (
    CertificateSummary,
    CheckDocument,
    LeftOutFile,
    Origin,
    OutOfRangeValues,
    Run,
    Similarity,
    SourceFile,
)
from fairmend.network import Model
from fairmend.prove.certificate import Certificate
from fairmend.spec import Spec
from fairmend.spec.describe import describe_bands, describe_links
from fairmend.spec.out_of_range import Doubt, OutOfRange
from fairmend.tables import BrokenFile, TableFile

_PACKAGES = ("numpy", "torch", "highspy", "onnx", "pandas")  # all are dependencies of fairmend
_CHUNK = 1 << 20
_MOST_CLASSES = 1_000


# The origin: files with their sha256, the versions of packages, and the date


def describe_origin(
    files: Mapping[str, DataSource] | None = None,
    *,
    parts: Mapping[str, Sequence[str]] | None = None,
    command: str | None = None,
    seed: int | None = None,
    arrays: Mapping[str, npt.ArrayLike] | None = None,
    created: datetime | None = None,
    digests: bool = True,
) -> Origin:
    """Return the origin of a result from files, and arrays that came from no file, by their role.

    `parts` are the files of a role that is a table: several files have the sha256 of their bytes one after the other,
    as ``cat people/*.parquet | sha256sum`` prints it. Without `digests` no file is read.
    """
    described = [_describe(role, source, (parts or {}).get(role), digests) for role, source in (files or {}).items()]
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


def _describe(role: str, source: DataSource, parts: Sequence[str] | None, digests: bool) -> SourceFile:
    more = "" if parts is None or len(parts) == 1 else f" ({len(parts):,} files)"
    digest = None
    if digests and parts is not None:
        digest = _table_digest(parts)
    elif digests:
        assert isinstance(source, Path)
        digest = file_digest(source)
    return SourceFile(role, f"{short(source.name, 200)}{more}", digest)


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
        "Python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
    }


# What the spec and the data say


@dataclass(frozen=True)
class Context:
    """What a document says beside the result: what was examined, and what was done about the data.

    Attributes
    ----------
    origin : where the result comes from
    title : what was examined
    labels : the different labels in the data
    warnings : signs that the spec is wrong, files that were left out, and what else the user should know
    out_of_range : what was done about values out of range; None without data
    broken : files of the data that were left out because they cannot be read
    files : those that the command writes, by name
    """

    origin: Origin
    title: str
    labels: Iterable[object] = ()
    warnings: Sequence[str] = ()
    out_of_range: OutOfRange | None = None
    broken: Sequence[BrokenFile] = ()
    files: Mapping[str, Path] = field(default_factory=dict)


def common_parts(net: Model, spec: Spec, context: Context, condition: str = "") -> dict[str, Any]:
    """Return the fields that every document has."""
    names = class_names(spec, net, context.labels)
    favourable = None if spec.regression else favourable_class(spec, len(names))
    done, warnings = context.out_of_range, context.warnings
    return {
        "title": short(context.title),
        "origin": context.origin,
        "claim": spec.claim,
        "similar": describe_similarity(spec),
        "class_names": names,
        "favourable": None if favourable is None else names[favourable],
        "value_names": {f.name: dict(f.names) for f in spec.features if f.names},
        "threshold": spec.threshold,
        "score_range": [float(end) for end in spec.score_range],
        "about": spec.about,
        "condition": condition,
        "out_of_range": None if done is None else out_of_range_values(done),
        "broken_files": [LeftOutFile(file.name, file.reason) for file in context.broken],
        "doubts": [short(warning, 2_000) for warning in warnings if isinstance(warning, Doubt)],
        "warnings": [short(each, 2_000) for each in sorted(warnings, key=lambda each: not isinstance(each, Doubt))],
        "files": {name: str(path) for name, path in context.files.items()},
    }


def describe_similarity(spec: Spec) -> Similarity:
    """Return who counts as similar."""
    tolerances = {short(f.name): float(f.tolerance) for f in spec.features if f.tolerance and f.varies}
    linked, links = [short(f.name) for f in spec.linked], describe_links(spec)
    bands = {short(f.name): short(describe_bands(f)) for f in spec.banded}
    return Similarity([short(f.name) for f in spec.protected], tolerances, linked, links, bands)


def class_names(spec: Spec, net: Model, labels: Iterable[object] = ()) -> list[str]:
    """Return the names of the network's classes: the values of the label, or "class 0" etc. if it does not list them.

    `labels` are the different ones in the data, which name the negative class.
    """
    if spec.label is not None and spec.label.classes:
        return [short(name, 40) for name in spec.label.classes[:_MOST_CLASSES]]
    if net.outputs > 2 or spec.label is None or spec.label.positive is None:
        return [f"class {number}" for number in range(min(_MOST_CLASSES, max(2, net.outputs)))]
    return [short(spec.label.name_negative(list(labels)), 40), short(spec.label.positive, 40)]


def favourable_class(spec: Spec, classes: int) -> int | None:
    """Return the number of the class that is good for a person: 1 of two unless the label says otherwise.

    Of several classes, None unless the label says which.
    """
    if spec.label is None:
        return 1 if classes <= 2 else None
    found = spec.label.favourable_class
    named = found is not None and (classes <= 2 or found < min(classes, len(spec.label.classes)))
    return found if named else None


def out_of_range_values(done: OutOfRange) -> OutOfRangeValues:
    """Return what was done about values out of range."""
    return OutOfRangeValues(
        done.policy,
        done.rows,
        dict(done.features),
        {name: list(ends) for name, ends in done.ranges.items()},
        short(done.describe(), 2_000),
    )


def certificate_summary(
    certificate: Certificate,
    *,
    inputs: int | None = None,
    shares: Mapping[str, float] | None = None,
    command: str | None = None,
    check: Mapping[str, Any] | None = None,
) -> CertificateSummary:
    """Return what a certificate claims; `shares` are those of all people, `check` is what the checker says, as data."""
    claimed = shares or {}
    return CertificateSummary(
        short(certificate.claim, 4_000),
        str(certificate.content["arithmetic"]),
        inputs,
        claimed.get("fair"),
        claimed.get("unfair"),
        command,
        None if check is None else check_document(check),
    )


def check_document(found: Mapping[str, Any]) -> CheckDocument:
    """Return what the checker says, from the plain data of its result."""
    return CheckDocument(**{**found, "runs": [Run(**run) for run in found["runs"]]})


def taken(source: object, names: str) -> dict[str, Any]:
    """Return the values of fields that a result and its document share; a tuple becomes the list of a document."""
    values = {name: getattr(source, name) for name in names.split()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

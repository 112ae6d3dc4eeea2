"""The digests of the files that a check is about, and files that are written together or not at all."""

from __future__ import annotations

import hashlib
import os
import stat
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmend_check import json_reader
from fairmend_check.errors import CannotAnswerError, CheckError
from fairmend_check.readers.protobuf import read_message
from fairmend_check.readers.read_model import MAX_BYTES
from fairmend_check.readers.read_onnx import ExternalData

_CHUNK = 2**20


@dataclass(frozen=True)
class Digest:
    """A file by its name, with its sha256."""

    name: str
    sha256: str

    def descriptor(self) -> dict[str, Any]:
        """Return the resource descriptor of in-toto."""
        return {"name": self.name, "digest": {"sha256": self.sha256}}


@dataclass(frozen=True)
class CheckedFiles:
    """The files of a check: the model, files beside it that hold its weights, the certificate, and perhaps a spec."""

    model: Digest
    beside: tuple[Digest, ...]
    certificate: Digest
    spec: Digest | None


def digest_files(certificate: Path, model: Path, spec: Path | None) -> CheckedFiles | None:
    """Return the digests of the files; None if one of them cannot be read, about which the check says more."""
    try:
        beside = tuple(_digest(path) for path in _weights_beside(model))
        return CheckedFiles(_digest(model), beside, _digest(certificate), None if spec is None else _digest(spec))
    except (OSError, ValueError, CheckError):
        return None


def _digest(path: Path) -> Digest:
    if not stat.S_ISREG(path.stat().st_mode):
        raise CheckError(f"{path.name}: not a file")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return Digest(path.name, digest.hexdigest())


def _weights_beside(model: Path) -> list[Path]:
    """Return the files beside an ONNX file that it names as its external data: its own sha256 does not cover them."""
    if model.suffix.lower() != ".onnx":
        return []
    message = read_message("Model", json_reader.read_bytes(model, "model", MAX_BYTES), whole=True)
    named = {entry.get("value", "") for entry in _external(message) if entry.get("key", "") == "location"}
    return [ExternalData(model.parent).resolve(name, "a tensor") for name in sorted(named)]


def _external(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from inner if key == "external_data" else _external(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _external(inner)


def refuse_to_overwrite(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Raise CannotAnswerError if an output is one of the inputs, or another output; the keys are how each was given."""
    seen = {path.resolve(): name for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        if path.is_dir():
            raise CannotAnswerError(f"{path}: this is a folder; give the name of a file for {name}")
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise CannotAnswerError(f"{path}: {name} would overwrite {other}; choose another file for {name}")


def write_together(contents: Mapping[Path, str]) -> None:
    """Write texts to temporary files beside their targets, then rename them all; after an error nothing is left."""
    temporary: dict[Path, Path] = {}
    path = Path()
    try:
        for path, text in contents.items():
            target = Path(os.path.realpath(path))  # a symbolic link stays a link
            temporary[target] = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.tmp")
            with open(temporary[target], "xb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
        for target, written in temporary.items():
            path = target
            os.replace(written, target)
    except OSError as error:
        raise CannotAnswerError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        for written in temporary.values():
            written.unlink(missing_ok=True)

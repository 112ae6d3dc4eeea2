"""The result of a check as in-toto statements (version 1), and reading them back.

There are two statements, in two files, because a statement has one predicate, and the programs that sign one (cosign
attest-blob --statement) take one statement for each file: a test result (https://in-toto.io/attestation/test-result/v0.1)
and a verification summary (https://slsa.dev/verification_summary/v1). Both carry what the check found under a key of
their own, which is a URI, as extensions of a predicate must be. They are not signed.
"""

from __future__ import annotations

import base64
import binascii
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from fairmend_check import json_reader
from fairmend_check._version import __version__
from fairmend_check.errors import CannotAnswerError, CheckError
from fairmend_check.evidence.files import CheckedFiles, Digest
from fairmend_check.result import CheckResult, printable

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
SUMMARY = "https://slsa.dev/verification_summary/v1"
CHECK = "https://fairmend.github.io/fairmend/attestations/check/v1"
CHECKER = "https://fairmend.github.io/fairmend/fairmend-check"
_PAYLOAD = "application/vnd.in-toto+json"
_MAX_BYTES = 16 * 2**20
_RESULTS = {"PASSED": "valid", "WARNED": "valid", "FAILED": "invalid"}


# Writing


def summary_path(path: Path) -> Path:
    """Return where the verification summary is written, beside the test result: a.json and a.summary.json."""
    return path.with_name(f"{path.stem}.summary{path.suffix}")


def statements(
    result: CheckResult, files: CheckedFiles, *, real: bool, now: datetime | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the test result and the verification summary of a check that has a verdict.

    Only VALID is PASSED. It is WARNED in the test result if no program ran the model, or if inference is not covered.
    """
    if not result.readable or not result.model_read:
        raise ValueError("only a verdict about a model file is attested")
    found = _found(result, files, real)
    subject = [each.descriptor() for each in (files.model, *files.beside, files.certificate)]
    head = {"_type": STATEMENT, "subject": subject}
    configuration = [files.certificate, *([] if files.spec is None else [files.spec])]
    test_result = {
        **_tests(result),
        "configuration": [each.descriptor() for each in configuration],
        CHECK: found,
    }
    time = (now or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%SZ")
    levels = ["FAIRMEND_VALID", *(["FAIRMEND_RUN"] if result.runs else [])]
    summary = {
        "verifier": {"id": CHECKER, "version": {"fairmend-check": __version__}},
        "timeVerified": time,
        "resourceUri": _resource(files.model),
        "policy": {"uri": _resource(files.certificate), "digest": {"sha256": files.certificate.sha256}},
        "verificationResult": "PASSED" if result.valid else "FAILED",
        "verifiedLevels": levels if result.valid else ["FAILED"],
        "slsaVersion": "1.0",
        CHECK: found,
    }
    return (
        {**head, "predicateType": TEST_RESULT, "predicate": test_result},
        {**head, "predicateType": SUMMARY, "predicate": summary},
    )


def as_text(statement: Mapping[str, Any]) -> str:
    """Return a statement as JSON in ASCII."""
    return json.dumps(statement, indent=2).replace("\x7f", "\\u007f") + "\n"


def _tests(result: CheckResult) -> dict[str, Any]:
    """Return the result of the test, and its parts: the proof, and the run of the model."""
    proof = "proof: the certificate holds for the model file"
    if not result.valid:
        return {"result": "FAILED", "passedTests": [], "warnedTests": [], "failedTests": [proof]}
    passed = [proof, *(f"run: {run.program}, {run.people} people" for run in result.runs)]
    warned = [] if result.runs else [f"run: the model was not run ({result.not_run})"]
    if result.covers_inference is False:
        warned.append("inference: the claim is about exact real arithmetic only")
    return {
        "result": "WARNED" if warned else "PASSED",
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": [],
    }


def _found(result: CheckResult, files: CheckedFiles, real: bool) -> dict[str, Any]:
    kept = ("verdict", "claim", "condition", "covers_inference", "runs", "not_run", "reasons")
    content = result.as_dict()
    return {
        **{key: content[key] for key in kept},
        "model": files.model.descriptor(),
        "beside_the_model": [each.descriptor() for each in files.beside],
        "certificate": files.certificate.descriptor(),
        "spec": None if files.spec is None else files.spec.descriptor(),
        "real": real,
        "checker": {"fairmend-check": __version__, "numpy": np.__version__, "Python": platform.python_version()},
    }


def _resource(file: Digest) -> str:
    """Return a package URL: a model file has no address of its own."""
    return f"pkg:generic/{quote(file.name, safe='')}?checksum=sha256:{file.sha256}"


# Reading


@dataclass(frozen=True)
class Attestation:
    """What a statement says: about which files, and what the check found then."""

    path: Path
    model: Digest
    beside: tuple[Digest, ...]
    certificate: Digest
    verdict: str
    claim: str
    condition: str
    covers_inference: bool | None
    programs: tuple[str, ...]
    checker: str
    signed: bool

    def require_files(self, files: CheckedFiles) -> None:
        """Raise CannotAnswerError unless the statement is about these files."""
        pairs = [("model", self.model, files.model), ("certificate", self.certificate, files.certificate)]
        for what, attested, here in pairs:
            if attested.sha256 != here.sha256:
                raise CannotAnswerError(
                    f"{self.path}: the attestation is for the {what} {attested.name[:80]} with sha256 "
                    f"{attested.sha256}, but {here.name} has {here.sha256}; give the files that it is about, or attest "
                    "these with --attest"
                )
        if {each.sha256 for each in self.beside} != {each.sha256 for each in files.beside}:
            raise CannotAnswerError(
                f"{self.path}: the attestation is for other files of weights beside {files.model.name}; give the files "
                "that it is about, or attest these with --attest"
            )

    def contradictions(self, result: CheckResult) -> list[str]:
        """Return what the statement says otherwise than a check of the same files that has a verdict."""
        if result.verdict != self.verdict:
            return [f"it attests {self.verdict.upper()}, and this check finds {result.verdict.upper()}"]
        if not result.valid:
            return []
        said = [
            ("claim", self.claim, result.claim),
            ("condition", self.condition, result.condition),
            ("covers_inference", self.covers_inference, result.covers_inference),
        ]
        return [
            f"its {name} is {_quoted(there)}, and this check finds {_quoted(here)}"
            for name, there, here in said
            if there != here
        ]


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_attestation(path: Path) -> Attestation:
    """Read a statement that `--attest` wrote, as it is or in the envelope of a signature, which is not verified."""
    where = f"attestation {path.name}"
    try:
        plain = json_reader.parse_json(json_reader.read_bytes(path, "attestation", _MAX_BYTES), where)
        plain, signed = _opened(plain, where)
        if not isinstance(plain, dict) or plain.get("_type") != STATEMENT:
            raise CheckError(f"{where}: not a statement of in-toto, version 1")
        kind = json_reader.take(plain, "predicateType", str, where)
        keys = {TEST_RESULT: "result", SUMMARY: "verificationResult"}
        predicate = json_reader.take(plain, "predicate", dict, where)
        if kind not in keys or CHECK not in predicate:
            raise CheckError(f"{where}: not about a check of fairmend, but a predicate of the type {kind[:200]}")
        return _read(path, plain, predicate, json_reader.take(predicate, keys[kind], str, where), signed)
    except CheckError as error:
        raise CannotAnswerError(f"{error}; give a file that fairmend check --attest wrote") from error


def _opened(plain: Any, where: str) -> tuple[Any, bool]:
    """Return the statement in an envelope (DSSE) or a bundle of Sigstore, and whether there was one."""
    envelope = plain.get("dsseEnvelope", plain) if isinstance(plain, dict) else plain
    if not isinstance(envelope, dict) or "payloadType" not in envelope:
        return plain, False
    if envelope["payloadType"] != _PAYLOAD:
        raise CheckError(f"{where}: the payload of its envelope is not {_PAYLOAD}")
    try:
        content = base64.b64decode(json_reader.take(envelope, "payload", str, where), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CheckError(f"{where}: the payload of its envelope is not base64") from error
    return json_reader.parse_json(content, where), True


def _read(path: Path, plain: dict[str, Any], predicate: dict[str, Any], said: str, signed: bool) -> Attestation:
    where = f"attestation {path.name}"
    found = json_reader.take(predicate, CHECK, dict, where)
    beside = json_reader.take(found, "beside_the_model", list, where)
    model, certificate, *others = (
        _descriptor(each, where) for each in (found.get("model"), found.get("certificate"), *beside)
    )
    subjects = {_descriptor(each, where).sha256 for each in json_reader.take(plain, "subject", list, where)}
    verdict = json_reader.take(found, "verdict", str, where)
    if _RESULTS.get(said) != verdict:
        raise CheckError(f"{where}: contradicts itself: its result is {said[:20]}, and its verdict {verdict[:20]}")
    if subjects != {each.sha256 for each in (model, certificate, *others)}:
        raise CheckError(f"{where}: contradicts itself: its subjects are not the files that it says were checked")
    covers = found.get("covers_inference")
    if covers is not None and not isinstance(covers, bool):
        raise CheckError(f"{where}: covers_inference must be a boolean or null")
    runs = json_reader.take(found, "runs", list, where)
    checker = json_reader.take(found, "checker", dict, where)
    return Attestation(
        path,
        model,
        tuple(others),
        certificate,
        verdict,
        json_reader.take(found, "claim", str, where),
        json_reader.take(found, "condition", str, where),
        covers,
        tuple(json_reader.take(run, "program", str, where) for run in runs),
        json_reader.take(checker, "fairmend-check", str, where),
        signed,
    )


def _descriptor(value: Any, where: str) -> Digest:
    digest = json_reader.take(json_reader.take(value, "digest", dict, where), "sha256", str, where)
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise CheckError(f"{where}: a sha256 is not 64 hexadecimal digits")
    return Digest(printable(json_reader.take(value, "name", str, where)), digest)

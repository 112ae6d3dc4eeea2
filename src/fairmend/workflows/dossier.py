"""`fairmend report --format dossier`: one folder with the files of a result, a check of them, and what they show."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path

from fairmend import CheckResult, check
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_text
from fairmend.base.folders import check_folder, staged_folder
from fairmend.base.paths import require_inside
from fairmend.evaluate.document import RepairDocument
from fairmend.evaluate.document_parts import check_document, file_digest
from fairmend.report import Report
from fairmend.report.dossier import dossier_markdown, dossier_page
from fairmend.report.dossier.content import DossierFile, Evidence, Proof
from fairmend.report.report import DATA_NAME, PAGE_NAME
from fairmend_check.errors import CannotAnswerError
from fairmend_check.evidence.attestation import read_attestation
from fairmend_check.evidence.files import CheckedFiles, digest_files
from fairmend_check.kernel.certificate import Certificate, ClassCertificate, read_certificate
from fairmend_check.kernel.claim import ScoreClaim
from fairmend_check.kernel.classes import ignored_features

DOSSIER_PAGE, DOSSIER_TEXT, MANIFEST = "dossier.html", "dossier.md", "SHA256SUMS"
_CERTIFICATE, _SPEC = "certificate.json", "spec.toml"
_ATTESTATION = "attestation.json"


def write_dossier(report: Report, source: Path, out: Path, attestation: Path | None = None) -> Path:
    """Fill a folder with a dossier, from the folder `source` of a result; return the page.

    The certificate is checked again, against the model file and the spec in the folder. If it does not hold, or a file
    is not the one that the result names, nothing is written.
    """
    document = report.document
    if out.resolve() == source.resolve():
        raise FairmendError(f"{out}: this is the folder of the result; choose another folder for --out")
    found = _files(report, source)
    model, certificate = found.get("model"), found.get("certificate")
    if attestation is not None and (model is None or certificate is None):
        raise FairmendError(f"{attestation}: there is no certificate in {source} that it could be about")
    copied = {path.name: path for path in found.values()}
    proof = None
    if model is not None and certificate is not None:
        proof, beside = _proof(certificate, model, found.get("spec"), attestation)
        copied |= {name: model.parent / name for name in beside}
    if attestation is not None:
        copied[_ATTESTATION] = attestation
    names = [*copied, DATA_NAME, PAGE_NAME, DOSSIER_PAGE, DOSSIER_TEXT, MANIFEST]
    check_folder(out, names, list(found.values()))
    with staged_folder(out, without=[_ATTESTATION, _CERTIFICATE, _SPEC]) as stage:
        for name, path in copied.items():
            shutil.copyfile(path, stage / name)
        report.save_data(stage / DATA_NAME)
        report.save(stage / PAGE_NAME)
        what = {path.name: _WHAT[role] for role, path in found.items()} | _OTHERS
        listed = [DossierFile(name, what.get(name, ""), file_digest(stage / name)) for name in names[:-3]]
        evidence = Evidence(listed, proof, _commands(model, certificate, found.get("spec"), copied))
        write_text(stage / DOSSIER_PAGE, dossier_page(document, evidence))
        write_text(stage / DOSSIER_TEXT, dossier_markdown(document, evidence))
        sums = [f"{file_digest(stage / name)}  {name}\n" for name in names[:-1]]
        write_text(stage / MANIFEST, "".join(sums))
    return out / DOSSIER_PAGE


_WHAT = {
    "model": "the model that the result and the certificate are about",
    "certificate": "the certificate: the proof, as data",
    "spec": "the spec: the features, which are protected, and who is similar",
}
_OTHERS = {
    DATA_NAME: "the result as data; it holds values of some people",
    PAGE_NAME: "the report on the result, for a browser; it shows some people",
    _ATTESTATION: "the attestation of a check: a statement of in-toto",
}


def _files(report: Report, source: Path) -> dict[str, Path]:
    """Return the model, the certificate and the spec in the folder of a result, each the one that the result names."""
    roles = {"certificate": "certificate", "spec": "spec"}
    roles["repaired model" if isinstance(report.document, RepairDocument) else "model"] = "model"
    found = {}
    for file in report.document.origin.files:
        role = roles.get(file.role)
        path = source / Path(file.name).name
        if role == "spec" and not path.is_file():
            path = source / _SPEC
        if role is None or not path.is_file():
            continue
        require_inside(path, source)
        digest = file_digest(path)
        if role != "spec" and file.sha256 is not None and digest != file.sha256:
            raise FairmendError(
                f"{path}: not the file that {DATA_NAME} is about: its sha256 is {digest}, and the result names "
                f"{file.sha256}. Run the command that wrote the folder again"
            )
        found[role] = path
    if isinstance(report.document, RepairDocument) and report.document.certificate is not None:
        for role in ("model", "certificate"):
            if role not in found:
                raise FairmendError(
                    f"{source}: the {role} of the repair is not there; give the folder that fairmend wrote"
                )
    return found


def _proof(certificate: Path, model: Path, spec: Path | None, attestation: Path | None) -> tuple[Proof, list[str]]:
    """Check the certificate, and return what it proves, and the names of files beside the model with its weights."""
    files = digest_files(certificate, model, spec)
    result = check(certificate, model, spec, real=True)
    if not result.valid:
        raise FairmendError(
            f"{certificate}: {result.verdict.upper()} for {model.name}, so there is nothing to file: "
            f"{result.reasons[0]}"
        )
    if files is None or digest_files(certificate, model, spec) != files:
        raise FairmendError(f"{model}: the files changed while they were checked; try again")
    if attestation is not None:
        _compare(attestation, files, result)
    claimed = read_certificate(certificate)
    claim = claimed.spec.claim
    document = replace(check_document(result.as_dict()), certificate=certificate.name, model=model.name)
    delta = claim.delta if isinstance(claim, ScoreClaim) else None
    return Proof(document, _independent(claimed), _about(claimed), delta), [each.name for each in files.beside]


def _independent(claimed: Certificate | ClassCertificate) -> list[str]:
    """Return the features on which the output does not depend, for everyone within the ranges of the spec."""
    if isinstance(claimed, ClassCertificate):
        return [feature.name for feature in ignored_features(claimed.spec, claimed.entry)]
    return [] if claimed.shares is not None else [feature.name for feature, _ in claimed.blind]


def _about(claimed: Certificate | ClassCertificate) -> list[str]:
    """Return the features that the claim is about."""
    names = _independent(claimed)
    if isinstance(claimed, ClassCertificate) or claimed.count or claimed.shares is not None:
        names += [feature.name for feature in claimed.spec.varying if feature.protected]
    return list(dict.fromkeys(names))


def _compare(attestation: Path, files: CheckedFiles, result: CheckResult) -> None:
    """Refuse an attestation that is about other files, or says something else than the check."""
    try:
        attested = read_attestation(attestation)
        attested.require_files(files)
    except CannotAnswerError as error:
        raise FairmendError(str(error)) from error
    for difference in attested.contradictions(result):
        raise FairmendError(f"{attestation}: {difference}; attest these files again with fairmend check --attest")


def _commands(model: Path | None, certificate: Path | None, spec: Path | None, copied: dict[str, Path]) -> list[str]:
    commands = [f"sha256sum -c {MANIFEST}"]
    if model is not None and certificate is not None:
        given = [certificate.name, model.name, *([] if spec is None else ["--spec", spec.name])]
        given += ["--attestation", _ATTESTATION] if _ATTESTATION in copied else []
        commands.append(shlex.join(["fairmend", "check", *given]))
        commands.append(shlex.join(["python", "fairmend-check.pyz", *given]))
    return commands

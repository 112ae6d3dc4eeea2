"""What workflows return and write: a result with its document, a report, and a certificate that was checked before."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from fairmend import CheckResult, check
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.evaluate.document import Document, Origin
from fairmend.evaluate.document_parts import Context
from fairmend.evaluate.people import People
from fairmend.models import RunModel
from fairmend.models.repaired import RepairedModel
from fairmend.network import Model, Network
from fairmend.network.formats import form_changes, write_network
from fairmend.prove.certificate import Certificate
from fairmend.report import Report
from fairmend.report.report import DATA_NAME, PAGE_NAME, PagedDocument
from fairmend.spec import Spec
from fairmend.spec.out_of_range import spec_warnings
from fairmend.tables import describe_broken
from fairmend.workflows.inputs import is_pipeline
from fairmend_check.errors import CheckError
from fairmend_check.readers.read_model import read_model

ResultT = TypeVar("ResultT")
DocumentT = TypeVar("DocumentT", bound=Document, covariant=True)

WIDENED = "spec.toml"  # the spec in the folder of a report, if its ranges were widened
REPORT_FILES = {
    PAGE_NAME: "the report, for a browser",
    DATA_NAME: "the result as data, for fairmend report and other programs",
}

_SELF_CONTAINED = (".onnx", ".h5", ".hdf5", ".keras")  # files that name their layers and activations


@dataclass(frozen=True, eq=False)
class FilesResult(Generic[ResultT, DocumentT]):
    """What a command found in files, and what it wrote.

    Attributes
    ----------
    result : what the function of the same name returns: `fairmend.audit` for `audit_files`
    document : the result as data, as --json prints it, with what only the page of a report needs, if there is one
    files : what was written, by what it is, such as "report" and "widened_spec"; None where nothing was
    spec, network : spec and model as they were used: with wider ranges, and at the threshold
    """

    result: ResultT
    document: DocumentT
    files: Mapping[str, Path | None]
    spec: Spec
    network: Network | RunModel

    @property
    def warnings(self) -> tuple[str, ...]:
        """Signs that the spec is wrong, and files that were left out; those first that make all figures doubtful."""
        return tuple(self.document.warnings)

    @property
    def report(self) -> Report:
        """The report, drawn from the document."""
        document = self.document
        if not isinstance(document, PagedDocument) or self.files.get("report") is None:
            raise FairmendError(f"the {document.kind} was made without a report. Pass report, a folder")
        return Report(document)

    def _repr_html_(self) -> str | None:
        """Show the report in a notebook, or without one the result, if that has more to show than a line."""
        shown = getattr(self.result if self.files.get("report") is None else self.report, "_repr_html_", None)
        return None if shown is None else shown()


def people_context(people: People, net: Model, origin: Origin, title: str, files: Mapping[str, Path]) -> Context:
    """Return what a document says about people who were read at once, signs that the spec is wrong among it."""
    doubts = [] if people.spec.regression else spec_warnings(net.predict(people.X), classes=people.spec.classes)
    warnings = [*describe_broken(people.broken), *doubts]
    return Context(origin, title, people.labels, warnings, people.out_of_range, people.broken, files)


def require_certificate_possible(certificate: Path | None, model: Path) -> None:
    """Refuse a file for a certificate before the long work: in no folder, or about a file that is not checked."""
    if certificate is not None and not certificate.absolute().parent.is_dir():
        raise FairmendError(f"{certificate}: no such folder; choose another --certificate")
    if certificate is not None and is_pipeline(model):
        raise FairmendError(
            f"{model}: a certificate is about a file that fairmend check reads; save the network as ONNX first, in "
            'Python: fairmend.load_network(pipeline).save("model.onnx")'
        )


def write_report(folder: Path, document: PagedDocument) -> None:
    """Write the page and the document into a folder."""
    report = Report(document)
    report.save_data(folder / DATA_NAME)
    report.save(folder / PAGE_NAME)


def written_files(folder: Path | None, *others: Path | None) -> dict[str, Path]:
    """Return the files of a report in a folder, and others, by name."""
    report = [] if folder is None else [folder / name for name in REPORT_FILES]
    return {path.name: path for path in (*report, *others) if path is not None}


class UncheckableFileError(FairmendError):
    """`fairmend check` cannot read a model file, for this reason."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def form_warning(network: Network, suffix: str) -> str:
    """Say before a repair that a file with a certificate cannot have the form of the original; "" if it can.

    A file that holds only weights is read with its certificate, so nothing is known about it before there is one.
    """
    if suffix not in _SELF_CONTAINED or network.form is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{suffix}")
        why = write_network(network, path)
        try:
            read_model(path)
        except CheckError as error:
            why = why or _unread(str(error))
        if not why:
            return ""
        try:
            network.save(path, keep_form=False)
        except FairmendError as error:
            return f"{path.name} can have no certificate: {why}, and fairmend's own form cannot hold it ({error})"
        return _other_form(network, path, why, "with a certificate will have")


def save_unchecked(network: Network | RepairedModel, model: Path) -> str:
    """Save a model that has no certificate; return a warning if the file has another form than the original."""
    if isinstance(network, RepairedModel):
        network.save(model)
        return ""
    why = write_network(network, model)
    return _other_form(network, model, why) if why else ""


def save_checked(
    network: Network | RepairedModel, certificate: Certificate, path: Path, model: Path
) -> tuple[CheckResult, str]:
    """Save a model, and its certificate once it is checked; return the result, and a warning if the form is another.

    The file has the form of the original. If `fairmend check` does not read that form, it is fairmend's own.
    """
    if isinstance(network, RepairedModel):
        network.save(model)
        certificate.save(path, model)
        return check_certificate(path, model), ""
    why = write_network(network, model)
    certificate.save(path, model)
    try:
        checked = check_certificate(path, model, real=certificate.real_only)
    except UncheckableFileError as error:
        if network.form is None:
            raise
        why = _unread(error.reason)
        network.save(model, keep_form=False)
        certificate.save(path, model)
        checked = check_certificate(path, model, real=certificate.real_only)
    return checked, _other_form(network, model, why) if why else ""


def _unread(reason: str) -> str:
    return f"fairmend check cannot read that of the original ({reason.partition(': ')[2] or reason})"


def _other_form(network: Network, saved: Path, why: str, has: str = "has") -> str:
    """Return the warning that a saved file has another form than the original, and what its programs find changed."""
    assert network.form is not None
    changes = form_changes(network.form, saved)
    said = f" What changes for a program that runs it: {changes}." if changes else ""
    return f"{saved.name} {has} fairmend's own form: {why}.{said} Names of layers and further data are lost"


def check_certificate(
    certificate: Path, model: Path, *, real: bool = False, progress: Progress | None = None
) -> CheckResult:
    """Check a certificate that is about to be published; raise `FairmendError` if it does not hold for the model.

    `real` means that it claims exact arithmetic only. `progress` is called with "check certificate" and counts.
    """
    report = None if progress is None else (lambda done, total: progress("check certificate", done, total))
    result = check(certificate, model, real=real, run=False, progress=report)
    reason = "" if result.valid else result.reasons[0]
    if not result.readable and reason.startswith(f"model {model.name}: "):
        raise UncheckableFileError(
            f"{reason}. fairmend check cannot read this file, so no certificate was written. Save the network "
            'with fairmend, load_network(file).save("model.onnx", keep_form=False), and certify that file',
            reason,
        )
    if not result.readable:
        raise FairmendError(
            f"fairmend check cannot check this certificate ({reason}), so nothing was written. Certify fewer people"
        )
    if not result.valid:  # fairmend and the checker disagree, so neither can be trusted
        raise FairmendError(
            f"the certificate failed its check ({reason}), so nothing was written. "
            "This is a bug in fairmend; please report it"
        )
    return result

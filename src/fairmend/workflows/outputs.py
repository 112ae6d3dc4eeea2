"""What audit, repair and demo write into their folder: the report, and a certificate that was checked before."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from fairmend import CheckResult
    from fairmend.base.progress import Progress
    from fairmend.evaluate.compare import RepairComparison
    from fairmend.evaluate.document import Document
    from fairmend.network import Network
    from fairmend.prove.certificate import Certificate


REPORT_FILES = {
    "report.html": "the report, for a browser",
    "report.json": "the data of the report, for fairmend report",
}

_SELF_CONTAINED = (".onnx", ".h5", ".hdf5", ".keras")  # files that name their layers and activations
_TABLES = ("data", "repair data", "test data")  # the roles of sources that may have several files


def write_report(folder: Path, document: Document) -> None:
    """Write the page and its data into a folder."""
    from fairmend.report import Report
    from fairmend.report.report import DATA_NAME, PAGE_NAME

    report = Report(document)
    report.save_data(folder / DATA_NAME)
    report.save(folder / PAGE_NAME)


class UncheckableFileError(FairmendError):
    """`fairmend check` cannot read a model file, for this reason."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def form_warning(network: Network, suffix: str) -> str:
    """Say before a repair that a file with a certificate cannot have the form of the original; "" if it can.

    A file that holds only weights is read with its certificate, so nothing is known about it before there is one.
    """
    from fairmend.network.formats import write_network
    from fairmend_check.errors import CheckError
    from fairmend_check.readers.read_model import read_model

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


def save_unchecked(network: Network, model: Path) -> str:
    """Save a network that has no certificate; return a warning if the file has another form than the original."""
    from fairmend.network.formats import write_network

    why = write_network(network, model)
    return _other_form(network, model, why) if why else ""


def save_checked(network: Network, certificate: Certificate, path: Path, model: Path) -> tuple[CheckResult, str]:
    """Save a network, and its certificate once it is checked; return the result, and a warning if the form is another.

    The file has the form of the original. If `fairmend check` does not read that form, it is fairmend's own.
    """
    from fairmend.network.formats import write_network

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
    from fairmend.network.formats import form_changes

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
    from fairmend import check

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


def describe_repair(
    original: Network,
    comparison: RepairComparison,
    folder: Path,
    stage: Path,
    repaired: str,
    sources: Mapping[str, DataSource],
    command: str | None,
    seed: int,
    what_if_rows: int | None,
) -> Document:
    """Describe a repair whose files are in `stage` and will move to `folder`; `repaired` is the name of its model.

    The page computes the scores of any person, and holds so many random rows, unless `what_if_rows` is None.
    """
    from fairmend.evaluate.document_parts import describe_origin
    from fairmend.evaluate.repair_document import repair_document
    from fairmend.evaluate.what_if import add_what_if
    from fairmend.tables import find_files

    files: dict[str, DataSource] = {**sources, "repaired model": stage / repaired}
    check = None
    certificate = stage / "certificate.json"
    if certificate.exists():
        files["certificate"] = certificate
        claimed = comparison.result.certificate
        real = ["--real"] if claimed is not None and claimed.real_only else []
        check = shlex.join(["fairmend", "check", str(folder / certificate.name), str(folder / repaired), *real])
    parts = {role: [file.name for file in find_files(files[role])] for role in _TABLES if role in files}
    where = describe_origin(files, parts=parts, command=command, seed=seed)
    document = repair_document(original, comparison, where, title=sources["model"].name, check=check)
    if what_if_rows is None:
        return document
    people, network = comparison.split, comparison.result.network
    return add_what_if(
        document, people.spec, people.X, original, network, numbers=people.rows, rows=what_if_rows, seed=seed
    )

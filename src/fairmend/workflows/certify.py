"""Certify the people in a file: from the files of model, spec and data to verdicts and a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.build_document import certify_document
from fairmend.evaluate.document import CertificateSummary, CertifyDocument
from fairmend.evaluate.document_parts import certificate_summary, describe_origin
from fairmend.evaluate.people import People
from fairmend.models import RunModel, require_network
from fairmend.network import Network
from fairmend.prove.certificate import certificate_of_fair
from fairmend.prove.certify import certify
from fairmend.prove.result import CertifyResult, Verdict
from fairmend.spec import Spec
from fairmend.spec.out_of_range import spec_warnings
from fairmend.tables import describe_broken, local_files
from fairmend.workers.engine import open_engine
from fairmend.workflows.inputs import (
    DataPath,
    PathLike,
    as_path,
    as_source,
    at_threshold,
    is_pipeline,
    load_any_model,
    load_people,
    save_widened_spec,
    silent,
    widened_spec_file,
)
from fairmend.workflows.outputs import check_certificate, written_files


@dataclass(frozen=True, eq=False)
class CertifiedFiles:
    """Verdicts on the people in a file, and what was written.

    Attributes
    ----------
    result : the verdicts
    people : those that were certified, in the same order
    document : the result as data
    files : what was written, by what it is: "certificate" and "widened_spec"; None where nothing was
    warnings : signs that the spec is wrong, and files that were left out
    spec, network : spec and model as they were used: with wider ranges, and at the threshold
    """

    result: CertifyResult
    people: People
    document: CertifyDocument
    files: Mapping[str, Path | None]
    warnings: tuple[str, ...]
    spec: Spec
    network: Network | RunModel

    @property
    def negative(self) -> str | None:
        """What class 0 of two means, as the labels in the file show."""
        return self.people.negative if self.network.outputs <= 2 else None


@shows_progress
def certify_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath,
    *,
    keep_going: bool = False,
    engine: str = "auto",
    rows: int | None = None,
    time_limit: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | None = None,
    resume: PathLike | None = None,
    seed: int = 0,
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    trust_pickle: bool = False,
    outputs: str | None = None,
    certificate: PathLike | None = None,
    out_of_range: str = "refuse",
    command: str | None = None,
    progress: Progress | None = None,
) -> CertifiedFiles:
    """Certify the people in the data, as `fairmend certify` does.

    `certificate` is a file for the certificate of those who are FAIR. `command` is what the document says was typed.
    Other arguments are the options of the command.
    """
    model, spec_file, table, file = Path(model), Path(spec), as_source(data), as_path(certificate)
    report = progress or silent
    require_folder(file)
    refuse_certificate_of_pipeline(model, file)
    used, net = load_any_model(
        model, spec_file, activation, ignore_scores, threshold, outputs, trust_pickle=trust_pickle
    )
    if file is not None:
        require_network(net, "--certificate", "leave it out, or repair the model: a repair has a certificate")
    with open_engine(cluster, jobs) as workers:
        people = load_people(table, used, net, rows, seed, out_of_range, keep_going=keep_going)
        used, X = people.spec, people.X
        sources = [model, *local_files(table), spec_file]
        spec_out = None if file is None else widened_spec_file(file, sources)
        result = certify(
            net,
            used,
            X,
            engine,
            time_limit=time_limit,
            device=device,
            cluster=workers,
            resume=as_path(resume),
            seed=seed,
            progress=lambda _, done, total: report("certify", done, total),
        )
        certified = None
        if file is not None and isinstance(net, Network):
            certified = _write_certificate(file, model, net, people, result, report)
    warnings = describe_broken(people.broken)
    warnings += [] if used.regression else spec_warnings(net.predict(X), classes=used.classes)
    wider = save_widened_spec(used, people.out_of_range, spec_out)
    document = certify_document(
        net,
        people,
        result,
        describe_origin({"model": model, "spec": spec_file, "data": table}, command=command, seed=seed, digests=False),
        title=f"{model.name} on {table.name}{at_threshold(used)}",
        warnings=warnings,
        certificate=certified,
        files=written_files(None, file, wider),
    )
    files = {"certificate": file, "widened_spec": wider}
    return CertifiedFiles(result, people, document, files, tuple(warnings), used, net)


def refuse_certificate_of_pipeline(model: Path, certificate: Path | None) -> None:
    """Refuse a certificate about a file of scikit-learn, which `fairmend check` does not read."""
    if certificate is not None and is_pipeline(model):
        raise FairmendError(
            f"{model}: a certificate is about a file that fairmend check reads; save the network as ONNX first, in "
            'Python: fairmend.load_network(pipeline).save("model.onnx")'
        )


def require_folder(certificate: Path | None) -> None:
    """Refuse a file for a certificate in a folder that does not exist, before the long work."""
    if certificate is not None and not certificate.absolute().parent.is_dir():
        raise FairmendError(f"{certificate}: no such folder; choose another --certificate")


def _write_certificate(
    path: Path, model: Path, net: Network, people: People, result: CertifyResult, progress: Progress
) -> CertificateSummary:
    """Write a certificate for the FAIR inputs and return what it claims, and for how many."""
    fair = np.array([verdict is Verdict.FAIR for verdict in result.verdicts])
    if not fair.any():
        raise FairmendError("no input is FAIR, so there is nothing to certify; repair the network first")
    certificate, covered = certificate_of_fair(net, people.spec, people.X[fair], progress)
    if certificate is None:
        raise FairmendError(
            "the proofs split neighbourhoods, and a certificate can hold only whole ones; run without --certificate, "
            "or repair the network, which gives margins that need no splitting"
        )
    with TemporaryDirectory() as folder:  # so that a file at `path` is replaced only by a valid certificate
        certificate.save(Path(folder, "certificate.json"), model)
        file = Path(folder, "certificate.json")
        checked = check_certificate(file, model, real=certificate.real_only, progress=progress)
    certificate.save(path, model)
    return certificate_summary(certificate, inputs=int(covered.sum()), check=checked.as_dict())

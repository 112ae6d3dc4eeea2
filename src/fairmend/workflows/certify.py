"""Certify the people in a file: from the files of model, spec and data to verdicts and a certificate."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.build_document import certify_document
from fairmend.evaluate.document import CertificateSummary, CertifyDocument
from fairmend.evaluate.document_parts import certificate_summary
from fairmend.evaluate.people import People
from fairmend.models import require_network
from fairmend.network import Network
from fairmend.prove.certificate import certificate_of_fair
from fairmend.prove.certify import certify
from fairmend.prove.result import CertifyResult, Verdict
from fairmend.workflows.inputs import (
    DataPath,
    InputOptions,
    Inputs,
    PathLike,
    WorkerOptions,
    as_path,
    at_threshold,
    save_widened_spec,
    silent,
    widened_spec_file,
)
from fairmend.workflows.outputs import (
    FilesResult,
    check_certificate,
    people_context,
    require_certificate_possible,
    written_files,
)


@shows_progress
def certify_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath,
    *,
    inputs: InputOptions | None = None,
    workers: WorkerOptions | None = None,
    engine: str = "auto",
    rows: int | None = None,
    time_limit: float | None = None,
    resume: PathLike | None = None,
    seed: int = 0,
    certificate: PathLike | None = None,
    command: str | None = None,
    progress: Progress | None = None,
) -> FilesResult[CertifyResult, CertifyDocument]:
    """Certify the people in the data, as `fairmend certify` does.

    `certificate` is a file for the certificate of those who are FAIR. `command` is what the document says was typed.
    Other arguments are the options of the command. `files` of the result has "certificate" and "widened_spec".
    """
    read, workers, file = Inputs(model, spec, data, inputs), workers or WorkerOptions(), as_path(certificate)
    report = progress or silent
    require_certificate_possible(file, read.model)
    used, net = read.load()
    if file is not None:
        require_network(net, "--certificate", "leave it out, or repair the model: a repair has a certificate")
    with workers.open() as cluster:
        people = read.people(used, net, rows, seed)
        used, X = people.spec, people.X
        spec_out = None if file is None else widened_spec_file(file, read.paths)
        result = certify(
            net,
            used,
            X,
            engine,
            time_limit=time_limit,
            device=workers.device,
            cluster=cluster,
            resume=as_path(resume),
            seed=seed,
            progress=lambda _, done, total: report("certify", done, total),
        )
        certified = None
        if file is not None and isinstance(net, Network):
            certified = _write_certificate(file, read.model, net, people, result, report)
    wider = save_widened_spec(used, people.out_of_range, spec_out)
    assert read.data is not None
    title = f"{read.model.name} on {read.data.name}{at_threshold(used)}"
    context = people_context(people, net, read.origin(command, seed), title, written_files(None, file, wider))
    document = certify_document(net, people, result, context, certified)
    return FilesResult(result, document, {"certificate": file, "widened_spec": wider}, used, net)


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

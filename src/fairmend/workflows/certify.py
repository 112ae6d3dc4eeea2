"""Certify the people in a file: from the files of model, spec and data to verdicts and a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.people import People
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
    load_model,
    load_people,
    save_widened_spec,
    silent,
    widened_spec_file,
)
from fairmend.workflows.outputs import check_certificate


@dataclass(frozen=True, eq=False)
class CertifiedFiles:
    """Verdicts on the people in a file, and what was written.

    Attributes
    ----------
    result : the verdicts
    people : those that were certified, in the same order
    document : the result as plain data, as --json prints it; "certified" is how many inputs a certificate covers
    files : what was written, by what it is: "certificate" and "widened_spec"; None where nothing was
    warnings : signs that the spec is wrong, and files that were left out
    spec, network : as they were used: with wider ranges, and at the threshold
    """

    result: CertifyResult
    people: People
    document: Mapping[str, Any]
    files: Mapping[str, Path | None]
    warnings: tuple[str, ...]
    spec: Spec
    network: Network

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
    certificate: PathLike | None = None,
    out_of_range: str = "refuse",
    progress: Progress | None = None,
) -> CertifiedFiles:
    """Certify the people in the data, as `fairmend certify` does.

    `certificate` is a file for the certificate of those who are FAIR. Other arguments are the options of the command.
    """
    model, spec_file, table, file = Path(model), Path(spec), as_source(data), as_path(certificate)
    report = progress or silent
    require_folder(file)
    used, net = load_model(model, spec_file, activation, ignore_scores, threshold)
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
        written = {} if file is None else _write_certificate(file, model, net, people, result, report)
    warnings = describe_broken(people.broken)
    warnings += [] if used.regression else spec_warnings(net.predict(X), classes=used.classes)
    wider = save_widened_spec(used, people.out_of_range, spec_out)
    document = {
        "fairmend": __version__,
        "model": model.name,
        "data": table.name,
        "seed": seed,
        "rows": people.rows,
        "ids": people.ids,
        "threshold": used.threshold,
        **result.as_dict(used, people.negative if net.outputs <= 2 else None),
        **written,
        "out_of_range": people.out_of_range.as_dict(),
        "widened_spec": wider,
        "broken_files": [each.as_dict() for each in people.broken],
        "warnings": warnings,
    }
    files = {"certificate": file, "widened_spec": wider}
    return CertifiedFiles(result, people, document, files, tuple(warnings), used, net)


def require_folder(certificate: Path | None) -> None:
    """Refuse a file for a certificate in a folder that does not exist, before the long work."""
    if certificate is not None and not certificate.absolute().parent.is_dir():
        raise FairmendError(f"{certificate}: no such folder; choose another --certificate")


def _write_certificate(
    path: Path, model: Path, net: Network, people: People, result: CertifyResult, progress: Progress
) -> dict[str, Any]:
    """Write a certificate for the FAIR inputs and return its file, how many it covers, and in which arithmetic."""
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
        check_certificate(Path(folder, "certificate.json"), model, real=certificate.real_only, progress=progress)
    certificate.save(path, model)
    return {"certificate": path, "certified": int(covered.sum()), "arithmetic": certificate.content["arithmetic"]}

"""Prove which share of all people is treated equally: from the files to shares, a map, a report and a certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fairmend.base.errors import FairmendError
from fairmend.base.folders import check_folder, staged_folder
from fairmend.base.paths import DataSource
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.build_document import quantify_document
from fairmend.evaluate.document import QuantifyDocument
from fairmend.evaluate.document_parts import certificate_summary, describe_origin
from fairmend.network import Network
from fairmend.quantifying.certificate import confirmed_certificate
from fairmend.quantifying.outlook import foresee
from fairmend.quantifying.result import QuantifyResult
from fairmend.quantifying.run import quantify
from fairmend.report.report import PAGE_NAME
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange, spec_warnings
from fairmend.tables import describe_broken, find_files, local_files
from fairmend.workers.engine import open_engine
from fairmend.workflows.certify import refuse_certificate_of_pipeline, require_folder
from fairmend.workflows.inputs import (
    DataPath,
    PathLike,
    add_about,
    as_path,
    as_source,
    at_threshold,
    load_network_of,
    load_people,
    save_widened_spec,
    widened_spec_file,
)
from fairmend.workflows.outputs import REPORT_FILES, write_report, written_files


@dataclass(frozen=True, eq=False)
class QuantifiedFiles:
    """The shares of all people, and what was written.

    Attributes
    ----------
    result : the shares and the map
    document : the result as data
    files : what was written, by what it is: "report", "certificate" and "widened_spec"; None where nothing was
    warnings : signs that the spec is wrong, and files that were left out
    spec, network : as they were used: with wider ranges, and at the threshold
    out_of_range : what was done about values of the data out of range; None without data
    title : what was quantified
    """

    result: QuantifyResult
    document: QuantifyDocument
    files: Mapping[str, Path | None]
    warnings: tuple[str, ...]
    spec: Spec
    network: Network
    out_of_range: OutOfRange | None
    title: str


@shows_progress
def quantify_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath | None = None,
    *,
    keep_going: bool = False,
    seconds: float = 60.0,
    share: float | None = None,
    boxes: int = 10,
    samples: int = 20_000,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | None = None,
    seed: int = 0,
    report: PathLike | None = None,
    certificate: PathLike | None = None,
    about: PathLike | None = None,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    trust_pickle: bool = False,
    command: str | None = None,
    progress: Progress | None = None,
    on_result: Callable[[QuantifiedFiles], None] | None = None,
    on_outlook: Callable[[str], None] | None = None,
) -> QuantifiedFiles:
    """Quantify a model file over everyone that a spec file allows, as `fairmend quantify` does.

    `report` is the folder of a report, and `certificate` a file for the certificate of the shares. `command` is what
    the report says was typed. Other arguments are the options of the command. `on_result` gets the result before the
    certificate is written: its errors must not cost the result of a long run. `on_outlook` gets a sentence before it
    runs if most people will stay undecided, which a short run finds out.
    """
    model, spec_file, table = Path(model), Path(spec), None if data is None else as_source(data)
    folder, file, about_file = as_path(report), as_path(certificate), as_path(about)
    if table is None and out_of_range != "refuse":
        raise FairmendError("--out-of-range needs --data: everyone whom the spec allows is in range")
    if table is None and keep_going:
        raise FairmendError("--keep-going needs --data: there are no files to leave out")
    require_folder(file)
    refuse_certificate_of_pipeline(model, file)
    used, net = load_network_of(
        "quantify", model, spec_file, activation, ignore_scores, threshold, trust_pickle=trust_pickle
    )
    used = add_about(used, about_file)
    inputs = [path for path in (model, spec_file, *local_files(table), about_file) if path is not None]
    if folder is not None:
        check_folder(folder, [*REPORT_FILES], inputs, "--report, or pass --no-report")
    with open_engine(cluster, jobs) as workers:
        people = (
            None if table is None else load_people(table, used, net, out_of_range=out_of_range, keep_going=keep_going)
        )
        used = used if people is None else people.spec
        spec_out = None if file is None else widened_spec_file(file, inputs)
        outlook = None if on_outlook is None else foresee(net, used, seconds, seed)
        if on_outlook is not None and outlook is not None:
            on_outlook(outlook.describe(seconds))
        found = quantify(
            net,
            used,
            seconds=seconds,
            share=share,
            seed=seed,
            device=device,
            cluster=workers,
            X=None if people is None else people.X,
            samples=samples,
            progress=progress,
        )
    warnings: list[str] = []
    if people is not None:
        warnings = [*describe_broken(people.broken), *spec_warnings(net.predict(people.X), classes=used.classes)]
    within = f", {used.claim.words().brief}" if used.claim.stated else ""
    title = f"{model.name}, everyone that {spec_file.name} allows{at_threshold(used)}{within}"
    done = None if people is None else people.out_of_range
    sources: dict[str, DataSource] = {"model": model, "spec": spec_file}
    sources |= {} if table is None else {"data": table}
    broken = () if people is None else people.broken
    left_out = [each.name for each in broken]
    parts = None if table is None else {"data": [f.name for f in find_files(table) if f.name not in left_out]}
    document = quantify_document(
        net,
        used,
        found,
        describe_origin(sources, parts=parts, command=command, seed=seed, digests=folder is not None),
        title=title,
        boxes=boxes,
        labels=() if people is None else people.labels,
        out_of_range=done,
        broken=broken,
        warnings=warnings,
        files=written_files(folder),
    )
    _write_report(folder, document)
    files = {"report": None if folder is None else folder / PAGE_NAME, "certificate": file, "widened_spec": None}
    result = QuantifiedFiles(found, document, files, tuple(warnings), used, net, done, title)
    if on_result is not None:
        on_result(result)
    if file is None:
        return result
    claim = confirmed_certificate(found.evidence, found.fair, found.unfair, progress)
    claim.save(file, model)
    wider = None if done is None else save_widened_spec(used, done, spec_out)
    document = replace(
        document,
        certificate=certificate_summary(claim, shares=claim.content["shares"]),
        files={name: str(path) for name, path in written_files(folder, file, wider).items()},
    )
    _write_report(folder, document)
    return replace(result, document=document, files={**files, "widened_spec": wider})


def _write_report(folder: Path | None, document: QuantifyDocument) -> None:
    if folder is not None:
        with staged_folder(folder) as stage:
            write_report(stage, document)

"""Prove which share of all people is treated equally: from the files to shares, a map, a report and a certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fairmend.base.folders import check_folder, staged_folder
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.build_document import quantify_document
from fairmend.evaluate.document import QuantifyDocument
from fairmend.evaluate.document_parts import Context, certificate_summary
from fairmend.quantifying.certificate import confirmed_certificate
from fairmend.quantifying.result import QuantifyResult
from fairmend.quantifying.run import foresee, quantify
from fairmend.report.report import PAGE_NAME
from fairmend.tables import find_files
from fairmend.workflows.inputs import (
    DataPath,
    InputOptions,
    Inputs,
    PathLike,
    WorkerOptions,
    as_path,
    at_threshold,
    save_widened_spec,
    widened_spec_file,
)
from fairmend.workflows.outputs import (
    REPORT_FILES,
    FilesResult,
    people_context,
    require_certificate_possible,
    write_report,
    written_files,
)


@shows_progress
def quantify_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath | None = None,
    *,
    inputs: InputOptions | None = None,
    workers: WorkerOptions | None = None,
    seconds: float = 60.0,
    share: float | None = None,
    boxes: int = 10,
    samples: int = 20_000,
    seed: int = 0,
    report: PathLike | None = None,
    certificate: PathLike | None = None,
    command: str | None = None,
    progress: Progress | None = None,
    on_result: Callable[[FilesResult[QuantifyResult, QuantifyDocument]], None] | None = None,
    on_outlook: Callable[[str], None] | None = None,
) -> FilesResult[QuantifyResult, QuantifyDocument]:
    """Quantify a model file over everyone that a spec file allows, as `fairmend quantify` does.

    `report` is the folder of a report, and `certificate` a file for the certificate of the shares. `command` is what
    the report says was typed. Other arguments are the options of the command. `on_result` gets the result before the
    certificate is written: its errors must not cost the result of a long run. `on_outlook` gets a sentence before it
    runs if most people will stay undecided, which a short run finds out. `files` of the result has "report",
    "certificate" and "widened_spec".
    """
    read, workers = Inputs(model, spec, data, inputs), workers or WorkerOptions()
    folder, file = as_path(report), as_path(certificate)
    read.require_data("everyone whom the spec allows is in range", "there are no files to leave out")
    require_certificate_possible(file, read.model)
    used, net = read.load_network("quantify")
    if folder is not None:
        check_folder(folder, [*REPORT_FILES], read.paths, "--report, or pass --no-report")
    with workers.open() as cluster:
        people = None if read.data is None else read.people(used, net)
        used = used if people is None else people.spec
        spec_out = None if file is None else widened_spec_file(file, read.paths)
        outlook = None if on_outlook is None else foresee(net, used, seconds, seed)
        if on_outlook is not None and outlook is not None:
            on_outlook(outlook.describe(seconds))
        found = quantify(
            net,
            used,
            seconds=seconds,
            share=share,
            seed=seed,
            device=workers.device,
            cluster=cluster,
            X=None if people is None else people.X,
            samples=samples,
            progress=progress,
        )
    within = f", {used.claim.words().brief}" if used.claim.stated else ""
    title = f"{read.model.name}, everyone that {read.spec.name} allows{at_threshold(used)}{within}"
    written, parts = written_files(folder), None
    if people is not None and read.data is not None:
        left_out = [each.name for each in people.broken]
        parts = {"data": [each.name for each in find_files(read.data) if each.name not in left_out]}
    origin = read.origin(command, seed, parts=parts, digests=folder is not None)
    about = Context(origin, title, files=written)
    context = about if people is None else people_context(people, net, origin, title, written)
    document = quantify_document(net, used, found, context, boxes=boxes)
    _write_report(folder, document)
    files = {"report": None if folder is None else folder / PAGE_NAME, "certificate": file, "widened_spec": None}
    result = FilesResult(found, document, files, used, net)
    if on_result is not None:
        on_result(result)
    if file is None:
        return result
    claim = confirmed_certificate(found.evidence, found.fair, found.unfair, progress)
    claim.save(file, read.model)
    wider = None if people is None else save_widened_spec(used, people.out_of_range, spec_out)
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

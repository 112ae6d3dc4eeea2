"""Log a repair to MLflow: the model file, its certificate, the report and the figures. It needs the extra mlflow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.base.errors import FairmendError
from fairmend.evaluate.document import RepairDocument
from fairmend.report import Report, load_report
from fairmend.report.report import CARD_NAME, DATA_NAME, PAGE_NAME

if TYPE_CHECKING:
    from fairmend.evaluate.document import NetworkFigures
    from fairmend.repairing.result import RepairResult

__all__ = ["log_repair"]

_CERTIFICATE = "certificate.json"
# What `fairmend repair` writes about the model. The repair inputs are people of the data, and stay where they are.
_OF_FOLDER = ("spec.toml", _CERTIFICATE, PAGE_NAME, DATA_NAME)
_LONGEST_TAG = 5_000  # characters that every version of MLflow stores


def log_repair(
    result: RepairResult | str | PathLike[str], report: Report | None = None, *, folder: str = "fairmend"
) -> None:
    """Log a repair to the active run of MLflow; without one, MLflow starts it.

    The model file, the certificate, the report and its model card become artifacts, the figures become metrics, and the
    method and the claim become tags. A report shows people of the data: log it only where they may be seen.

    Parameters
    ----------
    result : the result of `fairmend.repair`, or the folder that `fairmend repair` wrote
    report : the report on the result, from `fairmend.report.repair_report`; a folder holds its own
    folder : the folder for the artifacts in the run
    """
    mlflow = _require_mlflow()
    with tempfile.TemporaryDirectory() as temporary:
        stage = Path(temporary)
        if isinstance(result, str | PathLike):
            if report is not None:
                raise FairmendError("the folder of a repair holds its own report. Leave out report")
            files, report = _files_of_folder(Path(result))
        else:
            if report is not None and not isinstance(report.document, RepairDocument):
                raise FairmendError("the report is about an audit. Pass the report on the repair, or leave it out")
            files = _save(result, stage)
            if report is not None:
                report.save(stage / PAGE_NAME)
                report.save_data(stage / DATA_NAME)
                files += [stage / PAGE_NAME, stage / DATA_NAME]
            mlflow.log_metrics(_metrics_of_result(result))
            mlflow.set_tags(_tags(result.method, None if result.certificate is None else result.certificate.claim))
        if report is not None:
            report.save_card(stage / CARD_NAME)
            files.append(stage / CARD_NAME)
            repair = report.document
            assert isinstance(repair, RepairDocument)
            mlflow.log_metrics(dict(_metrics_of_report(repair)))
            mlflow.set_tags(
                _tags(repair.method, None if repair.certificate is None else repair.certificate.claim) | _about(report)
            )
        for file in files:
            mlflow.log_artifact(str(file), folder)


def _require_mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise FairmendError("logging to MLflow needs mlflow: pip install 'fairmend[mlflow]'") from error
    return mlflow


def _save(result: RepairResult, stage: Path) -> list[Path]:
    model, certificate = stage / "model.onnx", stage / _CERTIFICATE
    result.network.save(model)
    if result.certificate is None:
        return [model]
    result.certificate.save(certificate, model)
    return [model, certificate]


def _files_of_folder(folder: Path) -> tuple[list[Path], Report]:
    """Return the files of a repair, and its report."""
    report = load_report(folder)
    if not isinstance(report.document, RepairDocument):
        raise FairmendError(f"{folder}: holds the report on an audit. Give a folder that fairmend repair wrote")
    names = [file.name for file in report.document.origin.files if file.role == "repaired model"]
    files = [folder / Path(name).name for name in (*names, *_OF_FOLDER)]
    missing = [file for file in files if not file.is_file() and file.name != _CERTIFICATE]
    if missing:
        raise FairmendError(f"{missing[0]}: no such file. Give a folder that fairmend repair wrote")
    return [file for file in files if file.is_file()], report


def _metrics_of_result(result: RepairResult) -> dict[str, float]:
    return {
        "fairmend.proven": result.proven,
        "fairmend.repair_inputs": result.regions,
        "fairmend.proven_for_everyone": float(result.everyone),
        "fairmend.changed_weights": result.changed_weights,
        "fairmend.seconds": result.seconds["total"],
    }


def _metrics_of_report(repair: RepairDocument) -> Iterator[tuple[str, float]]:
    yield "fairmend.proven", repair.proven_repair_inputs
    yield "fairmend.repair_inputs", repair.repair_inputs
    yield "fairmend.changed_weights", repair.changed_weights
    if repair.changed_predictions is not None:
        yield "fairmend.changed_predictions", repair.changed_predictions
    for when, figures in (("before", repair.before), ("after", repair.after)):
        yield from ((f"fairmend.{name}_{when}", value) for name, value in _figures(figures))


def _figures(figures: NetworkFigures) -> Iterator[tuple[str, float]]:
    yield "idi_rate", figures.data.idi_rate
    yield from ((name, value) for name, value in asdict(figures.utility).items() if value is not None)


def _tags(method: str, claim: str | None) -> dict[str, str]:
    return {"fairmend.method": method, "fairmend.claim": (claim or "nothing is proven")[:_LONGEST_TAG]}


def _about(report: Report) -> dict[str, str]:
    return {f"fairmend.about.{key}": text[:_LONGEST_TAG] for key, text in report.document.about.to_dict().items()}

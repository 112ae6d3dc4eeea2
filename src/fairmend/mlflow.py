"""Log a repair to MLflow: the model with its flavor, its certificate, the report and the figures; the extra mlflow."""

from __future__ import annotations

import importlib
import inspect
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.base.errors import FairmendError
from fairmend.evaluate.document import RepairDocument
from fairmend.network.formats.mlflow import require_mlflow
from fairmend.report import Report, load_report
from fairmend.report.report import CARD_NAME, DATA_NAME, PAGE_NAME

if TYPE_CHECKING:
    from fairmend.evaluate.document import NetworkFigures
    from fairmend.repairing.result import RepairResult

__all__ = ["log_repair"]

_CERTIFICATE = "certificate.json"
# What `fairmend repair` writes about the model. The repair inputs are people of the data, and stay where they are.
_OF_FOLDER = ("spec.toml", _CERTIFICATE, PAGE_NAME, DATA_NAME)
_MODEL = "model"  # the model folder, in the folder of the artifacts
_FLAVORS = ("onnx", "keras", "pytorch", "sklearn")
_BY_SUFFIX = {".onnx": "onnx", ".keras": "keras"}
_LONGEST_TAG = 5_000  # characters that every version of MLflow stores


def log_repair(
    result: RepairResult | str | PathLike[str],
    report: Report | None = None,
    *,
    folder: str = "fairmend",
    flavor: str | None = None,
) -> None:
    """Log a repair to the active run of MLflow; without one, MLflow starts it.

    The model file, the certificate, the report and its model card become artifacts, the figures become metrics, and the
    method and the claim become tags. A report shows people of the data: log it only where they may be seen.

    The model is also logged as a model of MLflow, in the folder ``model`` of the artifacts, with the certificate beside
    it: ``mlflow.register_model(f"runs:/{run.info.run_id}/fairmend/model", "credit")``. An ONNX or Keras file has the
    bytes that the certificate is about, so ``fairmend check certificate.json models:/credit/1`` is VALID. A state dict,
    or another file for which MLflow has no flavor, is an artifact only.

    Parameters
    ----------
    result : the result of `fairmend.repair`, or the folder that `fairmend repair` wrote
    report : the report on the result, from `fairmend.report.repair_report`; a folder holds its own
    folder : the folder for the artifacts in the run
    flavor : "onnx", "keras", "pytorch" or "sklearn"; by default that of the model that was repaired: pytorch for a
        module, sklearn for an estimator, keras for a .keras file, and onnx
    """
    if flavor is not None and flavor not in _FLAVORS:
        raise FairmendError(f"flavor = {flavor!r:.40} is not one of {', '.join(_FLAVORS)}")
    mlflow = require_mlflow("logging to MLflow")
    with tempfile.TemporaryDirectory() as temporary:
        stage = Path(temporary)
        if isinstance(result, str | PathLike):
            if report is not None:
                raise FairmendError("the folder of a repair holds its own report. Leave out report")
            files, report = _files_of_folder(Path(result))
            flavored = _of_file(files[0], flavor)
        else:
            if report is not None and not isinstance(report.document, RepairDocument):
                raise FairmendError("the report is about an audit. Pass the report on the repair, or leave it out")
            files = _save(result, stage)
            flavored = _of_result(result, files[0], flavor)
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
        model = None if flavored is None else _model_folder(*flavored, files, stage / _MODEL)
        for file in files:
            mlflow.log_artifact(str(file), folder)
        if model is not None:
            mlflow.log_artifacts(str(model), f"{folder}/{_MODEL}")


# The model with its flavor


def _of_file(file: Path, flavor: str | None) -> tuple[str, Any] | None:
    """Return the flavor of a model file, and the model as MLflow takes it; None for a file without one."""
    found = _BY_SUFFIX.get(file.suffix.lower())
    if flavor is not None and flavor != found:
        which = "no flavor" if found is None else f"the flavor {found}"
        raise FairmendError(f"{file.name} has {which}; leave out flavor, or give the result of fairmend.repair")
    return None if found is None else (found, _loaded(found, file))


def _loaded(flavor: str, file: Path) -> Any:
    if flavor == "onnx":
        import onnx

        return onnx.load(file)
    keras = _import("keras", "keras")
    return keras.saving.load_model(file, compile=False, safe_mode=True)


def _of_result(result: RepairResult, file: Path, flavor: str | None) -> tuple[str, Any]:
    """Return the flavor of the model that was repaired, and the repaired model: module, estimator or ONNX file."""
    own, model = _in_memory(result)
    if flavor in (None, own):
        return own, model if own != "onnx" else _loaded("onnx", file)
    if flavor != "onnx":
        raise FairmendError(f"the repaired model is no {flavor} model; leave out flavor, or give flavor = {own!r}")
    return "onnx", _loaded("onnx", file)


def _in_memory(result: RepairResult) -> tuple[str, Any]:
    for method in ("to_estimator", "to_module"):
        try:
            model = getattr(result.network, method, lambda: None)()
        except FairmendError:  # it was repaired as a file, or as something else
            continue
        if model is not None:
            module = {base.__module__.partition(".")[0] for base in type(model).__mro__}
            return ("sklearn" if method == "to_estimator" else "keras" if "keras" in module else "pytorch"), model
    return "onnx", None


def _import(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FairmendError(f"logging this model to MLflow needs {package} ({error}): pip install {package}") from error


def _model_folder(flavor: str, model: Any, files: list[Path], target: Path) -> Path:
    """Let MLflow write a model folder; then give the model file the bytes that the certificate is about."""
    writer = _import(f"mlflow.{flavor}", "mlflow")
    known = inspect.signature(writer.save_model).parameters
    packages = {"onnx": ["onnxruntime"], "keras": ["keras"], "pytorch": ["torch"], "sklearn": ["fairmend"]}
    options: dict[str, Any] = {"pip_requirements": packages[flavor]}  # MLflow would run the model to find them
    if flavor == "onnx" and "save_as_external_data" in known:
        options["save_as_external_data"] = False
    if flavor in ("pytorch", "sklearn") and "serialization_format" in known:
        options["serialization_format"] = "pickle" if flavor == "pytorch" else "cloudpickle"
    writer.save_model(model, path=str(target), **options)
    for written in target.rglob(f"*{files[0].suffix}"):
        shutil.copyfile(files[0], written)
    for file in files:
        if file.name == _CERTIFICATE:
            shutil.copyfile(file, target / file.name)
    return target


# The files and figures


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

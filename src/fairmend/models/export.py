"""Export a repaired model to ONNX: the original's graph as its own library writes it, behind the entry."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line
from fairmend.models.entry import Entry
from fairmend.models.onnx_average import ScoredOutputs, add_average
from fairmend.models.onnx_entry import add_entry
from fairmend.models.onnx_file import OnnxRunner
from fairmend.models.run_model import RunModel
from fairmend.network import Network

if TYPE_CHECKING:
    from fairmend.models.repaired import RepairedModel

_CLOSE = 1e-3  # how far scores of an exported model may be from those of the original


def export_repaired(model: RepairedModel) -> tuple[bytes, Entry]:
    """Return the bytes of an ONNX file, and the entry that it has."""
    with tempfile.TemporaryDirectory() as folder:
        original = export_original(model.base, Path(folder))
        runner = OnnxRunner(original, model.base.runner.output if _is_file(model.base) else None)
        bound = _as_original(RunModel(runner, outputs=_kind(model.base, runner)), model)
        graph = onnx.load(str(original))
    entry = model.canonical.entry(bound.ports)
    if model.average is None:
        written = add_entry(graph, entry)
    else:
        written = add_average(graph, entry, model.average, _scored_outputs(graph, bound))
    return written.SerializeToString(), entry


def _is_file(base: Network | RunModel) -> bool:
    return isinstance(base, RunModel) and isinstance(base.runner, OnnxRunner)


def _kind(base: Network | RunModel, runner: OnnxRunner) -> str:
    """Return what the exported outputs are: those of a network's file are as it writes them."""
    return base.kind if isinstance(base, RunModel) else runner.kind


def export_original(base: Network | RunModel, folder: Path) -> Path:
    """Return the path of the original as an ONNX file: its own, or a new one in this folder."""
    path = folder / "original.onnx"
    if isinstance(base, Network):
        base.save(path, keep_form=base.form is not None and base.form.suffix == ".onnx")
        return path
    if isinstance(base.runner, OnnxRunner):
        return base.runner.path
    from fairmend.models.estimator import EstimatorRunner

    if isinstance(base.runner, EstimatorRunner):
        _export_estimator(base, path)
        return path
    from fairmend.models.module import ModuleRunner

    if isinstance(base.runner, ModuleRunner):
        base.runner.export(base.spec, base.ports, path)
        return path
    raise FairmendError(f"{base.runner.name} is a Python function, which no file holds; export the model that it calls")

"""Export a repaired model to ONNX: the original's graph as its own library writes it, behind the entry."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx.version_converter

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line
from fairmend.models.entry import Entry
from fairmend.models.onnx_average import ScoredOutputs, add_average, average_opset
from fairmend.models.onnx_entry import add_entry, needed_opset, opset_of
from fairmend.models.onnx_file import OnnxRunner
from fairmend.models.run_model import RunModel
from fairmend.network import Network
from fairmend.network.model import scores_of
from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.entry import read_entry
from fairmend_check.kernel.spec import read_spec
from fairmend_check.readers.onnx_edges import check_structure

if TYPE_CHECKING:
    from fairmend.models.repaired import RepairedModel

_OPSET = 17  # of the default operators, for a graph that has none of them
_IR_VERSION = 8  # of ONNX's format, the least that is written
_COMPARED = 256  # people on whom an exported model is compared with the original
_CLOSE = 1e-3  # how far scores of an exported model may be from those of the original


def export_repaired(model: RepairedModel) -> tuple[bytes, Entry]:
    """Return the bytes of an ONNX file, and the entry that it has; of several ways to export it, the first that works.

    It works if the file takes any number of rows, and scores people as the original does.
    """
    reasons = []
    for write in _ways(model.base, model.canonical.spec):
        with tempfile.TemporaryDirectory() as folder:
            try:
                return _export(model, write(Path(folder)), Path(folder))
            except FairmendError as error:
                reasons.append(str(error))
    raise FairmendError("; ".join(dict.fromkeys(reasons)))


def _ways(base: Network | RunModel, spec: Spec) -> list[Callable[[Path], Path]]:
    """Return what gives the path of the original as an ONNX file: its own, or a new one in a folder."""

    def saved(write: Callable[[Path], None]) -> Callable[[Path], Path]:
        def make(folder: Path) -> Path:
            write(folder / "exported-model.onnx")
            return folder / "exported-model.onnx"

        return make

    if isinstance(base, Network):
        return [saved(base.save), *(saved(write) for write in _exports_of_module(base, spec))]
    if isinstance(base.runner, OnnxRunner):
        path = base.runner.path
        return [lambda folder: path]
    return [saved(write) for write in base.runner.exports(spec, base.ports)]


def _exports_of_module(base: Network, spec: Spec) -> Sequence[Callable[[Path], None]]:
    """Return ways to write a network as its module is written, with the inputs that the spec names."""
    if not any(feature.input for feature in spec.features):
        return ()
    from fairmend.models.module import ModuleRunner

    try:
        runner = ModuleRunner(base.to_module())
        return runner.exports(spec, runner.ports(spec))
    except FairmendError:  # the network was not read from a module with these inputs
        return ()


def _export(model: RepairedModel, path: Path, folder: Path) -> tuple[bytes, Entry]:
    """Return the same for the original in a file."""
    base = model.base
    named = base.runner.output if isinstance(base, RunModel) and isinstance(base.runner, OnnxRunner) else None
    try:
        runner = OnnxRunner(path, named)
    except FairmendError as error:
        raise FairmendError(
            f"its converter writes a file that cannot be run: {error}. Export it to ONNX yourself, and repair that file"
        ) from error
    closed = "logit" if base.closing == "none" else "probability"
    original = RunModel(runner, outputs=base.kind if isinstance(base, RunModel) else closed)
    original = original.bind(model.canonical.spec)
    _require_same(base, original, model.canonical.spec)
    graph = onnx.load(str(path))
    entry = model.canonical.entry(original.ports)
    needed = max(needed_opset(entry), 0 if model.average is None else average_opset(model.average, entry.ports))
    _name_operators_once(graph)
    _fix_constants(graph)
    if not opset_of(graph):
        graph.opset_import.append(onnx.helper.make_opsetid("", max(needed, _OPSET)))
    elif opset_of(graph) < needed:
        graph = _with_opset(graph, needed, folder / "newer.onnx")
        newer = RunModel(OnnxRunner(folder / "newer.onnx", runner.output), outputs=original.kind)
        _require_same(original, newer.bind(model.canonical.spec), model.canonical.spec)
    _declare_widths(graph, entry)
    if model.average is None:
        written = add_entry(graph, entry)
    else:
        given = base.runner.labels if isinstance(base, RunModel) else ()
        written = add_average(graph, entry, model.average, _scored_outputs(graph, original, runner, given))
    content = written.SerializeToString()
    (folder / "repaired.onnx").write_bytes(content)
    repaired = RunModel(OnnxRunner(folder / "repaired.onnx", runner.output), outputs=original.kind)
    _require_same(model, repaired.bind(model.canonical.spec), model.canonical.spec, "repaired model")
    _require_checked(folder / "repaired.onnx", entry, model.canonical.spec)
    return content, entry


def _declare_widths(graph: onnx.ModelProto, entry: Entry) -> None:
    """Declare how many columns the inputs have, where a model leaves that open."""
    widths = {port.name: width for port, width in zip(entry.ports, entry.widths, strict=True) if port.rank == 2}
    for given in graph.graph.input:
        if given.name in widths:
            given.type.tensor_type.shape.dim[1].dim_value = widths[given.name]


def _require_checked(path: Path, entry: Entry, spec: Spec) -> None:
    """Raise an error if the checker does not read a repaired file: the repair leaves what is behind the entry."""
    read = read_spec(spec.with_about(None).to_dict(), "spec")
    try:
        check_structure(path, read_entry(entry.to_dict(), read))
    except CheckError as error:
        raise FairmendError(f"fairmend check refuses the repaired file: {error}") from error


def _name_operators_once(graph: onnx.ModelProto) -> None:
    """Leave out versions of operators that a model names twice, as skl2onnx does."""
    named = {(each.domain, each.version): each for each in graph.opset_import}
    kept = [onnx.helper.make_opsetid(*each) for each in named]
    del graph.opset_import[:]
    graph.opset_import.extend(kept)


def _fix_constants(graph: onnx.ModelProto) -> None:
    """Let callers no longer replace constants, which the first versions of ONNX's format allow."""
    if graph.ir_version >= _IR_VERSION:
        return
    constants = {each.name for each in graph.graph.initializer}
    inputs = [each for each in graph.graph.input if each.name not in constants]
    del graph.graph.input[:]
    graph.graph.input.extend(inputs)
    graph.ir_version = _IR_VERSION


def _with_opset(graph: onnx.ModelProto, needed: int, path: Path) -> onnx.ModelProto:
    """Return a model with newer operators that compute the same, and write it to a file to try it."""
    try:
        newer = onnx.version_converter.convert_version(graph, needed)
        onnx.save(newer, str(path))
    except Exception as error:  # the converter fails in its own ways
        raise FairmendError(
            f"the model has operators of opset {opset_of(graph)}, the repair needs those of opset {needed}, and ONNX "
            f"cannot convert it ({first_line(error)}). Export it with opset {needed}"
        ) from error
    return newer


def _require_same(base: Network | RunModel, exported: RunModel, spec: Spec, what: str = "original") -> None:
    """Raise an error if an exported model does not score people as the original does, or the repaired one."""
    X = spec.sample_inputs(_COMPARED, np.random.default_rng(0), np.float64)
    before, after = (model.logits(X.astype(model.dtype)).astype(np.float64) for model in (base, exported))
    if before.ndim != after.ndim:  # two logits, or the difference between them
        before, after = (each if each.ndim == 1 else each[:, 1] - each[:, 0] for each in (before, after))
    far = np.abs(before - after) > _CLOSE * np.maximum(1.0, np.abs(before))
    if not spec.regression:  # a probability next to 0 or 1 has log-odds that its rounding decides
        shares = [scores_of(logits, "probability").reshape(far.shape) for logits in (before, after)]
        far &= np.abs(shares[0] - shares[1]) > _CLOSE / 4
    if far.any():
        scores = "outputs" if spec.regression else "log-odds"
        raise FairmendError(
            f"the exported model scores {int(far.sum())} of {len(X)} people otherwise than the {what}: the {scores} "
            f"differ by up to {np.abs(before - after).max():.3g}. Export it to ONNX yourself, and repair that file"
        )


def _scored_outputs(
    graph: onnx.ModelProto, original: RunModel, runner: OnnxRunner, given: tuple[str, ...]
) -> ScoredOutputs:
    """Return which values of a graph hold scores and labels; `given` names the classes if the graph does not."""
    made = {name: node for node in graph.graph.node for name in node.output}
    producer = made.get(runner.output)
    zipped = producer if producer is not None and producer.op_type == "ZipMap" else None
    score = runner.output if zipped is None else zipped.input[0]
    label, kind = runner.label_output or (None, "")
    names = runner.labels or given
    return ScoredOutputs(
        score=score,
        kind=original.kind,
        columns=original.columns,
        rank=2 if zipped is not None else runner.output_rank,
        label=label,
        labels=_typed(names, kind) if label is not None else (),
        reversed=original.reversed,
    )


def _typed(labels: tuple[str, ...], kind: str) -> tuple[str | int, ...]:
    if not labels:
        raise FairmendError("the model gives labels that its graph does not name. Export its scores alone")
    return labels if kind == "string" else tuple(int(each) for each in labels)

"""Export a PyTorch module to ONNX, with an open batch dimension and the names of its arguments."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line

_OPSET = 18


class _Scores(nn.Module):
    """A module that takes tensors in order, and gives the scores alone."""

    def __init__(
        self, module: nn.Module, names: Sequence[str], call: Callable[[Mapping[str, Any]], torch.Tensor]
    ) -> None:
        super().__init__()
        self.module, self.names, self.call = module, tuple(names), call

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.call(dict(zip(self.names, tensors, strict=True)))


class Closed(nn.Module):
    """A module with what an estimator does to its output, the first of several."""

    def __init__(self, module: nn.Module, closing: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Take the module and the function behind it."""
        super().__init__()
        self.module, self.closing = module, closing

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the estimator gives."""
        given = self.module(x)
        return self.closing(given[0] if isinstance(given, tuple) else given)


def export_module(
    module: nn.Module,
    tensors: Mapping[str, torch.Tensor],
    call: Callable[[Mapping[str, Any]], torch.Tensor],
    exporter: str,
    path: Path,
) -> None:
    """Write a module to an ONNX file; `tensors` are an example of what `call` gives it, by the names of the inputs."""
    wrapped = _Scores(module, list(tensors), call).eval()
    try:
        with quiet(), _no_fused_layers(), torch.no_grad():
            EXPORTERS[exporter](wrapped, tensors, path)
    except Exception as error:  # an exporter fails in its own ways
        raise FairmendError(
            f"{exporter} cannot export {type(module).__name__} to ONNX ({type(error).__name__}: {first_line(error)})"
        ) from error


def _export_program(
    wrapped: _Scores, tensors: Mapping[str, torch.Tensor], path: Path, decomposed: bool = False
) -> None:
    rows = torch.export.Dim.AUTO if decomposed else torch.export.Dim.DYNAMIC
    shapes = (tuple({0: rows} for _ in tensors),)
    given: Any = wrapped
    if decomposed:
        program = torch.export.export(wrapped, tuple(tensors.values()), dynamic_shapes=shapes, strict=False)
        given = program.run_decompositions()
    written = torch.onnx.export(
        given,
        tuple(tensors.values()),
        dynamo=True,
        input_names=list(tensors),
        output_names=["scores"],
        dynamic_shapes=None if decomposed else shapes,
        opset_version=_OPSET,
        verbose=False,
    )
    assert written is not None
    written.save(str(path))


def _export_trace(wrapped: _Scores, tensors: Mapping[str, torch.Tensor], path: Path, opset: int = 17) -> None:
    torch.onnx.register_custom_op_symbolic("aten::column_stack", _column_stack, opset)  # type: ignore[attr-defined]
    try:
        torch.onnx.export(
            wrapped,
            tuple(tensors.values()),
            str(path),
            dynamo=False,
            input_names=list(tensors),
            output_names=["scores"],
            dynamic_axes={name: {0: "batch"} for name in (*tensors, "scores")},
            opset_version=opset,
        )
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::column_stack", opset)  # type: ignore[attr-defined]


def _column_stack(graph: Any, tensors: Any) -> Any:
    """Write torch.column_stack of matrices, which TorchScript's exporter does not know: as TabM joins its columns."""
    parts = list(tensors.node().inputs())
    if any(part.type().scalarType() == "Float" for part in parts):
        parts = [graph.op("Cast", part, to_i=onnx.TensorProto.FLOAT) for part in parts]
    return graph.op("Concat", *parts, axis_i=1)


EXPORTERS: dict[str, Callable[[_Scores, Mapping[str, torch.Tensor], Path], None]] = {
    "torch.export": _export_program,
    "torch.export, decomposed": partial(_export_program, decomposed=True),
    "TorchScript": _export_trace,
}
"""How PyTorch exports modules, the newer ways first; the second writes operators that the first has no ONNX for."""


@contextlib.contextmanager
def _no_fused_layers() -> Any:
    """Let nn.TransformerEncoder compute step by step: no exporter writes its fused operator of evaluation mode."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


@contextlib.contextmanager
def quiet() -> Any:
    """Keep exporters from printing and warning about their own work."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "tensorflow", "tf2onnx")]
    levels = [each.level for each in loggers]
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        for each in loggers:
            each.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for each, level in zip(loggers, levels, strict=True):
                each.setLevel(level)

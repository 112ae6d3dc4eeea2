"""Export a PyTorch module to ONNX, with an open batch dimension and the names of its arguments."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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


def export_module(
    module: nn.Module,
    tensors: Mapping[str, torch.Tensor],
    call: Callable[[Mapping[str, Any]], torch.Tensor],
    path: Path,
) -> None:
    """Write a module to an ONNX file; `tensors` are an example of what `call` gives it, by the names of the inputs.

    Some modules can only be exported by PyTorch's newer exporter, some only by the older one.
    """
    wrapped = _Scores(module, list(tensors), call).eval()
    reasons = []
    for export in (_export_program, _export_trace):
        try:
            with _quiet(), torch.no_grad():
                export(wrapped, tensors, path)
            return
        except Exception as error:  # noqa: PERF203  # an exporter fails in its own ways, and the other follows
            reasons.append(first_line(error))
    raise FairmendError(
        f"PyTorch cannot export {type(module).__name__} to ONNX ({reasons[0]}; the older exporter: {reasons[1]}). "
        "Export it to ONNX yourself, and repair that file"
    )


def _export_program(wrapped: _Scores, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=2**20)
    program = torch.onnx.export(
        wrapped,
        tuple(tensors.values()),
        dynamo=True,
        input_names=list(tensors),
        output_names=["scores"],
        dynamic_shapes=(tuple({0: batch} for _ in tensors),),
        opset_version=_OPSET,
        verbose=False,
    )
    assert program is not None
    program.save(str(path))


def _export_trace(wrapped: _Scores, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    torch.onnx.export(
        wrapped,
        tuple(tensors.values()),
        str(path),
        dynamo=False,
        input_names=list(tensors),
        output_names=["scores"],
        dynamic_axes={name: {0: "batch"} for name in (*tensors, "scores")},
        opset_version=_OPSET,
    )


@contextlib.contextmanager
def _quiet() -> Any:
    """Keep exporters from printing and warning about their own work."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
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

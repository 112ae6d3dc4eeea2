"""PyTorch modules, run as they are: in evaluation mode, without gradients, and left in the mode that they were in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.models.ports import InputSignature, Port, ports_of
from fairmend.models.run_model import Runner
from fairmend.spec import Spec

_PROBABILITIES = (nn.Sigmoid, nn.Softmax)
_PASSING = ("View", "Squeeze", "Unsqueeze", "Reshape", "UnsafeView", "Select", "Slice", "Clone", "ToCopy", "Alias")
_NUMPY = (torch.float16, torch.float32, torch.float64)
_EXAMPLES = 23  # rows from which an exporter learns what a module computes; not a number that tensors have anyway


class ModuleRunner(Runner):
    """Runs a module: on one tensor, or on tensors by the names of forward's arguments."""

    def __init__(self, module: nn.Module) -> None:
        """Take a module, which is not changed."""
        self.name, self._module = type(module).__name__, module
        self.runtime = f"PyTorch {torch.__version__.partition('+')[0]}"
        numbers = next((each for each in module.parameters() if each.is_floating_point()), None)
        double = numbers is not None and numbers.dtype == torch.float64
        self._device = torch.device("cpu") if numbers is None else numbers.device
        self.dtype = np.dtype(np.float64 if double else np.float32)
        self.kind = "probability" if isinstance(_last_layer(module), _PROBABILITIES) else "logit"
        self._arguments = _arguments(module)

    def ports(self, spec: Spec) -> tuple[Port, ...]:
        """Return the tensors that forward takes; named ones with categories alone hold whole numbers."""
        named = [f.input for f in spec.features if f.input is not None]
        if not named:
            required = [name for name, needed in self._arguments.items() if needed]
            if len(required) > 1:
                raise FairmendError(
                    f"{self.name}: forward takes {len(required)} arguments ({', '.join(required)}); say which reads a "
                    'feature with input = "…" in the spec'
                )
            name = required[0] if required else "x"
            return ports_of([InputSignature(name, self.dtype.name)], spec, self.name)
        signature = [InputSignature(name, self._type(spec, name)) for name in dict.fromkeys(named)]
        return ports_of(signature, spec, self.name)

    def _type(self, spec: Spec, name: str) -> str:
        features = [f for f in spec.features if f.input == name]
        codes = all(f.kind == "categorical" and not f.one_hot and f.scale is None for f in features)
        return "int64" if codes else self.dtype.name

    def run(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> NDArray[Any]:
        """Return what forward gives: its tensor, that named "logits", or the only one with scores of the rows."""
        with _evaluation(self._module), torch.inference_mode():
            found = self.scores(self.tensors(spec, ports, X)).detach().to("cpu")
        # NumPy has no bfloat16.
        return (found if found.dtype in _NUMPY or not found.is_floating_point() else found.float()).numpy()

    def closing_kind(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> str:
        """Return what the outputs are, as the last step that computed them for rows X tells; else the kind so far."""
        tensors = self.tensors(spec, ports, X)
        tensors = {n: each.requires_grad_() if each.is_floating_point() else each for n, each in tensors.items()}
        with _evaluation(self._module), torch.enable_grad():
            closed = _closes_in_probabilities(self.scores(tensors))
        return "probability" if closed else self.kind

    def tensors(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> dict[str, torch.Tensor]:
        """Return what forward takes for rows X (rows, width), by the names of ports."""
        # from_numpy would share the memory of rows with a module that may write to it.
        return {port.name: torch.tensor(port.values(spec, X), device=self._device) for port in ports}

    @property
    def module(self) -> nn.Module:
        """The module itself."""
        return self._module

    def scores(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the scores of tensors, by the names of ports."""
        return pick_scores(self._call(tensors), next(iter(tensors.values())).shape[0], self.name)

    def exports(self, spec: Spec, ports: Sequence[Port]) -> Sequence[Callable[[Path], None]]:
        """Return ways to write the module to an ONNX file: some modules only have one that works."""
        from fairmend.models.export_module import EXPORTERS, export_module

        X = spec.sample_inputs(_EXAMPLES, np.random.default_rng(0), self.dtype)

        def write(exporter: str, path: Path) -> None:
            with _evaluation(self._module):
                export_module(self._module, self.tensors(spec, ports, X), self.scores, exporter, path)

        return [partial(write, exporter) for exporter in EXPORTERS]

    def _call(self, tensors: Mapping[str, torch.Tensor]) -> Any:
        required = [name for name, needed in self._arguments.items() if needed]
        if set(tensors) <= set(self._arguments):
            # An argument that no feature belongs to is left out if it can be, and None otherwise.
            return self._module(**tensors, **{name: None for name in required if name not in tensors})
        if len(tensors) == 1 and len(required) <= 1:
            return self._module(*tensors.values())
        if len(required) <= 1:
            return self._module(dict(tensors))
        names = ", ".join(self._arguments)
        raise FairmendError(f"{self.name}: forward takes {names}; the spec names the inputs {', '.join(tensors)}")


def _arguments(module: nn.Module) -> dict[str, bool]:
    """Return the arguments of forward, and whether each is required."""
    found = inspect.signature(module.forward).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {each.name: each.default is inspect.Parameter.empty for each in found if each.kind in kinds}


def _last_layer(module: nn.Module) -> nn.Module:
    """Return the layer that a chain of modules ends in."""
    while isinstance(module, nn.Sequential) and len(module):
        module = module[-1]
    return module


def pick_scores(given: Any, rows: int, name: str) -> torch.Tensor:
    """Return the tensor with the scores: the one named "logits", or the only one with a number for each row."""
    if isinstance(given, Mapping) and "logits" in given:
        given = given["logits"]
    elif not isinstance(given, torch.Tensor | Mapping | tuple | list):
        given = getattr(given, "logits", given)
    if isinstance(given, torch.Tensor):
        return given
    parts = list(given.values()) if isinstance(given, Mapping) else given if isinstance(given, tuple | list) else []
    found = [part for part in parts if isinstance(part, torch.Tensor) and part.is_floating_point()]
    found = [part for part in found if part.ndim in (1, 2) and part.shape[0] == rows]
    if len(found) != 1:
        raise FairmendError(
            f"{name}: forward gives {len(found)} tensors that may hold scores; give a function that returns one of them"
        )
    return found[0]


def _closes_in_probabilities(scores: torch.Tensor) -> bool:
    """Return whether a sigmoid or softmax computed a tensor, past what only reshapes it."""
    step: Any = scores.grad_fn
    while step is not None and type(step).__name__.startswith(_PASSING):
        step = step.next_functions[0][0] if step.next_functions else None
    return type(step).__name__.startswith(("SigmoidBackward", "SoftmaxBackward"))


@contextmanager
def _evaluation(module: nn.Module) -> Iterator[None]:
    """Put a module and all its parts into evaluation mode, and back."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True

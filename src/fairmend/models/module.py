"""PyTorch modules, run as they are: in evaluation mode, without gradients, and left in the mode that they were in."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
_EXAMPLES = 4  # rows from which an exporter learns what a module computes


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
        """Return what forward gives: its tensor, the first of several, or the one named "logits"."""
        with _evaluation(self._module), torch.inference_mode():
            found = self.scores(self.tensors(spec, ports, X))
        return found.detach().to("cpu", torch.float64 if found.dtype == torch.float64 else torch.float32).numpy()

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
        return _scores(self._call(tensors), self.name)

    def export(self, spec: Spec, ports: Sequence[Port], path: Path) -> None:
        """Write the module to an ONNX file."""
        from fairmend.models.export_module import export_module

        X = spec.sample_inputs(_EXAMPLES, np.random.default_rng(0), self.dtype)
        with _evaluation(self._module):
            export_module(self._module, self.tensors(spec, ports, X), self.scores, path)

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
    if type(module).forward is not nn.Module.forward and not isinstance(module, nn.Sequential):
        children = list(module.children())
        return _last_layer(children[-1]) if children else module
    return module


def _scores(given: Any, name: str) -> torch.Tensor:
    """Return the tensor with the scores."""
    if isinstance(given, Mapping):
        given = given.get("logits", next(iter(given.values())) if len(given) == 1 else None)
    elif isinstance(given, tuple | list) and given:
        given = given[0]
    elif not isinstance(given, torch.Tensor):
        given = getattr(given, "logits", None)
    if not isinstance(given, torch.Tensor):
        raise FairmendError(f"{name}: forward gives no tensor; let it give the logits, or a dict with logits")
    return given


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

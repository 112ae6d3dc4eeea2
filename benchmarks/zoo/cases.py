"""The networks of the zoo: how each is made, handed to fairmend, saved again, and run by its framework."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import fairmend
from benchmarks.zoo import keras_networks, package_networks, sklearn_networks, torch_networks
from benchmarks.zoo.data import People


@dataclass(frozen=True)
class Case:
    """A network of one class of the zoo. ``raw`` says whether it reads raw columns.

    ``make(people, folder)`` trains it and returns a model as ``decide(model, X)`` runs it in its framework.
    ``source(model)`` is what its owner gives to fairmend, and ``save(network, model, path)`` saves the repaired network
    and loads that file in the framework, strictly.
    """

    name: str
    kind: str
    framework: str
    raw: bool
    suffix: str
    make: Callable[[People, Path], Any]
    source: Callable[[Any], Any]
    save: Callable[[Any, Any, Path], Any]
    decide: Callable[[Any, np.ndarray], np.ndarray]


def all_cases() -> Iterator[Case]:
    """Yield every network of the classes A to E."""
    yield from _modules()
    yield from _state_dicts()
    yield from _exports()
    yield from _programs()
    yield from keras_networks.cases(Case)
    yield from sklearn_networks.cases(Case)
    yield from package_networks.cases(Case)


def by_classes(case: Case, *, probability: bool) -> Case:
    """Return a case whose network is repaired by classes of similar people: saved as ONNX, it closes as before."""

    def save(network: Any, model: Any, path: Path) -> _File:
        network.save(path)
        return _File(path, probability)

    return replace(case, suffix=".onnx", save=save, decide=_run_onnx)


def _modules() -> Iterator[Case]:
    import torch

    def save(network: Any, model: Any, path: Path) -> Any:
        network.save(path)
        again = network.to_module()
        # Weights that were computed, as by a weight norm, are saved as what they are: the copy computes none.
        computed = any(map(torch.nn.utils.parametrize.is_parametrized, model.modules()))
        loaded = copy.deepcopy(again if computed else model)
        inner = loaded.module if isinstance(loaded, torch.nn.DataParallel) else loaded
        inner.load_state_dict(torch.load(path, weights_only=True), strict=True)
        assert type(again) is type(inner)
        return loaded

    for name, (kind, raw, make) in torch_networks.MODULES.items():
        yield Case(
            name, kind, "PyTorch module", raw, ".pth",
            lambda people, folder, make=make: torch_networks.train(make(), *people.training),
            lambda model: model, save, torch_networks.decisions,
        )  # fmt: skip


def _state_dicts() -> Iterator[Case]:
    """Yield state dicts in a file, whose owner loads them into a module of the same class."""
    for name in torch_networks.STATE_DICTS:
        kind, raw, make = torch_networks.MODULES[name]
        for suffix in (".pth", ".safetensors", ".ckpt"):
            yield Case(
                name, kind, "PyTorch state dict", raw, suffix,
                lambda people, folder, make=make, suffix=suffix: _written(make, people, folder / f"model{suffix}"),
                lambda model: fairmend.load_network(model.path, "relu"),
                lambda network, model, path: (network.save(path), _StateDict(path, model.make))[1],
                lambda model, X: torch_networks.decisions(_loaded(model), X),
            )  # fmt: skip


@dataclass(frozen=True)
class _StateDict:
    """A file with a state dict, and how the module that it belongs to is made."""

    path: Path
    make: Callable[[], Any]


def _written(make: Callable[[], Any], people: People, path: Path) -> _StateDict:
    import torch
    from safetensors.torch import save_file

    tensors = torch_networks.train(make(), *people.training).state_dict()
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save({"state_dict": tensors, "epoch": 3} if path.suffix == ".ckpt" else tensors, path)
    return _StateDict(path, make)


def _loaded(model: _StateDict) -> Any:
    import torch
    from safetensors.torch import load_file

    module = model.make()
    if model.path.suffix == ".safetensors":
        tensors = load_file(model.path)
    else:
        tensors = torch.load(model.path, weights_only=True)
        tensors = tensors["state_dict"] if model.path.suffix == ".ckpt" else tensors
    module.load_state_dict(tensors, strict=True)
    return module.eval()


@dataclass(frozen=True)
class _File:
    """A file, and whether its one output is a probability."""

    path: Path
    probability: bool


def _exports() -> Iterator[Case]:
    for name in torch_networks.EXPORTED:
        kind, raw, make = torch_networks.MODULES[name]
        for exporter, dynamo in (("ONNX, torch.export", True), ("ONNX, TorchScript", False)):
            yield Case(
                name, kind, exporter, raw, ".onnx",
                lambda people, folder, make=make, dynamo=dynamo: _exported(make, people, folder, dynamo),
                lambda model: model.path,
                lambda network, model, path: (network.save(path), _File(path, model.probability))[1],
                _run_onnx,
            )  # fmt: skip


def _exported(make: Callable[[], Any], people: People, folder: Path, dynamo: bool) -> _File:
    import torch

    module = torch_networks.train(make(), *people.training)
    rows = torch_networks.arguments(module, people.judged[:2])
    path = folder / "model.onnx"
    names = {"input_names": ["x"], "output_names": ["y"]}
    if dynamo:
        batch = {0: torch.export.Dim("batch")}
        torch.onnx.export(module, rows, path, dynamo=True, dynamic_shapes=(batch,), verbose=False, **names)
    else:
        torch.onnx.export(module, rows, path, dynamo=False, dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, **names)
    return _File(path, torch_networks.gives_probability(module))


def _run_onnx(model: _File, X: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: X})[-1]
    if outputs.ndim == 2 and outputs.shape[1] == 2:
        return outputs.argmax(axis=1)
    return (outputs.reshape(-1) >= (0.5 if model.probability else 0)).astype(np.int64)


def _programs() -> Iterator[Case]:
    for name in torch_networks.SAVED_PROGRAMS:
        kind, raw, make = torch_networks.MODULES[name]
        yield Case(
            name, kind, "torch.export (.pt2)", raw, ".pt2",
            lambda people, folder, make=make: _program(make, people, folder),
            lambda model: model.path,
            lambda network, model, path: (network.save(path), _File(path, model.probability))[1],
            _run_program,
        )  # fmt: skip


def _program(make: Callable[[], Any], people: People, folder: Path) -> _File:
    import torch

    module = torch_networks.train(make(), *people.training)
    rows = torch_networks.arguments(module, people.judged[:2])
    program = torch.export.export(module, rows, dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, folder / "model.pt2")
    return _File(folder / "model.pt2", torch_networks.gives_probability(module))


def _run_program(model: _File, X: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        outputs = torch.export.load(model.path).module()(torch.from_numpy(np.ascontiguousarray(X))).numpy()
    if outputs.ndim == 2 and outputs.shape[1] == 2:
        return outputs.argmax(axis=1)
    return (outputs.reshape(-1) >= (0.5 if model.probability else 0)).astype(np.int64)

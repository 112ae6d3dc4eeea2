"""What a model that is only run is: how it is made, what its owner gives to fairmend, and how its framework runs it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.zoo.run_only.people import CODES, NUMBERS, Reading

MODULE, ESTIMATOR, CALLABLE, KERAS = "module", "estimator", "callable", "Keras model"
DYNAMO, TORCHSCRIPT, CONVERTED = "ONNX, torch.export", "ONNX, TorchScript", "ONNX, converted"
BOTH = (DYNAMO, TORCHSCRIPT)
BY_PROBABILITIES = ("SVC", "GaussianProcess")  # estimators whose predict() gives other classes than predict_proba()
OTHER_ROWS = "who else is in the batch"  # why a model is refused
PROTECTED = (("sex",), ("sex", "race"), ("sex", "age"))

Rows = pd.DataFrame | np.ndarray
Make = Callable[[Rows, np.ndarray, Path], Any]  # training rows, labels and a folder for files


@dataclass(frozen=True)
class Model:
    """A model of a library. ``make(X, y, folder)`` trains it and returns what its owner gives to fairmend.

    ``form`` says what that is: a module, an estimator with `predict_proba`, a callable, a model of Keras, or the path
    of an ONNX file, which is made in one of three ways. ``output`` says what it computes for a person: one "logit" or
    "probability", or two "logits" or "probabilities", of the classes 0 and 1. ``refused`` is what a refusal must name,
    if this model cannot be repaired for everyone. ``fails_alone`` tells that it fails on a single person, which a
    repaired one does not, as it runs several members of a class.
    """

    name: str
    library: str
    form: str
    reading: Reading
    output: str
    make: Make
    refused: str = ""
    fails_alone: bool = False

    @property
    def protected(self) -> tuple[str, ...]:
        """What is protected: another choice for each model, which stays the same when other models are added."""
        return PROTECTED[zlib.crc32(f"{self.library} {self.form} {self.name}".encode()) % len(PROTECTED)]

    def accepts(self, scores: np.ndarray) -> np.ndarray:
        """Return who is accepted, bool (rows,), ties included; of two equal logits, the first one decides.

        So do estimators where two probabilities are equal, and the labels of files that are made of them.
        """
        if self.output == "logits":
            return scores > 0
        if self.output == "probabilities" and self.form in (ESTIMATOR, CONVERTED):
            return scores > 0.5
        return scores >= (0.5 if self.output.startswith("prob") else 0.0)

    def build(self, X: Rows, y: np.ndarray, folder: Path) -> Any:
        """Return the model, the same at every call."""
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - what libraries draw from
        torch.manual_seed(0)
        return self.make(X, y, folder)

    def scores(self, made: Any, X: Rows) -> np.ndarray:
        """Return the score of each person (rows,), computed by the framework of what is given, also when repaired."""
        outputs = np.asarray(self._run(made, X), dtype=np.float64)
        if self.output in ("logit", "probability"):
            return outputs.reshape(len(X))
        if self.output == "logits":
            return outputs[:, 1] - outputs[:, 0]
        return outputs[:, 1]

    def _run(self, made: Any, X: Rows) -> Any:
        if self.form == MODULE:
            return run_module(made, self.reading.arguments(X))
        if self.form == ESTIMATOR:
            return made.predict_proba(X)
        if self.form == CALLABLE:
            return made(X)
        if self.form == KERAS:
            return run_keras(made, X)
        return run_onnx(made, X, self.reading)

    def repaired(self, result: Any, path: Path) -> Any:
        """Return what a repair gives back, as the framework runs it: the saved file for a file, else an object."""
        if self.form == MODULE:
            return result.module
        if self.form in (ESTIMATOR, CALLABLE, KERAS):
            return result.model
        result.model.save(path)
        return path


def installed(library: str, *packages: str) -> bool:
    """Return whether all packages are there, and say which are not."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        print(f"skipped {library}: {' and '.join(missing)} not installed", flush=True)
    return not missing


def declare_vision_operators() -> None:
    """Let torchvision be imported whatever build it is: one for CUDA declares operators in code that needs CUDA."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(library)


_DECLARED: list[torch.library.Library] = []  # a declaration lasts as long as its library


def run_module(module: torch.nn.Module, arguments: Iterable[np.ndarray]) -> np.ndarray:
    """Return the outputs of a module; of several, the last one."""
    with torch.no_grad():
        outputs = module(*map(torch.from_numpy, arguments))
    return (outputs[-1] if isinstance(outputs, tuple) else outputs).numpy()


def run_keras(model: Any, X: Rows) -> np.ndarray:
    """Return the outputs of a model of Keras on TensorFlow."""
    return model(keras_inputs(X), training=False).numpy()


def keras_inputs(X: Rows) -> Any:
    """Return a matrix as it is, and a table as one tensor for each column."""
    if isinstance(X, np.ndarray):
        return X
    import tensorflow as tf

    text = {name: tf.constant(X[[name]].to_numpy(dtype=str)) for name in CODES}
    return text | {name: tf.constant(X[[name]].to_numpy(np.float32)) for name in NUMBERS}


def train_module(module: torch.nn.Module, arguments: Iterable[np.ndarray], y: np.ndarray, output: str) -> Any:
    """Train a module for some steps, and return it in eval mode."""
    given, labels = [torch.from_numpy(array) for array in arguments], torch.from_numpy(y)
    optimizer = torch.optim.AdamW([weight for weight in module.parameters() if weight.requires_grad], lr=0.01)
    module.train()
    for _ in range(30):
        optimizer.zero_grad()
        outputs = module(*given)
        if output == "logits":
            loss = torch.nn.functional.cross_entropy(outputs, labels)
        elif output == "logit":
            loss = torch.nn.functional.binary_cross_entropy_with_logits(outputs.reshape(-1), labels.float())
        else:
            loss = torch.nn.functional.binary_cross_entropy(outputs.reshape(-1), labels.float())
        loss.backward()
        optimizer.step()
    return module.eval()


def export_module(
    module: torch.nn.Module, reading: Reading, X: np.ndarray, path: Path, form: str, one_row: bool = False
) -> Path:
    """Write a module as ONNX, for any number of rows or for one at a time."""
    arguments = tuple(map(torch.from_numpy, reading.arguments(X[: 1 if one_row else 3])))
    names = list(reading.inputs or ["x"])
    options: dict[str, Any] = {"input_names": names, "output_names": ["y"]}
    if form == DYNAMO:
        batch = torch.export.Dim("batch")
        shapes = None if one_row else tuple({0: batch} for _ in names)
        torch.onnx.export(module, arguments, path, dynamo=True, dynamic_shapes=shapes, verbose=False, **options)
    else:
        axes = None if one_row else {name: {0: "batch"} for name in [*names, "y"]}
        torch.onnx.export(module, arguments, path, dynamo=False, dynamic_axes=axes, opset_version=17, **options)
    return path


def run_onnx(path: Path, X: Rows, reading: Reading) -> Any:
    """Return the last output of a file; a table has one input for each column, a matrix is divided among the inputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    if isinstance(X, pd.DataFrame):
        types = {"tensor(string)": object, "tensor(int64)": np.int64, "tensor(float)": np.float32}
        feed = {given.name: X[[given.name]].to_numpy().astype(types[given.type]) for given in inputs}
    else:
        feed = {given.name: part for given, part in zip(inputs, reading.arguments(X), strict=True)}
    if inputs[0].shape[0] == 1:  # the exporter fixed the number of rows
        rows = ({name: part[i : i + 1] for name, part in feed.items()} for i in range(len(X)))
        return np.concatenate([np.asarray(session.run(None, row)[-1]).reshape(1, -1) for row in rows])
    outputs = session.run(None, feed)[-1]
    return [[row[0], row[1]] for row in outputs] if isinstance(outputs, list) else outputs


Table = Mapping[str, tuple[Reading, str, Callable[[], torch.nn.Module]]]
Fit = Callable[[Any, list[np.ndarray], np.ndarray, str], Any]


def module_models(
    library: str,
    table: Table,
    exported: Mapping[str, Iterable[str]],
    *,
    fit: Fit = train_module,
    one_row: Iterable[str] = (),
    refused: Mapping[str, str] | None = None,
    fails_alone: Iterable[str] = (),
) -> Iterator[Model]:
    """Yield the modules of a table, name: (reading, output, how it is made), and ONNX files with some of them.

    ``exported`` has the forms of a file by the module's name; those in ``one_row`` can only be exported for one row.
    """

    def maker(name: str, form: str) -> Make:
        reading, output, make = table[name]

        def build(X: Rows, y: np.ndarray, folder: Path) -> Any:
            module = fit(make(), reading.arguments(X), y, output)
            if form == MODULE:
                return module
            return export_module(module, reading, X, folder / "model.onnx", form, name in one_row)

        return build

    for name, (reading, output, _) in table.items():
        for form in (MODULE, *exported.get(name, ())):
            why = (refused or {}).get(name, "")
            yield Model(name, library, form, reading, output, maker(name, form), why, name in fails_alone)

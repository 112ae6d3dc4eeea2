"""Networks of skorch, Lightning and tf2onnx, which the zoo does not need: each is skipped where it is missing."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo import keras_networks, torch_networks
from benchmarks.zoo.data import People

TF2ONNX = ["relu", "leaky_relu", "selu", "hard_sigmoid", "silu", "mish", "functional with a skip", "nested", "PReLU"]
# TensorFlow runs in a process of its own: the zoo's Keras runs on PyTorch.
_CONVERT = """
    import sys
    import keras
    import tf2onnx.convert
    model, folder, path = sys.argv[1:]
    keras.models.load_model(model, compile=False).export(folder, verbose=False)
    sys.argv = ["tf2onnx", "--saved-model", folder, "--output", path]
    tf2onnx.convert.main()
"""


def cases(case: type) -> Iterator[Any]:
    """Yield the networks of the packages that are installed, and say which are not."""
    parts = {("skorch",): _skorch, ("lightning",): _lightning, ("tf2onnx", "tensorflow"): _tf2onnx}
    for packages, part in parts.items():
        missing = [name for name in packages if find_spec(name) is None]
        if missing:
            print(f"skipped {' and '.join(missing)}: not installed", flush=True)
        else:
            yield from part(case)


def _skorch(case: type) -> Iterator[Any]:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
    from torch import nn

    options = {"max_epochs": 20, "lr": 0.1, "verbose": 0}

    def several() -> Any:
        module = nn.Sequential(torch_networks.plain(nn.ReLU, 2), nn.Softmax(1))
        return NeuralNetClassifier(module, **options)

    def binary() -> Any:
        return NeuralNetBinaryClassifier(torch_networks.MODULES["ResNet"][2](), **options)

    nets: dict[str, tuple[str, Callable[[], Any]]] = {
        "NeuralNetClassifier": ("A", several),
        "NeuralNetBinaryClassifier": ("B", binary),
        "in a Pipeline": ("A", lambda: make_pipeline(StandardScaler(with_mean=False, with_std=False), several())),
    }
    for name, (kind, make) in nets.items():
        yield case(
            name, kind, "skorch", False, ".pth",
            lambda people, folder, make=make: _fitted(make(), people),
            lambda model: model,
            _save_net,
            lambda model, X: np.asarray(model.predict(X)).reshape(-1).astype(np.int64),
        )  # fmt: skip


def _fitted(model: Any, people: People) -> Any:
    import torch

    torch.manual_seed(0)
    X, y = people.training
    binary = type(model).__name__ == "NeuralNetBinaryClassifier"
    return model.fit(X, y.astype(np.float32) if binary else y)


def _save_net(network: Any, model: Any, path: Path) -> Any:
    """Save the file that the certificate is about, and return the net with these weights, loaded strictly."""
    from fairmend.network.formats.sklearn import to_estimator

    network.save(path)
    net = to_estimator(network, model)
    (net[-1] if hasattr(net, "steps") else net).load_params(f_params=path)
    return net


def _lightning(case: type) -> Iterator[Any]:
    for name in ("ReLU", "ResNet", "BatchNorm after"):
        kind, raw, make = torch_networks.MODULES[name]
        yield case(
            name, kind, "Lightning (.ckpt)", raw, ".ckpt",
            lambda people, folder, make=make: _lightning_module(make, people),
            lambda model: model,
            _save_checkpoint,
            torch_networks.decisions,
        )  # fmt: skip


def _lightning_module(make: Callable[[], Any], people: People) -> Any:
    import lightning
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Model(lightning.LightningModule):
        def __init__(self, rate: float = 0.02) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = make()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            x, y = batch
            return torch.nn.functional.binary_cross_entropy_with_logits(self(x).reshape(-1), y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), self.hparams["rate"])

    torch.manual_seed(0)
    X, y = people.training
    rows = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y).float()), 100)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", enable_model_summary=False, **quiet)
    module = Model()
    trainer.fit(module, rows)
    return copy.deepcopy(module).eval()


def _save_checkpoint(network: Any, model: Any, path: Path) -> Any:
    network.save(path)
    return type(model).load_from_checkpoint(path, strict=True).eval()


def _tf2onnx(case: type) -> Iterator[Any]:
    for name in TF2ONNX:
        kind, raw, make = keras_networks.MODELS[name]
        yield case(
            name, kind, "ONNX, tf2onnx", raw, ".onnx",
            lambda people, folder, make=make: _converted(make, people, folder),
            lambda path: path,
            lambda network, model, path: (network.save(path), path)[1],
            _run_onnx,
        )  # fmt: skip


def _converted(make: Callable[[Any], Any], people: People, folder: Path) -> Path:
    saved, path = keras_networks.train(make, people, folder / "model.keras"), folder / "model.onnx"
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", textwrap.dedent(_CONVERT), str(saved), str(folder / "model"), str(path)]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return path


def _run_onnx(path: Path, X: np.ndarray) -> np.ndarray:
    import onnx
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: X})[0]
    if outputs.shape[1] == 2:
        return outputs.argmax(axis=1)
    closed = any(node.op_type == "Sigmoid" for node in onnx.load(path).graph.node[-2:])
    return (outputs[:, 0] >= (0.5 if closed else 0)).astype(np.int64)

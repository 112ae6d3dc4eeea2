"""Networks of many shapes, trained from a seed and kept in a folder, so that each is trained once."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common import chunks
from fairmend import Network, load_network
from fairmend.base.metrics import balanced_accuracy
from fairmend.network import Affine

BATCH, LEARNING_RATE = 128, 0.003
MOST_STEPS, MOST_EPOCHS = 2000, 300  # the fewer of the two
ATTEMPTS = 6
LEAST_BALANCED = 0.56  # on the training rows: a narrow deep network often ends as a constant, and is trained again


@dataclass(frozen=True)
class Shape:
    """The hidden layers of a network: their widths and their activation ("relu", "leaky_relu" or "tanh")."""

    hidden: tuple[int, ...]
    activation: str = "relu"

    def __str__(self) -> str:
        """Return for example "64-32-16-8-4", "10x8" or "3x20 tanh"."""
        equal = len(self.hidden) > 2 and len(set(self.hidden)) == 1
        widths = f"{len(self.hidden)}x{self.hidden[0]}" if equal else "-".join(map(str, self.hidden))
        return widths if self.activation == "relu" else f"{widths} {self.activation}"


def trained_network(name: str, shape: Shape, X: np.ndarray, y: np.ndarray, cache: Path) -> Network:
    """Return the network of this name from the cache; train it on ``X (rows, inputs)`` and ``y (rows,)`` if missing."""
    path = cache / f"{name}-{chunks.digest_of('benchmarks/common/trained.py', 'benchmarks/common/tabular.py')}.onnx"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        network = train(shape, X, y)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            network.save(Path(folder) / "network.onnx")
            os.replace(Path(folder) / "network.onnx", path)
    return load_network(path)


def train(shape: Shape, X: np.ndarray, y: np.ndarray) -> Network:
    """Return the first network of the seeds 0, 1, … that learnt something about both classes."""
    for seed in range(ATTEMPTS):
        network = train_once(shape, X, y, seed)
        if balanced_accuracy(y, network.predict(X)) >= LEAST_BALANCED:
            return network
    raise RuntimeError(f"{shape}: {ATTEMPTS} trainings ended in a constant network")


def train_once(shape: Shape, X: np.ndarray, y: np.ndarray, seed: int, *, regression: bool = False) -> Network:
    """Train on standardised inputs with Adam, and fold the standardisation into the first layer.

    A regression is trained on standardised targets too, and its last layer gives them in their own units.
    """
    import torch
    from torch import nn

    kinds = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "tanh": nn.Tanh}
    mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1.0
    inputs = torch.from_numpy(((X - mean) / deviation).astype(np.float32))
    level, spread = (float(y.mean()), float(y.std())) if regression else (0.0, 1.0)
    targets = torch.from_numpy(((y - level) / spread).astype(np.float32))
    loss_of = nn.functional.mse_loss if regression else nn.functional.binary_cross_entropy_with_logits
    steps = min(MOST_STEPS, MOST_EPOCHS * len(X) // BATCH)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for before, after in zip([X.shape[1], *shape.hidden], shape.hidden, strict=False):
            layers += [nn.Linear(before, after), kinds[shape.activation]()]
            nn.init.kaiming_uniform_(layers[-2].weight, nonlinearity=shape.activation)
        model = nn.Sequential(*layers, nn.Linear(shape.hidden[-1], 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, steps)
        for _ in range(steps):
            rows = torch.randint(len(inputs), (BATCH,))
            loss = loss_of(model(inputs[rows])[:, 0], targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    network = load_network(model.eval())
    first = network.affines[0]
    weight = first.weight.astype(np.float64) / deviation
    folded = Affine(weight.astype(np.float32), (first.bias - weight @ mean).astype(np.float32))
    head = Affine(network.head.weight * np.float32(spread), network.head.bias * np.float32(spread) + np.float32(level))
    return network.with_affines([folded, *network.affines[1:-1], head])

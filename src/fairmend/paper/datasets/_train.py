"""Train networks like those that the paper repairs: the same sizes and data, without regard to fairness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.paper.datasets._raw import Dataset

# Widths of the hidden layers, as in the paper.
HIDDEN = {"adult": (16, 8), "compas": (16, 8), "german": (50,), "bank": (64, 16)}

_BATCH = 128
_LEARNING_RATE = 0.005


def train_biased(
    dataset: Dataset,
    seed: int = 0,
    *,
    hidden: Sequence[int] | None = None,
    epochs: int = 20,
    progress: Callable[[str, int, int], None] | None = None,
) -> Network:
    """Return a ReLU network with one logit, trained on the dataset's training rows with Adam.

    It is trained on standardised inputs; the standardisation is then folded into the first layer, so that the network
    reads the encoded rows. The learning rate falls linearly to 0, and the same seed gives the same network.

    hidden    widths of the hidden layers; by default those of the paper for this data set
    progress  called with "train", the epochs done and the number of epochs
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, linear

    from fairmend.base.threads import few_threads
    from fairmend.repairing.training import Adam

    widths = _widths(dataset, hidden, epochs)
    X = dataset.X_train.astype(np.float64)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1.0
    inputs = torch.from_numpy(((X - mean) / deviation).astype(np.float32))
    labels = torch.from_numpy(dataset.y_train.astype(np.float32))

    random = torch.Generator().manual_seed(seed)
    # PyTorch's own initialisation: weights and biases uniform within 1/√inputs of 0.
    layers = [
        (torch.rand((after, before + 1), generator=random) * 2 - 1) / before**0.5 for before, after in pairwise(widths)
    ]
    flat = torch.cat([layer.flatten() for layer in layers]).requires_grad_()
    sizes = [layer.numel() for layer in layers]

    def affines() -> list[tuple[torch.Tensor, torch.Tensor]]:
        parts = zip(flat.split(sizes), layers, strict=True)  # type: ignore[no-untyped-call]
        tables = [part.view(layer.shape) for part, layer in parts]
        return [(table[:, :-1], table[:, -1]) for table in tables]

    optimizer = Adam(flat, _LEARNING_RATE)
    steps = epochs * -(-len(inputs) // _BATCH)
    with few_threads(_BATCH * max(sizes)):
        for epoch in range(epochs):
            for rows in torch.randperm(len(inputs), generator=random).split(_BATCH):  # type: ignore[no-untyped-call]
                *extractor, head = affines()
                values = inputs[rows]
                for weight, bias in extractor:
                    values = linear(values, weight, bias).relu()
                logits = linear(values, *head)[:, 0]
                binary_cross_entropy_with_logits(logits, labels[rows]).backward()  # type: ignore[no-untyped-call]
                optimizer.learning_rate = _LEARNING_RATE * (1 - optimizer.steps / steps)
                optimizer.step()
            if progress is not None:
                progress("train", epoch + 1, epochs)

    trained = [[array.detach().numpy().astype(np.float64) for array in affine] for affine in affines()]
    scaled, shift = trained[0]
    trained[0] = [scaled / deviation, shift - scaled @ (mean / deviation)]
    return Network(
        [Affine(weight, bias).astype(np.float32) for weight, bias in trained],
        [Activation("relu")] * (len(trained) - 1),
    )


def _widths(dataset: Dataset, hidden: Sequence[int] | None, epochs: int) -> list[int]:
    """Return the widths from the inputs to the logit; raise `FairmendError` if they cannot be trained."""
    if hidden is None:
        if dataset.name not in HIDDEN:
            raise FairmendError(
                f"the paper has no network for dataset {dataset.name!r}: say the widths, as in hidden=(16, 8)"
            )
        hidden = HIDDEN[dataset.name]
    if any(width < 1 for width in hidden):
        raise FairmendError(f"hidden layers of widths {tuple(hidden)}: each must be at least 1")
    if epochs < 1:
        raise FairmendError(f"epochs is {epochs}; it must be at least 1")
    if not len(dataset.X_train):
        raise FairmendError(f"dataset {dataset.name!r} has no rows to train on")
    return [dataset.X_train.shape[1], *hidden, 1]

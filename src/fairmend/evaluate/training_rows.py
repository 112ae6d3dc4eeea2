"""Signs that the rows of the data are rows that the network was trained on.

A network is right about its training rows more often than about others. A repair that is calibrated on them keeps an
accuracy that nobody else sees, and figures measured on them are too good. Rows alone do not show it: a network that
learned its training rows by heart is as sure of them as it is right. So it is compared with what it does elsewhere, on
test rows. Without any, it is compared with what a network of the same shape learns from one half of the rows about the
other: if it knows more, it learned from these rows or from many more, and only the user knows which.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray
from fairmend.base.text import count, number, percent
from fairmend.network import Network
from fairmend.network.model import ScoredRows

# One-sided normal quantile of 1 in 1,000: a repair of rows that are not training rows is rarely warned about.
_SURE = 3.0902
_LEAST_GAP = 0.05
"""A smaller gap is not warned about without test rows: a few rows more explain it."""

_FEWEST_ROWS = 300  # one half of fewer teaches too little to compare with
_MOST_ROWS = 20_000
_MOST_WORK = 200_000_000  # rows times weights: a few seconds of training
_EPOCHS, _BATCHES, _SMALLEST_BATCH, _LEARNING_RATE = 30, 40, 32, 0.005

_Labels = npt.NDArray[Any]


def training_warnings(
    people: ScoredRows, y: _Labels, tested: ScoredRows, y_test: _Labels, *, regression: bool = False
) -> list[str]:
    """Return a warning if the network is better on the data X, y than on test rows, by more than chance explains."""
    if regression:
        return _error_warnings(people, y, tested, y_test)
    right, right_test = people.classes == y, tested.classes == y_test
    rate, test_rate = float(right.mean()), float(right_test.mean())
    pooled = (right.sum() + right_test.sum()) / (len(right) + len(right_test))
    spread = math.sqrt(pooled * (1 - pooled) * (1 / len(right) + 1 / len(right_test)))
    if spread == 0 or (rate - test_rate) / spread <= _SURE:
        return []
    return [
        f"the network is right about {percent(rate)} of the {count(len(right))} rows of the data, but only about "
        f"{percent(test_rate)} of the {count(len(right_test))} test rows. By chance this happens less than once in "
        f"1,000 times: the rows of the data are probably rows that it was trained on. {_ADVICE}"
    ]


_ADVICE = "Calibrate with rows that it was not trained on, or accuracy may fall for everyone else"


def _error_warnings(people: ScoredRows, y: _Labels, tested: ScoredRows, y_test: _Labels) -> list[str]:
    """Return a warning if the squared errors on the data are smaller than on test rows (Welch's test)."""
    errors, test_errors = ((rows.logits.ravel() - target) ** 2 for rows, target in ((people, y), (tested, y_test)))
    if min(len(errors), len(test_errors)) < 2:
        return []
    gap = float(test_errors.mean() - errors.mean())
    spread = math.sqrt(errors.var(ddof=1) / len(errors) + test_errors.var(ddof=1) / len(test_errors))
    if spread == 0 or gap / spread <= _SURE:
        return []
    roots = [number(math.sqrt(float(found.mean()))) for found in (errors, test_errors)]
    return [
        f"the root mean squared error of the network is {roots[0]} on the rows of the data, but {roots[1]} on the test "
        "rows. By chance this happens less than once in 1,000 times: the rows of the data are probably rows that it "
        f"was trained on. {_ADVICE}"
    ]


def memory_warnings(people: ScoredRows, y: _Labels, seed: int = 0) -> list[str]:
    """Return a warning if the network is right about more rows than a network of its shape learns from the others.

    Each half of the rows trains a new network of the same shape, which predicts the other half; of its epochs, the best
    one on that half counts, so that the comparison favours it. The rows are the same for both, so the test is
    McNemar's. Too few rows, networks whose training would take long, and models that are only run are not tested.
    """
    net, X = people.net, people.X
    if not isinstance(net, Network):
        return []
    rows = min(len(X), _MOST_ROWS, _MOST_WORK // net.weights)
    classes = np.unique(y)
    if rows < _FEWEST_ROWS or len(classes) < 2:
        return []
    order = np.random.default_rng(seed).permutation(len(X))[:rows]
    X, y = X[order], y[order]
    right, learned = people.classes[order] == y, _learned(net, X, y, seed)
    gained, lost = int((right & ~learned).sum()), int((learned & ~right).sum())
    gap = (gained - lost) / rows
    if gap < _LEAST_GAP or (gained - lost) / math.sqrt(max(1, gained + lost)) <= _SURE:
        return []
    return [
        f"the network is right about {percent(float(right.mean()))} of {count(rows)} rows of the data, while a network "
        f"of the same shape that is trained on one half of them is right about {percent(float(learned.mean()))} of the "
        "other half. So it was trained on these rows, or on many more. If on these, its figures here are too good, and "
        "accuracy may fall for everyone else: pass --test-data with rows that it was not trained on"
    ]


def _learned(net: Network, X: FloatArray, y: _Labels, seed: int) -> Bools:
    """Return which rows (rows,) a new network of the same shape gets right that learned from the other half."""
    middle, spread = X.mean(axis=0), X.std(axis=0)
    scaled = ((X - middle) / np.where(spread > 0, spread, 1)).astype(np.float32)
    right = np.zeros(len(X), dtype=bool)
    halves = np.arange(len(X)) % 2
    for half in (0, 1):
        mine, others = halves == half, halves != half
        right[mine] = _best_epoch(net, scaled[others], y[others], scaled[mine], y[mine], seed)
    return right


def _best_epoch(
    net: Network, X: FloatArray, y: _Labels, X_other: FloatArray, y_other: _Labels, seed: int
) -> npt.NDArray[np.bool_]:
    """Train a network of the same shape on X, y; return which other rows its best epoch gets right."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    sizes = [net.inputs, *(len(affine.bias) for affine in net.affines[:-1]), max(2, net.outputs)]
    weights = [
        (torch.randn(out, size, generator=generator) * math.sqrt(2 / size)).requires_grad_()
        for size, out in pairwise(sizes)
    ]
    biases = [torch.zeros(out, requires_grad=True) for out in sizes[1:]]

    def logits(rows: torch.Tensor) -> torch.Tensor:
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            rows = torch.relu(rows @ weight.T + bias)
        return rows @ weights[-1].T + biases[-1]

    optimizer = torch.optim.Adam([*weights, *biases], lr=_LEARNING_RATE)
    inputs, targets = torch.from_numpy(X), torch.from_numpy(y.astype(np.int64))
    size = max(_SMALLEST_BATCH, len(inputs) // _BATCHES)
    best: npt.NDArray[np.bool_] = np.zeros(len(y_other), dtype=bool)
    for _ in range(_EPOCHS):
        for batch in torch.split(torch.randperm(len(inputs), generator=generator), size):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(logits(inputs[batch]), targets[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            right = logits(torch.from_numpy(X_other)).argmax(dim=1).numpy() == y_other
        best = right if right.sum() > best.sum() else best
    return best

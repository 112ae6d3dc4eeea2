"""Networks trained as the paper's: its sizes, its accuracy, raw encoded rows in, and the bias of the data kept."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, load_network
from fairmend.paper import datasets
from fairmend.paper.datasets import train_biased
from fairmend.paper.raw_files import Dataset

WIDTHS = {"adult": (16, 8), "compas": (16, 8), "german": (50,), "bank": (64, 16)}


def synthetic(name="synthetic", rows=3000):
    """A wide column, one that never changes, and a protected one; the label follows the first and the last."""
    rng = np.random.default_rng(0)
    amount, sex = rng.integers(0, 20_000, rows), rng.integers(0, 2, rows)
    X = np.stack([amount, np.full(rows, 7), rng.integers(0, 5, rows), sex], axis=1).astype(np.float32)
    y = (amount + 4_000 * sex + rng.normal(0, 1_000, rows) > 12_000).astype(np.int8)
    bounds = np.array([[0, 20_000], [0, 9], [0, 4], [0, 1]], np.float32)
    train, test = slice(0, rows * 2 // 3), slice(rows * 2 // 3, rows)
    return Dataset(name, X[train], y[train], X[test], y[test], ("amount", "same", "noise", "sex"), bounds, bounds)


def accuracy(network, dataset):
    return 100 * np.mean(network.predict(dataset.X_test) == dataset.y_test)


def test_it_learns_the_label_and_the_bias_from_rows_as_encoded():
    dataset = synthetic()
    network = train_biased(dataset, hidden=(8,))
    assert accuracy(network, dataset) > 93
    flipped = dataset.X_test.copy()
    flipped[:, 3] = 1 - flipped[:, 3]
    assert np.mean(network.predict(flipped) != network.predict(dataset.X_test)) > 0.1


def test_the_seed_decides_and_nothing_else_does():
    import torch

    dataset = synthetic(rows=600)
    before = torch.get_rng_state(), torch.get_num_threads()
    first = train_biased(dataset, 3, hidden=(4, 3), epochs=2)
    torch.rand(5)
    torch.set_rng_state(before[0])
    assert train_biased(dataset, 3, hidden=(4, 3), epochs=2) == first
    assert train_biased(dataset, 4, hidden=(4, 3), epochs=2) != first
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]


@pytest.mark.parametrize("name", datasets.NAMES)
def test_the_sizes_are_the_papers(name):
    network = train_biased(synthetic(name, rows=300), epochs=1)
    assert tuple(affine.weight.shape[0] for affine in network.affines) == (*WIDTHS[name], 1)
    assert network.activations == (Activation("relu"),) * len(WIDTHS[name])
    assert network.dtype == np.float32


def test_progress_counts_the_epochs():
    calls = []
    train_biased(synthetic(rows=300), hidden=(), epochs=3, progress=lambda *call: calls.append(call))
    assert calls == [("train", done, 3) for done in (1, 2, 3)]


def test_what_cannot_be_trained_is_refused():
    dataset = synthetic(rows=30)
    with pytest.raises(FairmendError, match=r"no network for dataset 'synthetic'.* hidden=\(16, 8\)"):
        train_biased(dataset)
    with pytest.raises(FairmendError, match=r"widths \(4, 0\)"):
        train_biased(dataset, hidden=(4, 0))
    with pytest.raises(FairmendError, match="epochs is 0"):
        train_biased(dataset, hidden=(4,), epochs=0)
    with pytest.raises(FairmendError, match="no rows to train on"):
        train_biased(synthetic(rows=0), hidden=(4,))


@pytest.mark.parametrize(("name", "file", "points"), [("compas", "compas1", 1.5), ("german", "GC1", 4)])
def test_it_is_as_accurate_as_the_reference_network(name, file, points, shared):
    dataset = datasets.load(name, shared / "data")
    given = load_network(shared / "models" / f"{file}.pth", "relu")
    trained = train_biased(dataset)
    assert [affine.weight.shape for affine in trained.affines] == [affine.weight.shape for affine in given.affines]
    assert abs(accuracy(trained, dataset) - accuracy(given, dataset)) < points

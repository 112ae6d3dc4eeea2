"""The later layers of a network, at many points of many inputs."""

import numpy as np
import pytest

from fairmend.auditing import extremes
from fairmend.auditing.extremes import LaterLayers, shifted_tables
from support.same_scores import assert_same_scores
from support.strategies import random_network


def all_scores(layers, base, tables, rows=()):
    """The scores (points, inputs) of all blocks, and the sums."""
    scores = np.full((tables[0].shape[1], base.shape[1]), np.nan, base.dtype)
    sums = np.full((2 if rows else 0, *scores.shape), np.nan, base.dtype)
    for block in layers.scores(base, tables, rows):
        scores[block.points, block.inputs] = block.scores
        sums[:, block.points, block.inputs] = block.sums
    return scores, sums


def by_hand(net, base, table):
    """The activations of all layers, and the scores (points, inputs), in float64."""
    layer = base[:, None, :].astype(np.float64) + table[:, :, None]
    activations = []
    for affine in net.affines[1:]:
        layer = np.maximum(layer, 0)
        activations.append(layer)
        layer = np.einsum("ij,jkl->ikl", affine.weight.astype(np.float64), layer) + affine.bias[:, None, None]
    return activations, layer[0]


@pytest.mark.parametrize(("inputs", "points"), [(1, 1), (700, 3), (5, 900), (300, 300)])
@pytest.mark.parametrize("shifted", [True, False])
def test_scores_are_those_of_the_layers_in_blocks_of_any_shape(inputs, points, shifted):
    rng = np.random.default_rng(0)
    net = random_network(rng, 4, (8, 6))
    base, table = (rng.standard_normal((8, k)).astype(np.float32) for k in (inputs, points))
    layers = LaterLayers(net)
    tables, error = layers.tables(table, np.inf if shifted else -1.0)
    assert (len(tables), error > 0) == ((3, True) if shifted else (1, False))
    activations, expected = by_hand(net, base, table)
    rows = [rng.standard_normal((2, k)).astype(np.float32) for k in (8, 6)]
    scores, sums = all_scores(layers, base, tables, rows)
    assert np.allclose(scores, expected, atol=1e-4)
    added = sum(r @ t for r, t in zip(rows, tables[:2], strict=True))[:, :, None] if shifted else 0
    wanted = sum(np.einsum("ij,jkl->ikl", r, a) for r, a in zip(rows, activations, strict=True))
    assert np.allclose(sums - added, wanted, atol=1e-4)


def test_a_score_does_not_depend_on_which_others_are_computed_with_it():
    rng = np.random.default_rng(0)
    net = random_network(rng, 4, (32, 16))
    base, table = (rng.standard_normal((32, 70)).astype(np.float32) for _ in range(2))
    layers = LaterLayers(net)
    tables, _ = layers.tables(table, np.inf)
    together, _ = all_scores(layers, base, tables)
    for who in (slice(0, 1), slice(3, 20), slice(11, 70)):
        for points in (slice(0, 1), slice(5, 12), slice(2, 70)):
            some, _ = all_scores(layers, base[:, who], [each[:, points] for each in tables])
            assert_same_scores(some, together[points, who])


def test_blocks_of_a_wide_network_fit_into_the_buffers(monkeypatch):
    monkeypatch.setattr(extremes, "_PRODUCTS", 1_000)
    rng = np.random.default_rng(0)
    net = random_network(rng, 4, (40, 30))
    base, table = (rng.standard_normal((40, 150)).astype(np.float32) for _ in range(2))
    layers = LaterLayers(net)
    scores, _ = all_scores(layers, base, [table])
    assert np.allclose(scores, by_hand(net, base, table)[1], atol=1e-3)


def test_the_error_of_tables_in_place_of_biases_grows_with_them():
    net = random_network(np.random.default_rng(0), 1, [4, 4])
    table = np.ones((4, 3), np.float32)
    tables, error = shifted_tables(net.affines, table)
    assert [each.shape for each in tables] == [(4, 3), (4, 3), (1, 3)]
    assert 0 < error < 1e-4
    assert shifted_tables(net.affines, table * np.float32(1e38))[1] > 1e30

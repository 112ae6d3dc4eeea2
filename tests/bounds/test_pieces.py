"""Boxes and points are converted without changing a number, or refused."""

import threading

import numpy as np
import pytest

import fairmend.bounds.pieces
import fairmend.bounds.rigorous
from fairmend.base.device import compute_on
from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU
from fairmend.bounds import (
    choose_slopes,
    rigorous_bounds,
    rigorous_differences,
)
from fairmend.bounds.pieces import MAX_ENTRIES, batches, max_entries, run_batches, widest_layer
from support.strategies import random_network


def test_whole_numbers_and_float32_are_taken_over_exactly():
    network = random_network(np.random.default_rng(0), 2, [3], 2)
    lower, upper = np.array([[0, 1]]), np.array([[3, 1]])
    for dtype in (np.int64, np.uint8, np.float16, np.float32):
        bounds = rigorous_bounds(network, lower.astype(dtype), upper.astype(dtype))
        assert np.array_equal(bounds, rigorous_bounds(network, lower.astype(float), upper.astype(float)))


BAD_BOXES = {
    "lower <= upper": ([[1.0, 0.0]], [[0.0, 0.0]]),
    "one shape": ([[0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]),
    r"lower has shape \(1, 3\); it must be \(rows, 2\)": ([[0.0] * 3], [[0.0] * 3]),
    "upper must hold finite numbers": ([[0.0, 0.0]], [[np.inf, 0.0]]),
    "lower must hold finite numbers": ([[np.nan, 0.0]], [[1.0, 0.0]]),
    "lower must hold .* exactly .*int64": (np.array([[2**53 + 1, 0]]), [[1e300, 0.0]]),
    "lower must hold .* exactly .*<U": ([["0", "1"]], [[0.0, 1.0]]),
}


@pytest.mark.parametrize(("message", "box"), BAD_BOXES.items(), ids=range(len(BAD_BOXES)))
def test_boxes_that_are_none_are_refused(message, box):
    network = random_network(np.random.default_rng(0), 2, [3], 2)
    for function in (rigorous_bounds, rigorous_differences, choose_slopes):
        with pytest.raises(FairmendError, match=message):
            function(network, *box)


def test_batches_cover_all_pieces_once_and_shrink_with_the_network(monkeypatch):
    small = random_network(np.random.default_rng(0), 2, [3], 2)
    large = random_network(np.random.default_rng(0), 2, [300], 2)
    assert (widest_layer(small), widest_layer(large)) == (3, 300)
    monkeypatch.setattr(fairmend.bounds.pieces, "MAX_ENTRIES", 200)
    for network in (small, large):
        covered = [number for part in batches(network, 25) for number in range(25)[part]]
        assert covered == list(range(25))
    assert len(list(batches(small, 25))) == 3
    assert len(list(batches(large, 25))) == 25


def test_batches_run_one_after_another_where_each_fills_a_gpu():
    done, names = [], set()

    def work(part):
        done.append(part)
        names.add(threading.current_thread().name)

    with compute_on(CPU):
        run_batches(work, 10, 4)
    assert done == [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert names == {threading.current_thread().name}
    done.clear()
    run_batches(work, 10, 4)
    assert sorted(part.start for part in done) == [0, 4, 8]


def test_a_gpu_takes_larger_arrays():
    assert max_entries() == MAX_ENTRIES
    with compute_on(CPU):
        assert max_entries() > MAX_ENTRIES

"""A GPU finds the same bits as the CPU; here PyTorch runs on the CPU, which rounds differently from NumPy too."""

import numpy as np
import pytest
import torch

from fairmend.auditing import device_search
from fairmend.auditing.device_search import DeviceSearch, find_device
from fairmend.auditing.extremes import LaterLayers, RunningExtremes, search_points
from fairmend.auditing.neighbours import ExhaustiveScan
from fairmend.auditing.run import audit
from fairmend.base.gpu import CPU
from fairmend.network import Activation
from support.audit_cases import SPEC, network, people, without_time
from support.same_scores import assert_same_scores
from support.strategies import random_network


def searched(net, base, table, most=np.inf):
    layers = LaterLayers(net)
    tables, regrouping = layers.tables(table, most)
    found, expected = (RunningExtremes(base.shape[1], base.dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        search_points(layers, base, tables, expected)
    DeviceSearch(net, CPU).search(layers, base, table, tables, regrouping, found)
    return found, expected


def numbers(rng, net, inputs, points, scale=1.0):
    shape = len(net.affines[0].bias)
    return [(scale * rng.standard_normal((shape, count))).astype(net.dtype) for count in (inputs, points)]


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "identity", Activation("leaky_relu", 0.2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hidden", [(6,), (16, 8)])
def test_it_finds_the_same_bits(activation, dtype, hidden):
    rng = np.random.default_rng(len(hidden))
    net = random_network(rng, 3, hidden, activation=activation, dtype=dtype)
    found, expected = searched(net, *numbers(rng, net, 70, 90))
    assert_same_scores(found.lowest, expected.lowest)
    assert_same_scores(found.highest, expected.highest)


@pytest.mark.parametrize("scale", [1e-30, 1e19, 1e37])
def test_it_finds_the_same_bits_of_tiny_and_of_huge_numbers(scale):
    rng = np.random.default_rng(1)
    net = random_network(rng, 3, (6, 5))
    found, expected = searched(net, *numbers(rng, net, 20, 30, scale))
    np.testing.assert_array_equal(found.lowest, expected.lowest)
    np.testing.assert_array_equal(found.highest, expected.highest)


def test_equal_scores_are_left_to_the_cpu():
    rng = np.random.default_rng(2)
    net = random_network(rng, 3, (6, 5))
    base, table = numbers(rng, net, 20, 30)
    table[:] = table[:, :1]
    assert DeviceSearch(net, CPU)._near(torch.tensor(base), torch.tensor(table), 0.0) is None
    found, expected = searched(net, base, table)
    assert found.lowest.tobytes() == expected.lowest.tobytes()


def test_few_points_of_each_input_go_to_the_cpu():
    rng = np.random.default_rng(3)
    net = random_network(rng, 3, (16, 8))
    rows, points = DeviceSearch(net, CPU)._near(*map(torch.tensor, numbers(rng, net, 100, 200)), 0.0)
    assert 2 * 100 <= len(points) < 3 * 100
    assert np.array_equal(np.unique(rows), np.arange(100))


@pytest.mark.parametrize("activation", ["relu", "tanh", Activation("leaky_relu", 0.2)])
def test_the_bound_covers_the_distance_from_exact_scores(activation):
    rng = np.random.default_rng(4)
    net = random_network(rng, 3, (16, 8), activation=activation)
    base, table = map(torch.tensor, numbers(rng, net, 40, 50))
    search = DeviceSearch(net, CPU)
    exact = DeviceSearch(random_network(np.random.default_rng(4), 3, (16, 8), activation=activation), CPU)
    exact._layers = [(weight.double(), bias.double(), function) for weight, bias, function in exact._layers]
    off = (search._scores(base, table).double() - exact._scores(base.double(), table.double())).abs().amax(1)
    bound = search._error(base, table)
    assert bool((off <= bound).all())
    assert float((bound / off.clamp(min=1e-12)).median()) < 1000


def test_an_audit_on_the_device_is_the_same(monkeypatch):
    monkeypatch.setattr(device_search, "_FEW", 1)
    monkeypatch.setattr(device_search, "_CHUNK_BYTES", 4096)
    monkeypatch.setattr("fairmend.auditing.slices._PART_POINTS", 1)
    monkeypatch.setattr("fairmend.auditing.slices._PART_ROWS", 40)  # four parts, on several threads
    net, X = network(), people(150)
    expected = audit(net, SPEC, X, method="enumerate")
    monkeypatch.setattr(device_search, "choose_device", lambda *_, **__: torch.device("meta"))
    monkeypatch.setattr(device_search, "DeviceSearch", lambda net, _: DeviceSearch(net, CPU))
    found = audit(net, SPEC, X, method="enumerate", device="cuda")
    assert without_time(found) | {"plan": 0} == without_time(expected) | {"plan": 0}
    assert found.disparity.differences.tobytes() == expected.disparity.differences.tobytes()
    assert [(p.x.tobytes(), p.other.tobytes()) for p in found.pairs] == [
        (p.x.tobytes(), p.other.tobytes()) for p in expected.pairs
    ]


def test_a_full_gpu_goes_on_with_fewer_people_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(device_search, "_FEW", 1)
    net, X = network(), people(60)
    expected = ExhaustiveScan(net, SPEC).scan(X)
    real = DeviceSearch._near

    def near(self, base, table, regrouping):
        if base.shape[1] > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, base, table, regrouping)

    monkeypatch.setattr(DeviceSearch, "_near", near)
    found = ExhaustiveScan(net, SPEC, DeviceSearch(net, CPU)).scan(X)
    assert "the memory of the GPU is full: going on with" in caplog.text
    assert found.gap.tobytes() == expected.gap.tobytes()


def test_a_network_that_the_gpu_does_not_know_is_compared_on_the_cpu_and_it_says_so(monkeypatch, caplog):
    monkeypatch.setattr(device_search, "choose_device", lambda *_, **__: torch.device("meta"))
    assert find_device("cuda", network(outputs=3), SPEC) is None
    assert "the GPU is not used" in caplog.text


def test_the_cpu_needs_no_search():
    assert find_device("cpu", network(), SPEC) is None

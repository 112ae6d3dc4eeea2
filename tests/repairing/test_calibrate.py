"""Step 1: the losses are those of Alg. 1, and nothing but the returned network changes."""

import csv
from importlib import import_module

import numpy as np
import pytest
import torch

from fairmend import FairmendError, Feature, Spec, load_network
from fairmend.bounds import feature_bounds
from fairmend.network import Activation, Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Input, Lookup
from fairmend.repairing.calibrate import calibrate
from fairmend.repairing.training import squared_loss
from support.graphs import residual_network
from support.repair_cases import random_regions
from support.strategies import ACTIVATIONS, random_network

STEP_1 = import_module("fairmend.repairing.calibrate")  # `fairmend.repair` is a function, too


def case(seed=0, hidden=(6, 4), outputs=1, activation="relu", dtype=np.float32, pieces=1, inputs=5, rows=40):
    rng = np.random.default_rng(seed)
    network = random_network(rng, inputs, hidden, outputs, activation, dtype)
    regions = random_regions(rng, inputs, 2, 6, pieces=pieces, dtype=dtype)
    X = rng.normal(size=(rows, inputs)).astype(dtype)
    return network, regions, X, rng.integers(0, max(2, outputs), size=rows)


def relu_widths(network: Network, lower, upper) -> np.ndarray:
    """Widths of the features of one hidden ReLU layer, straight from the formulas of the relaxation."""
    weight, bias = network.affines[0].weight.astype(np.float64), network.affines[0].bias.astype(np.float64)
    widths = []
    for low, high in zip(lower.astype(np.float64), upper.astype(np.float64), strict=True):
        total = 0.0
        for row, offset in zip(weight, bias, strict=True):
            least = offset + sum(w * (a if w > 0 else b) for w, a, b in zip(row, low, high, strict=True))
            most = offset + sum(w * (b if w > 0 else a) for w, a, b in zip(row, low, high, strict=True))
            if least >= 0:
                total += most - least
            elif most > 0:  # upper line ends at most; the lower one has slope 1 or 0
                total += most - (least if most > -least else 0.0)
        widths.append(total)
    return np.array(widths)


def cross_entropy(network: Network, X, y) -> float:
    logits = network.astype(np.float64).logits(X)
    if logits.ndim == 1:
        return float(np.mean(np.logaddexp(0, logits) - y * logits))
    return float(np.mean(np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(y)), y]))


def test_the_first_losses_are_those_of_a_slow_reimplementation():
    network, regions, X, y = case(3, hidden=(7,), dtype=np.float64)
    start = relu_widths(network, regions.lower, regions.upper)
    varies = start > 0
    history = calibrate(network, regions, X, y, steps=2).history
    assert history.fair[0] == pytest.approx(1.0, abs=1e-12)
    assert history.task[0] == pytest.approx(cross_entropy(network, X, y), rel=1e-10)
    after = calibrate(network, regions, X, y, steps=1).network
    now = relu_widths(after, regions.lower, regions.upper)
    assert history.fair[1] == pytest.approx(np.mean(now[varies] / start[varies]), rel=1e-10)
    assert history.task[1] == pytest.approx(cross_entropy(after, X, y), rel=1e-10)


def test_the_task_loss_of_several_classes_is_cross_entropy():
    network, regions, X, y = case(4, outputs=3, dtype=np.float64)
    assert calibrate(network, regions, X, y, steps=1).history.task[0] == pytest.approx(cross_entropy(network, X, y))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize(("outputs", "dtype"), [(1, np.float32), (3, np.float64)])
def test_widths_shrink_and_the_network_given_is_left_alone(activation, outputs, dtype):
    network, regions, X, y = case(1, outputs=outputs, activation=activation, dtype=dtype)
    before = network.astype(dtype)
    done = calibrate(network, regions, X, y, steps=30, learning_rate=0.01)
    assert len(done.history) == len(done.history.fair) == len(done.history.task) == 30
    assert done.history.fair[0] == pytest.approx(1.0, abs=1e-5)
    assert done.history.fair[-1] < 0.95
    assert network == before
    assert done.network.dtype == dtype
    assert done.network.activations == network.activations
    assert done.network != network


def test_two_runs_are_bit_identical():
    first, second = (calibrate(*case(2), steps=10) for _ in range(2))
    assert first.network == second.network
    assert first.history == second.history


def test_no_steps_is_the_same_network():
    network, regions, X, y = case(5)
    done = calibrate(network, regions, X, y, steps=0)
    assert done.network == network
    assert len(done.history) == 0


def test_a_linear_model_is_returned_as_it_is():
    network, regions, X, y = case(6, hidden=())
    done = calibrate(network, regions, X, y)
    assert done.network == network
    assert len(done.history) == 0


def test_inputs_that_do_not_vary_are_left_out_and_counted():
    network, regions, X, y = case(7, hidden=(7,), dtype=np.float64)
    regions.upper[[1, 4]] = regions.lower[[1, 4]]
    done = calibrate(network, regions, X, y, steps=2)
    assert done.idle == 2
    assert done.history.fair[0] == pytest.approx(1.0)
    without = calibrate(network, regions.subset([0, 2, 3, 5]), X, y, steps=2)
    assert without.idle == 0
    assert done.history.fair[1] == pytest.approx(without.history.fair[1], rel=1e-12)


def test_nothing_varies_is_plain_training():
    network, regions, X, y = case(8)
    regions.upper[:] = regions.lower
    done = calibrate(network, regions, X, y, steps=20, learning_rate=0.01)
    assert done.idle == regions.count
    assert done.history.fair == (0.0,) * 20
    assert done.history.task[-1] < done.history.task[0]


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_hull_of_a_union_of_boxes_shrinks(activation):
    spec = Spec(
        [
            Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
            Feature("age", "integer", range=(0, 3), tolerance=1),
        ]
    )
    rng = np.random.default_rng(9)
    network = random_network(rng, 4, [6, 4], activation=activation)
    X = spec.sample_inputs(5, rng)
    regions = spec.regions(X)
    assert len(regions.owner) == 15
    done = calibrate(network, regions, X, np.array([0, 1, 0, 1, 1]), steps=60, learning_rate=0.01)
    assert done.history.fair[0] == pytest.approx(1.0, abs=1e-5)
    assert done.history.fair[-1] < 0.7

    def spread(net):
        rows, points = next(spec.points(X))
        h = net.features(points)
        return np.mean([np.ptp(h[rows == row], axis=0).sum() for row in range(5)])

    assert spread(done.network) < 0.8 * spread(network)


def test_patience_stops_early_and_keeps_the_best():
    network, regions, X, y = case(10)
    totals = []

    def total(net):
        history = calibrate(net, regions, X, y, steps=1).history
        return history.task[0]

    done = calibrate(network, regions, X, y, steps=300, learning_rate=0.3, patience=3, fairness_weight=0.0)
    totals = np.array(done.history.task)
    assert len(done.history) < 300
    assert (totals[-4:] >= totals[:-3].min()).all()  # three steps and the one that was too many
    assert total(done.network) == pytest.approx(totals.min(), rel=1e-5)


def test_the_last_step_counts_for_patience_too():
    network, regions, X, y = case(11)
    patient = calibrate(network, regions, X, y, steps=5, patience=100)
    plain = calibrate(network, regions, X, y, steps=5)
    assert patient.network == plain.network  # every step was better than the one before


def test_batches_follow_the_seed():
    first, again, other = (calibrate(*case(12), steps=8, batch_size=7, seed=seed) for seed in (1, 1, 2))
    assert first.network == again.network
    assert first.history == again.history
    assert first.network != other.network


def test_a_batch_of_all_rows_is_the_full_batch():
    assert calibrate(*case(13), steps=4, batch_size=1000).network == calibrate(*case(13), steps=4).network


def test_the_parts_of_the_regions_take_turns_and_each_stands_for_all():
    network, regions, X, y = case(3, dtype=np.float64)
    still = calibrate(network, regions, X, y, steps=2 * regions.count, learning_rate=1e-15, parts=regions.count).history
    assert still.fair == pytest.approx([1.0] * len(still), abs=1e-9)
    assert still.task == pytest.approx([cross_entropy(network, X, y)] * len(still))
    whole, parts = (calibrate(network, regions, X, y, steps=30, learning_rate=0.01, parts=n) for n in (1, 3))
    assert parts.history.fair[-1] < 0.95
    assert parts.history.fair[1] != whole.history.fair[1]
    assert (
        calibrate(network, regions, X, y, steps=3, parts=1).history
        == calibrate(network, regions, X, y, steps=3).history
    )
    with pytest.raises(FairmendError, match="patience compares losses on the same regions"):
        calibrate(network, regions, X, y, patience=1, parts=2)


def test_interval_bounds_train_too_and_agree_on_one_layer_of_stable_units():
    deep = calibrate(*case(14), steps=20, learning_rate=0.01, bounds="interval")
    assert deep.history.fair[0] == pytest.approx(1.0, abs=1e-5)
    assert deep.history.fair[-1] < 0.95
    shallow = [
        calibrate(*case(14, hidden=(4,), activation="identity"), steps=5, bounds=b) for b in ("linear", "interval")
    ]
    np.testing.assert_allclose(shallow[0].history.fair, shallow[1].history.fair, rtol=1e-5)


def test_a_heavier_fairness_shrinks_more():
    light, heavy = (
        calibrate(*case(15), steps=40, learning_rate=0.01, fairness_weight=weight).history.fair[-1]
        for weight in (0.01, 10)
    )
    assert heavy < light


def test_divergence_is_an_error_that_says_what_to_do():
    with pytest.raises(FairmendError, match=r"diverged at step \d+.*smaller learning_rate"):
        calibrate(*case(16, hidden=(6, 6, 6)), steps=50, learning_rate=1e12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": -1}, "steps is -1"),
        ({"learning_rate": 0}, "learning_rate is 0; give a finite number above 0"),
        ({"fairness_weight": -0.1}, "fairness_weight is -0.1; give a finite number of 0 or more"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"patience": 3, "batch_size": 8}, "use it without batch_size"),
        ({"bounds": "exact"}, 'bounds is \'exact\'; give "linear" or "interval"'),
    ],
)
def test_bad_options_say_what_is_wrong(options, message):
    with pytest.raises(FairmendError, match=message):
        calibrate(*case(17), **options)


def test_progress_goes_from_the_first_step_to_the_last():
    seen = []
    calibrate(*case(18), steps=5, progress=lambda *what: seen.append(what))
    assert seen == [("calibrate", step, 5) for step in range(1, 6)]


def test_threads_and_gradients_are_left_as_they_were():
    before = torch.get_num_threads()
    network, regions, X, y = case(19)
    X.setflags(write=False)
    calibrate(network, regions, X, y, steps=2)
    assert torch.get_num_threads() == before
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("setting", "model"), [("compas-age", "compas1"), ("german-age", "GC1"), ("adult-age-A1", "AC1")]
)
def test_the_loss_after_200_steps_is_the_original_methods(shared, setting, model):
    from fairmend.spec.neighbourhoods import Regions

    splits = np.load(shared / "reference" / "splits" / f"{setting}.npz")
    with (shared / "reference" / "original_results.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["setting"] == setting)
    network = load_network(shared / "models" / f"{model}.pth", "relu")
    lower, upper = (splits[side].astype(np.float32) for side in ("lower", "upper"))
    regions = Regions(lower, upper, np.arange(len(lower)), len(lower))
    history = calibrate(network, regions, splits["X_c"].astype(np.float32), splits["y_c"]).history
    assert len(history) == 200
    assert history.fair[0] == pytest.approx(1.0, abs=1e-4)
    assert history.fair[-1] == pytest.approx(float(row["L_fair_200"]), abs=0.002)
    assert history.task[-1] == pytest.approx(float(row["L_bce_200"]), abs=0.01)


def test_the_squared_error_counts_in_units_of_the_variance():
    targets = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
    outputs = torch.tensor([[2.0, 5.0], [2.0, 5.0], [2.0, 6.0]], dtype=torch.float64)
    loss = squared_loss(targets)(outputs, torch.tensor(targets))
    # The first output predicts its mean, which counts 1 on average; the second one is constant, and counts as it is.
    assert float(loss) == pytest.approx((1 + 1 / 3) / 2)


@pytest.mark.parametrize("unit", [1.0, 1e5])
def test_a_regression_fits_its_targets_whatever_their_unit(unit):
    rng = np.random.default_rng(5)
    network = random_network(rng, 3, [6])
    head = network.head
    network = network.with_affines(
        [*network.affines[:-1], Affine(head.weight * np.float32(unit), head.bias * np.float32(unit))]
    )
    X = rng.normal(size=(80, 3)).astype(np.float32)
    y = unit * (network.logits(X) / unit + 0.5 * X[:, 0])
    regions = random_regions(rng, 3, 1, 4, dtype=np.float32)
    trained = calibrate(network, regions, X, y, steps=60, squared_error=True, fairness_weight=0.0)
    assert trained.history.task[-1] < trained.history.task[0]
    assert trained.history.task[0] < 5


@pytest.mark.parametrize("bounds", ["linear", "interval"])
def test_a_residual_graph_is_calibrated(bounds):
    """The features are hidden units beside the inputs; both losses start from the graph's own, and the widths fall."""
    rng = np.random.default_rng(0)
    network = residual_network(rng, 5, activation=Activation("leaky_relu", 0.1))
    _, regions, X, y = case()
    history = calibrate(network, regions, X, y, steps=20, bounds=bounds).history
    assert history.fair[0] == pytest.approx(1.0, abs=1e-5)
    assert history.task[0] == pytest.approx(cross_entropy(network, X, y), rel=1e-4)
    assert history.fair[-1] < 0.98


def test_a_graph_whose_features_cannot_move_stays_as_it_is():
    table = Lookup(np.ones((3, 2), np.float32))
    head = Affine(np.ones((1, 2), np.float32), np.zeros(1, np.float32))
    network = Network.from_nodes([Node(Input(1)), Node(table, (0,)), Node(head, (1,), "head")])
    regions = Spec([Feature("job", "integer", range=(0, 2), protected=True)]).regions(np.zeros((1, 1), np.float32))
    assert calibrate(network, regions, np.zeros((1, 1)), np.zeros(1, int)).network == network


@pytest.mark.parametrize("bounds", ["linear", "interval"])
def test_chunks_of_regions_give_the_same_network(monkeypatch, bounds):
    """Units that are stable in one chunk only keep another interval, so there is none here: one hidden layer."""
    network, regions, X, y = case(pieces=2, hidden=(6,), dtype=np.float64)
    whole = calibrate(network, regions, X, y, steps=5, bounds=bounds, patience=3)
    monkeypatch.setattr(STEP_1, "memory_of", lambda device: 1)
    chunked = calibrate(network, regions, X, y, steps=5, bounds=bounds, patience=3)
    np.testing.assert_allclose(chunked.history.fair, whole.history.fair, rtol=1e-9)
    np.testing.assert_allclose(chunked.history.task, whole.history.task, rtol=1e-9)
    for found, expected in zip(chunked.network.affines, whole.network.affines, strict=True):
        np.testing.assert_allclose(found.weight, expected.weight, atol=1e-7)


def full_memory(monkeypatch, most: int) -> None:
    """Let bounds of more than ``most`` boxes run out of memory."""

    def bounds(network, layers, boxes, method):
        if boxes.rows.shape[1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return feature_bounds(network, layers, boxes, method)

    monkeypatch.setattr(STEP_1, "feature_bounds", bounds)


def test_a_full_gpu_goes_on_with_smaller_chunks_and_says_so(monkeypatch, caplog):
    network, regions, X, y = case(hidden=(6,), dtype=np.float64)
    whole = calibrate(network, regions, X, y, steps=3)
    full_memory(monkeypatch, most=2)
    found = calibrate(network, regions, X, y, steps=3)
    assert "the memory of the GPU is full: going on with" in caplog.text
    np.testing.assert_allclose(found.history.fair, whole.history.fair, rtol=1e-9)


def test_a_gpu_without_room_for_one_neighbourhood_is_an_error(monkeypatch):
    network, regions, X, y = case()
    full_memory(monkeypatch, most=0)
    with pytest.raises(FairmendError, match=r"too little memory for one neighbourhood.*use device cpu"):
        calibrate(network, regions, X, y, steps=3)

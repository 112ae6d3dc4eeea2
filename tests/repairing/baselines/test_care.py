"""care changes hidden neurons, and never for the worse."""

import numpy as np
import pytest
import torch

import fairmend
from fairmend import FairmendError
from fairmend.bounds.forward import forward_nodes
from fairmend.network import Affine, Network
from fairmend.repairing.baselines.care import Neurons, _CareModel, care
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.task import prepare_task
from support.baseline_cases import arguments
from support.graphs import residual_network


def test_care_needs_hidden_neurons():
    linear = Network([Affine(np.ones((1, 3), np.float32), np.zeros(1, np.float32))], [])
    with pytest.raises(FairmendError, match="hidden neurons"):
        fairmend.repair(linear, *arguments("one")[1:], method="care")


def test_the_best_particle_never_gets_worse():
    task = prepare_task(*arguments("one"), HeadOptions(), 0)
    _, history = care(task, steps=15, fairness_weight=0.5)
    cost = 0.5 * np.array(history.fair) + 0.5 * np.array(history.task)
    assert len(cost) > 1
    assert (np.diff(cost) <= 1e-9).all()


def test_the_share_of_unfairness_is_at_most_1():
    with pytest.raises(FairmendError, match=r"fairness_weight is 1\.5; for method care, give a number from 0 to 1"):
        fairmend.repair(*arguments("one"), method="care", training=fairmend.TrainingOptions(fairness_weight=1.5))


def test_neurons_of_a_graph_change_all_that_reads_them():
    """A position without a change leaves the network as it is; one with a change does what it does to the neuron."""
    _, spec, X_repair, X_cal, y_cal = arguments("one")
    network = residual_network(np.random.default_rng(0), X_repair.shape[1])
    model = _CareModel(prepare_task(network, spec, X_repair, X_cal, y_cal, HeadOptions(), 0))
    assert len(model.nodes) == 2  # the function before the head is read by a concatenation
    neurons = Neurons(np.array([0, 1]), np.array([2, 3]))
    X = torch.tensor(X_cal[:5])
    assert model.network_with(neurons, torch.zeros(4)) == network
    values = forward_nodes(network, model.layers, {0: X})
    node, doubled = model.nodes[0], values[model.nodes[0]].clone()
    doubled[:, 2] *= 2
    given = {i: values[i] for i in range(node)} | {node: doubled}
    expected = forward_nodes(network, model.layers, given)[len(network.nodes) - 1]
    changed = model.network_with(neurons, torch.tensor([1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(changed.logits(X_cal[:5]), expected[:, 0], rtol=1e-4, atol=1e-5)


def test_care_shifts_no_neuron_where_the_next_layer_has_no_bias():
    network, spec, X_repair, X_cal, y_cal = arguments("one")
    bare = Network([Affine.without_bias(a.weight) for a in network.affines], network.activations)
    model = _CareModel(prepare_task(bare, spec, X_repair, X_cal, y_cal, HeadOptions(), 0))
    neurons = Neurons(np.array([0]), np.array([1]))
    shifted = model.network_with(neurons, torch.tensor([0.5, 3.0]))
    assert shifted == model.network_with(neurons, torch.tensor([0.5, 0.0]))
    assert not any(affine.bias.any() for affine in shifted.affines)

"""Descriptions of networks that came from elsewhere, and of chains, which need none."""

import numpy as np
import torch
from torch import nn

from fairmend.network import Network, load_network
from fairmend.network.formats.torch.describe import describe_network
from fairmend.network.formats.torch.steps import replay
from support.torch_graphs import GRAPHS
from support.torch_modules import trained_norm


def test_a_network_without_a_form_is_described_with_its_norms_folded():
    for name in ("resnet", "two inputs", "wide and deep", "PReLU(6)", "chunks"):
        torch.manual_seed(0)
        network = load_network(GRAPHS[name]())
        tensors, entries = describe_network(network)
        again = replay(entries, tensors, "model")
        assert isinstance(again, Network)
        X = np.abs(np.random.default_rng(0).integers(0, 3, (20, network.inputs))).astype(np.float32)
        assert np.array_equal(again.logits(X), network.logits(X)), name
        assert again.closing == network.closing


def test_plain_chains_need_no_description():
    plain = nn.Sequential(trained_norm(4), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.Linear(6, 1), nn.Sigmoid())
    assert load_network(plain).form.description == ()
    for name in ("two functions", "norm between functions", "unused layer", "matrix", "ReLU6()", "buffers"):
        assert load_network(GRAPHS[name]()).form.description, name

"""Layers of torch.nn are the functions that they call; a subclass is looked into."""

import pytest
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network.formats.torch.layers import LAYERS, layer_call
from fairmend.network.formats.torch.operators import OPERATORS
from fairmend.network.formats.torch.program import Ref


def test_every_layer_calls_a_known_function():
    special = {nn.Linear: (2, 2), nn.Embedding: (3, 2), nn.BatchNorm1d: (2,), nn.SyncBatchNorm: (2,)}
    for kind in LAYERS:
        operator, _ = layer_call("a", kind(*special.get(kind, ())), "m")
        assert operator in OPERATORS


def test_tensors_are_named_and_numbers_taken():
    assert layer_call("a", nn.Linear(2, 1, bias=False), "m") == ("linear", {"weight": Ref("weight"), "bias": None})
    assert layer_call("a", nn.LeakyReLU(0.3), "m") == ("leaky_relu", {"negative_slope": 0.3, "inplace": False})


class Scaled(nn.Linear):
    pass


def test_a_subclass_is_not_taken_for_the_layer_itself():
    with pytest.raises(FairmendError, match=r"layer 'a' \(Scaled\) is not supported"):
        layer_call("a", Scaled(2, 2), "m")

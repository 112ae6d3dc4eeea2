"""forward() is traced with torch.fx, and what only has the name of a function of PyTorch is not taken for it."""

import pytest
import torch
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.network.formats.torch.operators import OPERATORS
from fairmend.network.formats.torch.program import Ref
from fairmend.network.formats.torch.trace import LAYERS, layer_call, trace
from support.torch_graphs import Branching, Model

# Layers of torch.nn are the functions that they call; a subclass is looked into.


def test_every_layer_calls_a_known_function():
    special = {
        nn.Linear: (2, 2),
        nn.Embedding: (3, 2),
        nn.EmbeddingBag: (3, 2),
        nn.BatchNorm1d: (2,),
        nn.SyncBatchNorm: (2,),
    }
    special |= {
        nn.Bilinear: (2, 2, 2),
        nn.LayerNorm: (2,),
        nn.RMSNorm: (2,),
        nn.GroupNorm: (1, 2),
        nn.InstanceNorm1d: (2,),
    }
    special |= {nn.MultiheadAttention: (2, 1), nn.Unflatten: (1, (2, 1))}
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


def relu(x):
    return x * 2


torch.fx.wrap("relu")


def test_a_function_of_the_user_is_not_taken_for_one_of_pytorch():
    with pytest.raises(FairmendError, match=r"relu\(\).*not supported"):
        load_network(Model(lambda m, x: m.b(relu(x)), b=nn.Linear(4, 1)))


def test_the_parts_of_a_program():
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    program = trace(module, "m")
    assert [call.operator for call in program.calls] == ["linear", "relu", "linear"]
    assert {constant.key for constant in program.constants.values()} == set(module.state_dict())
    assert program.calls[1].where == "layer '1' (ReLU)"


def test_a_tensor_that_is_not_in_the_state_dict_has_no_key():
    module = Model(lambda m, x: m.b(x + m.c), b=nn.Linear(4, 1))
    module.c = torch.ones(4)
    keys = {name: constant.key for name, constant in trace(module, "m").constants.items()}
    assert None in keys.values()
    assert load_network(module).inputs == 4


def test_arguments_with_a_default_keep_it():
    assert load_network(Branching()).inputs == 4

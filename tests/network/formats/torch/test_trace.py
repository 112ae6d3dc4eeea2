"""forward() is traced with torch.fx, and what only has the name of a function of PyTorch is not taken for it."""

import pytest
import torch
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.network.formats.torch.trace import trace
from support.torch_graphs import Branching, Model


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

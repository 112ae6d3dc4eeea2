"""Programs are run on unknown numbers: widths and ranks of inputs come from the layers that read them."""

import numpy as np
import pytest
import torch
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.network.formats.torch.interpret import interpret
from fairmend.network.formats.torch.program import Call, Constant, Program, ProgramInput, Ref
from support.torch_graphs import Model

WEIGHT = np.ones((1, 5), np.float32)


def program(*calls, output="y"):
    constants = {"w": Constant(WEIGHT, "w")}
    return Program((ProgramInput("x", "x"),), constants, tuple(Call(*call, {}, call[1]) for call in calls), Ref(output))


def test_the_width_of_an_input_follows_from_what_reads_it():
    sliced = program(("s", "getitem", (Ref("x"), (slice(None), slice(2, None)))), ("y", "linear", (Ref("s"), Ref("w"))))
    assert interpret(sliced, {"w": WEIGHT}, "m").inputs[0].width == 7
    twice = program(("c", "cat", ([Ref("x"), Ref("x")], 1)), ("y", "linear", (Ref("c"), Ref("w"))))
    with pytest.raises(FairmendError, match="takes 5 values"):
        interpret(twice, {"w": WEIGHT}, "m")


def test_an_input_may_be_one_number_for_each_row():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(5, 2), nn.Linear(6, 1)

        def forward(self, code, x):
            return self.head(torch.cat([self.table(code), x], 1))

    assert load_network(Flat()).nodes[0].operation.names == (("code", 1), ("x", 4))


def test_what_is_not_needed_is_not_read_unless_it_changes_something_in_place():
    unused = program(("u", "no such function", (Ref("x"),)), ("y", "linear", (Ref("x"), Ref("w"))))
    assert len(interpret(unused, {"w": WEIGHT}, "m").entries) == 2
    changed = program(("u", "relu_", (Ref("x"),)), ("y", "linear", (Ref("x"), Ref("w"))))
    assert [entry["kind"] for entry in interpret(changed, {"w": WEIGHT}, "m").entries] == [
        "input",
        "function",
        "affine",
    ]


def test_an_output_that_does_not_depend_on_the_input_is_refused():
    with pytest.raises(FairmendError, match="does not depend on any input"):
        interpret(program(("y", "linear", (Ref("w"), Ref("w")))), {"w": WEIGHT}, "m")
    with pytest.raises(FairmendError, match=r"must be \(rows, n\)"):
        load_network(Model(lambda m, x: m.a(x).view(-1, 2, 3), a=nn.Linear(4, 6)))

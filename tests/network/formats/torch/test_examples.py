"""Modules that torch.fx cannot trace are read with an example of what forward() takes."""

import numpy as np
import pytest
import torch
from torch import nn

import fairmend
from fairmend import Feature, Spec
from fairmend.base.errors import FairmendError
from fairmend.network import Network


class Tokens(nn.Module):
    """A transformer of numbers and codes that looks at shapes, counts rows with len() and joins rows and heads."""

    def __init__(self, width=4, heads=2):
        super().__init__()
        torch.manual_seed(0)
        self.numbers = nn.Parameter(torch.randn(3, width))
        self.codes = nn.ModuleList([nn.Embedding(2, width), nn.Embedding(3, width)])
        self.first = nn.Parameter(torch.randn(width))
        self.qkv, self.norm, self.head = nn.Linear(width, 3 * width), nn.LayerNorm(width), nn.Linear(width, 1)
        self.heads = heads

    def forward(self, x_num, x_cat=None):
        if x_num.ndim != 2:
            raise ValueError("rows of numbers")
        tokens = [self.first.expand(len(x_num), 1, -1), x_num[..., None] * self.numbers]
        if x_cat is not None:
            tokens.append(torch.stack([table(x_cat[:, i]) for i, table in enumerate(self.codes)], 1))
        x = torch.cat(tokens, 1)
        q, k, v = (self._apart(part) for part in self.qkv(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, -1)
        mixed = (weights @ v).reshape(len(x), self.heads, x.shape[1], -1).transpose(1, 2).reshape(x.shape)
        return self.head(torch.relu(self.norm(x + mixed)[:, 0]))

    def _apart(self, x):
        rows, tokens, width = x.shape
        split = x.reshape(rows, tokens, self.heads, width // self.heads).transpose(1, 2)
        return split.reshape(rows * self.heads, tokens, width // self.heads)


class Pieces(nn.Module):
    """A piecewise-linear encoding with limits on one side, a choice by a constant, and a mask."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.bias = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3, 4))
        self.register_buffer("single", torch.tensor([False, True, False]))
        self.register_buffer("mask", torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 1]], dtype=torch.bool))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        assert x.ndim == 2
        x = torch.addcmul(self.bias, self.weight, x[..., None])
        pieces = torch.cat([x[..., :1].clamp_max(1.0), x[..., 1:-1].clamp(0.0, 1.0), x[..., -1:].clamp_min(-0.5)], -1)
        return self.head(torch.where(self.single[:, None], x, pieces)[:, self.mask])


NUMBERS = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
CODES = np.random.default_rng(1).integers(0, 2, (50, 2))


@pytest.mark.parametrize(
    ("module", "example"),
    [(Tokens(), (NUMBERS, CODES)), (Tokens(), (NUMBERS, None)), (Tokens(), [torch.from_numpy(NUMBERS)]),
     (Pieces(), NUMBERS[:1]), (Pieces(), torch.from_numpy(NUMBERS[0:1]))],
)  # fmt: skip
def test_a_module_is_read_with_an_example(module, example):
    network = fairmend.load_network(module, example=example)
    given = [NUMBERS, CODES] if len(example) == 2 and example[1] is not None else [NUMBERS]
    with torch.no_grad():
        expected = module(*map(torch.from_numpy, given)).numpy()[:, 0]
    np.testing.assert_allclose(network.logits(np.concatenate(given, 1)), expected, rtol=1e-4, atol=1e-5)


def test_an_example_says_how_wide_an_input_is_that_no_layer_reads_whole():
    class Mean(nn.Sequential):
        def forward(self, x):
            return super().forward(x.mean(1, keepdim=True))

    network = fairmend.load_network(Mean(nn.Linear(1, 1)), example=NUMBERS)
    assert network.inputs == 3


def test_without_an_example_the_message_asks_for_one():
    with pytest.raises(FairmendError, match=r"could not be traced.*load_network\(model, example=x\)"):
        fairmend.load_network(Tokens())


def test_the_spec_is_an_example():
    numbers = [Feature(f"x{i}", "continuous", range=(-3, 3), input="x_num") for i in range(3)]
    codes = [Feature(name, "categorical", categories=tuple(range(size)), protected=name == "sex", input="x_cat")
             for name, size in (("sex", 2), ("job", 3))]  # fmt: skip
    model = fairmend.load_model(Tokens(), spec=Spec([*numbers, *codes]))
    assert isinstance(model, Network)
    assert model.inputs == 5


class Centred(nn.Module):
    """A module whose output for a row depends on the others."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x):
        return self.layer(x - x.sum(0) / len(x)) if x.ndim == 2 else x


def test_a_module_that_mixes_rows_is_refused():
    with pytest.raises(FairmendError):
        fairmend.load_network(Centred(), example=NUMBERS)


@pytest.mark.parametrize("example", ["rows", (), NUMBERS[:0], NUMBERS[None]])
def test_an_example_that_forward_does_not_take_is_refused(example):
    with pytest.raises(FairmendError, match="example= must be what forward"):
        fairmend.load_network(Tokens(), example=example)


def test_an_example_is_for_modules(tmp_path):
    with pytest.raises(FairmendError, match="example= is for a PyTorch module"):
        fairmend.load_network(tmp_path / "model.onnx", example=NUMBERS)

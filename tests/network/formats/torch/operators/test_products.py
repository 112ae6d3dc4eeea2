"""Products of tensors, with weights and with each other: the network gives what PyTorch gives."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fairmend import FairmendError
from fairmend.network import load_network

LEAST = torch.finfo(torch.float32).min


class Tokens(nn.Module):
    """Three tokens of width 4 from six columns, what `between` computes with them, and a head."""

    def __init__(self, between, width):
        super().__init__()
        torch.manual_seed(0)
        self.between = between
        self.first, self.other = nn.Linear(6, 12), nn.Linear(6, 12)
        self.square, self.narrow = nn.Linear(4, 4), nn.Linear(4, 2, bias=False)
        self.cls, self.place = nn.Parameter(torch.randn(1, 1, 4)), nn.Parameter(torch.randn(3, 4))
        self.blocks = nn.Parameter(torch.randn(3, 4, 2))
        self.turned = nn.Parameter(torch.randn(2, 4))
        self.mask = nn.Parameter(torch.randn(3, 3), requires_grad=False)
        seen = torch.tensor([[True, False, False], [True, True, False], [True, False, False]])
        self.register_buffer("seen", seen)
        self.register_buffer("added", torch.where(seen, torch.randn(3, 3), -torch.inf))
        self.register_buffer("least", torch.where(seen, 0.0, LEAST))
        self.attention = nn.MultiheadAttention(4, 2)
        self.norm, self.groups = nn.LayerNorm((3, 4)), nn.GroupNorm(3, 3)
        self.pair = nn.Bilinear(4, 4, 2)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        a = torch.tanh(self.first(x)).reshape(-1, 3, 4)
        return self.head(self.between(self, a, self.other(x).view(x.shape[0], 3, 4)).flatten(1))


CASES = {
    "matrix product": (lambda m, a, b: a @ b.transpose(1, 2), 9),
    "batched": (lambda m, a, b: torch.bmm(a, b.mT), 9),
    "broadcast": (lambda m, a, b: a * b.mean(1, keepdim=True) * b[:, :, :1], 12),
    "einsum": (lambda m, a, b: torch.einsum("bti,bsi->bst", a, b), 9),
    "einsum that adds up": (lambda m, a, b: torch.einsum("bti,bsj->bj", a, b), 4),
    "einsum with weights": (lambda m, a, b: torch.einsum("b t i, t i o -> b o t", a, m.blocks), 6),
    "einsum with shared weights": (lambda m, a, b: torch.einsum("...i,oi->...o", a, m.turned), 6),
    "weights for each token": (lambda m, a, b: (a.unsqueeze(2) @ m.blocks).squeeze(2), 6),
    "linear over tokens": (lambda m, a, b: m.narrow(torch.relu(m.square(a))), 6),
    "linear twice": (lambda m, a, b: m.square(torch.relu(m.square(a))) + m.square(b), 12),
    "linear over turned tokens": (lambda m, a, b: m.narrow(a.transpose(0, 1)).permute(1, 2, 0), 6),
    "outer": (lambda m, a, b: a[:, 0, :, None] * b[:, 1, None, :], 16),
    "class token": (lambda m, a, b: torch.cat([m.cls.expand(a.shape[0], 2, -1), a], 1), 20),
    "class token repeated": (lambda m, a, b: torch.cat([a, m.cls.repeat(a.size(0), 1, 1)], 1) @ b.mT, 12),
    "place": (lambda m, a, b: m.square(a) + m.place, 12),
    "attention": (lambda m, a, b: F.scaled_dot_product_attention(a, b, b + a), 12),
    "mask": (lambda m, a, b: F.scaled_dot_product_attention(a, b, b, attn_mask=m.mask, scale=0.3), 12),
    "causal": (lambda m, a, b: F.scaled_dot_product_attention(a, b, b, is_causal=True), 12),
    "a mask of booleans": (lambda m, a, b: F.scaled_dot_product_attention(a, b, b, attn_mask=m.seen), 12),
    "a mask that is added": (lambda m, a, b: ((a @ b.mT) / 2 + m.added).softmax(-1) @ b, 12),
    "the least number as a mask": (lambda m, a, b: (a @ b.mT).masked_fill(~m.seen, LEAST).softmax(-1) @ b, 12),
    "the least number that is added": (lambda m, a, b: (a @ b.mT + m.least).softmax(-1) @ b, 12),
    "a matrix for each member": (lambda m, a, b: torch.einsum("bi,kio->bko", a[:, 0], m.blocks), 6),
    "matrices by tensordot": (lambda m, a, b: torch.tensordot(a, m.turned, dims=([-1], [1])), 6),
    "a softmin": (lambda m, a, b: F.softmin(a @ b.mT, dim=-1) @ b, 12),
    "a mask that is filled in": (lambda m, a, b: (a @ b.mT).masked_fill(~m.seen, -torch.inf).softmax(-1) @ b, 12),
    "a mask filled in place": (
        lambda m, a, b: (a @ b.mT).masked_fill_(~m.seen, -torch.inf).softmax(-1) @ b,
        12,
    ),
    "masked scores that are copied": (lambda m, a, b: ((a @ b.mT) + m.added).clone().softmax(-1) @ b, 12),
    "masked scores that are moved": (
        lambda m, a, b: ((a @ b.mT) + m.added).view(-1, 3, 1, 3).transpose(1, 3).softmax(1)[:, :, 0].mT @ b,
        12,
    ),
    "a number that is filled in": (lambda m, a, b: (a @ b.mT).masked_fill(m.seen, 2.0) @ b, 12),
    "multi-head with a mask": (
        lambda m, a, b: m.attention(*[a.transpose(0, 1)] * 3, attn_mask=~m.seen)[0].transpose(0, 1),
        12,
    ),
    "heads": (
        lambda m, a, b: F.scaled_dot_product_attention(
            *(z.unflatten(2, (2, 2)).transpose(1, 2) for z in (a, b, a))
        ).transpose(1, 2),
        12,
    ),
    "multi-head": (lambda m, a, b: m.attention(*[a.transpose(0, 1)] * 3)[0].transpose(0, 1), 12),
    "multi-head of two": (
        lambda m, a, b: m.attention(a.movedim(1, 0), *[b.transpose(0, 1)] * 2, need_weights=False)[0].transpose(0, 1),
        12,
    ),
    "its weights": (lambda m, a, b: m.attention(*[a.transpose(0, 1)] * 3)[1], 9),
    "softmax over tokens": (lambda m, a, b: a.softmax(1) * b, 12),
    "layer norm": (lambda m, a, b: m.norm(a) + F.layer_norm(b, (4,)), 12),
    "group norm": (lambda m, a, b: m.groups(a), 12),
    "rms norm": (lambda m, a, b: F.rms_norm(a, (4,)), 12),
    "glu": (lambda m, a, b: F.glu(a, 2), 6),
    "largest over an axis": (lambda m, a, b: a.max(1)[0] + b.amin(1), 4),
    "softmax by steps": (lambda m, a, b: (e := (a - a.amax(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True), 12),
    "largest": (lambda m, a, b: torch.maximum(a, b), 12),
    "smallest": (lambda m, a, b: torch.min(a, b) + torch.minimum(a, m.place), 12),
    "quotient": (lambda m, a, b: b / (1.5 + a), 12),
    "addcmul": (lambda m, a, b: torch.addcmul(m.place, a, b, value=0.5), 12),
    "bilinear": (lambda m, a, b: m.pair(a, b), 6),
    "stack and unbind": (lambda m, a, b: torch.stack(a.unbind(1)[::-1], 1) * b.repeat_interleave(1, 2), 12),
}


@pytest.mark.parametrize("case", CASES)
def test_the_network_gives_what_the_module_gives_also_with_other_weights(case):
    between, width = CASES[case]
    module = Tokens(between, width).eval()
    network = load_network(module)
    X = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    assert np.allclose(network.logits(X), outputs(module, X), atol=1e-5)
    changed = network.with_affines([moved(affine) for affine in network.affines])
    assert np.abs(changed.logits(X) - network.logits(X)).max() > 1e-3
    assert np.allclose(changed.logits(X), outputs(changed.to_module(), X), atol=1e-5)


def moved(affine):
    random = np.random.default_rng(affine.weight.size)
    noise = random.normal(size=affine.weight.shape).astype(np.float32) / 8
    return type(affine)(affine.weight + noise, affine.bias + np.float32(0.1))


def outputs(module, X):
    with torch.no_grad():
        return module(torch.tensor(X))[:, 0].numpy()


REFUSED = {
    "rows": (lambda m, a, b: a.transpose(0, 1) @ b.transpose(0, 1).mT, 12, "multiplies the rows with each other"),
    "softmax over rows": (lambda m, a, b: a.softmax(0), 12, "dim=0"),
    "data-dependent mask": (
        lambda m, a, b: F.scaled_dot_product_attention(a, b, b, attn_mask=a @ b.mT),
        12,
        "has a mask that depends on the input",
    ),
    "a mask of everything": (lambda m, a, b: (a @ b.mT + m.added.mT).softmax(-1) @ b, 12, "leaves out everything"),
    "masked scores elsewhere": (lambda m, a, b: torch.tanh(a @ b.mT + m.added) @ b, 12, "only a softmax may read"),
    "masked scores side by side": (
        lambda m, a, b: torch.cat([(a @ b.mT) + m.added, a @ b.mT], 1).softmax(-1) @ b,
        24,
        "only a softmax may read",
    ),
    "random": (lambda m, a, b: F.scaled_dot_product_attention(a, b, b, dropout_p=0.5), 12, "stays random"),
    "largest of all": (lambda m, a, b: a.amax((0, 1, 2)), 1, "is the largest over axis 0"),
    "other biases": (
        lambda m, a, b: m.square(a) + F.linear(b, m.square.weight),
        12,
        "'square' is used twice, with different biases",
    ),
    "expanded rows": (lambda m, a, b: a.expand(7, -1, -1), 12, r"expands shape"),
    "part of the weights": (
        lambda m, a, b: F.linear(a[..., :2], m.square.weight[:, :2]),
        12,
        "a part of 'square.weight'",
    ),
}


def test_a_tensor_that_is_used_elsewhere_cannot_change():
    network = load_network(Tokens(lambda m, a, b: m.square(a) * m.square.bias, 12).eval())
    network.to_module()
    with pytest.raises(FairmendError, match=r"computes with 'square\.bias' outside of its layer"):
        network.with_affines([moved(affine) for affine in network.affines]).to_module()


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_names_node_and_cause(case):
    between, width, words = REFUSED[case]
    with pytest.raises(FairmendError, match=words):
        load_network(Tokens(between, width).eval())

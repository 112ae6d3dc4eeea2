"""Networks for tables with attention, gates and ensembles: read, repaired, and written back into the module."""

import numpy as np
import pytest
import torch
from torch import nn

import fairmend
from fairmend.network import Affine
from support.cli_case import small_people, small_spec
from support.torch_zoo import ZOO, FTTransformer, zoo_module

SPEC = small_spec()
PEOPLE = small_people(40)
X, Y = SPEC.as_inputs(PEOPLE, np.float32), SPEC.labels(PEOPLE)


def outputs(module, rows):
    with torch.no_grad():
        return module(torch.tensor(rows))[:, 0].numpy()


@pytest.mark.parametrize("name", ZOO)
def test_a_module_is_repaired_and_gets_its_weights_back(name, tmp_path):
    module = zoo_module(name, X.shape[1])
    before = fairmend.load_network(module)
    assert np.allclose(before.logits(X), outputs(module, X), atol=1e-5)
    training = fairmend.TrainingOptions(steps=3)
    result = fairmend.repair(module, SPEC, X[:2], X[2:], Y[2:], method="prof", training=training)
    result.network.save(tmp_path / "m.pth")
    result.certificate.save(tmp_path / "c.json", tmp_path / "m.pth")
    report = fairmend.check(tmp_path / "c.json", tmp_path / "m.pth")
    assert report.valid, report.reasons
    assert {verdict.name for verdict in fairmend.certify(tmp_path / "m.pth", SPEC, X[:2]).verdicts} == {"FAIR"}
    repaired = result.network.to_module()
    assert result.network.affines != before.affines
    assert np.allclose(outputs(repaired, X), result.network.logits(X), atol=1e-5)
    assert fairmend.load_network(repaired).nodes == result.network.nodes
    assert fairmend.load_network(tmp_path / "m.pth").nodes == result.network.nodes


@pytest.mark.parametrize("name", ["FT-Transformer", "TabM"])
def test_a_blind_network_ignores_its_columns_in_every_token(name):
    result = fairmend.repair(zoo_module(name, X.shape[1]), SPEC, X[:2], X[2:], Y[2:], method="blind")
    rows = X.copy()
    rows[:, :3] = rows[::-1, :3]
    assert (result.network.predict(rows) == result.network.predict(X)).all()
    assert np.allclose(outputs(result.network.to_module(), rows), outputs(result.network.to_module(), X), atol=1e-6)


@pytest.mark.parametrize("name", ["FT-Transformer", "squeeze and excitation"])
def test_an_exported_program_is_the_same_network(name, tmp_path):
    module = zoo_module(name, X.shape[1])
    rows = {0: torch.export.Dim("rows", min=2)}
    torch.export.save(torch.export.export(module, (torch.tensor(X),), dynamic_shapes=(rows,)), tmp_path / "m.pt2")
    network = fairmend.load_network(tmp_path / "m.pt2")
    assert np.allclose(network.logits(X), outputs(module, X), atol=1e-5)
    moved = [Affine(affine.weight * np.float32(1.5), affine.bias + np.float32(0.1)) for affine in network.affines]
    changed = network.with_affines(moved)
    changed.save(tmp_path / "n.pt2")
    again = torch.export.load(tmp_path / "n.pt2").module()
    assert np.allclose(outputs(again, X), changed.logits(X), atol=1e-5)


class Encoder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(2)
        self.weight = nn.Parameter(torch.randn(X.shape[1], 4))
        self.encoder = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, **options)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.encoder(x[:, :, None] * self.weight).mean(1))


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}])
def test_an_encoder_layer_is_its_parts(options):
    module = Encoder(**options).eval()
    network = fairmend.load_network(module)
    assert np.allclose(network.logits(X), outputs(module, X), atol=1e-5)
    moved = network.with_affines([Affine(a.weight * np.float32(1.2), a.bias) for a in network.affines])
    assert np.allclose(outputs(moved.to_module(), X), moved.logits(X), atol=1e-5)


class Encoders(nn.Module):
    """nn.TransformerEncoder with a norm, and a mask that is filled in, of truth values or of numbers."""

    def __init__(self, mask, **called):
        super().__init__()
        torch.manual_seed(2)
        layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, norm_first=True)
        self.weight, self.head = nn.Parameter(torch.randn(X.shape[1], 4)), nn.Linear(4, 1)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(4), enable_nested_tensor=False)
        self.register_buffer("mask", mask)
        self.called = called

    def forward(self, x):
        return self.head(self.encoder(x[:, :, None] * self.weight, mask=self.mask, **self.called)[:, -2])


CAUSAL = nn.Transformer.generate_square_subsequent_mask(X.shape[1])


def test_an_encoder_of_several_layers_is_its_layers():
    for mask, called in ((None, {}), (CAUSAL, {}), (CAUSAL, {"is_causal": True}), (CAUSAL.isinf().roll(1, 0).T, {})):
        module = Encoders(mask, **called).eval()
        network = fairmend.load_network(module)
        assert np.allclose(network.logits(X), outputs(module, X), atol=1e-5)


def test_an_encoder_that_says_that_another_mask_is_causal_is_refused():
    with pytest.raises(fairmend.FairmendError, match=r"self_attn.* is causal without a constant mask that says so"):
        fairmend.load_network(Encoders(CAUSAL.T.contiguous(), is_causal=True).eval())


def test_an_encoder_layer_with_another_activation_is_refused():
    with pytest.raises(fairmend.FairmendError, match=r"TransformerEncoderLayer.* an activation other than ReLU"):
        fairmend.load_network(Encoder(activation=torch.tanh).eval())


def test_categories_are_tokens_as_well():
    torch.manual_seed(1)
    module = FTTransformer(2, (3, 2), blocks=2).eval()
    network = fairmend.load_network(module)
    rows = np.column_stack([X[:, 3:5], np.arange(40) % 3, np.arange(40) % 2]).astype(np.float32)
    assert np.allclose(network.logits(rows), outputs(module, rows), atol=1e-5)


def test_weights_count_once_however_often_they_are_used():
    module = zoo_module("gated ResNet", X.shape[1])
    fixed = sum(p.numel() for name, p in module.named_parameters() if "norm" in name)
    assert fairmend.load_network(module).weights == sum(p.numel() for p in module.parameters()) - fixed


def test_training_keeps_zeros_zero_and_shared_numbers_shared():
    network = fairmend.load_network(zoo_module("FT-Transformer", X.shape[1]))
    noise = np.random.default_rng(0)
    changed = network.with_affines(
        [
            Affine(affine.weight + noise.normal(size=affine.weight.shape).astype("f4"), affine.bias)
            for affine in network.affines
        ]
    )
    for old, new in zip(network.affines, changed.affines, strict=True):
        if old.tie is not None:
            assert ((old.weight != 0) | (new.weight == 0)).all()
            assert len(np.unique(new.weight)) <= old.tie.blocks * old.tie.outputs * old.tie.inputs + 1

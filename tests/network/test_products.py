"""A network with attention: bounds of its features, what it writes, and what is proven about it."""

import numpy as np
import onnxruntime
import pytest
import torch

import fairmend
from fairmend import Feature, Spec
from fairmend.bounds.linear import Boxes, feature_bounds
from fairmend.network import (
    Activation,
    Affine,
    Columns,
    Input,
    Network,
    Node,
    Normalise,
    Product,
    Softmax,
    Sum,
    load_network,
)
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.kernel.bounds import point_bounds

TOKENS, WIDTH = 3, 4


def attention(seed, columns=4, scale=0.3):
    """One block of attention over three tokens of width 4, a hidden layer and a head."""
    rng = np.random.default_rng(seed)

    def affine(out, width, tokens=1):
        weight = np.kron(np.eye(tokens), rng.normal(size=(out, width)) * scale)
        return Affine(weight.astype("float32"), (rng.normal(size=len(weight)) * scale).astype("float32"))

    turned = tuple(token * WIDTH + unit for unit in range(WIDTH) for token in range(TOKENS))
    nodes = [
        Node(Input(columns)),
        Node(affine(TOKENS * WIDTH, columns), (0,), "tokens"),
        Node(Normalise(WIDTH, 1e-5), (1,)),
        *(Node(affine(WIDTH, WIDTH, TOKENS), (2,), name) for name in ("q", "k", "v")),
        Node(Product(1, TOKENS, TOKENS, WIDTH), (3, 4)),
        Node(Softmax(TOKENS), (6,)),
        Node(Columns(turned), (5,)),
        Node(Product(1, TOKENS, WIDTH, TOKENS), (7, 8)),
        Node(Sum(), (9, 1)),
        Node(affine(6, TOKENS * WIDTH), (10,), "hidden"),
        Node(Activation("relu"), (11,)),
        Node(affine(1, 6), (12,), "head"),
    ]
    return Network.from_nodes(nodes)


@pytest.mark.parametrize("method", ["linear", "interval"])
def test_features_are_within_their_bounds(method):
    network, rng = attention(0), np.random.default_rng(1)
    X = rng.normal(size=(20, 4)).astype("float32")
    layers = [
        (torch.tensor(affine.weight, requires_grad=True), torch.tensor(affine.bias)) for affine in network.affines[:-1]
    ]
    low, high = feature_bounds(network, layers, Boxes.from_arrays(X - 0.05, X + 0.05, torch.float32), method)
    for _ in range(20):
        features = torch.tensor(network.features((X + rng.uniform(-0.05, 0.05, X.shape)).astype("float32")))
        assert ((low <= features + 1e-4) & (features <= high + 1e-4)).all()
    (high - low).sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight, _ in layers)


@pytest.mark.parametrize("far", [1.0, 30.0, 60.0, 1e6])
def test_planes_of_a_softmax_have_gradients_however_wide_its_bounds_are(far):
    """Repairs are trained through them in float32, where 1 / S² of wide bounds is 0."""
    low = torch.tensor([[[-far, 0.0, -far / 2]]], requires_grad=True)
    high = torch.tensor([[[far, 1.0, far / 2]]], requires_grad=True)
    planes = Softmax(3).relax([low], [high])
    sum(part.sum() for part in planes).backward()
    assert all(part.isfinite().all() for part in (*planes, low.grad, high.grad))


def test_onnx_runtime_and_the_kernel_compute_what_the_network_does(tmp_path):
    network = attention(1)
    network.save(tmp_path / "net.onnx")
    X = np.random.default_rng(2).normal(size=(50, 4)).astype("float32")
    logits = network.logits(X).reshape(-1)
    (found,) = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"input": X})
    np.testing.assert_allclose(found.reshape(-1), logits, atol=1e-5)
    low, high, _ = point_bounds(kernel_model(network), X.astype(np.float64))
    assert ((low[:, 0] - 1e-4 <= logits) & (logits <= high[:, 0] + 1e-4)).all()


def test_a_state_dict_keeps_the_steps(tmp_path):
    network = attention(2)
    network.save(tmp_path / "net.pth")
    X = np.random.default_rng(3).normal(size=(5, 4)).astype("float32")
    assert (load_network(tmp_path / "net.pth").logits(X) == network.logits(X)).all()


SPEC = Spec(
    features=[
        Feature(name="sex", kind="categorical", categories=["a", "b"], encoding="ordinal", protected=True),
        Feature(name="x0", kind="continuous", range=(-2, 2), tolerance=0.05),
        *(Feature(name=f"x{i}", kind="continuous", range=(-2, 2)) for i in (1, 2)),
    ]
)


def people(count):
    rng = np.random.default_rng(4)
    return np.column_stack([rng.integers(0, 2, count), rng.uniform(-2, 2, (count, 3))]).astype("float32")


def test_verdicts_agree_with_samples():
    network, X = attention(5), people(40)
    report = fairmend.certify(network, SPEC, X)
    rng = np.random.default_rng(6)
    for person, verdict in zip(X, report.verdicts, strict=True):
        others = np.repeat(person[None], 400, axis=0)
        others[:, 0] = rng.integers(0, 2, 400)
        others[:, 1] = np.clip(person[1] + rng.uniform(-0.05, 0.05, 400), -2, 2)
        if len(set(network.predict(others).tolist())) > 1:
            assert verdict is fairmend.Verdict.UNFAIR
    assert {verdict.name for verdict in report.verdicts} == {"FAIR", "UNFAIR"}


def test_prof_proves_a_repair(tmp_path):
    network, X = attention(7), people(200)
    y = (X[:, 1] + X[:, 2] > 0).astype(int)
    result = fairmend.repair(
        network, SPEC, X[:10], X, y, method="prof", seed=0, training=fairmend.TrainingOptions(steps=20)
    )
    result.certificate.save(tmp_path / "certificate.json")
    assert fairmend.check(tmp_path / "certificate.json", None).valid

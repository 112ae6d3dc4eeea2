"""`verify_deployment`: what computes the network matches, and every mistake of a deployment shows."""

import numpy as np
import pytest
import torch

import fairmend
from fairmend import FairmendError, Feature, Label, Spec
from support.checker_cases import case
from support.strategies import random_network


@pytest.fixture(scope="module", params=[1, 3])
def deployed(request, tmp_path_factory):
    """A certificate and its model file in one folder, and the network as it is served."""
    folder = tmp_path_factory.mktemp("deployed")
    made = case("one-hot", outputs=request.param)
    certificate, model = made.save(folder, bind=True)
    return certificate, model, made.network, made.spec


def test_the_network_itself_matches(deployed):
    certificate, model, network, spec = deployed
    for found in (
        fairmend.verify_deployment(network.logits, certificate, model),
        fairmend.verify_deployment(lambda people: network.logits(spec.encode(people)), certificate, takes="people"),
        fairmend.verify_deployment(network.predict, certificate, gives="classes"),
    ):
        assert found.matches
        assert (found.differing, found.decisions, found.largest_excess, len(found.rows)) == (0, 0, 0, 0)
        assert "MATCHES" in repr(found)


def test_probabilities_match(deployed):
    certificate, _, network, _ = deployed
    several = network.outputs > 1

    def predict(X):
        logits = torch.from_numpy(np.asarray(network.logits(X), np.float32).reshape(len(X), -1))
        return (logits.softmax(1) if several else torch.sigmoid(logits)).numpy()

    assert fairmend.verify_deployment(predict, certificate, gives="probabilities").matches
    if not several:
        both = fairmend.verify_deployment(
            lambda X: np.concatenate([1 - predict(X), predict(X)], axis=1), certificate, gives="probabilities"
        )
        assert both.matches


@pytest.mark.parametrize(
    "mistake",
    [
        lambda X: X[:, ::-1].copy(),
        lambda X: X * np.float32(1.001),
        lambda X: X + np.float32(0.01),
        lambda X: torch.from_numpy(X).bfloat16().float().numpy(),
        lambda X: np.where(X > 0.5, X, 0).astype(np.float32),
    ],
    ids=["order", "scale", "offset", "bfloat16", "clipped"],
)
def test_mistakes_show_with_the_first_rows(mistake, deployed):
    certificate, model, network, spec = deployed
    found = fairmend.verify_deployment(lambda X: network.logits(mistake(X)), certificate, model)
    assert not found.matches
    assert found.differing > 0
    assert found.largest_excess > 0
    assert {feature.name for feature in spec.features} < set(found.rows.columns)
    first = found.rows.iloc[0]
    assert not first["at least"] <= first["deployed"] <= first["at most"]
    assert "DIFFERS" in repr(found)
    assert len(found.as_dict()["rows"]) == len(found.rows) <= 10


def test_answers_may_not_depend_on_the_batch(deployed):
    certificate, model, network, _ = deployed
    found = fairmend.verify_deployment(lambda X: network.logits(X) + (len(X) == 7), certificate, model)
    assert not found.matches


def test_classes_by_name(tmp_path):
    spec = Spec(
        [
            Feature("sex", "categorical", categories=("f", "m"), protected=True),
            Feature("age", "integer", range=(18, 60)),
        ],
        label=Label("approved", positive="yes"),
    )
    network = random_network(np.random.default_rng(0), spec.width, (4,), 1, "relu", "float32")
    weight = network.affines[0].weight.copy()
    weight[:, 0] = 0
    from fairmend.prove.certificate import certificate_of_blindness
    from support.checker_cases import affine

    blind = fairmend.Network([affine(weight, network.affines[0].bias), *network.affines[1:]], list(network.activations))
    blind.save(tmp_path / "model.onnx")
    certificate = certificate_of_blindness(blind, spec, [0], method="blind")
    names = np.array(["no", "yes"])
    found = fairmend.verify_deployment(
        lambda X: names[blind.predict(X)], certificate, tmp_path / "model.onnx", gives="classes"
    )
    assert found.matches
    swapped = fairmend.verify_deployment(
        lambda X: names[1 - blind.predict(X)], certificate, tmp_path / "model.onnx", gives="classes"
    )
    assert swapped.differing == swapped.decisions == swapped.people


@pytest.mark.parametrize(
    ("predict", "options", "message"),
    [
        (lambda X: 1 / 0, {}, "predict failed for 1 people: division by zero"),
        (lambda X: np.zeros((len(X) + 1, 1)), {}, "shape"),
        (lambda X: 0.5, {}, "shape"),
        (lambda X: np.zeros((len(X), 9)), {}, "9 columns"),
        (lambda X: np.zeros((len(X), len(X))), {}, "different numbers of columns"),
        (lambda X: ["a"] * len(X), {}, "not numbers"),
        (lambda X: ["maybe"] * len(X), {"gives": "classes"}, "'maybe', which is not a class"),
        (lambda X: X, {"gives": "logits"}, "gives"),
        (lambda X: X, {"takes": "rows"}, "takes"),
        (lambda X: X, {"batch_sizes": [0]}, "batch_sizes"),
    ],
)
def test_bad_callables_are_errors_that_say_what_is_wrong(predict, options, message, tmp_path):
    certificate, model = case("one-hot").save(tmp_path, bind=True)
    with pytest.raises(FairmendError, match=message):
        fairmend.verify_deployment(predict, certificate, model, **options)


def test_the_model_must_be_that_of_the_certificate(tmp_path):
    certificate, model = case("one-hot").save(tmp_path, bind=True)
    other = tmp_path / "other"
    other.mkdir()
    _, another = case("one-hot", rows=3).save(other)
    with pytest.raises(FairmendError, match="other weights"):
        fairmend.verify_deployment(lambda X: X, certificate, another)
    model.unlink()
    with pytest.raises(FairmendError, match="model="):
        fairmend.verify_deployment(lambda X: X, certificate)
    with pytest.raises(FairmendError, match="model="):
        fairmend.verify_deployment(lambda X: X, case("one-hot").certificate)


def test_a_predict_that_changes_its_input_changes_only_its_own(deployed):
    certificate, model, network, _ = deployed

    def predict(X):
        answer = network.logits(X)
        X[:] = 0
        return answer

    assert fairmend.verify_deployment(predict, certificate, model).matches

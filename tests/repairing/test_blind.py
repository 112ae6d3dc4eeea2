"""Blindness holds for every input, and costs as little as it can."""

import numpy as np
import onnx
import onnxruntime
import pytest

import fairmend
from fairmend import Feature, Spec
from fairmend.base.metrics import balanced_accuracy
from fairmend.network import Activation, Affine, Network, load_network
from fairmend.network.input_columns import fix_columns
from fairmend.prove.certificate import certificate_of_blindness
from fairmend.repairing.blind import (
    blind_at_best_reference,
    columns_of,
    ignored_features,
    is_blind,
    match_rate,
    reference_values,
    zero_columns,
)
from support.blind_cases import SPEC, TOLERANT, case
from support.huge_cases import SPECS as HUGE
from support.strategies import random_network

NEARLY_FLAT = Spec(
    features=[
        Feature(name="age", kind="integer", range=(40, 43), protected=True),
        Feature(name="amount", kind="integer", range=(0, 20), tolerance=1),
        Feature(name="group", kind="categorical", categories=("a", "b", "c"), encoding="one-hot"),
    ]
)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_no_protected_value_whatever_changes_a_bit_of_the_output(activation, outputs):
    network, X_repair, X_cal, y_cal = case(SPEC, 1, outputs, activation)
    result = fairmend.repair(network, SPEC, X_repair, X_cal, y_cal, method="blind")
    columns = columns_of(SPEC, SPEC.protected)
    assert result.blind
    rng = np.random.default_rng(5)
    X = SPEC.sample_inputs(500, rng)
    other = X.copy()
    other[:, columns] = rng.normal(scale=1e6, size=(500, len(columns)))  # not even possible values
    assert np.array_equal(result.network.logits(X), result.network.logits(other))


def test_a_folded_network_computes_as_if_the_columns_held_the_reference():
    network, _, X, _ = case(SPEC, 2)
    columns = columns_of(SPEC, SPEC.protected)
    assert columns == [0, 2, 3, 4]
    reference = np.array([0.5, 0, 1, 0], np.float32)
    replaced = X.copy()
    replaced[:, columns] = reference
    assert np.allclose(fix_columns(network, columns, reference).logits(X), network.logits(replaced), atol=1e-5)


def test_the_reference_is_the_one_that_keeps_most_on_the_calibration_set():
    network, _, X, y = case(SPEC, 3)
    columns = columns_of(SPEC, SPEC.protected)
    chosen = balanced_accuracy(y, blind_at_best_reference(network, SPEC, SPEC.protected, X, y).predict(X))
    for reference in reference_values(SPEC, SPEC.protected, X):
        assert chosen >= balanced_accuracy(y, fix_columns(network, columns, reference).predict(X)) - 0.02


def test_references_are_possible_values_after_the_mean():
    _, _, X, _ = case(SPEC, 4)
    found = reference_values(SPEC, SPEC.protected, X)
    assert np.allclose(found[0], X[:, columns_of(SPEC, SPEC.protected)].mean(axis=0))
    assert len(found) <= 1 + 1024
    assert (found[1:, 1:].sum(axis=1) == 1).all()


def test_training_keeps_the_zeros_and_changes_fewer_predictions_than_folding_alone():
    network, X_repair, X_cal, y_cal = case(SPEC, 6, rows=400)
    columns = columns_of(SPEC, SPEC.protected)
    folded = fairmend.repair(
        network, SPEC, X_repair, X_cal, y_cal, method="blind", training=fairmend.TrainingOptions(steps=0)
    )
    trained = fairmend.repair(
        network, SPEC, X_repair, X_cal, y_cal, method="blind", training=fairmend.TrainingOptions(steps=300)
    )
    assert is_blind(folded.network, columns)
    assert is_blind(trained.network, columns)
    before = network.predict(X_cal)
    assert np.mean(trained.network.predict(X_cal) != before) <= np.mean(folded.network.predict(X_cal) != before)


def test_zeroed_columns_are_zero_and_the_rest_is_untouched():
    X = np.arange(12, dtype=np.float32).reshape(3, 4)
    zeroed = zero_columns(X, [1, 3])
    assert not zeroed[:, [1, 3]].any()
    assert np.array_equal(zeroed[:, [0, 2]], X[:, [0, 2]])
    assert X[0, 1] == 1


def test_with_tolerances_the_papers_steps_follow():
    network, X_repair, X_cal, y_cal = case(TOLERANT, 7)
    result = fairmend.repair(network, TOLERANT, X_repair, X_cal, y_cal, method="blind")
    assert result.blind
    assert result.proof.covers_inference.all()
    rng = np.random.default_rng(0)
    for row, label in zip(X_repair, result.classes, strict=True):
        near = np.repeat(row[None], 200, axis=0)
        near[:, 0] = rng.integers(0, 10, 200)
        near[:, 1] = np.clip(near[:, 1] + rng.uniform(-0.05, 0.05, 200), -3, 3)
        assert (result.network.predict(near) == label).all()


@pytest.mark.parametrize("features", ["linear", "box", "points"])
@pytest.mark.parametrize("seed", range(4))
def test_a_head_that_is_the_only_layer_does_not_use_protected_columns_again(tmp_path, features, seed):
    """Step 2 changes the head, and here the head reads the inputs."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, NEARLY_FLAT.width, (), 1, "relu", np.float32)
    X = NEARLY_FLAT.sample_inputs(60, rng)
    result = fairmend.repair(
        network,
        NEARLY_FLAT,
        X[:20],
        X[20:],
        network.predict(X[20:]),
        method="blind",
        training=fairmend.TrainingOptions(steps=3),
        head=fairmend.HeadOptions(features=features),
    )
    assert result.blind
    assert not result.network.affines[0].weight[:, 0].any()
    result.network.save(tmp_path / "model.onnx")
    result.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx").valid


def test_the_global_claim_stands_in_the_certificate():
    network, X_repair, X_cal, y_cal = case(SPEC, 8)
    result = fairmend.repair(network, SPEC, X_repair, X_cal, y_cal, method="blind")
    assert result.certificate.claim == (
        "For every input within the ranges of the spec, the output of this model does not depend on age or group. "
        "The values of these features are: age 18 to 80; group a, b, c."
    )
    assert result.certificate.content["global"] == {"columns": [0, 2, 3, 4]}
    assert result.certificate.count == 0


@pytest.mark.parametrize("name", HUGE)
def test_the_number_of_references_is_bounded(name):
    spec = HUGE[name]
    X = spec.sample_inputs(5, np.random.default_rng(0))
    found = reference_values(spec, spec.protected, X)
    assert len(found) <= 8193
    assert found.shape[1] == len(columns_of(spec, spec.protected))


def test_nobody_is_left_at_the_threshold_where_many_have_the_same_output():
    """A ReLU that is off gives most people the same output, and the rate asks for a threshold among them."""
    network = Network(
        [Affine(np.float32([[1]]), np.float32([0])), Affine(np.float32([[1]]), np.float32([-2]))],
        [Activation("relu")],
    )
    X = np.concatenate([-np.ones((80, 1)), np.linspace(1, 2, 20)[:, None]]).astype(np.float32)
    matched = match_rate(network, X, 0.5)
    assert np.mean(matched.predict(X) == 1) == 0.2
    assert np.abs(matched.logits(X)).min() > 0.4
    assert match_rate(network, X[:80], 0.5) is network


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_rate_of_positive_predictions_is_matched(outputs):
    network, _, X, _ = case(SPEC, 10, outputs, rows=300)
    for threshold in (0.5, 0.3):
        at = match_rate(network.at_threshold(threshold), X, 0.25)
        assert abs(np.mean(at.predict(X) == 1) - 0.25) < 0.01
    matched = match_rate(network, X, 0.25)
    assert matched.affines[:-1] == network.affines[:-1]


def test_no_rate_is_matched_where_there_is_none():
    network, _, X, _ = case(SPEC, 11, 3)
    assert match_rate(network, X, 0.5) is network
    one = case(SPEC, 11, 1)[0]
    assert match_rate(one, X, 0.0) is one


def test_features_count_as_ignored_only_with_all_protected_ones():
    network = case(TOLERANT, 1)[0]
    zeros = np.zeros(1, np.float32)
    without_income = fix_columns(network, [1], zeros)
    assert ignored_features(without_income, TOLERANT) == ()
    assert ignored_features(fix_columns(without_income, [0], zeros), TOLERANT) == ("age", "income")
    assert ignored_features(fix_columns(network, [0], zeros), TOLERANT) == ("age",)


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_rate_is_matched_by_weights_where_the_head_has_no_bias(outputs):
    network, _, X, _ = case(SPEC, 10, outputs, rows=300)
    bare = network.with_operations({len(network.nodes) - 1: Affine.without_bias(network.head.weight)})
    for threshold in (0.5, 0.3):
        at = match_rate(bare.at_threshold(threshold), X, 0.25)
        assert abs(np.mean(at.predict(X) == 1) - 0.25) < 0.01
        assert not at.head.bias.any()
        assert at.affines[:-1] == network.affines[:-1]


def test_a_head_without_a_bias_stays_as_it_is_where_no_weights_come_closer_to_the_rate():
    network = Network([Affine.without_bias(np.float32([[1, 0]]))], [])
    X = np.float32([[1, 0], [-1, 0], [2, 0], [-2, 0]])
    assert match_rate(network, X, 0.25) is network


def test_a_head_without_a_bias_does_not_use_ignored_columns_to_match_a_rate():
    network = Network([Affine.without_bias(np.float32([[0, 1]]))], [])
    X = np.column_stack([np.ones(50), np.linspace(1, 3, 50)]).astype(np.float32)
    assert is_blind(match_rate(network, X, 0.5), [0])


def test_ignored_columns_keep_weights_of_exactly_0_when_a_rate_is_matched():
    """The least squares of 7 columns, 5 of them 0, leave traces of 1e-17 in those."""
    rng = np.random.default_rng(0)
    weight = np.zeros((1, 7), np.float32)
    weight[0, 5:] = 0.1, 0.2
    network = Network([Affine.without_bias(weight)], [])
    X = np.column_stack([rng.integers(0, 2, (300, 5)), rng.random(300), rng.normal(size=300)]).astype(np.float32)
    matched = match_rate(network, X, 0.3)
    assert matched.head != network.head
    assert is_blind(matched, range(5))


def test_the_best_reference_of_a_layer_without_a_bias_is_what_its_blind_network_keeps():
    """It cannot take in any value: all references give one network, that of 0."""
    network, _, X, y = case(SPEC, 3)
    bare = network.with_operations({1: Affine.without_bias(network.affines[0].weight)})
    blind = blind_at_best_reference(bare, SPEC, SPEC.protected, X, y)
    columns = columns_of(SPEC, SPEC.protected)
    assert np.allclose(blind.logits(X), bare.logits(zero_columns(X, columns)), atol=1e-5)
    assert is_blind(blind, columns)


def over_zero(folder, added):
    """A file that divides 1 by 0 x and what is added, and cuts that off at -1 and 1; x is -1 or 1."""
    numbers = {"zero": 0.0, "added": added, "low": -1.0, "high": 1.0, "w": [[1.0], [0.01]], "first": [0], "second": [1]}
    steps = [
        ("Gather", "x first", "sex"),
        ("Gather", "x second", "income"),
        ("Mul", "sex zero", "product"),
        *([("Add", "product added", "below")] if added else []),
        ("Reciprocal", "below" if added else "product", "quotient"),
        ("Clip", "quotient low high", "share"),
        ("Concat", "share income", "both"),
        ("Gemm", "both w", "y"),
    ]
    axis = {"Gather": {"axis": 1}, "Concat": {"axis": 1}}
    read = {name for _, names, _ in steps for name in names.split()}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, names.split(), [to], **axis.get(kind, {})) for kind, names, to in steps],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 2])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", 1])],
        [
            onnx.numpy_helper.from_array(np.array(value, np.int64 if name in ("first", "second") else np.float32), name)
            for name, value in numbers.items()
            if name in read
        ],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder)
    return folder


@pytest.mark.parametrize("added", [0.0, 2.0])
def test_what_divides_by_a_product_with_0_is_not_said_to_ignore_it(added, tmp_path):
    """0 x is 0 or -0, and 1 over that is infinity or -infinity: two people got -0.97 and 1.03 under a VALID claim."""
    spec = Spec(
        features=[
            Feature("sex", "categorical", categories=("f", "m"), scale={"mean": 0.5, "std": 0.5}, protected=True),
            Feature("income", "continuous", range=(0, 10)),
        ]
    )
    file = over_zero(tmp_path / "model.onnx", added)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    scores = session.run(None, {"x": np.float32([[-1, 3], [1, 3]])})[0].ravel()
    assert (scores[0] == scores[1]) == (added != 0)
    network = load_network(file)
    certificate_of_blindness(network, spec, [0], method="blind").save(tmp_path / "certificate.json", model=file)
    checked = fairmend.check(tmp_path / "certificate.json", file, run=False)
    assert checked.valid == (added != 0)
    assert added or checked.reasons[0] == "certificate.global: the model depends on column 0"
    assert ignored_features(network, spec) == (("sex",) if added else ())

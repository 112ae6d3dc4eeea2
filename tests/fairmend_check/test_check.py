"""The verdict: the checker confirms what fairmend proves, and accepts every change that does no harm to a claim."""

import json
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest

import fairmend
from fairmend.network import Activation, Network
from fairmend.prove import certificate as writer
from fairmend.prove.certificate import certificate_of_blindness, certificate_of_fair
from fairmend_check.check import _global_reasons
from fairmend_check.kernel.assemble import Affine as Stored
from fairmend_check.kernel.assemble import assemble
from fairmend_check.kernel.operations.affine import scaling
from fairmend_check.kernel.spec import read_spec
from support.checker_cases import (
    SPECS,
    TWO_FEATURES,
    affine,
    case,
    class_of,
    content_of,
    is_true,
    margin_of,
    neighbours,
    read,
    rounding_case,
    sign_network,
    write,
)
from support.strategies import random_network


def test_a_state_dict_holds_on_the_condition_that_the_module_computes_what_was_proven(tmp_path):
    """Weights alone say neither in which order they are used nor what comes between them: the condition does."""
    import torch

    network = Network(
        [affine([[1, 0]], [0]), affine([[1]], [-0.1])], [Activation("leaky_relu", 0.01)], names=["z", "a"]
    )
    path = tmp_path / "m.pth"
    torch.save({f"{n}.{k}": torch.tensor(getattr(a, k)) for n, a in zip("za", network.affines, strict=True) for k in ("weight", "bias")}, path)  # noqa: E501  # fmt: skip
    certificate, _ = certificate_of_fair(network, TWO_FEATURES, np.array([[1, 0]], np.float32))
    certificate.save(tmp_path / "c.json", path)
    result = fairmend.check(tmp_path / "c.json", path)
    assert result.valid
    assert '"z" (2 to 1), leaky_relu(0.01), "a" (1 to 1)' in result.condition
    assert "computes in float32" in result.condition
    assert result.condition in repr(result)
    assert result.as_dict()["condition"] == result.condition
    network.astype(np.float64).save(path)
    certificate, _ = certificate_of_fair(network.astype(np.float64), TWO_FEATURES, np.array([[1.0, 0]]))
    certificate.save(tmp_path / "c.json", path)
    assert "A module in float32 would round the weights" in fairmend.check(tmp_path / "c.json", path).condition


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_the_note_of_fairmend_in_a_state_dict_is_not_evidence(tmp_path, suffix):
    """PyTorch never reads the note: what a certificate says about the module counts, and is printed."""
    square = [affine([[0, 1], [0, -1]], [0, 1]), affine([[1, 0], [0, 1]], [0, 0])]
    networks = [
        Network(layers, [Activation(between)], names=names)
        for between in ("relu", "identity")
        for layers, names in ((square, ["a", "b"]), (square[::-1], ["b", "a"]))
    ]
    for claimed in networks[:1] + networks[2:3]:
        certificate = certificate_of_blindness(claimed, TWO_FEATURES, [0], method="blind")
        for stored in networks:  # the same tensors by name, with four notes
            stored.save(tmp_path / f"m.{suffix}")
            certificate.save(tmp_path / "c.json", tmp_path / f"m.{suffix}")
            result = fairmend.check(tmp_path / "c.json", tmp_path / f"m.{suffix}")
            assert result.valid
            between = "relu, " if claimed is networks[0] else ""
            assert f'"a" (2 to 2), {between}"b" (2 to 2)' in result.condition
    content = read(tmp_path / "c.json")
    described = content["model"]["network"]
    first, second = described["steps"][1:]
    described |= {"steps": [described["steps"][0], {**second, "sources": [0]}, {**first, "sources": [1]}]}
    described["tensors"] = None
    assert "weights_sha256" in fairmend.check(write(tmp_path, content), tmp_path / f"m.{suffix}").reasons[0]


@pytest.mark.parametrize("suffix", ["pth", "safetensors", "onnx"])
def test_a_certificate_with_other_names_is_about_no_state_dict(tmp_path, suffix):
    made = case()
    _, model = made.save(tmp_path, suffix)
    content = made.content
    described = content["model"]["network"]
    for step in described["steps"]:
        step |= {part: f"my.{step[part]}" for part in ("weight", "bias") if part in step}
    described["tensors"] = {f"my.{key}": tensor for key, tensor in described["tensors"].items()}
    result = fairmend.check(write(tmp_path, content), model)
    assert result.valid == (suffix == "onnx")
    way_out = "a module with other tensors. Save the certificate with this file: certificate.save(path, model)"
    assert result.valid or (result.verdict == "invalid" and way_out in result.reasons[0])


SUFFIXES = ("onnx", "pth", "safetensors")


KINDS = [
    *({"spec": spec, "outputs": outputs} for spec in SPECS for outputs in (1, 3)),
    *(
        {"activation": name, "outputs": outputs, "spec": spec}
        for name in ("leaky_relu", "tanh", "sigmoid", "identity")
        for outputs, spec in ((1, "tolerance"), (2, "one-hot"))
    ),
    *({"dtype": "float64", "activation": name} for name in ("relu", "leaky_relu", "tanh")),
    *({"features": "points", "spec": spec, "outputs": 3} for spec in ("ordinal", "one-hot", "dropped")),
    {"spec": "dropped"},
    {"spec": "dropped", "outputs": 2, "dtype": "float64"},
    {"features": "points", "dtype": "float64", "activation": "sigmoid"},
    {"features": "box"},
    {"hidden": ()},
]


def named(kind):
    return "-".join(str(value) for value in kind.values())


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_certificates_of_repairs_are_valid(kind, tmp_path):
    made = case(**kind)
    for suffix in SUFFIXES:
        report = fairmend.check(*made.save(tmp_path, suffix, bind=True))
        assert report.valid, report.reasons
        assert report.regions == len(made.content["inputs"])
        assert report.claim == made.certificate.claim
        assert report.covers_inference is True
        assert report.least_margin > 0


def test_what_is_written_fits_the_published_schema():
    schema = json.loads((Path(writer.__file__).parent / "certificate.schema.json").read_text())
    for kind in KINDS:
        jsonschema.validate(json.loads(b"".join(case(**kind).certificate.lines())), schema)


def test_the_margin_that_is_found_is_not_above_the_truth(tmp_path):
    rng = np.random.default_rng(0)
    for kind in KINDS:
        made = case(**kind)
        report = fairmend.check(*made.save(tmp_path))
        assert is_true(made.content, made.network, rng)
        for x in made.content["inputs"]:
            points = neighbours(made.spec, x, made.network.dtype.name, rng)
            assert margin_of(made.network, points, class_of(made.network, x)) >= report.least_margin - 1e-12


def test_a_closing_sigmoid_or_softmax_changes_nothing(tmp_path):
    for outputs, closing in ((1, "sigmoid"), (3, "softmax")):
        made = case(outputs=outputs)
        closed = Network(made.network.affines, made.network.activations, closing)
        for suffix in SUFFIXES:
            closed.save(tmp_path / f"closed.{suffix}")
            assert fairmend.check(write(tmp_path, made.content), tmp_path / f"closed.{suffix}").valid


def blind_network():
    """A network that reads neither race nor sex, with the content of a certificate that says so."""
    net = random_network(np.random.default_rng(2), SPECS["one-hot"].width, [6, 5])
    weight = net.affines[0].weight.copy()
    weight[:, [1, 2, 3, 5]] = 0.0
    weight[0, 1] = -0.0
    net = Network([type(net.affines[0])(weight, net.affines[0].bias), *net.affines[1:]], net.activations)
    content = case(spec="one-hot").content
    content.update({"global": {"columns": [1, 2, 3, 5]}, "inputs": content["inputs"][:0], "claim": ""})
    return net, sign_network(content, net)


def test_a_global_claim_is_valid_where_the_first_layer_is_blind(tmp_path):
    net, content = blind_network()
    net.save(tmp_path / "blind.onnx")
    report = fairmend.check(write(tmp_path, content), tmp_path / "blind.onnx")
    assert report.valid
    assert report.claim == (
        "For every input within the ranges of the spec, the output of this model does not depend on race or sex. The "
        "values of these features are: race a, b, c; sex f, m."
    )
    assert report.condition == ""  # numbers of another pipeline are other people, and the claim is about all of them
    assert (report.least_margin, report.covers_inference, report.regions) == (None, True, 0)


WRONG = [[1, 2, 3], [5], [1, 2, 3, 5, 5], [0, 1, 2, 3, 5], [1, 2, 3, 99], [1, 2, 3, 4, 5], [1, 2, 5]]


@pytest.mark.parametrize("columns", WRONG)
def test_a_global_claim_names_all_columns_of_the_protected_features(columns, tmp_path):
    """And no half of a feature, nor one in which similar people do not differ."""
    net, content = blind_network()
    net.save(tmp_path / "blind.onnx")
    content["global"]["columns"] = columns
    report = fairmend.check(write(tmp_path, content), tmp_path / "blind.onnx")
    assert not report.valid
    assert "it must hold all columns of the protected features" in report.reasons[0]
    assert "each once: here [1, 2, 3, 5]" in report.reasons[0]


@pytest.mark.parametrize(
    ("columns", "valid"), [([0], True), ([0, 1], True), ([1, 2, 0], True), ([1, 2], False), ([0, 0], False)]
)
def test_a_global_claim_may_name_further_features_that_vary(columns, valid, tmp_path):
    made = case(spec="tolerance")
    weight = np.zeros_like(made.network.affines[0].weight)
    first = type(made.network.affines[0])(weight, made.network.affines[0].bias)
    net = Network([first, *made.network.affines[1:]], made.network.activations)
    net.save(tmp_path / "blind.onnx")
    content = sign_network({**made.content, "global": {"columns": columns}, "inputs": made.content["inputs"][:0]}, net)
    assert fairmend.check(write(tmp_path, content), tmp_path / "blind.onnx").valid == valid


def test_a_global_claim_is_refused_where_one_weight_is_not_zero(tmp_path):
    net, content = blind_network()
    weight = net.affines[0].weight.copy()
    weight[3, 5] = 1e-45
    net = Network([type(net.affines[0])(weight, net.affines[0].bias), *net.affines[1:]], net.activations)
    net.save(tmp_path / "almost.onnx")
    report = fairmend.check(write(tmp_path, sign_network(content, net)), tmp_path / "almost.onnx")
    assert report.reasons == ("certificate.global: the model depends on column 5",)


def test_a_global_claim_is_refused_where_a_norm_multiplies_weights_by_0():
    """3e38 times 10 is infinite in float32, and 0 times infinity is NaN: some people get it, others do not."""
    spec = read_spec({"feature": [{"name": "g", "kind": "integer", "range": [0, 10], "protected": True}]}, "spec")
    for weight, gain, valid in ((3e38, 0.0, False), (0.0, 1.0, True)):
        layers = [Stored(np.float32([[value]]), None) for value in (weight, 1.0)]
        model = assemble([layers[0], scaling(0.0, gain, None), layers[1]])
        assert not model.layers[0].weight.any()
        assert (_global_reasons(SimpleNamespace(blind=tuple(spec.columns()), spec=spec), model) == []) is valid


# Arithmetic


def test_a_claim_about_another_precision_is_refused_because_inference_answers_differently(tmp_path):
    import onnxruntime

    found = rounding_case()
    _, model = found.save(tmp_path)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    people = np.array([[1, 1], [2, 1]], np.float32)
    scores = session.run(None, {session.get_inputs()[0].name: people})[0].reshape(-1)
    assert (scores >= 0).tolist() == [True, False]  # two similar people are treated unequally
    content = found.content
    for arithmetic, reason in (
        ("float64", "certificate.arithmetic is float64, but the model computes in float32"),
        ("float32", "the margin does not exceed the rounding errors of float32 inference"),
        ("real", "the certificate is about exact real arithmetic only, and rounding may change a prediction"),
    ):
        content["arithmetic"] = arithmetic
        result = fairmend.check(write(tmp_path, content), model)
        assert not result.valid
        assert reason in result.reasons[0]


def test_a_claim_about_real_arithmetic_is_checked_where_the_caller_asks_for_it(tmp_path):
    found = rounding_case()
    certificate, model = found.save(tmp_path)
    assert found.certificate.real_only
    result = fairmend.check(certificate, model, real=True)
    assert result.valid, result.reasons
    assert result.covers_inference is False
    assert "exact real arithmetic only, not in inference" in result.claim
    content = found.content
    content["inputs"][0, 1] = 2 / 3  # where the score is 0 in exact arithmetic
    assert not fairmend.check(write(tmp_path, content), model, real=True).valid


def test_real_accepts_a_claim_about_inference_as_well(tmp_path):
    assert fairmend.check(*case().save(tmp_path), real=True).valid


def test_the_other_precision_is_refused_for_a_float64_model_too(tmp_path):
    found = case(dtype="float64")
    _, model = found.save(tmp_path)
    result = fairmend.check(write(tmp_path, {**found.content, "arithmetic": "float32"}), model)
    assert "the model computes in float64" in result.reasons[0]


def test_a_weight_of_minus_zero_ignores_its_column_and_a_subnormal_one_does_not(tmp_path):
    for weight, ignored in ((-0.0, True), (1e-45, False)):
        network = Network([affine([[weight, 1]], [0])], [])
        network.save(tmp_path / "m.onnx")
        claimed = certificate_of_blindness(network, TWO_FEATURES, [0], method="blind")
        claimed.save(tmp_path / "c.json", tmp_path / "m.onnx")
        assert fairmend.check(tmp_path / "c.json", tmp_path / "m.onnx").valid == ignored


def test_a_margin_that_a_closing_sigmoid_rounds_away_does_not_cover_inference(tmp_path):
    """The scores are -2^-24 and -2^-23, both class 0; the probability of the first is exactly 0.5, which is class 1."""
    import onnxruntime

    network = Network([affine([[-(2.0**-24), 0]], [0])], [], closing="sigmoid")
    network.save(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    people = np.array([[1, 0], [2, 0]], np.float32)
    probability = session.run(None, {session.get_inputs()[0].name: people})[0].reshape(-1)
    assert (probability >= 0.5).tolist() == [True, False]
    certificate, _ = certificate_of_fair(network, TWO_FEATURES, people[:1])
    assert certificate.real_only
    content = content_of(certificate) | {"arithmetic": "float32"}
    result = fairmend.check(write(tmp_path, content), tmp_path / "m.onnx")
    assert "does not exceed the rounding errors of float32 inference" in result.reasons[0]

"""Whatever makes a certificate false, or another than the one that was proven, is refused with the reason."""

import hashlib

import numpy as np
import pytest

import fairmend
from fairmend.network import Affine, Network
from support.checker_cases import case, class_of, is_true, margin_of, neighbours, sign_network, write


def refusal(folder, content, model) -> str:
    """The reasons why a certificate is refused, as one text."""
    report = fairmend.check(write(folder, content), model)
    assert not report.valid
    assert report.reasons
    return "; ".join(report.reasons)


@pytest.fixture
def made(tmp_path):
    found = case(spec="tolerance", outputs=3)
    _, model = found.save(tmp_path)
    return found, found.content, model


def nudged(network: Network, layer=1, place=(0, 0), steps=1) -> Network:
    """The same network but for one weight, which is some ulp larger."""
    affines = list(network.affines)
    weight = affines[layer].weight.copy()
    for _ in range(steps):
        weight[place] = np.nextafter(weight[place], weight.dtype.type(np.inf))
    affines[layer] = Affine(weight, affines[layer].bias)
    return Network(affines, network.activations)


def test_another_model(made, tmp_path):
    _, content, _ = made
    other = case(spec="tolerance", outputs=3, activation="tanh")
    other.network.save(tmp_path / "other.onnx")
    assert "weights_sha256" in refusal(tmp_path, content, tmp_path / "other.onnx")


@pytest.mark.parametrize("suffix", ["onnx", "pth", "safetensors"])
def test_one_weight_one_ulp_away(made, suffix, tmp_path):
    found, content, _ = made
    nudged(found.network).save(tmp_path / f"nudged.{suffix}")
    assert "weights_sha256" in refusal(tmp_path, content, tmp_path / f"nudged.{suffix}")


def test_another_activation_with_the_same_weights(made, tmp_path):
    found, content, _ = made
    other = Network(found.network.affines, [type(found.network.activations[0])("tanh")] * 2)
    other.save(tmp_path / "other.onnx")
    assert "weights_sha256" in refusal(tmp_path, content, tmp_path / "other.onnx")


def test_the_same_weights_in_another_file(made, tmp_path):
    found, content, model = made
    content["model"]["file_sha256"] = hashlib.sha256(model.read_bytes()).hexdigest()
    assert fairmend.check(write(tmp_path, content), model).valid
    found.network.save(tmp_path / "copy.safetensors")
    assert "file_sha256" in refusal(tmp_path, content, tmp_path / "copy.safetensors")


def test_widths_that_are_not_the_models(made, tmp_path):
    _, content, model = made
    inputs, outputs = content["model"]["inputs"], content["model"]["outputs"]
    content["model"]["outputs"] += 1
    expected = f"certificate.model.outputs is {outputs + 1}, but the model has {outputs}"
    assert refusal(tmp_path, content, model) == expected
    content["model"].update({"outputs": outputs, "inputs": inputs + 1})
    expected = f"certificate.spec describes {inputs} columns, but the model has {inputs + 1} inputs"
    assert refusal(tmp_path, content, model) == expected
    # With a spec that has one more column, it is the model that does not fit.
    content["spec"]["feature"].append({"name": "more", "kind": "continuous", "range": [0, 1]})
    expected = f"certificate.model.inputs is {inputs + 1}, but the model has {inputs}"
    assert refusal(tmp_path, content, model) == expected


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_a_precision_that_is_not_the_models(made, dtype, tmp_path):
    _, content, model = made
    content["model"]["dtype"] = dtype
    expected = {
        "float64": "certificate.model.dtype is float64, but the model has float32",
        "float16": "certificate.model.dtype is 'float16'; it must be float32 or float64",
    }
    assert refusal(tmp_path, content, model) == expected[dtype]


def unfair_inputs(made, network, count=3):
    """Return inputs of the spec with similar people who get another class, and the margins that they lack."""
    rng, found = np.random.default_rng(0), []
    for x in made.spec.sample_inputs(2000, rng, network.dtype):
        least = margin_of(network, neighbours(made.spec, x, network.dtype.name, rng), class_of(network, x))
        if least < -1e-4:
            found.append(x)
        if len(found) == count:
            return np.array(found)
    raise AssertionError("the network is too fair for this test")


@pytest.mark.parametrize(
    "kind",
    [
        {"spec": "tolerance", "outputs": 3},
        {"spec": "one-hot", "outputs": 3},
        {"spec": "dropped"},
        {"spec": "ordinal", "dtype": "float64"},
        {"spec": "continuous", "outputs": 2, "activation": "tanh"},
    ],
)
def test_an_unfair_input_is_refused_wherever_it_is_in_the_list(kind, tmp_path):
    """A forger adds people who are treated unequally to those who are not."""
    made = case(**kind)
    network = untrained(made)
    network.save(tmp_path / "model.onnx")
    fair = np.empty((0, made.spec.width), network.dtype)
    content = sign_network(made.content, network)
    for x in made.spec.sample_inputs(60, np.random.default_rng(1), network.dtype):
        if fairmend.check(write(tmp_path, content | {"inputs": x[None]}), tmp_path / "model.onnx", run=False).valid:
            fair = np.concatenate([fair, x[None]])
    for x in unfair_inputs(made, network):
        for place in {0, len(fair) // 2, len(fair)}:
            listed = content | {"inputs": np.insert(fair, place, x, axis=0)}
            reasons = refusal(tmp_path, listed, tmp_path / "model.onnx")
            assert f"input {place}: that similar people get one prediction is not confirmed" in reasons
            assert "; input" not in reasons  # the others are fine


def untrained(made):
    """Return a network like that of a case, which treats some similar people unequally."""
    rng, network = np.random.default_rng(8), made.network
    affines = [
        type(each)(rng.normal(size=each.weight.shape).astype(network.dtype), each.bias) for each in network.affines
    ]
    net = Network(affines, network.activations)
    middle = np.median(net.logits(made.spec.sample_inputs(64, rng, network.dtype)).reshape(64, -1), axis=0)
    return net.with_affines([*affines[:-1], Affine(affines[-1].weight, (affines[-1].bias - middle).astype(net.dtype))])


def test_a_changed_input(made, tmp_path):
    _, content, model = made
    x = content["inputs"][0]
    x[1] = 99.0
    assert 'input 0: feature "income" of the input is 2594.6, which is outside its range' in refusal(
        tmp_path, content, model
    )
    x[1], x[2] = 0.0, 0.25
    assert "is not a whole number" in refusal(tmp_path, content, model)


def test_an_input_that_is_not_one_hot(tmp_path):
    found = case(spec="one-hot")
    _, model = found.save(tmp_path)
    content = found.content
    content["inputs"][2, 1:4] = [1.0, 1.0, 0.0]
    assert "not one-hot" in refusal(tmp_path, content, model)


def test_a_forged_spec_is_no_longer_the_users(made, tmp_path):
    found, content, model = made
    found.spec.save(tmp_path / "spec.toml")
    content["spec"]["feature"][1]["tolerance"] = 0.5
    path = write(tmp_path, content)
    assert fairmend.check(path, model).valid  # of a weaker claim, and it is true
    report = fairmend.check(path, model, tmp_path / "spec.toml")
    assert not report.valid
    assert report.reasons == (
        'spec spec.toml: not the spec of the certificate: feature "income": tolerance is 2.5 instead of 0.5',
    )
    content["spec"]["feature"][0]["protected"] = False
    assert "protects no feature" in refusal(tmp_path, content, model)


def test_a_forged_spec_that_claims_more_is_refused_as_soon_as_it_is_false(made, tmp_path):
    found, content, model = made
    network = untrained(found)
    network.save(model)
    content = sign_network(content, network)
    least = []
    for x in found.spec.sample_inputs(20, np.random.default_rng(3)):
        verdicts = []
        for tolerance in (2.5, 10.0, 40.0, 100.0):
            content["spec"]["feature"][1]["tolerance"] = tolerance
            content["inputs"] = x[None]
            verdicts.append(fairmend.check(write(tmp_path, content), model, run=False).valid)
            assert not verdicts[-1] or is_true(content, network, np.random.default_rng(0))
        assert verdicts == sorted(verdicts, reverse=True)
        least.append(sum(verdicts))
    assert {0, 1, 2} <= set(least)  # some claims are false from the start, and some later


def test_inference_where_only_real_arithmetic_is_covered(tmp_path):
    found = case(dtype="float64", spec="ordinal")
    network, content = found.network, found.content
    x = content["inputs"][0]
    label = class_of(network, x)
    margin = margin_of(network, neighbours(found.spec, x, "float64", np.random.default_rng(0)), label)
    content.update(inputs=x[None], arithmetic="real")
    model = tmp_path / "shifted.pth"
    for left in np.geomspace(1e-16, 1e-12, 40):
        bias = network.affines[-1].bias - (margin - left) * (1 if label else -1)
        shifted = Network([*network.affines[:-1], Affine(network.affines[-1].weight, bias)], network.activations)
        shifted.save(model)
        report = fairmend.check(write(tmp_path, sign_network(content, shifted)), model, real=True)
        if report.valid:
            break
    assert report.valid, report.reasons
    assert report.covers_inference is False
    assert "is about exact real arithmetic only" in refusal(tmp_path, content, model)
    content["arithmetic"] = "float64"
    assert "rounding errors of float64 inference" in refusal(tmp_path, content, model)
    content["arithmetic"] = "float32"
    assert "the model computes in float64" in refusal(tmp_path, content, model)


def test_a_certificate_that_claims_nothing(made, tmp_path):
    _, content, model = made
    content["inputs"] = content["inputs"][:0]
    assert "claims nothing" in refusal(tmp_path, content, model)


@pytest.mark.parametrize("kind", [{"spec": "tolerance", "outputs": 3}, {"spec": "dropped"}, {"features": "points"}])
def test_whatever_is_accepted_after_random_edits_is_true(kind, tmp_path):
    made = case(**kind)
    _, model = made.save(tmp_path)
    rng = np.random.default_rng(11)
    verdicts = []
    for _ in range(150):
        content, network, target = made.content, made.network, model
        for _ in range(rng.integers(1, 3)):
            edit(content, rng)
        if rng.random() < 0.3:
            place = tuple(int(rng.integers(n)) for n in network.affines[1].weight.shape)
            network, target = nudged(network, place=place, steps=int(rng.integers(1, 50))), tmp_path / "nudged.onnx"
            network.save(target)
            sign_network(content, network)
        verdicts.append(fairmend.check(write(tmp_path, content), target, run=False).verdict)
        if verdicts[-1] == "valid":
            assert is_true(content, network, rng)
    assert verdicts.count("valid") > 10  # else nothing was tested
    assert verdicts.count("invalid") > 10


def edit(content, rng) -> None:
    """Move an input, or change one value of the spec."""
    if rng.random() < 0.7:
        X = content["inputs"]
        row, column = rng.integers(len(X)), rng.integers(X.shape[1])
        X[row, column] = rng.choice([*X[:, column], 1 - X[row, column], X[row, column] * X.dtype.type(1.001)])
        return
    below = content["spec"]["feature"]
    while True:
        keys = list(below) if isinstance(below, dict) else list(range(len(below)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        value = below[key]
        if isinstance(value, (dict, list)) and value:
            below = value
            continue
        if rng.random() < 0.05:
            del below[key]
        elif isinstance(value, bool):
            below[key] = not value
        elif isinstance(value, int):
            below[key] = int(value + rng.integers(-2, 3))
        elif isinstance(value, float):
            factor = rng.choice([0.5, 0.999, 1 + 1e-7, 1.001, 2, -1])
            below[key] = float(value * factor + rng.choice([0, 0, 1e-7, -0.1]))
        return

"""Whatever makes a certificate false, or another than the one that was proven, is refused with the reason."""

import hashlib
import json
from contextlib import suppress

import numpy as np
import pytest

import fairmend
from fairmend.network import Affine, Network
from support.checker_cases import case, is_true, margin_of, neighbours, sign_network, sign_spec, write


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
    content["spec"]["content"]["feature"].append({"name": "more", "kind": "continuous", "range": [0, 1]})
    expected = f"certificate.model.inputs is {inputs + 1}, but the model has {inputs}"
    assert refusal(tmp_path, sign_spec(content), model) == expected


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_a_precision_that_is_not_the_models(made, dtype, tmp_path):
    _, content, model = made
    content["model"]["dtype"] = dtype
    expected = {
        "float64": "certificate.model.dtype is float64, but the model has float32",
        "float16": "certificate.model.dtype is 'float16'; it must be float32 or float64",
    }
    assert refusal(tmp_path, content, model) == expected[dtype]


def test_a_margin_above_the_truth(made, tmp_path):
    found, content, model = made
    for number, region in enumerate(content["regions"]):
        changed = json.loads(json.dumps(content))
        points = neighbours(found.spec, np.array(region["input"]), "float32", np.random.default_rng(0))
        changed["regions"][number]["margin"] = margin_of(found.network, points, region["class"]) * (1 + 1e-9)
        assert f"regions[{number}]: the claimed margin of class" in refusal(tmp_path, changed, model)


@pytest.mark.parametrize("margin", [0, -1e-9, 0.0, 1e400, "1", None, True, [1.0]])
def test_a_margin_that_is_none(made, margin, tmp_path):
    _, content, model = made
    content["regions"][1]["margin"] = margin
    text = json.dumps(content).replace("Infinity", "1e400")
    (tmp_path / "changed.json").write_text(text)
    report = fairmend.check(tmp_path / "changed.json", model)
    assert not report.valid
    assert "regions[1].margin" in report.reasons[0]


@pytest.mark.parametrize("end", ["lower", "upper"])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_narrowed_region(made, end, column, tmp_path):
    found, content, model = made
    assert content["regions"]
    for number in range(len(content["regions"])):
        changed = json.loads(json.dumps(content))
        (piece,) = changed["regions"][number]["pieces"]
        value = piece[end][column]
        assert piece["lower"][column] < piece["upper"][column]  # every feature of this spec varies
        inward = np.nextafter(np.float32(value), np.float32(np.inf if end == "lower" else -np.inf))
        piece[end][column] = float(inward)
        reason = refusal(tmp_path, changed, model)
        assert (
            f"regions[{number}]: the pieces do not cover the neighbourhood: no piece contains the neighbour" in reason
        )
        assert f"{found.spec.features[column].name} = " in reason


def test_a_widened_region_of_which_the_claim_is_not_true(made, tmp_path):
    """The box grows over the whole input space, where the network gives both answers."""
    _, content, model = made
    for number in range(len(content["regions"])):
        changed = json.loads(json.dumps(content))
        (piece,) = changed["regions"][number]["pieces"]
        piece["lower"], piece["upper"] = ([end] * len(piece["lower"]) for end in (-1e4, 1e4))
        assert f"regions[{number}]: the claimed margin of class" in refusal(tmp_path, changed, model)


def test_a_removed_piece(tmp_path):
    found = case(spec="one-hot")
    _, model = found.save(tmp_path)
    for removed in range(len(found.content["regions"][0]["pieces"])):
        content = found.content
        del content["regions"][0]["pieces"][removed]
        assert "no piece contains the neighbour with race = " in refusal(tmp_path, content, model)
    content["regions"][0]["pieces"] = []
    assert "regions[0] has no pieces" in refusal(tmp_path, content, model)


def test_a_flipped_class(made, tmp_path):
    _, content, model = made
    changed = json.loads(json.dumps(content))
    for label in {0, 1, 2} - {content["regions"][0]["class"]}:
        changed["regions"][0]["class"] = label
        assert f"regions[0]: the claimed margin of class {label} is" in refusal(tmp_path, changed, model)
    for label in (3, -1, 10**9, 1.0, True, None):
        changed["regions"][0]["class"] = label
        assert "regions[0].class" in refusal(tmp_path, changed, model)


def test_a_changed_input(made, tmp_path):
    _, content, model = made
    x = content["regions"][0]["input"]
    x[1] = float(np.float32(x[1] + 0.3 if x[1] < 0 else x[1] - 0.3))
    assert "do not cover the neighbourhood" in refusal(tmp_path, content, model)
    x[1] += 1e-12
    assert "is not a float32 number" in refusal(tmp_path, content, model)
    x[1] = 99.0
    assert "outside its range" in refusal(tmp_path, content, model)
    x[1], x[2] = 0.0, 0.25
    assert "is not a whole number" in refusal(tmp_path, content, model)


def test_an_input_that_is_not_one_hot(tmp_path):
    found = case(spec="one-hot")
    _, model = found.save(tmp_path)
    content = found.content
    content["regions"][2]["input"][1:4] = [1.0, 1.0, 0.0]
    assert "not one-hot" in refusal(tmp_path, content, model)


def test_changed_spec_content_is_not_what_the_sha256_names(made, tmp_path):
    _, content, model = made
    for feature, key, value, expected in (
        (0, "protected", False, "protects no feature"),
        (1, "range", [0, 50], "content and sha256 do not belong together"),
        (1, "tolerance", 0.1, "content and sha256 do not belong together"),
    ):
        changed = json.loads(json.dumps(content))
        changed["spec"]["content"]["feature"][feature][key] = value
        assert expected in refusal(tmp_path, changed, model)


def test_a_forged_spec_is_no_longer_the_users(made, tmp_path):
    found, content, model = made
    found.spec.save(tmp_path / "spec.toml")
    content["spec"]["content"]["feature"][1]["tolerance"] = 0.5
    path = write(tmp_path, sign_spec(content))
    assert fairmend.check(path, model).valid  # of a weaker claim, and it is true
    report = fairmend.check(path, model, tmp_path / "spec.toml")
    assert not report.valid
    assert report.reasons == (
        'spec spec.toml: not the spec of the certificate: feature "income": tolerance is 2.5 instead of 0.5',
    )


def test_a_forged_spec_that_claims_more(made, tmp_path):
    _, content, model = made
    content["spec"]["content"]["feature"][1]["tolerance"] = 3.0
    assert "do not cover the neighbourhood" in refusal(tmp_path, sign_spec(content), model)


def test_inference_where_only_real_arithmetic_is_covered(tmp_path):
    found = case(dtype="float64", spec="ordinal")
    network, content = found.network, found.content
    least = fairmend.check(*found.save(tmp_path)).least_margin
    bias = network.affines[-1].bias.copy()
    number = int(np.argmin([region["margin"] for region in content["regions"]]))
    label = content["regions"][number]["class"]
    content["regions"] = [content["regions"][number]]
    bias -= (least - 1e-15) * (1 if label else -1)
    shifted = Network([*network.affines[:-1], Affine(network.affines[-1].weight, bias)], network.activations)
    shifted.save(tmp_path / "shifted.pth")
    content = sign_network(content, shifted)
    content["regions"][0]["margin"] = 1e-18
    content["arithmetic"] = "real"
    report = fairmend.check(write(tmp_path, content), tmp_path / "shifted.pth", real=True)
    assert report.valid, report.reasons
    assert report.covers_inference is False
    assert "is about exact real arithmetic only" in refusal(tmp_path, content, tmp_path / "shifted.pth")
    content["arithmetic"] = "float64"
    assert "rounding errors of float64 inference" in refusal(tmp_path, content, tmp_path / "shifted.pth")
    content["arithmetic"] = "float32"
    assert "the model computes in float64" in refusal(tmp_path, content, tmp_path / "shifted.pth")


def test_a_certificate_that_claims_nothing(made, tmp_path):
    _, content, model = made
    content["regions"] = []
    assert "claims nothing" in refusal(tmp_path, content, model)


def test_points_where_a_feature_is_continuous(made, tmp_path):
    _, content, model = made
    region = content["regions"][0]
    del region["pieces"]
    region["proof"] = "points"
    assert 'feature "income" is continuous' in refusal(tmp_path, content, model)


def test_a_margin_above_that_of_one_point_is_refused(tmp_path):
    found = case(spec="ordinal", features="points", outputs=3)
    _, model = found.save(tmp_path)
    for number in range(len(found.content["regions"])):
        content = found.content
        content["regions"][number]["margin"] *= 1.01
        assert f"regions[{number}]: the claimed margin" in refusal(tmp_path, content, model)


def test_a_file_cut_off_anywhere(tmp_path):
    certificate, model = case().save(tmp_path)
    whole = certificate.read_bytes()
    for length in np.linspace(0, len(whole) - 2, 25).astype(int):
        (tmp_path / "cut.json").write_bytes(whole[:length])
        report = fairmend.check(tmp_path / "cut.json", model)
        assert not report.valid
        assert "JSON" in report.reasons[0]


@pytest.mark.parametrize("kind", [{"spec": "tolerance", "outputs": 3}, {"spec": "dropped"}, {"features": "points"}])
def test_whatever_is_accepted_after_random_edits_is_true(kind, tmp_path):
    made = case(**kind)
    _, model = made.save(tmp_path)
    rng = np.random.default_rng(11)
    accepted = 0
    for _ in range(250):
        content, network, target = made.content, made.network, model
        for _ in range(rng.integers(1, 3)):
            edit(content, rng)
        with suppress(fairmend.FairmendError, KeyError, TypeError, AttributeError):  # then it is no spec at all
            sign_spec(content)
        if rng.random() < 0.3:
            place = tuple(int(rng.integers(n)) for n in network.affines[1].weight.shape)
            network, target = nudged(network, place=place, steps=int(rng.integers(1, 50))), tmp_path / "nudged.onnx"
            network.save(target)
            sign_network(content, network)
        report = fairmend.check(write(tmp_path, content), target)
        if report.valid:
            accepted += 1
            assert is_true(content, network, rng)
    assert accepted > 10  # else nothing was tested


def edit(content, rng) -> None:
    """Change one value somewhere below the model's digests, more often in the regions than in the spec."""
    below = content["regions"] if rng.random() < 0.8 else content["spec"]["content"]["feature"]
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
            below[key] = float(np.float32(value * factor + rng.choice([0, 0, 1e-7, -0.1])))
        return

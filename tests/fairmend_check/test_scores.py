"""Claims about scores: bounds of outputs and probabilities, against sampling and 60 digits, and attacks on them."""

import json
from pathlib import Path

import jsonschema
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairmend
from fairmend.network import Affine, Network
from fairmend.prove import certificate as writer
from fairmend.spec import Spec
from fairmend_check.inference_error import Precision
from fairmend_check.scores import Score
from fairmend_check.spec import ScoreClaim
from support.checker_cases import SPECS, as_version, case, outputs_of, sign_network, sign_spec, write
from support.score_certificates import exact_probabilities, probabilities, score_content, scores_of
from support.strategies import random_network
from support.strategies_spec import unhurried

KINDS = [
    {"spec": "tolerance"},
    {"spec": "tolerance", "outputs": 3},
    {"spec": "ordinal", "features": "points", "outputs": 3},
    {"spec": "one-hot", "features": "points"},
]
ON = ("probability", "logit")


def checked(folder, content, network, name="model.onnx", **options):
    network.save(folder / name)
    return fairmend.check(write(folder, content), folder / name, **options)


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_a_claim_is_valid_from_the_difference_that_is_confirmed_on(kind, on, tmp_path):
    made = case(**kind)
    wide = 0.999 if on == "probability" else 1e3
    result = checked(tmp_path, score_content(made, on, wide), made.network)
    assert result.valid, result.reasons
    assert (result.least_margin, result.covers_inference) == (None, True)
    assert f"differ by at most {wide if on == 'probability' else 1000}, whatever their" in result.claim
    most = result.largest_difference
    tight = checked(tmp_path, score_content(made, on, most), made.network)
    assert tight.valid, tight.reasons
    below = checked(tmp_path, score_content(made, on, float(np.nextafter(most, 0))), made.network)
    assert "the scores can differ by" in below.reasons[0]
    # What is confirmed is not less than what happens, in real arithmetic or in inference.
    for region in score_content(made, on, wide)["regions"]:
        scores = scores_of(made, region["input"], on)
        assert np.ptp(scores, axis=0).max() <= most
        stated = scores_of(made, region["input"], on if made.network.outputs > 1 else "logit")
        assert (stated >= np.array(region["low"]) - 1e-12).all()
        assert (stated <= np.array(region["high"]) + 1e-12).all()


def test_in_exact_arithmetic_the_errors_of_inference_are_left_out(tmp_path):
    made = case(spec="tolerance")
    for on in ON:
        inference = checked(tmp_path, score_content(made, on, 0.99), made.network).largest_difference
        content = score_content(made, on, 0.99, "real")
        low, high = (np.array([region[key] for region in content["regions"]]) for key in ("low", "high"))
        exact = float(Score.of(ScoreClaim(0.99, on), 1).difference(low, high, np.zeros_like(low), None).max())
        assert exact < inference
        content = score_content(made, on, exact, "real")
        assert not checked(tmp_path, content, made.network).valid
        result = checked(tmp_path, content, made.network, real=True)
        assert result.valid
        assert (result.largest_difference, result.covers_inference) == (exact, False)
        content = score_content(made, on, exact, "float32")
        assert "with the rounding errors of float32 inference" in checked(tmp_path, content, made.network).reasons[0]


# The truth, to 60 digits


@settings(unhurried, max_examples=30)
@given(st.data())
def test_probabilities_are_enclosed(data):
    outputs = data.draw(st.integers(1, 4))
    numbers = st.lists(st.floats(-60, 60), min_size=outputs, max_size=outputs)
    z = data.draw(numbers)
    score = Score.of(ScoreClaim(0.5, "probability"), outputs)
    if outputs > 1:
        low, high = score.from_outputs(np.array([z]), np.array([z]))
        exact = exact_probabilities(z)
        assert all(low[0, k] <= exact[k] <= high[0, k] for k in range(outputs))
        assert (high - low <= 1e-13).all()
        wider = score.from_forms((np.subtract.outer(z, z) - 1e-3).reshape(1, -1))
        assert (wider[0] <= low).all()
        assert (wider[1] >= high).all()
    else:
        other = data.draw(st.floats(0, 5))
        found = score.difference(np.array([z]), np.array([[z[0] + other]]), np.zeros((1, 1)), None)
        exact = exact_probabilities([z[0] + other])[0] - exact_probabilities(z)[0]
        assert exact <= found[0] <= exact + mpmath.mpf(1e-14)


@settings(unhurried, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5]), st.sampled_from([1e-7, 1e-3, 0.3]))
def test_an_error_of_the_outputs_changes_scores_by_no_more_than_is_allowed_for(seed, outputs, error):
    """Two people at the ends of their range, whose outputs inference moves apart as far as it can."""
    rng = np.random.default_rng(seed)
    kind = Precision.of("float32")
    score = Score.of(ScoreClaim(0.5, "probability"), outputs)
    one, other = rng.normal(0, 2, (2, 1, outputs))
    pair = np.concatenate([one, other])
    low, high = (ends(axis=0)[None] for ends in (pair.min, pair.max))
    if outputs > 1:
        low, high = (ends(axis=0)[None] for ends in (probabilities(pair).min, probabilities(pair).max))
    allowed = score.difference(low, high, np.full((1, outputs), error), kind)[0]
    moved = [pair + error * rng.choice([-1, 1], size=pair.shape) for _ in range(50)]
    computed = [probabilities(each.astype(np.float64)) for each in moved]
    most = max(float(np.abs(each[0] - each[1]).max()) for each in computed)
    assert most + 2 * 16 * kind.u <= allowed + 1e-12


def test_float32_inference_stays_within_the_largest_difference(tmp_path):
    import onnxruntime

    for outputs in (1, 3):
        made = case(spec="tolerance", outputs=outputs)
        result = checked(tmp_path, score_content(made, "logit", 1e3), made.network)
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        from support.checker_cases import neighbours

        for region in made.content["regions"]:
            points = neighbours(made.spec, np.array(region["input"]), "float32", np.random.default_rng(1))
            found = session.run(None, {session.get_inputs()[0].name: points.astype(np.float32)})[0]
            assert np.ptp(found.astype(np.float64), axis=0).max() <= result.largest_difference


def test_the_published_schema_knows_claims_about_scores():
    schema = json.loads((Path(writer.__file__).parent / "certificate.schema.json").read_text())
    content = score_content(case(spec="tolerance", outputs=3))
    jsonschema.validate(content, schema)
    for change in ({"class": 1}, {"class": 1, "margin": 0.1}):
        content["regions"][0] |= change
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(content, schema)


# Attacks


@pytest.fixture
def forged(tmp_path):
    made = case(spec="tolerance", outputs=3)
    made.network.save(tmp_path / "model.onnx")

    def reasons(content):
        result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx")
        assert not result.valid
        return "; ".join(result.reasons)

    return made, reasons


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize(("key", "sign"), [("low", 1), ("high", -1)])
def test_a_bound_that_is_too_tight_is_refused(forged, on, key, sign):
    made, reasons = forged
    content = score_content(made, on, 0.99 if on == "probability" else 1e3)
    for number, region in enumerate(content["regions"]):
        for output in range(3):
            changed = json.loads(json.dumps(content))
            bound = region[key][output]
            changed["regions"][number][key][output] = bound + sign * abs(bound) * 1e-9
            assert f"regions[{number}]: score {output} is claimed to be" in reasons(changed)


def test_bounds_that_cross_claim_no_negative_difference(forged):
    made, reasons = forged
    content = score_content(made)
    for region in content["regions"]:
        region["low"], region["high"] = region["high"], region["low"]
    assert "is claimed to be" in reasons(content)


def test_a_larger_delta_is_not_what_the_sha256_names(forged):
    made, reasons = forged
    content = score_content(made, "logit", 1e-3)
    assert "can differ by" in reasons(content)
    content["spec"]["content"]["claim"]["delta"] = 1e3
    assert "content and sha256 do not belong together" in reasons(content)


def test_a_forged_delta_is_not_that_of_the_users_spec(tmp_path):
    made = case(spec="tolerance")
    spec = {**made.spec.to_dict(), "claim": {"kind": "score", "delta": 1e-3, "on": "logit"}}
    fairmend.Spec.from_dict(spec).save(tmp_path / "spec.toml")
    made.network.save(tmp_path / "model.onnx")
    path = write(tmp_path, score_content(made, "logit", 1e3))
    assert fairmend.check(path, tmp_path / "model.onnx").valid
    assert fairmend.check(path, tmp_path / "model.onnx", tmp_path / "spec.toml").reasons == (
        "spec spec.toml: not the spec of the certificate: the claim is about scores (logit, delta = 0.001) instead of "
        "about scores (logit, delta = 1000.0)",
    )


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_know_no_claims_about_scores(forged, version):
    made, reasons = forged
    content = as_version(score_content(made), version)
    assert 'certificate.spec.content has an unknown key "claim"' in reasons(content)


@pytest.mark.parametrize("missing", ["low", "high"])
def test_a_region_states_both_bounds_and_no_class(forged, missing):
    made, reasons = forged
    content = score_content(made)
    changed = json.loads(json.dumps(content))
    del changed["regions"][0][missing]
    assert f"regions[0].{missing} must be a list" in reasons(changed)
    for bad, reason in (
        ([0.0], "1 entries instead of 3"),
        ([0, 1, "2"], "not a number"),
        ([0, 1, 1e999], "not finite"),
    ):
        changed["regions"][0][missing] = bad
        assert reason in reasons(changed) or "not a JSON number" in reasons(changed)
    changed = json.loads(json.dumps(content))
    changed["regions"][1]["class"] = 0
    assert 'unknown key "class"' in reasons(changed)
    classes = made.content
    classes["regions"][0]["low"] = [0.0]
    assert 'unknown key "low"' in reasons(classes)


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ({"kind": "score", "delta": 0, "on": "logit"}, "must be above 0"),
        ({"kind": "score", "delta": -1e-9, "on": "logit"}, "must be above 0"),
        ({"kind": "score", "delta": 1, "on": "probability"}, "below 1"),
        ({"kind": "score", "delta": True, "on": "logit"}, "must be a number"),
        ({"kind": "score", "delta": 0.1, "on": "margin"}, "must be probability, logit or output"),
        ({"kind": "score", "delta": 0.1}, 'has no "on"'),
        ({"kind": "score", "on": "logit"}, 'has no "delta"'),
        ({"kind": "scores", "delta": 0.1, "on": "logit"}, "unknown k"),
        ({"kind": "class", "delta": 0.1}, 'unknown key "delta"'),
        ({"delta": 0.1, "on": "logit"}, 'has no "kind"'),
        ([], "must be an object"),
    ],
)
def test_claims_that_are_none(forged, claim, reason):
    made, reasons = forged
    content = score_content(made)
    content["spec"]["content"]["claim"] = claim
    assert reason in reasons(content)


def test_a_narrowed_piece_is_refused(forged):
    made, reasons = forged
    content = score_content(made)
    content["regions"][0]["pieces"][0]["upper"][1] -= 1e-3
    assert "do not cover the neighbourhood" in reasons(content)


def test_whatever_is_accepted_after_random_edits_is_true(tmp_path):
    rng = np.random.default_rng(3)
    accepted = 0
    for kind, on in ((KINDS[0], "probability"), (KINDS[1], "probability"), (KINDS[1], "logit"), (KINDS[3], "logit")):
        made = case(**kind)
        start = score_content(made, on, 0.99)
        made.network.save(tmp_path / "model.onnx")
        for _ in range(12):
            content = json.loads(json.dumps(start))
            region = content["regions"][rng.integers(len(content["regions"]))]
            claim = content["spec"]["content"]["claim"]
            if rng.random() < 0.6:
                key, at = rng.choice(["low", "high"]), rng.integers(made.network.outputs)
                region[key][at] += float(rng.choice([-1, 1]) * 10 ** rng.uniform(-9, 0))
            if rng.random() < 0.6:
                claim["delta"] = float(claim["delta"] * rng.uniform(0, 1.01))
            if rng.random() < 0.2:
                claim["on"] = str(rng.choice(["probability", "logit", "output"]))
            try:
                sign_spec(content)
            except fairmend.FairmendError:
                continue
            if fairmend.check(write(tmp_path, content), tmp_path / "model.onnx").valid:
                accepted += 1
                for each in content["regions"]:
                    scores = scores_of(made, each["input"], claim["on"], 60)
                    assert np.ptp(scores, axis=0).max() <= claim["delta"]
    assert accepted > 3  # else nothing was tested


# Which score


def test_regression_networks_have_no_classes(tmp_path):
    made = case(spec="tolerance")
    content = score_content(made, "output", 1e3)
    content["spec"]["content"]["label"] = {"column": "price"}
    result = checked(tmp_path, sign_spec(content), made.network)
    assert result.valid
    assert "the scores (each raw output of this model, before a closing sigmoid or softmax) of any two" in result.claim
    content["spec"]["content"]["claim"]["on"] = "logit"
    reasons = checked(tmp_path, content, made.network).reasons
    assert "label has no positive value, so the claim must be about scores" in reasons[0]


ENCODED = (
    " program encodes numbers as the spec does, (value - mean) / std, in double precision, and rounds once to float32. "
    "A pipeline that computes in float32 may feed the network other numbers."
)


def test_a_file_without_a_closing_sigmoid_makes_it_a_condition(tmp_path):
    made = case(spec="tolerance")
    content = score_content(made)
    plain = checked(tmp_path, content, made.network)
    assert plain.condition == (
        "the file does not compute probabilities. The claim is about the sigmoid 1 / (1 + exp(-z)) of the output z, "
        f"computed with an error of at most 9.5e-07. The{ENCODED}"
    )
    closed = Network(made.network.affines, made.network.activations, closing="sigmoid")
    for suffix in ("onnx", "h5", "keras"):
        result = checked(tmp_path, content, closed, f"closed.{suffix}")
        assert result.valid, result.reasons
        assert result.condition == f"the{ENCODED}"
    state = checked(tmp_path, content, closed, "closed.pth")
    assert state.valid
    assert "the file stores weights only" in state.condition
    assert " The file does not compute probabilities." in state.condition
    logits = checked(tmp_path, score_content(made, "logit", 1e3), closed)
    assert (logits.valid, logits.condition) == (True, f"the{ENCODED}")
    assert "each raw output of this model, before a closing sigmoid" in logits.claim


def test_outputs_that_can_overflow_are_refused(tmp_path):
    made = case(spec="tolerance")
    content = score_content(made, "probability", 0.99)
    last = made.network.affines[-1]
    huge = Network(
        [*made.network.affines[:-1], Affine(last.weight * np.float32(1e37), last.bias)], made.network.activations
    )
    result = checked(tmp_path, sign_network(content, huge), huge)
    assert not result.valid
    assert outputs_of(huge, np.zeros((1, huge.inputs))).shape == (1, 1)


@pytest.mark.parametrize(("outputs", "on"), [(1, "probability"), (3, "probability"), (2, "logit")])
def test_certificates_of_fairmend_are_valid(outputs, on, tmp_path):
    plain = SPECS["tolerance"]
    spec = Spec(plain.features, claim={"kind": "score", "delta": 0.95 if on == "probability" else 8.0, "on": on})
    rng = np.random.default_rng(outputs)
    network = random_network(rng, spec.width, (6, 5), outputs, "relu", "float32")
    certificate, covered = writer.certificate_of_fair(network, spec, spec.sample_inputs(8, rng, np.float32))
    assert covered.sum() > 3
    network.save(tmp_path / "model.onnx")
    certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    spec.save(tmp_path / "spec.toml")
    result = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx", tmp_path / "spec.toml")
    assert result.valid, result.reasons
    assert 0 < result.largest_difference <= spec.claim.delta


def test_a_softmax_of_many_outputs_takes_too_much_memory_to_be_checked(tmp_path):
    """The bounds need the differences of all pairs of outputs: 24 GB for 1,440 outputs and a single region."""
    age = {"name": "age", "kind": "integer", "range": [0, 9], "protected": True}
    spec = Spec([age], claim={"kind": "score", "delta": 0.5, "on": "probability"})
    for outputs, confirmed in ((100, True), (101, False)):
        network = Network([Affine(np.full((outputs, 1), 1e-9, np.float32), np.zeros(outputs, np.float32))], [])
        content = writer.certificate_of_fair(network, spec, np.zeros((1, 1), np.float32))[0].content
        result = checked(tmp_path, content, network)
        assert result.valid == confirmed, result.reasons
    assert result.reasons == ("claims about more than 100 probabilities cannot be checked",)

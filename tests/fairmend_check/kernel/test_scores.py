"""Claims about scores: bounds of outputs and probabilities, against sampling and 60 digits, and attacks on them."""

import json
import re
from pathlib import Path

import jsonschema
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.network import Affine, Network
from fairmend.prove import certificate as writer
from fairmend.prove.proof import Proof
from fairmend.spec import Spec
from fairmend_check.kernel.claim import ScoreClaim
from fairmend_check.kernel.inference_error import Precision
from support.checker_cases import SPECS, case, content_of, lines_of, neighbours, outputs_of, sign_network, write
from support.examples import examples
from support.score_certificates import exact_probabilities, probabilities, score_bounds, score_content, scores_of
from support.strategies import random_network

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
    tightest = 2 * max(np.ptp(scores_of(made, x, on), axis=0).max() for x in made.content["inputs"]) / 3
    below = checked(tmp_path, score_content(made, on, float(tightest)), made.network)
    assert "the scores can differ by" in below.reasons[0]
    # What is confirmed is not less than what happens, in real arithmetic or in inference.
    found = score_bounds(made, on)
    for x, low, high in zip(made.content["inputs"], found.low, found.high, strict=True):
        assert np.ptp(scores_of(made, x, on), axis=0).max() <= most
        bounded = scores_of(made, x, on if made.network.outputs > 1 else "logit")
        assert (bounded >= low - 1e-12).all()
        assert (bounded <= high + 1e-12).all()


def test_in_exact_arithmetic_the_errors_of_inference_are_left_out(tmp_path):
    made = case(spec="tolerance")
    for on in ON:
        inference = checked(tmp_path, score_content(made, on, 0.99), made.network).largest_difference
        exact = exact_difference(tmp_path, made, on)
        assert exact < inference
        content = score_content(made, on, exact, "real")
        assert not checked(tmp_path, content, made.network).valid
        result = checked(tmp_path, content, made.network, real=True)
        assert result.valid
        assert (result.largest_difference, result.covers_inference) == (pytest.approx(exact, rel=1e-7), False)
        content = score_content(made, on, exact, "float32")
        assert "with the rounding errors of float32 inference" in checked(tmp_path, content, made.network).reasons[0]


def exact_difference(folder, made, on):
    """The difference that is confirmed in exact arithmetic: the one in the reason against a smaller claim."""
    (reason, *_) = sorted(
        checked(folder, score_content(made, on, 1e-6, "real"), made.network, real=True).reasons,
        key=lambda reason: -float(re.search("differ by ([^,]+),", reason)[1]),
    )
    return float(re.search("differ by ([^,]+),", reason)[1]) * (1 + 1e-8)


# The truth, to 60 digits


@examples(30)
@given(st.data())
def test_probabilities_are_enclosed(data):
    outputs = data.draw(st.integers(1, 4))
    numbers = st.lists(st.floats(-60, 60), min_size=outputs, max_size=outputs)
    z = data.draw(numbers)
    score = ScoreClaim(on="probability", delta=0.5).score(outputs)
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


@examples(20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5]), st.sampled_from([1e-7, 1e-3, 0.3]))
def test_an_error_of_the_outputs_changes_scores_by_no_more_than_is_allowed_for(seed, outputs, error):
    """Two people at the ends of their range, whose outputs inference moves apart as far as it can."""
    rng = np.random.default_rng(seed)
    kind = Precision.of("float32")
    score = ScoreClaim(on="probability", delta=0.5).score(outputs)
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
        for x in made.content["inputs"]:
            points = neighbours(made.spec, x, "float32", np.random.default_rng(1))
            found = session.run(None, {session.get_inputs()[0].name: points.astype(np.float32)})[0]
            assert np.ptp(found.astype(np.float64), axis=0).max() <= result.largest_difference


def test_the_published_schema_knows_claims_about_scores():
    schema = json.loads((Path(writer.__file__).parent / "certificate.schema.json").read_text())
    content = score_content(case(spec="tolerance", outputs=3))
    jsonschema.validate(json.loads(b"".join(lines_of(content))), schema)
    for change in ({"regions": []}, {"version": 5}, {"count": -1}, {"shares": {}}, {"spec": {"content": {}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(b"".join(lines_of(content | change))), schema)


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
def test_an_input_with_scores_too_far_apart_is_refused_wherever_it_is_in_the_list(forged, on):
    made, reasons = forged
    content = score_content(made, on, 0.5)
    X = made.spec.sample_inputs(300, np.random.default_rng(2))
    spread = np.array([np.ptp(scores_of(made, x, on), axis=0).max() for x in X])
    content["spec"]["claim"]["delta"] = delta = float(np.quantile(spread, 0.9))
    few = X[spread < delta / 20][:4]
    for x in X[spread > delta][:5]:
        for place in {0, len(few)}:
            found = reasons(content | {"inputs": np.insert(few, place, x, axis=0)})
            assert f"input {place}: the scores can differ by" in found


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
    content["spec"]["claim"] = claim
    assert reason in reasons(content)


def test_whatever_is_accepted_after_random_edits_is_true(tmp_path):
    rng = np.random.default_rng(3)
    accepted = 0
    for kind, on in ((KINDS[0], "probability"), (KINDS[1], "probability"), (KINDS[1], "logit"), (KINDS[3], "logit")):
        made = case(**kind)
        made.network.save(tmp_path / "model.onnx")
        for _ in range(12):
            content = score_content(made, on, 0.99)
            X, claim = content["inputs"], content["spec"]["claim"]
            if rng.random() < 0.6:
                X[rng.integers(len(X))] = made.spec.sample_inputs(1, rng)[0]
            if rng.random() < 0.6:
                claim["delta"] = float(claim["delta"] * rng.uniform(0, 1.01))
            if rng.random() < 0.2:
                claim["on"] = str(rng.choice(["probability", "logit", "output"]))
            if fairmend.check(write(tmp_path, content), tmp_path / "model.onnx", run=False).valid:
                accepted += 1
                for x in X:
                    assert np.ptp(scores_of(made, x, claim["on"], 60), axis=0).max() <= claim["delta"]
    assert accepted > 3  # else nothing was tested


# Which score


def test_regression_networks_have_no_classes(tmp_path):
    made = case(spec="tolerance")
    content = score_content(made, "output", 1e3)
    content["spec"]["label"] = {"column": "price"}
    result = checked(tmp_path, content, made.network)
    assert result.valid
    assert (
        "the scores (each raw output of this model, before a closing sigmoid, softmax or log-softmax) of any two"
        in result.claim
    )
    content["spec"]["claim"]["on"] = "logit"
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
    """The bounds need the differences of all pairs of outputs: 24 GB for 1,440 outputs and a single input."""
    age = {"name": "age", "kind": "integer", "range": [0, 9], "protected": True}
    spec = Spec([age], claim={"kind": "score", "delta": 0.5, "on": "probability"})
    for outputs, confirmed in ((100, True), (101, False)):
        network = Network([Affine(np.full((outputs, 1), 1e-9, np.float32), np.zeros(outputs, np.float32))], [])
        X = np.zeros((1, 1), np.float32)
        claimed = Proof.by_blindness(network, spec.claim, X)
        content = writer.certificate_of_inputs(network, spec, X, claimed, method="certify")
        result = checked(tmp_path, content_of(content), network)
        assert writer.certificate_of_fair(network, spec, X)[1].all() == confirmed
        assert result.valid == confirmed, result.reasons
    assert result.reasons == ("claims about more than 100 probabilities cannot be checked",)


def softmax_in_order(outputs):
    """The softmax of rows in float32, with powers that are added up one after the other."""
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    total = np.zeros(len(powers), np.float32)
    for power in powers.T:
        total += power
    return powers / total[:, None]


def test_a_softmax_of_many_outputs_may_be_off_by_a_unit_for_each(tmp_path):
    """Powers just below and just above half a unit of 1: adding them to 1 loses all of them, or doubles them."""
    below, above = (np.log(2.0**-24 * share).astype(np.float32) for share in (0.99, 1.01))
    weight, bias = np.full((100, 1), above - below, np.float32), np.full(100, below, np.float32)
    weight[0] = bias[0] = 0
    network = Network([Affine(weight, bias)], [], closing="softmax")
    sex = {"name": "sex", "kind": "integer", "range": [0, 1], "protected": True}
    spec = Spec([sex], claim={"kind": "score", "delta": 6e-6, "on": "probability"})
    X = np.array([[0.0], [1.0]], np.float32)
    computed = np.ptp(softmax_in_order(X @ weight.T + bias), axis=0).max()
    assert computed > 1.1e-5
    claimed = Proof.by_blindness(network, spec.claim, X)
    content = content_of(writer.certificate_of_inputs(network, spec, X, claimed, method="certify"))
    assert "the scores can differ by" in checked(tmp_path, content, network).reasons[0]
    content["spec"]["claim"]["delta"] = 2e-5
    result = checked(tmp_path, content, network)
    assert result.valid, result.reasons
    assert result.largest_difference > computed

"""The checker and scores that rescale a probability: what a certificate says of one file is not VALID for another."""

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import numpy_helper

import fairmend
from fairmend.network.rescaling import REST, Clip, Rescaling, Scaling
from fairmend.prove.certificate import certificate_of_fair
from fairmend.prove.fit import network_of_spec
from fairmend.spec import Claim, Label, Spec
from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.claim import Threshold
from fairmend_check.kernel.functions import Activation
from fairmend_check.kernel.operations.affine import scaling
from fairmend_check.kernel.rescaling import Rescaling as Checked
from fairmend_check.kernel.rescaling import Scaling as CheckedScaling
from fairmend_check.run.enclosure import close_outputs
from support.checker_cases import content_of, write
from support.examples import examples
from support.strategies import random_network
from support.threshold_cases import FEATURES, SPEC, all_points

POINTS = (Scaling(550.0, 300.0, 300.0),)
PLAIN = Rescaling(POINTS)


def spec_at(threshold, ends=(300, 850), claim=None) -> Spec:
    return Spec(FEATURES, Label("approved", "yes", threshold=threshold, score_range=ends), claim=claim)


def network(seed, rescaling):
    rng = np.random.default_rng(seed)
    return random_network(rng, SPEC.width, (4,), 1, closing="sigmoid").with_rescaling(rescaling), rng


def certified(seed, spec, rescaling=PLAIN):
    """Return a network, fair inputs, and the content of their certificate, which names no file."""
    net, rng = network(seed, rescaling)
    X = SPEC.sample_inputs(20, rng)
    certificate, covered = certificate_of_fair(network_of_spec(net, spec), spec, X)
    assert certificate is not None
    return net, X[covered], content_of(certificate)


def run(path, X):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: X})[0][:, -1]


def with_constants(path, changes) -> None:
    """Write other numbers into a file, as a forger would."""
    model = onnx.load(path)
    left = dict(changes)
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.size == 1 and value.item() in left:
            other = np.full_like(value, left.pop(value.item()))
            tensor.CopyFrom(numpy_helper.from_array(other, tensor.name))
    assert not left
    onnx.save(model, path)


def test_the_claim_and_its_condition_are_in_the_unit_of_the_scores(tmp_path):
    net, _, content = certified(0, spec_at(600))
    net.save(tmp_path / "model.onnx")
    result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx")
    assert result.valid, result.reasons
    assert "at the threshold 600 of scores from 300 to 850 stays the same" in result.claim
    assert result.condition.startswith(
        "the file does not decide at 600. The claim is about a program that predicts class 1 if the score is at least "
        "600: the score 300 + 550 p in float32, where p is the sigmoid 1 / (1 + exp(-z)) of the output z, computed with"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({550.0: -550.0}, "the certificate is about other weights"),
        ({300.0: 250.0}, "the scores of the model run from 250 to 800, but the spec says from 300 to 850"),
        ({550.0: 551.0}, "run from 300 to 851"),
        ({300.0: 300.01}, "run from 300.01"),
        ({550.0: 0.0}, "does not rise"),
    ],
)
def test_a_file_with_another_rescaling_is_not_confirmed(tmp_path, change, reason):
    net, _, content = certified(0, spec_at(600))
    net.save(tmp_path / "model.onnx")
    certificate = write(tmp_path, content)
    assert fairmend.check(certificate, tmp_path / "model.onnx").valid
    with_constants(tmp_path / "model.onnx", change)
    result = fairmend.check(certificate, tmp_path / "model.onnx")
    assert not result.valid
    assert reason in result.reasons[0]


@pytest.mark.parametrize("ends", [(610, 800), (350, 590), (600, 800), (350, 600), (599.9999, 800)])
def test_a_clip_at_or_beyond_the_threshold_is_not_confirmed(tmp_path, ends):
    net, _, content = certified(0, spec_at(600), Rescaling((*POINTS, Clip(350.0, 800.0))))
    net.save(tmp_path / "model.onnx")
    certificate = write(tmp_path, content)
    assert fairmend.check(certificate, tmp_path / "model.onnx").valid
    with_constants(tmp_path / "model.onnx", {350.0: ends[0], 800.0: ends[1]})
    result = fairmend.check(certificate, tmp_path / "model.onnx")
    assert not result.valid
    assert "so that everyone gets one answer at the threshold 600" in result.reasons[0]


def test_scores_without_a_range_in_the_spec_are_not_confirmed(tmp_path):
    net, _, content = certified(0, spec_at(600))
    net.save(tmp_path / "model.onnx")
    for ends in (None, [0, 1], [300, 850.5]):
        content["spec"]["label"] = {"column": "approved", "positive": "yes"} | ({"score_range": ends} if ends else {})
        assert "the scores of the model run from 300 to 850" in answer(tmp_path, content)
    net.with_rescaling(None).save(tmp_path / "model.onnx")
    content["spec"]["label"]["score_range"] = [300, 850]
    assert "the model does not compute them" in answer(tmp_path, content)


def answer(folder, content) -> str:
    result = fairmend.check(write(folder, content), folder / "model.onnx")
    assert not result.valid
    return result.reasons[0]


@pytest.mark.parametrize("ends", [[850, 300], [300, 300], [300], 300, [300, "850"], [0, 1e300]])
def test_what_is_no_range_is_refused(tmp_path, ends):
    net, _, content = certified(0, spec_at(600))
    net.save(tmp_path / "model.onnx")
    content["spec"]["label"]["score_range"] = ends
    assert "score_range" in answer(tmp_path, content)


def rescalings():
    ends = st.sampled_from([(300.0, 550.0), (0.0, 100.0), (-1.0, 2.0), (0.0, 1.0), (250.0, 600.0), (1e6, 10.0)])
    clips = st.sampled_from([(), (0.3, 0.7), (0.0, 0.5), (0.01, 0.99), (0.52, 1.0)])
    return st.tuples(ends, clips, st.booleans(), st.booleans())


def made(drawn) -> tuple[Rescaling, tuple[float, float]]:
    (low, span), clip, falls, both = drawn
    steps = (REST, Scaling(-span, low + span, abs(low) + span)) if falls else (Scaling(span, low, abs(low)),)
    if clip:
        steps += (Clip(*(float(np.float32(low + span * end)) for end in clip)),)
    return Rescaling(steps, both), (low, low + span)


@examples(40)
@given(st.integers(0, 1000), rescalings(), rescalings(), st.floats(0.05, 0.95))
def test_a_certificate_for_another_rescaling_is_valid_only_where_the_claim_is_true(
    tmp_path_factory, seed, first, second, share
):
    """A forger writes the range of another file into the certificate of one, and keeps the threshold or not."""
    (before, ends), (after, others) = made(first), made(second)
    folder = tmp_path_factory.mktemp("forged")
    try:
        net, X, content = certified(seed, spec_at(ends[0] + share * (ends[1] - ends[0]), ends), before)
    except (AssertionError, fairmend.FairmendError):
        assume(False)
    net.with_rescaling(after).save(folder / "model.onnx")
    points = all_points(X)
    scores = run(folder / "model.onnx", np.concatenate(points))
    own = content["spec"]["label"].get("threshold", sum(ends) / 2)
    for threshold in (own, others[0] + share * (others[1] - others[0]), others[0] + 0.5 * (others[1] - others[0])):
        content["spec"]["label"] |= {"threshold": threshold, "score_range": list(others)}
        result = fairmend.check(write(folder, content), folder / "model.onnx")
        some = np.split(scores >= np.float32(threshold), np.cumsum([len(each) for each in points]))
        if any(len(set(each.tolist())) == 2 for each in some):
            assert not result.valid


@examples(40)
@given(st.integers(0, 1000), rescalings(), st.sampled_from([1.0, 5.0]))
def test_computed_scores_are_within_the_bounds(tmp_path_factory, seed, drawn, size):
    """What ONNX Runtime computes lies within the bounds of the probability, rescaled: the error is large enough."""
    rescaling, _ = made(drawn)
    folder = tmp_path_factory.mktemp("scores")
    net, rng = network(seed, rescaling)
    net.save(folder / "model.onnx")
    X = (size * rng.normal(size=(50, SPEC.width))).astype(np.float32)
    path = folder / "logits.onnx"
    fairmend.network.Network.from_nodes(net.nodes).save(path)
    logits = run(path, X).astype(np.float64)[:, None]
    (model,) = [Checked.of([step_of(step) for step in rescaling.steps], "float32", both=rescaling.both)]
    low, high = close_outputs(logits, logits, "sigmoid", "float32", 2 if rescaling.both else 1, model)
    given_scores = run(folder / "model.onnx", X)
    assert ((low[:, -1] <= given_scores) & (given_scores <= high[:, -1])).all()
    exact = model.low + model.span / (1 + np.exp(-logits[:, 0]))
    assert (np.abs(given_scores - np.clip(exact, model.least, model.most)) <= model.slack * model.span).all()


def step_of(step):
    from fairmend_check.kernel import rescaling

    if isinstance(step, Clip):
        return rescaling.Clip(step.least, step.most)
    return CheckedScaling(step.factor, step.shift, step.size)


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_the_slack_widens_the_gap(threshold):
    plain, wide = Threshold.of(threshold, "float32"), Threshold.of(threshold, "float32", 1e-4)
    assert wide.low < plain.low <= plain.high < wide.high
    assert 1 / (1 + np.exp(-wide.low)) == pytest.approx(threshold - 1e-4)
    assert 1 / (1 + np.exp(-wide.high)) == pytest.approx(threshold + 1e-4)
    assert wide.high + wide.above > plain.high + plain.above + 4e-4
    assert wide.low - wide.below < plain.low - plain.below - 4e-4


def test_a_slack_beyond_all_probabilities_proves_nothing():
    found = Threshold.of(0.5, "float32", 0.6)
    assert (found.low, found.high, found.below, found.above) == (-np.inf, np.inf, np.inf, np.inf)


def test_a_score_that_falls_changes_the_sign_of_the_output():
    weight = np.array([[2.0]], np.float32)
    for steps, sign in (([scaling(0.0, -550.0, 850.0)], -1), ([scaling(0.0, 550.0, 300.0)], 1)):
        graph = Graph(1)
        value = graph.function(graph.affine(graph.input, weight), Activation("sigmoid"))
        for step in steps:
            value = graph.norm(value, step)
        model = graph.finish(value)
        assert model.rescaling.ends == (300, 850)
        assert model.layers[-1].weight.tolist() == [[2.0 * sign]]


def test_pairs_that_are_not_of_one_probability_are_refused():
    graph = Graph(2)
    first, second = (
        graph.function(graph.affine(graph.input, np.array([row], np.float32)), Activation("sigmoid"))
        for row in ([1.0, 0.0], [0.0, 1.0])
    )
    rest = graph.norm(first, scaling(0.0, -1.0, 1.0))
    for pair in ((rest, second), (first, second), (graph.norm(first, scaling(0.0, -1.0, 1.1)), first)):
        with pytest.raises(CheckError):
            graph.finish(graph.concatenate(*pair))
    assert graph.finish(graph.concatenate(rest, first)).rescaling.both


def test_a_range_agrees_up_to_rounding():
    model = Checked.of([CheckedScaling(float(np.float32(0.8)), float(np.float32(0.1)), 0.1)], "float32")
    model.require((0.1, 0.9), 0.5)
    with pytest.raises(NotConfirmedError):
        model.require((0.1, 0.9001), 0.5)


def test_score_claims_say_what_a_score_stands_for(tmp_path):
    claim = Claim("score", 0.9, "probability")
    net, _, content = certified(0, spec_at(None, claim=claim))
    net.save(tmp_path / "model.onnx")
    result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx")
    assert result.valid, result.reasons
    assert "score s of the file stands for the probability (s - 300) / 550" in result.condition
    with_constants(tmp_path / "model.onnx", {550.0: 700.0})
    assert "run from 300 to 1000" in answer(tmp_path, content)


@pytest.mark.parametrize("powers", [(-75, -74, 75, 74), (90, 90, -90, -90), (-50, 50)])
def test_factors_whose_product_is_1_may_lose_the_probability_on_the_way(tmp_path, powers):
    """Times 2^-149, a probability is 0 or the least number of float32, so that the file gives 0 or 1."""
    net, X, content = certified(0, spec_at(0.3, (0, 1)), None)
    net.save(tmp_path / "model.onnx")
    assert fairmend.check(write(tmp_path, content), tmp_path / "model.onnx").valid
    forged = net.with_rescaling(Rescaling(tuple(Scaling(2.0**power, 0.0, 0.0) for power in powers)))
    forged.save(tmp_path / "model.onnx")
    if powers[0] == -75:
        assert set(run(tmp_path / "model.onnx", np.concatenate(all_points(X))).tolist()) <= {0.0, 1.0}
    result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx", run=False)
    assert not result.valid
    assert "rescales its probability by numbers that cannot be checked" in result.reasons[0]

"""Scores that rescale a closing sigmoid, pairs (1 - p, p), clips: read exactly, decided in their unit, written back."""

import numpy as np
import onnxruntime
import pytest
import torch

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.models.run_model import RunModel
from fairmend.prove.fit import model_of_spec
from fairmend.spec import Claim, Label, Spec
from fairmend_check.check import check
from fairmend_check.readers.read_model import read_model
from support.rescaled_models import FEATURES, FORMS, Scorer, outputs_of, people, save_onnx, save_pt2, scorer, spec_of


def decisions(outputs: np.ndarray, spec: Spec) -> np.ndarray:
    return (outputs[:, -1] >= spec.label.threshold).astype(int)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", ["module", ".onnx", ".pt2"])
def test_scores_and_decisions_are_those_of_the_framework(tmp_path, form, source):
    module, spec, X = scorer(form), spec_of(form), people()
    write = {".onnx": save_onnx, ".pt2": save_pt2}.get(source)
    given = module if write is None else write(module, tmp_path / f"model{source}")
    network, expected = model_of_spec(given, spec), outputs_of(module, X)
    assert network.scores(X).reshape(len(X), -1) == pytest.approx(expected, rel=1e-6)
    assert network.outputs == 1
    certain = np.abs(expected[:, -1] - spec.label.threshold) > 1e-5 * np.abs(spec.score_range).max()
    assert certain.all()
    assert np.array_equal(network.predict(X), decisions(expected, spec))


@pytest.mark.parametrize("form", ["points", "falling", "clipped points"])
def test_decisions_close_to_the_threshold_are_those_of_the_framework(form):
    """A threshold at a score that the module gives, and just beside it, decides everyone else as the module does."""
    module, X = scorer(form), people()
    given = outputs_of(module, X)
    for person in range(5):
        for step in (-0.01, 0.01):
            spec = spec_of(form, threshold=float(given[person, 0]) + step)
            far = np.abs(given[:, 0] - spec.label.threshold) > 0.002
            found = model_of_spec(module, spec).predict(X)
            assert np.array_equal(found[far], decisions(given, spec)[far])


@pytest.mark.parametrize("form", FORMS)
def test_the_checker_reads_what_fairmend_reads(tmp_path, form):
    path = save_onnx(scorer(form), tmp_path / "model.onnx")
    network, (model, _) = fairmend.load_network(path), read_model(path)
    assert model.closing == network.closing == "sigmoid"
    assert model.rescaling.ends == pytest.approx(network.rescaling.ends)
    assert (model.rescaling.least, model.rescaling.most) == pytest.approx(network.rescaling.limits, abs=1e-6)
    assert model.rescaling.both == network.rescaling.both
    assert np.array_equal(model.layers[-1].weight, network.head.weight)


@pytest.mark.runs_models
@pytest.mark.parametrize("form", ["points", "falling", "reversed", "clipped points", "clipped pair"])
def test_a_repair_keeps_the_form_and_is_proven(tmp_path, form):
    path, spec, X = save_onnx(scorer(form), tmp_path / "model.onnx"), spec_of(form), people(60)
    labels = fairmend.load_network(path).predict(X)
    result = fairmend.repair(path, spec, X[:20], X, labels, method="prof", seed=0)
    result.network.save(tmp_path / "repaired.onnx")
    result.certificate.save(tmp_path / "certificate.json", tmp_path / "repaired.onnx")
    report = check(tmp_path / "certificate.json", tmp_path / "repaired.onnx")
    assert report.valid, report.reasons
    assert len(report.runs) == 1
    session = onnxruntime.InferenceSession(tmp_path / "repaired.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"x": X})
    assert given.shape == outputs_of(scorer(form), X).shape
    assert np.array_equal(result.network.predict(X), decisions(given, spec))
    assert result.network.rescaling == fairmend.load_network(path).rescaling


@pytest.mark.parametrize("suffix", [".onnx", ".keras", ".pth"])
def test_other_formats_hold_the_same_scores(tmp_path, suffix):
    network, X = fairmend.load_network(scorer("points")), people()
    network.save(tmp_path / f"model{suffix}", keep_form=False)
    found = fairmend.load_network(tmp_path / f"model{suffix}")
    assert found.scores(X) == pytest.approx(network.scores(X), rel=1e-6)
    assert found.rescaling.ends == (300, 850)


def test_a_program_may_compute_the_scores_of_a_file_that_gives_logits(tmp_path):
    """The certificate is about the scores all the same, on the condition that a program computes them so."""
    path, spec, X = save_onnx(Scorer(lambda z: z).eval(), tmp_path / "model.onnx"), spec_of("points"), people(60)
    labels = model_of_spec(path, spec).predict(X)
    assert np.array_equal(labels, decisions(outputs_of(scorer("points"), X), spec))
    result = fairmend.repair(path, spec, X[:20], X, labels, method="prof", seed=0)
    result.network.save(tmp_path / "repaired.onnx")
    result.certificate.save(tmp_path / "certificate.json", tmp_path / "repaired.onnx")
    assert fairmend.load_network(tmp_path / "repaired.onnx").closing == "none"
    report = check(tmp_path / "certificate.json", tmp_path / "repaired.onnx")
    assert report.valid, report.reasons
    assert "the score 300 + 550 p in float32" in report.condition


def test_what_a_format_cannot_hold_is_refused(tmp_path):
    network = fairmend.load_network(scorer("clipped"))
    for suffix in (".keras", ".nnet"):
        with pytest.raises(FairmendError, match=r"save as \.onnx"):
            network.save(tmp_path / f"model{suffix}")


def test_whole_points_are_refused_by_name_and_run(tmp_path):
    module = Scorer(lambda z: torch.round(300 + 550 * torch.sigmoid(z))).eval()
    path = save_onnx(module, tmp_path / "model.onnx")
    with pytest.raises(FairmendError, match=r"Round\) is not supported"):
        fairmend.load_network(path)
    assert isinstance(fairmend.load_model(path), RunModel)


@pytest.mark.parametrize("cast", [torch.Tensor.long, torch.Tensor.int, lambda x: x.to(torch.int64)])
@pytest.mark.parametrize("close", [lambda z: 300 + 550 * torch.sigmoid(z), lambda z: z])
def test_points_without_what_comes_after_the_point_are_refused_by_name(tmp_path, cast, close):
    """A cast of the output was once read as if it changed nothing: a logit of -0.5 is cast to 0, which is class 1."""
    module = Scorer(lambda z: cast(close(z))).eval()
    for source in (module, save_pt2(module, tmp_path / "model.pt2"), save_onnx(module, tmp_path / "model.onnx")):
        with pytest.raises(FairmendError, match=r"cast to whole numbers|the graph has 1 outputs"):
            fairmend.load_network(source)


@pytest.mark.parametrize(
    "close",
    [
        lambda z: 300 + 0 * torch.sigmoid(z),
        lambda z: torch.sigmoid(z) * torch.sigmoid(z),
        lambda z: torch.cat([torch.sigmoid(z), torch.sigmoid(z)], dim=1),
        lambda z: torch.log(torch.sigmoid(z)),
        lambda z: torch.clamp(torch.cat([1 - torch.sigmoid(z), torch.sigmoid(z)], dim=1), 0.1, 0.9),
    ],
)
def test_other_closings_are_refused_by_name_and_run(close):
    module = Scorer(close).eval()
    with pytest.raises(FairmendError, match="closes the network"):
        fairmend.load_network(module)
    assert isinstance(fairmend.load_model(module), RunModel)


def test_a_number_to_predict_is_run(tmp_path):
    """The claim of such a spec is about the points themselves, which a network that ends in a logit does not give."""
    path = save_onnx(scorer("points"), tmp_path / "model.onnx")
    spec = Spec(FEATURES, Label("score"), claim=Claim("score", 15, "output"))
    model = model_of_spec(path, spec)
    assert isinstance(model, RunModel)
    X = people(5)
    assert model.logits(X) == pytest.approx(outputs_of(scorer("points"), X)[:, 0])
    with pytest.raises(FairmendError, match="number to predict"):
        model_of_spec(save_pt2(scorer("points"), tmp_path / "model.pt2"), spec)


def test_a_spec_must_name_the_range_of_the_scores():
    with pytest.raises(FairmendError, match=r"score_range = \[300, 850\]"):
        model_of_spec(scorer("points"), Spec(FEATURES, Label("granted", "yes")))
    with pytest.raises(FairmendError, match=r"run from 300 to 850"):
        model_of_spec(scorer("points"), spec_of("points", score_range=(300, 900)))
    with pytest.raises(FairmendError, match="are probabilities"):
        model_of_spec(scorer("pair"), spec_of("pair", score_range=(300, 900)))


def test_a_threshold_outside_of_the_clip_is_refused():
    with pytest.raises(FairmendError, match="clips its scores to 350 to 800, so that everyone gets one answer"):
        model_of_spec(scorer("clipped points"), spec_of("clipped points", threshold=820))


def test_a_closing_is_not_averaged():
    X = people(20)
    with pytest.raises(FairmendError, match="method average"):
        fairmend.repair(scorer("points"), spec_of("points"), X, X, np.arange(20) % 2, method="average")

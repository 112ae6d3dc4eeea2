"""Models that give points, such as 300 + 550 p: what `spec init` writes, and the unit in which results are shown."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmend.network import load_network
from fairmend.spec import Claim, Label, Spec
from support.cli_case import run, succeeded
from support.rescaled_models import outputs_of, people, save_onnx, scorer, spec_of


@pytest.fixture
def points(tmp_path, monkeypatch):
    """A model with scores from 300 to 850, people with labels, and the scores that it gave them."""
    monkeypatch.chdir(tmp_path)
    module, X = scorer("points"), people(300)
    scores = outputs_of(module, X)[:, 0]
    frame = spec_of("points").decode(X)
    labels = np.where(scores + np.random.default_rng(1).normal(0, 5, len(X)) > np.median(scores), "yes", "no")
    frame.assign(granted=labels).to_csv("people.csv", index=False)
    pd.DataFrame({"score": scores}).to_csv("scores.csv", index=False)
    save_onnx(module, tmp_path / "model.onnx")
    return scores


def init(*more):
    given = ("people.csv", "--protected", "gender", "--label", "granted", "--positive", "yes", "--model", "model.onnx")
    return run("spec", "init", *given, *more)


def test_a_draft_has_the_range_of_the_scores_and_a_threshold_in_their_unit(points):
    result = succeeded(init("--scores", "scores.csv"))
    assert "Encoding verified" in result.output
    assert "the threshold is guessed: 575, their middle" in result.output
    label = Spec.load("spec.toml").label
    assert (label.score_range, label.threshold) == ((300, 850), 575)
    assert "threshold = 575" in Path("spec.toml").read_text(), "written although it is the default"
    assert succeeded(run("spec", "check", "spec.toml", "--model", "model.onnx", "--data", "people.csv"))


def test_people_and_the_threshold_are_shown_in_points(points):
    succeeded(init("--scores", "scores.csv"))
    threshold = round(float(np.median(points)), 1)
    spec = Path("spec.toml")
    spec.write_text(spec.read_text().replace("threshold = 575.0", f"threshold = {threshold}"))
    options = ("audit", "model.onnx", "--data", "people.csv", "--spec", "spec.toml", "--pairs", "2")
    result = run(*options, "--report", "page")
    assert result.exit_code == 1, result.output
    shown = " ".join(result.output.split())
    assert "Scores: The model gives scores from 300 to 850, which stand for the probabilities 0 and 1." in shown
    assert f"at the threshold {threshold:g}" in shown
    document = json.loads(run(*options, "--json", "--no-report").output)
    assert document["score_range"] == [300, 850]
    assert document["threshold"] == pytest.approx((threshold - 300) / 550)
    spec, net = Spec.load("spec.toml"), load_network("model.onnx")
    page = Path("page/report.html").read_text()
    assert document["pairs"]
    for pair in document["pairs"]:
        rows = spec.encode(pd.DataFrame([pair["values"], pair["other_values"]])).astype(np.float32)
        own, other = net.scores(rows).ravel()
        texts = re.search(rf"row {pair['row']}: \S+ \((\S+)\)\..*?\((\S+)\)", shown).groups()
        for text, score in zip(texts, (own, other), strict=True):
            assert float(text) == pytest.approx(score, abs=0.51 * 10 ** -len(text.partition(".")[2]))
    assert "The model gives scores from 300 to 850" in page
    assert f"at the threshold {threshold:g}" in page
    assert f"from {threshold:g} on" in page


def test_points_that_predict_a_number_are_run_and_not_read_as_a_probability(points, tmp_path):
    """With a number as the label, the output itself is predicted: its figures are those of the model's own numbers."""
    frame = pd.read_csv("people.csv").drop(columns="granted").assign(rating=np.round(points, 1))
    frame.to_csv("people.csv", index=False)
    features = (*spec_of("points").features,)
    rating = Spec(features, Label("rating"), Claim("score", delta=5, on="output"))
    rating.save("spec.toml")
    files = ("model.onnx", "--data", "people.csv", "--spec", "spec.toml")
    found = json.loads(run("audit", *files, "--no-report", "--json").output)
    assert found["utility"]["mean_absolute_error"] < 0.1
    X = rating.encode(frame).astype(np.float32)
    module, each = scorer("points"), []
    for code in (0, 1):
        X[:, 0] = code
        each.append(outputs_of(module, X)[:, 0])
    assert found["count"] == int((np.abs(each[0] - each[1]) > 5).sum())
    assert succeeded(run("spec", "check", "spec.toml", "--data", "people.csv", "--model", "model.onnx"))
    succeeded(run("repair", *files, "--out", "repaired", "--method", "average"))
    assert run("check", "repaired/certificate.json", "repaired/model.onnx").exit_code == 0

"""Rescaled scores: the unit of a threshold in the label, and scores of data in that unit."""

import numpy as np
import pytest

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.evaluate.encoding.given import match_scores
from fairmend.network.rescaling import REST, Clip, Rescaling, Scaling, joined
from fairmend.spec import Label, Spec
from support.rescaled_models import FEATURES, people, scorer, spec_of


def test_a_threshold_is_in_the_unit_of_the_scores():
    spec = spec_of("points")
    assert spec.threshold == 300 / 550
    assert spec.at_threshold(575).threshold == 0.5
    assert spec.threshold_words == "600"
    assert Label("granted", "yes", score_range=(300, 850)).threshold == 575
    assert Label("granted", "yes").threshold == 0.5


def test_a_range_survives_a_file(tmp_path):
    for label in ({}, {"threshold": 600}, {"threshold": 575}):
        spec = Spec(FEATURES, Label("granted", "yes", score_range=(300, 850), **label))
        spec.save(tmp_path / "spec.toml")
        found = Spec.load(tmp_path / "spec.toml")
        assert found.label == spec.label
        assert found.label.to_dict().get("threshold") == (600 if label.get("threshold") == 600 else None)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ({"threshold": 600}, r"probability above 0 and below 1, got 600\. .*score_range = \[300, 850\]"),
        ({"threshold": 900, "score_range": (300, 850)}, "above 300 and below 850, got 900"),
        ({"threshold": 0.5, "score_range": (300, 850)}, "above 300 and below 850, got 0.5"),
        ({"score_range": (850, 300)}, "must rise"),
        ({"score_range": (300,)}, "must be two numbers"),
        ({"score_range": 300}, "must be two numbers"),
        ({"score_range": (300, "850")}, "must be a finite number"),
        ({"score_range": (300, 850), "positive": None}, "is for the scores of a positive value"),
    ],
)
def test_a_wrong_label_is_refused(label, reason):
    with pytest.raises(FairmendError, match=reason):
        Label("granted", **{"positive": "yes", **label})


def test_scores_of_the_data_are_compared_in_their_unit():
    network, X = fairmend.load_network(scorer("points")), people()
    match = match_scores(network, X, network.scores(X)[:, None].astype(np.float64))
    assert match.verified
    assert match.form == "score"
    assert not match_scores(network, X, network.scores(X)[:, None] + 1.0).verified


def test_steps_in_order_give_the_score():
    rescaling = Rescaling((Scaling(-550.0, 0.0, 0.0), Scaling(1.0, 850.0, 850.0), Clip(350.0, 800.0)))
    assert rescaling.ends == (850, 300)
    assert rescaling.scores(np.array([0.0, 0.5, 1.0])).tolist() == [800, 575, 350]
    assert Rescaling((REST,), both=True).scores(np.array([0.25])).tolist() == [[0.25, 0.75]]
    assert joined([Scaling(-1.0, 0.0, 0.0), Scaling(1.0, 1.0, 1.0)]) == [REST]


def test_a_network_says_what_its_scores_are():
    assert "scores from 300 to 850, clipped" in repr(fairmend.load_network(scorer("clipped points")))
    assert "(1 - p, p)" in repr(fairmend.load_network(scorer("pair")))

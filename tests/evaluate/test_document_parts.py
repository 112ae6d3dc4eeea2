"""The parts of documents: the origin, who is similar, names of classes, and how far scores differ."""

import hashlib
import re
from datetime import datetime, timezone

import numpy as np
import pytest

import fairmend
from fairmend.auditing.disparity import ScoreSummary
from fairmend.auditing.figures import AboveLimit
from fairmend.base.errors import FairmendError
from fairmend.evaluate.document_parts import (
    class_names,
    describe_origin,
    describe_similarity,
    file_digest,
)
from fairmend.spec import Claim, Feature, Spec
from support.cli_case import small_network, small_people, small_spec
from support.link_cases import family_spec
from support.price_case import price_network, price_people, price_spec


def test_files_are_named_and_hashed(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"x" * 3_000_000)
    created = datetime(2030, 1, 2, 3, 4, tzinfo=timezone.utc)
    origin = describe_origin({"model": file}, command="fairmend audit", seed=7, created=created)
    (described,) = origin.files
    assert (described.role, described.name) == ("model", "model.onnx")
    assert described.sha256 == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert (origin.created, origin.command, origin.seed) == ("2030-01-02 03:04 UTC", "fairmend audit", 7)
    assert {"Python", "numpy", "torch", "system"} <= set(origin.versions)


def test_the_hash_of_an_array_depends_on_values_shape_and_type():
    arrays = (np.zeros((2, 3)), np.zeros((3, 2)), np.zeros((2, 3), np.float32), np.ones((2, 3)))
    hashes = [describe_origin(arrays={"data": array}).files[0].sha256 for array in arrays]
    assert len(set(hashes)) == 4
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in hashes)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FairmendError, match=r"none\.csv: cannot read the file"):
        file_digest(tmp_path / "none.csv")


# What a spec says in a report: who counts as similar, and what the classes are called.


def test_similar_people_differ_in_protected_features_and_within_tolerances():
    spec = Spec(
        [
            Feature("sex", "categorical", categories=("f", "m"), protected=True),
            Feature("hours", "integer", range=(1, 99), tolerance=2),
            Feature("income", "continuous", range=(0, 9)),
        ]
    )
    similarity = describe_similarity(spec)
    assert (similarity.protected, similarity.tolerances) == (["sex"], {"hours": 2.0})


def test_two_classes_are_named_by_the_label():
    spec, net = small_spec(), small_network()
    assert class_names(spec, net, ["yes", "no"]) == ["no", "yes"]
    assert class_names(spec, net) == ["not yes", "yes"]
    assert class_names(spec, net, ["yes", "no", "maybe"]) == ["not yes", "yes"]


def test_classes_without_a_label_are_numbered():
    assert class_names(small_spec(), small_network(3), ["yes", "no"]) == ["class 0", "class 1", "class 2"]
    assert class_names(Spec(small_spec().features), small_network()) == ["class 0", "class 1"]


def test_links_are_named_and_explained():
    similarity = describe_similarity(family_spec())
    assert similarity.linked == ["relationship", "years"]
    assert similarity.links[0] == "With sex Female: relationship Wife instead of Husband."


# Differences of scores for a report: every input is counted, and two histograms may share a scale.


SCORES = ScoreSummary(Claim("score", 0.1, "logit"), np.array([0.0, 0.05, 0.1, 0.4]))


def test_the_histogram_counts_every_input_and_reaches_to_the_largest_difference_or_delta():
    figures = SCORES.figures()
    assert (sum(figures.counts), figures.edges[0], figures.edges[-1]) == (4, 0.0, 0.4)
    assert (figures.on, figures.delta, figures.largest) == ("logit", 0.1, 0.4)
    small = ScoreSummary(SCORES.claim, np.array([0.0, 0.01])).figures()
    assert small.edges[-1] == 0.1
    assert SCORES.figures(end=2.0).edges[-1] == 2.0


# The score disparity of a report is that of the audit, with both people of the worst pair.


def test_the_figures_are_those_of_the_audit():
    spec = small_spec()
    found = fairmend.audit(small_network(), spec, small_people()).disparity
    figures = found.figures()
    assert (figures.on, figures.exact, figures.largest) == ("probability", True, found.largest)
    assert figures.p99 == found.quantiles["p99"]
    counts = list(found.above.values())
    assert figures.above == [AboveLimit(p, n, n / 200) for p, n in zip((1, 5, 10), counts, strict=True)]
    assert sum(figures.counts) == 200
    assert figures.edges[-1] == found.largest
    assert figures.curve[0].threshold == 0.01
    assert figures.share_at(0.3) == found.curve.share_at(0.3)
    assert (figures.peak.threshold, figures.peak.share) == found.curve.peak
    assert figures.threshold == 0.5


def test_both_people_of_the_worst_pair_are_there():
    spec = small_spec()
    found = fairmend.audit(small_network(), spec, small_people()).disparity
    pair = found.figures().worst
    assert (pair.output, list(pair.values)) == (None, ["age", "gender", "income", "credits"])
    both = np.stack([found.worst.x, found.worst.other])
    assert pair.scores == pytest.approx(small_network().probabilities(both), abs=1e-6)
    assert pair.values["age"] != pair.other_values["age"]
    assert all(pair.values[name] == pair.other_values[name] for name in ("income", "credits"))


def test_a_regression_network_has_no_curve_and_no_class():
    spec = price_spec()
    found = fairmend.audit(price_network(), spec, price_people()).disparity
    figures = found.figures()
    assert (figures.threshold, figures.curve, figures.above) == (None, [], [])
    assert figures.worst.answers is None

"""Shares of people whose similar people have any value of the same band, compared with enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.quantifying import decide, search
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.result import find_cells
from fairmend.spec import Feature, Spec
from fairmend.spec.claim import Claim
from fairmend_check.shares import prove
from fairmend_check.shares.people import Boxes
from support.examples import examples
from support.quantify_cases import linear, people_of, spreads_of, unequal_people
from support.strategies import random_network

_SEX = Feature(name="sex", kind="categorical", categories=("M", "F"), encoding="one-hot", protected=True)
_AGE = Feature(name="age", kind="integer", range=(20, 26), protected=True, scale={"mean": 23, "std": 2})
_INCOME = Feature(name="income", kind="integer", range=(0, 11), bands=(0, 2, 7), scale={"mean": 5, "std": 3})
_JOB = {"name": "job", "kind": "categorical", "categories": ("cook", "driver", "nurse", "teacher", "smith")}
_GROUPS = (("cook", "smith"), ("driver", "teacher"), ("nurse",))
_HOURS = Feature(name="hours", kind="integer", range=(0, 6), scale={"mean": 3, "std": 2})
_GRADE = Feature(name="grade", kind="integer", range=(0, 5), tolerance=1)
_LINK = {"when": {"sex": "F"}, "then": {"hours": {"offset": -1}}}
BANDED = {
    "numbers": Spec([_SEX, _INCOME, _HOURS]),
    "one-hot": Spec([_SEX, Feature(**_JOB, encoding="one-hot", bands=_GROUPS), _HOURS]),
    "dropped": Spec([_AGE, Feature(**_JOB, encoding="one-hot", dropped="driver", bands=_GROUPS), _INCOME]),
    "ordinal": Spec([_SEX, Feature(**_JOB, bands=_GROUPS), _HOURS]),
    "tolerance": Spec([_SEX, _INCOME, _GRADE, Feature(**_JOB, bands=_GROUPS)]),
    "links": Spec([_SEX, _INCOME, _HOURS, Feature(**_JOB, bands=_GROUPS)], links=[_LINK]),
}
CLAIMS = {
    "classes": None,
    "logits": Claim("score", 0.4, "logit"),
    "probabilities": Claim("score", 0.1, "probability"),
}


def with_claim(spec: Spec, claim) -> Spec:
    return spec if claim is None else Spec(spec.features, links=spec.links, claim=claim)


def mixed_network(spec: Spec):
    """Return a network that treats some people equally, and some unequally."""
    for seed in range(200):
        net = random_network(np.random.default_rng(seed), spec.width, [5, 4], 1)
        if 0.1 < unequal(net, spec).mean() < 0.9:
            return net
    raise AssertionError("no such network")


def unequal(net, spec, X=None):
    if not spec.claim.is_score:
        return unequal_people(net, spec) if X is None else find_unequal(net, spec, X).rows
    assert X is None
    return spreads_of(net, spec) > spec.claim.delta


@pytest.mark.parametrize("name", BANDED)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_small_space_is_decided_as_by_enumeration(name, claim, tmp_path):
    spec = with_claim(BANDED[name], CLAIMS[claim])
    net = mixed_network(spec)
    found = fairmend.quantify(net, spec, seconds=600, share=1e-9, samples=0)
    truth = unequal(net, spec)
    assert (found.fair, found.unfair) == pytest.approx(((~truth).mean(), truth.mean()), abs=1e-15)
    net.save(tmp_path / "model.onnx")
    found.certificate.save(tmp_path / "shares.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "shares.json", tmp_path / "model.onnx")
    assert checked.valid
    assert checked.fair + checked.unfair == pytest.approx(1)


@examples(60)
@given(
    name=st.sampled_from(list(BANDED)),
    claim=st.sampled_from(list(CLAIMS)),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
)
def test_what_forms_prove_of_random_boxes_is_true(name, claim, seed, outputs):
    """Of boxes with any ends, also within bands, and without listing anyone."""
    rng, spec = np.random.default_rng(seed), with_claim(BANDED[name], CLAIMS[claim])
    net = random_network(rng, spec.width, [4, 3], outputs)
    decider = Decider(net, spec, int(rng.integers(1, 9)), worth=0.0)
    people, last = decider.people, decider.people.everyone.last[0]
    ends = np.sort(rng.integers(0, last + 1, (2, 40, len(last))), axis=0)
    boxes = Boxes(ends[0], ends[1])
    counts = decider.prover.prove(boxes, np.ones(len(boxes), np.bool_))
    cells = find_cells(people, spec, people_of(spec, dtype=net.dtype))
    truth = unequal(net, spec)
    for row, (fair, unfair) in enumerate(zip(*counts.shares(boxes), strict=True)):
        inside = ((boxes.first[row] <= cells) & (cells <= boxes.last[row])).all(axis=1)
        assert inside.sum() == boxes.cells[row]
        assert fair <= (~truth[inside]).mean() + 1e-12
        assert unfair <= truth[inside].mean() + 1e-12


@pytest.mark.parametrize("name", BANDED)
def test_splitting_alone_is_true_and_ends_at_bands(name, monkeypatch):
    monkeypatch.setattr(search, "LISTED", 0)
    monkeypatch.setattr(search, "_FEW", 0)
    monkeypatch.setattr(decide, "LISTED_INPUTS", 0)
    monkeypatch.setattr(prove, "FEW_INPUTS", 0)
    spec = BANDED[name]
    net = mixed_network(spec)
    found = fairmend.quantify(net, spec, seconds=600, share=1e-9, samples=0)
    truth, leaves, people = unequal(net, spec), found.evidence.leaves, found.evidence.people
    assert found.fair <= (~truth).mean() + 1e-12
    assert found.unfair <= truth.mean() + 1e-12
    assert found.fair + found.unfair > 0.3
    for k, _, blocks in people.banded:
        assert set(leaves.boxes.first[:, k]) <= set(blocks.start)
        assert set(leaves.boxes.last[:, k]) <= set(blocks.stop)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("low", [0.0, -0.7])
def test_a_continuous_band(dtype, low):
    """Class 1 from 0.4 on: the band from 0.25 to 0.6 is treated unequally, and its share is its length."""
    scale = {"mean": 0.3, "std": 0.7}
    rate = Feature(name="rate", kind="continuous", range=(low, 1.3), bands=(low, 0.25, 0.6), scale=scale)
    spec = Spec([_SEX, rate, Feature(name="other", kind="continuous", range=(0, 1))])
    net = linear([0, 0, 1, 0], -(0.4 - 0.3) / 0.7, dtype)
    found = fairmend.quantify(net, spec, seconds=600, share=2e-4, samples=2000)
    share = 0.35 / (1.3 - low)
    assert share - 2e-4 < found.unfair <= share
    assert 1 - share - 2e-4 < found.fair <= 1 - share
    assert found.sampled == pytest.approx(share, abs=0.06)
    assert "a band decides" in found.boxes[0].text


def test_people_across_an_edge_are_not_similar():
    """Class 1 exactly from the lower end of a band on: everyone is treated equally."""
    for cut, fair in ((7, 1.0), (8, 7 / 12)):
        net = linear([0, 0, 3, 0], -(cut - 0.5 - 5))
        found = fairmend.quantify(net, BANDED["numbers"], seconds=60)
        assert (found.fair, found.unfair) == pytest.approx((fair, 1 - fair), abs=1e-15)


def test_rows_of_data_are_counted():
    spec = BANDED["tolerance"]
    net = mixed_network(spec)
    X = people_of(spec)
    found = fairmend.quantify(net, spec, seconds=600, share=1e-9, X=X, samples=5000)
    truth = unequal(net, spec)
    assert (found.rows.fair, found.rows.unfair) == ((~truth).sum(), truth.sum())
    assert found.sampled == pytest.approx(truth.mean(), abs=0.05)


def test_a_forged_share_is_refused(tmp_path):
    spec = BANDED["numbers"]
    net = linear([0, 0, 3, 0], -(8 - 0.5 - 5))
    found = fairmend.quantify(net, spec, seconds=60)
    certificate = found.certificate
    content = {**certificate.content, "shares": {**certificate.content["shares"], "fair": found.fair + 1e-3}}
    net.save(tmp_path / "model.onnx")
    replace(certificate, content=content).save(tmp_path / "shares.json", tmp_path / "model.onnx")
    assert not fairmend.check(tmp_path / "shares.json", tmp_path / "model.onnx").valid

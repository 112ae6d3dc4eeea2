"""Certificates of shares: the checker confirms them, and refuses those that claim more or are about something else."""

import base64
import json
import zlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.prove import certificate
from fairmend.quantifying import certificate as certificates
from fairmend.quantifying import run
from fairmend.quantifying.certificate import claim_shares, confirmed_certificate, tree_of_boxes
from fairmend.quantifying.search import search
from fairmend.spec import Feature, Label, Spec
from fairmend_check.shares.people import Boxes
from fairmend_check.shares.prove import LINEAR, LISTED, NOTHING, read_leaves
from support.checker_cases import read, write
from support.examples import examples
from support.quantify_cases import CONTINUOUS, MANY, SMALL, SPECS, TOLERANT, linear, unequal_people
from support.share_cases import CONTINUOUS as TOLERANT_CONTINUOUS
from support.share_cases import people_of_spec, random_leaves
from support.strategies import random_network

ALL = {"small": SMALL, "tolerant": TOLERANT, "many": MANY, "plain": CONTINUOUS, "continuous": TOLERANT_CONTINUOUS}


def quantified(spec, seed, rounds, monkeypatch):
    """Quantify a random network in so many rounds, however fast the machine is."""
    net = random_network(np.random.default_rng(seed), spec.width, [5, 4], 1 + seed % 3)
    ticks = iter(range(10**6))
    monkeypatch.setattr(run, "search", lambda d, _, *more: search(d, lambda: next(ticks), *more))
    return net, fairmend.quantify(net, spec, seconds=rounds, samples=0)


@pytest.mark.parametrize("name", ALL)
def test_the_certificate_is_valid_in_every_case_and_claims_no_more_than_the_result(name, tmp_path, monkeypatch):
    for seed in range(4):
        net, found = quantified(ALL[name], seed, 6, monkeypatch)
        if not found.fair and not found.unfair:
            continue
        net.save(tmp_path / "model.onnx")
        found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
        checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
        assert checked.valid, (name, seed, checked.reasons)
        claimed = found.certificate.content["shares"]
        assert claimed["fair"] <= found.fair
        assert claimed["unfair"] <= found.unfair


def test_shares_that_are_too_high_are_lowered_to_what_the_checker_confirms(tmp_path, monkeypatch):
    net, found = quantified(MANY, 5, 4, monkeypatch)
    net.save(tmp_path / "model.onnx")
    confirmed_certificate(found.evidence, 1.0, 1.0).save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert checked.valid, checked.reasons


def test_nothing_confirmed_is_an_error(monkeypatch):
    _, found = quantified(MANY, 5, 4, monkeypatch)
    with pytest.raises(FairmendError, match="the checker confirms no share"):
        confirmed_certificate(found.evidence, 0.0, 0.0)


def test_shares_of_people_who_are_all_decided_are_rounded_down():
    """One third and two thirds are no numbers of a computer."""
    spec = fairmend.Spec(
        [
            fairmend.Feature(name="sex", kind="integer", range=(0, 1), protected=True),
            fairmend.Feature(name="level", kind="integer", range=(0, 2)),
        ]
    )
    found = fairmend.quantify(linear([1, 2], -2.5), spec, seconds=5, samples=0)
    assert found.undecided == 0
    assert Fraction(found.unfair) <= Fraction(1, 3) < Fraction(np.nextafter(found.unfair, 1))
    assert Fraction(found.fair) <= Fraction(2, 3) < Fraction(np.nextafter(found.fair, 1))


@pytest.mark.parametrize("seed", [0, 11])
def test_most_of_what_is_found_is_confirmed(seed, tmp_path):
    spec = fairmend.Spec([*MANY.features[:2], *CONTINUOUS.features[1:]])
    net = random_network(np.random.default_rng(seed), spec.width, [6, 5], activation="tanh")
    found = fairmend.quantify(net, spec, seconds=60, share=0.4, samples=0)
    net.save(tmp_path / "model.onnx")
    found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert checked.valid, checked.reasons
    assert checked.fair + checked.unfair > 0.9 * (found.fair + found.unfair)


def rows_of(first, last, proof):
    return sorted(zip(first.tolist(), last.tolist(), proof.tolist(), strict=True))


@examples(30)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(list(SPECS)), splits=st.integers(0, 40))
def test_the_leaves_are_the_boxes(seed, name, splits):
    """Also where boxes were not split in the middle."""
    rng = np.random.default_rng(seed)
    people = people_of_spec(SPECS[name])
    leaves = random_leaves(people, rng, splits)
    cells = np.array([axis.cells for axis in people.axes])
    proof = rng.choice([NOTHING, LINEAR, LISTED], len(leaves.first))
    tree = tree_of_boxes(Boxes(leaves.first, leaves.last), cells, proof)
    found = read_leaves(cells.tolist(), tree.nodes.astype(np.uint16), tree.cuts.astype(np.uint32), "here")
    assert rows_of(found.first, found.last, found.proof) == rows_of(leaves.first, leaves.last, proof)


@pytest.mark.parametrize(
    ("boxes", "reason"),
    [
        ([([0], [1]), ([3], [3])], "exactly once"),  # a hole
        ([([0], [2]), ([2], [3])], "overlap"),
        ([([0], [3]), ([0], [3])], "overlap"),
    ],
)
def test_boxes_that_are_no_tree_are_refused(boxes, reason):
    first, last = (np.array(ends) for ends in zip(*boxes, strict=True))
    with pytest.raises(ValueError, match=reason):
        tree_of_boxes(Boxes(first, last), np.array([4]), np.ones(len(first), np.int64))


LARGE = Spec([replace(MANY.features[0], range=(0, 5999), scale={"mean": 3000, "std": 1400}), *MANY.features[1:]])
"""Too many protected values to list them."""


@pytest.fixture
def case(tmp_path):
    """A certificate of a small network with people of all three kinds, and its model."""
    net = random_network(np.random.default_rng(5), LARGE.width, [6, 4])
    net.save(tmp_path / "model.onnx")
    found = fairmend.quantify(net, LARGE, seconds=30, share=0.15, samples=0)
    assert found.fair > 0.1
    assert found.unfair > 0.01
    assert found.undecided > 0.01
    found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    return tmp_path / "certificate.json", tmp_path / "model.onnx"


def packed(numbers, kind):
    return base64.b64encode(zlib.compress(np.array(numbers, kind).tobytes())).decode()


def unpacked(text, kind):
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).copy()


def changed(path, change):
    """Change the content of a certificate, and return its file."""
    content = read(path)
    change(content)
    return write(path.parent, content, path.name)


@examples(8)
@given(name=st.sampled_from([*SPECS, "continuous"]), seed=st.integers(0, 2**32 - 1), outputs=st.integers(1, 2))
def test_certificates_are_valid_and_true(name, seed, outputs, tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("case"), np.random.default_rng(seed)
    spec = {**SPECS, "continuous": TOLERANT_CONTINUOUS}[name]
    net = random_network(rng, spec.width, [4, 3], outputs)
    net.save(folder / "model.onnx")
    found = fairmend.quantify(net, spec, seconds=0.1, samples=0)
    if not found.fair and not found.unfair:
        return
    found.certificate.save(folder / "certificate.json", folder / "model.onnx")
    checked = fairmend.check(folder / "certificate.json", folder / "model.onnx")
    assert checked.valid, checked.reasons
    assert checked.boxes == found.leaves
    assert checked.covers_inference
    if name != "continuous":
        unequal = unequal_people(net, spec)
        assert Fraction(checked.unfair) * len(unequal) <= unequal.sum()
        assert Fraction(checked.fair) * len(unequal) <= (~unequal).sum()


def test_everyone_decided_is_certified_without_a_rest(tmp_path):
    """By hours alone 4 of 10 people are treated unequally; no share is rounded up."""
    net = linear([1, 3, 0, 0, 0, 0], -24.5)
    net.save(tmp_path / "model.onnx")
    found = fairmend.quantify(net, SMALL, seconds=30, samples=0)
    assert found.undecided < 1e-12
    found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert checked.valid, checked.reasons
    claimed = json.loads((tmp_path / "certificate.json").read_text())["shares"]
    assert (claimed["fair"], claimed["unfair"]) == pytest.approx((0.6, 0.4), abs=1e-12)
    assert (checked.fair, checked.unfair) == pytest.approx((0.6, 0.4), abs=1e-15)
    assert Fraction(checked.fair) <= Fraction(3, 5)
    assert Fraction(checked.unfair) <= Fraction(2, 5)


def test_a_blind_network_is_certified_for_all(tmp_path):
    linear([0, 1, 1, 0, 0, 1], 0).save(tmp_path / "model.onnx")
    found = fairmend.quantify(tmp_path / "model.onnx", SMALL, seconds=5, samples=0)
    found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert checked.valid, checked.reasons
    assert (checked.fair, checked.unfair) == (1, 0)
    assert "everyone keeps the same prediction" in checked.claim
    sentence = json.loads((tmp_path / "certificate.json").read_text())["claim"]
    assert sentence == checked.claim


@pytest.mark.parametrize("name", ["fair", "unfair"])
def test_a_share_that_is_raised_is_refused(case, name):
    proven = getattr(fairmend.check(*case), name)
    path = changed(case[0], lambda content: content["shares"].update({name: proven}))
    assert f"shares.{name}" not in str(fairmend.check(path, case[1]).reasons)
    path = changed(case[0], lambda content: content["shares"].update({name: float(np.nextafter(proven, 1))}))
    checked = fairmend.check(path, case[1])
    assert checked.verdict == "invalid"
    assert f"certificate.shares.{name}" in str(checked.reasons)


def test_every_changed_node_is_refused_or_proves_no_more_than_is_true(case):
    """Each split, cut and leaf in turn; a tree that is one again may prove more or less, but only what is true."""
    net = fairmend.load_network(case[1])
    unequal = unequal_people(net, LARGE)
    shares = json.loads(case[0].read_text())["shares"]
    rng = np.random.default_rng(0)
    for key, kind in (("nodes", "<u2"), ("cuts", "<u4")):
        for _ in range(12):
            numbers = unpacked(shares[key], kind)
            numbers[rng.integers(len(numbers))] += rng.integers(1, 4)
            damage = {key: packed(numbers, kind)}
            path = changed(case[0], lambda content, damage=damage: content["shares"].update(damage))
            checked = fairmend.check(path, case[1])
            if checked.fair is None:
                assert not checked.readable
            else:
                assert checked.fair * len(unequal) <= (~unequal).sum()
                assert checked.unfair * len(unequal) <= unequal.sum()
        changed(case[0], lambda content: content.update(shares=shares))


@pytest.mark.parametrize(
    "change",
    [
        lambda shares: shares.update(leaves=shares["leaves"] - 1),
        lambda shares: shares.update(leaves=shares["leaves"] + 1),
        lambda shares: shares.update(nodes=packed([1], "<u2"), cuts=packed([], "<u4")),
        lambda shares: shares.update(cells=3),
        lambda shares: shares.update(pieces=[6, 9]),
        lambda shares: shares.update(pieces=[]),
        lambda shares: shares.pop("cuts"),
    ],
)
def test_damaged_trees_are_unreadable(case, change):
    checked = fairmend.check(changed(case[0], lambda content: change(content["shares"])), case[1])
    assert checked.verdict == "unreadable"


def test_another_model_is_refused(case, tmp_path):
    random_network(np.random.default_rng(6), LARGE.width, [6, 4]).save(tmp_path / "other.onnx")
    assert "other weights" in fairmend.check(case[0], tmp_path / "other.onnx").reasons[0]


def test_another_spec_is_refused(case, tmp_path):
    level = Feature(name="level", kind="integer", range=(0, 4))
    Spec([*LARGE.features[:-1], level]).save(tmp_path / "other.toml")
    checked = fairmend.check(*case, tmp_path / "other.toml")
    assert checked.verdict == "invalid"
    assert "not the spec of the certificate" in checked.reasons[0]


def test_another_threshold_in_the_content_is_refused(case):
    label = {"column": "y", "positive": "1", "threshold": 0.9}
    checked = fairmend.check(changed(case[0], lambda content: content["spec"].update(label=label)), case[1])
    assert checked.verdict == "invalid"


def test_the_claim_names_the_threshold_as_a_condition(tmp_path):
    spec = Spec(SMALL.features, label=Label(column="y", positive="1", threshold=0.3))
    net = random_network(np.random.default_rng(5), SMALL.width, [4])
    net.save(tmp_path / "model.onnx")
    found = fairmend.quantify(net, spec, seconds=30, share=0.3, samples=0)
    found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert checked.valid, checked.reasons
    assert "at the threshold 0.3" in checked.claim
    assert "0.3" in checked.condition


def test_a_certificate_of_real_arithmetic_is_refused(case):
    checked = fairmend.check(changed(case[0], lambda content: content.update(arithmetic="real")), case[1], real=True)
    assert checked.verdict == "unreadable"


def test_too_many_classes_are_refused(case):
    net = random_network(np.random.default_rng(5), LARGE.width, [4], 101)
    net.save(case[1])
    other = certificates.certificate_of_shares(net, LARGE, json.loads(case[0].read_text())["shares"])
    other.save(*case)
    assert "100 classes" in fairmend.check(*case).reasons[0]


def test_a_claim_can_be_lowered(case):
    net = fairmend.load_network(case[1])
    found = fairmend.quantify(net, LARGE, seconds=30, share=0.15, samples=0)
    lower = claim_shares(found.certificate, 0.01, 0.0)
    lower.save(*case)
    checked = fairmend.check(*case)
    assert checked.valid
    assert "at least 1.000 % keep the same prediction" in checked.claim
    assert "another prediction" not in checked.claim


def test_the_certificate_fits_the_published_schema(case):
    content = json.loads(case[0].read_text())
    schema = json.loads(Path(certificate.__file__).with_name("certificate.schema.json").read_text())
    jsonschema.validate(content, schema)
    changes = ({"regions": []}, {"shares": 1}, {"count": 1}, {"global": {"columns": [0]}}, {"arithmetic": "real"})
    for change in changes:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**content, **change}, schema)


def test_nothing_proven_cannot_be_certified():
    net = linear([1e-30, 0, 0, 0, 0, 0], 0)
    with pytest.raises(FairmendError, match="nothing is proven yet"):
        _ = fairmend.quantify(net, SMALL, seconds=0.1, samples=0).certificate


def test_too_many_boxes_cannot_be_certified(monkeypatch):
    monkeypatch.setattr(certificates, "MAX_LEAVES", 2)
    net = random_network(np.random.default_rng(5), LARGE.width, [6, 4])
    with pytest.raises(FairmendError, match="more than a certificate can hold"):
        _ = fairmend.quantify(net, LARGE, seconds=30, share=0.15, samples=0).certificate


def test_many_boxes_take_little_room():
    """Sixteen thousand boxes in a tenth of a megabyte."""
    rng = np.random.default_rng(0)
    boxes = Boxes(np.zeros((1, 4), np.int64), np.full((1, 4), 2**16 - 1))
    while len(boxes) < 10_000:
        boxes = boxes.halved(rng.integers(0, 4, len(boxes)))
    tree = tree_of_boxes(boxes, np.full(4, 2**16), np.ones(len(boxes), np.int64))
    size = sum(len(certificates._packed(numbers, kind)) for numbers, kind in zip(tree, ("<u2", "<u4"), strict=True))
    assert size < 100_000


@pytest.mark.parametrize("others", [0, 40])
def test_any_number_of_features_is_certified(tmp_path, others):
    protected = Feature(name="sex", kind="integer", range=(0, 1), protected=True)
    spec = Spec([protected, *(Feature(name=f"f{k}", kind="integer", range=(0, 1)) for k in range(others))])
    net = linear([1, *([1, 1] if others else []), *[0] * (others - 2)], -0.5)
    net.save(tmp_path / "model.onnx")
    found = fairmend.quantify(net, spec, seconds=30, samples=0)
    found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert checked.valid, checked.reasons
    assert checked.unfair == pytest.approx(0.25 if others else 1.0, rel=0.3)
    assert checked.unfair <= (0.25 if others else 1.0)

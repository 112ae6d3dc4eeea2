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
from hypothesis import given, settings
from hypothesis import strategies as st

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.prove import certificate
from fairmend.quantifying import certificate as certificates
from fairmend.quantifying.certificate import claim_shares
from fairmend.quantifying.space import Boxes, make_space
from fairmend.quantifying.split_tree import tree_of_boxes
from fairmend.spec import Feature, Label, Spec
from support.checker_cases import read, write
from support.quantify_cases import MANY, SMALL, SPECS, linear, unequal_people
from support.share_cases import CONTINUOUS
from support.strategies import random_network

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


@settings(deadline=None, max_examples=8)
@given(name=st.sampled_from([*SPECS, "continuous"]), seed=st.integers(0, 2**32 - 1), outputs=st.integers(1, 2))
def test_certificates_are_valid_and_true(name, seed, outputs, tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("case"), np.random.default_rng(seed)
    spec = {**SPECS, "continuous": CONTINUOUS}[name]
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
        space = make_space(net, spec)
        unequal = unequal_people(net, space, space.root(), 0)
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
    assert sentence == "Among all people that the spec allows, age aside, everyone is treated equally."


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
    space = make_space(net, LARGE)
    unequal = unequal_people(net, space, space.root(), 0)
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
    other = certificates.certificate_of_shares(net, LARGE, json.loads(case[0].read_text())["shares"], "claim")
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
    monkeypatch.setattr(certificates, "MOST_LEAVES", 2)
    net = random_network(np.random.default_rng(5), LARGE.width, [6, 4])
    with pytest.raises(FairmendError, match="more than a certificate can hold"):
        _ = fairmend.quantify(net, LARGE, seconds=30, share=0.15, samples=0).certificate


def test_many_boxes_take_little_room():
    """Sixteen thousand boxes in a tenth of a megabyte."""
    rng = np.random.default_rng(0)
    boxes = Boxes(np.zeros((1, 4), np.int64), np.full((1, 4), 2**16 - 1))
    while len(boxes) < 10_000:
        boxes = boxes.split(rng.integers(0, 4, len(boxes)))
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

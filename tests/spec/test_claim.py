"""Claims: what a spec demands of similar people, in Python and in files, and what is refused."""

import copy
import math
import pickle
from dataclasses import replace

import pytest

import fairmend
from fairmend.spec import About, Claim, Feature, Label, Spec
from fairmend.spec.claim import ScoreClaim
from fairmend.spec.label import as_about, load_about
from fairmend_check.kernel.spec import first_difference, read_spec
from fairmend_check.spec_toml import read_spec_file
from support.cli_case import small_network, small_people, small_spec
from support.spec_cases import AGE, refused

GIVEN = {"name": "Credit score", "version": "2.1", "owner": "Credit risk", "date": "2026-11-01"}


def test_a_spec_keeps_it_in_its_file(tmp_path):
    spec = small_spec().with_about(GIVEN)
    spec.save(tmp_path / "spec.toml")
    assert (tmp_path / "spec.toml").read_text(encoding="utf-8").startswith('[about]\nname = "Credit score"\n')
    again = Spec.load(tmp_path / "spec.toml")
    assert again.about == About(**GIVEN) == again.at_threshold(0.3).about
    assert again.widen({"age": (10, 80)}).about == About(**GIVEN)
    assert again == small_spec()  # it says nothing about people


def test_the_certificate_does_not_depend_on_it_and_the_checker_reads_the_spec(tmp_path):
    spec, frame, net = small_spec(), small_people(60), small_network()
    X, y = spec.encode(frame), spec.labels(frame)
    plain, named = (
        fairmend.repair(net, each, X[:5], X[5:], y[5:], method="blind") for each in (spec, spec.with_about(GIVEN))
    )
    for result, name in ((plain, "plain"), (named, "named")):
        result.network.save(tmp_path / "model.onnx")
        result.certificate.save(tmp_path / f"{name}.json", tmp_path / "model.onnx")
    assert (tmp_path / "plain.json").read_bytes() == (tmp_path / "named.json").read_bytes()
    spec.with_about(GIVEN).save(tmp_path / "spec.toml")
    assert read_spec_file(tmp_path / "spec.toml").width > 0
    assert fairmend.check(tmp_path / "named.json", tmp_path / "model.onnx", tmp_path / "spec.toml").valid


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ownr": "x"}, r'\[about\] has an unknown key "ownr" \(did you mean "owner"\?\)'),
        ({"version": 2}, r'\[about\]: version must be a text, got 2\. Write "2", in quotes'),
        ({"purpose": "x" * 2_001}, r"purpose has 2,001 characters"),
        ("Credit score", r"\[about\] must be a table"),
    ],
)
def test_what_cannot_be_shown_is_refused(given, message):
    with pytest.raises(fairmend.FairmendError, match=message):
        as_about(given)


@pytest.mark.parametrize("head", ["", "[about]\n"])
def test_a_file_of_its_own(head, tmp_path):
    path = tmp_path / "about.toml"
    path.write_text(f'{head}name = "Credit score"\ndate = 2026-11-01\n')
    assert load_about(path) == About(name="Credit score", date="2026-11-01")
    path.write_text(f'{head}title = "Credit score"\n')
    with pytest.raises(fairmend.FairmendError, match=r'about\.toml: the file has an unknown key "title"'):
        load_about(path)


def test_later_texts_replace_earlier_ones():
    assert About(name="a", owner="b").updated(About(owner="c")) == About(name="a", owner="c")


PRICE = Label("price")


def test_the_default_is_one_class_for_similar_people():
    assert Spec([AGE]).claim == Claim() == Claim(kind="class")
    assert not Claim().stated
    assert "claim" not in Spec([AGE]).to_dict()
    assert Claim().limit == 0.0


@pytest.mark.parametrize("claim", [Claim(), Claim("score", 0.02, "probability")])
def test_a_claim_keeps_its_kind_wherever_it_goes(claim):
    assert type(claim) is not Claim
    for same in (pickle.loads(pickle.dumps(claim)), copy.deepcopy(claim), replace(claim), eval(repr(claim))):
        assert same == claim
        assert type(same) is type(claim)


def test_a_kind_of_claim_that_nothing_is_made_for_is_refused():
    assert Claim().choose({"class": 1, "score": 2}, "x") == 1
    assert Claim("score", 1, "logit").choose({"class": 1, "score": 2}, "x") == 2
    with pytest.raises(fairmend.FairmendError, match=r"x is not possible for a claim about scores\. Remove \[claim\]"):
        Claim("score", 1, "logit").choose({"class": 1}, "x")


def test_a_score_claim_belongs_to_the_spec(tmp_path):
    spec = Spec([AGE], Label("y", "1"), Claim("score", 0.02, "probability"))
    assert spec.claim.stated
    assert spec.claim.limit == 0.02
    assert spec != Spec([AGE], Label("y", "1"))
    assert spec == Spec([AGE], Label("y", "1"), {"kind": "score", "delta": 0.02, "on": "probability"})
    assert len({spec, Spec([AGE], Label("y", "1"))}) == 2
    assert spec.to_dict()["claim"] == {"kind": "score", "delta": 0.02, "on": "probability"}
    assert repr(spec).endswith('label: y = "1"; claim: probability within 0.02)')
    assert Spec.from_dict(spec.to_dict()) == spec
    spec.save(tmp_path / "spec.toml")
    assert '\n[claim]\nkind = "score"\ndelta = 0.02\non = "probability"\n' in (tmp_path / "spec.toml").read_text()
    assert Spec.load(tmp_path / "spec.toml") == spec


def test_a_claim_about_classes_may_be_written_out():
    plain = Spec([AGE]).to_dict()
    assert Spec.from_dict(plain | {"claim": {"kind": "class"}}) == Spec.from_dict(plain | {"claim": {}}) == Spec([AGE])


def test_a_number_to_predict_has_no_positive_value(tmp_path):
    spec = Spec([AGE], PRICE, Claim("score", 1000, "output"))
    assert spec.regression
    assert spec.claim.limit == 1000.0
    assert spec.to_dict()["label"] == {"column": "price"}
    assert repr(spec).endswith("label: price; claim: output within 1000)")
    spec.save(tmp_path / "spec.toml")
    assert Spec.load(tmp_path / "spec.toml") == spec
    assert not Spec([AGE], Label("y", "1"), Claim("score", 1, "logit")).regression


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({"kind": "scores", "delta": 0.1, "on": "logit"}, ["[claim]: kind", '"scores"', 'did you mean "score"']),
        ({"kind": "score", "on": "logit"}, ["needs delta"]),
        ({"kind": "score", "delta": 0.1}, ["needs on", "probability, logit, output"]),
        ({"kind": "score", "delta": 0.1, "on": "logits"}, ["[claim]: on", '"logits"', 'did you mean "logit"']),
        ({"kind": "score", "delta": 0, "on": "logit"}, ["delta must be above 0, got 0"]),
        ({"kind": "score", "delta": -0.5, "on": "output"}, ["delta must be above 0, got -0.5"]),
        ({"kind": "score", "delta": 1, "on": "probability"}, ["delta must be below 1", "got 1"]),
        ({"kind": "score", "delta": math.nan, "on": "logit"}, ["delta must be a finite number"]),
        ({"kind": "score", "delta": math.inf, "on": "logit"}, ["delta must be a finite number"]),
        ({"kind": "score", "delta": "0.1", "on": "logit"}, ["delta must be a finite number", "'0.1'"]),
        ({"kind": "score", "delta": True, "on": "logit"}, ["delta must be a finite number"]),
        ({"kind": "class", "delta": 0.1}, ['need kind = "score"']),
        ({"delta": 0.1, "on": "logit"}, ['need kind = "score"']),
        ({"kind": "score", "delta": 0.1, "om": "logit"}, ["[claim]", '"om"', "kind, delta, on"]),
        ("score", ["[claim] must be a table"]),
    ],
)
def test_a_wrong_claim_is_refused(claim, words):
    with refused(*words):
        Spec.from_dict(Spec([AGE]).to_dict() | {"claim": claim})


@pytest.mark.parametrize("claim", [None, Claim("score", 0.1, "probability"), Claim("score", 1, "logit")])
def test_a_number_to_predict_has_no_classes_to_claim(claim):
    with refused('[label] has no positive value, so "price" is a number', 'on = "output"'):
        Spec([AGE], PRICE, claim)


def test_a_class_has_no_output_to_claim():
    with refused('on = "output" is for a number to predict', '"y" has a positive value', 'on = "logit"'):
        Spec([AGE], Label("y", "1"), Claim("score", 1, "output"))
    assert Spec([AGE], None, Claim("score", 1, "output")).regression


def test_the_favourable_class_is_the_positive_one_unless_the_label_says(tmp_path):
    assert Label("loan", "default").favourable_class == 1
    assert Label("loan", "default", favourable="default").favourable_class == 1
    assert Label("loan", "default", favourable="repaid").favourable_class == 0
    assert Label("grade", classes=("A", "B", "C")).favourable_class is None
    assert Label("grade", classes=("A", "B", "C"), favourable="B").favourable_class == 1
    spec = Spec([Feature("sex", "categorical", categories=("f", "m"), protected=True)], Label("y", 1, favourable=0))
    spec.save(tmp_path / "spec.toml")
    assert Spec.load(tmp_path / "spec.toml") == spec
    read = read_spec(spec.to_dict(), "spec")
    other = read_spec(Spec(spec.features, Label("y", 1)).to_dict(), "spec")
    assert read.label.favourable == "0"
    assert first_difference(read, other) is None


def test_a_favourable_value_that_is_no_class_is_refused():
    with pytest.raises(fairmend.FairmendError, match=r'must be one of the classes, got "D"'):
        Label("grade", classes=("A", "B", "C"), favourable="D")
    with pytest.raises(fairmend.FairmendError, match="neither positive nor classes"):
        Label("income", favourable="high")


def test_a_claim_that_derives_from_one_about_scores_is_about_scores():
    """Engines ask what it compares; one that asked for its kind would compare classes."""

    class Narrow(ScoreClaim):
        pass

    claim = Narrow("narrow", 0.1, "logit")
    assert claim.is_score
    assert claim.choose({"class": 1, "score": 2}, "a proof") == 2
    with pytest.raises(fairmend.FairmendError, match=r"a proof is not possible for a claim about scores"):
        claim.choose({"class": 1}, "a proof")

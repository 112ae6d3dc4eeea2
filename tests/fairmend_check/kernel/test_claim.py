"""The claim in English: written from the data of a certificate, in the words of the certificate's own claim."""

from types import SimpleNamespace

import pytest

import fairmend
from fairmend_check.kernel.certificate import read_certificate
from fairmend_check.kernel.spec import Spec, read_spec
from fairmend_check.kernel.statement import describe_claim
from support.checker_cases import SPECS, case, write

OLD = "Each of the 4 inputs listed here gets one answer from this model whatever its sex and age, in real arithmetic."


@pytest.fixture
def claim(tmp_path):
    """The claim that the checker reads from the content of a certificate."""
    return lambda content: describe_claim(read_certificate(write(tmp_path, content)))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("rows", [1, 4])
def test_it_reads_like_the_claim_that_fairmend_writes(spec, rows, claim):
    made = case(spec=spec, rows=rows)
    assert claim(made.content) == made.certificate.claim


def test_inputs_are_listed_with_their_tolerances_and_values(claim):
    content = case(spec="tolerance").content
    assert claim(content) == (
        "For each of the 4 inputs listed in this certificate, the prediction of this model stays the same whatever its "
        "sex, even if you also change income by up to 2.5 and credits by up to 1. This holds in real "
        "arithmetic and in float32 inference, for these values: sex f, m; income 0 to 100; credits 0 to 5."
    )


def test_a_tolerance_that_changes_nothing_is_not_claimed(claim):
    content = case(spec="tolerance").content
    content["spec"]["feature"][2]["tolerance"] = 0.9  # of whole numbers
    assert "credits" not in claim(content)


EVERYONE = "For every input within the ranges of the spec, the output of this model does not depend on"


def test_a_global_claim_comes_first(claim):
    content = case().content
    content["global"] = {"columns": [0, 1]}
    both = claim(content)
    assert both.startswith(f"{EVERYONE} sex or age. For each of the")
    content["inputs"] = content["inputs"][:0]
    assert claim(content) == f"{EVERYONE} sex or age. The values of these features are: sex f, m; age 18 to 60."


def test_a_global_claim_names_every_feature_that_the_model_ignores(claim):
    content = case(spec="tolerance").content
    content["global"], content["inputs"] = {"columns": [2, 0]}, content["inputs"][:0]
    values = "The values of these features are: sex f, m;"
    assert claim(content) == f"{EVERYONE} sex or credits. {values} credits 0 to 5."
    content["global"] = {"columns": [0, 1, 2]}
    assert claim(content) == f"{EVERYONE} sex, income or credits. {values} income 0 to 100; credits 0 to 5."


def test_only_a_dozen_categories_are_listed(claim):
    content = case().content
    content["spec"]["feature"][0]["categories"] = [f"c{i}" for i in range(13)]
    assert claim(content).endswith("sex c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, …; age 18 to 60.")


@pytest.mark.parametrize("sentence", [OLD, "", "All people are treated alike."])
def test_the_sentence_in_the_file_is_not_evidence(sentence, tmp_path):
    made = case()
    _, model = made.save(tmp_path)
    content = made.content
    content["claim"] = sentence
    result = fairmend.check(write(tmp_path, content), model)
    assert result.valid
    assert result.claim == made.certificate.claim


def claim_of(features, **claims):
    return describe_claim(SimpleNamespace(spec=Spec(tuple(features), None), outputs=1, shares=None, **claims))


def some_feature(name, **options):
    sex = {"name": "another", "kind": "integer", "range": [0, 1], "protected": True}
    return read_spec({"feature": [{"name": name, **options}, sex]}, "spec").features[0]


def test_a_name_that_is_more_than_one_word_is_quoted():
    """Otherwise the claim would name a feature that the model does depend on."""
    odd = some_feature("id, sex or race", kind="integer", range=[0, 1], protected=True)
    race = some_feature("race", kind="categorical", categories=["a, b", "c"], protected=True)
    claim = claim_of([odd, race], blind=[(odd, 0), (race, 1)], count=1, arithmetic="float32")
    assert 'does not depend on "id, sex or race" or race.' in claim
    assert 'race "a, b", c.' in claim


def test_numbers_are_exact_and_tolerances_are_what_they_reach():
    sex = some_feature("sex", kind="continuous", range=[0, 0.9999999999999], protected=True)
    age = some_feature("age", kind="integer", range=[0, 9999999999999], tolerance=1.9999999)
    claim = claim_of([sex, age], blind=(), count=1, arithmetic="float32")
    assert "change age by up to 1." in claim
    assert claim.endswith("for these values: sex 0 to 0.9999999999999; age 0 to 9999999999999.")


PEOPLE = "Among all people, sex aside, where each combination of values counts once, "
SCORES = "the scores (the probability, which is the sigmoid of the output of this model) of"
TWO = "two people who differ from them only in sex"


@pytest.mark.parametrize(
    ("options", "fair", "unfair", "sentence"),
    [
        ({}, 1.0, 0.0, "everyone keeps the same prediction of this model whatever their sex."),
        ({}, 0.0, 1.0, "everyone gets another prediction of this model with some other sex."),
        (
            {},
            0.5,
            1e-9,
            "at least 50.00 % keep the same prediction of this model whatever their sex; and at least 0.0000001000 % "
            "get another prediction with some other sex.",
        ),
        (
            {"tolerance": 2},
            0.0,
            0.25,
            "at least 25.00 % get another prediction of this model with some other sex, or if you also change age by "
            "up to 2.",
        ),
        ({"score": True}, 1.0, 0.0, f"for everyone, {SCORES} any {TWO} differ by at most 0.5."),
        (
            {"score": True},
            0.5,
            0.25,
            f"for at least 50.00 %, {SCORES} any {TWO} differ by at most 0.5; and for at least 25.00 %, those of some "
            "two such people differ by more than 0.5.",
        ),
        (
            {"score": True, "tolerance": 2},
            0.0,
            0.25,
            f"for at least 25.00 %, {SCORES} some {TWO}, and in age by up to 2, differ by more than 0.5.",
        ),
    ],
)
def test_a_claim_about_shares_says_how_many(options, fair, unfair, sentence):
    content = {
        "feature": [
            {"name": "age", "kind": "integer", "range": [0, 9], "tolerance": options.get("tolerance", 0)},
            {"name": "sex", "kind": "integer", "range": [0, 1], "protected": True},
        ],
    }
    if "score" in options:
        content["claim"] = {"kind": "score", "delta": 0.5, "on": "probability"}
    certificate = SimpleNamespace(
        spec=read_spec(content, "spec"),
        outputs=1,
        blind=(),
        shares=SimpleNamespace(fair=fair, unfair=unfair),
        arithmetic="float32",
    )
    assert describe_claim(certificate).startswith(PEOPLE + sentence)

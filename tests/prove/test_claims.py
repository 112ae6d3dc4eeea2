"""What is proven is said in one place, and the sentences claim no more than that."""

from dataclasses import replace

import pytest

from fairmend import Feature, Spec
from fairmend.prove.claims import Guarantee, UnequalCount
from fairmend.spec import Claim
from support.link_cases import family_spec

SPEC = Spec(
    [
        Feature("age", "integer", range=(17, 90), protected=True),
        Feature("gender", "categorical", categories=("Female", "Male"), protected=True),
        Feature("hours", "integer", range=(1, 99), tolerance=2),
        Feature("days", "integer", range=(1, 7), tolerance=0.5),
    ]
)
STRICT = Guarantee((), ("age", "gender"), {}, 30, 30, "float32")
NONE = UnequalCount(0, 30)


def of_spec(**changes):
    given = {"ignored": (), "proven": 30, "inputs": 30, "arithmetic": "float32"} | changes
    return Guarantee.for_spec(SPEC, **given)


def all_sentences(guarantee, unequal=NONE):
    return [
        guarantee.summary("flip", unequal),
        guarantee.beyond(UnequalCount(12, 600), "2.0 %"),
        guarantee.partial_coverage(),
        guarantee.tag(),
        guarantee.headline("flip", unequal),
        *guarantee.explanation(),
        *guarantee.coverage(),
    ]


def test_a_spec_gives_names_and_tolerances():
    guarantee = of_spec()
    assert guarantee.protected == ("age", "gender")
    assert guarantee.tolerances == {"hours": 2}  # half a day allows no other whole number of days


def test_sentences_name_the_first_few_features():
    many = replace(STRICT, protected=tuple(f"p{i}" for i in range(20)))
    assert "p7 or 12 others" in many.summary("prof", NONE)


def test_all_repair_inputs_proven():
    assert STRICT.summary("prof", NONE) == (
        "Proven: each of the 30 repair inputs keeps its prediction whatever its age or gender."
    )
    assert STRICT.beyond(UnequalCount(12, 600), "2.0 %") == (
        "The proof does not cover other people: of the 600 rows of the data, 12 (2.0 %) are still treated unequally."
    )
    assert (
        STRICT.headline("prof", NONE) == "Each of the 30 repair inputs keeps its prediction whatever its age or gender."
    )
    assert STRICT.tag() == "Proven for 30 repair inputs"
    assert STRICT.partial_coverage() == ""
    assert "in exact arithmetic and in float32 inference" in STRICT.explanation()[-1]
    assert "does not cover rounding" in replace(STRICT, arithmetic="real").explanation()[-1]


def test_everyone_without_tolerances_leaves_nothing_open():
    everyone = replace(STRICT, ignored=("age", "gender"))
    assert everyone.covers_everyone
    assert everyone.summary("blind", NONE) == (
        "Proven: for every input within the ranges of the spec, the output of the network does not depend on age or "
        "gender."
    )
    assert everyone.headline("blind", NONE) == (
        "For every input within the ranges of the spec, the output of this model does not depend on age or gender."
    )
    assert everyone.beyond(UnequalCount(0, 600), "0 %") == ""
    assert everyone.tag() == "Proven for everyone"
    assert "repair inputs" not in " ".join(all_sentences(everyone))


def test_everyone_with_tolerances_is_two_claims():
    both = of_spec(ignored=("age", "gender"))
    assert not both.covers_everyone
    assert both.complete
    assert both.tag() == "Proven for everyone; with tolerance, for 30 repair inputs"
    second = "Each of the 30 repair inputs also keeps its prediction with any change of hours by up to 2"
    assert both.headline("blind", NONE).endswith(f" {second}.")
    assert both.beyond(UnequalCount(12, 600, exact=False), "2.0 %") == (
        f"{second}. Of the 600 rows of the data, at least 12 (2.0 %) are still treated unequally."
    )
    assert "The second claim holds" in of_spec(ignored=("age", "gender"), arithmetic="real").explanation()[-1]
    some = of_spec(ignored=("age", "gender"), proven=20)
    assert not some.complete
    assert some.tag() == "Proven for everyone; with tolerance, for 20 of 30 repair inputs"
    assert some.partial_coverage() == "everyone's protected features, and 20 of the 30 repair inputs with their tolerance"  # noqa: E501  # fmt: skip
    assert "Only 20 of the 30 repair inputs" in some.headline("flip", NONE)


def test_what_is_not_proven_is_not_claimed():
    some = of_spec(proven=20)
    assert some.summary("flip", UnequalCount(3, 30)) == (
        "Not proven: flip gives no guarantee. 20 of the 30 repair inputs are proven to keep their prediction "
        "whatever the age or gender, even if they also differ in hours by up to 2; 3 are still treated unequally."
    )
    assert some.tag() == "Not proven"
    assert some.partial_coverage() == "20 of the 30 repair inputs"
    assert some.beyond(UnequalCount(12, 600), "2.0 %").startswith("Of the 600 rows of the data, 12 (2.0 %) are")
    assert some.headline("flip", UnequalCount(3, 30, exact=False)) == (
        "At least 3 of the 30 repair inputs still get a different prediction with a different age or gender, or if "
        "they differ in hours by up to 2."
    )
    assert some.headline("flip", NONE).startswith("The method flip gives no guarantee")
    nothing = of_spec(proven=0)
    assert nothing.explanation() == ("Nothing is proven about how the predictions depend on age or gender.",)
    assert nothing.coverage() == ("No repair input.",)


def test_one_input_is_singular():
    one = replace(STRICT, proven=1, inputs=1)
    assert one.summary("prof", NONE) == "Proven: the repair input keeps its prediction whatever its age or gender."
    assert one.coverage() == ("One repair input, and everyone who differs from it only in age or gender.",)
    assert "1 (0.2 %) is still treated unequally" in one.beyond(UnequalCount(1, 600), "0.2 %")
    few = replace(STRICT, proven=1)
    assert "1 of the 30 repair inputs is proven to keep its prediction whatever" in few.summary(
        "flip", UnequalCount(1, 30)
    )
    assert few.summary("flip", UnequalCount(1, 30)).endswith("1 is still treated unequally.")
    assert few.headline("flip", UnequalCount(1, 30)).startswith("1 of the 30 repair inputs still gets")
    assert few.explanation()[0].startswith("1 of the 30 repair inputs keeps its prediction")


@pytest.mark.parametrize("everyone", [True, False])
@pytest.mark.parametrize("tolerances", [{}, {"hours": 2.0}])
@pytest.mark.parametrize("proven", [0, 1, 20, 30])
@pytest.mark.parametrize("unequal", [UnequalCount(0, 30), UnequalCount(3, 30), UnequalCount(3, 30, exact=False)])
def test_every_sentence_starts_with_a_capital_and_ends_with_a_full_stop(everyone, tolerances, proven, unequal):
    guarantee = Guarantee(("age",) if everyone else (), ("age",), tolerances, proven, 30, "real")
    said = all_sentences(guarantee, unequal)
    sentences = [text for text in (*said[:2], *said[4:]) if text]
    assert sentences
    for text in sentences:
        assert text[0].isupper() or text[0].isdigit(), text
        assert text.endswith("."), text
        assert "  " not in text
        assert ".." not in text


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("proven", [0, 3, 30])
def test_a_proof_in_real_arithmetic_alone_says_so_wherever_it_is_stated(everyone, proven):
    real = Guarantee(("age",) if everyone else (), ("age",), {"hours": 2.0}, proven, 30, "real")
    covered = replace(real, arithmetic="float32")
    unequal = UnequalCount(0, 30)
    assert ("only with --real" in real.real_only_note()) == (proven > 0)
    assert ("only with --real" in " ".join(real.explanation())) == (proven > 0)
    assert covered.real_only_note() == ""
    stated = real.beyond(unequal, "0 %") if everyone else real.summary("flip", unequal)
    assert ("in exact arithmetic" in stated) == (proven > 0)
    if everyone or proven == 30:
        assert ("in exact arithmetic" in real.headline("flip", unequal)) == (proven > 0)
    for sentence in (
        covered.summary("flip", unequal),
        covered.headline("flip", unequal),
        covered.beyond(unequal, "0 %"),
    ):
        assert "exact arithmetic" not in sentence


def test_a_network_that_ignores_all_that_varies_is_proven_for_everyone_with_its_tolerances():
    full = of_spec(ignored=("age", "gender", "hours"), proven=0, inputs=0)
    assert full.covers_everyone
    assert full.tag() == "Proven for everyone"
    assert full.beyond(UnequalCount(0, 600), "0 %") == ""


def test_links_are_part_of_what_is_proven():
    listed = Guarantee.for_spec(family_spec(), ignored=(), proven=30, inputs=30, arithmetic="float32")
    for sentence in all_sentences(listed):
        assert "sex or age, with relationship and years as the spec links them" in sentence or "sex" not in sentence
    partly = replace(listed, ignored=("sex", "age"))
    assert not partly.covers_everyone
    assert partly.tag() == "Proven for everyone; with links, for 30 repair inputs"
    assert partly.coverage()[1].startswith("With links: the 30 repair inputs")
    assert replace(listed, ignored=("sex", "age", "relationship", "years")).covers_everyone


SCORES = Spec(SPEC.features, claim=Claim("score", 0.05, "probability"))


@pytest.mark.parametrize(("proven", "ignored"), [(30, ()), (12, ()), (0, ()), (30, ("age", "gender"))])
@pytest.mark.parametrize("arithmetic", ["float32", "real"])
def test_a_claim_about_scores_says_nothing_about_predictions(proven, ignored, arithmetic):
    guarantee = Guarantee.for_spec(SCORES, ignored=ignored, proven=proven, inputs=30, arithmetic=arithmetic)
    for sentence in all_sentences(guarantee, UnequalCount(30 - proven, 30)):
        assert "prediction" not in sentence
    if proven:
        assert any("0.05" in sentence for sentence in all_sentences(guarantee))


def test_the_sentences_of_a_claim_about_scores():
    guarantee = Guarantee.for_spec(SCORES, ignored=(), proven=30, inputs=30, arithmetic="float32")
    assert guarantee.summary("prof", NONE).startswith(
        "Proven: each of the 30 repair inputs keeps its probability within a range of 0.05 whatever its age or gender"
    )
    open_cases = replace(guarantee, proven=20).headline("flip", UnequalCount(10, 30))
    assert open_cases.startswith(
        "10 of the 30 repair inputs still get another probability, by more than 0.05, with a different age or gender"
    )


def test_a_lower_bound_of_none_says_that_none_was_found():
    nothing = UnequalCount(0, 600, exact=False)
    found = "none was found to be treated unequally, but not every similar person was tried"
    assert nothing.still_unequal("0 %") == found
    assert STRICT.beyond(nothing, "0 %").endswith(f"of the 600 rows of the data, {found}.")
    assert UnequalCount(1, 600, exact=False).still_unequal("0.2 %") == "at least 1 (0.2 %) is still treated unequally"
    assert UnequalCount(0, 600).still_unequal() == "0 are still treated unequally"


def test_large_tolerances_are_readable_in_a_headline():
    both = Guarantee(("sex", "age"), ("sex", "age"), {"limit": 10_000.0, "rate": 0.5}, 100, 100, "float32")
    assert both.headline("blind", NONE) == (
        "For every input within the ranges of the spec, the output of this model does not depend on sex or age. Each "
        "of the 100 repair inputs also keeps its prediction with any change of limit by up to 10,000 and rate by up to "
        "0.5."
    )

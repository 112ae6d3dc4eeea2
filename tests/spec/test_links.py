"""Links: what is accepted is saved and loaded as it is, and what makes no sense is refused by name."""

import numpy as np
import pandas as pd
import pytest

from fairmend.spec import Feature, Spec
from fairmend.spec.links import MOST_LINKS, Link, most_linked_values
from support.link_cases import AGE, HOURS, RELATIONSHIP, SEX, YEARS, family_spec
from support.spec_cases import refused

FEATURES = [SEX, RELATIONSHIP, AGE, YEARS, HOURS]


def link(when=None, then=None):
    return {"when": when or {"sex": "Female"}, "then": then or {"relationship": {"Husband": "Wife"}}}


def spec_with(*links):
    return Spec(FEATURES, links=links)


def test_links_are_stored_in_one_form_whatever_form_they_have():
    given = {
        "when": {"age": [20, 20.0], "sex": ["Female"]},
        "then": {"years": {"offset": [-2, -2]}, "relationship": {"Wife": ["Wife", "Husband"], "Husband": ["Wife"]}},
    }
    canonical = Link(
        {"sex": "Female", "age": 20},
        {"relationship": {"Husband": "Wife", "Wife": ["Husband", "Wife"]}, "years": {"offset": -2}},
    )
    spec = spec_with(given)
    assert spec.links == (canonical,)
    assert list(spec.links[0].then["relationship"]) == ["Husband", "Wife"]
    assert spec == spec_with(canonical) != spec_with()
    assert hash(spec) == hash(spec_with(canonical))
    assert [f.name for f in spec.varying] == ["sex", "relationship", "age", "years", "hours"]
    assert [f.name for f in spec.linked] == ["relationship", "years"]
    assert "linked: relationship, years" in repr(spec)
    assert "linked" not in repr(spec_with())
    spec.to_dict()["link"][0]["then"]["years"]["offset"] = 1
    assert spec.links == (canonical,)


def test_a_file_holds_links_after_the_features_and_quotes_names_that_need_it(tmp_path):
    odd = Feature("job.title", "categorical", categories=('the "boss"', "clerk"), encoding="ordinal")
    spec = Spec([SEX, odd], links=[link(then={"job.title": {'the "boss"': "clerk"}})])
    path = tmp_path / "spec.toml"
    spec.save(path)
    assert path.read_text().endswith(
        '\n[[link]]\nwhen = {sex = "Female"}\nthen = {"job.title" = {"the \\"boss\\"" = "clerk"}}\n'
    )
    assert Spec.load(path) == spec
    assert Spec.from_dict(spec.to_dict()) == spec


def test_categories_may_be_numbers_and_truth_values():
    feature = Feature("veteran", "categorical", categories=(True, False), encoding="one-hot", protected=True)
    grade = Feature("grade", "categorical", categories=(1, 2, 3))
    spec = Spec([feature, grade], links=[link({"veteran": True}, {"grade": {1: 2, "2": 3.0}})])
    assert spec.links == (Link({"veteran": "True"}, {"grade": {"1": "2", "2": "3"}}),)


def test_the_most_values_of_a_linked_feature_are_counted():
    spec = family_spec(links=[link({"age": 25}, {"years": {"range": [1, 4]}})])
    assert most_linked_values(spec.links, YEARS) == spec.most_values(YEARS) == 4
    assert most_linked_values(spec.links, RELATIONSHIP) == 1
    assert spec.most_values(AGE) == 7


REFUSED = {
    "unknown feature in when": (link({"gender": "f"}), 'link number 1: when names "gender"', "not a feature"),
    "unknown feature in then": (link(then={"relation": {}}), '"relation"', 'mean "relationship"'),
    "unknown category in when": (link({"sex": "Femal"}), 'when "sex"', '"Femal" is not one', "Female"),
    "unknown own category": (link(then={"relationship": {"Husbond": "Wife"}}), "Husbond", "Husband"),
    "unknown new category": (link(then={"relationship": {"Husband": "Wive"}}), '"Husband"', "Wive", "Wife"),
    "an own category in a list": (link(then={"relationship": {"Husband": ["Wife", "Wife"]}}), "listed twice"),
    "empty list": (link(then={"relationship": {"Husband": []}}), "empty list"),
    "empty when": ({"when": {}, "then": {"relationship": {"Husband": "Wife"}}}, "link number 1: when must be a table"),
    "empty then": ({"when": {"sex": "Female"}, "then": {}}, "then must be a table"),
    "no then": ({"when": {"sex": "Female"}}, "then", "missing"),
    "unknown key": ({**link(), "if": 1}, 'unknown key "if"'),
    "no table": ("sex", "link number 1 must be a table"),
    "empty change": (link(then={"relationship": {}}), 'then "relationship" must be a table such as', "Husband"),
    "a category where a table belongs": (link(then={"relationship": "Wife"}), "must be a table"),
    "no effect on a category": (link(then={"relationship": {"Wife": "Wife"}}), "changes nothing"),
    "no effect on a number": (link(then={"years": {"offset": 0}}), "offset 0 changes nothing"),
    "a number for a category": (link(then={"years": {"Husband": "Wife"}}), "range or offset"),
    "range and offset": (link(then={"years": {"range": [0, 1], "offset": 1}}), "either range or offset"),
    "a range of one number": (link(then={"years": {"range": 3}}), "range must be [lowest, highest]"),
    "a range outside": (link(then={"years": {"range": [3, 7]}}), "7 is outside the range 0 to 6"),
    "a range upside down": (link(then={"years": {"range": [3, 2]}}), "lowest <= highest"),
    "a range that no value fits": (link(then={"years": {"range": [2.2, 2.8]}}), "no whole number"),
    "a range of fractions": (link(then={"years": {"range": [1.5, 2.8]}}), "whole numbers"),
    "an offset that is a fraction": (link(then={"years": {"offset": 0.5}}), "must be whole"),
    "an offset that is no number": (link(then={"years": {"offset": float("nan")}}), "finite number"),
    "an offset that is text": (link(then={"years": {"offset": "1"}}), "finite number"),
    "three offsets": (link(then={"years": {"offset": [1, 2, 3]}}), "[least, most]"),
    "offsets upside down": (link(then={"years": {"offset": [2, 1]}}), "least <= most"),
    "a number outside": (link({"age": 19}), 'when "age"', "19 is outside the range 20 to 26"),
    "text for a number": (link({"age": "old"}), "finite number"),
    "three numbers": (link({"age": [20, 21, 22]}), "a number or [lowest, highest]"),
    "unprotected condition": (link({"hours": 1}), '"hours", which is not protected'),
    "tolerant target": (link(then={"hours": {"offset": 1}}), '"hours", which has a tolerance'),
    "protected target": (link(then={"age": {"offset": 1}}), '"age", which is protected'),
    "sets what it depends on": (link(then={"sex": {"Male": "Female"}}), 'circle: "sex" → "sex"'),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_link_that_makes_no_sense_is_refused_by_name(case):
    given, *words = case
    with refused(*words) as error:
        spec_with(given)
    assert "\n" not in str(error.value)


def test_links_that_chain_or_form_a_circle_are_refused():
    back = link({"relationship": "Wife"}, {"sex": {"Male": "Female"}})
    with refused('the links form a circle: "sex" → "relationship" → "sex"'):
        spec_with(link(), back)
    with refused('link number 1 sets "relationship", on which link number 2 depends', "cannot chain"):
        spec_with(link(), link({"relationship": "Wife"}, {"years": {"offset": 1}}))


def test_two_links_on_one_feature_must_exclude_each_other():
    with refused('links number 1 and 3 are ambiguous: both can set "relationship"'):
        spec_with(link(), link({"sex": "Male"}), link({"age": 20}))
    with refused("ambiguous"):
        spec_with(link({"age": [20, 23]}), link({"age": [23, 26]}))
    spec_with(link({"age": [20, 22], "sex": "Male"}), link({"age": [23, 26]}), link({"age": 21, "sex": "Female"}))
    spec_with(link(), link({"age": 20}, {"years": {"offset": 1}}))


def test_links_must_be_a_list():
    with refused("links must be a list"):
        Spec(FEATURES, links=7)
    with refused("links must be a list"):
        Spec.from_dict({**Spec(FEATURES).to_dict(), "link": {"when": {}}})


def test_too_many_links_are_refused_before_the_work():
    with refused("1,001 links", "at most 1,000"):
        spec_with(*[link()] * (MOST_LINKS + 1))


def test_data_is_encoded_as_without_links():
    spec, plain = family_spec(), Spec([SEX, RELATIONSHIP, AGE, YEARS])
    frame = pd.DataFrame({"sex": ["Male"], "relationship": ["Husband"], "age": [22], "years": [3]})
    assert np.array_equal(spec.encode(frame), plain.encode(frame))

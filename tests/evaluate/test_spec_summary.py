"""What a spec says in a report: who counts as similar, and what the classes are called."""

from fairmend.evaluate.spec_summary import class_names, describe_similarity
from fairmend.spec import Feature, Spec
from support.cli_case import small_network, small_people, small_spec
from support.link_cases import family_spec


def test_similar_people_differ_in_protected_features_and_within_tolerances():
    spec = Spec(
        [
            Feature("sex", "categorical", categories=("f", "m"), protected=True),
            Feature("hours", "integer", range=(1, 99), tolerance=2),
            Feature("income", "continuous", range=(0, 9)),
        ]
    )
    similarity = describe_similarity(spec, exact=False)
    assert (similarity.protected, similarity.tolerances) == (["sex"], {"hours": 2.0})
    assert not similarity.everything_looked_at


def test_two_classes_are_named_by_the_label():
    spec, net = small_spec(), small_network()
    assert class_names(spec, net, small_people()) == ["no", "yes"]
    assert class_names(spec, net, None) == ["not yes", "yes"]
    assert class_names(spec, net, small_people().assign(good=["yes", "no", "maybe", None] * 50)) == ["not yes", "yes"]


def test_classes_without_a_label_are_numbered():
    assert class_names(small_spec(), small_network(3), small_people()) == ["class 0", "class 1", "class 2"]
    assert class_names(Spec(small_spec().features), small_network(), None) == ["class 0", "class 1"]


def test_links_are_named_and_explained():
    similarity = describe_similarity(family_spec(), exact=True)
    assert similarity.linked == ["relationship", "years"]
    assert similarity.links[0] == "With sex Female: relationship Wife instead of Husband."

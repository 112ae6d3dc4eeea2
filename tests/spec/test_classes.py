"""Classes of similar people: compared with chains of similar people, and in words."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairmend.spec import Feature, Spec
from fairmend.spec import classes as classes_module
from fairmend.spec.classes import similarity_classes
from support.class_cases import components, computed, everyone, random_small_spec
from support.link_cases import HUSBAND, RELATIONSHIP, SEX, WIFE

INCOME = Feature("income", "integer", range=(0, 2000), bands={"width": 500})


def compare(spec, equal):
    """Check that nobody in a chain of similar people has another class, and that no chain is missing if equal."""
    X, values = everyone(spec)
    chains, classes = components(spec, X), computed(spec, similarity_classes(spec), values)
    pairs = {*zip(chains.tolist(), classes, strict=True)}
    assert len(pairs) == len({*chains.tolist()}), f"similar people have different classes: {spec.to_dict()}"
    if equal:
        assert len(pairs) == len({*classes}), f"a class holds people whom no chain connects: {spec.to_dict()}"


def test_one_linked_feature_has_exactly_the_classes_of_chains():
    for seed in range(150):
        compare(random_small_spec(np.random.default_rng(seed), linked=1), equal=True)


def test_of_two_values_every_move_leads_to_the_other():
    compare(random_small_spec(np.random.default_rng(187), linked=1), equal=True)


def test_several_linked_features_keep_chains_together():
    for seed in range(60):
        compare(random_small_spec(np.random.default_rng([1, seed]), linked=2), equal=False)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_classes_hold_chains(seed, linked):
    rng = np.random.default_rng(seed)
    compare(random_small_spec(rng, linked=max(1, linked)), equal=linked < 2)


def test_swapped_spouses_are_orbits_and_bands_count():
    swap = {"relationship": {"Husband": "Wife", "Wife": "Husband"}}
    links = [{"when": {"sex": sex}, "then": swap} for sex in ("Male", "Female")]
    classes = similarity_classes(Spec([SEX, RELATIONSHIP, INCOME], links=links))
    assert classes.free == ("sex",)
    assert classes.swallowed == ()
    assert classes.banded == {"income": (0, 500, 1000, 1500, 2000)}
    linked = classes.linked["relationship"]
    assert (linked.when, linked.cells) == (("sex",), ((((0, 0),), ((1, 1),)),))
    assert linked.members(linked.table[0, 0]) == [((0,), 0), ((1,), 2)]
    assert classes.words() == [
        "sex does not count (protected).",
        "income counts in bands of 500, from 0.",
        "Husband with sex Male and Wife with sex Female are one class.",
        "Wife with sex Male and Husband with sex Female are one class.",
    ]


def test_links_that_do_not_swap_merge_own_values():
    one, both = (similarity_classes(Spec([SEX, RELATIONSHIP], links=links)) for links in ([WIFE], [WIFE, HUSBAND]))
    assert one.words() == both.words()  # a wife who is male stays a wife, if no link names her
    classes = both
    linked = classes.linked["relationship"]
    assert linked.when == ()
    assert linked.table.tolist() == [0, 1, 0]
    assert classes.words()[-1] == "Husband and Wife are one class."


def test_an_offset_swallows_a_feature():
    years = Feature("years", "integer", range=(0, 6))
    link = {"when": {"sex": "Female"}, "then": {"years": {"offset": [-2, -1]}}}
    classes = similarity_classes(Spec([SEX, years], links=[link]))
    assert (classes.free, classes.swallowed, classes.linked) == (("sex", "years"), ("years",), {})
    assert classes.words()[-1] == "years does not count (links connect all values)."


def test_what_is_not_told_apart_is_swallowed(monkeypatch):
    pay = Feature("pay", "continuous", range=(0, 6))
    link = {"when": {"sex": "Female"}, "then": {"pay": {"offset": 1}}}
    assert similarity_classes(Spec([SEX, pay], links=[link])).swallowed == ("pay",)
    spec = Spec([SEX, RELATIONSHIP], links=[WIFE, HUSBAND])
    monkeypatch.setattr(classes_module, "MOST_ENTRIES", 5)
    assert similarity_classes(spec).swallowed == ("relationship",)


def test_the_ends_of_a_continuous_condition_belong_to_both_sides():
    """Neighbourhoods are closed: someone aged exactly 30 is similar to those to whom the link applies, and not."""
    age = Feature("age", "continuous", range=(20, 60), protected=True)
    links = [
        {"when": {"age": [20, 30]}, "then": {"relationship": {"Husband": "Wife"}}},
        {"when": {"age": [31, 60]}, "then": {"relationship": {"Wife": "Husband"}}},
    ]
    linked = similarity_classes(Spec([age, RELATIONSHIP], links=links)).linked["relationship"]
    assert (linked.when, linked.table.tolist()) == ((), [0, 1, 0])


def test_tolerances_chain_and_single_values_stay():
    near = Feature("near", "integer", range=(0, 9), tolerance=1)
    still = Feature("still", "integer", range=(0, 9), tolerance=0.5)
    classes = similarity_classes(Spec([SEX, near, still]))
    assert classes.free == ("sex", "near")
    assert classes.words() == [
        "sex does not count (protected).",
        "near does not count (a tolerance connects all values, step by step).",
    ]


def test_groups_and_uneven_bands_in_words():
    job = Feature("job", "categorical", categories=("a", "b", "c"), bands=[["c", "a"], ["b"]], names={"c": "cook"})
    pay = Feature("pay", "continuous", range=(0, 9), bands=[0, 2.5])
    classes = similarity_classes(Spec([SEX, job, pay]))
    assert classes.banded == {"job": ((0, 2), (1,)), "pay": (0.0, 2.5)}
    assert classes.words()[1:] == ["job counts in bands (a or cook; b).", "pay counts in 2 bands (from 0 and 2.5)."]

"""A draft is written as TOML with its notes as comments, and the file holds exactly its spec."""

from hypothesis import given
from hypothesis import strategies as st

from fairmend.spec import Feature, Label, Spec
from fairmend.spec.draft.draft import Draft, DraftFeature, require_columns
from fairmend.spec.toml import parse_toml
from support.spec_cases import AGE, GAIN, refused
from support.strategies_spec import specs, unhurried


def test_the_file_has_notes_and_reviews_as_comments():
    draft = Draft(
        (DraftFeature(AGE, ("a note",)), DraftFeature(GAIN, review=("is it scaled?",))),
        Label("y", "1"),
        ("a note on the label",),
        (("id", "looks like an id"),),
        ("encoding: guessed",),
    )
    text = draft.toml("The title")
    assert text.startswith("# The title\n")
    for line in (
        "# encoding: guessed",
        '# left out: "id": looks like an id',
        "# a note on the label",
        "# a note",
        "# REVIEW: is it scaled?",
        "scale = {mean = 0.05, std = 0.02}",
    ):
        assert line in text.splitlines()
    assert draft.to_review == ["encoding: guessed", 'feature "gain": is it scaled?']
    assert Spec.from_dict(parse_toml(text)) == draft.spec == Spec([AGE, GAIN], Label("y", "1"))


@unhurried
@given(specs(), st.text(max_size=20))
def test_whatever_the_notes_hold_the_file_is_the_spec(spec, note):
    features = tuple(DraftFeature(feature, (note,), (note,)) for feature in spec.features)
    text = Draft(features, spec.label, (note,), ((note, note),), (note,)).toml(note)
    assert Spec.from_dict(parse_toml(text)) == spec


def test_unknown_columns_are_refused_with_a_suggestion_or_a_list():
    assert require_columns(["b", "a", "b"], ["a", "b"], "protected") == ["b", "a"]
    with refused('protected: there is no column "rac"', 'did you mean "race"'):
        require_columns(["rac"], ["race", "sex"], "protected")
    with refused("The columns are c0, c1", "c19, …"):
        require_columns(["xyz"], [f"c{i}" for i in range(30)], "drop")


def test_a_draft_is_of_valid_features():
    with refused("no feature is protected"):
        _ = Draft((DraftFeature(Feature("x", "integer", range=(0, 1))),), None).spec

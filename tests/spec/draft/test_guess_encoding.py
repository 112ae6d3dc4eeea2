"""The encoding of categories follows from the number of columns that a model reads, if one does."""

import pytest

from fairmend.spec import Feature
from fairmend.spec.draft.draft import Draft, DraftFeature
from fairmend.spec.draft.guess_encoding import guess_encodings

SEX = Feature("sex", "categorical", categories=("f", "m"), protected=True)
RACE = Feature("race", "categorical", categories=("a", "b", "c"))
AGE = Feature("age", "integer", range=(0, 9))


def encodings(draft):
    return [(f.encoding, f.dropped) for f in draft.spec.features if f.categories]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (5, [("ordinal", None), ("one-hot", None)]),
        (6, [("one-hot", None), ("one-hot", None)]),
        (3, [("ordinal", None), ("ordinal", None)]),
        (4, [("ordinal", None), ("one-hot", "a")]),
    ],
)
def test_the_width_of_the_model_determines_the_encoding(inputs, expected):
    draft = guess_encodings(Draft((DraftFeature(SEX), DraftFeature(RACE), DraftFeature(AGE)), None), inputs)
    assert draft.spec.width == inputs
    assert encodings(draft) == expected
    assert "the only common encoding" in draft.review[0]


def test_two_encodings_of_the_same_width_are_a_guess():
    constant = Feature("country", "categorical", categories=("X",))
    race = Feature("race", "categorical", categories=("a", "b", "c"), protected=True)
    draft = guess_encodings(Draft((DraftFeature(constant), DraftFeature(race)), None), 4)
    assert draft.review == (
        "encoding: two categories as ordinal codes, more as one-hot (guessed). All categories as one-hot would also "
        "give the model's 4 columns.",
    )


def test_two_encodings_with_the_same_features_are_one():
    two = Feature("married", "categorical", categories=("no", "yes"))
    draft = guess_encodings(Draft((DraftFeature(SEX), DraftFeature(two)), None), 2)
    assert "the only common encoding" in draft.review[0]


def test_without_a_model_the_encoding_is_a_guess():
    assert guess_encodings(Draft((DraftFeature(SEX), DraftFeature(RACE)), None), None).review == (
        "encoding: two categories as ordinal codes, more as one-hot (guessed). "
        "Check that the model was trained with it.",
    )


def test_if_no_encoding_fits_the_widths_are_listed():
    draft = guess_encodings(Draft((DraftFeature(SEX), DraftFeature(RACE)), None, left_out=(("id", "an id"),)), 30)
    (review,) = draft.review
    assert review.startswith("DOES NOT FIT THE MODEL: the model reads 30 columns, but the data gives 4 with two")
    assert '"id" is left out' in review
    assert draft.spec.width == 4


def test_without_categories_there_is_nothing_to_review():
    numbers = Draft((DraftFeature(Feature("age", "integer", range=(0, 9), protected=True)),), None)
    assert guess_encodings(numbers, 1).review == ()
    assert guess_encodings(numbers, None).review == ()

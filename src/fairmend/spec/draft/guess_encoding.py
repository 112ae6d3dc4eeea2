"""Guess how a model reads categories and missing values, by the number of columns that the model reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from fairmend.base.text import listed
from fairmend.spec.draft.draft import Draft, DraftFeature
from fairmend.spec.draft.steps import MISSING
from fairmend.spec.features import Feature

_MOST_NAMED = 4  # other encodings that would fit


@dataclass(frozen=True)
class _Encodings:
    """How features with two categories and with more are encoded; "drop" is one-hot without the first category.

    ``filled`` fills in the most frequent category for a missing one, which otherwise is a category of its own.
    ``indicators`` adds a column of 0 and 1 for each number with missing values.
    """

    two: str
    more: str
    filled: bool = False
    indicators: bool = False

    def __str__(self) -> str:
        names = {"one-hot": "one-hot", "ordinal": "ordinal codes", "drop": "one-hot without the first category"}
        words = f"all categories as {names[self.more]}"
        if self.two != self.more:
            words = f"two categories as {names[self.two]}, more as {names[self.more]}"
        words += ", missing categories filled in" if self.filled else ""
        return words + (", columns that mark missing numbers" if self.indicators else "")


_DEFAULT = _Encodings("ordinal", "one-hot")
_CHOICES = (("ordinal", "one-hot"), ("one-hot", "one-hot"), ("ordinal", "ordinal"), ("ordinal", "drop"))


def guess_encodings(draft: Draft, inputs: int | None) -> Draft:
    """Return the draft with an encoding for its categories: one that gives as many columns as the model reads, if any.

    Without ``inputs``, the number of columns that the model reads, the encoding is a guess. With missing values it is
    one too: what is filled in for a number does not change the number of columns.
    """
    if inputs is None:
        categorical = any(len(drafted.feature.categories or ()) > 1 for drafted in draft.features)
        review = (f"encoding: {_DEFAULT} (guessed). Check that the model was trained with it.",) if categorical else ()
        return replace(_encode(draft, _DEFAULT), review=review)
    options = {choice: _encode(draft, choice) for choice in _choices(draft)}
    fitting: dict[tuple[Feature, ...], _Encodings] = {}
    for choice, option in options.items():
        if option.spec.width == inputs:
            fitting.setdefault(tuple(drafted.feature for drafted in option.features), choice)
    if not fitting:
        return replace(_encode(draft, _DEFAULT), review=(_does_not_fit(draft, options, inputs),))
    choice, *others = fitting.values()
    option = options[choice]
    filled = [drafted.feature.name for drafted in option.features if drafted.feature.missing is not None]
    filled = [name for name in filled if name in _numbers_with_gaps(draft)]
    if others or filled:
        return replace(option, review=(_several(choice, others, filled, inputs),), several=True)
    categorical = any(drafted.feature.categories for drafted in option.features)
    reason = f"encoding: {choice}, the only common encoding that gives the {inputs} columns that the model reads."
    return replace(option, review=(reason,) if categorical else ())


def indicator_of(name: str, protected: bool = False) -> Feature:
    """Return the feature that marks the missing values of a column."""
    return Feature(f"{name} is missing", "integer", range=(0, 1), indicates=name, protected=protected)


def _choices(draft: Draft) -> list[_Encodings]:
    """Return the common encodings, without those that differ only in missing values which the data does not have."""
    categories = any(drafted.feature.missing == MISSING for drafted in draft.features)
    numbers = bool(_numbers_with_gaps(draft))
    kinds = product([False, True] if numbers else [False], [False, True] if categories else [False], _CHOICES)
    return [_Encodings(two, more, filled, indicators) for indicators, filled, (two, more) in kinds]


def _numbers_with_gaps(draft: Draft) -> list[str]:
    features = [drafted.feature for drafted in draft.features]
    return [feature.name for feature in features if feature.missing is not None and not feature.categories]


def _several(choice: _Encodings, others: list[_Encodings], filled: list[str], inputs: int) -> str:
    """Return why the encoding is not the only one that fits."""
    reason = f"encoding: {choice} (guessed)."
    if others:
        names = " and ".join(str(other) for other in others[:_MOST_NAMED])
        names += f" and {len(others) - _MOST_NAMED} others" if len(others) > _MOST_NAMED else ""
        reason += f" {names[0].upper()}{names[1:]} would also give the model's {inputs} columns."
    if filled:
        reason += f" What the model's pipeline fills in for a missing {listed(filled, 'or')} is a guess too."
    return reason


def _does_not_fit(draft: Draft, options: dict[_Encodings, Draft], inputs: int) -> str:
    widths = ", ".join(f"{option.spec.width} with {choice}" for choice, option in options.items())
    names = ", ".join(f'"{name}"' for name, _ in draft.left_out)
    hint = f"; {names} {'is' if len(draft.left_out) == 1 else 'are'} left out" if names else ""
    return (
        f"DOES NOT FIT THE MODEL: the model reads {inputs} columns, but the data gives {widths}{hint}. Drop the "
        "columns that the model does not read (--drop), and give each feature the encoding it was trained with."
    )


def _encode(draft: Draft, choice: _Encodings) -> Draft:
    features = [_encode_feature(drafted, choice) for drafted in draft.features]
    if choice.indicators:
        note = "marks missing values: 1 where the column is missing, 0 elsewhere"
        features += [DraftFeature(indicator_of(name), (note,)) for name in _numbers_with_gaps(draft)]
    return replace(draft, features=tuple(features))


def _encode_feature(drafted: DraftFeature, choice: _Encodings) -> DraftFeature:
    feature = drafted.feature
    if feature.categories is None:
        return drafted
    if choice.filled and feature.missing == MISSING and len(feature.categories) > (2 if feature.protected else 1):
        known = tuple(category for category in feature.categories if category != MISSING)
        feature = replace(feature, categories=known, missing=drafted.commonest)
        review = (
            f'missing values become "{drafted.commonest}", the most frequent category. Check that the model does so.'
        )
        drafted = replace(drafted, review=(*drafted.review[:-1], review))
    assert feature.categories is not None
    encoding = choice.two if len(feature.categories) <= 2 else choice.more
    if encoding == "ordinal":
        note = "encoding: ordinal, the number of the category in this order, from 0"
        return replace(drafted, feature=feature, notes=(*drafted.notes, note))
    note = "encoding: one-hot, one column for each category in this order"
    dropped = feature.categories[0] if encoding == "drop" else None
    feature = replace(feature, encoding="one-hot", dropped=dropped)
    return replace(drafted, feature=feature, notes=(*drafted.notes, note))

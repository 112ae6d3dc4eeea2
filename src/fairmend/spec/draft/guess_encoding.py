"""Guess how a model reads categories: one-hot or ordinal, by the number of columns that the model reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairmend.spec.draft.draft import Draft, DraftFeature

__all__ = ["guess_encodings"]


@dataclass(frozen=True)
class _Encodings:
    """The encodings of features with two categories and with more; "drop" is one-hot without the first category."""

    two: str
    more: str

    def __str__(self) -> str:
        names = {"one-hot": "one-hot", "ordinal": "ordinal codes", "drop": "one-hot without the first category"}
        if self.two == self.more:
            return f"all categories as {names[self.more]}"
        return f"two categories as {names[self.two]}, more as {names[self.more]}"


_DEFAULT = _Encodings("ordinal", "one-hot")
_CHOICES = (
    _DEFAULT,
    _Encodings("one-hot", "one-hot"),
    _Encodings("ordinal", "ordinal"),
    _Encodings("ordinal", "drop"),
)


def guess_encodings(draft: Draft, inputs: int | None) -> Draft:
    """Return the draft with an encoding for its categories: one that gives as many columns as the model reads, if any.

    Without ``inputs``, the number of columns that the model reads, the encoding is a guess.
    """
    if inputs is None:
        categorical = any(len(drafted.feature.categories or ()) > 1 for drafted in draft.features)
        review = (f"encoding: {_DEFAULT} (guessed). Check that the model was trained with it.",) if categorical else ()
        return replace(_encode(draft, _DEFAULT), review=review)
    options = {choice: _encode(draft, choice) for choice in _CHOICES}
    fitting = {choice: option for choice, option in options.items() if option.spec.width == inputs}
    different = {tuple(drafted.feature for drafted in option.features) for option in fitting.values()}
    if len(different) == 1:
        choice, option = next(iter(fitting.items()))
        categorical = any(drafted.feature.categories for drafted in option.features)
        reason = f"encoding: {choice}, the only common encoding that gives the {inputs} columns that the model reads."
        return replace(option, review=(reason,) if categorical else ())
    if fitting:
        choice, option = next(iter(fitting.items()))
        others = " and ".join(str(other) for other in list(fitting)[1:]).capitalize()
        reason = f"encoding: {choice} (guessed). {others} would also give the model's {inputs} columns."
        return replace(option, review=(reason,))
    widths = ", ".join(f"{option.spec.width} with {choice}" for choice, option in options.items())
    names = ", ".join(f'"{name}"' for name, _ in draft.left_out)
    hint = f"; {names} {'is' if len(draft.left_out) == 1 else 'are'} left out" if names else ""
    reason = (
        f"DOES NOT FIT THE MODEL: the model reads {inputs} columns, but the data gives {widths}{hint}. Drop the "
        "columns that the model does not read (--drop), and give each feature the encoding it was trained with."
    )
    return replace(_encode(draft, _DEFAULT), review=(reason,))


def _encode(draft: Draft, choice: _Encodings) -> Draft:
    return replace(draft, features=tuple(_encode_feature(drafted, choice) for drafted in draft.features))


def _encode_feature(drafted: DraftFeature, choice: _Encodings) -> DraftFeature:
    categories = drafted.feature.categories
    if categories is None:
        return drafted
    encoding = choice.two if len(categories) <= 2 else choice.more
    if encoding == "ordinal":
        note = "encoding: ordinal, the number of the category in this order, from 0"
        return replace(drafted, notes=(*drafted.notes, note))
    note = "encoding: one-hot, one column for each category in this order"
    dropped = categories[0] if encoding == "drop" else None
    feature = replace(drafted.feature, encoding="one-hot", dropped=dropped)
    return replace(drafted, feature=feature, notes=(*drafted.notes, note))

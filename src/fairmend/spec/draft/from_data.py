"""Draft a spec from data: guess a feature for each column, the label and the claim, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, first_repeated, suggest
from fairmend.spec.claim import Claim
from fairmend.spec.draft.draft import Draft, DraftFeature, count_rows, require_columns
from fairmend.spec.draft.guess import grouped_feature, guess_encodings, guess_feature, one_hot_groups, reason_for_id
from fairmend.spec.features import MOST_FEATURES
from fairmend.spec.label import Label

if TYPE_CHECKING:
    import pandas as pd


# Compared without regard to case. The guide docs/guides/pipelines.md lists them: change both.
_YES = (
    "1 yes y true t good ok pass passed positive approved accepted granted hired paid >50k "
    "ja j oui o si sí s sim tak ano evet kyllä igen da да ναι نعم हाँ はい 是 예 "
    "wahr vrai verdadero vero gut bon bueno buono bewilligt genehmigt accepté aprobado approvato"
)
_NO = (
    "0 -1 no n false f bad fail failed negative rejected denied refused declined <=50k "
    "nein non nee nej nei não nao nie ne hayır hayir ei nem nu нет όχι لا नहीं いいえ 否 아니요 "
    "falsch faux falso schlecht mauvais malo cattivo abgelehnt refusé rechazado rifiutato"
)
_POSITIVE, _NEGATIVE = frozenset(_YES.split()), frozenset(_NO.split())
_MOST_VALUES = 8  # shown in a note or an error message
_MOST_CLASSES = 20  # more distinct numbers than this are no classes
NOT_IN_ORDER = "not in --order"
_SHARE = 0.01  # of the range of a number to predict: a first delta, for the user to decide


_SCALES = {
    "none": "scale: numbers are not scaled. If the model reads scaled numbers, add scale = {mean = ..., std = ...} or "
    "{min = ..., max = ...}, or run spec init with --scale standard or --scale min-max.",
    "standard": "scale: the mean and standard deviation of this data. Check that the model was trained with them.",
    "min-max": "scale: the lowest and highest value of this data. Check that the model was trained with them.",
}


def draft_from_data(
    data: pd.DataFrame,
    protected: Iterable[str],
    label: str | None = None,
    positive: Any = None,
    *,
    drop: Iterable[str] = (),
    inputs: int | None = None,
    scale: str = "none",
    scales: Mapping[str, Mapping[str, float]] | None = None,
    categorical: Iterable[str] = (),
    integer: Iterable[str] = (),
    order: Iterable[str] = (),
    score: str | None = None,
    leave_out: bool = True,
    delta: float | None = None,
    on: str | None = None,
    outputs: int | None = None,
    filled: Mapping[str, float] | None = None,
) -> Draft:
    """Return a draft of a spec that encodes this data.

    ``drop`` names columns that the model does not read. ``inputs`` is the number of columns that it reads, which may
    determine how categories are encoded. ``scale`` is "standard" for numbers with mean 0 and variance 1 in the data,
    "min-max" for numbers from 0 to 1, "none" for unscaled numbers; ``scales`` has the scale of each number by name,
    and others are then not scaled. ``categorical`` and ``integer`` name columns of these kinds. ``order`` names the
    columns that the model reads, in its order; the others are left out. ``score`` names a column with the model's own
    scores. Columns that look like ids are left out, unless ``leave_out`` is False or ``order`` names them. ``outputs``
    is the number of outputs of the model, and ``filled`` has what it fills in for missing numbers by name. ``delta``
    and ``on`` make the claim one about scores; `guess_claim` has their defaults.
    """
    if scale not in _SCALES:
        raise FairmendError(f"scale must be one of {', '.join(_SCALES)}, got {scale!r}")
    columns = [str(name) for name in data.columns]
    twice = first_repeated(columns)
    if twice is not None:
        raise FairmendError(f'the data has two columns "{twice}". Rename or remove one.')
    dropped = dict.fromkeys(require_columns(drop, columns, "drop"))
    listed = require_columns(order, columns, "order")
    kinds = dict.fromkeys(require_columns(integer, columns, "integer"), "integer")
    codes = require_columns(categorical, columns, "categorical")
    for name in codes:
        if name in kinds:
            raise FairmendError(f'"{name}" cannot be both categorical and integer. Name it once.')
    kinds |= dict.fromkeys(codes, "categorical")
    asked = [protected] if isinstance(protected, str) else list(protected)
    groups = _groups(data, [name for name in listed or columns if name not in (*dropped, *kinds, label, score)])
    wanted = require_columns(asked, [*columns, *groups], "protected")
    _require_whole_groups(wanted, groups)
    if scales is not None:
        require_columns(scales, columns, "scaler")
    if score is not None:
        require_columns([score], columns, "score column")
    if len(columns) - len(dropped) > MOST_FEATURES:
        raise FairmendError(
            f"the data has {len(columns):,} columns, and a spec describes at most {MOST_FEATURES:,} features. Remove "
            "the columns that the model does not read, from the file or with --drop."
        )
    found, label_notes = (None, ()) if label is None else guess_label(data, label, positive, on=on, outputs=outputs)
    claim, claim_review = guess_claim(found, data, delta, on)
    if not wanted:
        raise FairmendError("no protected column is given. Name at least one, such as gender or age.")
    if score is not None:
        if found is None:
            raise FairmendError("a column of scores is written into [label]. Name the label too (--label).")
        found = replace(found, score=score)
    outcomes = [name for name in (label, score) if name is not None]
    for name in (*wanted, *listed):
        if name in dropped or name in outcomes:
            what = "be protected" if name in wanted else "be read by the model"
            why = "dropped" if name in dropped else "the label" if name == label else "the score"
            raise FairmendError(f'"{name}" cannot {what}: it is {why}')
    if listed and not set(wanted) <= {*listed, *groups}:
        absent = next(name for name in wanted if name not in (*listed, *groups))
        raise FairmendError(f'"{absent}" is protected but not in --order, so the model does not read it. Add it.')
    left_out = [(name, "dropped, as requested") for name in dropped if name not in outcomes]
    left_out += [(name, NOT_IN_ORDER) for name in columns if listed and name not in (*listed, *dropped, *outcomes)]
    features: list[DraftFeature] = []
    owner = {column: group for group, members in groups.items() for column in members}
    for name in listed or [name for name in columns if name not in dropped and name not in outcomes]:
        if name in owner:
            group = owner[name]
            if groups[group][0] == name:
                features.append(grouped_feature(group, groups[group], group in wanted))
            continue
        column = data.iloc[:, columns.index(name)]
        if column.isna().all():
            raise FairmendError(f'column "{name}" has no values. Fill it in, or drop it (--drop).')
        keep = not leave_out or name in wanted or name in listed or name in kinds
        reason = None if keep else reason_for_id(name, column)
        if reason is not None:
            left_out.append((name, reason))
        else:
            own = scale if scales is None else scales.get(name, "none")
            guessed = guess_feature(name, column, name in wanted, own, kinds.get(name))
            features.append(_with_filled(guessed, (filled or {}).get(name)))
    drafted = Draft(tuple(features), found, label_notes, tuple(left_out), claim=claim)
    draft = guess_encodings(drafted, inputs)
    draft = replace(draft, review=(*claim_review, *draft.review))
    if scales is not None or all(drafted.feature.categories for drafted in draft.features):
        return draft
    return replace(draft, review=(*draft.review, _SCALES[scale]))


def _with_filled(guessed: DraftFeature, value: float | None) -> DraftFeature:
    """Return a feature whose missing numbers become what the model fills in, if that is known."""
    feature = guessed.feature
    if value is None or feature.missing is None or feature.range is None:
        return guessed
    kind = feature.kind if value.is_integer() else "continuous"
    ends = min(value, feature.range[0]), max(value, feature.range[1])
    note = f"missing: the model's pipeline fills in {value:.10g}"
    return DraftFeature(replace(feature, kind=kind, range=ends, missing=value), (*guessed.notes, note))


def _groups(data: pd.DataFrame, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the groups of columns that are one-hot already."""
    return one_hot_groups(data.set_axis([str(name) for name in data.columns], axis=1), names)


def _require_whole_groups(wanted: Sequence[str], groups: Mapping[str, Sequence[str]]) -> None:
    """Raise an error for a protected column that is one of several one-hot ones: nobody differs in it alone."""
    for name in wanted:
        for group, members in groups.items():
            if name in members:
                shown = ", ".join(members[:_MOST_VALUES]) + (", …" if len(members) > _MOST_VALUES else "")
                raise FairmendError(
                    f'"{name}" cannot be protected alone: it is one of the one-hot columns {shown}, of which one is 1 '
                    f"in every row. Protect all of them by their common name: --protected {group}"
                )


def guess_label(
    data: pd.DataFrame,
    column: str,
    positive: Any = None,
    *,
    on: str | None = None,
    outputs: int | None = None,
    classes: Sequence[Any] | None = None,
) -> tuple[Label, tuple[str, ...]]:
    """Return the label in a column, with notes; without ``positive``, the positive one of two values is guessed.

    Many numbers, or a claim ``on`` the output of the network, make it a number to predict, without a positive value.
    More than two other values are classes. ``outputs`` is the number of outputs of the network, and ``classes`` are the
    classes that it was trained with, in their order, if they are known.
    """
    require_columns([column], list(data.columns), "label")
    values = data[column].astype(object)
    gaps = int(values.isna().sum())
    found = sorted({as_text(value) for value in values.dropna().unique()})
    if not found:
        raise FairmendError(f'the label "{column}" has no values. Choose another column.')
    counts = values.dropna().map(as_text).value_counts()
    shown = ", ".join(f'"{name}" ({count_rows(counts[name])})' for name in found[:_MOST_VALUES])
    shown += f", … ({len(found)} values)" if len(found) > _MOST_VALUES else ""
    notes = [f"{len(found)} values: {shown}" + (f"; {count_rows(gaps)} without a value" if gaps else "")]
    trained = _class_one(classes, found)
    if positive is not None:
        wanted = as_text(positive)
        if wanted not in found:
            raise FairmendError(
                f'the label "{column}" is never "{wanted}"{suggest(wanted, found)}. Its values are {shown}.'
            )
        if trained is not None and wanted != trained:
            raise FairmendError(
                f'the fitted model calls "{trained}" class 1, so "{wanted}" cannot be the positive value of the label '
                f'"{column}". Leave out --positive, or train the model with "{wanted}" as its second class.'
            )
        return Label(column, wanted), tuple(notes)
    if on == "output" or (on is None and _is_number_to_predict(values.dropna(), len(found))):
        note = f"a number to predict: {len(found)} values, from {_extent(values)}"
        return Label(column), (note + (f"; {count_rows(gaps)} without a value" if gaps else ""),)
    if len(found) < 2:
        raise FairmendError(f'the label "{column}" is "{found[0]}" in every row. Choose another column.')
    if len(found) > 2 or (outputs or 0) > 2:
        return _guess_classes(values.dropna(), column, shown, notes, outputs, classes)
    if trained is not None:
        return Label(column, trained), (*notes, "positive: what the fitted model calls class 1.")
    chosen = _positive_of(found)
    if chosen is None:
        raise FairmendError(
            f'the label "{column}" is {shown}, and nothing says which is positive. Name the one that the model '
            "calls class 1 with --positive."
        )
    notes.append("positive: guessed from the words. Check that the model calls it class 1.")
    return Label(column, chosen), tuple(notes)


def _class_one(classes: Sequence[Any] | None, values: Sequence[str]) -> str | None:
    """Return the value of the label that a model with two classes calls class 1; None if its classes are others."""
    known = [] if classes is None else [as_text(value) for value in classes]
    return known[1] if len(known) == 2 and set(values) <= set(known) else None


def _guess_classes(
    values: pd.Series[Any],
    column: str,
    shown: str,
    notes: list[str],
    outputs: int | None,
    classes: Sequence[Any] | None,
) -> tuple[Label, tuple[str, ...]]:
    """Return a label with more than two classes, in the order in which frameworks number them: sorted."""
    ordered = _sorted_values(values) if classes is None else [as_text(value) for value in classes]
    if outputs is not None and outputs <= 2:
        raise FairmendError(
            f'the label "{column}" has {len(ordered)} values: {shown}. The model tells two classes apart; name the '
            "positive one with --positive."
        )
    if len(ordered) > _MOST_CLASSES and outputs is None and classes is None:
        raise FairmendError(
            f'the label "{column}" has {len(ordered)} values: {shown}. Name the positive one with --positive, or pass '
            "--on output if it is a number to predict."
        )
    if outputs is not None and outputs != len(ordered):
        raise FairmendError(
            f'the label "{column}" has {len(ordered)} values: {shown}. The model has {outputs} outputs. Name the '
            "classes of all outputs in [label] of a spec, or draft it from data that has them all."
        )
    order = (
        "in sorted order, as scikit-learn and most frameworks number them. Check that the outputs of the model have "
        "this order"
        if classes is None
        else "in the order of the fitted model"
    )
    return Label(column, classes=tuple(ordered)), (*notes, f"classes: {order}.")


def _sorted_values(values: pd.Series[Any]) -> list[str]:
    """Return the distinct values as text: numbers by size, other values as text."""
    import pandas as pd

    distinct = values.drop_duplicates()
    numbers = pd.to_numeric(distinct, errors="coerce")
    ordered = distinct.iloc[numbers.argsort(kind="stable")] if numbers.notna().all() else distinct
    texts = list(dict.fromkeys(as_text(value) for value in ordered))
    return texts if numbers.notna().all() else sorted(texts)


def _positive_of(pair: list[str]) -> str | None:
    """Return the positive one of two values: the word for yes, or the one beside the word for no.

    One letter or digit says something only beside its opposite: y and n, 0 and 1, but not s and m, or 1 and 2.
    """
    for value, other in (pair, pair[::-1]):
        yes, no = value.casefold() in _POSITIVE, other.casefold() in _NEGATIVE
        if (yes and no) or (yes and not _is_short(value) and other.casefold() not in _POSITIVE):
            return value
        if no and not _is_short(other) and value.casefold() not in _NEGATIVE:
            return value
    return None


def _is_short(value: str) -> bool:
    return len(value) == 1 and value.isascii()


def _is_number_to_predict(values: pd.Series[Any], distinct: int) -> bool:
    """Return whether these are too many numbers, or numbers of the wrong kind, for classes."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce")
    if numbers.isna().any() or distinct <= 2:
        return False
    return distinct > _MOST_CLASSES or bool((numbers != numbers.round()).any())


def _extent(values: pd.Series[Any]) -> str:
    """Return the lowest and the highest of the numbers among these values."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce")
    return f"{numbers.min():.10g} to {numbers.max():.10g}"


def guess_claim(
    label: Label | None, data: pd.DataFrame | None, delta: float | None = None, on: str | None = None
) -> tuple[Claim, tuple[str, ...]]:
    """Return the claim with these options, and what the user has to decide about it.

    A number to predict is compared by the output of the network, classes with a ``delta`` by their probability.
    """
    number = on == "output" or (label is not None and label.is_number)
    if delta is not None:
        return Claim("score", delta, on or ("output" if number else "probability")), ()
    if on is not None and not number:
        raise FairmendError(f'a claim on "{on}" needs the largest difference of the scores. Name it with --delta.')
    if not number:
        return Claim(), ()
    if label is None or data is None:
        raise FairmendError("a claim about the output needs the largest difference. Name it with --delta.")
    import pandas as pd

    values = pd.to_numeric(data[label.column], errors="coerce").dropna()
    extent = float(values.max() - values.min()) if len(values) else 0.0
    if not extent > 0:
        raise FairmendError(f'the label "{label.column}" has no two numbers to predict. Choose another column.')
    review = (
        f"claim: delta is {_SHARE:.0%} of the range of {label.column} in this data. Decide how far predictions for "
        "similar people may differ.",
    )
    return Claim("score", float(f"{_SHARE * extent:.2g}"), on or "output"), review


def label_from_options(
    column: str | None,
    positive: object,
    data: pd.DataFrame | None,
    on: str | None = None,
    *,
    outputs: int | None = None,
    classes: Sequence[Any] | None = None,
) -> Label | None:
    """Return the label with this column and positive value; with data, a missing positive value is guessed.

    ``outputs`` and ``classes`` are those of the model, if they are known.
    """
    if column is None:
        return None
    if data is not None:
        return guess_label(data, column, positive, on=on, outputs=outputs, classes=classes)[0]
    if positive is None and on != "output" and classes is not None and len(classes) >= 2:
        known = tuple(as_text(value) for value in classes)
        return Label(column, known[1]) if len(known) == 2 else Label(column, classes=known)
    if on == "output" and positive is None:
        return Label(column)
    return Label(column, "1" if positive is None else str(positive))

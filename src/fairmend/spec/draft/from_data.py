"""Draft a spec from data: guess a feature for each column and an encoding for the categories, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairmend.base.errors import FairmendError
from fairmend.spec.draft.draft import Draft, DraftFeature, require_columns
from fairmend.spec.draft.guess_encoding import guess_encodings
from fairmend.spec.draft.guess_feature import guess_feature, reason_for_id
from fairmend.spec.draft.labels import guess_claim, guess_label
from fairmend.spec.validation import MOST_FEATURES, first_repeated

if TYPE_CHECKING:
    import pandas as pd


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
) -> Draft:
    """Return a draft of a spec that encodes this data.

    ``drop`` names columns that the model does not read. ``inputs`` is the number of columns that it reads, which may
    determine how categories are encoded. ``scale`` is "standard" for numbers with mean 0 and variance 1 in the data,
    "min-max" for numbers from 0 to 1, "none" for unscaled numbers; ``scales`` has the scale of each number by name,
    and others are then not scaled. ``categorical`` and ``integer`` name columns of these kinds. ``order`` names the
    columns that the model reads, in its order; the others are left out. ``score`` names a column with the model's own
    scores. Columns that look like ids are left out, unless ``leave_out`` is False or ``order`` names them. ``outputs``
    is the number of outputs of the model. ``delta`` and ``on`` make the claim one about scores; `guess_claim` has their
    defaults.
    """
    if scale not in _SCALES:
        raise FairmendError(f"scale must be one of {', '.join(_SCALES)}, got {scale!r}")
    columns = [str(name) for name in data.columns]
    twice = first_repeated(columns)
    if twice is not None:
        raise FairmendError(f'the data has two columns "{twice}". Rename or remove one.')
    wanted = require_columns(protected, columns, "protected")
    dropped = dict.fromkeys(require_columns(drop, columns, "drop"))
    listed = require_columns(order, columns, "order")
    kinds = dict.fromkeys(require_columns(integer, columns, "integer"), "integer")
    codes = require_columns(categorical, columns, "categorical")
    for name in codes:
        if name in kinds:
            raise FairmendError(f'"{name}" cannot be both categorical and integer. Name it once.')
    kinds |= dict.fromkeys(codes, "categorical")
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
    if listed and not set(wanted) <= set(listed):
        absent = next(name for name in wanted if name not in listed)
        raise FairmendError(f'"{absent}" is protected but not in --order, so the model does not read it. Add it.')
    left_out = [(name, "dropped, as requested") for name in dropped if name not in outcomes]
    left_out += [(name, "not in --order") for name in columns if listed and name not in (*listed, *dropped, *outcomes)]
    features: list[DraftFeature] = []
    for name in listed or [name for name in columns if name not in dropped and name not in outcomes]:
        column = data.iloc[:, columns.index(name)]
        if column.isna().all():
            raise FairmendError(f'column "{name}" has no values. Fill it in, or drop it (--drop).')
        keep = not leave_out or name in wanted or name in listed or name in kinds
        reason = None if keep else reason_for_id(name, column)
        if reason is not None:
            left_out.append((name, reason))
        else:
            own = scale if scales is None else scales.get(name, "none")
            features.append(guess_feature(name, column, name in wanted, own, kinds.get(name)))
    drafted = Draft(tuple(features), found, label_notes, tuple(left_out), claim=claim)
    draft = guess_encodings(drafted, inputs)
    draft = replace(draft, review=(*claim_review, *draft.review))
    if scales is not None or all(drafted.feature.categories for drafted in draft.features):
        return draft
    return replace(draft, review=(*draft.review, _SCALES[scale]))

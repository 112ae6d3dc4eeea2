"""A draft with the encoding that reproduces the scores of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.base.text import count
from fairmend.evaluate.encoding_search.columns import columns_of
from fairmend.evaluate.encoding_search.search import FoundEncoding, search_encoding
from fairmend.evaluate.score_match import ScoreMatch
from fairmend.network import Network
from fairmend.spec.draft.draft import Draft, DraftFeature

_MOST_OTHERS = 5
_RANGE = "range: the lowest and highest value in the data; widen it to all possible values"


def draft_from_scores(
    draft: Draft,
    frame: pd.DataFrame,
    net: Network,
    given: Floats,
    *,
    scales: Mapping[str, Mapping[str, float]] | None = None,
    codes: bool = True,
    fixed_order: bool = False,
    first_row: int = 0,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[Draft, ScoreMatch]:
    """Return the draft with the encoding and order that reproduce the given scores; raise an error if none is found.

    ``codes`` says whether whole numbers may be codes of categories; with ``fixed_order``, the order is known. Error
    messages count rows from ``first_row``.
    """
    ids = [name for name, reason in draft.left_out if "look like ids" in reason and not fixed_order]
    columns = columns_of(draft, frame, scales=scales, codes=codes, optional=ids)
    found = search_encoding(
        columns, frame, net, given, regression=draft.claim.on == "output", fixed_order=fixed_order, progress=progress
    )
    if not found.match.verified:
        match = replace(found.match, differing=found.match.differing + first_row)
        raise FairmendError(
            f"none of {count(found.tried)} encodings reproduces the scores. The nearest, {_shown(found)}, is "
            f"{match}. Check that this model gave the scores for these rows, in this order. Leave out the columns that "
            "the model does not read with --drop; name --categorical, --order or --scaler; or pass the matrix that the "
            "model read with --encoded."
        )
    before = {drafted.feature.name: drafted for drafted in draft.features}
    features = []
    for reading in found.state:
        notes = before[reading.feature.name].notes[:1] if reading.feature.name in before else ()
        notes += () if reading.feature.categories or reading.feature.indicates else (_RANGE,)
        features.append(DraftFeature(reading.feature, (*notes, f"read as: {reading.words}; verified with scores")))
    used = {drafted.feature.name for drafted in features}
    review = [line for line in draft.review if line.startswith("claim")]
    if found.others:
        more = f" and {len(found.others) - _MOST_OTHERS} others" if len(found.others) > _MOST_OTHERS else ""
        review.append(
            f"These rows do not tell this encoding from others that reproduce the scores as well: "
            f"{'; '.join(found.others[:_MOST_OTHERS])}{more}. Give the scores of more rows."
        )
    left_out = tuple((name, reason) for name, reason in draft.left_out if name not in used)
    made = replace(draft, features=tuple(features), review=tuple(review), left_out=left_out, several=bool(found.others))
    return made, found.match


def _shown(found: FoundEncoding) -> str:
    return ", ".join(f"{reading.feature.name} ({reading.words})" for reading in found.state)

"""The table of pairs: people and their counterfactuals with another prediction, in the user's own values."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmend.auditing.result import user_values
from fairmend.base.text import plain_value, short
from fairmend.evaluate.document import NearestPair, PairTable
from fairmend.evaluate.nearest_counterfactuals import NearestCounterfactuals
from fairmend.evaluate.row_numbers import RowNumbers
from fairmend.network import Network
from fairmend.network.scores import ScoredRows
from fairmend.spec import Spec

_MOST_PAIRS, _MOST_COLUMNS = 1_000, 16


def tabulate_pairs(
    found: NearestCounterfactuals,
    spec: Spec,
    before: Network,
    after: Network | None = None,
    *,
    total: int,
    exact: bool,
    numbers: RowNumbers,
) -> PairTable:
    """Return the pairs with the largest differences in score; `total` people are treated unequally."""
    chosen = found.take(np.argsort(-found.gap, kind="stable")[:_MOST_PAIRS])
    varying = {f.name for f in spec.varying}
    features = sorted(spec.features, key=lambda f: (f.name not in varying, not f.protected))
    names = [f.name for f in features[:_MOST_COLUMNS]]
    rows: list[NearestPair] = []
    if len(chosen.rows):
        mine, theirs = (_named(spec, user_values(spec, side)) for side in (chosen.X, chosen.other))
        answers, values = _predictions_and_scores(before, chosen)
        later = None if after is None else _predictions_and_scores(after, chosen)
        ids = numbers.ids(chosen.rows)
        for i, row in enumerate(numbers.numbers(chosen.rows).tolist()):
            differs = [name for name, is_so in zip(chosen.features, chosen.differs[i], strict=True) if is_so]
            rows.append(
                NearestPair(
                    row,
                    [plain_value(mine[name][i]) for name in names],
                    [_other_value(mine[name][i], theirs[name][i]) if name in differs else None for name in names],
                    [short(name) for name in differs],
                    answers[i],
                    values[i],
                    None if later is None else later[0][i],
                    None if later is None else later[1][i],
                    None if (person := ids[i]) is None else short(person, 40),
                )
            )
    first = sum(name in varying for name in names)
    column = None if numbers.id_column is None else short(numbers.id_column)
    columns = [short(name) for name in names]
    return PairTable(total, exact, columns, first, len(features) - len(names), rows, column, numbers.first)


def _named(spec: Spec, values: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return values by feature, each under its name if it has one."""
    return {f.name: [f.show(value) for value in values[f.name]] for f in spec.features}


def _predictions_and_scores(net: Network, pairs: NearestCounterfactuals) -> tuple[list[list[int]], list[list[float]]]:
    """Return the predictions for both people of each pair, and the scores of the first one's class for both."""
    own, other = ScoredRows.of(net, pairs.X), ScoredRows.of(net, pairs.other)
    values = np.stack([side.probability(own.classes) for side in (own, other)], axis=1)
    return np.stack([own.classes, other.classes], axis=1).tolist(), values.tolist()


def _other_value(mine: object, theirs: object) -> str:
    """Return the counterfactual's value with as many digits as it takes to tell it from the person's."""
    text = plain_value(theirs)
    return repr(theirs) if isinstance(theirs, float) and text == plain_value(mine) else text

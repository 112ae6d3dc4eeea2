"""Unfair pairs in the user's own values."""

from __future__ import annotations

import numpy as np

from fairmend.audit.result import user_values
from fairmend.evaluate.document import Pair, Pairs
from fairmend.evaluate.flips import Twins
from fairmend.evaluate.score_ranges import scores
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.text import plain_value, short

MOST_PAIRS, MOST_COLUMNS = 1_000, 16


def pairs_of(twins: Twins, spec: Spec, total: int, exact: bool, before: Network, after: Network | None = None) -> Pairs:
    """Return the worst pairs of `total` people treated unequally: the largest differences in score first."""
    chosen = twins.take(np.argsort(-twins.gap, kind="stable")[:MOST_PAIRS])
    features = sorted(spec.features, key=lambda f: (not f.varies, not f.protected))
    names = [f.name for f in features[:MOST_COLUMNS]]
    rows: list[Pair] = []
    if len(chosen.rows):
        mine, theirs = user_values(spec, chosen.X), user_values(spec, chosen.other)
        answers, values = _answers(before, chosen)
        later = None if after is None else _answers(after, chosen)
        for i, row in enumerate(chosen.rows.tolist()):
            differs = [name for name, is_so in zip(chosen.features, chosen.differs[i], strict=True) if is_so]
            rows.append(
                Pair(
                    row,
                    [plain_value(mine[name][i]) for name in names],
                    [_other(mine[name][i], theirs[name][i]) if name in differs else None for name in names],
                    [short(name) for name in differs],
                    answers[i],
                    values[i],
                    None if later is None else later[0][i],
                    None if later is None else later[1][i],
                )
            )
    shown = [short(name) for name in names]
    varying = sum(f.varies for f in features[:MOST_COLUMNS])
    return Pairs(total, exact, shown, varying, len(features) - len(names), rows)


def _answers(net: Network, twins: Twins) -> tuple[list[list[int]], list[list[float]]]:
    """The answers to the two of each pair, and their scores, both seen from the first one's class."""
    own, other = net.predict(twins.X), net.predict(twins.other)
    values = np.stack([scores(net, twins.X, own), scores(net, twins.other, own)], axis=1)
    return np.stack([own, other], axis=1).tolist(), values.tolist()


def _other(mine: object, theirs: object) -> str:
    """The other's value, with as many digits as it takes to tell it from the first."""
    text = plain_value(theirs)
    return repr(theirs) if isinstance(theirs, float) and text == plain_value(mine) else text

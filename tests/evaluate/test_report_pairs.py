"""Pairs in the user's own values: what is marked differs, and so do the predictions."""

import numpy as np

from support.probabilities import pair_probability
from support.report_cases import repair_of, repaired


def test_pairs_differ_in_what_is_marked_and_in_the_answer():
    result, spec, net, frame, _ = repaired("prof")
    pairs = repair_of("prof").document.page.pairs
    assert pairs.rows
    for pair in pairs.rows:
        row = frame.iloc[pair.row]
        mine = dict(zip(pairs.columns, pair.values, strict=True))
        theirs = {name: other for name, other in zip(pairs.columns, pair.others, strict=True) if other is not None}
        assert set(theirs) == set(pair.differs) <= {"age", "gender"}
        assert {name: str(row[name]) for name in ("age", "gender", "credits")} == {
            name: mine[name] for name in ("age", "gender", "credits")
        }
        both = spec.encode(
            frame.iloc[[pair.row, pair.row]].assign(**{k: [row[k], _typed(v)] for k, v in theirs.items()})
        )
        assert net.predict(both).tolist() == pair.answers
        assert result.network.predict(both).tolist() == pair.answers_after
        assert pair.answers[0] != pair.answers[1]
        assert np.allclose(pair_probability(net, both, 1), pair.scores, atol=1e-6)


def _typed(text):
    return int(text) if text.isdigit() else text

"""Rankings are those of scikit-learn, with ties and in chunks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from fairmend.base import arrays
from fairmend.evaluate.ranking import rank_class

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3)), min_size=1, max_size=40)


@given(rows=ROWS, chunk=st.sampled_from([1, 3, 7, 1000]))
def test_figures_are_those_of_scikit_learn(rows, chunk):
    true, scores = (np.array(side) for side in zip(*rows, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "CHUNK", chunk)
        found = rank_class(true, 1, scores.astype(np.float32))
    if (true == 1).all() or not (true == 1).any():
        assert found is None
        return
    assert found.auc == pytest.approx(roc_auc_score(true == 1, scores))
    assert found.average_precision == pytest.approx(average_precision_score(true == 1, scores))


def test_many_rows_are_sorted_in_temporary_files_and_left_as_they_are(monkeypatch):
    rng = np.random.default_rng(0)
    true, scores = rng.integers(0, 2, 500).astype(np.int8), rng.normal(size=500).astype(np.float32).round(1)
    expected, before = rank_class(true, 1, scores), scores.copy()
    monkeypatch.setattr(arrays, "_MEMORY", 0)
    assert rank_class(true, 1, scores) == expected
    assert np.array_equal(scores, before)

"""A sample of a stream: everything while it fits, then every row with the same probability, by the seed alone."""

import numpy as np
import pytest

from fairmend.auditing.row_sample import RowSample


def sample(rows, most, seed=0, size=10):
    kept = RowSample(most, seed)
    for start in range(0, rows, size):
        part = np.arange(start, min(rows, start + size))
        kept.add({"value": part * 10, "pair": np.stack([part, -part], axis=1)})
    return kept.columns()


def test_few_rows_are_all_kept_in_order():
    found = sample(35, 40)
    assert found["row"].tolist() == list(range(35))
    assert np.array_equal(found["value"], found["row"] * 10)
    assert np.array_equal(found["pair"], np.stack([found["row"], -found["row"]], axis=1))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_sample_does_not_depend_on_the_pieces(size):
    found = sample(1000, 50, size=size)
    assert np.array_equal(found["row"], sample(1000, 50)["row"])
    assert len(found["row"]) == 50
    assert np.array_equal(found["value"], found["row"] * 10)
    assert not np.array_equal(found["row"], sample(1000, 50, seed=1, size=size)["row"])


def test_every_row_is_equally_likely():
    hits = np.zeros(200)
    for seed in range(400):
        hits[sample(200, 20, seed, size=60)["row"]] += 1
    assert abs(hits[:100].sum() - hits[100:].sum()) < 300  # five standard deviations
    assert hits.min() > 12  # 40 are expected


def test_samples_of_parts_are_merged_into_the_sample_of_the_whole():
    whole, merged = sample(1000, 50), RowSample(50, 0)
    for first in range(0, 1000, 250):
        part = RowSample(50, 0, first, merged.limit)
        rows = np.arange(first, first + 250)
        part.add({"value": rows * 10, "pair": np.stack([rows, -rows], axis=1)})
        assert first < 750 or len(part.columns()["row"]) < 40  # the limit leaves out what cannot be in the sample
        merged.merge(part)
        merged.shrink()
    assert all(np.array_equal(values, whole[name]) for name, values in merged.columns().items())

"""The result of a search says what was found."""

import numpy as np

from fairmend.searching.result import SearchResult


def test_the_figures_are_in_the_repr_and_in_the_plain_data():
    idis = np.zeros((1234, 2), np.float32)
    result = SearchResult(idis, idis, "adf", seeds=1000, starts=70, calls=5678, exact=True, seconds=1.25)
    assert repr(result) == "SearchResult(adf: 1,234 IDIs, from 70 of 1,000 seeds, 5,678 model calls, 1.2 s)"
    assert result.as_dict() == {
        "method": "adf",
        "count": 1234,
        "seeds": 1000,
        "starts": 70,
        "calls": 5678,
        "exact": True,
        "seconds": 1.25,
    }

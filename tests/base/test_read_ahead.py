"""A second thread reads ahead: the same items in the same order, errors in their place, and no thread is left."""

import threading

import pytest

from fairmend.base.errors import FairmendError
from fairmend.base.threads import read_ahead


def test_all_items_come_in_order():
    assert list(read_ahead(iter(range(100)))) == list(range(100))
    assert list(read_ahead([])) == []


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield 1
        raise FairmendError("row 3: wrong")

    seen = []
    with pytest.raises(FairmendError, match="row 3: wrong"):
        seen.extend(read_ahead(items()))
    stream = read_ahead(items())
    assert next(stream) == 1


def test_the_reader_stops_if_nobody_wants_more():
    before = threading.active_count()
    stream = read_ahead(iter(range(1_000_000)))
    assert next(stream) == 0
    stream.close()
    assert threading.active_count() == before

"""A cell is computed once, and written whole or not at all."""

import pytest

from fairmend.paper.cells import Store


def test_a_cell_is_computed_once_and_never_again(tmp_path):
    calls = []
    for _ in range(2):
        assert Store(tmp_path).get("a/b", lambda: calls.append(1) or {"x": 1}) == {"x": 1}
    assert Store(tmp_path).read("a/b") == {"x": 1}
    assert calls == [1]


def test_a_cell_that_fails_leaves_nothing_behind(tmp_path):
    with pytest.raises(ZeroDivisionError):
        Store(tmp_path).get("a/b", lambda: {"x": 1 / 0})
    assert not list(tmp_path.rglob("*.json"))

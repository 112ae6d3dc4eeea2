"""Results travel as plain data, bit for bit, and nothing in such data is called."""

import json
import pickle
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.workers.kept_results import NotPlainDataError, dump, load

CALLED = []


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Pair:
    left: object
    right: object = None

    def __post_init__(self):
        CALLED.append(self)


class Store:
    def __init__(self, rows):
        CALLED.append(rows)
        self.rows = rows

    def __setstate__(self, state):
        CALLED.append(state)


class Partial:
    def __init__(self):
        self.kept, self.left_out = 1, 2

    def __getstate__(self):
        return {"kept": self.kept}


CLASSES = [Colour, Pair, Store, Partial]


def through(value):
    return load(dump(value, CLASSES), CLASSES)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@given(PLAIN)
def test_plain_values_come_back(value):
    assert through(value) == value
    assert repr(through(value)) == repr(value)  # also their types, and the sign of 0


def test_sets_members_and_instances_come_back_and_nothing_is_called():
    value = (Pair(Colour.RED, {1}), frozenset("ab"), Store([Pair(1)]), Partial())
    CALLED.clear()
    pair, letters, store, partial = through(value)
    assert CALLED == []
    assert (pair.left, pair.right, letters) == (Colour.RED, {1}, frozenset("ab"))
    assert (type(store), store.rows) == (Store, [value[2].rows[0]])
    assert vars(partial) == {"kept": 1}


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "u8", "?", "U3", "S2", ">f8"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (0, 4), (2, 3, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back_bit_for_bit_in_their_order(dtype, shape, order):
    array = np.asarray(np.arange(int(np.prod(shape))).reshape(shape).astype(dtype), order=order)
    (found, scalar) = through([array, np.float32(0.1)])
    assert (found.dtype, found.shape, found.strides) == (array.dtype, array.shape, array.strides)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable
    assert (type(scalar), scalar) == (np.float32, np.float32(0.1))


def test_nan_and_what_is_no_whole_array_come_back():
    array = np.array([[np.nan, -0.0, np.inf], [1, 2, 3]])
    found = through({"a": array[:, ::2], "b": float("nan")})
    assert found["a"].tobytes() == array[:, ::2].tobytes()
    assert found["b"] != found["b"]


@pytest.mark.parametrize("value", [object(), np.array([None]), np.zeros(1, "f8,f8"), print, Pair, type, range(2), 1j])
def test_anything_else_is_not_sent(value):
    with pytest.raises(TypeError):
        dump([value], CLASSES)


def test_a_class_that_was_not_named_is_neither_sent_nor_read():
    with pytest.raises(TypeError):
        dump(Pair(1), [Colour])
    with pytest.raises(NotPlainDataError):
        load(dump(Pair(1), [Colour, Pair]), [Colour])


def forged(plain, rest=b""):
    text = json.dumps(plain).encode()
    return len(text).to_bytes(8, "big") + text + rest


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(8),
        b"\xff" * 8,
        pickle.dumps(1),
        forged(1, b"more"),
        forged({}),
        forged([]),
        forged(["eval", "1"]),
        forged([["list"], []]),
        forged(["list"]),
        forged(["list", 3]),
        forged(["set", [["list", []]]]),
        forged(["bytes", "x"]),
        forged(["dict", [[1]]]),
        forged(["member", 1, "left"]),
        forged(["member", 0, "BLUE"]),
        forged(["member", -4, "RED"]),
        forged(["instance", 0, {}]),
        forged(["instance", -1, {}]),
        forged(["instance", True, {"left": 1, "right": 2}]),
        forged(["instance", 9, {}]),
        forged(["instance", "Pair", {}]),
        forged(["instance", 1, {"left": 1}]),
        forged(["instance", 1, {"left": 1, "right": 1, "__class__": 1}]),
        forged(["instance", 1, [1, 2]]),
        forged(["array", "|O", [1], "C", False], bytes(8)),
        forged(["array", "O", [1], "C", False], bytes(8)),
        forged(["array", "<f8", [2], "C", False], bytes(8)),
        forged(["array", "<f8", [10**30], "C", False], bytes(8)),
        forged(["array", "<f8", [-1], "C", False]),
        forged(["array", "<f8", [10**30, 0], "C", False]),
        forged(["array", "<f8", 1, "C", False], bytes(8)),
        forged(["array", "<f3", [1], "C", False], bytes(8)),
        forged(["array", "<f8", [1], "Q", False], bytes(8)),
        forged(["array", "<f8", [1]], bytes(8)),
        (text := b"[" * 100_000) and len(text).to_bytes(8, "big") + text,
    ],
)
def test_what_is_not_such_data_is_refused(content):
    CALLED.clear()
    with pytest.raises(NotPlainDataError):
        load(content, CLASSES)
    assert CALLED == []


@given(st.data())
def test_damaged_data_is_refused_or_plain(data):
    content = bytearray(dump([Pair(np.arange(3.0), Colour.RED), {"a": (1, 2.5, "x")}], CLASSES))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(NotPlainDataError):
        load(bytes(content), CLASSES)

"""The canonical map: the same bits for all members of a class, and a member of the class as its representative."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.models.canonical import choose_map, hold, spec_port
from fairmend.models.ports import Port
from fairmend.spec import Feature, Spec
from support.canonical_cases import SPEC, counterparts, people
from support.class_cases import components, everyone, random_small_spec
from support.strategies_spec import unhurried


@unhurried
@given(st.integers(0, 2**32 - 1), st.integers(1, 2))
def test_similar_people_have_the_same_bits(seed, linked):
    spec = random_small_spec(np.random.default_rng(seed), linked=linked)
    X, _ = everyone(spec)
    rows = choose_map(spec, X).apply(X)
    chains = components(spec, X)
    _, first, chain = np.unique(chains, return_index=True, return_inverse=True)
    assert (rows.view(np.int32) == rows[first][chain.ravel()].view(np.int32)).all()


def test_the_map_is_idempotent_and_keeps_what_counts():
    X, _ = people()
    rows = choose_map(SPEC, X).apply(X)
    assert np.array_equal(choose_map(SPEC, X).apply(rows), rows)
    assert np.array_equal(rows[:, 7], X[:, 7])
    assert len(np.unique(rows[:, 6])) == 10
    assert np.array_equal(rows[:, 3:5], X[:, 3:5])


def test_members_of_a_class_have_the_same_bits():
    X, _ = people()
    canonical = choose_map(SPEC, X)
    assert np.array_equal(canonical.apply(X), canonical.apply(counterparts(X)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 1e30])
def test_a_cut_column_may_hold_anything(value):
    X, _ = people(50)
    canonical = choose_map(SPEC, X)
    strange = X.copy()
    strange[:, 5] = value
    assert np.array_equal(canonical.apply(X).view(np.int32), canonical.apply(strange).view(np.int32))


def test_whole_numbers_that_were_scaled_in_float32_keep_their_band():
    spec = Spec(
        [
            Feature("sex", "categorical", categories=("a", "b"), protected=True),
            Feature("day", "integer", range=(0, 40_000), bands={"width": 1000}, scale={"mean": 20_000.3, "std": 11.7}),
        ]
    )
    days = np.arange(0, 40_001, 250)
    exact = ((days - 20_000.3) / 11.7).astype(np.float32)
    rounded = (days.astype(np.float32) - np.float32(20_000.3)) / np.float32(11.7)
    assert (exact != rounded).any()
    X, Y = (np.column_stack([np.zeros(len(days)), each]).astype(np.float32) for each in (exact, rounded))
    canonical = choose_map(spec, X)
    assert np.array_equal(canonical.apply(X), canonical.apply(Y))


def test_ports_of_other_types_get_the_same_map():
    X, _ = people(300)
    spec = Spec.from_dict(
        {
            **SPEC.to_dict(),
            "feature": [
                {
                    **{k: v for k, v in f.items() if k != "scale"},
                    **({"encoding": "ordinal"} if "categories" in f else {}),
                }
                for f in SPEC.to_dict()["feature"]
            ],
        }
    )
    raw = spec.encode(SPEC.decode(X), np.float64)
    canonical = choose_map(spec, raw)
    ports = [
        Port("sex", "string", 2, ("sex",)),
        Port("relationship", "string", 1, ("relationship",)),
        Port("numbers", "float64", 2, ("age", "income", "hours")),
    ]
    held = [port.values(spec, raw).reshape(len(raw), -1) for port in ports]
    found = canonical.entry(ports).apply(held)
    expected = [port.values(spec, canonical.apply(raw)).reshape(len(raw), -1) for port in ports]
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)


def test_what_a_port_holds():
    feature = Feature("colour", "categorical", categories=("red", "blue"))
    assert hold(feature, np.array([1.0, 0.0]), "string").tolist() == [["blue"], ["red"]]
    assert hold(feature, np.array([1.0]), "int64").tolist() == [[1]]
    assert spec_port(SPEC, "float32").width(SPEC) == SPEC.width

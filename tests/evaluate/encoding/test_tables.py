"""Inputs that are looked up in tables get codes and nothing else, and the spec says where codes start."""

import numpy as np
import pandas as pd
import pytest

from fairmend.evaluate.encoding.candidates import columns_of
from fairmend.evaluate.encoding.check import check_spec
from fairmend.evaluate.encoding.search import draft_from_scores
from fairmend.evaluate.encoding.tables import fits_tables, tables_of
from fairmend.network import Activation, Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup
from fairmend.prove.fit import require_fit
from fairmend.spec.draft.from_data import draft_from_data
from fairmend.spec.draft.readings import Reading
from support.spec_cases import refused

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "age": RNG.integers(20, 70, 400),
        "sex": RNG.choice(["f", "m"], 400),
        "income": RNG.lognormal(10, 0.5, 400).round(),
        "city": RNG.choice(["Bern", "Genf", "Lugano", "Zug"], 400),
    }
)


def network(rows, names=()):
    """Look up the first two of four columns in tables of so many rows, and read the others as numbers."""
    rng = np.random.default_rng(1)
    tables = [Lookup(rng.normal(size=(count, 2)).astype(np.float32)) for count in rows]
    first = Affine(rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=8).astype(np.float32))
    last = Affine(rng.normal(size=(1, 8)).astype(np.float32), np.zeros(1, np.float32))
    nodes = [
        Node(Input(4, names), (), "x"), Node(Columns((0,)), (0,), "a"), Node(Columns((1,)), (0,), "b"),
        Node(tables[0], (1,), "ta"), Node(tables[1], (2,), "tb"), Node(Columns((2, 3)), (0,), "c"),
        Node(Concatenate(), (3, 4, 5), "all"), Node(first, (6,), "first"), Node(Activation("relu"), (7,), "relu"),
        Node(last, (8,), "last"),
    ]  # fmt: skip
    return Network.from_nodes(nodes)


def inputs(order, start=0):
    codes = [PEOPLE[name].astype("category").cat.codes + start for name in order[:2]]
    numbers = [(PEOPLE[name] - PEOPLE[name].mean()) / PEOPLE[name].std(ddof=0) for name in order[2:]]
    return np.stack([*codes, *numbers], axis=1)


def scores(net, X):
    return 1 / (1 + np.exp(-net.astype(np.float64).logits(X).reshape(-1, 1)))


@pytest.mark.parametrize(("rows", "start"), [((2, 4), 0), ((3, 5), 1), ((3, 6), 0)])
def test_the_encoding_is_found_and_fits_the_tables(rows, start):
    """The last tables have spare rows at their ends, which the spec says by a scale."""
    net, X = network(rows), inputs(["sex", "city", "age", "income"], start)
    assert tables_of(net) == {0: rows[0], 1: rows[1]}
    made, match = draft_from_scores(draft_from_data(PEOPLE, ["sex"], inputs=4), PEOPLE, net, scores(net, X))
    assert match.verified
    np.testing.assert_allclose(made.spec.encode(PEOPLE, np.float64), X, atol=1e-6)
    require_fit(net, made.spec)


def test_two_tables_with_a_spare_row_each_are_likelier_than_one_with_two():
    """Three cities in 4 rows and two sexes in 3, not the cities in 3 rows and the sexes in 4."""
    people = PEOPLE.assign(city=PEOPLE.city.replace("Zug", "Bern"))
    net = network((4, 3))
    codes = [people[name].astype("category").cat.codes + 1 for name in ("city", "sex")]
    X = np.stack([*codes, *inputs(["sex", "city", "age", "income"])[:, 2:].T], axis=1)
    made, match = draft_from_scores(draft_from_data(people, ["sex"], inputs=4), people, net, scores(net, X))
    assert match.verified
    np.testing.assert_allclose(made.spec.encode(people, np.float64), X, atol=1e-6)


def test_missing_values_that_a_table_marks_are_found():
    """As fastai fills them: a code of 1 or 2 says whether a number was missing, in a table with a row for unknowns."""
    people = PEOPLE.assign(income=PEOPLE.income.mask(PEOPLE.index % 9 == 0))
    net = network((3, 3))
    codes = [people.sex.astype("category").cat.codes + 1, people.income.isna() + 1]
    numbers = people[["age", "income"]].fillna(people.income.median())
    X = np.column_stack([*codes, (numbers - numbers.mean()) / numbers.std(ddof=0)])
    people = people.drop(columns="city")
    made, match = draft_from_scores(draft_from_data(people, ["sex"], inputs=4), people, net, scores(net, X))
    assert match.verified
    np.testing.assert_allclose(made.spec.encode(people, np.float64), X, atol=1e-6)
    require_fit(net, made.spec)


def test_a_wrong_spec_is_not_verified_instead_of_an_error_about_a_row():
    net, X = network((2, 4)), inputs(["sex", "city", "age", "income"])
    wrong = draft_from_data(PEOPLE, ["sex"], order=["age", "sex", "city", "income"], inputs=4, scale="standard").spec
    check = check_spec(wrong, PEOPLE, net, scores=scores(net, X))
    assert not check.fits
    assert "looks up feature 'age' in a table of 2 rows" in check.width_mismatch


def test_only_codes_are_possible():
    net = network((2, 4))
    state = [Reading(d.feature, ()) for d in draft_from_data(PEOPLE, ["sex"], inputs=4).features]
    columns = {column.name: column for column in columns_of(draft_from_data(PEOPLE, ["sex"]), PEOPLE)}
    codes = [columns[name].categories["ordinal", "sorted", ""] for name in ("sex", "city")]
    assert not fits_tables(tuple(state), tables_of(net))
    assert fits_tables((*codes, state[0], state[2]), tables_of(net))
    assert not fits_tables((*codes[::-1], state[0], state[2]), tables_of(net))
    shifted = columns["sex"].categories["ordinal from 1", "sorted", ""]
    assert not fits_tables((shifted, codes[1], state[0], state[2]), tables_of(net))


def test_a_plain_draft_with_fewer_categories_than_rows_is_refused():
    spec = draft_from_data(PEOPLE, ["sex"], order=["sex", "city", "age", "income"], inputs=4).spec
    with refused("'sex' in a table of 3 rows", "which rows"):
        require_fit(network((3, 4)), spec)

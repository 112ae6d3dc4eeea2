"""Small changes of an encoding exchange columns, move one, or read one in another way; a descent applies them."""

import numpy as np

from fairmend.evaluate.encoding_search.candidates import build, common_styles
from fairmend.evaluate.encoding_search.columns import columns_of
from fairmend.evaluate.encoding_search.distance import Distance
from fairmend.evaluate.encoding_search.moves import all_moves, descend, order_moves
from fairmend.spec.draft.from_data import draft_from_data
from support.encoding_cases import network_for, scores_for, strangers

PEOPLE = strangers(100)
COLUMNS = columns_of(draft_from_data(PEOPLE, ["Geschlecht"], "Ausfall"), PEOPLE, codes=False)
STATE = build(COLUMNS, next(common_styles(COLUMNS, 9, fixed_order=True)))


def names(state):
    return [reading.feature.name for reading in state]


def test_orders_are_all_exchanges_and_all_places():
    moved = {tuple(names(move.apply(STATE))) for move in order_moves(STATE)}
    assert len(moved) == 10 + 12
    assert all(sorted(order) == sorted(names(STATE)) for order in moved)
    words = {move.words: move for move in order_moves(STATE)}
    assert names(words['"Stufe" before "Alter"'].apply(STATE))[0] == "Stufe"
    assert names(words['"Alter" after "Größe"'].apply(STATE))[3] == "Alter"


def test_moves_keep_the_width_and_an_order_that_is_known():
    for move in all_moves(STATE, COLUMNS, fixed_order=True):
        made = move.apply(STATE)
        assert names(made) == names(STATE)
        assert sum(reading.feature.width for reading in made) == 9
    words = [move.words for move in all_moves(STATE, COLUMNS, fixed_order=True)]
    assert 'the categories "Frau" and "Mann" of "Geschlecht" exchanged' in words
    assert '"Alter" read as standard, missing: mean' in words


def test_a_descent_finds_the_order():
    rows = PEOPLE.iloc[:60]
    right = Distance(network_for(np.zeros((1, 9))), rows, np.full((60, 1), 0.5), regression=False).encode(STATE)
    net = network_for(right)
    distance = Distance(net, rows, scores_for(net, right), regression=False)
    shuffled = tuple(STATE[place] for place in (3, 0, 4, 2, 1))
    state, error = descend(shuffled, order_moves, distance)
    assert names(state) == names(STATE)
    assert error < 1e-9

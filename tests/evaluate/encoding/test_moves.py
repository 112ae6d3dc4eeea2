"""Small changes of an encoding exchange columns, move one, or read one in another way; a descent applies them."""

import numpy as np
import pytest

from fairmend.evaluate.encoding.candidates import build, columns_of, common_styles
from fairmend.evaluate.encoding.moves import Distance, all_moves, descend, order_moves
from fairmend.network.model import scores_of
from fairmend.spec.draft.from_data import draft_from_data
from fairmend.spec.draft.readings import Reading
from support.cli_case import small_network, small_people, small_spec
from support.encoding_cases import network_for, scores_for, strangers

FOUR = small_people(60)
NUMBERS = tuple(Reading(feature, ("x",)) for feature in small_spec().features)
X = small_spec().encode(FOUR, np.float64)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("on", ["probability", "logit", "output"])
def test_only_the_right_state_has_no_distance(outputs, on):
    net = small_network(outputs).astype(np.float64)
    given = scores_of(net.logits(X), on)
    wrong = (NUMBERS[0], NUMBERS[1], NUMBERS[3], NUMBERS[2])
    for scores in [given] if outputs != 2 or on == "output" else [given, given[:, 1:] - (on == "logit") * given[:, :1]]:
        distance = Distance(net, FOUR, scores, regression=on == "output")
        right, other = distance.of([NUMBERS, wrong])
        assert right < 1e-15
        assert other > 1e-3
    assert distance.evaluations == 2


def test_certain_probabilities_are_no_infinite_logits():
    net = small_network()
    given = net.probabilities(X).astype(np.float64)[:, None]
    given[0], given[1] = 0.0, 1.0
    assert np.isfinite(Distance(net, FOUR, given, regression=False).of([NUMBERS])).all()


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

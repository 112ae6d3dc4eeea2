"""The slopes of the scores and of the network tell where the columns belong."""

import numpy as np

from fairmend.evaluate.encoding_search.assign import assign_order
from fairmend.evaluate.encoding_search.candidates import build, common_styles
from fairmend.evaluate.encoding_search.columns import columns_of
from fairmend.evaluate.encoding_search.distance import Distance
from fairmend.network import Affine, Network
from fairmend.spec.draft.from_data import draft_from_data
from support.encoding_cases import scores_for, strangers

PEOPLE = strangers(200)
COLUMNS = columns_of(draft_from_data(PEOPLE, ["Geschlecht"], "Ausfall"), PEOPLE, codes=False)
STATE = build(COLUMNS, next(common_styles(COLUMNS, 9, fixed_order=True)))


def test_any_order_of_a_linear_network_is_found_at_once():
    weight = np.array([[0.9, 0.2, -0.2, -0.5, 0.1, 0.4, -0.3, 0.6, 1.4]], np.float32)
    net = Network([Affine(weight, np.zeros(1, np.float32))], [])
    X = np.hstack([Distance(net, PEOPLE, np.full((200, 1), 0.5), regression=False).columns(r) for r in STATE])
    distance = Distance(net, PEOPLE, scores_for(net, X), regression=False)
    rng = np.random.default_rng(0)
    for _ in range(5):
        shuffled = tuple(STATE[place] for place in rng.permutation(len(STATE)))
        assert assign_order(shuffled, distance) == STATE

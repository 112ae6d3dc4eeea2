"""Soft orders: the readings end where the scores say, whatever their order was."""

import numpy as np
import pandas as pd

from fairmend.evaluate.encoding.candidates import build, columns_of, common_styles
from fairmend.evaluate.encoding.moves import Distance
from fairmend.evaluate.encoding.soft_order import soft_order
from fairmend.spec.draft.from_data import draft_from_data
from support.encoding_cases import network_for, scores_for


def people(rows=600):
    rng = np.random.default_rng(3)
    numbers = {f"n{i}": rng.normal(size=rows) for i in range(6)}
    return pd.DataFrame({"sex": rng.choice(["f", "m"], rows), "job": rng.choice(["a", "b", "c"], rows), **numbers})


def test_readings_move_to_the_places_that_explain_the_scores():
    frame = people()
    columns = columns_of(draft_from_data(frame, ["sex"]), frame)
    style = next(
        s for s in common_styles(columns, 11, fixed_order=True) if (s.more, s.scale) == ("one-hot", "standard")
    )
    state = build(columns, style)
    order = np.random.default_rng(0).permutation(len(state))
    right = tuple(state[place] for place in order)
    plain = Distance(network_for(np.zeros((1, 11))), frame, np.full((len(frame), 1), 0.5), regression=False)
    X = plain.encode(right)
    net = network_for(X)
    distance = Distance(net, frame, scores_for(net, X), regression=False)
    found = [made for made in (soft_order(state, distance, seed) for seed in range(8)) if made is not None]
    names = [[reading.feature.name for reading in made] for made in found]
    assert [reading.feature.name for reading in right] in names

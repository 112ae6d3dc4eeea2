"""The distance of an encoding from scores is 0 for the right one, whatever the form of the scores."""

import numpy as np
import pytest

from fairmend.evaluate.encoding_search.distance import Distance
from fairmend.network.scores import scores_of
from fairmend.spec.draft.readings import Reading
from support.cli_case import small_network, small_people, small_spec

PEOPLE = small_people(60)
STATE = tuple(Reading(feature, ("x",)) for feature in small_spec().features)
X = small_spec().encode(PEOPLE, np.float64)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("on", ["probability", "logit", "output"])
def test_only_the_right_state_has_no_distance(outputs, on):
    net = small_network(outputs).astype(np.float64)
    given = scores_of(net.logits(X), on)
    wrong = (STATE[0], STATE[1], STATE[3], STATE[2])
    for scores in [given] if outputs != 2 or on == "output" else [given, given[:, 1:] - (on == "logit") * given[:, :1]]:
        distance = Distance(net, PEOPLE, scores, regression=on == "output")
        right, other = distance.of([STATE, wrong])
        assert right < 1e-15
        assert other > 1e-3
    assert distance.evaluations == 2


def test_certain_probabilities_are_no_infinite_logits():
    net = small_network()
    given = net.probabilities(X).astype(np.float64)[:, None]
    given[0], given[1] = 0.0, 1.0
    assert np.isfinite(Distance(net, PEOPLE, given, regression=False).of([STATE])).all()

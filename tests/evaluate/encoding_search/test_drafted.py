"""A draft takes over the encoding that reproduces the scores, or an error says what was nearest."""

import numpy as np

from fairmend.evaluate.encoding_search.drafted import draft_from_scores
from fairmend.spec.draft.from_data import draft_from_data
from support.encoding_cases import column_transformers, matrix_of, network_for, ordered, scores_for, strangers
from support.spec_cases import refused

PEOPLE = strangers()


def test_the_draft_encodes_as_the_model_does():
    X = matrix_of(column_transformers()["categories first"], PEOPLE)
    net = network_for(X)
    draft = draft_from_data(PEOPLE, ["Geschlecht", "Alter"], "Ausfall", inputs=net.inputs)
    assert draft.several
    made, match = draft_from_scores(draft, PEOPLE, net, scores_for(net, X))
    assert match.verified
    np.testing.assert_allclose(made.spec.encode(PEOPLE, np.float64), X, atol=1e-6)
    assert [feature.name for feature in made.spec.protected] == ["Geschlecht", "Alter"]
    assert made.label == draft.label
    assert not made.several
    assert made.review == ()
    assert dict(made.left_out).keys() == {"Kunde"}
    assert "verified with scores" in made.toml("title")


def test_scores_that_no_encoding_reproduces_are_refused():
    order = ["Alter", "Geschlecht", "Guthaben"]
    few = PEOPLE.iloc[:60]
    X = matrix_of(ordered(order), few)
    net = network_for(X)
    draft = draft_from_data(few, ["Geschlecht"], "Ausfall", inputs=net.inputs, order=order)
    with refused("encodings reproduces the scores", "The nearest, Alter", "not verified: ", "--scaler", "--encoded"):
        draft_from_scores(draft, few, net, scores_for(network_for(X, 9), X), codes=False, fixed_order=True)

"""The encoding and the order of the columns are found from the scores, and nothing else counts as verified."""

import numpy as np
import pytest

from fairmend.evaluate.encoding.candidates import columns_of
from fairmend.evaluate.encoding.search import changes_that_verify, draft_from_scores, search_encoding
from fairmend.network import Affine, Network
from fairmend.spec import Spec
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


ORDER = ["Alter", "Geschlecht", "Guthaben", "Größe", "Stufe"]


def columns(frame=PEOPLE, **options):
    return columns_of(draft_from_data(frame, ["Geschlecht"], "Ausfall"), frame, **options)


def encoded(found, frame=PEOPLE):
    return Spec([reading.feature for reading in found.state]).encode(frame, np.float64)


@pytest.mark.parametrize("name", column_transformers())
def test_a_common_pipeline_is_found(name):
    X = matrix_of(column_transformers()[name], PEOPLE)
    net = network_for(X)
    found = search_encoding(columns(), PEOPLE, net, scores_for(net, X))
    assert found.match.verified, found.match
    assert found.match.rows == len(PEOPLE)
    np.testing.assert_allclose(encoded(found), X, atol=1e-5)


def test_any_order_and_scales_of_a_training_split_are_found():
    few = PEOPLE.drop(columns=["Größe"])
    X = matrix_of(ordered(["Stufe", "Guthaben", "Geschlecht", "Alter"]), few, 150)
    net = network_for(X, 4)
    found = search_encoding(columns(few, codes=False), few, net, scores_for(net, X))
    assert found.match.verified, found.match
    assert [reading.feature.name for reading in found.state] == ["Stufe", "Guthaben", "Geschlecht", "Alter"]
    np.testing.assert_allclose(encoded(found, few), X, atol=1e-3)
    assert any("fitted to the scores" in reading.words for reading in found.state)


def test_any_order_is_found_if_every_encoding_marks_missing_values():
    few = PEOPLE.drop(columns=["Größe", "Stufe"])
    X = matrix_of(ordered(["Guthaben", "Geschlecht", "Alter"]), few)
    X = np.hstack([X[:, 1:], few[["Alter"]].isna(), X[:, :1]])
    net = network_for(X)
    found = search_encoding(columns(few, codes=False), few, net, scores_for(net, X))
    assert found.match.verified, found.match
    np.testing.assert_allclose(encoded(found, few), X, atol=1e-3)


def test_scores_of_another_model_are_not_verified():
    few = PEOPLE.iloc[:60].drop(columns=["Größe", "Stufe"])
    X = matrix_of(ordered(["Alter", "Geschlecht", "Guthaben"]), few)
    found = search_encoding(
        columns(few, codes=False), few, network_for(X, 1), scores_for(network_for(X, 2), X), fixed_order=True
    )
    assert not found.match.verified
    assert found.others == ()
    assert found.tried > 10


def test_columns_that_the_scores_do_not_tell_apart_are_named():
    twins = PEOPLE.assign(Kopie=PEOPLE["Guthaben"])
    X = matrix_of(ordered([*ORDER, "Kopie"]), twins)
    net = network_for(X)
    found = search_encoding(columns(twins, codes=False), twins, net, scores_for(net, X))
    assert found.match.verified
    assert '"Guthaben" and "Kopie" exchanged' in found.others


def test_columns_that_the_network_ignores_need_not_be_told_apart():
    X = matrix_of(ordered(ORDER), PEOPLE)
    net = network_for(X)
    weight = net.affines[0].weight.copy()
    weight[:, [0, 3]] = 0  # Alter and Guthaben
    net = Network([Affine(weight, net.affines[0].bias), *net.affines[1:]], net.activations)
    found = search_encoding(columns(codes=False), PEOPLE, net, scores_for(net, X), fixed_order=True)
    assert found.match.verified
    assert found.others == ()


def test_a_small_mistake_is_named():
    X = matrix_of(ordered(ORDER), PEOPLE)
    net = network_for(X)
    right = search_encoding(columns(codes=False), PEOPLE, net, scores_for(net, X), fixed_order=True).state
    wrong = (right[2], right[1], right[0], *right[3:])
    found = changes_that_verify(wrong, columns(codes=False), PEOPLE, net, scores_for(net, X))
    assert found == ['"Guthaben" and "Alter" exchanged']


def test_a_network_of_an_impossible_width_is_refused():
    X = np.zeros((len(PEOPLE), 40))
    with refused("no common encoding of the data gives the 40 columns", "--drop"):
        search_encoding(columns(), PEOPLE, network_for(X), np.linspace(0.1, 0.9, len(PEOPLE))[:, None])

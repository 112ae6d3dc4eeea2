"""Regions as a list of objects become arrays, and what does not fit the model is refused by its place."""

import numpy as np
import pytest

from fairmend_check.assemble import Graph
from fairmend_check.errors import CheckError
from fairmend_check.model import Activation, make_model
from fairmend_check.region_lists import read_listed

MODEL = make_model([(np.ones((3, 2)), np.ones(3)), (np.ones((1, 3)), np.ones(1))], [Activation("relu")])
SLOPES = [{"lower": [0, 0, 1], "upper": [1, 1, 1]}]
PIECE = {"lower": [0, 0], "upper": [1, 0.5], "slopes": SLOPES}
LINEAR = {"input": [0, 0.5], "class": 1, "margin": 0.1, "proof": "linear", "pieces": [PIECE, PIECE]}
POINTS = {"input": [1, 0.5], "class": 0, "margin": 0.2, "proof": "points"}


def test_pieces_belong_to_their_regions():
    found = read_listed([POINTS, LINEAR, POINTS, LINEAR], MODEL)
    assert found.points.tolist() == [True, False, True, False]
    assert found.pieces.owner.tolist() == [1, 1, 3, 3]
    assert (found.pieces.lower.shape, found.pieces.slopes[0][0].shape) == ((4, 2), (4, 3))
    assert (found.classes.tolist(), found.margins.tolist()) == ([0, 1, 0, 1], [0.2, 0.1, 0.2, 0.1])
    assert found.bounds is None


def test_scores_have_bounds_and_no_classes():
    entry = {"input": [1, 0.5], "low": [0.1], "high": [0.3], "proof": "points"}
    found = read_listed([entry, entry], MODEL, scores=True)
    assert (found.bounds[0].tolist(), found.bounds[1].tolist()) == ([[0.1], [0.1]], [[0.3], [0.3]])
    assert (found.margins, len(found.classes)) == (None, 0)
    assert len(found.pieces.owner) == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"class": 2}, r"regions\[1\].class is 2; the model has no such class"),
        ({"margin": 0.0}, r"regions\[1\].margin is 0.0; it must be positive"),
        ({"proof": "guess"}, r"regions\[1\].proof is 'guess'"),
        ({"proof": "points"}, r"regions\[1\] is proven by points, so it has no pieces"),
        ({"pieces": []}, r"regions\[1\] has no pieces"),
        ({"input": [1]}, r"regions\[1\].input has 1 entries instead of 2"),
        ({"more": 1}, r'regions\[1\] has an unknown key "more"'),
        ({"pieces": [{**PIECE, "upper": [-1, 1]}]}, r"regions\[1\].pieces\[0\] is empty"),
        ({"pieces": [{**PIECE, "slopes": []}]}, r"some pieces have slopes, and others have none"),
        ({"pieces": [{**PIECE, "slopes": SLOPES * 2}]}, r"slopes has 2 layers, but the model has 1 activations"),
        ({"pieces": [{**PIECE, "slopes": [{**SLOPES[0], "lower": [1]}]}]}, r"slopes\[0\].lower has 1 entries"),
    ],
)
def test_what_does_not_fit_is_named(change, reason):
    with pytest.raises(CheckError, match=reason):
        read_listed([LINEAR, {**LINEAR, **change}], MODEL)


def test_since_version_5_pieces_may_leave_the_slopes_to_the_checker():
    piece = {**PIECE, "slopes": []}
    entries = [POINTS, {**LINEAR, "pieces": [piece, piece]}]
    assert read_listed(entries, MODEL, version=5).pieces.slopes is None
    with pytest.raises(CheckError, match="slopes has 0 layers"):
        read_listed(entries, MODEL, version=4)


def test_pieces_of_a_graph_have_no_slopes():
    graph = Graph(2)
    hidden = graph.function(graph.affine(graph.input, np.ones((2, 2))), Activation("relu"))
    model = graph.finish(graph.affine(graph.sum(hidden, graph.input), np.ones((1, 2))))
    assert read_listed([{**LINEAR, "pieces": [{**PIECE, "slopes": []}]}], model).pieces.slopes is None
    with pytest.raises(CheckError, match="because the model is no chain"):
        read_listed([LINEAR], model)

"""The people that a report's page lists and draws are those of the spec's bands; the page's program runs in Node."""

import json
import shutil
import subprocess
from dataclasses import asdict
from importlib.resources import files

import numpy as np
import pytest

from fairmend.evaluate.what_if import _feature
from support.band_cases import band_case

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no Node on this machine")

PROGRAM = """
const model = {features: FEATURES, links: [], round: Math.fround};
const answer = PEOPLE.map((person) => [
  String(whatIfModel.countSimilar(model, person)),
  Array.from(whatIfModel.HOW, (other) => [...whatIfModel.encode(model, other)]),
  [...whatIfModel.encode(model, person)],
]);
console.log(JSON.stringify(answer));
"""


def similar_on_the_page(spec, X, how):
    """Return for each of X the number of similar people, some of them, and the person, as the page encodes them."""
    values = {
        f.name: f.category_of(X[:, spec.columns(f.name)]) if f.one_hot else f.nearest(X[:, spec.columns(f.name).start])
        for f in spec.features
    }
    people = np.stack([values[f.name].astype(np.float64) for f in spec.features], axis=1).tolist()
    features = [asdict(_feature(f, spec, X)) for f in spec.features]
    program = PROGRAM.replace("HOW", how).replace("FEATURES", json.dumps(features))
    source = files("fairmend.report").joinpath("templates", "what_if_model.js").read_text(encoding="utf-8")
    text = source + program.replace("PEOPLE", json.dumps(people))
    done = subprocess.run(["node"], input=text, capture_output=True, text=True, check=True, encoding="utf-8")
    return [(n, np.array(rows, X.dtype), np.array(own, X.dtype)) for n, rows, own in json.loads(done.stdout)]


def test_the_page_lists_everyone_in_the_bands():
    spec, _, X = band_case(rows=12)
    for x, (count, listed, own) in zip(X, similar_on_the_page(spec, X, "listSimilar(model, person)"), strict=True):
        _, points = next(spec.points(x[None]))
        assert np.array_equal(own, x)
        assert {tuple(p) for p in listed.tolist()} == {tuple(p) for p in points.tolist()}
        assert int(count) == len(points)


def test_the_page_draws_people_of_the_bands():
    spec, _, X = band_case(rows=12, continuous=True)
    for count, drawn, own in similar_on_the_page(spec, X, "drawSimilar(model, person, 300)"):
        assert count == "Infinity"
        assert spec.are_similar(np.repeat(own[None], len(drawn), axis=0), drawn).all()
        assert len(np.unique(drawn[:, -1])) > 50

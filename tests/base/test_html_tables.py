"""Specs, networks and results show themselves in notebooks, and give their content as a table."""

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend import Feature, Spec
from fairmend.base.text import html_pairs, html_table
from fairmend.network import Activation, Affine, Network

SPEC = Spec(
    [
        Feature("sex <script>", "categorical", categories=("m", "f"), encoding="one-hot", protected=True),
        Feature("age", "integer", range=(18, 80)),
    ]
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    rng = np.random.default_rng(0)
    affines = [Affine(np.float32([[30, 0, 1]]), np.float32([0])), Affine(np.float32([[1]]), np.float32([-60]))]
    network = Network(affines, [Activation("relu")])
    X = SPEC.sample_inputs(60, rng)
    repaired = fairmend.repair(network, SPEC, X[:10], X, (X[:, 2] > 40).astype(int))
    folder = tmp_path_factory.mktemp("notebook")
    repaired.network.save(folder / "model.onnx")
    repaired.certificate.save(folder / "certificate.json", folder / "model.onnx")
    return {
        "spec": SPEC,
        "network": network,
        "audit": fairmend.audit(network, SPEC, X),
        "disparity": fairmend.audit(network, SPEC, X).disparity,
        "certify": fairmend.certify(network, SPEC, X),
        "quantify": fairmend.quantify(network, SPEC, seconds=1, samples=10),
        "search": fairmend.search(network, SPEC, X, seeds=20, local_steps=20),
        "repair": repaired,
        "check": fairmend.check(folder / "certificate.json", folder / "model.onnx"),
    }


@pytest.mark.parametrize(
    "name", ["spec", "network", "audit", "disparity", "certify", "quantify", "search", "repair", "check"]
)
def test_a_notebook_shows_it_with_every_text_escaped(results, name):
    html = results[name]._repr_html_()
    assert html.startswith("<p><strong>")
    assert "<script>" not in html


def test_frames_hold_the_content(results):
    assert list(results["spec"].to_frame()["feature"]) == ["sex <script>", "age"]
    assert results["network"].to_frame()["outputs"].tolist() == [1, 1]
    pairs = results["audit"].to_frame()
    assert len(pairs) == 2 * len(results["audit"].pairs) > 0
    assert pairs["counterfactual"].tolist()[:2] == [False, True]
    verdicts = results["certify"].to_frame(SPEC)
    assert len(verdicts) == 60
    assert (verdicts["witness"] != "").sum() == results["certify"].counts["unfair"]
    assert len(results["search"].to_frame(SPEC)) == 2 * results["search"].count
    candidates = results["repair"].to_frame()
    assert isinstance(candidates, pd.DataFrame)
    assert candidates["chosen"].sum() == 1


def test_a_table_has_headings_and_notes():
    html = html_table("people", ("a", "b"), [(1, "<b>")], ["a note & more"])
    assert '<th scope="col" style="text-align: left">a</th>' in html
    assert "&lt;b&gt;" in html
    assert html.endswith("<p>a note &amp; more</p>")
    assert "<thead>" not in html_pairs("figures", [("count", 3)])

"""The proof tree: what it proves is true, with or without a guide, and what it cannot prove has a reason."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.prove.engines import relu_tree
from fairmend.prove.engines.boxes import Pieces
from fairmend.prove.engines.findings import TIME_LIMIT, WITHIN_ROUNDING, Findings
from fairmend.prove.engines.relu_milp import unit_intervals
from fairmend.prove.engines.relu_tree import Piece, ProofTree
from fairmend.prove.result import Verdict
from support.bumps import exact_class
from support.certify_cases import CONTINUOUS, KINKED, balanced_network, linear, sliver
from support.strategies_spec import specs_and_inputs


def run_tree(net, spec, x, time_limit=20):
    """The verdict on one input of a network with one output, without a guide."""
    findings = Findings(net, x[None], time_limit)
    pieces = Pieces(spec, x[None])
    for piece in range(len(pieces.owner)):
        ends = pieces.ends(pieces.roots.take(np.array([piece])))
        units = [(low[0], high[0]) for low, high in unit_intervals(net, *ends)]
        direction = np.array([1.0 if findings.classes[0] == 1 else -1.0])
        ProofTree(net, findings, Piece(0, piece, pieces, units), direction).run()
    findings.mark_done([0])
    return findings.result("milp")


@settings(deadline=None, max_examples=30)
@given(case=specs_and_inputs(), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_without_a_solver_what_is_proven_is_true_of_exact_samples(case, seed, data):
    spec, X = case
    net = balanced_network(seed, spec, data.draw(st.sampled_from(KINKED)), 1, X.dtype, hidden=(4, 3))
    result = run_tree(net, spec, X[0], time_limit=5)
    if result.verdicts == (Verdict.FAIR,):
        regions = spec.regions(X[:1], X.dtype)
        own = exact_class(net, X[0])
        for lower, upper in zip(regions.lower, regions.upper, strict=True):
            for corner in (lower, upper):
                assert exact_class(net, corner) == own
    if result.witnesses[0] is not None:
        assert exact_class(net, X[0]) != exact_class(net, result.witnesses[0].other)


def test_a_sliver_is_found_and_its_absence_is_proven():
    x = np.array([0.5, 0.5], np.float32)
    assert run_tree(sliver(0.73123, 1e-4), CONTINUOUS, x).verdicts == (Verdict.UNFAIR,)
    assert run_tree(sliver(1.5, 1e-4), CONTINUOUS, x).verdicts == (Verdict.FAIR,)


def test_what_is_not_proven_has_a_reason():
    x = np.array([0.5, 0.5], np.float32)
    assert run_tree(linear(1.0, 0.0, bias=0.0), CONTINUOUS, x).reasons == (WITHIN_ROUNDING,)
    assert run_tree(sliver(0.73123, 1e-4), CONTINUOUS, x, time_limit=1e-9).reasons == (TIME_LIMIT,)


@pytest.mark.parametrize("patience", [1, 50])
def test_the_search_ends_once_a_node_cannot_be_proven(monkeypatch, patience):
    monkeypatch.setattr(relu_tree, "_NODES_AFTER_FAILURE", patience)
    flat = linear(0.0, 0.0, bias=0.0)
    assert run_tree(flat, CONTINUOUS, np.array([0.5, 0.5], np.float32)).verdicts == (Verdict.UNKNOWN,)

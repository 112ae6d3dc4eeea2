"""Enumeration agrees with brute force."""

from hypothesis import settings
from hypothesis import strategies as st

from fairmend.prove.certify import certify
from support.certify_cases import balanced_network, check_agreement, check_witnesses, finite_cases
from support.strategies import ACTIVATIONS


@settings(deadline=None)
@finite_cases
def test_enumeration_agrees_with_brute_force(case, seed, outputs, data):
    spec, X = case
    net = balanced_network(seed, spec, data.draw(st.sampled_from(ACTIVATIONS)), outputs, X.dtype)
    report = certify(net, spec, X, "enumerate")
    check_agreement(net, spec, X, report)
    check_witnesses(net, spec, X, report)

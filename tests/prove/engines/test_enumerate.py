"""Enumeration agrees with brute force."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.prove.certify import certify
from support.certify_cases import balanced_network, check_agreement, check_witnesses
from support.strategies import ACTIVATIONS
from support.strategies_spec import specs_and_inputs

cases = given(
    case=specs_and_inputs(finite=True),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    data=st.data(),
)


@settings(deadline=None)
@cases
def test_enumeration_agrees_with_brute_force(case, seed, outputs, data):
    spec, X = case
    net = balanced_network(seed, spec, data.draw(st.sampled_from(ACTIVATIONS)), outputs, X.dtype)
    report = certify(net, spec, X, "enumerate")
    check_agreement(net, spec, X, report)
    check_witnesses(net, spec, X, report)

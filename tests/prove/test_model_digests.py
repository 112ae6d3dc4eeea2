"""A digest changes with what a network computes and what a spec says, and with nothing else."""

from dataclasses import replace

import numpy as np

from fairmend.network import Affine, Network
from fairmend.prove.fit import digest_network, digest_spec
from fairmend.spec import Spec
from support.audit_cases import AGE, GENDER, HOURS, INCOME, SPEC, network, people


def test_a_network_keeps_its_digest_when_it_is_used_and_changes_it_with_one_bit():
    net, before = network(), digest_network(network())
    net.predict(people(5))
    assert digest_network(net) == before
    weight = net.affines[0].weight.copy()
    weight[0, 0] = np.nextafter(weight[0, 0], 1)
    assert digest_network(Network([Affine(weight, net.affines[0].bias), *net.affines[1:]], net.activations)) != before


def test_a_spec_changes_its_digest_with_a_range():
    wider = Spec([replace(AGE, range=(18, 76)), GENDER, HOURS, INCOME])
    assert digest_spec(wider) != digest_spec(SPEC)
    assert digest_spec(Spec(SPEC.features)) == digest_spec(SPEC)

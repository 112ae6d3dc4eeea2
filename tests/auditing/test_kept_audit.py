"""Kept parts are of one model, and the plan of the first run stays."""

from dataclasses import replace

import numpy as np
import pytest

from fairmend.auditing.kept_audit import keep_plan, open_kept_audit
from fairmend.auditing.plan import AuditPlan
from fairmend.auditing.sliced_inputs import GivenInputs
from fairmend.base.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.spec import Spec
from support.audit_cases import AGE, GENDER, HOURS, INCOME, SPEC, network, people


def opened(folder, net=None, spec=SPEC, options=None):
    inputs = GivenInputs.of(SPEC, people(5), np.float32, None, None)
    return open_kept_audit(folder, network() if net is None else net, spec, inputs, options or {"seed": 0})


def test_the_same_model_is_recognised_after_it_has_been_used(tmp_path):
    net = network()
    opened(tmp_path, net)
    net.predict(people(5))
    opened(tmp_path, net)
    opened(tmp_path, network())


def test_another_weight_activation_or_range_is_refused(tmp_path):
    net = network()
    opened(tmp_path, net)
    weight = net.affines[0].weight.copy()
    weight[0, 0] = np.nextafter(weight[0, 0], 1)
    nudged = Network([Affine(weight, net.affines[0].bias), *net.affines[1:]], net.activations)
    with pytest.raises(FairmendError, match="another model"):
        opened(tmp_path, nudged)
    with pytest.raises(FairmendError, match="another spec"):
        opened(tmp_path, spec=Spec([replace(AGE, range=(18, 76)), GENDER, HOURS, INCOME]))
    with pytest.raises(FairmendError, match="another set of options"):
        opened(tmp_path, options={"seed": 1})


def test_the_plan_of_the_first_run_stays(tmp_path):
    first, later = AuditPlan("sample", 5, None, 0.25, None), AuditPlan("branch", 5, 7, 0.5, 0.1)
    assert keep_plan(opened(tmp_path), first) == first
    assert keep_plan(opened(tmp_path), later) == first

"""Several processes give the answer of one, bit for bit."""

import os
from dataclasses import replace

import numpy as np
import pytest

from fairmend import FairmendError, audit
from fairmend.audit import input_blocks
from fairmend.audit.plan import AuditPlan
from fairmend.audit.planned_scan import PlannedScan
from fairmend.audit.scan_processes import scan_blocks
from support.audit_cases import SPEC, network, people, without_time


class EndsItsProcess(PlannedScan):
    """A scan that the system ends, as it does for lack of memory."""

    def scan(self, task):
        os._exit(1)


def planned(method, kind=PlannedScan):
    return kind(network(), SPEC, AuditPlan(method, 200, 580, 0.1), 8, 0, None, None)


@pytest.mark.parametrize("method", ["enumerate", "sample"])
def test_two_processes_give_the_answer_of_one(monkeypatch, method):
    monkeypatch.setattr(input_blocks, "_ROWS", 64)
    X = people(500)
    one, two = (audit(network(), SPEC, X, method=method, jobs=jobs) for jobs in (1, 2))
    assert without_time(one) == without_time(two)
    assert np.array_equal(one.disparity.differences, two.disparity.differences)


def test_a_single_block_needs_no_other_process():
    X = people(50)
    ((block, found),) = scan_blocks(planned("enumerate"), iter([X]), jobs=1000)
    assert block is X
    assert len(found.unequal) == 50


def test_a_process_that_ends_is_an_error_that_says_what_to_do():
    blocks = np.split(people(200), 4)
    with pytest.raises(FairmendError, match="pass fewer jobs"):
        list(scan_blocks(planned("enumerate", EndsItsProcess), iter(blocks), jobs=2))


def test_an_audit_without_jobs_is_refused():
    with pytest.raises(FairmendError, match="jobs is 0; it must be at least 1"):
        audit(network(), SPEC, people(5), jobs=0)


def test_the_estimate_is_that_of_all_processes():
    plans = []
    for jobs in (1, 2):
        audit(network(), SPEC, people(5), jobs=jobs, on_plan=plans.append)
    assert plans[1] == replace(plans[0], seconds=plans[0].seconds / 2)

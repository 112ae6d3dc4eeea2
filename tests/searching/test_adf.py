"""The global phase of adf follows its gradients to instances that are treated unequally."""

from fairmend.searching import adf
from fairmend.searching.gradients import loss_gradient
from support.search_cases import check_starts


def test_more_steps_reach_more_idis_and_every_start_is_one():
    check_starts(adf.find_starts)


def test_the_local_phase_uses_the_gradient_of_the_paper():
    assert adf.RULE.gradient is loss_gradient

"""The policy has its defaults in one place, and knows what the caller demanded."""

from fairmend.repairing.policy import KEEP, Policy


def test_the_default_policy_prefers_the_strongest_guarantee_that_keeps_the_accuracy():
    assert Policy.from_options() == Policy() == Policy(KEEP, "any", "accuracy", keep_required=False)


def test_a_keep_that_was_given_is_required_even_if_it_is_the_default_or_zero():
    assert Policy.from_options(keep=KEEP).keep_required
    assert Policy.from_options(keep=0.0) == Policy(0.0, keep_required=True)
    assert not Policy.from_options(guarantee="everyone", prefer="decisions").keep_required

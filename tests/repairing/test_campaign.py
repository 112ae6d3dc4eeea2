"""Repairs of random networks with odd options: a short run of benchmarks/soundness/campaign.py."""

from benchmarks.soundness import campaign
from support.keras_files import quiet


@quiet
def test_every_repair_ends_in_a_valid_certificate_or_a_reason():
    outcomes = [campaign.run_seed(seed) for seed in range(10_000, 10_006)]
    assert [outcome for outcome in outcomes if outcome.end in campaign.FAILURES] == []
    assert sum(outcome.end == campaign.VALID for outcome in outcomes) >= 3


def test_a_seed_is_one_case():
    first, again = (campaign.Draw(3).case() for _ in range(2))
    assert first.network == again.network
    assert first.options == again.options

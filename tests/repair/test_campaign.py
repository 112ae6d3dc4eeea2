"""Repairs of random networks with odd options: a short run of benchmarks/campaign.py."""

import importlib.util
import sys
from pathlib import Path

import pytest

from support.keras_files import quiet

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "campaign.py"


@pytest.fixture(scope="module")
def campaign():
    spec = importlib.util.spec_from_file_location("campaign", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["campaign"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["campaign"]


@quiet
def test_every_repair_ends_in_a_valid_certificate_or_a_reason(campaign):
    outcomes = [campaign.run_seed(seed) for seed in range(10_000, 10_014)]
    assert [outcome for outcome in outcomes if outcome.end in campaign.FAILURES] == []
    assert sum(outcome.end == campaign.VALID for outcome in outcomes) >= 7


def test_a_seed_is_one_case(campaign):
    first, again = (campaign.Draw(3).case() for _ in range(2))
    assert first.network == again.network
    assert first.options == again.options

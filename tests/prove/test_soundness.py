"""A short run of benchmarks/soundness/run.py --graphs: nothing said about graphs is wrong, and lies are found."""

from collections import Counter
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

import fairmend
from benchmarks.soundness import arithmetic, forgeries
from benchmarks.soundness import run as soundness
from benchmarks.soundness.tally import Tally
from fairmend import Verdict

ENGINES = ["enumerate", "branch"]


def attack(tmp_path, item, engines=ENGINES):
    """Attack a graph that is not from Keras, which takes seconds to import."""
    tally = Tally()
    return soundness.attack_graph((3, 0, item), engines, tmp_path, tally), tally


@pytest.fixture(autouse=True)
def without_keras(monkeypatch):
    monkeypatch.setattr(soundness, "ORIGINS", [".onnx", "module", "module", ".pth"])


def test_nothing_disagrees_about_graphs(tmp_path):
    tried, disagreements = Counter(), []
    for item in range(3):
        certificates, tally = attack(tmp_path, item)
        for _ in range(5 if certificates else 0):
            certificates.forge()
        tried.update(tally.tried)
        disagreements += tally.disagreements
    assert disagreements == []
    assert tried["regions"] == 3 * soundness.REGIONS_IN_GRAPH
    assert min(tried["branch: fair"], tried["branch: unfair"], tried["forged certificates"]) > 0


def test_a_graph_is_the_same_each_time():
    first, again = (soundness.random_graph_case(np.random.default_rng(4), 5) for _ in range(2))
    assert first.network == again.network
    assert np.array_equal(first.X, again.X)


def test_false_verdicts_are_found(tmp_path, monkeypatch):
    certify = fairmend.certify

    def everyone_is_fair(network, spec, X, **options):
        result = certify(network, spec, X, **options)
        return SimpleNamespace(verdicts=[Verdict.FAIR] * len(X), witnesses=result.witnesses)

    monkeypatch.setattr(fairmend, "certify", everyone_is_fair)
    found = [text for item in range(3) for text in attack(tmp_path, item, ["enumerate"])[1].disagreements]
    assert any("says fair for input" in text for text in found)


def test_forged_certificates_that_are_accepted_are_found(tmp_path, monkeypatch):
    certificates, tally = next(
        found for item in range(9) if (found := attack(tmp_path, item, ["enumerate"]))[0] is not None
    )
    monkeypatch.setattr(forgeries, "check", lambda *_: SimpleNamespace(valid=True))
    for _ in range(20):
        certificates.forge()
    assert any("is accepted" in text for text in tally.disagreements)


def test_exact_values_are_within_the_error_of_those_in_float64():
    for seed in range(12):
        case = soundness.random_graph_case(np.random.default_rng(seed), 3)
        logits, error, _ = arithmetic.evaluate(case.network, case.X)
        for row, x in enumerate(case.X):
            with mpmath.workdps(60):
                found = [arithmetic._to_numbers(x)]
                for node in case.network.nodes[1:]:
                    before = [found[source] for source in node.sources]
                    found.append(arithmetic._compute_to_many_digits(node.operation, before))
                exact = [float(value) for value in found[-1]]
            exact[-1] -= arithmetic.offset_of(case.network.threshold)
            assert (np.abs(logits[row] - exact) <= error[row] + 1e-15 * np.abs(exact)).all()

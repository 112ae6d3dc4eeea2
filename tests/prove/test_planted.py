"""Trouble that was planted is found, and limits are kept honestly."""

import numpy as np
import pytest

from fairmend.audit.neighbours import sample_unequal
from fairmend.network import Activation, Network
from fairmend.prove.certify import certify
from fairmend.prove.engines.findings import TIME_LIMIT
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.certify_cases import CONTINUOUS, affine, check_witnesses, linear, sliver
from support.strategies import random_network


@pytest.mark.parametrize("engine", ["branch", "milp"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sliver_far_from_all_samples_is_found(engine, dtype):
    net = sliver(0.73123, 1e-4, dtype=dtype)
    X = CONTINUOUS.sample_inputs(20, np.random.default_rng(0), dtype)
    assert sample_unequal(net, CONTINUOUS, X, per_row=64).count == 0
    report = certify(net, CONTINUOUS, X, engine)
    assert report.unfair_rate == 1.0
    check_witnesses(net, CONTINUOUS, X, report)
    for witness in report.witnesses:
        assert abs(witness.other[0] - 0.73123) < 1e-4


@pytest.mark.parametrize("engine", ["branch", "milp"])
def test_the_same_network_without_the_sliver_is_fair(engine):
    net = sliver(1.5, 1e-4)  # outside the range
    X = CONTINUOUS.sample_inputs(20, np.random.default_rng(0))
    assert certify(net, CONTINUOUS, X, engine).counts["fair"] == 20


@pytest.mark.parametrize("engine", ["enumerate", "branch", "milp"])
@pytest.mark.parametrize("where", [31_337, 0, 99_999])
def test_one_unfair_point_of_a_large_lattice_is_found(engine, where):
    spec = Spec(
        [
            Feature("zip", "integer", range=(0, 99_999), protected=True),
            Feature("hours", "integer", range=(0, 99), tolerance=1),
        ]
    )
    net = sliver(float(where), 0.75)
    X = np.array([[5, 5], [77_000, 99], [40_000, 0]], np.float32)
    if where == 31_337:
        assert sample_unequal(net, spec, X).count == 0
    report = certify(net, spec, X, engine)
    assert report.unfair_rate == 1.0
    assert [w.other[0] for w in report.witnesses] == [where] * 3
    between = sliver(where + 0.5, 0.4)  # between two whole numbers nobody lives
    assert certify(between, spec, X, engine).counts["fair"] == 3


@pytest.mark.parametrize("engine", ["branch", "milp"])
def test_a_sliver_in_one_piece_of_a_one_hot_group_is_found_there(engine):
    spec = Spec(
        [
            Feature("score", "continuous", range=(0.0, 1.0), protected=True),
            Feature("group", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
        ]
    )
    # The dip ends below 0 for group c only.
    net = sliver(0.2718, 1e-3, others=3)
    net = Network(
        [affine(np.vstack([net.affines[0].weight, [[0, 0, 0, 1]]]), [*net.affines[0].bias, 0]),
         affine([[*net.affines[1].weight[0], -1.5]], [2.5])],
        net.activations,
    )  # fmt: skip
    X = np.array([[0.5, 1, 0, 0], [0.9, 0, 0, 1]], np.float32)
    report = certify(net, spec, X, engine)
    assert report.unfair_rate == 1.0
    for witness in report.witnesses:
        assert witness.other[1:].tolist() == [0, 0, 1]
        assert "score" in witness.describe(spec)


@pytest.mark.parametrize("engine", ["branch", "milp"])
def test_the_papers_running_example(engine):
    net = Network(
        [affine([[1.0, 6.0], [1.0, -6.0]], [0.0, 0.0], np.float64), affine([[-0.1, -0.1]], [1.0], np.float64)],
        [Activation("relu")],
    )
    spec = Spec(
        [
            Feature("x1", "continuous", range=(0, 8), protected=True),
            Feature("x2", "continuous", range=(-10, 10), tolerance=1),
        ]
    )
    report = certify(net, spec, np.array([[4.0, 0.0]]), engine)
    assert report.verdicts == (Verdict.UNFAIR,)
    check_witnesses(net, spec, np.array([[4.0, 0.0]]), report)
    # Example 2's repair, 1 - 0.1 (...) with the head's weights brought nearer to 0, is fair.
    repaired = Network([net.affines[0], affine([[-0.05, -0.05]], [1.0], np.float64)], net.activations)
    assert certify(repaired, spec, np.array([[4.0, 0.0]]), engine).verdicts == (Verdict.FAIR,)


@pytest.mark.parametrize("engine", ["enumerate", "branch", "milp"])
def test_a_time_limit_is_kept_and_what_is_open_is_unknown(engine):
    if engine == "enumerate":
        features = [Feature(f"f{i}", "integer", range=(0, 99), protected=True) for i in range(6)]
        net = linear(*[0.0] * 6, bias=1.0)
    else:
        features = [Feature(f"f{i}", "continuous", range=(0, 1), protected=True) for i in range(12)]
        net = random_network(np.random.default_rng(0), 12, [60, 60, 60])
        # Raised so far that no point is negative, but bounds are far from showing it.
        head = affine(net.head.weight, net.head.bias + 8)
        net = Network([*net.affines[:-1], head], net.activations)
    spec = Spec(features)
    X = spec.sample_inputs(8, np.random.default_rng(0))
    seen = []
    report = certify(net, spec, X, engine, time_limit=1.0, progress=lambda *step: seen.append(step))
    unknown = [i for i, verdict in enumerate(report.verdicts) if verdict is Verdict.UNKNOWN]
    assert unknown
    assert {report.reasons[i] for i in unknown} == {TIME_LIMIT}
    assert all(stage == "certify" and 0 <= done <= total == 8 for stage, done, total in seen)


def test_progress_counts_up_to_all_inputs():
    X = CONTINUOUS.sample_inputs(30, np.random.default_rng(0))
    for engine in ("branch", "milp"):
        seen = []
        certify(sliver(0.3, 0.01), CONTINUOUS, X, engine, progress=lambda *step, seen=seen: seen.append(step))
        assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
        assert seen[-1] == ("certify", 30, 30)


def test_a_hard_input_does_not_keep_the_others_from_being_decided():
    rng = np.random.default_rng(0)
    spec = Spec([Feature(f"f{i}", "continuous", range=(0, 1), protected=i < 8) for i in range(9)])
    net = random_network(rng, 9, [40, 40])
    first = affine(np.hstack([net.affines[0].weight[:, :8], np.zeros((40, 1))]), net.affines[0].bias)
    easy = affine(np.vstack([first.weight, np.eye(9)[8:]]), [*first.bias, 0])
    second = affine(np.block([[net.affines[1].weight, np.zeros((40, 1))], [np.zeros((1, 40)), np.ones((1, 1))]]), [*net.affines[1].bias, 0])  # fmt: skip  # noqa: E501
    # The last column lifts the logit: at 1 bounds prove the class at once, at 0 they hardly can.
    head = affine([[*net.head.weight[0], 1e4]], [net.logits(spec.sample_inputs(5000, rng)).min() * -1.05])
    net = Network([easy, second, head], net.activations)
    X = spec.sample_inputs(6, rng)
    X[:, 8] = [0, 1, 0, 1, 0, 1]
    report = certify(net, spec, X, "branch", time_limit=2.0)
    assert [report.verdicts[i] for i in (1, 3, 5)] == [Verdict.FAIR] * 3


def test_a_report_reads_well():
    X = CONTINUOUS.sample_inputs(4, np.random.default_rng(0))
    report = certify(sliver(0.3, 0.01), CONTINUOUS, X)
    assert repr(report).startswith("CertifyResult(4 inputs: 0 FAIR, 4 UNFAIR, 0 UNKNOWN; unfair rate 100.00%, engine")
    assert len(report) == 4
    assert report.as_dict(CONTINUOUS)["counts"] == {"fair": 0, "unfair": 4, "unknown": 0}

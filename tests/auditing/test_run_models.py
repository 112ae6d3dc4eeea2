"""The audit and `certify` of models that are only run, against enumeration in their own framework."""

import numpy as np
import pytest
import torch

import fairmend
from fairmend import FairmendError, Verdict, load_model
from fairmend.report import audit_report
from support import people_models

FRAME = people_models.people()
COLUMNS = ["age", "sex", "job", "hours"]
SPEC = people_models.people_spec()
X = SPEC.encode(FRAME, np.float64)


@pytest.fixture(scope="module")
def pipeline():
    return people_models.tree_pipeline(FRAME)


@pytest.fixture(scope="module")
def file(pipeline, tmp_path_factory):
    return people_models.save_tree_pipeline(pipeline, tmp_path_factory.mktemp("models") / "trees.onnx")


def decided(predict_proba, frame):
    return predict_proba(frame)[:, 1] >= 0.5


def unequal_by_sex(pipeline):
    sides = [decided(pipeline.predict_proba, FRAME[COLUMNS].assign(sex=sex)) for sex in ("female", "male")]
    return sides[0] != sides[1]


@pytest.mark.parametrize("kind", ["estimator", "file", "loaded file", "function"])
def test_an_audit_counts_what_the_framework_counts(pipeline, file, kind):
    model = {
        "estimator": pipeline,
        "file": file,
        "loaded file": load_model(file),
        "function": load_model(pipeline.predict_proba, takes="people"),
    }[kind]
    # A bound method of an estimator keeps the order of its classes: the spec's positive class is the second.
    result = fairmend.audit(model, SPEC, FRAME)
    expected = unequal_by_sex(pipeline)
    np.testing.assert_array_equal(result.unequal, expected)
    assert (result.count, result.exact, result.method) == (expected.sum(), True, "enumerate")
    assert result.count > 10
    pair = result.pairs[0]
    assert pair.values["sex"] != pair.other_values["sex"]
    assert {name for name in COLUMNS if pair.values[name] != pair.other_values[name]} == {"sex"}
    assert result.condition.startswith("every score was computed by ")


def test_a_module_is_audited_as_its_own_code_decides():
    module, spec = people_models.attention(), people_models.attention_spec()
    sides = []
    with torch.no_grad():
        module.eval()
        for sex in (0, 1):
            codes = torch.tensor(X[:, [1, 2]]).long()
            codes[:, 0] = sex
            sides.append(module(torch.tensor(X[:, [0, 3]]).float(), codes)[:, 0])
        module.head.bias -= torch.stack(sides).mean()
        sides = [side + module.head.bias - people_models.attention().head.bias for side in sides]
    expected = (sides[0] >= 0) != (sides[1] >= 0)
    result = fairmend.audit(module, spec, FRAME)
    assert (result.count, result.exact) == (int(expected.sum()), True)
    assert 0 < result.count < result.total
    certified = fairmend.certify(module, spec, FRAME)
    assert certified.counts["unfair"] == result.count
    assert certified.runtime.startswith("PyTorch ")


def test_infinitely_many_neighbours_are_sampled_and_stay_unknown(pipeline):
    spec = people_models.people_spec(hours={"kind": "continuous", "tolerance": 0.5})
    result = fairmend.audit(pipeline, spec, FRAME)
    assert (result.method, result.exact) == ("sample", False)
    certified = fairmend.certify(pipeline, spec, FRAME)
    assert certified.counts["unknown"] == len(FRAME)
    assert "hours, which is continuous" in certified.reasons[0]
    for method in ("branch", "exact", "enumerate"):
        with pytest.raises(FairmendError, match=r"only run|continuous.*use method sample"):
            fairmend.audit(pipeline, spec, FRAME, method=method)


def test_certify_says_what_ran_it_and_finds_what_the_audit_counts(pipeline, file):
    expected = unequal_by_sex(pipeline)
    for model, runtime in ((pipeline, "scikit-learn "), (file, "ONNX Runtime ")):
        result = fairmend.certify(model, SPEC, FRAME)
        assert [verdict is Verdict.UNFAIR for verdict in result.verdicts] == expected.tolist()
        assert result.counts["unknown"] == 0
        assert f"by enumeration in {runtime}" in repr(result)
        witness = next(w for w in result.witnesses if w is not None)
        assert witness.answer != witness.other_answer
        np.testing.assert_array_equal(witness.x[[0, 2, 3]], witness.other[[0, 2, 3]])


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_claims_about_scores_are_decided_by_running(pipeline, delta):
    spec = fairmend.Spec.from_dict({**SPEC.to_dict(), "claim": {"kind": "score", "delta": delta, "on": "probability"}})
    sides = [pipeline.predict_proba(FRAME[COLUMNS].assign(sex=sex))[:, 1] for sex in ("female", "male")]
    expected = np.abs(sides[0] - sides[1]) > delta
    assert fairmend.audit(pipeline, spec, FRAME).count == expected.sum()
    result = fairmend.certify(pipeline, spec, FRAME)
    assert [verdict is Verdict.UNFAIR for verdict in result.verdicts] == expected.tolist()
    witness = next((w for w in result.witnesses if w is not None), None)
    assert (witness is None) == (not expected.any())
    assert witness is None or witness.scores[1] - witness.scores[0] > delta


def test_too_large_neighbourhoods_are_unknown_and_the_others_are_not(pipeline, monkeypatch):
    monkeypatch.setattr("fairmend.prove.engines.enumerate.MOST_RUN", 1)
    result = fairmend.certify(pipeline, SPEC, FRAME)
    assert set(result.reasons) == {"2 counterfactuals are too many to run"}


def test_a_pair_that_another_batch_does_not_confirm_is_unknown(pipeline, monkeypatch):
    expected = unequal_by_sex(pipeline)
    monkeypatch.setattr("fairmend.models.RunModel.predict", lambda self, rows: np.zeros(len(rows), np.int64))
    result = fairmend.certify(pipeline, SPEC, FRAME)
    assert result.counts == {"fair": int((~expected).sum()), "unfair": 0, "unknown": int(expected.sum())}
    assert {reason for reason in result.reasons if reason} == {
        "two scores were different, but not in another batch: they are within rounding of the decision"
    }


def test_a_report_leaves_out_what_needs_a_network(pipeline):
    model = load_model(pipeline, spec=SPEC)
    result = fairmend.audit(model, SPEC, FRAME)
    report = audit_report(result, load_model(pipeline), SPEC, FRAME)
    assert report.document.page.what_if is None
    assert "this model is only run" in report.html
    assert report.document.utility.accuracy > 0.7


def test_what_needs_a_network_is_refused_by_name(pipeline, file, tmp_path):
    model = load_model(pipeline)
    for refusal, call in {
        "quantify needs a network.*audit and certify": lambda each: fairmend.quantify(each, SPEC, seconds=1),
        "search with adf follows gradients": lambda each: fairmend.search(each, SPEC, FRAME),
        "VNN-LIB needs a network.*audit and certify": lambda each: fairmend.export_vnnlib(
            each, SPEC, FRAME, tmp_path / "out"
        ),
    }.items():
        for each in (pipeline, file, model, lambda rows: np.tanh(rows[:, 0]) ** 2):
            with pytest.raises(FairmendError, match=refusal):
                call(each)
    for engine in ("branch", "milp"):
        with pytest.raises(FairmendError, match="only run; use engine enumerate"):
            fairmend.certify(pipeline, SPEC, FRAME, engine)


def test_finished_parts_are_continued_for_a_model_that_shows_what_it_is(pipeline, file, tmp_path):
    for model in (pipeline, file):
        folder = tmp_path / type(model).__name__
        first = fairmend.audit(model, SPEC, FRAME, resume=folder)
        assert fairmend.audit(model, SPEC, FRAME, resume=folder).count == first.count
    with pytest.raises(FairmendError, match="function, which may change"):
        fairmend.audit(load_model(pipeline.predict_proba, takes="people"), SPEC, FRAME, resume=tmp_path / "f")


class Drifting:
    """Scores by age, and from some row on otherwise for one person in ten."""

    def __init__(self, start):
        self.rows, self.start = 0, start

    def __call__(self, X):
        self.rows += len(X)
        old = np.where(X[:, 0] > 44, 0.8, 0.2)
        return np.where((X[:, 3] % 10 == 3) & (self.rows > self.start), 1 - old, old)


COMMANDS = {
    "audit": lambda model: fairmend.audit(model, SPEC, FRAME),
    "certify": lambda model: fairmend.certify(model, SPEC, FRAME),
    "search": lambda model: fairmend.search(model, SPEC, FRAME, method="grft", seeds=50, local_steps=5),
    "repair": lambda model: fairmend.repair(model, SPEC, X[:20], X[20:100], np.arange(80) % 2, method="average"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_scores_that_change_later_are_noticed(command):
    steady = Drifting(10**9)
    COMMANDS[command](steady)
    bound = Drifting(10**9)
    load_model(bound, spec=SPEC)
    for start in (bound.rows + 1, (bound.rows + steady.rows) // 2):
        with pytest.raises(FairmendError, match="not deterministic"):
            COMMANDS[command](Drifting(start))

"""What the report says is what the result, the audit and brute force say."""

import numpy as np
import pytest

import fairmend
from fairmend.audit.neighbours import find_unequal
from fairmend.errors import FairmendError
from fairmend.evaluate.claims import scope
from fairmend.evaluate.flips import find_twins
from fairmend.evaluate.groups import group_metrics
from fairmend.evaluate.utility import utility
from fairmend.report import repair_report
from fairmend.report.page import render
from support.cli_case import small_network, small_people, small_spec
from support.html_page import Page
from support.report_cases import audit_of, people, repair_of, repaired


@pytest.mark.parametrize("method", ["auto", "prof", "flip"])
def test_the_figures_of_a_repair_are_those_of_its_networks(method):
    result, spec, net, frame, y = repaired(method)
    document = repair_of(method).document
    said = document.repair
    X = spec.encode(frame)
    for figures, network in ((said.before, net), (said.after, result.network)):
        assert figures.unfair_rows == find_unequal(network, spec, X).count
        assert figures.unfair_inputs == find_unequal(network, spec, X[:30]).count
        good_for = utility(network, X, y)
        assert (figures.accuracy, figures.auc) == (good_for.accuracy, good_for.auc)
        assert (figures.balanced_accuracy, figures.positive_rate) == (
            good_for.balanced_accuracy,
            good_for.positive_rate,
        )
    assert said.changed_predictions == pytest.approx((net.predict(X) != result.network.predict(X)).mean())
    assert (said.proven, said.inputs, said.blind) == (result.proven, result.regions, result.blind)
    assert (said.changed_weights, said.total_weights) == (result.changed_weights, result.total_weights)
    assert sum(layer.changed for layer in said.weights.layers) == result.changed_weights
    assert sum(layer.total for layer in said.weights.layers) == result.total_weights
    assert said.task_loss == list(result.history.task)
    assert document.warnings == list(result.warnings)
    assert [c.name for c in said.candidates if c.chosen] == [c.recipe.name for c in result.candidates if c.chosen]
    assert all(candidate.why for candidate in said.candidates)
    for feature, before, after in zip(
        document.groups, group_metrics(net, spec, X, y), group_metrics(result.network, spec, X, y), strict=True
    ):
        assert feature.parity_before == before.demographic_parity_difference
        assert feature.odds_after == after.equalized_odds_difference
        rates = [group.positive_after for group in feature.groups]
        assert max(rates) - min(rates) == pytest.approx(after.demographic_parity_difference)
        assert sum(group.rows for group in feature.groups) == len(X)


def test_the_page_shows_them():
    text = Page(repair_of("prof").html).text
    said = repair_of("prof").document.repair
    assert f"before {said.before.unfair_inputs} → after 0" in text
    assert f"{100 * said.after.accuracy:.1f} %" in text
    assert f"{said.changed_weights:,} of {said.total_weights:,} weights" in text
    assert "fairmend check out/certificate.json out/model.onnx" in text
    assert "Each of the 30 repair inputs gets one answer, whatever its age and gender." in text
    assert f"none of {said.inputs} cross the line" in text


def test_the_verdict_claims_what_is_proven_and_no_more():
    everyone = scope(repair_of("auto").document)
    assert (everyone.mood, everyone.tag) == ("good", "Proven for everyone")
    some = scope(repair_of("prof").document)
    assert some.tag == "Proven for 30 repair inputs"
    assert any("still treated unequally" in words for words in some.limits)
    assert not any("still treated unequally" in words for words in everyone.limits)
    baseline = repair_of("flip").document
    left = baseline.repair.after.unfair_inputs
    none = scope(baseline)
    assert baseline.repair.proven < baseline.repair.inputs
    assert (none.mood, none.tag) == ("bad", "Not proven")
    assert none.verdict.startswith(f"{left} of the 30" if left else "The method flip gives no guarantee")


def test_an_audit_says_what_was_found():
    document = audit_of().document
    spec, frame, net = small_spec(), people(), small_network()
    found = fairmend.audit(net, spec, frame)
    unequal = find_unequal(net, spec, frame)
    assert (document.audit.count, document.audit.total) == (found.count, found.total) == (unequal.count, len(frame))
    assert document.pairs.total == found.count == len(document.pairs.rows) == document.flips.looked_at
    gender = next(f for f in document.groups if f.feature == "gender")
    for group in gender.groups:
        members = (frame["gender"] == group.name).to_numpy()
        assert group.rows == members.sum()
        assert group.unfair_rate == pytest.approx(unequal.rows[members].mean())
        assert group.positive_before == pytest.approx(net.predict(spec.encode(frame))[members].mean())
    verdict = scope(document).verdict
    assert verdict.startswith(f"{found.count} of 600 people (")
    assert verdict.endswith("would get another answer if only their age or gender were different.")


def test_nobody_unequal_and_nobody_found_are_two_things():
    spec, frame = small_spec(), people()
    blind = repaired("auto")[0].network
    fair = fairmend.report.audit_report(fairmend.audit(blind, spec, frame), blind, spec, frame).document
    assert scope(fair).mood == "good"
    assert "There are none" in render(fair)
    vague = small_spec(kind="continuous")
    unknown = fairmend.report.audit_report(fairmend.audit(blind, vague, frame), blind, vague, frame).document
    assert scope(unknown).mood == "open"
    assert "not every possibility could be tried" in scope(unknown).verdict


def test_pairs_differ_in_what_is_marked_and_in_the_answer():
    result, spec, net, frame, _ = repaired("prof")
    pairs = repair_of("prof").document.pairs
    for pair in pairs.rows:
        row = frame.iloc[pair.row]
        mine = dict(zip(pairs.columns, pair.values, strict=True))
        theirs = {name: other for name, other in zip(pairs.columns, pair.others, strict=True) if other is not None}
        assert set(theirs) == set(pair.differs) <= {"age", "gender"}
        assert {name: str(row[name]) for name in ("age", "gender", "credits")} == {
            name: mine[name] for name in ("age", "gender", "credits")
        }
        both = spec.encode(
            frame.iloc[[pair.row, pair.row]].assign(**{k: [row[k], _typed(v)] for k, v in theirs.items()})
        )
        assert net.predict(both).tolist() == pair.answers
        assert result.network.predict(both).tolist() == pair.answers_after
        assert pair.answers[0] != pair.answers[1]
        assert np.allclose(net.logits(both), pair.scores, atol=1e-5)


def _typed(text):
    return int(text) if text.isdigit() else text


def test_what_is_enough_alone_is_so_by_brute_force():
    spec, frame, net = small_spec(), small_people(60), small_network()
    X = spec.encode(frame)
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    twins = find_twins(net, spec, X, rows, unequal.other[rows])
    for k, row in enumerate(rows.tolist()):
        own = net.predict(X[[row]])[0]
        ages = frame.iloc[[row] * 58].assign(age=range(18, 76))
        genders = frame.iloc[[row] * 2].assign(gender=["f", "m"])
        alone = [bool((net.predict(spec.encode(others)) != own).any()) for others in (ages, genders)]
        assert twins.alone[k].tolist() == alone
        assert twins.differs[k].sum() == (1 if any(alone) else 2)
    flips = twins.flips()
    assert flips.alone["age"] == twins.alone[:, 0].sum()
    assert flips.together == (~twins.alone.any(axis=1)).sum()


def test_too_many_neighbours_still_give_pairs_that_hold(monkeypatch):
    spec, frame, net = small_spec(), people(), small_network()
    X = spec.encode(frame)
    unequal = find_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    monkeypatch.setattr("fairmend.evaluate.flips.MOST_POINTS", 100)
    twins = find_twins(net, spec, X, rows, unequal.other[rows])
    assert not twins.exact
    assert (net.predict(twins.other) != net.predict(twins.X)).all()
    assert twins.differs.any(axis=1).all()


def test_arrays_do_as_well_as_frames():
    result, spec, net, frame, y = repaired("prof")
    X = spec.encode(frame)
    report = repair_report(result, spec, net, X[:30], X, y)
    ours, theirs = report.document, repair_of("prof").document
    assert ours.repair.after == theirs.repair.after
    assert ours.ranges == theirs.ranges
    assert [pair.values for pair in ours.pairs.rows] == [pair.values for pair in theirs.pairs.rows]
    assert {file.role for file in ours.origin.files} == {"data", "repair inputs"}


def test_bad_arguments_are_refused_in_words():
    result, spec, net, frame, y = repaired("prof")
    X = spec.encode(frame)
    with pytest.raises(FairmendError, match="X_repair has 29 rows, the result is of 30"):
        repair_report(result, spec, net, X[:29], X, y)
    with pytest.raises(FairmendError, match="give y, or a DataFrame"):
        repair_report(result, spec, net, X[:30], X)
    with pytest.raises(FairmendError, match="y has shape"):
        repair_report(result, spec, net, X[:30], X, y[:5])

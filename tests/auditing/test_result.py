"""The result of an audit as text and as plain data, and its interval."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.auditing.result import make_pairs, user_values, wilson_interval
from fairmend.base.files import to_json
from fairmend.network import Affine, Network
from fairmend.network.model import ScoredRows
from support.audit_cases import SPEC, network, people
from support.probabilities import pair_probability


@given(st.integers(1, 10**7), st.floats(0, 1))
def test_the_interval_lies_around_the_rate(total, share):
    count = round(total * share)
    low, high = wilson_interval(count, total)
    assert 0 <= low <= count / total <= high <= 1
    assert low < high


@pytest.mark.parametrize(("count", "total", "low", "high"), [(0, 10, 0, 0.2775), (5, 10, 0.2366, 0.7634)])
def test_the_interval_is_wilsons(count, total, low, high):
    assert wilson_interval(count, total) == pytest.approx((low, high), abs=1e-4)


def test_the_result_is_plain_data_and_text():
    result = fairmend.audit(network(), SPEC, people(50), pairs=2)
    plain = json.loads(to_json(result.as_dict()))
    assert plain["count"] == result.count
    assert set(plain["pairs"][0]["values"]) == {"age", "gender", "hours", "income"}
    assert repr(result).startswith(f"AuditResult({result.count} of 50 inputs treated unequally, ")
    assert result.describe().count("\n") == 3
    assert result.evaluations >= SPEC.neighbourhood_sizes(people(50)).sum()


def test_values_are_the_users_own_with_as_many_digits_as_the_input_has():
    X = people(20)
    values = user_values(SPEC, X)
    decoded = SPEC.decode(X)
    assert values["age"] == decoded["age"].tolist()
    assert values["gender"] == decoded["gender"].tolist()
    assert values["income"] == pytest.approx(decoded["income"].tolist(), rel=1e-6)
    assert all(len(repr(value)) <= 12 for value in values["income"])  # 0.1, not 0.10000000149011612


def test_pairs_are_sorted_by_the_difference_in_score():
    net, X = network(), people(50)
    other = X.copy()
    other[:, 0] = 1 - other[:, 0]
    pairs = make_pairs(SPEC, range(100, 150), ScoredRows.of(net, X), other)
    gaps = np.abs(pair_probability(net, X, 1) - pair_probability(net, other, 1))
    assert [pair.gap for pair in pairs] == pytest.approx(sorted(gaps, reverse=True), rel=1e-4)
    assert sorted(pair.row for pair in pairs) == list(range(100, 150))


def test_sampling_that_finds_no_one_says_so():
    net = Network([Affine(np.full((1, SPEC.width), 1e-6, np.float32), np.ones(1, np.float32))], [])
    text = fairmend.audit(net, SPEC, people(20), method="sample").describe()
    assert text.startswith("none of 20 inputs was found to be treated unequally\n")


@pytest.mark.parametrize("outputs", [1, 3])
def test_python_shows_probabilities_as_the_terminal_does(outputs):
    result = fairmend.audit(network(outputs), SPEC, people(80), pairs=3)
    table = result.to_frame()
    assert table["score"].between(0, 1).all()
    assert table["score"].tolist() == [score for pair in result.pairs for score in pair.scores]
    for pair in result.pairs:
        expected = pair_probability(network(outputs), np.stack([pair.x, pair.other]), pair.answers[0])
        assert pair.scores == pytest.approx(expected, abs=1e-6)
        number = 1 if outputs == 1 else pair.answers[0]
        what = f"probability of {pair.answer_names[pair.answers.index(number)]}"
        shown = pair.describe().replace("\N{NO-BREAK SPACE}", " ")
        assert f"{what} {100 * pair.scores[0]:.1f} %" in shown
        assert pair.describe() in result.describe()
        assert (pair.output is None) == (outputs == 1)
    assert "probability" in result._repr_html_()

"""Chunks of inputs get the same verdicts and witnesses on any engine, and a run continues after its end."""

import json

import numpy as np
import pytest

import fairmend.prove.certify as certifying
from fairmend.base.errors import FairmendError
from fairmend.prove.certify import HERE, _cut, certify
from fairmend.spec import Claim, Feature, Spec
from support.certify_cases import AGE, GENDER, HOURS, INCOME, balanced_network
from support.engines import PickledEngine

SPEC = Spec([AGE, GENDER, HOURS, INCOME])
NET = balanced_network(5, SPEC, "relu")
X = SPEC.sample_inputs(23, np.random.default_rng(0))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(certifying, "_FEWEST", 5)
    monkeypatch.setattr(certifying, "_FEW_INPUTS", 5)


def content(result):
    """All but the time."""
    return json.dumps({**result.as_dict(SPEC), "seconds": None}), [w and w.other.tobytes() for w in result.witnesses]


@pytest.mark.parametrize("engine", ["enumerate", "branch", "milp"])
def test_workers_give_the_same_bits_as_one_core(engine):
    workers, some = PickledEngine(), X[:7]
    found = certify(NET, SPEC, some, engine, cluster=workers)
    assert content(found) == content(certify(NET, SPEC, some, engine))
    assert workers.sent == [0, 1]


def test_scores_are_certified_on_workers_too():
    spec = Spec(SPEC.features, claim=Claim("score", 0.2, "probability"))
    workers = PickledEngine()
    found = certify(NET, spec, X, cluster=workers)
    assert content(found) == content(certify(NET, spec, X))
    assert workers.sent == [0, 1, 2, 3, 4]


def test_few_inputs_stay_here():
    workers = PickledEngine()
    certify(NET, SPEC, X[:5], cluster=workers)
    assert workers.sent == []


def test_two_processes_give_the_same_as_one():
    assert content(certify(NET, SPEC, X, jobs=2)) == content(certify(NET, SPEC, X))


def test_a_run_continues_from_the_chunks_that_it_kept(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        certify(NET, SPEC, X, "branch", cluster=PickledEngine(dies_after=3), resume=tmp_path)
    rest = PickledEngine()
    found = certify(NET, SPEC, X, "branch", cluster=rest, resume=tmp_path)
    assert content(found) == content(certify(NET, SPEC, X, "branch"))
    assert len(rest.sent) == 2
    with pytest.raises(FairmendError, match="another set of options"):
        certify(NET, SPEC, X, "enumerate", resume=tmp_path)
    with pytest.raises(FairmendError, match="of other data"):
        certify(NET, SPEC, X[::-1], "branch", resume=tmp_path)


def test_progress_counts_the_chunks_of_workers():
    seen = []
    certify(NET, SPEC, X, cluster=PickledEngine(), progress=lambda *step: seen.append(step))
    assert seen == [("certify", done, 23) for done in (5, 10, 15, 20, 23)]


def test_an_error_of_a_worker_is_one_line():
    spec = Spec([AGE, GENDER, HOURS, Feature("income", "continuous", range=(0, 100), tolerance=1)])
    people = spec.sample_inputs(23, np.random.default_rng(0))
    with pytest.raises(FairmendError, match=r"income, which is continuous.*use engine branch"):
        certify(balanced_network(5, spec, "relu"), spec, people, "enumerate", cluster=PickledEngine())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs is 0"),
        ({"jobs": 2, "device": "cuda"}, "workers compute on the CPU"),
        ({"jobs": 2, "cluster": "tcp://localhost:1"}, "either jobs or cluster"),
        ({"cluster": "nowhere"}, "is not known"),
    ],
)
def test_what_does_not_fit_is_one_line(options, message):
    with pytest.raises(FairmendError, match=message):
        certify(NET, SPEC, X, **options)


@pytest.mark.parametrize("workers", [PickledEngine(), HERE], ids=["elsewhere", "here"])
def test_every_chunk_has_its_share_of_the_time(workers):
    cut = list(_cut(X, 10, 60.0, None, workers))
    assert [len(chunk.X) for chunk in cut] == [10, 10, 3]
    if workers.is_here:
        assert cut[0].seconds == pytest.approx(60 * 10 / 23, rel=0.1)
        assert cut[2].seconds == pytest.approx(60, rel=0.1)  # nothing was used before
    else:
        assert [chunk.seconds for chunk in cut] == [60 * 3 * n / 23 for n in (10, 10, 3)]

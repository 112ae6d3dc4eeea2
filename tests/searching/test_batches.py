"""Batches of seeds find the same people on any engine, and a search continues after its end."""

import numpy as np
import pytest

import fairmend
from fairmend.base.errors import FairmendError
from support.engines import PickledEngine
from support.search_cases import METHODS, biased, people, spec

SPEC = spec()
NET = biased(SPEC, bias=0.05)
X = people(SPEC)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr("fairmend.searching.run._FEWEST", 8)
    monkeypatch.setattr("fairmend.searching.run._MOST", 8)


def search(method="adf", net=NET, case=SPEC, X=X, **more):
    return fairmend.search(net, case, X, method, **({"seeds": 30, "local_steps": 12} | more))


def content(result):
    """All but the time."""
    return {**result.as_dict(), "seconds": None}, result.idis.tobytes(), result.others.tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_workers_find_the_same_bits_as_one_core(method):
    workers = PickledEngine()
    found = search(method, cluster=workers)
    assert content(found) == content(search(method))
    assert workers.sent == [0, 1, 2, 3]
    assert found.seeds == 30
    assert found.count > 5


def test_workers_use_the_same_random_part_of_large_neighbourhoods():
    case = spec(protected=("age", "sex", "job"), tolerance=3)
    net, rows = biased(case), people(case)
    found = search("adf", net, case, rows, cluster=PickledEngine())
    assert content(found) == content(search("adf", net, case, rows))


def test_people_whom_several_batches_find_are_reported_once():
    found = search(X=np.repeat(X[:1], 30, axis=0), net=biased(SPEC), local_steps=40)
    kept = [c for f in SPEC.features if not f.protected for c in range(SPEC.width)[SPEC.columns(f.name)]]
    assert found.count == len(np.unique(found.idis[:, kept], axis=0)) > 5
    assert (biased(SPEC).predict(found.idis) != biased(SPEC).predict(found.others)).all()


def test_few_seeds_are_one_batch_that_stays_here(monkeypatch):
    workers = PickledEngine()
    few = search(seeds=8, cluster=workers)
    assert workers.sent == []
    monkeypatch.setattr("fairmend.searching.run._MOST", 1000)
    assert content(few) == content(search(seeds=8))


def test_batches_of_wide_networks_are_smaller(monkeypatch):
    monkeypatch.setattr("fairmend.searching.run._MOST", 16)
    weights = sum(affine.weight.size for affine in NET.affines)
    monkeypatch.setattr("fairmend.searching.run._WORK", 10 * weights * (10 + 12))
    workers = PickledEngine()
    search(cluster=workers)
    assert workers.sent == [0, 1, 2]


def test_two_processes_find_the_same_as_one():
    assert content(search(jobs=2)) == content(search())


def test_a_search_continues_from_the_batches_that_it_kept(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        search(cluster=PickledEngine(dies_after=2), resume=tmp_path)
    rest = PickledEngine()
    assert content(search(cluster=rest, resume=tmp_path)) == content(search())
    assert len(rest.sent) == 2
    with pytest.raises(FairmendError, match="for another set of options; choose"):
        search(seed=1, resume=tmp_path)
    with pytest.raises(FairmendError, match="for another model; choose"):
        search(net=biased(SPEC, seed=3), resume=tmp_path)
    with pytest.raises(FairmendError, match="of other data"):
        search(X=X[:100], resume=tmp_path)


@pytest.mark.parametrize("workers", [None, PickledEngine()], ids=["here", "workers"])
def test_progress_counts_the_seeds_of_all_batches(workers):
    seen = []
    search(cluster=workers, net=biased(SPEC), progress=lambda *step: seen.append(step))
    stages, done, totals = zip(*seen, strict=True)
    assert (set(stages), set(totals)) == ({"search"}, {30})
    assert list(done) == sorted(done)
    assert {8, 16, 24, 30} <= set(done)


def test_wrong_numbers_of_jobs_and_devices_of_workers_are_refused():
    with pytest.raises(FairmendError, match="jobs is 0"):
        search(jobs=0)
    with pytest.raises(FairmendError, match="workers compute on the CPU"):
        search(jobs=2, device="cuda")

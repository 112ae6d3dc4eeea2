"""Fairness testers: they find what is there, everything they report is true, and nothing is reported twice."""

import numpy as np
import pytest

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.network import Affine, Network
from fairmend.searching.result import SearchResult
from fairmend.searching.run import draw_seeds
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people as huge_people
from support.price_case import price_network, price_people, price_spec
from support.search_cases import METHODS, biased, blind, people, spec


def test_seeds_come_from_all_clusters_in_turn():
    centres = np.array([[0, 0], [50, 0], [0, 50], [50, 50]], dtype=np.float32)
    sizes = (400, 30, 20, 10)
    X = np.repeat(centres, sizes, axis=0) + np.random.default_rng(0).normal(size=(sum(sizes), 2)).astype(np.float32)
    seeds = draw_seeds(X, 40, np.random.default_rng(0))
    near = np.linalg.norm(seeds[:, None] - centres, axis=2).argmin(axis=1)
    assert np.bincount(near).tolist() == [10, 10, 10, 10]
    assert len(draw_seeds(X, 10_000, np.random.default_rng(0))) == len(X)


SMALL = {"seeds": 60, "local_steps": 40}


def search(net, case, method, **more):
    return fairmend.search(net, case, people(case), method, **(SMALL | more))


def unprotected(case, X):
    """The columns (rows, k) that no protected feature holds."""
    kept = [c for f in case.features if not f.protected for c in range(case.width)[case.columns(f.name)]]
    return X[:, kept]


def confirm(net, case, report):
    """Everything a report says about its IDIs must hold."""
    assert report.count == len(report.idis) == len(report.others)
    X = case.as_inputs(report.idis)
    case.as_inputs(report.others)
    assert np.array_equal(X, report.idis)
    assert (net.predict(report.idis) != net.predict(report.others)).all()
    assert len(np.unique(unprotected(case, X), axis=0)) == report.count
    regions = case.regions(X)
    others = report.others[regions.owner]
    inside = ((regions.lower <= others) & (others <= regions.upper)).all(axis=1)
    assert set(regions.owner[inside]) == set(range(report.count))
    if case.finite:
        assert report.exact
        assert find_unequal(net, case, X).rows.all()


CASES = {
    "one-hot job": spec(),
    "ordinal job": spec(one_hot=False),
    "protected one-hot": spec(protected=("job",)),
    "several protected": spec(protected=("sex", "age")),
    "tolerance": spec(tolerance=2),
    "more than 512 neighbours": spec(protected=("age", "sex", "job"), tolerance=3),
    "continuous protected": spec(protected=("age",), age="continuous"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_idis_of_a_biased_network_are_found_and_confirmed(method, case):
    net = biased(case)
    report = search(net, case, method)
    assert isinstance(report, SearchResult)
    assert report.count > 50
    assert 0 < report.starts <= report.seeds == 60
    assert report.calls > 60
    confirm(net, case, report)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", [spec(), spec(protected=("sex", "job"), tolerance=1)], ids=["strict", "tolerance"])
def test_nothing_is_found_where_everyone_is_treated_equally(method, case):
    for outputs in (1, 3):
        report = search(blind(case, outputs), case, method)
        assert (report.count, report.starts) == (0, 0)
        assert report.idis.shape == report.others.shape == (0, case.width)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("protected", [("sex",), ("age",)])
def test_several_outputs(method, protected):
    case = spec(protected=protected)
    net = biased(case, outputs=3)
    report = search(net, case, method)
    assert report.count > 20
    confirm(net, case, report)


@pytest.mark.parametrize("method", METHODS)
def test_the_local_phase_adds_to_the_global_one(method):
    case = spec()
    net = biased(case)
    without = search(net, case, method, local_steps=0)
    assert search(net, case, method).count > without.count > 0


@pytest.mark.parametrize("method", METHODS)
def test_the_global_phase_finds_more_than_the_seeds_hold(method):
    """With little bias few seeds are unequal themselves; steps towards the decision make more of them so."""
    case = spec(one_hot=False)
    net = biased(case, bias=0.05)
    seeds = search(net, case, method, seeds=150, global_steps=0, local_steps=0)
    steps = search(net, case, method, seeds=150, local_steps=0)
    assert steps.starts > seeds.starts


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_decides_everything(method):
    case = spec(protected=("age", "sex", "job"), tolerance=3)  # a neighbourhood of which only a part is drawn
    net = biased(case)
    first, again, other = (search(net, case, method, seed=seed, local_steps=10) for seed in (3, 3, 4))
    assert np.array_equal(first.idis, again.idis)
    assert np.array_equal(first.others, again.others)
    assert first.calls == again.calls
    assert not np.array_equal(first.idis, other.idis)


@pytest.mark.parametrize("method", METHODS)
def test_a_network_without_hidden_layers_and_one_that_never_moves(method):
    case = spec()
    net = biased(case)
    weight = net.affines[0].weight[:1]
    alone = Network([Affine(weight, -np.median(people(case) @ weight.T, axis=0))], [])
    report = search(alone, case, method)
    assert report.count > 0
    confirm(alone, case, report)
    dead = net.with_affines([Affine(a.weight * 0, a.bias) for a in net.affines])
    assert search(dead, case, method).count == 0


@pytest.mark.parametrize("method", METHODS)
def test_a_spec_with_nothing_to_change(method):
    """Only protected features: no one differs in what is not protected, so there is one IDI at most."""
    case = fairmend.Spec([fairmend.Feature("sex", "categorical", categories=("f", "m"), protected=True)])
    net = Network([Affine(np.ones((1, 1), np.float32), np.full(1, -0.5, np.float32))], [])
    report = fairmend.search(net, case, np.array([[0.0], [1.0], [1.0]]), method, local_steps=5)
    assert report.count == 1


def test_fewer_rows_than_seeds_and_than_clusters():
    case = spec()
    report = fairmend.search(biased(case), case, people(case, rows=2), seeds=50, local_steps=5)
    assert report.seeds == 2


def test_a_data_frame_is_encoded():
    case = spec()
    net, X = biased(case), people(case)
    encoded, frame = (fairmend.search(net, case, data, **SMALL) for data in (X, case.decode(X)))
    assert frame.seeds == encoded.seeds
    confirm(net, case, frame)


def test_progress_names_the_stages_and_ends_at_the_end():
    case, calls = spec(), []
    search(biased(case), case, "adf", progress=lambda *call: calls.append(call))
    last = {stage: (done, total) for stage, done, total in calls}
    assert list(last) == ["global", "local", "confirm"]
    assert last["local"] == (40, 40)
    assert all(done == total for done, total in last.values())


def test_the_report_says_what_was_found():
    case = spec()
    report = search(biased(case), case, "eidig")
    assert f"eidig: {report.count:,} IDIs" in repr(report)
    plain = report.as_dict()
    assert (plain["count"], plain["calls"], plain["method"]) == (report.count, report.calls, "eidig")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "adff"}, 'unknown tester "adff"'),
        ({"seeds": 0}, "seeds is 0"),
        ({"local_steps": -1}, "local_steps is -1"),
        ({"global_steps": -1}, "global_steps is -1"),
    ],
)
def test_bad_options_are_refused(options, message):
    case = spec()
    with pytest.raises(fairmend.FairmendError, match=message):
        fairmend.search(biased(case), case, people(case), **options)


def test_a_network_of_another_width_is_refused():
    with pytest.raises(fairmend.FairmendError, match="the network reads 8 columns, but the spec describes 6"):
        fairmend.search(biased(spec()), spec(one_hot=False), people(spec(one_hot=False)))


@pytest.mark.parametrize("name", HUGE)
def test_neighbourhoods_of_any_size_are_searched(name):
    net, X, _ = huge_people(HUGE[name])
    found = fairmend.search(net, HUGE[name], X, "adf", seeds=5, local_steps=3)
    assert not found.exact


@pytest.mark.parametrize("method", METHODS)
def test_a_claim_about_scores_is_refused_by_name(method):
    X = price_spec().encode(price_people(5))
    with pytest.raises(fairmend.FairmendError, match=f"the search with {method} compares classes"):
        fairmend.search(price_network(), price_spec(), X, method)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_found_is_unequal_at_the_threshold(method):
    labelled = fairmend.Spec(spec().features, fairmend.Label("outcome", "1", 0.55))
    net = biased(labelled)
    at = net.at_threshold(0.55)
    found = fairmend.search(net, labelled, people(labelled), method, seeds=20, local_steps=5)
    assert found.count
    assert (at.predict(found.idis) != at.predict(found.others)).all()

"""A planned scan cuts long blocks into parts, and gives bounds their share of the time."""

from dataclasses import replace

import numpy as np
import pytest

from fairmend import FairmendError, audit
from fairmend.auditing.inputs import GivenInputs
from fairmend.auditing.neighbours import find_unequal
from fairmend.auditing.plan import AuditPlan
from fairmend.auditing.slices import PlannedScan, TimeShare, keep_plan, open_kept_audit
from fairmend.network import Affine, Network
from fairmend.spec import Spec
from fairmend.tables import stream_table, write_csv
from fairmend.workers.engine import HERE
from support.audit_cases import AGE, GENDER, HOURS, INCOME, SPEC, network, people, without_time
from support.engines import PickledEngine


def planned(method, neighbours=580):
    return PlannedScan(network(), SPEC, AuditPlan(method, 400, neighbours, 0.1), 8, 0)


def task(scanner, X, limit=None):
    return next(scanner.tasks(iter([X]), np.random.default_rng(0), limit))


@pytest.mark.parametrize(("method", "parts"), [("enumerate", 4), ("sample", 1), ("branch", 1)])
def test_long_blocks_are_enumerated_in_parts(method, parts):
    X = people(400)
    cut = list(planned(method, 640_000).parts(iter([X])))
    assert len(cut) == parts
    assert np.array_equal(np.concatenate(cut), X)
    assert len(list(planned(method, 60_000).parts(iter([X])))) == 1


@pytest.mark.parametrize("method", ["enumerate", "branch"])
def test_every_unequal_input_has_a_witness(method):
    scanner, X = planned(method), people(60)
    found = scanner.scan(task(scanner, X, TimeShare(60.0, 60)))
    expected = find_unequal(network(), SPEC, X).rows
    assert np.array_equal(found.unequal, expected)
    rows, first, other = scanner.witnesses(X, found)
    assert np.array_equal(rows, np.flatnonzero(expected))
    assert np.array_equal(first, X[rows])
    assert (network().predict(other) != network().predict(first)).all()


def test_without_time_everything_open_is_unknown():
    scanner = planned("branch")
    found = scanner.scan(task(scanner, people(60), TimeShare(1e-9, 60)))
    assert (found.unequal | found.unknown).sum() >= found.unequal.sum()
    assert not (found.unequal & found.unknown).any()


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table in six slices."""
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 64)
    for number, rows in enumerate((200, 1, 77, 130)):
        part = SPEC.decode(people(rows, seed=number))
        part.to_parquet(tmp_path / f"{number}.parquet", row_group_size=100)
    table = stream_table(tmp_path)
    parts = [
        replace(part, first=part.first + 100 * (group > 0), rows=min(100, part.rows - 100 * group), groups=(group,))
        for part in table.parts
        for group in part.groups
    ]
    assert [part.rows for part in parts] == [100, 100, 1, 77, 100, 30]
    return replace(table, parts=tuple(parts))


def same(one, other):
    assert without_time(one) == without_time(other)
    assert np.array_equal(one.disparity.differences, other.disparity.differences)
    for name in ("logits", "unequal"):
        assert np.array_equal(getattr(one.rows, name), getattr(other.rows, name))
    for name in ("X", "rows", "unequal"):
        assert np.array_equal(getattr(one.examined, name), getattr(other.examined, name))
    return True


@pytest.mark.parametrize("method", ["enumerate", "sample"])
def test_slices_on_workers_give_the_answer_of_one_process(table, method):
    found = []
    one, many = (
        audit(network(), SPEC, table, method=method, cluster=engine, witnesses=lambda *pair: found.append(pair))
        for engine in (None, PickledEngine())
    )
    assert same(one, many)
    assert one.total == 408
    half = len(found) // 2
    for mine, theirs in zip(found[:half], found[half:], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
    rows = np.concatenate([rows for rows, _, _ in found[:half]])
    assert np.array_equal(rows, np.flatnonzero(one.rows.unequal))


def test_slices_give_the_exact_answer_of_all_rows_at_once(table):
    whole = audit(network(), SPEC, np.concatenate([SPEC.encode(frame) for frame in table]))
    sliced = audit(network(), SPEC, table)
    assert (sliced.count, sliced.total) == (whole.count, whole.total)
    assert [pair.row for pair in sliced.pairs] == [pair.row for pair in whole.pairs]
    assert np.array_equal(sliced.examined.rows, whole.examined.rows)


def test_bounds_on_workers_give_the_answer_of_one_process(table):
    small = replace(table, parts=table.parts[2:4], total=78)
    assert same(*(audit(network(), SPEC, small, method="branch", cluster=each) for each in (None, PickledEngine())))


def test_two_processes_give_the_answer_of_one(monkeypatch):
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 64)
    X = people(500)
    assert same(*(audit(network(), SPEC, X, method="sample", jobs=jobs) for jobs in (1, 2)))


def test_a_single_block_needs_no_worker():
    engine = PickledEngine()
    assert audit(network(), SPEC, people(50), cluster=engine).total == 50
    assert engine.sent == []


@pytest.mark.parametrize("data", ["table", "array", "samples"])
def test_an_audit_continues_where_its_program_ended(table, tmp_path, data):
    X = {"table": table, "array": people(500), "samples": None}[data]

    def run(engine):
        options = {"method": "sample", "samples": 500, "resume": tmp_path / "state"}
        return audit(network(), SPEC, X, cluster=engine, **options)

    with pytest.raises(KeyboardInterrupt):
        run(PickledEngine(dies_after=4))
    rest = PickledEngine()
    assert same(run(rest), audit(network(), SPEC, X, method="sample", samples=500))
    assert 0 < len(rest.sent) < 5
    assert same(run(None), run(PickledEngine()))


def test_ranges_of_one_csv_file_are_audited_by_workers_and_after_an_interruption(tmp_path, monkeypatch):
    monkeypatch.setattr("fairmend.tables.csv_files.RANGE_BYTES", 1000)
    frame = SPEC.decode(people(300))
    write_csv(tmp_path / "people.csv", frame)
    columns, slices = list(frame), len(stream_table(tmp_path / "people.csv").parts)
    assert slices > 4

    def run(engine, **options):
        table = stream_table(tmp_path / "people.csv", spool=columns, engine=engine).only(columns)
        return audit(network(), SPEC, table, method="sample", cluster=engine, **options)

    one = run(HERE)
    assert same(one, run(PickledEngine()))
    with pytest.raises(KeyboardInterrupt):
        run(PickledEngine(dies_after=3), resume=tmp_path / "state")
    rest = PickledEngine()
    assert same(run(rest, resume=tmp_path / "state"), one)
    assert 0 < len(rest.sent) < slices
    whole, ranges = (
        audit(network(), SPEC, X, method="enumerate") for X in (frame, stream_table(tmp_path / "people.csv"))
    )
    assert (whole.total, whole.count) == (ranges.total, ranges.count)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"net": network(seed=1)}, "another model"),
        ({"seed": 1}, "another set of options"),
        ({"method": "enumerate"}, "another set of options"),
        ({"pairs": 3}, "another set of options"),
    ],
)
def test_parts_of_another_audit_are_refused(table, tmp_path, change, named):
    given = {"net": network(), "spec": SPEC, "X": table, "method": "sample", "resume": tmp_path / "state"}
    audit(**given)
    with pytest.raises(FairmendError, match=f"holds results for {named}"):
        audit(**{**given, **change})


def test_an_array_that_changed_is_refused(tmp_path):
    X = people(300)
    audit(network(), SPEC, X, resume=tmp_path / "state")
    X[7, -1] = 0.123
    with pytest.raises(FairmendError, match="part-000000: is of other data"):
        audit(network(), SPEC, X, resume=tmp_path / "state")


def test_a_file_that_workers_do_not_see_is_named(table):
    there = table.parts[3].file
    gone = replace(table.parts[3], file=replace(there, name=f"{there.name}.elsewhere"))
    broken = replace(table, parts=(*table.parts[:3], gone, *table.parts[4:]))
    with pytest.raises(FairmendError, match=r"2\.parquet\.elsewhere: the worker on .* does not see this file"):
        audit(network(), SPEC, broken, method="enumerate", cluster=PickledEngine())


def test_an_audit_without_jobs_is_refused():
    with pytest.raises(FairmendError, match="jobs is 0; it must be at least 1"):
        audit(network(), SPEC, people(5), jobs=0)


def test_the_estimate_is_that_of_all_workers():
    plans = []
    for jobs in (1, 2):
        audit(network(), SPEC, people(5), jobs=jobs, on_plan=plans.append)
    assert plans[1] == replace(plans[0], seconds=plans[0].seconds / 2)


def opened(folder, net=None, spec=SPEC, options=None):
    inputs = GivenInputs.of(SPEC, people(5), np.float32, None, None)
    return open_kept_audit(folder, network() if net is None else net, spec, inputs, options or {"seed": 0})


def test_the_same_model_is_recognised_after_it_has_been_used(tmp_path):
    net = network()
    opened(tmp_path, net)
    net.predict(people(5))
    opened(tmp_path, net)
    opened(tmp_path, network())


def test_another_weight_activation_or_range_is_refused(tmp_path):
    net = network()
    opened(tmp_path, net)
    weight = net.affines[0].weight.copy()
    weight[0, 0] = np.nextafter(weight[0, 0], 1)
    nudged = Network([Affine(weight, net.affines[0].bias), *net.affines[1:]], net.activations)
    with pytest.raises(FairmendError, match="another model"):
        opened(tmp_path, nudged)
    with pytest.raises(FairmendError, match="another spec"):
        opened(tmp_path, spec=Spec([replace(AGE, range=(18, 76)), GENDER, HOURS, INCOME]))
    with pytest.raises(FairmendError, match="another set of options"):
        opened(tmp_path, options={"seed": 1})


def test_the_plan_of_the_first_run_stays(tmp_path):
    first, later = AuditPlan("sample", 5, None, 0.25, None), AuditPlan("branch", 5, 7, 0.5, 0.1)
    assert keep_plan(opened(tmp_path), first) == first
    assert keep_plan(opened(tmp_path), later) == first

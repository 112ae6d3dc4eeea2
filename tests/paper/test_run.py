"""A run can be interrupted and continued, and is not mixed with another."""

from pathlib import Path

import pytest

from fairmend import FairmendError
from fairmend.paper import protocol, tables
from fairmend.paper import run as bench_run
from fairmend.paper.protocol import Sources
from support.bench_cases import fake_cell


@pytest.fixture
def made(monkeypatch):
    """Jobs that compute nothing: the list of what was made, settings with methods."""
    done = []

    def make(setting, method):
        if len(done) == 40:
            done.append("killed")
            raise KeyboardInterrupt
        done.append((setting, method))
        return setting, method

    monkeypatch.setattr(protocol, "repair_network", make)
    monkeypatch.setattr(protocol, "_setting", lambda name, sources: name)
    monkeypatch.setattr(protocol, "repair_cell", lambda setting, network, samples: fake_cell(*network))
    monkeypatch.setattr(protocol, "tester_cell", lambda setting, network, tester, *effort: {"count": len(network[1])})
    monkeypatch.setattr(protocol, "load_setting", lambda name, sources: name)
    monkeypatch.setattr(protocol, "loss_cell", lambda setting: {"fair": [1.0, 0.5], "task": [0.3, 0.3]})
    return done


def test_a_killed_run_goes_on_where_it_was(tmp_path, made):
    with pytest.raises(KeyboardInterrupt):
        bench_run.run("table2", tmp_path, Sources(), protocol.QUICK)
    results = bench_run.run("table2", tmp_path, Sources(), protocol.QUICK, resume=True)
    assert len(made) == len(set(made)) == 22 * len(tables.METHODS) + 1
    assert results.tables[0].header == ("setting", *tables.METHODS)


def test_runs_of_different_kinds_are_not_mixed(tmp_path, made):
    made.extend(["x"] * 41)
    bench_run.run("timing", tmp_path, Sources(), protocol.QUICK)
    with pytest.raises(FairmendError, match="continue it with --resume"):
        bench_run.run("timing", tmp_path, Sources(), protocol.QUICK)
    with pytest.raises(FairmendError, match="another --quick"):
        bench_run.run("timing", tmp_path, Sources(), protocol.Effort(), resume=True)


def test_all_makes_each_network_once_and_draws_every_figure(tmp_path, made):
    made.extend(["x"] * 41)
    results = bench_run.run("all", tmp_path, Sources(), protocol.QUICK)
    networks = made[41:]
    assert len(networks) == len(set(networks)) == 22 * (len(tables.METHODS) + 1)
    assert {table.name for table in results.tables} == {*bench_run.WHAT, "summary"}
    assert [title for title, _ in results.figures[:2]] == ["accuracy in percent after the repair", "optimum of step 2"]
    assert len(results.figures) == 2 + 9


def test_a_folder_without_a_finished_cell_is_empty(tmp_path, made, monkeypatch):
    made.extend(["x"] * 41)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(protocol, "repair_network", stopped)
        with pytest.raises(KeyboardInterrupt):
            bench_run.run("timing", tmp_path, Sources(), protocol.Effort())
    assert (tmp_path / "run.json").is_file()
    results = bench_run.run("timing", tmp_path, Sources(), protocol.QUICK)  # another effort, without --resume
    assert [table.name for table in results.tables] == ["timing"]


def test_a_run_goes_on_from_another_folder(tmp_path, made, monkeypatch):
    made.extend(["x"] * 41)
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    first = bench_run.run("timing", tmp_path / "out", Sources(Path("models")), protocol.QUICK)
    count = len(made)
    monkeypatch.chdir(tmp_path / "models")
    again = bench_run.run("timing", tmp_path / "out", Sources(Path("../models")), protocol.QUICK, resume=True)
    assert len(made) == count  # no network was repaired again
    assert again == first
    with pytest.raises(FairmendError, match="other folders"):
        bench_run.run("timing", tmp_path / "out", Sources(Path("models")), protocol.QUICK, resume=True)

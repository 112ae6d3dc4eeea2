"""The bench: the paper's numbers as printed, cells computed once, tables that hold both."""

import csv
import io
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.bench import jobs, tables
from fairmend.bench import run as bench_run
from fairmend.bench.cells import Store
from fairmend.bench.figures import comparison_figure, loss_figure
from fairmend.bench.protocol import Sources, load_setting, paper_numbers, setting_names
from fairmend.bench.render import show_tables, write_tables
from fairmend.bench.tables import Entry, Table
from fairmend.cli.bench import run_bench


def fake_cell(setting, method):
    value = float(len(setting) + len(method)) / 4
    keys = ("CUR", "IDI-D", "IDI-S", "accuracy", "balanced", "AUC", "positive", "seconds")
    return {
        **dict.fromkeys(keys, value),
        "certificate": "everyone" if method == "auto" else "97 of 100",
        "objective": value,
    }


@pytest.mark.parametrize(
    ("kind", "method", "metric", "printed"),
    [
        ("single", "Original", "CUR", 9.22),
        ("single", "FLIP", "CUR", 3.56),
        ("single", "CARE", "IDI-D", 4.54),
        ("single", "GRFT", "IDI-S", 1.31),
        ("single", "Ours", "IDI-D", 0.43),
        ("single", "Ours", "IDI-S", 0.33),
        ("multi", "Original", "IDI-D", 26.26),
        ("multi", "FLIP", "CUR", 8.71),
        ("multi", "Ours", "IDI-S", 0.83),
        ("relaxed", "GRFT", "CUR", 1.50),
        ("relaxed", "Ours", "IDI-D", 0.52),
    ],
)
def test_the_papers_numbers_have_the_means_that_the_paper_prints(kind, method, metric, printed):
    values = [paper_numbers()["repair"][setting][method][metric] for setting in setting_names(kind)]
    assert np.mean(values) == pytest.approx(printed, abs=0.0051)


def test_the_papers_tester_ratios_have_its_means():
    for method, printed in {"FLIP": (0.61, 0.60, 0.89, 0.64), "Ours": (0.06, 0.12, 0.05, 0.16)}.items():
        for tester, mean in zip(tables.TESTERS, printed, strict=True):
            values = [paper_numbers()["testers"][setting][method][tester] for setting in setting_names("strict")]
            assert np.mean(values) == pytest.approx(mean, abs=0.0051)


def test_there_are_22_settings_in_the_papers_order():
    assert [len(setting_names(kind)) for kind in ("single", "multi", "relaxed", "strict", "all")] == [9, 7, 6, 16, 22]
    assert setting_names()[0] == "compas-sex"


def test_a_cell_is_computed_once_and_never_again(tmp_path):
    calls = []
    for _ in range(2):
        assert Store(tmp_path).get("a/b", lambda: calls.append(1) or {"x": 1}) == {"x": 1}
    assert Store(tmp_path).read("a/b") == {"x": 1}
    assert calls == [1]


def test_a_cell_that_fails_leaves_nothing_behind(tmp_path):
    with pytest.raises(ZeroDivisionError):
        Store(tmp_path).get("a/b", lambda: {"x": 1 / 0})
    assert not list(tmp_path.rglob("*.json"))


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

    monkeypatch.setattr(jobs, "repair_network", make)
    monkeypatch.setattr(jobs, "_setting", lambda name, sources: name)
    monkeypatch.setattr(jobs, "repair_cell", lambda setting, network, samples: fake_cell(*network))
    monkeypatch.setattr(jobs, "tester_cell", lambda setting, network, tester, *effort: {"count": len(network[1])})
    monkeypatch.setattr(jobs, "load_setting", lambda name, sources: name)
    monkeypatch.setattr(jobs, "loss_cell", lambda setting: {"fair": [1.0, 0.5], "task": [0.3, 0.3]})
    return done


def test_a_killed_run_goes_on_where_it_was(tmp_path, made):
    with pytest.raises(KeyboardInterrupt):
        bench_run.run("table2", tmp_path, Sources(), jobs.QUICK)
    results = bench_run.run("table2", tmp_path, Sources(), jobs.QUICK, resume=True)
    assert len(made) == len(set(made)) == 22 * len(tables.METHODS) + 1
    assert results.tables[0].header == ("setting", *tables.METHODS)


def test_runs_of_different_kinds_are_not_mixed(tmp_path, made):
    made.extend(["x"] * 41)
    bench_run.run("timing", tmp_path, Sources(), jobs.QUICK)
    with pytest.raises(FairmendError, match="continue it with --resume"):
        bench_run.run("timing", tmp_path, Sources(), jobs.QUICK)
    with pytest.raises(FairmendError, match="another --quick"):
        bench_run.run("timing", tmp_path, Sources(), jobs.Effort(), resume=True)


def test_all_makes_each_network_once_and_draws_every_figure(tmp_path, made):
    made.extend(["x"] * 41)
    results = bench_run.run("all", tmp_path, Sources(), jobs.QUICK)
    networks = made[41:]
    assert len(networks) == len(set(networks)) == 22 * (len(tables.METHODS) + 1)
    assert {table.name for table in results.tables} == {*bench_run.WHAT, "summary"}
    assert [title for title, _ in results.figures[:2]] == ["accuracy in percent after the repair", "optimum of step 2"]
    assert len(results.figures) == 2 + 9


def test_jobs_run_in_other_processes(tmp_path):
    store = Store(tmp_path)
    effort = jobs.QUICK
    failing = [jobs.LossJob("compas-shoe", seed) for seed in range(2)]
    with pytest.raises(FairmendError, match="unknown setting"):
        list(jobs.run_jobs(failing, store, Sources(), effort, workers=2))


def test_tables_hold_ours_and_the_papers(tmp_path):
    found = [
        *tables.table1(fake_cell),
        *tables.table2(fake_cell),
        *tables.table3(fake_cell),
        *tables.table4(lambda *which: 0.5),
        *tables.timing(fake_cell),
        tables.naive(fake_cell),
    ]
    assert found[0].rows["prof"][0] == Entry(3.5, 0.0, "best")
    assert all(len(entries) == len(table.header) - 1 for table in found for entries in table.rows.values())
    write_tables(tmp_path, found, [("a figure", "<svg></svg>")])
    rows = list(csv.DictReader(io.StringIO((tmp_path / "tables.csv").read_text())))
    assert {row["table"] for row in rows} == {"table1", "table2", "table3", "table4", "rq4", "timing"}
    assert "| flip |" in (tmp_path / "tables.md").read_text()
    assert "<svg></svg>" in (tmp_path / "tables.html").read_text()
    assert (tmp_path / "a-figure.svg").read_text() == "<svg></svg>\n"


def test_names_are_escaped_on_the_page(tmp_path):
    table = Table("t", "<script>alert(1)</script>", ("row", "<b>"), {"<i>": [Entry(1.0, 2.0, "best")]})
    write_tables(tmp_path, [table])
    page = (tmp_path / "tables.html").read_text()
    assert "<script>" not in page
    assert "<i>" not in page
    assert "1.00 (2.00)" in page


def test_the_summary_counts_who_agrees_with_the_paper():
    def as_printed(setting, method):
        printed = paper_numbers()["repair"][setting].get(tables.PAPER_NAME.get(method, ""), {})
        return {"accuracy": 0.0, **printed, "CUR": 1.0}

    rows = tables.summary(as_printed).rows
    assert [entry.ours for entry in rows["original, IDI-D"][:2]] == [22, 22]
    assert [entry.ours for entry in rows["prof, accuracy"][:2]] == [0, 9]
    assert rows["prof, CUR"][3].word.startswith("compas-sex, compas-race")


def test_tables_print(capsys):
    from rich.console import Console

    show_tables(Console(width=200), tables.table1(fake_cell))
    assert "IDI-D in percent" in capsys.readouterr().out


def test_the_loss_figure_is_one_svg():
    svg = loss_figure("x", {"a": np.ones((3, 5)), "b": np.zeros((3, 5))})
    assert svg.startswith("<svg")
    assert svg.count("<polyline") == 2


def test_missing_values_and_zeros_are_left_out_of_a_log_scale():
    svg = comparison_figure("<x>", ["a", "b"], {"one": [1.0, 0.0], "two": [None, 10.0]}, logarithmic=True)
    assert svg.count("<circle") == 2
    assert "&lt;x&gt;" in svg
    assert "nan" not in svg


def test_a_setting_reads_the_papers_sets(shared):
    reference = shared / "reference" / "splits"
    setting = load_setting("compas-sex", Sources(shared / "models", shared / "data", reference))
    assert setting.X_repair.shape == (100, 6)
    drawn = load_setting("compas-sex", Sources(shared / "models", shared / "data"))
    assert drawn.X_repair.shape == (100, 6)
    assert not np.array_equal(drawn.X_repair, setting.X_repair)
    assert (setting.uniform(50) <= setting.dataset.bounds[:, 1]).all()
    with pytest.raises(FairmendError, match="unknown setting"):
        load_setting("compas-shoe", Sources(shared / "models", shared / "data"))


def test_a_missing_folder_is_refused_on_the_command_line(tmp_path):
    from click.testing import CliRunner

    from fairmend.cli.main import main

    result = CliRunner().invoke(main, ["bench", "table1", "--out", str(tmp_path / "out"), "--models-dir", "nowhere"])
    assert result.exit_code == 2
    assert "nowhere: no such folder" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_finished_cell_is_empty(tmp_path, made, monkeypatch):
    made.extend(["x"] * 41)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "repair_network", stopped)
        with pytest.raises(KeyboardInterrupt):
            bench_run.run("timing", tmp_path, Sources(), jobs.Effort())
    assert (tmp_path / "run.json").is_file()
    bench_run.run("timing", tmp_path, Sources(), jobs.QUICK)


def test_a_run_goes_on_from_another_folder(tmp_path, made, monkeypatch):
    made.extend(["x"] * 41)
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    bench_run.run("timing", tmp_path / "out", Sources(Path("models")), jobs.QUICK)
    monkeypatch.chdir(tmp_path / "models")
    bench_run.run("timing", tmp_path / "out", Sources(Path("../models")), jobs.QUICK, resume=True)


def test_an_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FairmendError, match=r"out: is a file; give a folder \(--out\)"):
        run_bench("table1", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_sigterm_ends_a_run_like_ctrl_c(tmp_path, monkeypatch):
    def terminated(*_, **__):
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("fairmend.bench.run.run", terminated)
    with pytest.raises(KeyboardInterrupt):
        run_bench("table1", tmp_path / "out", json_output=True)
    assert signal.getsignal(signal.SIGTERM) == before

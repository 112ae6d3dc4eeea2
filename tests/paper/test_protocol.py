"""The settings, and the paper's numbers as printed."""

import sys

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.paper import tables
from fairmend.paper.protocol import (
    QUICK,
    LossJob,
    Sources,
    Store,
    default_workers,
    load_setting,
    paper_numbers,
    run_jobs,
    setting_names,
)

# A cell is computed once, and written whole or not at all.


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


def test_jobs_run_in_other_processes(tmp_path):
    store = Store(tmp_path)
    failing = [LossJob("compas-shoe", seed) for seed in range(2)]
    with pytest.raises(FairmendError, match="unknown setting"):
        list(run_jobs(failing, store, Sources(), QUICK, workers=2))


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    message = r"needs the package joblib of the extra bench\. Run pip install 'fairmend\[bench\]'"
    with pytest.raises(FairmendError, match=message):
        list(run_jobs([], Store(tmp_path), Sources(), QUICK, workers=1))
    with pytest.raises(FairmendError, match=message):
        default_workers()


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

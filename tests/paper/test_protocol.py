"""The settings, and the paper's numbers as printed."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.paper import tables
from fairmend.paper.protocol import Sources, load_setting, paper_numbers, setting_names


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

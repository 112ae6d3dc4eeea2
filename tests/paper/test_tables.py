"""Tables hold our numbers and the paper's."""

import csv
import io

import numpy as np

from fairmend.paper import tables
from fairmend.paper.protocol import paper_numbers
from fairmend.paper.tables import Entry, Table, comparison_figure, loss_figure, show_tables, write_tables
from support.bench_cases import fake_cell

# Figures are SVG texts that show every value they can.


def test_the_loss_figure_is_one_svg():
    svg = loss_figure("x", {"a": np.ones((3, 5)), "b": np.zeros((3, 5))})
    assert svg.startswith("<svg")
    assert svg.count("<polyline") == 2


def test_missing_values_and_zeros_are_left_out_of_a_log_scale():
    svg = comparison_figure("<x>", ["a", "b"], {"one": [1.0, 0.0], "two": [None, 10.0]}, logarithmic=True)
    assert svg.count("<circle") == 2
    assert "&lt;x&gt;" in svg
    assert "nan" not in svg


def test_names_are_escaped_on_the_page(tmp_path):
    table = Table("t", "<script>alert(1)</script>", ("row", "<b>"), {"<i>": [Entry(1.0, 2.0, "best")]})
    write_tables(tmp_path, [table])
    page = (tmp_path / "tables.html").read_text()
    assert "<script>" not in page
    assert "<i>" not in page
    assert "1.00 (2.00)" in page


def test_tables_print(capsys):
    from rich.console import Console

    show_tables(Console(width=200), tables.table1(fake_cell))
    assert "IDI-D in percent" in capsys.readouterr().out


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


def test_the_summary_counts_who_agrees_with_the_paper():
    def as_printed(setting, method):
        printed = paper_numbers()["repair"][setting].get(tables.PAPER_NAME.get(method, ""), {})
        return {"accuracy": 0.0, **printed, "CUR": 1.0}

    rows = tables.summary(as_printed).rows
    assert [entry.ours for entry in rows["original, IDI-D"][:2]] == [22, 22]
    assert [entry.ours for entry in rows["prof, accuracy"][:2]] == [0, 9]
    assert rows["prof, CUR"][3].word.startswith("compas-sex, compas-race")

"""Tables hold our numbers and the paper's."""

import csv
import io

from fairmend.paper import tables
from fairmend.paper.protocol import paper_numbers
from fairmend.paper.render import write_tables
from fairmend.paper.tables import Entry
from support.bench_cases import fake_cell


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

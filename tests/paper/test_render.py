"""Tables in the terminal and in files."""

from fairmend.paper import tables
from fairmend.paper.render import show_tables, write_tables
from fairmend.paper.tables import Entry, Table
from support.bench_cases import fake_cell


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

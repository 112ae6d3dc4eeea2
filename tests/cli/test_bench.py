"""`fairmend bench`: what it refuses, how it ends, and which extra it needs."""

from support.cli_case import refused, run


def test_a_missing_folder_is_refused_on_the_command_line(tmp_path):
    refused(run("bench", "table1", "--out", tmp_path / "out", "--models-dir", "nowhere"), "nowhere: no such folder")
    assert not (tmp_path / "out").exists()


def test_an_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    refused(run("bench", "table1", "--out", tmp_path / "out"), "out: this is a file; choose a folder for --out")
    assert (tmp_path / "out").read_text() == "mine"

"""`fairmend bench`: what it refuses, how it ends, and which extra it needs."""

from support.cli_case import run


def test_a_missing_folder_is_refused_on_the_command_line(tmp_path):
    result = run("bench", "table1", "--out", tmp_path / "out", "--models-dir", "nowhere")
    assert result.exit_code == 2
    assert "nowhere: no such folder" in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    refused = run("bench", "table1", "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "out: this is a file; choose a folder for --out" in refused.stderr
    assert (tmp_path / "out").read_text() == "mine"

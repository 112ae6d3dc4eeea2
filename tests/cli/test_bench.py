"""`fairmend bench`: what it refuses, how it ends, and which extra it needs."""

import pytest

from fairmend import FairmendError
from fairmend.cli.bench import run_bench


def test_a_missing_folder_is_refused_on_the_command_line(tmp_path):
    from click.testing import CliRunner

    from fairmend.cli.main import main

    result = CliRunner().invoke(main, ["bench", "table1", "--out", str(tmp_path / "out"), "--models-dir", "nowhere"])
    assert result.exit_code == 2
    assert "nowhere: no such folder" in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FairmendError, match=r"out: this is a file; choose a folder for --out"):
        run_bench("table1", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"

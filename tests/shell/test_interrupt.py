"""Ctrl-C: exit 130, a clean state, and words on how to go on."""

import os
import signal
import subprocess
import sys
import time

import pytest

import fairmend.commands.bench as bench
from cli_case import Case, run

COMMAND = [sys.executable, "-c", "from fairmend.cli import main; main(prog_name='fairmend')"]
AGAIN = "interrupted; nothing was written; run the same command again"


def interrupted_after(words, arguments, folder):
    """Run the command, send it SIGINT once its log says the words, and return how it ended."""
    log = folder / "run.log"
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments), "--log-file", str(log)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not (log.exists() and words in log.read_text()):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline, log.read_text() if log.exists() else "no log"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    log.unlink()
    return process.returncode, stdout, stderr


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_certify_stops_and_says_that_nothing_was_written(tmp_path):
    case = Case(tmp_path)
    before = case.listing()
    # Continuous features all over, and a network on which branching takes long.
    import numpy as np

    from cli_case import small_spec
    from fairmend.spec import Spec
    from strategies import random_network

    features = [{"name": f"x{i}", "kind": "continuous", "range": [-3, 3], "protected": True} for i in range(12)]
    Spec(features).save(case.spec)
    random_network(np.random.default_rng(0), 12, [60, 60, 60], 1, "tanh").save(case.model)
    rng = np.random.default_rng(1)
    case.data.write_text(
        "\n".join(
            [",".join(f"x{i}" for i in range(12)), *(",".join(map(str, r)) for r in rng.uniform(-3, 3, (500, 12)))]
        )
    )
    before = case.listing()
    arguments = ["certify", case.model, "--spec", case.spec, "--data", case.data, "--engine", "branch",
                 "--certificate", tmp_path / "c.json"]  # fmt: skip
    code, stdout, stderr = interrupted_after("certify 500 inputs", arguments, tmp_path)
    assert (code, stdout, stderr.strip()) == (130, "", AGAIN)
    assert case.listing() == before
    assert small_spec()


def test_bench_says_how_to_resume(tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", stopped)
    result = run("bench", "table1", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "go on with --resume" in result.stderr
    assert "nothing was written" not in result.stderr

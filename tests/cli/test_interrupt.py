"""Ctrl-C: exit 130, a clean state, and a message that says how to continue."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import fairmend.paper.run as bench
from fairmend.spec import Feature, Spec
from support.cli_case import Case, run
from support.interrupts import take_interrupts
from support.strategies import random_network

COMMAND = [sys.executable, "-c", "from fairmend.cli.main import main; main(prog_name='fairmend')"]
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
        preexec_fn=take_interrupts,
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
    columns = [f"x{i}" for i in range(12)]
    # Everything varies, and the network curves: branching takes long.
    Spec([Feature(name, "continuous", range=(-3, 3), protected=True) for name in columns]).save(case.spec)
    random_network(np.random.default_rng(0), 12, [60, 60, 60], 1, "tanh").save(case.model)
    case.write(pd.DataFrame(np.random.default_rng(1).uniform(-3, 3, (500, 12)), columns=columns))
    before = case.listing()
    arguments = ["certify", case.model, "--spec", case.spec, "--data", case.data, "--engine", "branch"]
    code, stdout, stderr = interrupted_after(
        "certify 500 inputs", [*arguments, "--certificate", tmp_path / "c.json"], tmp_path
    )
    assert (code, stdout, stderr.strip()) == (130, "", AGAIN)
    assert case.listing() == before


def test_bench_says_how_to_resume(tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", stopped)
    result = run("bench", "table1", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "continue with --resume" in result.stderr
    assert "nothing was written" not in result.stderr


def test_an_audit_that_keeps_its_parts_says_so(tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    case = Case(tmp_path)
    monkeypatch.setattr("fairmend.workflows.audit.audit", stopped)
    command = ["audit", case.model, "--spec", case.spec, "--data", case.data, "--no-report"]
    kept, without = run(*command, "--resume", tmp_path / "parts"), run(*command)
    assert (kept.exit_code, without.exit_code) == (130, 130)
    assert "finished parts are kept: run the same command again to continue" in kept.stderr
    assert "nothing was written" in without.stderr

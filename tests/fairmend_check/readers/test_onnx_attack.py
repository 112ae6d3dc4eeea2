"""A short run of benchmarks/readers/onnx_graphs.py: random graphs of ONNX's operators, and faults that it must find."""

import numpy as np
import pytest

from benchmarks.readers import onnx_graphs as script
from fairmend.network.formats.onnx import conversion
from fairmend_check.readers import onnx_graph


@pytest.fixture(scope="module")
def runtime():
    process = script.Runtime(None)
    yield process
    process.close()


def attacked(runtime, tmp_path, numbers):
    """Return what was counted and found among the graphs with these numbers."""
    tally = script.Tally()
    attack = script.Attack([runtime], tmp_path, tally)
    with np.errstate(all="ignore"):
        for number in numbers:
            attack.graph(0, number)
    return tally


def test_onnx_runtime_stays_within_what_is_read(runtime, tmp_path):
    tally = attacked(runtime, tmp_path, range(300))
    assert tally.findings == []
    assert tally.counts["graphs"] == 300
    assert tally.counts["read by both"] > 120
    name = f"ONNX Runtime {runtime.version}, optimised"
    assert tally.counts[f"{name}: graphs run"] > 120
    assert 0 < tally.worst[name] <= 1


def test_a_node_that_onnx_runtime_leaves_out_is_found(runtime, tmp_path, monkeypatch):
    """Readers once took one number of 2^-150 for what it is."""
    monkeypatch.setattr(onnx_graph, "_LOST", 0.0)
    monkeypatch.setattr(conversion, "_LOST", 0.0)
    findings = attacked(runtime, tmp_path, range(60, 100)).findings
    assert any("optimised" in found and "times the bound" in found for found in findings)


def test_a_reader_that_errs_is_found(runtime, tmp_path, monkeypatch):
    monkeypatch.setitem(onnx_graph._OPERATORS, "Neg", onnx_graph.OnnxGraph._pass)
    findings = attacked(runtime, tmp_path, range(200)).findings
    assert any("ONNX Runtime" in found and "Neg" in found for found in findings)
    assert any("fairmend: " in found for found in findings)


def test_a_file_that_ends_the_process_is_no_answer_and_the_next_one_is_run(tmp_path):
    process = script.Runtime(None)
    process.process.kill()
    process.process.wait()
    assert set(process.answer().values()) == {"the process ended"}
    case = script.draw_case(0, 0)
    process.ask(case.model.SerializeToString(), [case.feed(script.draw_rows(case, np.random.default_rng(0), 3))])
    assert set(process.answer()) == {"ORT_DISABLE_ALL", "ORT_ENABLE_ALL"}
    process.close()

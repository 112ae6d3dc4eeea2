"""The command line of the checker: arguments, output and exit codes."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import fairmend
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certificate import certificate_of_fair
from fairmend.spec import Claim, Feature, Label, Spec
from fairmend_check.main import _show_progress, _wrapped, main
from fairmend_check.result import CheckResult
from support.checker_cases import case, rounding_case, write


@pytest.fixture
def files(tmp_path):
    certificate, model = case(spec="tolerance").save(tmp_path)
    return str(certificate), str(model)


def test_a_valid_certificate_exits_with_0(files, capsys):
    assert main(list(files)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"VALID: {files[0]} holds for {files[1]}."
    assert lines[1].startswith(
        "Proven: For each of the 4 inputs listed in this certificate, the prediction of this model stays"
    )
    assert lines[2].startswith(
        "Condition: the file does not decide. The claim is about a program that predicts class 1 "
    )
    assert " The program encodes numbers as the spec does, (value - mean) / std, in " in lines[2]
    assert lines[3].startswith("The least margin of 4 neighbourhoods is ")
    assert lines[3].endswith(", above all rounding errors of inference.")
    assert lines[4].startswith("The model was not run: ONNX Runtime is not installed.")
    assert lines[5].startswith("Checked in ")


@pytest.mark.runs_models
def test_a_run_is_printed_and_part_of_the_json(files, capsys):
    assert main([*files, "--require-run"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Run in ONNX Runtime ")]
    assert line.endswith(" people, all outputs within the bounds of the proof.")
    assert main([*files, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["runs"][0].keys() == {"program", "people"}
    assert content["not_run"] == ""
    assert main([*files, "--no-run"]) == 0
    assert "The model was not run: --no-run" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([*files, "--no-run", "--require-run"])
    assert ended.value.code == 2


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_the_condition_of_a_state_dict_is_printed_and_part_of_the_json(tmp_path, capsys, suffix):
    arguments = [str(path) for path in case(spec="tolerance").save(tmp_path, suffix)]
    assert main(arguments) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Condition: ")]
    assert '"layers.0" (3 to 6), relu, "layers.1" (6 to 5), relu, "layers.2" (5 to 1)' in line
    assert main([*arguments, "--json"]) == 0
    assert f"Condition: {json.loads(capsys.readouterr().out)['condition']}" == line


def test_other_formats_have_no_condition_but_the_encoding(files, tmp_path, capsys):
    assert main([*files, "--json"]) == 0
    assert " The program encodes numbers as the spec does" in json.loads(capsys.readouterr().out)["condition"]
    made = case(spec="continuous")
    plain = made.save(tmp_path)
    assert main([*map(str, plain), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["condition"] == (
        "the file does not decide. The claim is about a program that predicts class 1 if the output is at least 0, or "
        "its sigmoid at least 0.5."
    )
    closed = Network(made.network.affines, made.network.activations, closing="sigmoid")
    closed.save(tmp_path / "closed.onnx")
    certificate = write(tmp_path, made.content, "closed.json")
    assert main([str(certificate), str(tmp_path / "closed.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["condition"] == ""


def test_a_probability_that_is_the_output_of_a_layer_is_decided_at_0(tmp_path):
    """Everyone's is above 0, so that the prediction at 0 is the same: the condition says that it is this one."""
    layers = [
        Affine(np.array([[2.8]], np.float32), np.array([-0.4], np.float32)),
        Affine(np.eye(1, dtype=np.float32), np.zeros(1, np.float32)),
    ]
    network = Network(layers, [Activation("sigmoid")])
    spec = Spec([Feature("sex", "integer", range=(0, 1), protected=True)], Label("y", "1"))
    made, _ = certificate_of_fair(network, spec, np.array([[0.0]], np.float32))
    network.save(tmp_path / "model.onnx")
    made.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    result = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx", run=False)
    assert result.valid
    assert "a program that predicts class 1 if the output is at least 0" in result.condition


def with_two_outputs(tmp_path, nodes, claim=None):
    """Return the result of a check of a file with 2 outputs, after which come these nodes."""
    node, first = helper.make_node, numpy_helper.from_array
    graph = helper.make_graph(
        [node("Gemm", ["x", "W", "b"], ["z" if nodes else "y"], transB=1), *nodes],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 1])],
        [helper.make_tensor_value_info("y", 1, ["n", 1 if len(nodes) > 1 else 2])],
        [
            first(np.array([[0.1], [-0.1]], np.float32), "W"),
            first(np.array([0, 8], np.float32), "b"),
            *([first(np.array([1]), "second")] if len(nodes) > 1 else []),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), tmp_path / "m.onnx")
    spec = Spec([Feature("sex", "integer", range=(0, 1), protected=True)], Label("y", "1"), claim=claim)
    made, _ = certificate_of_fair(fairmend.load_network(tmp_path / "m.onnx"), spec, np.array([[0.0]], np.float32))
    made.save(tmp_path / "certificate.json", tmp_path / "m.onnx")
    result = fairmend.check(tmp_path / "certificate.json", tmp_path / "m.onnx")
    assert result.valid, result.reasons
    return result


LOG_SOFTMAX = helper.make_node("LogSoftmax", ["z"], ["y"], axis=1)
SECOND_OF_TWO = [
    helper.make_node("LogSoftmax", ["z"], ["p"], axis=1),
    helper.make_node("Gather", ["p", "second"], ["y"], axis=1),
]


@pytest.mark.parametrize(
    ("nodes", "how"), [([], "the class with the largest output"), (SECOND_OF_TWO, "class 1 if the exponential of the")]
)
def test_a_file_that_does_not_decide_between_two_outputs_says_so(tmp_path, nodes, how):
    """The second output may be no score of a class, and a logarithm of a probability is below 0 for everyone."""
    assert f"file does not decide. The claim is about a program that predicts {how}" in (
        with_two_outputs(tmp_path, nodes).condition
    )


def test_scores_before_a_log_softmax_are_said_to_be_those(tmp_path):
    """They differ by 0.1, and the outputs of the file, which come after it, by 0.2."""
    result = with_two_outputs(tmp_path, [LOG_SOFTMAX], Claim("score", on="logit", delta=0.11))
    assert "each raw output of this model, before a closing sigmoid, softmax or log-softmax" in result.claim


def test_a_terminal_gets_lines_that_break_between_words(files, capsys, monkeypatch):
    assert main(list(files)) == 0
    claim = capsys.readouterr().out.splitlines()[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(list(files)) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert max(map(len, lines[:3])) <= 60
    assert claim in " ".join(line.strip() for line in lines)


def test_an_invalid_certificate_exits_with_1_and_lists_the_reasons(files, tmp_path, capsys):
    content = case(spec="tolerance").content
    content["inputs"][:2, 1] = 99
    changed = write(tmp_path, content, "changed.json")
    assert main([str(changed), files[1]]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"INVALID: {changed} does not hold for {files[1]}."
    assert [line[:17] for line in lines[1:]] == ["  - input 0: feat", "  - input 1: feat"]


def test_progress_is_shown_on_a_terminal_only_and_leaves_no_trace(files, capsys, monkeypatch):
    assert main(list(files)) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    _show_progress(1, 4)
    assert capsys.readouterr().err == "\rChecked 1 of 4\r"
    assert main(list(files)) == 0
    assert capsys.readouterr().err.strip() == ""


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_missing_file_exits_with_2(files, place, capsys):
    arguments = [*files, files[1]]
    arguments[place] = "absent"
    assert main([arguments[0], arguments[1], "--spec", arguments[2]]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Error: absent: no such file\n")


def test_a_name_that_no_file_can_have_exits_with_2(files, capsys):
    assert main([files[0], "x" * 5000]) == 2
    assert "no such file" in capsys.readouterr().err


def test_json_is_one_document(files, capsys):
    assert main([*files, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["valid"], content["certificate"], content["model"]) == (True, *files)
    assert set(content) == {*fairmend.check(*files).as_dict(), "certificate", "model"}


def test_the_verdict_is_coloured_on_a_terminal_only(files, capsys, monkeypatch):
    main(list(files))
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(list(files))
    assert capsys.readouterr().out.startswith("\x1b[32m\x1b[1mVALID\x1b[0m: ")
    monkeypatch.setenv("NO_COLOR", "1")
    main(list(files))
    assert "\x1b" not in capsys.readouterr().out


def test_the_module_runs_as_a_program(files):
    result = subprocess.run([sys.executable, "-m", "fairmend_check", *files], capture_output=True, text=True)
    assert (result.returncode, result.stdout[:7]) == (0, "VALID: ")


def test_names_beyond_the_terminals_letters_are_printed(tmp_path):
    content = case().content
    content["model"]["dtype"] = "größe"
    _, model = case().save(tmp_path)
    changed = write(tmp_path, content)
    result = subprocess.run(
        [sys.executable, "-m", "fairmend_check", changed, model],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert result.returncode == 2
    assert b"gr\\xf6\\xdfe" in result.stdout


def test_a_name_in_a_certificate_cannot_draw_another_verdict(capsys, monkeypatch):
    hostile = "age\x1b[1A\x1b[2KVALID: c.json holds for m.onnx.\nProven\u202e"
    for valid in (False, True):
        result = CheckResult(valid, () if valid else (hostile,), hostile, 1, True, 0.5, 0.1)
        monkeypatch.setattr("fairmend_check.main.check_files", lambda *_, result=result, **__: result)
        monkeypatch.setattr("fairmend_check.main._exists", lambda _: True)
        assert main(["c.json", "m.onnx"]) == (0 if valid else 1)
        printed = capsys.readouterr().out
        assert not any(sign in printed for sign in ("\x1b", "\u202e"))
        assert r"age\x1b[1A\x1b[2KVALID: c.json holds for m.onnx.\nProven\u202e" in printed
        assert len(printed.splitlines()) == (4 if valid else 2)


def test_a_claim_about_real_arithmetic_needs_real(tmp_path, capsys):
    files = [str(path) for path in rounding_case().save(tmp_path)]
    assert main(files) == 1
    assert "rounding may change a prediction in inference; to accept that claim, pass --real" in capsys.readouterr().out
    assert main([*files, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["valid"] is False
    assert main([*files, "--real"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("VALID")
    assert "This holds in exact real arithmetic only, not in inference" in shown
    assert "not above all rounding errors of inference" in shown
    assert main([*files, "--real", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["covers_inference"] is False


def test_a_reason_cannot_draw_a_verdict_at_the_start_of_a_line(monkeypatch):
    """Spaces up to the edge of the terminal would put the rest of a name at the start of the next line."""
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((80, 24)))
    for name in (" " * 70 + "VALID: it holds.", "x" * 78 + "VALID: it holds.", "\u5b57" * 60 + "VALID: it holds."):
        lines = _wrapped(f'  - feature "{name}" is wrong', "    ")
        assert all(line.startswith("    ") for line in lines[1:])
        assert all(len(line) <= 80 for line in lines)

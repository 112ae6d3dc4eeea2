"""Completion: the scripts are there, bash accepts its own, and it completes."""

import os
import shutil
import subprocess
import sys

import pytest

from support.cli_case import Case, run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_FAIRMEND_COMPLETE" in result.stdout


def test_another_shell_is_refused():
    assert run("completion", "cmd").exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fairmend", "cer"], ["certify"]),
        (["fairmend", "certify", "--engine", "b"], ["branch"]),
        (["fairmend", "certify", "--time"], ["--time-limit"]),
        (["fairmend", "certify", "mo"], ["model.onnx"]),
        (["fairmend", "certify", "model.onnx", "--data", ""], ["people.csv"]),
        (["fairmend", "certify", "model.onnx", "--spec", ""], ["spec.toml"]),
    ],
)
def test_bash_completes(tmp_path, words, expected):
    case = Case(tmp_path / "project") if (tmp_path / "project").mkdir() is None else None
    (case.folder / "model.txt").write_text("no model")
    program = tmp_path / "bin" / "fairmend"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom fairmend.cli.main import main\nmain(prog_name='fairmend')\n")
    program.chmod(0o755)
    script = (
        "compopt() { :; }\n"  # only works while bash itself completes
        'eval "$(fairmend completion bash)"\n'
        f"COMP_WORDS=({' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words) - 1}\n"
        f"_fairmend_completion fairmend {words[-1]!r} {words[-2]!r}\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "-c", script], cwd=case.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.stdout.split() == expected, result.stderr


def test_folders_are_left_to_the_shell(tmp_path, monkeypatch):
    from fairmend.cli.main import main

    monkeypatch.chdir(tmp_path)
    case = Case(tmp_path)
    (case.folder / "models").mkdir()
    [parameter] = [p for p in main.commands["certify"].params if p.name == "model"]
    items = parameter.type.shell_complete(None, parameter, "mo")
    assert [item.type for item in items] == ["file"]
